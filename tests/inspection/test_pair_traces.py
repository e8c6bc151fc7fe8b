"""Traces of encoder-decoders: what is shown is what the model did, under the right labels."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy import SOURCE, TARGET, chinese, english, network, recurrent, translator, words

from budgerigar.errors import UserError
from budgerigar.generation.translation_options import TranslationOptions
from budgerigar.inspection import edited_network, trace
from budgerigar.inspection.pair_traces import PairTrace, trace_pair
from budgerigar.models.modes import without_source

MODELS: dict[str, Any] = {
    "post": lambda: translator(),
    "pre, relative": lambda: translator(norm_place="pre", positions="relative"),
    "grouped, rotary": lambda: translator(norm_place="pre", positions="rotary", n_kv_heads=2),
    "alibi, soft-cap": lambda: translator(positions="alibi", attention_softcap=2.0),
    "sandwich": lambda: translator(norm_place="sandwich", norm="rms", qk_norm="head"),
    "gru": lambda: recurrent(),
    "lstm, two layers": lambda: recurrent(cell="lstm", n_decoder_layers=2, n_encoder_layers=2),
    "one direction, tanh": lambda: recurrent(bidirectional=False, maxout=False),
}
SELF = ["post", "pre, relative", "grouped, rotary", "alibi, soft-cap", "sandwich"]


def seen_by(model: Any, target: str | None = TARGET, **options: Any) -> PairTrace:
    return trace_pair(model, english(), SOURCE, target, source_tokenizer=chinese(), **options)


@pytest.mark.parametrize("name", MODELS)
def test_difference_and_unchanged_logits(name: str) -> None:
    model = MODELS[name]()
    source = torch.tensor([[*chinese().encode(SOURCE), 0]])
    tokens = torch.tensor([[0, *english().encode(TARGET)]])
    with torch.no_grad():
        before = model(tokens, source=source)[0]
    seen = seen_by(model)
    assert torch.equal(seen.logits, before)
    with torch.no_grad():
        assert torch.equal(model(tokens, source=source)[0], before)
    kinds = [(site.of, site.kind) for site in seen.sites]
    both = [("encoder", "self"), ("decoder", "self"), ("decoder", "cross")]
    assert kinds == (both if name in SELF else both[2:])
    for of, kind in kinds:
        for head in seen.heads(of=of, kind=kind):
            assert head.difference < 1e-5, (of, kind, head.name)
            np.testing.assert_allclose(head.weights.sum(axis=1), 1.0, atol=1e-5)
            assert (head.weights[head.mask.hidden] == 0).all()
            assert head.mask.hidden.any() == (of == "decoder" and kind == "self")


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_cross_attention_are_named_by_the_token_being_predicted(name: str) -> None:
    seen = seen_by(MODELS[name]())
    head = seen.attention("L0.H0", kind="cross")
    assert head.query_labels == ["Xuan", "yuan", "␣has", "␣a", "␣budger", "igar", "<end>"]
    assert head.key_labels == ["轩辕", "有一", "只", "虎皮", "鹦鹉", "<end>"]
    assert "being predicted" in str(head)
    assert "source token" in str(head)
    if name in SELF:
        own = seen.attention("L1.H0", of="decoder", kind="self")
        assert own.query_labels == ["<start>", "Xuan", "yuan", "␣has", "␣a", "␣budger", "igar"]
        assert own.key_labels == own.query_labels
        assert seen.attention("L1.H0", of="encoder").query_labels == head.key_labels
        assert "the token that looks" in str(own)


def test_the_row_that_predicts_a_token_does_not_change_with_it() -> None:
    """The label's meaning, tested: row t is computed before token t is known."""
    for model in (translator(), recurrent()):
        one, other = (seen_by(model, f"Xuanyuan has a{word}") for word in (" budgerigar", " cat"))
        row = one.target_labels.index("␣budger")
        assert other.target_labels[row] == "␣cat"
        weights = [
            seen.attention("L0.H0", kind="cross").weights[: row + 1] for seen in (one, other)
        ]
        np.testing.assert_allclose(*weights, atol=1e-6)


def test_cross_attention_from_the_weights_alone_in_float64() -> None:
    """The first decoder layer by hand: an independent way to Bahdanau's weights and the rest."""
    model = recurrent(bidirectional=False)
    seen = seen_by(model)
    weight = {n: p.detach().double().numpy() for n, p in model.named_parameters()}
    hidden = np.asarray(seen.tap("encoder.0.hidden"), dtype=np.float64)  # (S,H)
    states = np.asarray(seen.tap("decoder.0.hidden"), dtype=np.float64)  # (T,H)
    start = np.asarray(seen.tap("decoder.0.hidden.start"), dtype=np.float64)[None]
    before = np.concatenate([start, states[:-1]])
    name = "decoder.0.cross_attention"
    query = before @ weight[f"{name}.query.weight"].T
    key = hidden @ weight[f"{name}.key.weight"].T + weight[f"{name}.key.bias"]
    scores = np.tanh(query[:, None] + key[None]) @ weight[f"{name}.score"]
    expected = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        seen.attention("L0.H0", kind="cross").weights, expected, rtol=1e-3, atol=1e-5
    )


def test_ids_are_taken_with_and_without_their_end() -> None:
    model = translator()
    source, target = chinese().encode(SOURCE), english().encode(TARGET)
    for given in ((source, target), ([*source, 0], [*target, 0])):
        seen = trace_pair(model, english(), *given, source_tokenizer=chinese())
        assert seen.source_ids == [*source, 0]
        assert seen.ids == [0, *target]
        assert seen.targets == [*target, 0]
        assert torch.equal(seen.logits, seen_by(model).logits)


def test_trace_takes_a_source_too() -> None:
    seen = trace(translator(), english(), TARGET, source=SOURCE, source_tokenizer=chinese())
    assert isinstance(seen, PairTrace)
    assert seen.text == TARGET
    assert seen.source == SOURCE
    assert f"“{SOURCE}” → “{TARGET}”" in seen.about


def test_one_vocabulary_serves_both_sides() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size, assembly="encoder-decoder", decoder_start=0)
    seen = trace_pair(model, tokenizer, " he was young .", "Xuanyuan had")
    assert seen.source_labels == ["he", "was", "young", ".", "<end>"]
    assert seen.target_labels == ["Xuanyuan", "had", "<end>"]


def test_without_a_target_the_model_translates_itself() -> None:
    for model in (translator(), recurrent()):
        seen = seen_by(model, None, options=TranslationOptions(beam_size=1, max_length=9))
        assert seen.own
        assert "own translation" in seen.about
        assert len(seen.targets) <= 9
        assert seen.ids == [0, *seen.targets[:-1]]
        for row, token in enumerate(seen.targets):  # what it wrote is what it thinks likeliest
            assert seen.guesses(row, 1)[0][0] == token
        assert seen_by(model, None).own  # a beam, without a limit but the context


def test_links_between_a_target_and_a_source_word() -> None:
    seen = seen_by(translator())
    links = seen.links("budgerigar", "虎皮鹦鹉")
    assert len(links) == 8
    head = seen.attention(links[0].name, kind="cross")
    assert links[0].weight == pytest.approx(head.weights[4:6, 3:5].sum(axis=1).mean())
    assert links[0].untrained is not None
    assert links[0].uniform == pytest.approx(2 / 6)
    assert "how much “budgerigar” (positions 4 to 5) looks at “虎皮鹦鹉” (positions 3 to 4)" in str(
        links
    )
    own = seen.links("budgerigar", "Xuanyuan", of="decoder", kind="self", untrained=False)
    assert len(own) == 8
    with pytest.raises(UserError, match="the other way round"):
        seen.links("虎皮鹦鹉", "budgerigar")
    only = seen_by(recurrent()).links("budgerigar", "虎皮鹦鹉")
    assert [link.name for link in only] == ["L0.H0"]
    assert only[0].untrained is not None


@pytest.mark.parametrize("name", ["post", "gru"])
def test_without_the_source_there_is_nothing_to_look_at(name: str) -> None:
    model = MODELS[name]()
    seen = seen_by(model, no_source=True)
    assert "source is switched off" in seen.about
    for head in seen.heads(kind="cross"):
        assert (head.weights == 0).all()
        assert (head.mask_reason == "source").all()
        assert head.difference == 0
        assert "the source is switched off" in str(head)
    other = trace_pair(without_source(model), english(), "猫", TARGET, source_tokenizer=chinese())
    assert other.no_source
    # whatever the source is, the logits are the same; with it they are not
    torch.testing.assert_close(seen.logits, other.logits)
    assert not torch.allclose(seen.logits, seen_by(model).logits, atol=1e-3)
    assert seen.alignment().links == frozenset()
    assert seen.alignment().best == [None] * 4


def test_heads_of_cross_attention_are_switched_off() -> None:
    source = torch.tensor([[*chinese().encode(SOURCE), 0]])
    tokens = torch.tensor([[0, *english().encode(TARGET)]])
    model = translator()
    edited = edited_network(model, ["L1.H2"], kind="cross")
    with torch.no_grad():
        before, after = model(tokens, source=source), edited(tokens, source=source)
        assert not torch.allclose(before, after, atol=1e-3)
        width = model.config.head_width
        output = list(model.decoder.blocks())[1].cross_attention.output.weight
        kept = output.clone()
        output[:, 2 * width : 3 * width] = 0
        torch.testing.assert_close(model(tokens, source=source), after, rtol=1e-4, atol=1e-4)
        output.copy_(kept)
        assert torch.equal(model(tokens, source=source), before)
        state, parts = edited.start(1, source=source), []
        for t in range(tokens.shape[1]):
            logits, state = edited.step(tokens[:, t : t + 1], state)
            parts.append(logits)
        torch.testing.assert_close(torch.stack(parts, 1), after, rtol=1e-4, atol=1e-4)
    seen = trace_pair(edited, english(), SOURCE, TARGET, source_tokenizer=chinese())
    assert (seen.tap("decoder.1.cross_attention.head_output")[2] == 0).all()
    assert torch.equal(seen.logits, after[0])
    with pytest.raises(UserError, match="say which"):
        edited_network(model, ["L1.H2"])
    for of in ("encoder", "decoder"):
        off = edited_network(model, "L0.H1", of=of, kind="self")
        with torch.no_grad():
            assert not torch.allclose(off(tokens, source=source), before, atol=1e-3)


def test_the_one_head_of_a_recurrent_translator_is_switched_off() -> None:
    model = recurrent()
    source = torch.tensor([[*chinese().encode(SOURCE), 0]])
    tokens = torch.tensor([[0, *english().encode(TARGET)]])
    edited = edited_network(model, "L0.H0")
    with torch.no_grad():
        after = edited(tokens, source=source)
        model.decoder.get_submodule("0").context.weight.zero_()
        model.head.transform.weight[:, -model.config.context_width :] = 0
        torch.testing.assert_close(model(tokens, source=source), after, rtol=1e-4, atol=1e-4)


def test_what_a_recurrent_translator_lacks() -> None:
    seen = seen_by(recurrent())
    with pytest.raises(UserError, match=r"no attention of='encoder'.*kind='cross'"):
        seen.attention("L0.H0", of="encoder")
    with pytest.raises(UserError, match="no output projection"):
        _ = seen.attention("L0.H0").contribution
    assert seen.attention("L0.H0").queries.shape == (7, 10)
    assert np.array_equal(
        seen.attention("L0.H0").queries, seen.attention("L0.H0").queries_unrotated
    )
    assert "tanh" in seen.attention("L0.H0").step_text("budgerigar")
    bare = seen_by(recurrent(attention="none", d_attention=None))
    with pytest.raises(UserError, match=r"has no attention to look at"):
        bare.attention("L0.H0")
    with pytest.raises(UserError, match=r"has no attention"):
        bare.alignment()
    assert len(bare.surprise()) == 8


def test_steps_of_cross_attention_name_the_predicted_token() -> None:
    text = seen_by(translator()).attention("L1.H2", kind="cross").step_text("has")
    assert "about to write" in text
    assert "what “␣has” (position 2)" in text
    assert "all 6 keys are visible" in text


def test_surprise_scores_every_token_of_the_translation_and_its_end() -> None:
    seen = seen_by(translator())
    scored = seen.surprise()
    assert [token.label for token in scored] == ["<start>", *seen.target_labels]
    assert scored[0].nats is None
    expected = -torch.log_softmax(seen.logits.double(), -1)[range(7), seen.targets]
    np.testing.assert_allclose([t.nats for t in scored[1:]], expected.numpy())


def test_a_prefix_asks_what_comes_next() -> None:
    model = translator()
    seen = seen_by(model, "Xuanyuan has a", prefix=True)
    assert seen.target_labels == ["Xuan", "yuan", "␣has", "␣a", "<next>"]
    assert seen.attention("L0.H0", kind="cross").query_labels[-1] == "<next>"
    assert len(seen.surprise()) == 5
    best = seen.guesses(top=3)
    chances = torch.softmax(seen.logits[-1].double(), -1)
    assert best[0] == (int(chances.argmax()), pytest.approx(float(chances.max())))
    assert seen.guesses(0)[0][0] == int(seen.logits[0].argmax())
    assert "a …”" in seen.about


def test_user_mistakes() -> None:
    model = translator()
    with pytest.raises(UserError, match="several kinds"):
        seen_by(model).attention("L0.H0")
    with pytest.raises(UserError, match="the source has 33 tokens"):
        trace_pair(model, english(), [1] * 32, TARGET, source_tokenizer=chinese())
    with pytest.raises(UserError, match="the translation has 33 tokens"):
        trace_pair(model, english(), SOURCE, [1] * 32, source_tokenizer=chinese())
    with pytest.raises(UserError, match="token id 11 in the source"):
        trace_pair(translator(source_vocab_size=11), english(), [11], TARGET)
    with pytest.raises(UserError, match=r"decoder-only.* reads no source"):
        trace_pair(network(5), english(), SOURCE, TARGET)


def test_an_empty_source_and_an_empty_translation() -> None:
    for model in (translator(), recurrent()):
        seen = trace_pair(model, english(), "", "", source_tokenizer=chinese())
        assert seen.attention("L0.H0", kind="cross").weights.tolist() == [[1.0]]
        assert "no words" in str(seen.alignment())


def test_pictures_of_a_translator(tmp_path: Path) -> None:
    seen = seen_by(translator())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a character that no font has is one
        assert seen.heatmap(tmp_path / "head.png", head="L1.H2").stat().st_size > 1000
    seen.heatmap(tmp_path / "grid.svg")
    grid = (tmp_path / "grid.svg").read_text(encoding="utf-8")
    assert "all heads, layer 0 at the top: decoder, cross-attention" in grid
    assert "query, the token being predicted; columns: key, the source token" in grid
    assert "L1.H3" in grid
    seen.heatmap(tmp_path / "layer.svg", layer=0, of="encoder")
    layer = (tmp_path / "layer.svg").read_text(encoding="utf-8")
    assert "heads of one layer: encoder, self-attention" in layer
    assert "鹉" in layer
    blank = seen_by(recurrent(), no_source=True)
    blank.heatmap(tmp_path / "blank.svg", head="L0.H0")
    assert "masked: the source is switched off" in (tmp_path / "blank.svg").read_text("utf-8")
