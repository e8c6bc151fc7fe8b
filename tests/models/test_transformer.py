"""The Transformer keeps its contract whatever the dials: one pass, one token at a time, any cut."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dials import config_of, pairwise_sample, whole_grid
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.layers.config import LayerPattern, RotaryScaling, TransformerConfig
from budgerigar.layers.taps import Taps
from budgerigar.models import build
from budgerigar.models.base import NextTokenModel
from budgerigar.models.modes import without_source
from budgerigar.models.transformer import Transformer


def close(a: Tensor, b: Tensor) -> None:
    """Promise 3: agreement to 1e-4 relative (to the largest logit)."""
    assert (a - b).abs().max() <= 1e-4 * b.abs().max().clamp(min=1.0)


def in_chunks(model: Any, tokens: Tensor, sizes: list[int], **start: Any) -> Tensor:
    state, out, at = model.start(len(tokens), **start), [], 0
    for size in sizes:
        logits, state = model.step(tokens[:, at : at + size], state, all_positions=True)
        out.append(logits)
        at += size
    return torch.cat(out, dim=1)


def keep_contract(config: TransformerConfig) -> None:
    """Trains a step; forward, steps, chunks, ragged rows and selected rows agree."""
    torch.manual_seed(0)
    model = Transformer(config, seed=1)
    tokens = torch.randint(0, config.vocab_size, (3, 12))
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    gradients = {n: p.grad for n, p in model.named_parameters()}
    lost = [n for n, g in gradients.items() if g is None or not torch.isfinite(g).all()]
    assert not lost, f"no finite gradient for {lost}"
    with torch.inference_mode():
        model.eval()
        whole = model(tokens)
        for sizes in ([1] * 12, [12], [5, 1, 6]):
            close(in_chunks(model, tokens, sizes), whole)
        lengths = torch.tensor([3, 7, 5])
        state = model.start(3)
        logits, state = model.step(tokens[:, :7], state, lengths=lengths)
        close(logits, whole[torch.arange(3), lengths - 1])
        assert state.lengths.tolist() == [3, 7, 5]
        state = state.select(torch.tensor([2, 0, 2]))
        following = torch.stack([tokens[2, 5:8], tokens[0, 3:6], tokens[2, 5:8]])
        logits, state = model.step(following, state, all_positions=True)
        close(logits, torch.stack([whole[2, 5:8], whole[0, 3:6], whole[2, 5:8]]))


@pytest.mark.parametrize("dials", pairwise_sample(), ids=lambda d: "-".join(map(str, d.values())))
def test_every_pair_of_dials_keeps_the_contract(dials: dict[str, Any]) -> None:
    keep_contract(config_of(dials))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_whole_grid_keeps_the_contract() -> None:
    for dials in whole_grid():
        keep_contract(config_of(dials))


def test_is_a_next_token_model() -> None:
    assert isinstance(build(config_of({})), NextTokenModel)


def test_layer_patterns() -> None:
    pattern = (LayerPattern(attention_window=3, rotary_base=500.0), LayerPattern(norm="rms"))
    config = config_of({"layers": pattern, "n_layers": 4})
    assert [config.window_of(i) for i in range(4)] == [3, None, 3, None]
    keep_contract(config)


def test_encoder_decoder_steps_equal_forward_with_padded_sources() -> None:
    torch.manual_seed(0)
    for dials in ({"positions": "sinusoidal", "norm_place": "post"}, {"positions": "relative"}):
        model = Transformer(config_of(dials, assembly="encoder-decoder"), seed=2).eval()
        source, tokens = torch.randint(0, 17, (3, 6)), torch.randint(0, 17, (3, 8))
        lengths = torch.tensor([6, 2, 4])
        with torch.inference_mode():
            whole = model(tokens, source=source, source_lengths=lengths)
            cut = in_chunks(model, tokens, [1, 4, 3], source=source, source_lengths=lengths)
            close(cut, whole)
            alone = model(tokens[1:2], source=source[1:2, :2])
            close(alone, whole[1:2])
            padded = source.clone()
            padded[1, 2:] = 5
            assert torch.equal(whole[1], model(tokens, source=padded, source_lengths=lengths)[1])


def test_encoder_only_ignores_padding_and_has_no_next_token() -> None:
    torch.manual_seed(0)
    dials = {"assembly": "encoder-only", "positions": "learned", "token_types": 2}
    model = Transformer(config_of(dials, head_transform=True, embedding_norm=True), seed=3).eval()
    tokens, lengths = torch.randint(0, 17, (2, 7)), torch.tensor([7, 4])
    with torch.inference_mode():
        close(model(tokens, lengths)[1, :4], model(tokens[1:, :4])[0])
    with pytest.raises(UserError, match="fill"):
        model.start(1)


def test_documents_are_invisible_to_each_other() -> None:
    torch.manual_seed(0)
    for positions in ("learned", "rotary", "relative", "alibi"):
        dials = {"positions": positions, "attention_window": 4, "sink_tokens": 1}
        model = Transformer(config_of(dials), seed=4).eval()
        first, second = torch.randint(0, 17, (1, 5)), torch.randint(0, 17, (1, 7))
        where = torch.cat([torch.arange(5), torch.arange(7)])[None]
        documents = torch.tensor([[0] * 5 + [1] * 7])
        with torch.inference_mode():
            packed = model(torch.cat([first, second], 1), document_ids=documents, positions=where)
            close(packed[:, :5], model(first))
            close(packed[:, 5:], model(second))


def test_a_later_token_moves_no_earlier_logit() -> None:
    model = Transformer(config_of({}), seed=5).eval()
    tokens = torch.randint(0, 17, (1, 9), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[0, 6:] = (changed[0, 6:] + 1) % 17
    with torch.inference_mode():
        assert torch.equal(model(tokens)[:, :6], model(changed)[:, :6])
        assert not torch.equal(model(tokens)[:, 6:], model(changed)[:, 6:])


@pytest.mark.parametrize("positions", ["rotary", "relative", "alibi", "none"])
def test_rolling_is_exact_without_sinks(positions: str) -> None:
    """What rolls out of every window could not be seen anyway, in a one-layer model."""
    dials = {"positions": positions, "attention_window": 5, "n_layers": 1}
    short = Transformer(config_of(dials, context_length=12), seed=6).eval()
    long = Transformer(config_of(dials, context_length=64), seed=6).eval()
    long.load_state_dict(short.state_dict())
    tokens = torch.randint(0, 17, (2, 40), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        whole = long(tokens)
        state = short.start(2)
        logits, state = short.step(tokens[:, :4], state, lengths=torch.tensor([4, 2]))
        read = [4, 2]
        for _ in range(36):
            if state.longest == 12:
                state = short.roll(state)
                assert state.longest < 12
            following = torch.stack([tokens[row, n : n + 1] for row, n in enumerate(read)])
            logits, state = short.step(following, state)
            read = [n + 1 for n in read]
            close(logits, torch.stack([whole[row, n - 1] for row, n in enumerate(read)]))


@pytest.mark.parametrize("scaling", [None, RotaryScaling("yarn", 8.0)])
def test_rolling_keeps_sinks_at_their_slots(scaling: RotaryScaling | None) -> None:
    """A rolled state answers like a fresh one that read the kept tokens' keys at slot positions."""
    dials: dict[str, Any] = {"positions": "rotary", "attention_window": 4, "sink_tokens": 2}
    dials |= {
        "n_layers": 1,
        "rotary_scaling": scaling,
    }  # yarn makes queries and keys longer: turning must not
    model = Transformer(config_of(dials, context_length=12), seed=7).eval()
    tokens = torch.randint(0, 17, (1, 11), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        _, state = model.step(tokens, model.start(1))
        rolled = model.roll(state)
        assert state.lengths.tolist() == [2 + 3]
        logits, _ = model.step(tokens[:, :1], rolled)
        kept = torch.cat([tokens[:, :2], tokens[:, -3:], tokens[:, :1]], 1)
        close(logits, model(kept)[:, -1])


def test_full_context_and_unrollable_models_say_so() -> None:
    model = Transformer(config_of({"positions": "learned"}), seed=8).eval()
    with pytest.raises(UserError, match="context is full"):
        model.step(torch.zeros(1, 25, dtype=torch.long), model.start(1))
    with pytest.raises(UserError, match="rewindow"):
        model.roll(model.start(1))


def test_taps_look_without_changing_and_replace_with_changing() -> None:
    model = Transformer(config_of({"n_kv_heads": 2}), seed=9).eval()
    tokens = torch.randint(0, 17, (2, 6))
    looking = Taps(["decoder.*", "logits"])
    with torch.inference_mode():
        plain = model(tokens)
        assert torch.equal(plain, model(tokens, taps=looking))
        off = Taps(replace={"decoder.1.self_attention.head_output": torch.zeros_like})
        assert not torch.equal(plain, model(tokens, taps=off))
        assert torch.equal(plain, model(tokens))
    names = {
        f"decoder.1.{n}"
        for n in (
            *(f"self_attention.{m}" for m in ("query_unrotated", "key_unrotated", "query", "key")),
            *(f"self_attention.{m}" for m in ("value", "head_output", "output")),
            *("residual_before", "residual_middle", "residual_after"),
            *("feed_forward.hidden", "feed_forward.output"),
        )
    }
    assert names <= set(looking.values)
    assert looking.values["decoder.1.self_attention.key"].shape == (2, 2, 6, 4)
    assert torch.equal(looking.values["logits"], plain)


def test_replacement_of_another_shape_is_refused() -> None:
    model = Transformer(config_of({}), seed=9)
    taps = Taps(replace={"decoder.embedding": lambda x: x[:, :1]})
    with pytest.raises(ValueError, match="shape"):
        model(torch.zeros(1, 3, dtype=torch.long), taps=taps)


def test_initialisation() -> None:
    wide = {"d_model": 256, "n_heads": 4, "init_std": 0.02, "n_layers": 8}

    def weights(**dials: Any) -> dict[str, Tensor]:
        return dict(Transformer(config_of({**wide, **dials}), seed=0).named_parameters())

    scaled = weights()
    assert scaled["decoder.0.self_attention.query.weight"].std().item() == pytest.approx(
        0.02, rel=0.02
    )
    for name in ("self_attention.output", "feed_forward.down"):
        std = scaled[f"decoder.3.{name}.weight"].std().item()
        assert std == pytest.approx(0.02 / 16**0.5, rel=0.02)
    zero = weights(initialisation="zero-output")
    assert not zero["decoder.0.self_attention.output.weight"].any()
    assert zero["decoder.0.self_attention.value.weight"].any()
    t5 = weights(initialisation="t5", positions="relative")
    assert t5["embedding.tokens.weight"].std().item() == pytest.approx(1, rel=0.03)
    again = weights()
    assert all(torch.equal(again[n], scaled[n]) for n in scaled)


@pytest.mark.parametrize("window", [{"attention_window": 2}, {"layers": (LayerPattern(2),)}])
def test_an_encoder_looks_both_ways_whatever_the_decoders_window(window: dict[str, Any]) -> None:
    config = config_of({"positions": "rotary", **window}, assembly="encoder-decoder")
    model, twin = (Transformer(c, seed=2).eval() for c in (config, config.replace(sink_tokens=1)))
    wide = Transformer(config.replace(attention_window=None, layers=()), seed=2).eval()
    source = torch.randint(0, 17, (1, 9), generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        assert torch.equal(model.encode(source), wide.encode(source))
        assert torch.equal(model.encode(source), twin.encode(source))
    assert [b.self_attention.window for b in model.decoder.blocks()] == [2, 2]  # type: ignore[union-attr]


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_padding_beyond_the_context_disturbs_no_row(positions: str) -> None:
    """Rows of 20 and 3 tokens read 4 and 6 more; padded to 6 the longer one would pass 24."""
    model = Transformer(config_of({"positions": positions}), seed=4).eval()
    tokens = torch.randint(0, 17, (2, 24), generator=torch.Generator().manual_seed(5))
    with torch.inference_mode():
        whole = model(tokens)
        _, state = model.step(tokens[:, :20], model.start(2), lengths=torch.tensor([20, 3]))
        following = torch.stack([tokens[0, 18:24].roll(-2), tokens[1, 3:9]])
        logits, state = model.step(following, state, lengths=torch.tensor([4, 6]))
        assert state.lengths.tolist() == [24, 9]
        close(logits, torch.stack([whole[0, 23], whole[1, 8]]))
        with pytest.raises(UserError, match="context is full"):
            model.step(tokens[:, :1], state)


@pytest.mark.parametrize(
    "dials", [{"n_kv_heads": 2}, {"attention_window": 3}, {"sink_logit": True}]
)
def test_a_batch_of_no_rows(dials: dict[str, Any]) -> None:
    model = Transformer(config_of(dials), seed=4).eval()
    with torch.inference_mode():
        _, state = model.step(torch.zeros(2, 3, dtype=torch.long), model.start(2))
        state = state.select(torch.zeros(0, dtype=torch.long))
        logits, state = model.step(torch.zeros(0, 1, dtype=torch.long), state)
        assert logits.shape == (0, 17)
        assert model(torch.zeros(0, 3, dtype=torch.long)).shape == (0, 3, 17)


def test_what_does_not_fit_the_model_is_said() -> None:
    long = torch.zeros(1, 25, dtype=torch.long)
    learned = Transformer(config_of({"positions": "learned"}))
    both = Transformer(config_of({"positions": "learned"}, assembly="encoder-decoder"))
    with pytest.raises(UserError, match="25 tokens"):
        learned(long)
    with pytest.raises(UserError, match="25 tokens"):
        both.start(1, source=long)
    for call in (learned, learned.start):
        with pytest.raises(UserError, match="reads no source"):
            call(long[:, :1] if call is learned else 1, source=long)


def test_taps_of_both_stacks_begin_with_the_embedding() -> None:
    for shared in (True, False):
        config = config_of({}, assembly="encoder-decoder", shared_embeddings=shared)
        taps = Taps(["*embedding"])
        with torch.inference_mode():
            tokens, source = torch.zeros(1, 3, dtype=torch.long), torch.ones(1, 5, dtype=torch.long)
            Transformer(config)(tokens, source=source, taps=taps)
        shapes = {name: tuple(value.shape) for name, value in taps.values.items()}
        assert shapes == {"encoder.embedding": (1, 5, 16), "decoder.embedding": (1, 3, 16)}


def test_a_pair_that_is_learnt_without_its_source_is_as_if_the_source_were_blanked() -> None:
    config = TransformerConfig(
        assembly="encoder-decoder", vocab_size=13, context_length=8, d_model=16, n_layers=2,
        n_heads=2, decoder_start=0, output_bias=False, dropout_source=0.5, initialisation="normal",
        init_std=0.3,
    )  # fmt: skip
    model = Transformer(config, seed=0)
    tokens, source = torch.randint(0, 13, (64, 6)), torch.randint(0, 13, (64, 5))
    given = {"source": source, "source_lengths": torch.full((64,), 5)}
    with torch.no_grad():
        model.train()
        torch.manual_seed(0)
        learnt = model(tokens, **given)
        model.eval()
        seen, blank = model(tokens, **given), without_source(model)(tokens, **given)
    as_seen, as_blank = (
        torch.isclose(learnt, other, atol=1e-5).flatten(1).all(1) for other in (seen, blank)
    )
    assert (as_seen ^ as_blank).all()
    assert 16 < int(as_blank.sum()) < 48
