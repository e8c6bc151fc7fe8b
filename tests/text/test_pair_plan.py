"""What decides the tokens of pairs decides their key."""

from __future__ import annotations

from pathlib import Path

from budgerigar.text.pair_files import PairFiles
from budgerigar.text.pair_plan import PairPlan, plan_pairs


def plan(path: Path) -> PairPlan:
    return plan_pairs(
        PairFiles(pairs=(path,)), None, None, encoding=None, lowercase=False, fraction=0.5, seed=0
    )


def test_records_and_a_table_of_the_same_bytes_are_different_pairs(tmp_path: Path) -> None:
    row = '{"source": "a\\t", "target": "b"}\t{"c": 1}\n'
    keys = set()
    for name in ("a.tsv", "a.jsonl", "b.tsv"):
        (tmp_path / name).write_text(row, encoding="utf-8")
        keys.add(plan(tmp_path / name).key())
    assert len(keys) == 2  # where a file lies changes nothing
