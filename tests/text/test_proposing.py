from __future__ import annotations

from pathlib import Path

import pytest

from budgerigar.text.proposing import propose_split

POEM = "床前明月光，疑是地上霜。\n举头望明月，低头思故乡。"
VERSE = "The woods are still and deep,\nAnd I have far to go,\nBefore the town can sleep."
CHAT = "User: what is that?\nBot: a bird\nUser: thanks"
SPEECH = "ROMEO:\nBut soft, what light\nthrough yonder window breaks?"
WRAPPED = "It was a dark night and the rain\nfell on the roofs of the town where\nnobody slept."
PARAGRAPH = "It was a dark night, and the rain fell on the roofs of the town."


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (POEM, "blank-lines"),
        (VERSE, "blank-lines"),
        (CHAT, "blank-lines"),
        (SPEECH, "none"),
        (WRAPPED, "none"),
        (PARAGRAPH, "none"),
        ("月光疑\n地上霜", "none"),  # lines that run on
        ("\n".join(["A line."] * 400), "none"),  # chapters
    ],
)
def test_what_blocks_are(tmp_path: Path, block: str, expected: str) -> None:
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join([block] * 30) + "\n", encoding="utf-8")
    assert propose_split(path) == expected
    path.write_text("\n\n".join([block] * 3), encoding="utf-8")
    assert propose_split(path) == "none"  # too few to tell


def test_json_lines_and_nothing(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text('{"text": "a"}\n{"text": "b"}\n', encoding="utf-8")
    assert propose_split(path) == "json-lines"
    path.write_text('{"text": "a"}\nb\n', encoding="utf-8")
    assert propose_split(path) == "none"
    path.write_text("", encoding="utf-8")
    assert propose_split(path) == "none"


@pytest.mark.needs_data
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chinese_poems.txt", "blank-lines"),
        ("tang300_simplified.txt", "blank-lines"),
        ("tinyshakespeare.txt", "none"),
        ("difficult/lf.txt", "none"),
        ("difficult/many_empty_lines.txt", "none"),
        ("cmn-eng/train.zh", "none"),
    ],
)
def test_real_files(data_folder: Path, name: str, expected: str) -> None:
    assert propose_split(data_folder / name) == expected
