from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from budgerigar.text.tables import CharacterTable, id_type

KNOWN = {"a": 0, "b": 1, "诗": 2}
TABLE = CharacterTable(KNOWN, np.arange(10, 266), 266)


@given(st.lists(st.text(st.sampled_from("ab诗é人😀"), max_size=6), max_size=5))
@settings(deadline=None)
def test_equal_to_a_loop(texts: list[str]) -> None:
    expected = [
        [i for c in text for i in ([KNOWN[c]] if c in KNOWN else [10 + b for b in c.encode()])]
        for text in texts
    ]
    ids, lengths = TABLE.encode_many(texts)
    assert ids.tolist() == [i for one in expected for i in one]
    assert lengths.tolist() == [len(one) for one in expected]
    assert ids.dtype == np.uint16


def test_types_hold_all_ids() -> None:
    assert id_type(65_536) is np.uint16
    assert id_type(65_537) is np.uint32
    # At the largest 16-bit vocabulary the last id is not taken for "unknown".
    table = CharacterTable({"a": 65_535}, np.arange(256), 65_536)
    assert table.encode_many(["aé"])[0].tolist() == [65_535, 0xC3, 0xA9]
