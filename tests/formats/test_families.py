"""Each family against `transformers`: in, run, looked into, and out again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_models import CASES, DECODERS, ENCODERS, TRANSLATORS, V, ids, saved, theirs
from torch import Tensor

from budgerigar.formats.hugging_face import describe, load_weights, run_config
from budgerigar.formats.hugging_face_out import save_hugging_face
from budgerigar.formats.run import Loaded
from budgerigar.generation.generate import generate_ids
from budgerigar.generation.options import SamplingOptions
from budgerigar.layers.positions import relative_buckets, sinusoids
from budgerigar.layers.taps import Taps
from budgerigar.models.transformer import Transformer


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """name -> (folder, network), each made once."""
    made: dict[str, tuple[Path, Transformer]] = {}

    def get(name: str) -> tuple[Path, Transformer]:
        if name not in made:
            folder = saved(name, tmp_path_factory.mktemp(name))
            made[name] = folder, load_weights(describe(folder))[0]
        return made[name]

    return get


def close(mine: Tensor, other: Tensor, at_most: float = 1e-4) -> None:
    assert mine.shape == other.shape
    assert (mine - other).abs().max() <= at_most * other.abs().max()


@torch.inference_mode()
def logits(name: str, model: Any, network: Transformer, rows: int = 2) -> tuple[Tensor, Tensor]:
    """(ours, theirs) of the same tokens, the second row padded where there is a source."""
    tokens = ids(rows, 40)
    if name in DECODERS:
        return network(tokens), model(tokens).logits
    lengths = torch.tensor([30, 17] if rows == 2 else [30])
    real = (torch.arange(30) < lengths[:, None]).long()
    source = ids(rows, 30, seed=1)
    given = {"input_ids": source, "attention_mask": real}
    if name in TRANSLATORS:
        mine = network(tokens, source=source, source_lengths=lengths)
        return mine, model(**given, decoder_input_ids=tokens).logits
    types = (torch.arange(30) >= 9).long().expand(rows, 30)
    if name.startswith("distilbert"):
        out, mine = model(**given), network(source, lengths)
    else:
        out = model(**given, token_type_ids=types)
        mine = network(source, lengths, token_types=types)
    found = getattr(out, "logits", None)
    found = getattr(out, "prediction_logits", None) if found is None else found
    other = out.last_hidden_state if found is None else found
    if name == "bert-classes":
        return mine, other
    seen = real.bool()
    return mine[seen], other[seen]


@pytest.mark.parametrize("name", CASES)
def test_logits_are_theirs(name: str, ours: Any) -> None:
    close(*logits(name, theirs(name), ours(name)[1]))


@torch.inference_mode()
def greedy(model: Any, n: int, first: Tensor, source: Tensor | None = None) -> list[int]:
    """n tokens of theirs, the whole text read again for each; no ties are met."""
    tokens = first[None]
    read = None if source is None else model.get_encoder()(source[None])
    for _ in range(n):
        if read is None:
            last = model(tokens).logits[0, -1]
        else:
            last = model(encoder_outputs=read, decoder_input_ids=tokens).logits[0, -1]
        best = last.topk(2)
        assert best.values[0] - best.values[1] > 1e-4 * last.abs().max()
        tokens = torch.cat([tokens, best.indices[:1, None]], 1)
    return tokens[0, len(first) :].tolist()


@pytest.mark.parametrize("name", [*DECODERS, *TRANSLATORS])
def test_64_greedy_tokens_are_theirs_alone_and_in_a_batch(name: str, ours: Any) -> None:
    network, model = ours(name)[1], theirs(name)
    options = SamplingOptions(temperature=0, max_new_tokens=64)
    if name in DECODERS:
        prompts, sources = [ids(1, n, seed=n)[0] for n in (7, 3)], None
        pairs: list[Any] = [(prompt,) for prompt in prompts]
    else:
        start = network.config.decoder_start
        assert start == model.config.decoder_start_token_id
        prompts = [torch.tensor([start])] * 2
        sources = [ids(1, n, seed=n)[0] for n in (7, 3)]
        pairs = list(zip(prompts, sources, strict=True))
    written: list[list[int]] = [[], []]
    for event in generate_ids(
        network,
        [prompt.tolist() for prompt in prompts],
        options,
        sources=None if sources is None else [source.tolist() for source in sources],
    ):
        written[event.request].append(event.token)
    assert written[0] == greedy(model, 64, *pairs[0])
    assert written[1][:16] == greedy(model, 16, *pairs[1])  # the other row of the batch


@pytest.mark.parametrize("name", [*DECODERS, *TRANSLATORS])
def test_any_cut_of_a_text_gives_the_same_logits(name: str, ours: Any) -> None:
    network = ours(name)[1]
    tokens, given = ids(2, 20), {}
    if name in TRANSLATORS:
        given = {"source": ids(2, 9, seed=1), "source_lengths": torch.tensor([9, 4])}
    with torch.inference_mode():
        whole = network(tokens, **given)
        for cuts in ([20], [1] * 20, [7, 1, 12]):
            state, at = network.start(2, **given), 0
            for cut in cuts:
                out, state = network.step(tokens[:, at : at + cut], state, all_positions=True)
                close(out, whole[:, at : at + cut])
                at += cut
        state = network.start(2, **given)
        out, state = network.step(tokens, state, lengths=torch.tensor([20, 6]))
        close(out, torch.stack([whole[0, 19], whole[1, 5]]))
        out, _ = network.step(tokens[1:, 6:7], state.select(torch.tensor([1])))
        close(out, whole[1:, 6])


def weights_of(network: Transformer, tokens: Tensor, **given: Tensor) -> dict[str, Tensor]:
    """The attention weights that our model used."""
    taps = Taps(["*.weights"], {"*_attention.weights": lambda weights: weights})
    with torch.inference_mode():
        network(tokens, **given, taps=taps)
    return taps.values


@pytest.mark.parametrize("name", [*DECODERS, *TRANSLATORS, *ENCODERS])
def test_attention_weights_are_those_of_their_eager_path(name: str, ours: Any) -> None:
    model = theirs(name)
    model.set_attn_implementation("eager")
    tokens = ids(2, 12)
    asked = {"output_attentions": True}
    with torch.inference_mode():
        if name in TRANSLATORS:
            source = ids(2, 9, seed=1)
            out = model(input_ids=source, decoder_input_ids=tokens, **asked)
            found = weights_of(ours(name)[1], tokens, source=source)
            kinds = {
                "encoder.{}.self_attention": out.encoder_attentions,
                "decoder.{}.self_attention": out.decoder_attentions,
                "decoder.{}.cross_attention": out.cross_attentions,
            }
        else:
            stack = "decoder" if name in DECODERS else "encoder"
            kinds = {stack + ".{}.self_attention": model(tokens, **asked).attentions}
            found = weights_of(ours(name)[1], tokens)
    assert len(found) == sum(map(len, kinds.values()))
    for kind, layers in kinds.items():
        for layer, wanted in enumerate(layers):
            close(found[kind.format(layer) + ".weights"], wanted)


@pytest.mark.parametrize("name", CASES)
def test_out_again_they_load_it_without_a_complaint(name: str, ours: Any, tmp_path: Path) -> None:
    folder, network = ours(name)
    loaded = Loaded(network, None, run_config(describe(folder)), None, folder)
    exported = save_hugging_face(loaded, tmp_path / "out")
    model = theirs(name)
    assert exported.architecture == type(model).__name__
    again, info = type(model).from_pretrained(tmp_path / "out", output_loading_info=True)
    missing = {key for key in info["missing_keys"] if "seq_relationship" not in key}
    assert not missing
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    found, wanted = (logits(name, m.eval(), network)[1] for m in (again, model))
    close(found, wanted, at_most=1e-6)


def test_bert_pools_as_they_do(ours: Any) -> None:
    network, tokens = ours("minilm")[1], ids(2, 11)
    with torch.inference_mode():
        wanted = theirs("minilm")(tokens)
        vectors = network.vectors(tokens)
        close(vectors, wanted.last_hidden_state)
        close(network.pooled(vectors), wanted.pooler_output)


def test_words_are_filled_in_as_they_do(ours: Any) -> None:
    network, tokens = ours("bert")[1], ids(2, 11)
    mask = torch.zeros(2, 11, dtype=torch.bool)
    mask[0, 3] = mask[1, 7] = mask[1, 8] = True
    with torch.inference_mode():
        wanted = theirs("bert")(tokens.masked_fill(mask, 4)).logits[mask]
        close(network.predict(tokens, mask, mask_id=4), wanted)


# -- what a family's files may differ in -------------------------------------------------------------
@pytest.mark.parametrize("name", ["gpt2", "llama3", "t5", "marian"])
def test_sixteen_bits_are_read_as_they_stand(name: str, tmp_path: Path) -> None:
    theirs(name).to(torch.bfloat16).save_pretrained(tmp_path)
    rounded = type(theirs(name)).from_pretrained(tmp_path, dtype=torch.float32).eval()
    network, report = load_weights(describe(tmp_path))
    assert {entry.stored for entry in report.entries} <= {"BF16", "F32"}
    close(*logits(name, rounded, network))


def test_the_model_without_its_head_is_the_same_model(tmp_path: Path) -> None:
    """Names then lack their first word; GPT-2's oldest files are of this kind."""
    model = theirs("gpt2")
    model.transformer.save_pretrained(tmp_path)
    network, report = load_weights(describe(tmp_path))
    assert "wte.weight" in {entry.theirs for entry in report.entries}
    close(*logits("gpt2", model, network))


def test_every_weight_is_accounted_for(ours: Any) -> None:
    for name in CASES:
        folder, network = ours(name)
        found = describe(folder)
        report = load_weights(found)[1]
        assert {e.ours for e in report.entries} == {n for n, _ in network.named_parameters()}
        told = {e.theirs for e in report.entries} | {n for n, _ in report.tied + report.ignored}
        assert told == set(found.tensors.names())
    text = load_weights(describe(ours("gpt2")[0]))[1].text()
    assert "decoder.0–1.self_attention.key.weight  ←  transformer.h.0–1.attn.c_attn.weight" in text
    assert "transposed (Conv1D), then part 2 of 3 (fused QKV)" in text


def test_configurations_of_before_say_the_same(ours: Any, tmp_path: Path) -> None:
    """rope_scaling and rope_theta are rope_parameters today; `type` was its rope_type."""
    for name, kind in (("llama3", "rope_type"), ("llama-yarn", "type")):
        folder = ours(name)[0]
        values = json.loads((folder / "config.json").read_text())
        new = values.pop("rope_parameters")
        values["rope_theta"] = new.pop("rope_theta")
        values["rope_scaling"] = {kind: new.pop("rope_type"), **new}
        old = tmp_path / name
        old.mkdir()
        (old / "config.json").write_text(json.dumps(values))
        (old / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
        assert describe(old).config == describe(folder).config


@pytest.mark.parametrize("name", ["linear", "llama3", "yarn"])
def test_rotary_scaling_over_the_whole_context(name: str, tmp_path: Path) -> None:
    """Beyond the context of the training before stretching, and far into it."""
    ropes = {
        "linear": {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 4.0},
        "llama3": {
            "rope_type": "llama3",
            "rope_theta": 500_000.0,
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 128,
        },
        "yarn": {
            "rope_type": "yarn",
            "rope_theta": 10_000.0,
            "factor": 8.0,
            "beta_fast": 16.0,
            "original_max_position_embeddings": 128,
        },
    }
    config = transformers.LlamaConfig(
        vocab_size=V, hidden_size=64, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=1, max_position_embeddings=1024, rope_parameters=ropes[name],
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    network = load_weights(describe(tmp_path))[0]
    tokens = ids(1, 900)
    with torch.inference_mode():
        close(network(tokens), model(tokens).logits)


def test_all_layers_of_a_stack_share_the_bias_of_its_first(ours: Any) -> None:
    folder, network = ours("t5")
    entries = {e.ours: e.theirs for e in load_weights(describe(folder))[1].entries}
    biases = {name: theirs for name, theirs in entries.items() if "relative_bias" in name}
    assert biases == {
        f"{stack}.relative_bias.weight": f"{stack}.block.0.layer.0.SelfAttention."
        "relative_attention_bias.weight"
        for stack in ("encoder", "decoder")
    }
    tokens, source = ids(1, 9), ids(1, 9, seed=1)
    with torch.no_grad():
        before = network(tokens, source=source)
        network.get_parameter("decoder.relative_bias.weight").mul_(3)
        model = theirs("t5")
        model.decoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight.mul_(3)
        wanted = model(input_ids=source, decoder_input_ids=tokens).logits
        try:
            assert not torch.allclose(network(tokens, source=source), before)
            close(network(tokens, source=source), wanted)
        finally:
            network.get_parameter("decoder.relative_bias.weight").div_(3)


@pytest.mark.parametrize("both_ways", [True, False])
def test_buckets_of_distances_are_theirs(both_ways: bool) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    distances = torch.arange(-1500, 1500)
    for n_buckets, most in ((32, 128), (8, 20), (64, 256)):
        wanted = T5Attention._relative_position_bucket(distances, both_ways, n_buckets, most)
        assert torch.equal(relative_buckets(distances, n_buckets, most, both_ways), wanted)


def test_sines_and_cosines_are_theirs_over_the_whole_context() -> None:
    """Theirs are computed in float64 once, ours in float32 where they are needed."""
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    table = MarianSinusoidalPositionalEmbedding(1024, 64).create_weight()
    assert (sinusoids(torch.arange(1024), 64, "split") - table).abs().max() < 1e-4
