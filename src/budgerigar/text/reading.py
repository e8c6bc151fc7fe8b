"""From the bytes of a file to text, in constant memory.

Text is UTF-8 unless a byte-order mark or `encoding` says otherwise; nothing is guessed in silence,
because a wrong guess trains a model on nonsense. Line ends become LF (CRLF and CR too, also across
block edges); every other character is kept, NUL, form feed and U+2028 included. Undecodable bytes
are a `UserError` with file and byte offset, and with the encoding that the file probably has.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from budgerigar.errors import UserError
from budgerigar.text.guessing import describe_damage, describe_missing_bom

BLOCK_CHARACTERS = 1 << 20
STREAM_BYTES = 1 << 16  # what a pipe holds: lines that wait there are read together
_HEAD_BYTES = 1 << 20  # how much of a file is looked at for byte-order marks and NULs

# UTF-32 first: its little-endian mark begins like that of UTF-16.
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# "utf-16" and "utf-8-sig" mean "whichever the mark says": the mark is read here, once, for all.
_MARKED = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
_NOT_TEXT = {"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"}


@dataclass(frozen=True)
class Detected:
    """What a file is written in: a codec's name, the length of its byte-order mark, and why."""

    encoding: str
    bom: int
    reason: str


def detect_encoding(path: str | Path, encoding: str | None = None) -> Detected:
    """How to read `path`: as `encoding`, as its byte-order mark says, else as UTF-8.

    Raises `UserError` for an unknown encoding, an unreadable file, and a file that is UTF-16 or
    UTF-32 without a byte-order mark (NUL in over a fifth of the bytes, all at one parity).
    """
    with _open(path) as file:
        return _detect(_read(file, _HEAD_BYTES, path), path, encoding)


def _detect(head: bytes, path: str | Path, encoding: str | None) -> Detected:
    marked = next(((mark, name) for mark, name in _BOMS if head.startswith(mark)), None)
    if encoding is not None:
        wanted = _codec_name(encoding)
        if marked and wanted in _MARKED and marked[1].startswith(_MARKED[wanted][:6]):
            return Detected(marked[1], len(marked[0]), "as asked, and by its byte-order mark")
        wanted = _MARKED.get(wanted, wanted)
        bom = len(marked[0]) if marked and marked[1] == wanted else 0
        return Detected(wanted, bom, "as asked")
    if marked:
        return Detected(marked[1], len(marked[0]), "by its byte-order mark")
    if problem := describe_missing_bom(head):
        raise UserError(f"{path}: {problem}")
    return Detected("utf-8", 0, "UTF-8, the default")


def read_blocks(
    path: str | Path,
    encoding: str | None = None,
    block_characters: int = BLOCK_CHARACTERS,
    advance: Callable[[int], object] | None = None,
) -> Iterator[str]:
    """The text of `path` in blocks of at most `block_characters` + 1 characters, none empty.

    Joined they are the LF-normalised text; where a block ends means nothing. `advance` is told
    the bytes read. Raises `UserError` at the first byte that cannot be decoded, naming its offset
    from the start of the file.
    """
    detected = detect_encoding(path, encoding)
    decoder = codecs.getincrementaldecoder(detected.encoding)("strict")
    # translate=True turns CRLF and CR into LF, and holds back a CR at the end of a block.
    lines = io.IncrementalNewlineDecoder(decoder, translate=True)
    with _open(path) as file:
        file.seek(detected.bom)
        position = detected.bom
        while True:
            data = _read(file, block_characters, path)
            position += len(data)
            if advance is not None:
                advance(len(data))
            try:
                block = lines.decode(data, final=not data)
            except UnicodeDecodeError as error:
                # The decoder's buffer ends where we have read to, so this is the file's offset.
                offset = position - len(error.object) + error.start
                raise UserError(_undecodable(path, detected.encoding, offset, error)) from None
            if block:
                yield block
            if not data:
                return


def read_text(path: str | Path, encoding: str | None = None) -> str:
    """The whole LF-normalised text of `path`; errors as in `read_blocks`."""
    return "".join(read_blocks(path, encoding))


def read_lines(stream: BinaryIO, name: str, encoding: str | None = None) -> Iterator[list[str]]:
    """The lines of a byte stream, in blocks, each as soon as its bytes are there; memory is constant.

    A line ends at LF, CRLF or CR, as in `read_blocks`; any other character is text (U+2028 and form
    feed too). The last one may lack its end. Errors as in `read_blocks`, `name` standing for the
    path.
    """
    data = _read_some(stream, name)
    while 0 < len(data) < 4 and (more := _read_some(stream, name)):  # a byte-order mark has up to 4
        data += more
    detected = _detect(data, name, encoding)
    decoder = codecs.getincrementaldecoder(detected.encoding)("strict")
    ends = io.IncrementalNewlineDecoder(decoder, translate=True)  # holds back a CR at the end
    data, position, begun = data[detected.bom :], detected.bom, list[str]()
    while True:
        position += len(data)
        try:
            text = ends.decode(data, final=not data)
        except UnicodeDecodeError as error:
            offset = position - len(error.object) + error.start
            words = _undecodable(name, detected.encoding, offset, error, io.BytesIO(error.object))
            raise UserError(words) from None
        first, *others = text.split("\n")
        begun.append(first)
        if others:
            yield ["".join(begun), *others[:-1]]
            begun = others[-1:]
        if not data:
            break
        data = _read_some(stream, name)
    if last := "".join(begun):
        yield [last]


def open_lines(path: str | Path, encoding: str | None = None) -> Iterator[list[str]]:
    """The lines of a file, as `read_lines` gives them."""
    with _open(path) as file:
        yield from read_lines(file, str(path), encoding)


def decode_text(data: bytes, name: str, encoding: str | None = None) -> str:
    """The LF-normalised text of bytes that come from no file; errors as in `read_blocks`."""
    detected = _detect(data[:_HEAD_BYTES], name, encoding)
    try:
        text = data[detected.bom :].decode(detected.encoding)
    except UnicodeDecodeError as error:
        offset = detected.bom + error.start
        words = _undecodable(name, detected.encoding, offset, error, io.BytesIO(data))
        raise UserError(words) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _undecodable(
    path: str | Path,
    encoding: str,
    offset: int,
    error: UnicodeDecodeError,
    source: io.BytesIO | None = None,
) -> str:
    bad = " ".join(f"{byte:02X}" for byte in error.object[error.start : error.end][:4])
    what = f"{path}: byte {offset:,} ({bad}) cannot be read as {encoding.upper()}"
    if encoding != "utf-8":
        return f"{what} ({error.reason}). Is --encoding right? Without it, UTF-8 is tried."
    with source or _open(path) as file:
        return f"{what}: {describe_damage(file, error.reason)}"


def _codec_name(encoding: str) -> str:
    try:
        info = codecs.lookup(encoding)
    except (LookupError, ValueError):
        info = None
    name = info.name.replace("_", "-") if info else ""
    # Python's registry also holds byte transformations (hex, zip): not encodings of text.
    if info is None or not info._is_text_encoding or name in _NOT_TEXT:
        raise UserError(
            f"--encoding {encoding}: no such encoding. Common ones: utf-8, utf-16, gb18030, big5, "
            "shift_jis, euc-kr, cp1252, latin-1, koi8-r."
        )
    return name


def _open(path: str | Path) -> io.BufferedReader:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file. Is the path right?") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; a file is needed here.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None


def _read_some(stream: BinaryIO, name: str) -> bytes:
    """What is there, at least one byte; b"" at the end."""
    read = getattr(stream, "read1", stream.read)  # a stream without buffer reads so anyway
    try:
        return bytes(read(STREAM_BYTES))
    except OSError as error:
        raise UserError(f"{name} cannot be read: {error.strerror}.") from None


def _read(file: io.BufferedReader, n_bytes: int, path: str | Path) -> bytes:
    try:
        return file.read(n_bytes)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
