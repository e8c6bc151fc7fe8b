"""The page shows what the library computed: every number, every label, for every kind of model."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
import torch
import viewed
from hypothesis import given, settings
from hypothesis import strategies as st
from viewed import PAIR, STORY, view

from budgerigar.api.model import Model
from budgerigar.errors import UserError
from budgerigar.inspection.editing import EditedNetwork
from budgerigar.inspection.labels import spell, visible
from budgerigar.inspection.pair_traces import PairTrace
from budgerigar.inspection.traces import Trace
from budgerigar.inspection.views import VIEWS, Look, ask, can, linking, look_at, value_of
from budgerigar.inspection.views.look import MOST_TOKENS
from budgerigar.inspection.views.payload import described
from budgerigar.inspection.views.sides import spelling_value
from budgerigar.layers.config import LayerPattern
from budgerigar.text.tokenizers import train_tokenizer

KINDS = list(viewed.MODELS)
DIALS: dict[str, dict[str, Any]] = {
    "sinusoidal": {"positions": "sinusoidal"},
    "learned": {"positions": "learned", "qkv_bias": False},
    "rotary, grouped": {"positions": "rotary", "n_kv_heads": 2},
    "relative": {"positions": "relative", "attention_scale": "none"},
    "alibi": {"positions": "alibi", "n_kv_heads": 1},
    "window and sinks": {"attention_window": 4, "sink_tokens": 2, "positions": "none"},
    "window in one layer": {"layers": (LayerPattern(attention_window=3), LayerPattern())},
    "sink logit": {"sink_logit": True},
    "soft-cap": {"attention_softcap": 2.0},
    "qk-norm": {"qk_norm": "head"},
    "post": {"norm_place": "post"},
    "sandwich": {"norm_place": "sandwich", "norm": "rms"},
    "output": {"norm_place": "output", "norm": "rms"},
    "parallel": {"parallel_residual": True},
    "no residual": {"residual": False, "d_head": 8},
}
DECODER, ENCODER = ("decoder", "self"), ("encoder", "self")
CROSS = ("decoder", "cross")


def sites(looked: Look) -> list[tuple[str, str]]:
    return [(site.of, site.kind) for site in looked.trace.sites]


def compare_heads(looked: Look) -> None:
    """Every head of a look, through the views, with `Head`'s arrays."""
    for of, kind in sites(looked):
        where = {"of": of, "kind": kind}
        for layer in range(len(looked.trace.site(of, kind).modules)):
            (thumbs,) = view(looked, "grid", layer=layer, **where)["layers"]
            for head in looked.trace.heads(layer, of, kind):
                at = {"layer": layer, "head": head.head, **where}
                compare_head(looked, head, at)
                apart = np.abs(thumbs["thumbnails"][head.head] - head.weights).max()
                assert apart <= 1 / 510 + 1e-6  # few positions: not pooled
            assert (
                thumbs["mask"] == looked.trace.mask(looked.trace.site(of, kind), layer).codes
            ).all()


def compare_head(looked: Look, head: Any, at: dict[str, Any]) -> None:
    shown = view(looked, "head", **at)
    assert shown["name"] == head.name
    assert shown["kv_head"] == head.kv_head
    data = described(ask(looked, "head", at))[0]
    assert data["type"] == "u2"
    assert np.abs(shown["weights"] - head.weights).max() <= data["within"] < 1e-5
    reasons = view(looked, "read")["reasons"]
    words = np.array(["", "future", "window", "document", "padding", "source"])[shown["mask"]]
    assert (words == head.mask_reason).all()
    assert [reasons[code] for code in shown["kinds"]] == [
        reasons[1 + list(looked_reasons()).index(kind)] for kind in head.mask.kinds
    ]
    np.testing.assert_allclose(shown["row_sums"], head.weights.sum(1), atol=1e-6)
    assert shown["difference"] == head.difference < 1e-5
    last = len(head.query_labels) - 1
    for query in (0, last):
        row = view(looked, "row", query=query, **at)
        assert np.array_equal(row["weights"], head.weights[query])
        assert row["label"] == head.query_labels[query]
        assert row["weights"][row["order"]].tolist() == sorted(
            row["weights"].tolist(), reverse=True
        )
    compare_steps(looked, head, at, last)


def looked_reasons() -> list[str]:
    from budgerigar.inspection.matrix import MASKED

    return list(MASKED)


def compare_steps(looked: Look, head: Any, at: dict[str, Any], query: int) -> None:
    one, whole = view(looked, "steps", query=query, **at), view(looked, "steps", **at)
    arrays = {"q": head.queries, "scores": head.scores, "scaled": head.scaled,
              "weights": head.weights, "head_output": head.head_output,
              "model_output": head.model_output}  # fmt: skip
    for name, array in arrays.items():
        assert np.array_equal(one[name], array[query]), name
        assert np.array_equal(whole[name], array), name
    assert np.array_equal(one["k"], head.keys)
    assert np.array_equal(one["v"], head.values)
    if one["biased"] is not None:
        assert np.array_equal(one["biased"], head.biased[query])
    else:
        assert np.array_equal(head.biased, head.capped)
    if one["capped"] is not None:
        assert np.array_equal(one["capped"], head.capped[query])
    else:
        assert np.array_equal(head.capped, head.scaled)
    np.testing.assert_allclose(one["weighted"].sum(0), one["head_output"], atol=1e-4)
    assert ((one["codes"] > 0) == np.isneginf(head.masked[query])).all()
    if not one["additive"]:
        assert np.array_equal(one["contribution"], head.contribution[query])
        compare_vectors(one, whole)


def compare_vectors(one: dict[str, Any], whole: dict[str, Any]) -> None:
    """From the residual stream to q, k, v and back into it, by the matrices shown."""
    read = one["before"]["vector"] if one["normed"] is None else one["normed"]

    def through(part: str, rows: np.ndarray) -> np.ndarray:
        found = rows @ one[part]["weights"].T
        return found if one[part]["bias"] is None else found + one[part]["bias"]

    np.testing.assert_allclose(through("W_V", one["key_inputs"]), one["v"], atol=1e-4)
    if one["qk_norm"] is None:
        q, k = (one[n] if one[f"{n}_unrotated"] is None else one[f"{n}_unrotated"] for n in "qk")
        np.testing.assert_allclose(through("W_Q", read), q, atol=1e-4)
        np.testing.assert_allclose(through("W_K", one["key_inputs"]), k, atol=1e-4)
    if whole["key_side"] == "same":
        read = whole["before"]["vector"] if whole["normed"] is None else whole["normed"]
        assert np.array_equal(read, whole["key_inputs"])
    added = one["all_heads"] + (0 if one["feed_forward"] is None else one["feed_forward"])
    added = added if one["after_norm"] is None else one["after_norm"]
    total = one["before"]["vector"] * one["residual"] + added
    if one["norm_place"] == "post":
        total = (total - total.mean()) / np.sqrt(total.var() + 1e-5)
    np.testing.assert_allclose(one["after"]["vector"], total, atol=1e-4)


@pytest.mark.parametrize("name", DIALS)
def test_heads_of_every_dial(name: str) -> None:
    model = viewed.decoder(**DIALS[name])
    if DIALS[name].get("sink_logit"):
        with torch.no_grad():
            for block in model.network.decoder.blocks():
                block.self_attention.sink_logit.copy_(torch.tensor([0.5, -1.0, 2.0, 0.0]))
    looked = look_at(model, {"text": "It had green feathers . But he always remembered that"})
    compare_heads(looked)
    shown = view(looked, "head", layer=1, head=2)
    steps = view(looked, "steps", layer=1, head=2, query=5)
    if DIALS[name].get("sink_logit"):
        assert shown["sink"] == steps["sink"]["logit"] == 2.0
        assert steps["sink"]["weight"] == pytest.approx(1 - shown["row_sums"][5], abs=1e-6)
    else:
        assert shown["sink"] is None
        np.testing.assert_allclose(shown["row_sums"], 1, atol=1e-5)


@pytest.mark.parametrize("kind", ["encoder", "encoder-decoder", "rnn-encoder-decoder"])
def test_heads_of_other_kinds(kind: str) -> None:
    compare_heads(viewed.look(kind))


def test_heads_of_a_t5() -> None:
    dials = {"positions": "relative", "attention_scale": "none", "norm": "rms", "norm_place": "pre"}
    looked = viewed.look("encoder-decoder", **dials, qkv_bias=False, d_head=6)
    compare_heads(looked)
    inner = view(looked, "steps", layer=1, head=2, query=3, of="encoder", kind="self")
    assert inner["scale"]["factor"] == 1.0
    assert inner["biased"] is not None
    crossing = view(looked, "steps", layer=1, head=2, query=3, of="decoder", kind="cross")
    assert crossing["biased"] is None
    assert crossing["key_side"] == "source"


def test_rows_bear_the_text_of_their_queries() -> None:
    words = STORY.split()
    for kind in ("decoder", "encoder"):
        looked = viewed.look(kind)
        for place, word in enumerate(words, 1):  # <end> stands before them
            at = {"layer": 1, "head": 0, "query": place}
            assert view(looked, "row", **at)["label"] == word
            assert view(looked, "steps", **at)["label"] == word
    looked = viewed.look("rnn-encoder-decoder")
    labels = view(looked, "read")["spellings"]["predicted"]["labels"]
    for place, label in enumerate(labels):
        at = {"layer": 0, "head": 0, "query": place}
        assert view(looked, "row", **at)["label"] == view(looked, "steps", **at)["label"] == label
    text = "".join(label.replace("␣", " ") for label in labels[:-1])
    assert text == PAIR["target"]


def test_a_source_is_spelt_by_its_own_tokenizer() -> None:
    reader = train_tokenizer([viewed.SOURCE], kind="byte", end=True)
    other = viewed.translator(source_vocab_size=reader.vocab_size, shared_embeddings=False)
    looked = look_at(Model(other.network, other.tokenizer, source_tokenizer=reader), PAIR)
    groups = view(looked, "read")["spellings"]["source"]["groups"]
    assert [group["text"] for group in groups] == [*PAIR["source"], "<end>"]
    assert [group["length"] for group in groups] == [3] * len(PAIR["source"]) + [1]
    assert bytes.fromhex("".join(groups[2]["hex"])).decode() == PAIR["source"][2]
    (thumbs,) = view(looked, "grid", layer=0, of="decoder", kind="cross")["layers"]
    last = len(looked.trace.sites[-1].key_spelling) - 1
    assert (thumbs["link"]["key"] < last).all()  # <end> of the source is no word


def test_classes_and_vectors_are_no_words() -> None:
    model = viewed.encoder(n_classes=3, token_head=False)
    found = view(look_at(model, {"text": STORY, "mask": [2]}), "read")
    assert found["fill"] == []
    assert found["next"] is None
    assert found["classes"]["names"] == ["0", "1", "2"]
    assert found["classes"]["p"].sum() == pytest.approx(1)
    vectors = viewed.encoder(token_head=False)
    found = view(look_at(vectors, {"text": STORY}), "read")
    assert found["classes"] is found["surprise"] is None
    compare_heads(look_at(vectors, {"text": "It had green"}))


def test_a_large_model_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linking, "LARGEST_COPY", 1000)
    found = view(viewed.look("decoder"), "links", query=3, key=1)
    assert "too much memory" in found["why_no_untrained"]
    assert {link["untrained"] for link in found["links"]} == {None}


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


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder-decoder"])
def test_the_grids_links_and_measures(kind: str) -> None:
    looked = viewed.look(kind)
    for of, attention in sites(looked):
        (found,) = view(looked, "grid", layer=1, of=of, kind=attention)["layers"]
        for head in looked.trace.heads(1, of, attention):
            weights, seen = head.weights.astype(float), head.mask_reason == ""
            rows = seen.sum(1) > 1
            logs = np.log(np.where(weights > 0, weights, 1.0))
            shares = -(weights * logs).sum(1)[rows] / np.log(seen[rows].sum(1))
            assert found["entropy"][head.head] == pytest.approx(shares.mean(), rel=1e-5)
            one = view(looked, "head", layer=1, head=head.head, of=of, kind=attention)
            np.testing.assert_allclose(one["entropy"][rows], shares, rtol=1e-4)
            first = found["first"][head.head]
            assert first == pytest.approx(weights[rows][seen[rows][:, 0], 0].mean(), rel=1e-5)
            best = {part: found["link"][part][head.head] for part in ("query", "key", "weight")}
            special = [label in ("<end>", "<start>") for label in head.key_labels]
            weights[:, special] = 0
            if attention == "self":
                np.fill_diagonal(weights, 0)
            assert best["weight"] == np.float32(weights.max()) > 0
            assert weights[best["query"], best["key"]] == weights.max()


def test_links_are_those_of_the_library() -> None:
    looked = viewed.look("decoder")
    found = view(looked, "links", query="remembered", key="budgerigar#1")
    given = looked.trace.links("remembered", "budgerigar#1")
    assert (found["query"], found["key"]) == (given.query, given.key)
    assert [dataclasses.asdict(link) for link in given] == [
        {name: part for name, part in link.items() if name not in ("layer", "head")}
        for link in found["links"]
    ]
    place = found["query_positions"][0]
    assert looked.trace.labels[place] == "remembered"
    plain = view(looked, "links", query=place, key=0, untrained=False)
    assert {link["untrained"] for link in plain["links"]} == {None}
    with pytest.raises(UserError, match="occurs 2 times"):
        view(looked, "links", query="remembered", key="budgerigar")
    pair = viewed.look("encoder-decoder")
    crossing = view(pair, "links", query="budgerigar", key="鹉")
    assert crossing["kind"] == "cross"
    assert crossing["links"][0]["weight"] == pair.trace.links("budgerigar", "鹉")[0].weight


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
        ("links", {"query": "it", "key": 0.5}, "a position or a word"),
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


# -- promises --------------------------------------------------------------------------------------

PARAMS: dict[str, dict[str, Any]] = {
    "links": {"query": 3, "key": 1},
    "head": {"layer": 0, "head": 0},
    "row": {"layer": 0, "head": 0, "query": 2},
    "steps": {"layer": 0, "head": 0, "query": 2},
    "generate": {"count": 2},
    "unit": {"layer": 0, "unit": 0},
    "reach": {"positions": 2},
}
OURS = ("about", "read", "links", "grid", "head", "row", "steps", "alignment", "generate", "gates",
        "unit", "reach", "back_off")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_docstrings_name_every_key(kind: str) -> None:
    looked = viewed.look(kind)
    for name in set(OURS) & set(can(looked.model)):
        params = dict(PARAMS.get(name, {}))
        if looked.pair and name in ("grid", "links", "head", "row", "steps"):
            params |= {"of": "decoder", "kind": "cross"}
        value = value_of(looked, name, params)
        described_in = VIEWS[name].run.__doc__ or ""
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
