"""The page's roles, births, switches, comparisons and gaps: the library's numbers under their names."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
import toy
from copier import Copier, train_copier
from viewed import MODELS, PAIR, STORY, decoder, encoder, look, translator, view

from budgerigar.api.model import Model
from budgerigar.errors import UserError
from budgerigar.inspection.behaviours import Behaviours
from budgerigar.inspection.born import spread
from budgerigar.inspection.differences import compare_heads
from budgerigar.inspection.role_probes import Reader
from budgerigar.inspection.views import can, look_at
from budgerigar.text.sampling import draw_sample
from budgerigar.text.tokenizer import MASK
from budgerigar.text.tokenizers import build_tokenizer

MINE = {"roles", "born", "off", "compare"}


@pytest.fixture(autouse=True)
def few_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured is tested elsewhere."""
    from budgerigar.inspection import role_probes

    for name in ("repeats", "stories", "code", "pairs"):
        made = getattr(role_probes, name)
        monkeypatch.setattr(role_probes, name, lambda *a, made=made, **k: made(*a, **{"n": 4, **k}))


@pytest.mark.parametrize("kind", MODELS)
def test_which_models_have_them(kind: str) -> None:
    attends = kind in ("decoder", "encoder", "encoder-decoder", "rnn-encoder-decoder")
    expected = (MINE if attends else set()) | ({"mask_out"} if kind == "encoder" else set())
    assert (MINE | {"mask_out"}) & set(can(MODELS[kind]())) == expected


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder-decoder", "rnn-encoder-decoder"])
def test_roles_of_every_kind_of_model(kind: str) -> None:
    looked = look(kind)
    found = view(looked, "roles")
    sites = [(site["of"], site["kind"]) for site in found["sites"]]
    assert sorted(sites) == sorted((site.of, site.kind) for site in looked.trace.sites)
    for site in found["sites"]:
        n = len(site["heads"])
        assert site["heads"] == looked.trace.names(site["of"], site["kind"])
        assert len(site["badges"]) == len(site["entropy"]) == n
        measured = [role for role in site["roles"] if role["reason"] is None]
        assert measured
        for role in measured:
            assert len(role["score"]) == len(role["rows"]) == n
            assert 0 <= role["score"][role["best"]] <= 1 + 1e-6
        for role in site["roles"]:
            assert (role["reason"] is None) == ("score" in role)
    assert view(looked, "roles")["sites"][0]["heads"]  # the second time it is not measured again


def test_switched_off() -> None:
    model = decoder()
    asked = {"text": STORY, "off": ["L1.H0", "L0"], "how": "zero"}
    looked = look_at(model, asked)
    found = view(looked, "off", top=3, measure=True)
    before, after = model.trace(STORY), model.edited(["L1.H0", "L0"]).trace(STORY)
    chances = [torch.softmax(t.logits[-1].double(), -1) for t in (before, after)]
    for guess in found["guesses"]:
        assert guess["before"] == pytest.approx(float(chances[0][guess["id"]]))
        assert guess["after"] == pytest.approx(float(chances[1][guess["id"]]))
    assert found["moved"] == pytest.approx(float((chances[0] - chances[1]).abs().sum() / 2))
    losses = [np.mean([t.nats for t in trace.surprise() if t.nats is not None])
              for trace in (before, after)]  # fmt: skip
    assert found["loss"]["before"] == pytest.approx(losses[0])
    assert found["loss"]["after"] == pytest.approx(losses[1])
    assert found["translation"] is None
    assert {one["ability"] for one in found["abilities"]} >= {"copy"}
    with pytest.raises(UserError, match="no head is switched off"):
        view(look("decoder"), "off")


def test_switched_off_in_a_translation() -> None:
    model = translator()
    off = {"off": ["L0.H1"], "of": "decoder", "kind": "cross"}
    own = view(look_at(model, {"source": PAIR["source"], **off}), "off")
    assert own["translation"]["before"] == model.trace(PAIR["source"]).text
    assert own["guesses"] is None
    given = view(look_at(model, {**PAIR, **off}), "off")
    assert given["translation"] is None
    assert given["loss"]["tokens"] == len(model.trace(PAIR["source"], PAIR["target"]).targets)


def test_two_questions_compared() -> None:
    model = decoder()
    first, second = STORY[:46], STORY[:46].replace("young", "had")
    looked = look_at(model, {"text": first})
    found = view(looked, "compare", other={"text": second})
    own = compare_heads(model.trace(first), model.trace(second))
    assert [tuple(row) for row in found["rows"]] == list(own.rows)
    np.testing.assert_allclose(found["maps"]["L1.H2"], own.head("L1.H2").map, atol=1e-7)
    np.testing.assert_array_equal(found["hidden"] > 0, own.hidden)
    np.testing.assert_array_equal(found["hidden"] == 2, own.once)
    assert found["heads"][6]["name"] == "L1.H2"
    assert found["heads"][6]["moved"] == pytest.approx(own.head("L1.H2").moved)
    one = view(looked, "compare", other={"text": second}, head="L0.H3")
    assert list(one["maps"]) == ["L0.H3"]
    with pytest.raises(UserError, match="needs `budgie explore`"):
        view(looked, "compare", other={"model": "b", "text": second})
    with pytest.raises(UserError, match="a question, as a JSON object"):
        view(looked, "compare", other="text")
    with pytest.raises(UserError, match="no part"):
        view(looked, "compare", other={"words": second})
    looked.resolve = lambda question: look_at(decoder(seed=5), {"text": question["text"]})
    other = view(looked, "compare", other={"model": "b", "text": first})
    assert max(head["moved"] for head in other["heads"]) > 0.01


def test_an_encoder_with_each_token_hidden() -> None:
    model = encoder()
    looked = look_at(model, {"text": STORY, "mask": [3]})
    found = view(looked, "mask_out", top=2)
    ids = model.encode(STORY)
    mask = model.tokenizer.mask_id
    for at, nats, best in zip(found["positions"], found["nats"], found["top_ids"], strict=True):
        read = torch.tensor([ids])
        read[0, [3, int(at)]] = mask
        log_p = model.network(read)[0, int(at)].detach().double().log_softmax(-1)
        assert nats == pytest.approx(-float(log_p[ids[int(at)]]), abs=1e-5)
        assert int(best[0]) == int(log_p.argmax())
    assert 0 not in found["positions"]  # the start is no word
    assert 3 in found["positions"]
    with pytest.raises(UserError, match="only an encoder"):
        view(look("decoder"), "mask_out")


@pytest.fixture(scope="module")
def copier() -> Copier:
    return train_copier()


def test_roles_through_training(copier: Copier, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = dict(copier.checkpoints)
    model = Model(copier.network, copier.tokenizer, {"text": {"starts_documents": True}})  # type: ignore[arg-type]
    assert model.start_id == 0
    monkeypatch.setattr(Model, "checkpoints", property(lambda self: list(stages)))
    monkeypatch.setattr(
        Model, "at_checkpoint", lambda self, name: dataclasses.replace(self, network=stages[name])
    )
    found = view(look_at(model, {"text": " ba be bi ba be"}), "born", most=3)
    assert found["checkpoints"] == spread(list(stages), 3)
    assert len(found["all"]) == 5
    (site,) = found["sites"]
    role = next(role for role in site["roles"] if role["role"] == "induction")
    assert role["scores"].shape == role["found"].shape == (3, 4)
    assert not role["found"][0].any()
    assert role["found"][-1].any()
    birth = next(birth for birth in found["births"] if birth["role"] == "induction")
    assert birth["before"] in found["checkpoints"]
    copy = next(c for c in found["curves"] if (c["ability"], c["unit"]) == ("copy", "share"))
    assert copy["values"][0] < 0.2 < 0.9 < copy["values"][-1]
    bare: Any = Model(copier.network, copier.tokenizer)  # type: ignore[arg-type]
    monkeypatch.setattr(Model, "checkpoints", property(lambda self: []))
    with pytest.raises(UserError, match="no checkpoint of this run is kept"):
        view(look_at(bare, {"text": " ba be"}), "born")


def test_a_checkpoint_that_cannot_be_read_is_left_out(
    copier: Copier, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages, damaged = dict(copier.checkpoints), set[str]()
    names = list(stages)
    model = Model(copy.deepcopy(copier.network), copier.tokenizer)  # type: ignore[arg-type]

    def at(self: Model, name: str) -> Model:
        if name in damaged:
            raise UserError(f"{name} is damaged")
        return dataclasses.replace(self, network=stages[name])

    monkeypatch.setattr(Model, "checkpoints", property(lambda self: names))
    monkeypatch.setattr(Model, "at_checkpoint", at)
    asked = look_at(model, {"text": " ba be bi ba be"})
    damaged.update(names)
    with pytest.raises(UserError, match=f"no checkpoint can be read; {names[0]} is damaged"):
        view(asked, "born")
    damaged.remove(names[1])
    damaged.remove(names[-2])
    for _ in range(2):
        found = view(asked, "born")
        assert found["checkpoints"] == found["asked"] == [names[1], names[-2]]
        assert found["skipped"] == [
            [name, f"{name} is damaged"] for name in names if name in damaged
        ]
    kept = names.copy()
    names[:] = [kept[0], kept[2], kept[4]]  # a training goes on: others were measured before
    damaged.remove(kept[4])
    assert view(asked, "born")["checkpoints"] == [kept[4]]
    names[:] = kept
    damaged.clear()  # it was being written
    found = view(asked, "born")
    assert found["checkpoints"] == found["asked"] == names
    assert not found["skipped"]


def test_abilities_of_every_kind() -> None:
    for kind, keys in (("decoder", {"copy"}), ("encoder", set()), ("encoder-decoder", set())):
        model = MODELS[kind]()
        reader = Reader(model.network, model.tokenizer, model.source_tokenizer, None)
        assert {one.key for one in Behaviours(reader).measure()} >= keys, kind


@pytest.mark.parametrize("dials", [{"token_head": False}, {"token_head": False, "n_classes": 3}])
def test_an_encoder_without_words_fills_nothing_in(
    monkeypatch: pytest.MonkeyPatch, dials: dict[str, Any]
) -> None:
    """Its tokenizer holds the stories, and its logits are vectors or classes."""
    made = encoder(**dials)
    reader = build_tokenizer(draw_sample([STORY], 10**6, 0), "byte", None, True, (MASK,))
    network = toy.network(reader.vocab_size, assembly="encoder-only", **dials)
    model = dataclasses.replace(made, network=network, tokenizer=reader)
    speaking = toy.network(reader.vocab_size, assembly="encoder-only")
    assert Behaviours(Reader(speaking, reader, None, None)).tasks
    assert not {"mask_out", "glance"} & set(can(model))
    assert not Behaviours(Reader(network, reader, None, None)).measure()
    asked = look_at(model, {"text": "a cat", "off": ["L0.H0"]})
    assert view(asked, "off")["guesses"] is None
    with pytest.raises(UserError, match="no output layer over its words, so it tells none"):
        view(asked, "off", measure=True)
    with pytest.raises(UserError, match="no output layer over its words, so it fills"):
        view(asked, "mask_out")
    monkeypatch.setattr(Model, "checkpoints", property(lambda self: ["step-1", "step-2"]))
    monkeypatch.setattr(Model, "at_checkpoint", lambda self, name: self)
    found = view(look_at(model, {"text": "a cat"}), "born")
    assert len(found["checkpoints"]) == 2
    assert not found["curves"]
