"""What the page reads and writes: tokens, surprises, translations, gates as the library has them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import viewed
from hypothesis import given, settings
from hypothesis import strategies as st
from viewed import PAIR, STORY, sites, view

from budgerigar.api.model import Model
from budgerigar.errors import UserError
from budgerigar.generation.streaming import forbidden_ids
from budgerigar.inspection.labels import spell, visible
from budgerigar.inspection.pair_traces import PairTrace
from budgerigar.inspection.views import Look, look_at
from budgerigar.inspection.views.sides import spelling_value

KINDS = list(viewed.MODELS)
DECODER, ENCODER = ("decoder", "self"), ("encoder", "self")
CROSS = ("decoder", "cross")


@pytest.mark.parametrize("kind", KINDS)
def test_read_says_what_the_trace_says(kind: str) -> None:
    looked = viewed.look(kind)
    found, trace = view(looked, "read"), looked.trace
    assert found["about"] == trace.about
    spelt = found["spellings"]
    assert spelt["read"]["labels"] == trace.labels
    assert spelt["read"]["ids"].tolist() == trace.ids
    assert "".join(spelt["read"]["pieces"]) == "".join(trace.spelling.pieces)
    assert [site["of"] + site["kind"] for site in found["sites"]] == [
        a + b for a, b in sites(looked)
    ]
    if kind == "encoder":
        assert found["surprise"] is found["next"] is None
        assert "encoder" in found["why_no_surprise"]
        return
    shown, words = found["surprise"], found["words"]
    labels = spelt[shown["side"]]["labels"]
    tokens = [token for token in trace.surprise(10) if token.nats is not None]
    assert shown["scored"] == len(tokens)
    for place, token in enumerate(tokens, shown["first"]):
        assert labels[place] == token.label
        assert shown["nats"][place] == pytest.approx(token.nats, rel=1e-6, abs=1e-6)
        assert shown["p"][place] == pytest.approx(token.probability, rel=1e-5)
        assert shown["rank"][place] == token.rank
        assert shown["entropy"][place] == pytest.approx(token.entropy, rel=1e-5)
        np.testing.assert_allclose(
            shown["top_p"][place], [p for _, p in token.likeliest], rtol=1e-5
        )
        assert all(str(number) in words for number in shown["top_ids"][place])
    assert shown["total"] == pytest.approx(sum(token.nats or 0 for token in tokens))
    following = found["next"]
    logits = trace.logits[-1].numpy()
    assert np.array_equal(following["logits"], logits)
    chances = np.exp(logits.astype(np.float64))
    chances /= chances.sum()
    np.testing.assert_allclose(following["p"], np.sort(chances)[::-1][:200], rtol=1e-5)
    assert following["p"].sum() + following["rest"] == pytest.approx(1, abs=1e-6)
    assert following["end"]["p"] == pytest.approx(chances[following["end"]["ids"]].sum())


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("轩a", [("轩", 3), ("a", 1)]),
        ("é\n", [("é", 2), ("↵", 1)]),
        ("🦜 ", [("🦜", 4), ("␣", 1)]),
        ("שלום", [(c, 2) for c in "שלום"]),
        ("a<b", [("a", 1), ("<", 1), ("b", 1)]),
    ],
)
def test_bytes_are_joined_into_characters(text: str, groups: list[tuple[str, int]]) -> None:
    looked = look_at(viewed.decoder("byte"), {"text": text})
    spelt = view(looked, "read")["spellings"]["read"]
    assert spelt["groups"][0] == {"start": 0, "length": 1, "text": "<end>", "hex": []}
    assert [(g["text"], g["length"]) for g in spelt["groups"][1:]] == groups
    assert [g["start"] for g in spelt["groups"]] == np.cumsum(
        [0, 1, *(n for _, n in groups[:-1])]
    ).tolist()
    for group in spelt["groups"]:
        if group["length"] > 1:
            assert bytes.fromhex("".join(group["hex"])).decode() == group["text"]


def test_tokens_that_are_not_of_the_text_are_told_apart() -> None:
    def added(looked: Look) -> dict[str, list[int]]:
        return {name: side["added"] for name, side in view(looked, "read")["spellings"].items()}

    assert added(viewed.look("decoder")) == {"read": [0]}
    assert added(look_at(viewed.encoder(), {"text": STORY, "mask": [2]})) == {"read": [0]}
    assert added(look_at(viewed.decoder(), {"ids": [5, 6]})) == {"read": [0]}
    assert added(look_at(viewed.decoder(), {"ids": viewed.decoder().encode("a")})) == {"read": []}
    pair = viewed.look("encoder-decoder")
    n = {name: len(side["labels"]) for name, side in view(pair, "read")["spellings"].items()}
    assert added(pair) == {
        "read": [0],
        "predicted": [n["predicted"] - 1],
        "source": [n["source"] - 1],
    }
    beginning = look_at(pair.model, {**PAIR, "target": "Xuanyuan", "prefix": True})
    assert len(added(beginning)["predicted"]) == 1


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=12), st.sampled_from(["byte", "bpe", "word"]))
def test_every_token_is_in_one_group_and_nothing_is_lost(text: str, kind: str) -> None:
    reader = viewed.tokenizer(kind)
    ids = list(reader.encode(text))
    value = spelling_value(spell(reader, ids), ids, reader)
    groups = value["groups"]
    covered = [t for g in groups for t in range(g["start"], g["start"] + g["length"])]
    assert covered == list(range(len(ids)))
    joined = b"".join(
        bytes.fromhex("".join(group["hex"]))
        if group["length"] > 1
        else reader.token_bytes(ids[group["start"]])
        for group in groups
    )
    assert joined.decode() == text
    for group in groups:
        if group["length"] > 1:
            assert len(group["hex"]) == group["length"]
            whole = bytes.fromhex("".join(group["hex"])).decode()
            assert group["text"] == visible(whole)


@pytest.mark.parametrize("kind", ["encoder-decoder", "rnn-encoder-decoder"])
def test_rows_of_a_translation_are_named_by_what_is_predicted(kind: str) -> None:
    looked = viewed.look(kind)
    found, trace = view(looked, "read"), looked.trace
    assert isinstance(trace, PairTrace)
    by_kind = {(site["of"], site["kind"]): site for site in found["sites"]}
    cross = by_kind[CROSS]
    assert (cross["queries"], cross["keys"], cross["predicts"]) == ("predicted", "source", True)
    assert "predicted" in cross["query_axis"]
    labels = found["spellings"]["predicted"]["labels"]
    assert labels == trace.target_labels
    assert labels[-1] == "<end>"
    assert "".join(found["spellings"]["predicted"]["pieces"][:-1]) == PAIR["target"]
    assert found["spellings"]["source"]["labels"] == trace.source_labels
    assert "".join(g["text"] for g in found["spellings"]["source"]["groups"][:-1]) == PAIR["source"]
    for query, label in enumerate(labels):
        assert (
            view(looked, "row", layer=0, head=0, query=query, of="decoder", kind="cross")["label"]
            == label
        )
    if kind == "encoder-decoder":
        own, source = by_kind[DECODER], by_kind[ENCODER]
        assert (own["queries"], own["keys"], own["predicts"]) == ("read", "read", False)
        assert (source["queries"], source["keys"]) == ("source", "source")
        assert found["spellings"]["read"]["labels"] == ["<start>", *labels[:-1]]


@pytest.mark.parametrize("kind", ["encoder-decoder", "rnn-encoder-decoder"])
def test_alignment_is_that_of_the_library(kind: str) -> None:
    looked = viewed.look(kind)
    trace = looked.trace
    assert isinstance(trace, PairTrace)
    found, given = view(looked, "alignment"), trace.alignment()
    assert found["pharaoh"] == given.pharaoh
    assert found["best"] == given.best
    assert found["target_words"] == ["Xuanyuan", "has", "a", "budgerigar"]
    np.testing.assert_allclose(found["weights"], given.weights, atol=1e-7)
    heads = list(trace.heads(0, "decoder", "cross"))
    mean = np.mean([head.weights for head in heads], axis=0)
    np.testing.assert_allclose(found["tokens"], mean, atol=1e-6)
    np.testing.assert_allclose(found["coverage"], mean.sum(0), atol=1e-5)
    assert found["target_of"].tolist() == list(given.target.of_token)
    assert view(looked, "alignment", head="L0.H0")["head"] == "L0.H0"


@pytest.mark.parametrize("kind", ["decoder", "recurrent", "ngram", "feed-forward"])
def test_generation_is_the_librarys(kind: str) -> None:
    looked = viewed.look(kind)
    model = looked.model
    for options in (
        {"temperature": 0.0},
        {"temperature": 1.3, "top_k": 20, "top_p": 0.9, "seed": 4},
    ):
        found = view(looked, "generate", count=8, **options)
        text = model.generate(STORY, max_new_tokens=8, **options)
        assert found["text"] == text
        assert "".join(token["piece"] for token in found["tokens"]) == text
        assert 1 <= len(found["tokens"]) <= 8
    ids = list(looked.trace.ids)
    state_bytes = {token["bytes"] for token in found["tokens"]}
    for token in found["tokens"]:
        logits = model.logits(ids)[-1].double()
        assert token["p"] == pytest.approx(float(logits.softmax(-1)[token["id"]]), rel=1e-4)
        assert token["p_end"] == pytest.approx(
            float(logits.softmax(-1)[model.tokenizer.end_id]), rel=1e-4
        )
        assert token["read"] == len(ids)
        if kind != "ngram":  # whose tokens are often equally likely
            chances = drawn(model, logits.numpy())
            assert token["chance"] == pytest.approx(chances[token["id"]], rel=1e-4)
        ids.append(token["id"])
    carries = found["carries"]
    if kind == "decoder":
        # keys and values of 2 layers, 4 heads of 4 numbers, 4 bytes each
        assert carries["per_token"] == 2 * 2 * 4 * 4 * 4
        assert [t["bytes"] for t in found["tokens"]] == [
            256 * (found["start_tokens"] + n) for n in range(len(found["tokens"]))
        ]
        assert carries["kind"] == "cache"
    else:
        assert len(state_bytes) == 1
        assert carries["per_token"] == 0


def drawn(model: Model, logits: np.ndarray) -> np.ndarray:
    """Chances at temperature 1.3, of the best 20, of the fewest of these that reach 0.9."""
    scores = logits / 1.3
    scores[np.asarray(model.tokenizer.never_seen)] = -np.inf
    best = np.argsort(-scores, kind="stable")[:20]
    chances = np.exp(scores[best])
    chances /= chances.sum()
    kept = int((chances.cumsum() < 0.9).sum()) + 1
    found = np.zeros_like(scores)
    found[best[:kept]] = chances[:kept] / chances[:kept].sum()
    return found


@pytest.mark.parametrize("kind", ["decoder", "lstm", "ngram"])
def test_the_sliders_draw_what_generation_draws(kind: str) -> None:
    """At temperature 2 much of the softmax is on bytes that the text never had: they are not drawn."""
    looked = viewed.look(kind) if kind != "lstm" else look_at(viewed.recurrent(), {"text": STORY})
    following = view(looked, "read")["next"]
    never = following["never"]
    assert never.tolist() == np.flatnonzero(forbidden_ids(looked.tokenizer)).tolist()
    assert len(never) > 100
    scores = following["logits"].astype(np.float64) / 2
    scores[never] = -np.inf
    chances = np.exp(scores - scores.max())
    first = view(looked, "generate", count=1, temperature=2.0)["tokens"][0]
    np.testing.assert_allclose(
        first["top_chance"], (chances / chances.sum())[first["top_ids"]], rtol=1e-4
    )


def test_an_encoder_is_not_drawn_from() -> None:
    looked = look_at(viewed.encoder(), {"text": STORY, "mask": [3]})
    (filled,) = view(looked, "read")["fill"]
    assert filled["never"].tolist() == []


def test_generation_past_the_context_is_said() -> None:
    looked = look_at(viewed.decoder(context_length=16), {"text": "It had green feathers ."})
    found = view(looked, "generate", count=30, temperature=2.0, seed=3)
    rewound = [token["rewound"] for token in found["tokens"]]
    assert any(rewound)
    assert max(token["read"] for token in found["tokens"]) <= 16


@pytest.mark.parametrize("kind", ["encoder-decoder", "rnn-encoder-decoder"])
def test_a_translation_goes_on_from_its_beginning(kind: str) -> None:
    model = viewed.MODELS[kind]()
    looked = look_at(model, {**PAIR, "target": "Xuanyuan", "prefix": True})
    found = view(looked, "generate", count=4, temperature=0.0)
    shown = view(looked, "read")
    best = shown["next"]["ids"][0]
    assert shown["spellings"]["predicted"]["labels"][-1] == "<next>"
    assert shown["surprise"]["scored"] == len(looked.trace.ids) - 1
    assert found["start_tokens"] == len(looked.trace.ids)
    first = found["tokens"][0]
    if not model.tokenizer.never_seen[best]:
        assert first["id"] == best
    assert first["p"] == pytest.approx(
        float(looked.trace.logits[-1].softmax(-1)[first["id"]]), rel=1e-4
    )
    assert found["carries"]["source_bytes"] > 0
    written = looked.trace.targets[:-1]  # type: ignore[attr-defined]
    ids = look_at(model, {"source": PAIR["source"], "target": written, "prefix": True})
    assert torch.equal(ids.trace.logits, looked.trace.logits)


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman"])
def test_gates_are_the_librarys(cell: str) -> None:
    looked = look_at(viewed.recurrent(cell), {"text": STORY})
    given = looked.trace.gates(1)
    found = view(looked, "gates", layer=1)
    assert found["cell"] == cell
    assert found["difference"] == given.difference < 1e-5
    assert list(found["parts"]) == list(given.values)
    for name, values in given.values.items():
        np.testing.assert_allclose(found["parts"][name], values, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(
        [np.nan if s is None else s for s in found["kept_share"]], given.kept_share, rtol=1e-5
    )
    assert found["order"].tolist() == given.order.tolist()
    one = view(looked, "unit", layer=1, unit=3)
    for name, values in given.unit(3).items():
        assert np.array_equal(one["parts"][name], values)
    with pytest.raises(UserError, match="no unit 99"):
        view(looked, "unit", layer=0, unit=99)


def test_back_off_and_reach_are_the_librarys() -> None:
    from budgerigar.inspection.back_off import back_off

    looked = viewed.look("ngram")
    found, given = view(looked, "back_off"), back_off(looked.trace, looked.tokenizer)
    assert found["tokens"][0] is None
    assert found["difference"] == given.difference < 1e-5
    for shown, token in zip(found["tokens"][1:], given.predicted, strict=True):
        assert shown["p"] == token.probability
        assert shown["label"] == looked.trace.labels[shown["position"]]
        parts = sum(step["part"] for step in shown["steps"]) + shown["uniform"]
        assert parts == pytest.approx(token.probability)
        assert [tuple(pair) for pair in shown["likeliest"]] == given.likeliest(token, 5)
        np.testing.assert_allclose(found["shares"][shown["position"]], token.shares, atol=1e-6)
    reach = view(viewed.look("feed-forward"), "reach", positions=5)
    model = viewed.feed_forward()
    direct = model.reach(STORY, positions=5)
    np.testing.assert_allclose(reach["shares"], direct.shares, rtol=1e-5)
    assert reach["sees"] == 3
