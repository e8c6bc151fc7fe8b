"""What a question of the page may say, and what each view promises, for every kind of model."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest
import torch
import viewed
from viewed import PAIR, STORY, view

from budgerigar.api.model import Model
from budgerigar.errors import UserError
from budgerigar.inspection.editing import EditedNetwork
from budgerigar.inspection.traces import Trace
from budgerigar.inspection.views import VIEWS, ask, can, look_at, value_of
from budgerigar.inspection.views.look import MOST_TOKENS
from budgerigar.inspection.views.payload import described

KINDS = list(viewed.MODELS)


# -- what a question may say -----------------------------------------------------------------------


def test_heads_that_are_off() -> None:
    model = viewed.decoder()
    plain = look_at(model, {"text": STORY})
    looked = look_at(model, {"text": STORY, "off": ["L0.H1", "L1"], "how": "zero"})
    assert isinstance(looked.network, EditedNetwork)
    edited = model.edited(["L0.H1", "L1"])
    assert torch.equal(looked.trace.logits, edited.trace(STORY).logits)
    assert not torch.equal(looked.trace.logits, plain.trace.logits)
    assert view(looked, "about")["off"] == ["L0.H1", "L1"]
    assert [view(looked, "head", layer=0, head=h)["off"] for h in range(4)] == [
        False,
        True,
        False,
        False,
    ]
    assert view(looked, "head", layer=1, head=0)["off"]
    steps = view(looked, "steps", layer=0, head=1, query=4)
    assert not steps["model_output"].any()
    assert not steps["contribution"].any()
    assert steps["head_output"].any()  # what it would have been
    text = view(looked, "generate", count=4, temperature=0.0)["text"]
    assert text == edited.generate(STORY, max_new_tokens=4, temperature=0.0)
    assert looked.edits == {"off": ["L0.H1", "L1"], "how": "zero", "of": None, "kind": None}
    with pytest.raises(UserError, match="no layer 7"):
        look_at(model, {"text": STORY, "off": ["L7.H0"]})
    pair = look_at(
        viewed.translator(), {**PAIR, "off": ["L0.H0"], "of": "decoder", "kind": "cross"}
    )
    assert view(pair, "head", layer=0, head=0, of="decoder", kind="cross")["off"]
    assert not view(pair, "head", layer=0, head=0, of="encoder", kind="self")["off"]


@pytest.mark.parametrize("kind", ["encoder-decoder", "rnn-encoder-decoder"])
def test_without_the_source(kind: str) -> None:
    model = viewed.MODELS[kind]()
    looked = look_at(model, {**PAIR, "blank": True})
    assert torch.equal(looked.trace.logits, model.without_source().trace(*PAIR.values()).logits)
    shown = view(looked, "head", layer=0, head=0, of="decoder", kind="cross")
    reasons = view(looked, "read")["reasons"]
    assert {reasons[code] for code in np.unique(shown["mask"])} == {
        "masked: the source is switched off"
    }
    assert view(looked, "alignment")["blank"]
    assert not view(look_at(model, PAIR), "alignment")["blank"]
    own = look_at(model, {"source": PAIR["source"], "target": None})
    assert view(own, "read")["own"]


def test_an_encoder_fills_in() -> None:
    model = viewed.encoder()
    looked = look_at(model, {"text": STORY, "mask": [4, 2]})
    found = view(looked, "read")
    labels = found["spellings"]["read"]["labels"]
    assert [place for place, label in enumerate(labels) if label == "[MASK]"] == [2, 4]
    assert [gap["position"] for gap in found["fill"]] == [2, 4]
    ids = model.encode(STORY)
    tokens, mask = torch.tensor([ids]), torch.zeros(1, len(ids), dtype=torch.bool)
    mask[0, [2, 4]] = True
    given = model.network.predict(tokens, mask, mask_id=model.tokenizer.mask_id).softmax(-1)
    for gap, chances in zip(found["fill"], given, strict=True):
        np.testing.assert_allclose(
            gap["p"], np.sort(chances.detach().numpy())[::-1][:200], rtol=1e-4
        )
        assert gap["p"].sum() + gap["rest"] == pytest.approx(1, abs=1e-6)
        assert all(str(number) in found["words"] for number in gap["ids"])
    assert view(looked, "about")["tokenizer"]["mask"]
    with pytest.raises(UserError, match="no position 99"):
        look_at(model, {"text": STORY, "mask": [99]}).trace  # noqa: B018


def test_another_moment_of_its_training() -> None:
    early, late = viewed.decoder(), viewed.decoder(n_layers=1)
    asked: list[str] = []

    def load(name: str) -> Model:
        asked.append(name)
        return early

    looked = look_at(late, {"text": STORY, "checkpoint": "step-00000100"}, load)
    assert asked == ["step-00000100"]
    assert looked.network is early.network
    assert view(looked, "about")["checkpoint"] == "step-00000100"
    assert look_at(late, {"text": STORY, "checkpoint": None}, load).network is late.network
    with pytest.raises(UserError, match="no checkpoint"):
        look_at(late, {"text": STORY, "checkpoint": "step-1"})


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ([], "JSON object"),
        ({"txt": "a"}, "no part 'txt'"),
        ({"text": 3}, "must be text"),
        ({"text": None}, "must be text"),
        ({"text": "a", "off": "L0.H0"}, "must be a list"),
        ({"text": "a", "off": [1]}, "must be a list"),
        ({"text": "a", "how": "gently"}, "zero, mean or resample"),
        ({"text": "a", "mask": [True]}, "list of positions"),
        ({"text": "a", "mask": [0]}, "only an encoder"),
        ({"text": "a", "ids": [1]}, "not both"),
        ({"ids": [-1]}, "token ids"),
        ({"ids": [10**6]}, "does not exist"),
        ({"source": "a"}, "kind decoder"),
        ({"text": "a", "blank": True}, "kind decoder"),
        ({"text": "half \ud83e"}, "half of a character"),
        ({}, "no text"),
        ({"text": "a" * (MOST_TOKENS + 1)}, "at most"),
    ],
)
def test_questions_that_cannot_be_asked(question: Any, message: str) -> None:
    model = viewed.decoder("byte", context_length=4096)
    with pytest.raises(UserError, match=message):
        ask(look_at(model, question), "read")


def test_questions_that_a_translator_refuses() -> None:
    model = viewed.translator()
    for question, message in [
        ({"text": "a"}, "source"),
        ({}, "no source"),
        ({"ids": [1]}, "source"),
    ]:
        with pytest.raises(UserError, match=message):
            ask(look_at(model, question), "read")
    assert view(look_at(model, {}), "about")["pair"]  # about the model alone


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("nonsense", {}, "no view named"),
        ("head", {"layer": 0}, "head is missing"),
        ("head", {"layer": 0, "head": 9}, "no head 9"),
        ("head", {"layer": 9, "head": 0}, "no layer 9"),
        ("head", {"layer": -1, "head": 0}, "whole number"),
        ("head", {"layer": "0", "head": 0}, "whole number"),
        ("head", {"layer": True, "head": 0}, "whole number"),
        ("head", {"layer": 0, "head": 0, "colour": 1}, "no parameter 'colour'"),
        ("head", {"layer": 0, "head": 0, "kind": "cross"}, "kind='cross'"),
        ("head", {"layer": 0, "head": 0, "kind": "crass"}, "self or cross"),
        ("row", {"layer": 0, "head": 0, "query": 99}, "no query 99"),
        ("steps", {"layer": 0, "head": 0, "query": 99}, "no query 99"),
        ("grid", {"layer": 9}, "no layer 9"),
        ("links", {"query": "it", "key": 0.5}, "a position, a list of positions, or a word"),
        ("links", {"query": 99, "key": 0}, "no position 99"),
        ("generate", {"count": 0}, "from 1 to 200"),
        ("generate", {"temperature": float("nan")}, "a number from"),
        ("generate", {"top_p": 2}, "a number from"),
        ("read", {"top": 1000}, "from 1 to 50"),
        ("gates", {}, "no gates"),
        ("read", [1], "JSON object"),
    ],
)
def test_parameters_are_checked(name: str, params: Any, message: str) -> None:
    looked = viewed.look("decoder")
    with pytest.raises(UserError, match=message):
        ask(looked, name, params)


@pytest.mark.parametrize("kind", KINDS)
def test_what_fits_is_shown_and_what_does_not_is_refused_in_words(kind: str) -> None:
    model = viewed.MODELS[kind]()
    about = view(look_at(model, {}), "about")
    assert about["kind"] == kind
    assert about["views"] == can(model)
    assert {*about["views"], *about["refused"]} == set(VIEWS)
    looked = viewed.look(kind)
    for name, words in about["refused"].items():
        with pytest.raises(UserError, match=re.escape(words)):
            ask(looked, name, {})
    if kind == "decoder":
        assert about["parameters"] == sum(p.numel() for p in model.network.parameters())
        assert ["d_model", "16"] in dict(about["facts"])["sizes"]


@pytest.mark.parametrize("kind", KINDS)
def test_how_many_tokens_texts_have(kind: str) -> None:
    looked = viewed.look(kind)
    texts = ["a", STORY]
    found = view(look_at(looked.model, {}), "count", texts=texts)
    if looked.pair:
        wanted = [len(looked.source_tokenizer.encode(text)) + 1 for text in texts]  # its <end>
    else:
        wanted = [len(looked.model.encode(text)) for text in texts]
    assert found["tokens"].tolist() == wanted
    assert found["most_tokens"] == view(looked, "about")["most_tokens"]
    with pytest.raises(UserError, match="at most 32 texts"):
        view(looked, "count", texts=["a"] * 33)


# -- promises --------------------------------------------------------------------------------------

PARAMS: dict[str, dict[str, Any]] = {
    "count": {"texts": ["a"]},
    "links": {"query": 3, "key": 1},
    "head": {"layer": 0, "head": 0},
    "row": {"layer": 0, "head": 0, "query": 2},
    "steps": {"layer": 0, "head": 0, "query": 2},
    "generate": {"count": 2},
    "unit": {"layer": 0, "unit": 0},
    "reach": {"positions": 2},
}
OURS = ("about", "count", "read", "links", "grid", "head", "row", "steps", "alignment", "generate",
        "gates", "unit", "reach", "back_off")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_docstrings_name_every_key(kind: str) -> None:
    looked = viewed.look(kind)
    for name in set(OURS) & set(can(looked.model)):
        params = dict(PARAMS.get(name, {}))
        if looked.pair and name in ("grid", "links", "head", "row", "steps"):
            params |= {"of": "decoder", "kind": "cross"}
        value = value_of(looked, name, params)
        run = VIEWS[name].run  # a long value is described at the head of its file
        described_in = f"{run.__doc__} {sys.modules[run.__module__].__doc__}"
        missing = [key for key in value if f'"{key}"' not in described_in]
        assert not missing, f"{name}: {missing}"


def test_stored_precision_is_stated_and_kept() -> None:
    looked = viewed.look("decoder")
    at = {"layer": 1, "head": 1, "query": 7}
    exact, half = view(looked, "steps", **at), view(looked, "steps", full=False, **at)
    entries = [
        e for e in described(ask(looked, "steps", {**at, "full": False})) if e["type"] == "f2"
    ]
    assert entries
    largest = max(entry["within"] for entry in entries if "within" in entry)
    for name in ("q", "k", "v", "scores", "weights", "head_output", "contribution"):
        assert np.abs(exact[name] - half[name]).max() <= largest
    assert not any("within" in entry for entry in described(ask(looked, "steps", at)))
    long = look_at(viewed.decoder("byte", context_length=512), {"text": "a budgerigar " * 22})
    wide = described(ask(long, "head", {"layer": 0, "head": 0}))[0]
    assert wide["type"] == "u1"
    apart = np.abs(
        view(long, "head", layer=0, head=0)["weights"] - long.trace.attention("L0.H0").weights
    )
    assert apart.max() <= wide["within"] < 0.002


def sliced(whole: dict[str, Any], query: int) -> dict[str, Any]:
    """One query of all, by the names in "rows": what the page of a file does."""
    one = {name: dict(part) if isinstance(part, dict) else part for name, part in whole.items()}
    for name in whole["rows"]:
        first, _, inner = name.partition(".")
        if inner:
            one[first][inner] = whole[first][inner][query]
        else:
            one[first] = whole[first][query]
    return one


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder", "rnn-encoder-decoder"])
def test_one_query_can_be_cut_from_all_and_all_put_together_from_parts(kind: str) -> None:
    dials = {"sink_logit": True, "norm_place": "sandwich"} if kind == "decoder" else {}
    looked = viewed.look(kind, **dials)
    at: dict[str, Any] = {"layer": 0, "head": 0}
    if looked.pair:
        at |= {"of": "decoder", "kind": "cross"}
    one, whole = view(looked, "steps", query=2, **at), view(looked, "steps", **at)
    assert one["rows"] == []
    cut = sliced(whole, 2)
    for name, part in one.items():
        if name in ("query", "label", "weighted", "rows"):
            continue
        expected, given = (
            (part["vector"], cut[name]["vector"]) if name == "before" else (part, cut[name])
        )
        if isinstance(expected, np.ndarray):
            np.testing.assert_array_equal(expected, given, name)
    layer, head = (view(looked, "steps", parts=parts, **at) for parts in ("layer", "head"))
    assert layer["q"] is layer["weights"] is head["before"] is head["W_Q"] is None
    both = {name: layer[name] if head[name] is None else head[name] for name in whole}
    for name in ("q", "k", "v", "scores", "all_heads", "head_output"):
        np.testing.assert_array_equal(both[name], whole[name])
    assert set(layer["rows"]) | set(head["rows"]) <= set(whole["rows"])
    factor = 1.0 if head["scale"] is None else head["scale"]["factor"]
    np.testing.assert_allclose(head["scores"] * factor, whole["scaled"], rtol=1e-6)


def test_a_long_text_is_pooled_to_thumbnails() -> None:
    looked = look_at(
        viewed.decoder("byte", context_length=256, attention_window=20), {"text": "xyz " * 36}
    )
    rows = len(looked.trace.ids)
    grid = view(looked, "grid", layer=1)
    assert (grid["rows"], grid["columns"], grid["block"]) == (rows, rows, [3, 3])
    thumbs, mask = grid["layers"][0]["thumbnails"], grid["layers"][0]["mask"]
    weights = looked.trace.attention("L1.H2").weights
    codes = looked.trace.attention("L1.H2").mask.codes
    assert thumbs.shape == (4, 49, 49)
    for r, c in [(0, 0), (10, 9), (48, 48), (48, 0), (3, 30)]:
        block = np.s_[3 * r : 3 * r + 3, 3 * c : 3 * c + 3]
        assert thumbs[2, r, c] == pytest.approx(weights[block].max(), abs=0.002)
        assert mask[r, c] == (0 if (codes[block] == 0).any() else codes[block].max())


def test_only_what_is_looked_at_is_recomputed_and_nothing_changes() -> None:
    model = viewed.decoder()
    ids = model.encode(STORY)
    before = model.logits(ids)
    looked = look_at(model, {"text": STORY})
    assert "trace" not in vars(looked)
    view(looked, "about")
    assert "trace" not in vars(looked)
    view(looked, "read")
    assert not looked.trace._steps
    view(looked, "grid", layer=1)
    assert [key[2] for key in looked.trace._steps] == [1]
    for name in can(model):
        if name in OURS:
            view(looked, name, **PARAMS.get(name, {}))
    assert torch.equal(model.logits(ids), before)
    assert isinstance(looked.trace, Trace)
    assert looked.trace is looked.trace


def test_ids_and_the_text_that_they_spell_are_the_same_question() -> None:
    model = viewed.decoder()
    text = look_at(model, {"text": STORY})
    ids = look_at(model, {"ids": text.trace.ids})
    assert torch.equal(text.trace.logits, ids.trace.logits)
    more = look_at(model, {"ids": [*text.trace.ids, 5]})
    assert view(more, "read")["spellings"]["read"]["ids"].tolist() == [*text.trace.ids, 5]
