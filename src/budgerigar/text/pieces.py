"""Bytes as printable characters, and tokens as something a person can read."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

# Byte-level tokenizers (GPT-2's) write each byte as one printable character: those Latin-1 bytes
# that are visible stand for themselves, the 68 others are numbered from U+0100 on.
_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(256) if byte not in set(_VISIBLE)]
BYTE_TO_CHARACTER = {byte: chr(byte) for byte in _VISIBLE} | {
    byte: chr(0x100 + i) for i, byte in enumerate(_HIDDEN)
}
CHARACTER_TO_BYTE = {character: byte for byte, character in BYTE_TO_CHARACTER.items()}

_SHOWN = {" ": "␣", "\n": "↵", "\t": "⇥", "\u3000": "␣", "\x7f": "␡"} | {
    chr(code): chr(0x2400 + code) for code in range(32) if code not in (9, 10)
}


def to_byte_level(text: str) -> str:
    """`text` as byte-level tokenizers write it: one printable character for each UTF-8 byte."""
    return "".join(BYTE_TO_CHARACTER[byte] for byte in text.encode())


def visible(text: str) -> str:
    """`text` with every character seen: ␣ for a space, ↵ for a line end, U+200D by number."""
    return "".join(_visible_character(character) for character in text)


def _visible_character(character: str) -> str:
    if character in _SHOWN:
        return _SHOWN[character]
    if unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"):
        return f"‹U+{ord(character):04X}›"
    return character


def readable_pieces(parts: Sequence[bytes | str]) -> list[str]:
    """What to show for each token: its characters made visible.

    `parts` are the tokens' bytes, or a string to show as it is (special tokens). A character that
    several tokens share appears in each of them with its part: 诗(1/3), 诗(2/3), 诗(3/3). Bytes
    that are no UTF-8 are shown as ‹FF›.
    """
    shown = [part if isinstance(part, str) else "" for part in parts]
    run: list[int] = []  # positions of consecutive tokens that hold bytes
    for position, part in enumerate([*parts, ""]):
        if isinstance(part, bytes):
            run.append(position)
        elif run:
            for i, label in zip(run, _label_run([bytes(parts[j]) for j in run]), strict=True):  # type: ignore[arg-type]
                shown[i] = label
            run = []
    return shown


def _label_run(parts: list[bytes]) -> list[str]:
    """Labels of consecutive byte-holding tokens, by the tokens that each character lies in."""
    labels = [""] * len(parts)
    owner = [i for i, part in enumerate(parts) for _ in part]  # token of each byte
    position = 0
    for character, n_bytes in _characters(b"".join(parts)):
        tokens = list(dict.fromkeys(owner[position : position + n_bytes]))
        for k, token in enumerate(tokens):
            part = f"({k + 1}/{len(tokens)})" if len(tokens) > 1 else ""
            labels[token] += character + part
        position += n_bytes
    return labels


def _characters(data: bytes) -> list[tuple[str, int]]:
    """(what to show, number of bytes) of each character, or undecodable byte, of `data`."""
    found: list[tuple[str, int]] = []
    while data:
        try:
            text, bad = data.decode(), b""
        except UnicodeDecodeError as error:
            text, bad = data[: error.start].decode(), data[error.start : error.end]
        found += [(_visible_character(character), len(character.encode())) for character in text]
        found += [(f"‹{byte:02X}›", 1) for byte in bad]
        data = data[len(text.encode()) + len(bad) :]
    return found
