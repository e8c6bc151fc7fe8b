"""Head roles on models: an induction head that is found, seen to be born, and missed when it is off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from copier import Copier, train_copier

from budgerigar.inspection.born import Born, roles_through_training
from budgerigar.inspection.role_results import HeadRoles
from budgerigar.inspection.roles import head_roles
from budgerigar.inspection.switched import switch_off


@pytest.fixture(scope="module")
def copier() -> Copier:
    return train_copier()


@pytest.fixture(scope="module")
def roles(copier: Copier) -> HeadRoles:
    return head_roles(copier.network, copier.tokenizer, start_id=copier.start_id)


@pytest.fixture(scope="module")
def life(copier: Copier) -> Born:
    return roles_through_training(copier.checkpoints, copier.tokenizer, start_id=copier.start_id)


def test_the_induction_head_is_found_and_badged(roles: HeadRoles) -> None:
    print(roles)
    row = roles.role("induction")
    assert row.found
    best = row.found[0]
    assert row.names[best].startswith("L1")  # it needs what a head of the layer before wrote
    assert row.score[best] > 0.5
    assert row.best_untrained is not None
    assert row.best_untrained < 0.2
    assert row.offset[best] < 0.3  # the distance of the copy differs from text to text
    assert "induction" in roles[0].badges()[row.names[best]]


def test_it_appears_between_two_named_checkpoints(life: Born, roles: HeadRoles) -> None:
    print(life)
    head = roles.role("induction").names[roles.role("induction").found[0]]
    birth = next(b for b in life.births() if b.role == "induction" and b.head == head)
    assert birth.before is not None
    assert birth.before < birth.at
    assert birth.score_before is not None
    assert birth.score_before < 0.4 <= birth.score_at
    scores = life.scores("induction")
    assert scores.shape == (len(life.names), 4)
    assert f"{head} comes to have it between {birth.before}" in str(life)
    json.dumps(life.as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    "how",
    [
        "mean",
        pytest.param("zero", marks=pytest.mark.slow),
        pytest.param("resample", marks=pytest.mark.slow),
    ],
)
def test_switching_it_off_destroys_the_copy(copier: Copier, roles: HeadRoles, how: str) -> None:
    row = roles.role("induction")
    off = [row.names[n] for n in row.found]
    effect = switch_off(
        copier.network,
        copier.tokenizer,
        off,
        how,  # type: ignore[arg-type]
        start_id=copier.start_id,
    )
    print(effect)
    change = effect.change("copy")
    assert change.before.value > 0.9  # measured here: 0.99
    assert change.after.value < 0.2  # 0.04 (mean, resample), 0.08 (zero)
    assert effect.change("copy", "nats").difference > 1.0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_head_that_finds_the_pet(tmp_path: Path) -> None:
    """The word game, trained for 800 steps: who looks for the pet, since when, and what it is worth.

    A writer has no use for the pet at most words "it" ("it had"); where the next word depends on it
    ("it sang"), and behind the verb, it has.
    """
    import budgerigar as bg

    settings = {"steps": 800, "keep_checkpoints": 20, "checkpoint_every": 50}
    quiet = {"sample_every": 0, "baselines": False, "threads": 1}
    model = bg.train(recipe="stories", out=tmp_path / "game", **settings, **quiet).model  # type: ignore[arg-type]
    roles = model.roles()
    print(roles)
    gap, verb = roles.role("gap"), roles.role("reference_verb")
    needed = roles.role("reference_needed")  # score, recall and precision 1.00 with seeds 1 to 3
    best = needed.found[0]
    assert min(needed.score[best], needed.recall[best], needed.precision[best]) > 0.9
    assert needed.offset[best] < 0.3
    assert needed.elsewhere[best] < 0.3
    assert needed.rows[best] >= 20
    head = gap.found[0]
    assert gap.score[head] > 0.9
    assert gap.recall[head] > 0.95
    assert gap.precision[head] > 0.95
    assert gap.offset[head] < 0.3
    assert gap.elsewhere[head] < 0.4
    assert verb.found
    assert verb.recall[verb.found[0]] > verb.offset[verb.found[0]] + 0.1
    assert verb.rows[0] > 100
    life = model.roles_through_training()
    print(life)
    birth = next(b for b in life.births() if b.role == "gap" and b.head == gap.names[head])
    assert birth.before is not None
    assert birth.before in model.checkpoints
    assert birth.score_before is not None
    assert birth.score_before < 0.4 <= birth.score_at
    later = next(b for b in life.births() if b.role == needed.role.key)
    assert later.before in model.checkpoints  # measured: between steps 250 (0.38) and 300 (0.94)
    whole = model.without([gap.names[n] for n in gap.found]).change("gap")
    assert whole.before.value > 0.95
    assert whole.after.value < 0.5
