"""From when on a head has a role, and how that is said."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from viewed import decoder, encoder

from budgerigar.errors import UserError
from budgerigar.inspection.behaviours import Behaviours
from budgerigar.inspection.role_names import ROLES
from budgerigar.inspection.role_probes import Reader, repeats
from budgerigar.inspection.role_results import HeadRoles, RoleRow, SiteRoles
from budgerigar.inspection.role_text import role_lines
from budgerigar.inspection.roles import head_roles
from budgerigar.inspection.switched import Switches, moved_guesses
from budgerigar.layers.config import LayerPattern

NAN = float("nan")


@pytest.mark.parametrize(
    ("key", "score", "recall", "offset", "untrained", "has"),
    [
        ("previous", 0.5, 0.0, 1.0, 0.1, True),
        ("previous", 0.49, 0.9, 1.0, 0.1, True),  # nine arg-maxima of ten
        ("previous", 0.49, 0.89, 1.0, 0.1, False),
        ("previous", 0.9, 1.0, 1.0, 0.85, False),  # an untrained copy does it too
        ("first", 0.3, 1.0, 0.0, 0.0, False),
        ("first", 0.31, 0.0, 0.0, 0.0, True),
        ("induction", 0.4, 0.4, 0.1, 0.05, True),
        ("induction", 0.39, 0.9, 0.1, 0.05, False),
        ("subject", 0.6, 0.8, 0.77, 0.1, False),  # always the word before does as well
        ("subject", 0.6, 0.9, 0.77, 0.1, True),
        ("subject", 0.39, 0.9, 0.2, 0.1, False),
        ("subject", NAN, NAN, NAN, 0.1, False),
        ("induction", 0.9, 0.9, 0.1, None, True),
    ],
)
def test_thresholds(
    key: str, score: float, recall: float, offset: float, untrained: float | None, has: bool
) -> None:
    assert ROLES[key].fits(score, recall, offset, untrained) == has


def _row(score: list[float], rows: int = 100, untrained: float = 0.05) -> RoleRow:
    n = len(score)
    values = np.array(score)
    return RoleRow(
        ROLES["induction"],
        "some texts",
        tuple(f"L0.H{head}" for head in range(n)),
        values,
        values,
        values,
        np.full(n, NAN),
        np.full(n, 0.1),
        np.full(n, rows),
        np.full(n, 0.2),
        (3,) * n,
        np.full(n, untrained),
    )


def test_the_strongest_first_and_the_best_where_none_has_it() -> None:
    row = _row([0.1, 0.5, NAN, 0.9])
    assert row.found == [3, 1]
    assert row.best == 3
    lines = role_lines(row, "a")
    assert lines[0].split()[:3] == ["induction", "L0.H3", "0.900"]
    assert lines[1].split()[0] == "L0.H1"
    none = role_lines(_row([0.1, 0.3]), "a")
    assert none[0] == "induction           not found; the best head:"
    assert none[1].split()[:2] == ["L0.H1", "0.300"]


def test_few_rows_prove_nothing() -> None:
    assert _row([0.9], rows=19).found == []
    assert _row([0.9], rows=20).found == [0]


def test_badges_and_json() -> None:
    row, unmeasured = _row([0.1, 0.9]), RoleRow(ROLES["gap"], "stories", reason="no such words")
    site = SiteRoles(
        "decoder", "self", row.names, (row, unmeasured),
        np.array([0.8, 0.2]), np.array([0.1, 0.9]), np.array([0.0, NAN]),
    )  # fmt: skip
    assert site.badges() == {"L0.H0": ["broad"], "L0.H1": ["induction", "confident"]}
    assert site.badges(keys=True)["L0.H1"] == ["induction", "confident"]
    roles = HeadRoles((site,))
    told = json.loads(json.dumps(roles.as_dict(), allow_nan=False))
    assert told["attention"][0]["heads"][1]["sink_rate"] is None
    assert told["attention"][0]["roles"][1]["not_measured"] == "no such words"
    assert "pet of the gap      not measured: no such words" in str(roles)
    assert roles.role("induction") is row
    with pytest.raises(UserError, match="no role 'bracket'"):
        roles.site().role("bracket")


def test_a_layer_with_a_window_is_judged_by_what_it_sees() -> None:
    """Its rows whose right columns lie outside are no misses, and its null is that of its window."""
    model = decoder(layers=(LayerPattern(attention_window=3), LayerPattern()))
    reader = Reader(model.network, model.tokenizer, None, model.start_id)
    texts = [repeats(reader, n=3)]
    roles = head_roles(model.network, model.tokenizer, start_id=model.start_id, texts=texts)
    row = roles.role("duplicate")
    assert row.names[:4] == ("L0.H0", "L0.H1", "L0.H2", "L0.H3")
    assert (row.rows[:4] == 0).all()  # repeated later than three tokens after
    assert np.isnan(row.score[:4]).all()
    assert (row.rows[4:] == sum(len(example.ids) // 2 for example in texts[0].examples)).all()
    assert np.isfinite(row.score[4:]).all()
    assert row.best is not None
    assert row.names[row.best].startswith("L1")
    assert "not found" in str(roles)


# -- abilities -------------------------------------------------------------------------------------


def test_copying_is_measured_as_one_would_by_hand() -> None:
    model = decoder()
    reader = Reader(model.network, model.tokenizer, None, model.start_id)
    abilities = {(one.key, one.unit): one for one in Behaviours(reader).measure()}
    nats, right, n = 0.0, 0, 0
    for example in repeats(reader).examples:
        ids = [model.start_id, *example.ids]
        half = len(example.ids) // 2
        log_p = model.logits(ids).double().log_softmax(-1)
        for at in range(1 + half + 1, len(ids)):  # the first copied token cannot be known
            nats -= float(log_p[at - 1, ids[at]])
            right += int(log_p[at - 1].argmax() == ids[at])
            n += 1
    copy = abilities["copy", "nats"]
    assert copy.n == n
    assert copy.value == pytest.approx(nats / n, rel=1e-5)
    assert abilities["copy", "share"].value == pytest.approx(right / n)


def test_an_encoder_fills_in_and_one_without_a_mask_cannot_be_measured() -> None:
    model = encoder(context_length=128)
    found = Behaviours(Reader(model.network, model.tokenizer, None, model.start_id)).measure()
    assert {one.key for one in found} == {"fill"}
    assert found[0].n > 100
    assert found[1].value > 1.0  # it has learnt nothing
    with pytest.raises(UserError, match="nothing to measure this model by"):
        Switches(model.network, decoder().tokenizer)


def test_guesses_that_moved() -> None:
    model = decoder()
    text = "Xuanyuan had a budgerigar"
    before, after = model.trace(text), model.edited(["L0"]).trace(text)
    found = moved_guesses(before, after, top=3)
    chances = [torch.softmax(trace.logits[-1].double(), -1) for trace in (before, after)]
    best = {int(i) for one in chances for i in one.topk(3).indices}
    assert {token for token, _, _ in found} == best
    assert [p for _, p, _ in found] == sorted((p for _, p, _ in found), reverse=True)
    assert found[0][1] == pytest.approx(float(chances[0].max()))
