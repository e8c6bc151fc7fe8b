from __future__ import annotations

import codecs
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgerigar.errors import UserError
from budgerigar.text.reading import detect_encoding, read_blocks, read_lines, read_text

CHINESE = "秦川雄帝宅，函谷壮皇居。\n绮殿千寻起，离宫百雉余。\n" * 20


def write(folder: Path, data: bytes) -> Path:
    path = folder / "file.txt"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("bom", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_byte_order_mark_decides_and_is_no_text(tmp_path: Path, bom: bytes, encoding: str) -> None:
    path = write(tmp_path, bom + "诗\r\na😀".encode(encoding))
    assert detect_encoding(path).encoding == encoding
    assert read_text(path) == "诗\na😀"
    # Naming the encoding, in either way, changes nothing.
    assert read_text(path, encoding) == "诗\na😀"
    assert read_text(path, encoding.rsplit("-", 1)[0] if "16" in encoding else encoding) == (
        "诗\na😀"
    )


def test_a_mark_inside_the_text_is_text(tmp_path: Path) -> None:
    assert read_text(write(tmp_path, "a\ufeffb".encode())) == "a\ufeffb"


@given(
    st.lists(st.sampled_from(["a", "诗", "😀", "\r", "\n", "\r\n", "\u2028", "\x85", "\f", "\t"])),
    st.integers(1, 5),
)
def test_line_ends_become_lf_in_any_blocks(parts: list[str], size: int) -> None:
    import tempfile

    text = "".join(parts)
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), text.encode())
        blocks = list(read_blocks(path, block_characters=size))
    assert "".join(blocks) == text.replace("\r\n", "\n").replace("\r", "\n")
    assert all(0 < len(block) <= size + 1 for block in blocks)


@pytest.mark.parametrize(("name", "nul_first"), [("utf-16-le", False), ("utf-16-be", True)])
def test_utf16_without_mark_is_named(tmp_path: Path, name: str, nul_first: bool) -> None:
    path = write(tmp_path, "To be, or not to be".encode(name))
    assert (path.read_bytes()[0] == 0) == nul_first
    with pytest.raises(UserError, match=rf"UTF-16 .*--encoding {name}"):
        read_text(path)
    assert read_text(path, name) == "To be, or not to be"


def test_utf32_without_mark_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "To be, or not to be".encode("utf-32-be"))
    with pytest.raises(UserError, match="--encoding utf-32-be"):
        read_text(path)


def test_nul_elsewhere_is_text(tmp_path: Path) -> None:
    few = "abcdefgh\0" * 100
    many = "a\0\0b\0" * 100  # over a fifth, at both parities
    for text in (few, many):
        assert read_text(write(tmp_path, text.encode())) == text


def test_damaged_utf8_is_not_another_encoding(tmp_path: Path) -> None:
    data = ("诗" * 300).encode() + b"\xff" + b"abc" * 100
    with pytest.raises(UserError, match=r"file\.txt: byte 900 \(FF\).*damaged UTF-8.*1 of 1,201"):
        read_text(write(tmp_path, data))


@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
def test_the_offset_is_that_in_the_file(tmp_path: Path, size: int) -> None:
    path = write(tmp_path, codecs.BOM_UTF8 + b"ab\xe8\xaf\x97\xe8\xafz")
    with pytest.raises(UserError, match="byte 8 "):
        list(read_blocks(path, block_characters=size))


def test_a_cut_character_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"byte 3 .*ends in the middle of a character"):
        read_text(write(tmp_path, "诗人".encode()[:5]))


@pytest.mark.parametrize("size", [3, 1 << 20])
def test_undecodable_in_a_named_encoding(tmp_path: Path, size: int) -> None:
    path = write(tmp_path, "诗人".encode("gbk") + b"\xff\xff")
    with pytest.raises(UserError, match=r"byte 4 .*GBK.*Is --encoding right"):
        list(read_blocks(path, "gbk", size))


@pytest.mark.parametrize(
    ("text", "encoding", "suggested"),
    [
        (CHINESE, "gbk", "gb18030"),
        ("我們在這裡學習語言的時候，說的都是自己的話。" * 5, "big5", "big5"),
        ("これは日本語の文章です。今日はとてもいい天気ですね。" * 5, "shift_jis", "shift_jis"),
        ("L’été est arrivé à Paris, où la fenêtre était fermée. " * 9, "cp1252", "cp1252"),
        ("Она видела его вчера, когда шла по улице домой. " * 9, "cp1251", "cp1251"),
    ],
)
def test_the_probable_encoding_is_named(
    tmp_path: Path, text: str, encoding: str, suggested: str
) -> None:
    path = write(tmp_path, text.encode(encoding))
    with pytest.raises(UserError, match=f"--encoding {suggested}"):
        read_text(path)
    assert read_text(path, suggested) == text


@pytest.mark.parametrize("name", ["klingon", "hex", "idna", "unicode_escape", "rot13"])
def test_what_is_no_encoding_of_text(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="no such encoding"):
        read_text(write(tmp_path, b"abc"), name)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_text(tmp_path / "none.txt")
    with pytest.raises(UserError, match="is a folder"):
        read_text(tmp_path)


def test_an_empty_file_is_an_empty_text(tmp_path: Path) -> None:
    assert read_text(write(tmp_path, b"")) == ""
    assert list(read_blocks(tmp_path / "file.txt")) == []


def test_progress_is_told_all_bytes(tmp_path: Path) -> None:
    told: list[int] = []
    path = write(tmp_path, b"x" * 1000)
    list(read_blocks(path, block_characters=300, advance=told.append))
    assert sum(told) == 1000


class Dripping(io.RawIOBase):
    """A stream whose reads give one part at a time, as a pipe does."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = list(parts)

    def read1(self, n_bytes: int) -> bytes:
        assert n_bytes > 0
        return self.parts.pop(0) if self.parts else b""


def test_lines_come_as_soon_as_they_are_there() -> None:
    stream = Dripping(b"abc\n", b"d", b"e\nf\ng", b"h")
    blocks = read_lines(stream, "stdin")  # type: ignore[arg-type]
    assert next(blocks) == ["abc"]
    assert len(stream.parts) == 3
    assert list(blocks) == [["de", "f"], ["gh"]]


def test_line_ends_of_all_systems_and_characters_cut_anywhere() -> None:
    text = "a\u2028b\x0c\x85c\rd\r\n\r\r\u6709\n"
    parts = [text.encode()[i : i + 1] for i in range(len(text.encode()))]
    lines = [line for block in read_lines(Dripping(*parts), "x") for line in block]  # type: ignore[arg-type]
    assert lines == ["a\u2028b\x0c\x85c", "d", "", "", "\u6709"]
    assert list(read_lines(io.BytesIO(b""), "x")) == []
    assert list(read_lines(io.BytesIO(b"\n\n"), "x")) == [["", ""]]
    held = read_lines(Dripping(b"a\r", b"\nb\r"), "x")  # type: ignore[arg-type]
    assert list(held) == [["a"], ["b"]]
    marked = [
        line for block in read_lines(io.BytesIO("a\r\nb".encode("utf-16")), "x") for line in block
    ]
    assert marked == ["a", "b"]


def test_an_undecodable_byte_is_named_by_its_offset_in_the_stream() -> None:
    with pytest.raises(UserError, match=r"stdin: byte 8 \(FF\)"):
        list(read_lines(Dripping(b"\xef\xbb\xbfabc\n", b"x\xff\n"), "stdin"))  # type: ignore[arg-type]
