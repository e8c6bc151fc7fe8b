"""What a file that is not UTF-8 probably is: advice for an error message, never acted upon."""

from __future__ import annotations

import codecs
from collections import Counter
from typing import BinaryIO

_SAMPLE_BYTES = 1 << 18
_DAMAGE_BYTES = 1 << 26  # how much of a file is searched for further undecodable bytes

# Legacy encodings that people's text files really have, the double-byte ones first.
_DOUBLE_BYTE = ("gb18030", "big5", "shift_jis", "euc_jp", "euc_kr")
_SINGLE_BYTE = (
    "cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "koi8_r", "iso8859_2",
    "cp437", "cp850", "mac_roman",
)  # fmt: skip

# Frequent characters of each script's running text: a wrong decoding hits hardly any of them.
_COMMON = {
    "gb18030": (
        "的一是不了人在有我他这中大来上个国到说们为子和你地"
        "出道也时年得就那要下以生会自着去之过家学，。"
    ),
    "big5": (
        "的一是不了人在有我他這中大來上個國到說們為子和你地"
        "出道也時年得就那要下以生會自著去之過家學，。"
    ),
    "shift_jis": "のにはをたがでてとしれさいるもなかっす、。一人日大",
    "euc_jp": "のにはをたがでてとしれさいるもなかっす、。一人日大",
    "euc_kr": "이다는을에의가고하지을를은도로한사어기",
}
# Non-ASCII characters of Western European text.
_WESTERN = "éèàùâêîôûëïçœÉÈÀÊÇäöüÄÖÜßñáíóúãõåæøÅØ¿¡’‘“”„–—…€«»°§"


def describe_missing_bom(head: bytes) -> str | None:
    """A file's problem if its bytes look like UTF-16 or UTF-32 without a byte-order mark.

    NUL in over a fifth of the bytes, all at one parity, is what Western text in UTF-16 looks like;
    three NULs of four bytes is UTF-32. NUL elsewhere is text.
    """
    n_nul = head.count(0)
    if n_nul * 5 <= len(head) or len(head) < 2:
        return None
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if even == 0 or odd == 0:
        name = "utf-16-le" if even == 0 else "utf-16-be"
    else:
        quarters = [head[i::4].count(0) for i in range(4)]
        full = [count == len(head[i::4]) for i, count in enumerate(quarters)]
        if full[2] and full[3] and not quarters[0]:
            name = "utf-32-le"
        elif full[0] and full[1] and not quarters[3]:
            name = "utf-32-be"
        else:
            return None
    return (
        f"looks like {name[:6].upper()} without a byte-order mark ({n_nul:,} of its first "
        f"{len(head):,} bytes are NUL, at regular places). Read it with --encoding {name}"
    )


def describe_damage(file: BinaryIO, reason: str) -> str:
    """Why `file` is not UTF-8 and what to do, as the end of an error message.

    Over 99 % valid bytes, or a single cut character at the end, is damaged UTF-8; anything else
    is another encoding, named when it can be recognised.
    """
    file.seek(0)
    data = file.read(_DAMAGE_BYTES)
    n_valid = len(data.decode("utf-8", "ignore").encode())
    if data and n_valid / len(data) > 0.99:
        return (
            f"damaged UTF-8, not another encoding ({len(data) - n_valid:,} of {len(data):,} bytes "
            "are invalid). Mend or remove these bytes; `iconv -f utf-8 -t utf-8 -c FILE > NEW` "
            "leaves them out."
        )
    if reason == "unexpected end of data":
        return "the file ends in the middle of a character. Was it cut off? Remove the last bytes."
    if name := guess_encoding(data[:_SAMPLE_BYTES]):
        return f"it is probably {name.upper()}. Read it with --encoding {name}"
    return "it is in another encoding, which --encoding must name, or not a text file."


def guess_encoding(data: bytes) -> str | None:
    """The legacy encoding that `data` is most probably written in, or None.

    Double-byte encodings are recognised by how often a decoding gives the script's most frequent
    characters (charset-normalizer often mistakes short Chinese text); the rest is left to it.
    """
    shares = {name: _common_share(data, name, _COMMON[name]) for name in _DOUBLE_BYTE}
    best = max(shares, key=lambda name: shares[name])
    if shares[best] > 0.08:
        return best
    if _common_share(data, "cp1252", _WESTERN) > 0.95:
        return "cp1252"
    from charset_normalizer import from_bytes

    match = from_bytes(data, cp_isolation=[*_SINGLE_BYTE, *_DOUBLE_BYTE]).best()
    return match.encoding if match else None


def _common_share(data: bytes, encoding: str, common: str) -> float:
    """Share of the non-ASCII characters that are among `common`; 0 if it cannot be decoded."""
    try:
        # final=False: the sample may end inside a character.
        text = codecs.getincrementaldecoder(encoding)().decode(data, final=False)
    except UnicodeDecodeError:
        return 0.0
    counts = Counter(character for character in text if not character.isascii())
    total = counts.total()
    return sum(counts[character] for character in set(common)) / total if total else 0.0
