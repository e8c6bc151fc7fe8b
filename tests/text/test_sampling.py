from __future__ import annotations

from collections import Counter

from budgerigar.text import sampling
from budgerigar.text.sampling import draw_sample


def test_a_text_that_fits_is_whole() -> None:
    texts = ["诗人\n" * 10_000, "", "abc"]
    sample = draw_sample(texts, 10**6, 0)
    assert "".join(sample.texts) == "".join(texts)
    assert sample.total_bytes == 70_003
    assert sample.characters == Counter("".join(texts))


def test_a_sample_is_seeded_and_in_order() -> None:
    lines = [f"line {i:05d}\n" for i in range(20_000)]
    sample = draw_sample(["".join(lines)], 50_000, 1)
    text = "".join(sample.texts)
    assert 30_000 < len(text) <= 50_000
    assert text.splitlines() == sorted(text.splitlines())
    assert set(text.splitlines(keepends=True)) <= set(lines)  # cut at line ends
    assert draw_sample(["".join(lines)], 50_000, 1).texts == sample.texts
    assert draw_sample(["".join(lines)], 50_000, 2).texts != sample.texts
    # Size and characters are those of the whole text.
    assert sample.total_bytes == 220_000
    assert sample.characters == Counter("".join(lines))


def test_many_short_texts_are_drawn_evenly() -> None:
    texts = [f"{i:06d}" for i in range(10_000)]
    kept = [int(text) for text in draw_sample(texts, 12_000, 0).texts]
    assert len(kept) == 2_000
    assert abs(sum(kept) / len(kept) - 5_000) < 250  # about 4 standard errors


def test_lines_without_end_are_cut() -> None:
    sample = draw_sample(["x" * 100_000], 10**6, 0)
    assert max(map(len, sample.texts)) == sampling._CHUNK_CHARACTERS
