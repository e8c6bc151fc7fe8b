"""Alignment error rates by hand, and the Pharaoh format."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from budgerigar.errors import UserError
from budgerigar.evaluation.alignment import (
    GoldAlignment,
    alignment_error_rate,
    format_pharaoh,
    parse_pharaoh,
    read_pharaoh,
    score_alignments,
    write_pharaoh,
)
from budgerigar.text.pairs import sentence_pairs


def test_by_hand() -> None:
    sure, possible = {(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 1)}
    predicted = {(0, 0), (2, 1), (2, 2)}
    score = score_alignments([predicted], [sure], [possible])
    assert score.precision == pytest.approx(2 / 3)
    assert score.recall == pytest.approx(1 / 2)
    assert score.error_rate == pytest.approx(1 - (1 + 2) / (3 + 2))
    assert alignment_error_rate(predicted, sure, possible) == score.error_rate
    # possible links given without the sure ones among them mean the same
    assert alignment_error_rate(predicted, sure, {(2, 1)}) == score.error_rate
    # without possible links it is 1 - F1
    f1 = 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2)
    assert alignment_error_rate(predicted, sure) == pytest.approx(1 - f1)
    assert "precision 0.667, recall 0.500" in str(score)
    assert score.as_dict()["predicted"] == 3


def test_ends() -> None:
    assert alignment_error_rate({(0, 0)}, {(0, 0)}) == 0
    assert alignment_error_rate({(0, 1)}, {(0, 0)}) == 1
    assert alignment_error_rate(set(), {(0, 0)}) == 1
    assert alignment_error_rate({(0, 0)}, set()) == 1
    assert alignment_error_rate(set(), set()) == 0
    # a possible link costs nothing when it is predicted, and nothing when it is left out
    assert alignment_error_rate({(0, 0), (1, 0)}, {(0, 0)}, {(1, 0)}) == 0
    assert alignment_error_rate({(0, 0)}, {(0, 0)}, {(1, 0)}) == 0


def test_a_corpus_is_counted_together() -> None:
    rng = random.Random(1)

    def links(n: int) -> set[tuple[int, int]]:
        return {(rng.randrange(6), rng.randrange(6)) for _ in range(n)}

    predicted, sure, more = ([links(rng.randrange(8)) for _ in range(40)] for _ in range(3))
    score = score_alignments(predicted, sure, more)

    def together(sets: list[set[tuple[int, int]]]) -> set[tuple[int, tuple[int, int]]]:
        return {(n, link) for n, one in enumerate(sets) for link in one}

    a, s, p = together(predicted), together(sure), together(more) | together(sure)
    assert score.error_rate == pytest.approx(1 - (len(a & s) + len(a & p)) / (len(a) + len(s)))
    assert score.precision == pytest.approx(len(a & p) / len(a))
    assert score.recall == pytest.approx(len(a & s) / len(s))
    assert (score.predicted, score.sure, score.sentences) == (len(a), len(s), 40)
    with pytest.raises(UserError, match="40 alignments stand against 39"):
        score_alignments(predicted, sure[:-1])


def test_pharaoh_there_and_back(tmp_path: Path) -> None:
    gold = parse_pharaoh("0-0 3?2  1-2")
    assert gold == GoldAlignment(frozenset({(0, 0), (1, 2)}), frozenset({(0, 0), (1, 2), (3, 2)}))
    assert format_pharaoh(gold.sure, gold.possible) == "0-0 1-2 3?2"
    assert parse_pharaoh("") == GoldAlignment(frozenset(), frozenset())
    pairs = sentence_pairs(20, split="test")
    for pair in pairs:
        assert parse_pharaoh(pair.pharaoh).sure == set(pair.word_alignment)
    path = write_pharaoh(tmp_path / "gold.txt", [*(p.word_alignment for p in pairs), ()])
    again = read_pharaoh(path, sentences=21)
    assert [one.sure for one in again[:-1]] == [set(p.word_alignment) for p in pairs]
    assert not again[-1].sure
    (tmp_path / "windows.txt").write_bytes(b"\xef\xbb\xbf0-0\r\n\r\n1?1")
    assert [len(one.possible) for one in read_pharaoh(tmp_path / "windows.txt")] == [1, 0, 1]


def test_user_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text("0-0\n1-x 2-2\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"wrong.txt, line 2: '1-x' is no link"):
        read_pharaoh(path)
    path.write_text("0-0\n1-1\n", encoding="utf-8")
    with pytest.raises(UserError, match="2 alignments for 3 sentence pairs"):
        read_pharaoh(path, sentences=3)
    with pytest.raises(UserError, match="source word 4, but there are 4"):
        parse_pharaoh("4-0", 4, 1)
    with pytest.raises(UserError, match="target word 1, but there are 1"):
        parse_pharaoh("0-1", 4, 1)
    for wrong in ("-1-0", "0:0", "0-0-0", "a-b"):
        with pytest.raises(UserError, match="is no link"):
            parse_pharaoh(wrong)
