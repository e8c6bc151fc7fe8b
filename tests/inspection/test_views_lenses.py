"""The page's lens, attribution, block and positions: the library's numbers under the right names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from viewed import MODELS, PAIR, STORY, decoder, encoder, look, translator, view

from budgerigar.errors import UserError
from budgerigar.inspection import (
    attribute_by_key,
    attribute_logit,
    block_at,
    logit_lens,
    rotary_turns,
    shuffle,
    slide,
    without_residual,
)
from budgerigar.inspection.views import can, look_at

KINDS = ["decoder", "encoder", "encoder-decoder"]
MINE = {"lens", "attribution", "block", "positions"}


@pytest.mark.parametrize("kind", MODELS)
def test_which_models_have_them(kind: str) -> None:
    assert MINE & set(can(MODELS[kind]())) == (MINE if kind in KINDS else set())
    if kind not in KINDS:
        for name in MINE:
            with pytest.raises(UserError, match="no residual stream"):
                view(look(kind), name, **({"layer": 0} if name == "block" else {}))


@pytest.mark.parametrize("kind", KINDS)
def test_lens(kind: str) -> None:
    looked = look(kind)
    found, own = view(looked, "lens", top=3), logit_lens(looked.trace, 3)
    assert found["rows"] == ["embedding", "L0", "L1"]
    np.testing.assert_array_equal(found["top_ids"], own.top)
    np.testing.assert_allclose(found["top_p"], own.chances, rtol=1e-6)
    np.testing.assert_array_equal(found["rank"], own.final_rank)
    np.testing.assert_allclose(found["kl"], own.divergence, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(found["settled"], own.settled())
    assert found["difference"] == 0.0
    assert found["final_norm"] == (kind != "encoder-decoder")
    assert found["side"] == ("predicted" if kind == "encoder-decoder" else "read")
    assert found["predicts"] == ("next" if kind == "decoder" else "this")
    assert {str(token) for token in found["top_ids"].ravel()} <= set(found["words"])
    labels = view(looked, "read")["spellings"][found["side"]]["labels"]
    assert found["top_ids"].shape[1] == len(labels)


@pytest.mark.parametrize("kind", KINDS)
def test_attribution(kind: str) -> None:
    looked = look(kind)
    found = view(looked, "attribution", position=3, token=5, against=2, head="L1.H2")
    own = attribute_logit(looked.trace, 3, 5, 2)
    np.testing.assert_allclose(found["parts"]["logit"], [p.logit for p in own.parts], rtol=1e-5)
    assert found["parts"]["name"] == [part.name for part in own.parts]
    assert found["logit"] == pytest.approx(own.logit)
    assert found["difference"] < 1e-5
    assert float(found["parts"]["logit"].sum()) == pytest.approx(found["logit"], abs=1e-3)
    assert sum(group["logit"] for group in found["groups"]) == pytest.approx(found["total"])
    np.testing.assert_allclose(
        found["keys"]["logit"], attribute_by_key(looked.trace, "L1.H2", 3, 5, 2), rtol=1e-5
    )
    place = found["parts"]["name"].index("L1.H2 self" if kind == "encoder-decoder" else "L1.H2")
    assert (found["parts"]["layer"][place], found["parts"]["head"][place]) == (1, 2)
    assert float(found["keys"]["logit"].sum()) == pytest.approx(
        float(found["parts"]["logit"][place]), abs=1e-4
    )
    assert found["cap"] is None
    labels = view(looked, "read")["spellings"][found["side"]]["labels"]
    assert found["label"] == labels[3]


def test_attribution_of_what_is_likeliest_of_a_text_and_of_a_gap() -> None:
    looked = look("decoder", logit_softcap=5.0, norm_place="sandwich")
    found = view(looked, "attribution")
    assert found["position"] == len(looked.trace) - 1
    assert found["token"] == int(looked.trace.logits[-1].argmax()) == found["likeliest"]["ids"][0]
    assert found["against"] is found["keys"] is None
    assert 0 < found["cap"] < 1
    assert found["frozen"] == ["sandwich norms", "final norm", "soft-cap"]
    named = view(looked, "attribution", token="budgerigar")
    assert named["words"][str(named["token"])] == "budgerigar"
    with pytest.raises(UserError, match="tokens to this model"):
        view(looked, "attribution", token="budgerigar feathers")
    for wrong in (True, -1, "", 1.5):
        with pytest.raises(UserError, match="token's id, or its text"):
            view(looked, "attribution", token=wrong)
    with pytest.raises(UserError, match="does not exist"):
        view(looked, "attribution", token=10**6)
    with pytest.raises(UserError, match="no position 500"):
        view(looked, "attribution", position=500)
    gap = look_at(encoder(), {"text": STORY, "mask": [4, 6]})
    assert view(gap, "attribution")["position"] == 4
    cross = view(look("encoder-decoder"), "attribution", head="L0.H1", kind="cross")
    assert cross["keys"]["spelling"] == "source"


@pytest.mark.parametrize("kind", KINDS)
def test_block(kind: str) -> None:
    looked = look(kind)
    found = view(looked, "block", layer=1, position=2, units=4, words=3, without=True)
    own = block_at(looked.trace, 1, 2, units=4, words=3)
    assert [stage["name"] for stage in found["stages"]] == [stage.name for stage in own.stages]
    for stage, vector, mine in zip(found["stages"], found["vectors"], own.stages, strict=True):
        assert stage["length"] == pytest.approx(float(np.linalg.norm(vector)), rel=1e-5)
        assert stage["cosine"] == pytest.approx(mine.cosine)
    assert len(found["added"]) == len(found["added_vectors"]) == len(own.added)
    assert [unit["number"] for unit in found["units"]] == [unit.number for unit in own.units]
    assert found["units"][0]["up"]["ids"].tolist() == [token for token, _ in own.units[0].up]
    assert str(found["units"][0]["up"]["ids"][0]) in found["words"]
    without = without_residual(looked.trace, 1)
    assert without.divergence is not None
    assert found["without"]["kl"] == pytest.approx(float(without.divergence[2]))
    assert found["without"]["own"]["ids"][0] == int(looked.trace.logits[2].argmax())
    assert without.logits is not None
    assert found["without"]["then"]["ids"][0] == int(without.logits[2].argmax())
    with pytest.raises(UserError, match="no layer 9"):
        view(looked, "block", layer=9)
    assert view(looked, "block", layer=0)["without"] is None


def test_block_of_an_encoder_before_a_decoder() -> None:
    looked = look("encoder-decoder")
    found = view(looked, "block", layer=0, of="encoder", without=True)
    assert found["label"] == "<end>"
    assert found["spelling"] == "source"
    assert found["without"]["kl"] is found["without"]["own"] is None
    assert found["units"][0]["up"]["ids"].size == 0


@pytest.mark.parametrize(
    ("kind", "positions", "knows"),
    [("decoder", "rotary", "distances"), ("decoder", "learned", "places"),
     ("decoder", "sinusoidal", "places"), ("decoder", "alibi", "distances"),
     ("encoder", "relative", "distances"), ("decoder", "none", "order"),
     ("encoder", "none", "nothing"), ("encoder-decoder", "relative", "distances")],
)  # fmt: skip
def test_positions_of_each_kind(kind: str, positions: str, knows: str) -> None:
    made = MODELS[kind](positions=positions)
    found = view(look_at(made, {}), "positions", layer=1, rows=12)  # needs no text
    assert (found["positions"], found["knows"]) == (positions, knows)
    assert (found["table"] is not None) == (knows == "places")
    assert (found["turns"] is not None) == (positions == "rotary")
    assert (found["bias"] is not None) == (positions in ("alibi", "relative"))
    assert found["sinusoids"]["values"].shape == (12, 16)
    assert found["sinusoids"]["used"] == (positions == "sinusoidal")
    if found["turns"]:
        own = rotary_turns(made.network.config, 1, 12)
        np.testing.assert_allclose(found["turns"]["angles"], own.angles, rtol=1e-6)
        assert found["turns"]["pairs"].tolist() == [[0, 2], [1, 3]]
    if positions == "alibi":
        np.testing.assert_allclose(found["bias"]["slopes"], [1 / 4, 1 / 16, 1 / 64, 1 / 256])
    if positions == "relative":
        ahead = found["bias"]["distances"][0]
        assert ahead == (-11 if kind == "encoder" else 0)


def test_sliding_and_shuffling() -> None:
    rotary, learned = look("decoder", positions="rotary"), look("decoder", positions="learned")
    found = view(rotary, "positions", show="slide", layer=1, head=2, query=5)
    own = slide(rotary.trace, "L1.H2", 100)
    assert (found["by"], found["query"], found["start"]) == (100, 5, 0)
    np.testing.assert_allclose(found["before"], own.before[5], rtol=1e-6)
    np.testing.assert_allclose(found["after"], own.after[5], rtol=1e-6)
    assert found["same"]
    assert found["logits"] < 1e-4
    assert (found["codes"] > 0).tolist() == rotary.trace.attention("L1.H2").mask.hidden[5].tolist()
    moved = view(learned, "positions", show="slide")
    assert moved["most"] == 128 - len(learned.trace)
    assert moved["by"] == min(100, moved["most"])
    assert not moved["same"]
    with pytest.raises(UserError, match="learnt nothing"):
        view(learned, "positions", show="slide", by=128)
    with pytest.raises(UserError, match="by = -1"):
        view(rotary, "positions", show="slide", by=-1)
    sinks = look("decoder", positions="rotary", attention_window=4, sink_tokens=2)
    assert view(sinks, "positions", show="slide")["sinks"] == 2
    blind = view(look("encoder"), "positions", show="shuffle", blind=True, seed=3)
    assert blind["same"]
    assert blind["can_be_blind"]
    assert not blind["causal"]
    assert blind["order"].tolist() == shuffle(look("encoder").trace, 3).order.tolist()
    told = view(look("decoder", positions="none"), "positions", show="shuffle")
    assert told["causal"]
    assert not told["positions"]
    assert not told["same"]
    assert view(look("encoder-decoder"), "positions", show="shuffle")["spelling"] == "source"


def test_what_an_edit_and_a_blank_source_change_is_what_these_views_show() -> None:
    asked: dict[str, Any] = {"text": STORY, "off": ["L1.H2"]}
    off = view(look_at(decoder(), asked), "attribution", token=3)
    place = off["parts"]["name"].index("L1.H2")
    assert off["parts"]["logit"][place] == 0
    assert off["difference"] < 1e-5
    blank = look_at(translator(), {**PAIR, "blank": True})
    found = view(blank, "attribution", token=3)
    crossing = [a == "cross" for a in found["parts"]["attention"]]
    assert (found["parts"]["logit"][crossing] == 0).all()
    assert found["difference"] < 1e-5
    assert view(blank, "lens")["difference"] == 0.0


def test_an_encoder_that_only_gives_vectors_has_blocks_and_positions() -> None:
    made = encoder(token_head=False)
    names = set(can(made))
    assert MINE & names == {"block", "positions"}
    looked = look_at(made, {"text": STORY})
    found = view(looked, "block", layer=0, without=True)
    assert found["units"][0]["up"]["ids"].size == 0
    assert found["without"]["kl"] is None
    assert torch.isfinite(torch.tensor(found["without"]["length"]))
    with pytest.raises(UserError, match="no output layer"):
        view(looked, "lens")
