"""What is held out of pairs: no sentence of either side in both parts, or it is said."""

from __future__ import annotations

import numpy as np
import pytest

from budgerigar.text.pair_holdout import components, hold_out_pairs, sentence_keys

Pairs = list[tuple[str, str]]


def brute_components(pairs: Pairs) -> list[frozenset[int]]:
    """Groups of pairs, by merging sets until none share a sentence."""
    groups = [({i}, {("s", s), ("t", t)}) for i, (s, t) in enumerate(pairs)]
    merged = True
    while merged:
        merged = False
        for a in range(len(groups)):
            for b in range(a + 1, len(groups)):
                if groups[a][1] & groups[b][1]:
                    groups[a] = (groups[a][0] | groups[b][0], groups[a][1] | groups[b][1])
                    del groups[b]
                    merged = True
                    break
            if merged:
                break
    return [frozenset(numbers) for numbers, _ in groups]


@pytest.mark.parametrize("seed", range(6))
def test_components_against_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pairs = [(str(a), str(b)) for a, b in rng.integers(0, 60, (70, 2))]
    keys = sentence_keys(pairs)
    labels = components(keys.source, keys.target)
    found = {frozenset(np.flatnonzero(labels == label).tolist()) for label in set(labels)}
    assert found == set(brute_components(pairs))
    assert sorted(set(labels)) == list(range(len(found)))


def test_a_long_chain_is_one_component() -> None:
    numbers = np.arange(50_000)
    order = np.random.default_rng(0).permutation(50_000)
    assert components((numbers // 2)[order], ((numbers + 1) // 2)[order]).max() == 0


def sides(pairs: Pairs, held_out: np.ndarray, side: int) -> tuple[set[str], set[str]]:
    def tidy(text: str) -> str:
        return " ".join(text.split()).casefold()

    parts: tuple[set[str], set[str]] = set(), set()
    for pair, out in zip(pairs, held_out.tolist(), strict=True):
        parts[out].add(tidy(pair[side]))
    return parts


def test_no_sentence_is_in_both_parts() -> None:
    rng = np.random.default_rng(1)
    pairs = [(f"Satz {a}", f"sentence {b}") for a, b in rng.integers(0, 3000, (1000, 2))]
    pairs += [("SATZ  5 ", "x"), ("y", "Sentence 7")]
    found = hold_out_pairs(sentence_keys(pairs), 0.1, 0)
    assert found is not None
    assert 80 <= found.held_out.sum() <= 100
    for side in (0, 1):
        learnt, asked = sides(pairs, found.held_out, side)
        assert not learnt & asked
    assert found.note == "no sentence of either side is in both parts"


def test_it_depends_on_the_seed_alone() -> None:
    keys = sentence_keys([(f"a{i}", f"b{i}") for i in range(200)])
    first, again, other = (hold_out_pairs(keys, 0.1, seed) for seed in (0, 0, 1))
    assert first
    assert again
    assert other
    assert first.held_out.sum() == 20
    assert (first.held_out == again.held_out).all()
    assert (first.held_out != other.held_out).any()


@pytest.mark.parametrize("swap", [False, True])
def test_where_all_hang_together_by_one_side(swap: bool) -> None:
    pairs = [(f"Frage {i}", ("ja", "nein", "vielleicht")[i % 3]) for i in range(300)]
    pairs += [("Frage 1", "ja"), ("Frage 1", "vielleicht")]
    if swap:
        pairs = [(target, source) for source, target in pairs]
    found = hold_out_pairs(sentence_keys(pairs), 0.1, 0)
    assert found is not None
    assert 15 <= found.held_out.sum() <= 31
    side, name = (1, "target") if swap else (0, "source")
    learnt, asked = sides(pairs, found.held_out, side)
    assert not learnt & asked
    assert found.note.startswith(f"no {name} sentence is in both parts; ")
    assert "nearly all pairs hang together" in found.note


def test_where_only_pairs_can_be_parted() -> None:
    pairs = [(f"a{i}", f"b{j}") for i in range(9) for j in range(9)] * 2
    found = hold_out_pairs(sentence_keys(pairs), 0.1, 0)
    assert found is not None
    assert found.note.startswith("no source sentence") or found.note.startswith("no pair")
    two = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")] * 5
    found = hold_out_pairs(sentence_keys(two), 0.1, 0)
    assert found is not None
    learnt = {pair for pair, out in zip(two, found.held_out, strict=True) if not out}
    assert not learnt & {pair for pair, out in zip(two, found.held_out, strict=True) if out}


@pytest.mark.parametrize(
    ("pairs", "n_held_out"),
    [
        ([], None),
        ([("a", "b")], None),
        ([("a", "b")] * 50, None),
        ([("a", "b"), ("c", "d")], 1),
        ([("a", "b"), ("c", "d")] * 2, 2),
        ([("a", "b"), ("c", "d")] * 50, 50),
        ([("a", "b"), ("a", "c")], 1),
        ([("a", "b"), ("c", "d"), ("e", "f")], 1),
    ],
)
def test_few_pairs(pairs: Pairs, n_held_out: int | None) -> None:
    found = hold_out_pairs(sentence_keys(pairs), 0.1, 0)
    assert (int(found.held_out.sum()) if found else None) == n_held_out
