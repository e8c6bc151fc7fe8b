"""Heads on the page: weights, steps, grid and links are the library's, on every dial and kind."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
import viewed
from viewed import PAIR, STORY, sites, view

from budgerigar.api.model import Model
from budgerigar.errors import UserError
from budgerigar.inspection.views import Look, ask, linking, look_at
from budgerigar.inspection.views.payload import described
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
            assert one["mean_entropy"] == pytest.approx(shares.mean(), rel=1e-5)  # the grid's
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
