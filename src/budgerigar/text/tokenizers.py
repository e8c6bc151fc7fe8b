"""The kinds of tokenizer, and how each is trained on a text.

| kind | pieces |
| --- | --- |
| character | characters, and the 256 bytes for all others |
| symbols | the characters of the text and no other: an unseen one is an error |
| byte | the 256 bytes |
| bpe | byte pairs merged by frequency (Sennrich et al. 2016; on bytes: Radford et al. 2019) |
| unigram | likeliest segmentation by a unigram model of pieces (Kudo 2018), on bytes |
| wordpiece | longest match first in a vocabulary of merged pieces (Wu et al. 2016), on bytes |
| word | whole words, and bytes for all others |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend

from budgerigar.errors import UserError
from budgerigar.text.pieces import BYTE_TO_CHARACTER
from budgerigar.text.sampling import Sample, draw_sample
from budgerigar.text.splitting import pre_tokenizer
from budgerigar.text.tokenizer import CONTINUATION, END, KINDS, Tokenizer

__all__ = ["KINDS", "Tokenizer", "build_tokenizer", "check_kind", "choose_kind", "train_tokenizer"]

SAMPLE_BYTES = 50_000_000
_BYTES = [BYTE_TO_CHARACTER[byte] for byte in range(256)]
_FEW_CHARACTERS, _FEW_CJK_CHARACTERS, _FEW_WORDS = 512, 8_000, 2_000
_MOST_WORDS = 32_000
# Bytes of distinct words that a kind learns from; for merging each takes about 200 bytes of memory.
_DISTINCT_BYTES = {"bpe": 4e6, "wordpiece": 4e6, "unigram": 5e5}
_PROBE_BYTES = 1_000_000


def train_tokenizer(
    texts: Iterable[str],
    kind: str = "auto",
    vocab_size: int | None = None,
    sample_bytes: int = SAMPLE_BYTES,
    seed: int = 0,
    end: bool = False,
) -> Tokenizer:
    """Train a tokenizer on `texts` (documents, or blocks of one text).

    kind: one of `KINDS`, or "auto" (see `choose_kind`). vocab_size: at most so many pieces, bytes
    and `<end>` included; None chooses by the text. sample_bytes: a seeded sample of at most so many
    bytes is learnt from. end: have an `<end>` token. Raises `UserError` for an unknown kind or a
    vocabulary too small for the kind's bytes.
    """
    sample = draw_sample(texts, sample_bytes, seed)
    if kind == "auto":
        kind, _ = choose_kind(sample)
    tokenizer = build_tokenizer(sample, kind, vocab_size, end)
    seen = np.zeros(tokenizer.vocab_size, dtype=bool)
    for text in sample.texts:
        seen[tokenizer.encode_array(text)] = True
    if tokenizer.end_id is not None:
        seen[tokenizer.end_id] = True
    return tokenizer.with_never_seen(~seen)


def check_kind(kind: str) -> None:
    """Raise `UserError` unless `kind` is "auto" or one of `KINDS`."""
    if kind != "auto" and kind not in KINDS:
        raise UserError(
            f"--tokenizer {kind}: no such kind. Choose auto or one of {', '.join(KINDS)}."
        )


def choose_kind(sample: Sample) -> tuple[str, str]:
    """(kind, why) for a text: characters where they are few, else byte-level BPE."""
    n_distinct = len(sample.characters)
    if n_distinct <= _FEW_CHARACTERS:
        words = f"the text has {n_distinct:,} distinct characters; 256 bytes stand for all others"
        return "character", words
    if sample.mostly_cjk and n_distinct <= _FEW_CJK_CHARACTERS:
        return "character", (
            f"the text is mostly Chinese, Japanese or Korean, with {n_distinct:,} distinct characters"
        )
    return "bpe", f"the text has {n_distinct:,} distinct characters"


def build_tokenizer(
    sample: Sample,
    kind: str,
    vocab_size: int | None = None,
    end: bool = False,
    specials: Sequence[str] = (),
) -> Tokenizer:
    """Train kind `kind` on `sample`; as `train_tokenizer`, but nothing is marked never seen.

    specials: further special tokens beside `<end>`, which no text leads to; they count as pieces.
    """
    check_kind(kind)
    names = list(dict.fromkeys([*([END] if end else []), *specials]))
    room = None if vocab_size is None else vocab_size - len(names)
    least = _LEAST[kind]
    if room is not None and room < least:
        raise UserError(
            f"--vocab-size {vocab_size} is too small: a tokenizer of kind {kind} needs at least "
            f"{least + len(names)}, because it has a piece for each byte."
        )
    backend = _BUILDERS[kind](sample, room)
    backend.add_special_tokens([AddedToken(n, special=True, normalized=False) for n in names])
    return Tokenizer(kind, backend)


def _character(sample: Sample, room: int | None) -> Backend:
    """BPE without merges: characters in order of code points, then the bytes.

    Where characters are many, those seen once are left to the bytes: a single occurrence teaches
    nothing about a character, but it does teach what to make of rare characters' bytes.
    """
    once_counts = len(sample.characters) <= _FEW_CHARACTERS
    kept = [c for c, count in sample.characters.most_common() if once_counts or count > 1]
    if room is not None:
        kept = kept[: room - 256]
    pieces = [*sorted(kept), *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    backend = Backend(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return backend


def _symbols(sample: Sample, room: int | None) -> Backend:
    pieces = sorted(sample.characters)
    if room is not None and room < len(pieces):
        raise UserError(
            f"--vocab-size {room} is too small: the text has {len(pieces):,} distinct characters, "
            "and a tokenizer of kind symbols has a piece for each. Leave --vocab-size out."
        )
    backend = Backend(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[]))
    backend.decoder = decoders.Fuse()
    return backend


def _byte(sample: Sample, room: int | None) -> Backend:
    backend = Backend(models.BPE(vocab={piece: i for i, piece in enumerate(_BYTES)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return backend


def _bpe(sample: Sample, room: int | None) -> Backend:
    trained = _trained("bpe", sample, models.BPE(), _merge_trainer(room or _fitting_size(sample)))
    merges = [tuple(merge) for merge in trained["merges"]]
    vocabulary = _numbered([*_BYTES, *("".join(merge) for merge in merges)])
    return _byte_level("bpe", models.BPE(vocab=vocabulary, merges=merges))


def _wordpiece(sample: Sample, room: int | None) -> Backend:
    """The vocabulary of BPE with pieces inside words marked; only the search differs."""
    size = room or _fitting_size(sample) + 256
    inside = [CONTINUATION + piece for piece in _BYTES]
    # Naming all single pieces beforehand fixes their order, and with it how ties are broken.
    trainer = _merge_trainer(size, [*_BYTES, *inside], continuing_subword_prefix=CONTINUATION)
    model = models.BPE(continuing_subword_prefix=CONTINUATION)
    trained = _trained("wordpiece", sample, model, trainer)
    learnt = sorted(trained["vocab"], key=trained["vocab"].__getitem__)
    return _longest_match("wordpiece", [*_BYTES, *inside, *learnt])


def _word(sample: Sample, room: int | None) -> Backend:
    """Whole words, most frequent first; of many words those seen once are left to the bytes."""
    most = _MOST_WORDS if room is None else room - 512
    words: dict[str, int] = {}
    for least in (1, 2):
        trainer = trainers.WordLevelTrainer(
            vocab_size=most + 256, min_frequency=least, show_progress=False
        )
        words = _trained("word", sample, models.WordLevel(), trainer)["vocab"] if most else {}
        if len(words) <= _FEW_WORDS:
            break
    known = set(_BYTES)
    learnt = [word for word in sorted(words, key=words.__getitem__) if word not in known][:most]
    return _longest_match("word", [*_BYTES, *(CONTINUATION + piece for piece in _BYTES), *learnt])


def _unigram(sample: Sample, room: int | None) -> Backend:
    trainer = trainers.UnigramTrainer(
        vocab_size=room or _fitting_size(sample), initial_alphabet=_BYTES, show_progress=False
    )
    trained = _trained("unigram", sample, models.Unigram(), trainer)
    # Scores are sums in an order that changes from run to run: their last digits are noise. (A
    # text of a single word can leave a score undefined.)
    scores = {piece: round(score, 6) for piece, score in trained["vocab"] if score is not None}
    floor = min(scores.values(), default=0.0)
    # Bytes that were lost on the way come back with the least score plus up to 256 steps of 0.0001
    # in an order that changes, too: these all get the least.
    found = {piece: scores.pop(piece, floor) for piece in _BYTES}
    bytes_first = [(p, score if score > floor + 0.0256 else floor) for p, score in found.items()]
    learnt = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return _byte_level("unigram", models.Unigram([*bytes_first, *learnt], None, False))


_BUILDERS = {
    "character": _character,
    "symbols": _symbols,
    "byte": _byte,
    "bpe": _bpe,
    "unigram": _unigram,
    "wordpiece": _wordpiece,
    "word": _word,
}
_LEAST = dict.fromkeys(KINDS, 256) | {"symbols": 1, "wordpiece": 512, "word": 512}


def _fitting_size(sample: Sample) -> int:
    """Pieces for a text: the power of two nearest to the root of its bytes, 512 to 32,768.

    A piece then occurs often enough to be learnt: about 1,000 times in a megabyte.
    """
    power = round(np.log2(max(sample.total_bytes, 1)) / 2)
    return int(2 ** min(max(power, 9), 15))


def _merge_trainer(size: int, alphabet: list[str] = _BYTES, **options: Any) -> trainers.BpeTrainer:
    return trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=alphabet,
        initial_alphabet=_BYTES,
        show_progress=False,
        **options,
    )


def _trained(kind: str, sample: Sample, model: models.Model, trainer: trainers.Trainer) -> dict:
    """Train `model` on the sample's words; its part of the tokenizer.json."""
    backend = Backend(model)
    backend.pre_tokenizer = pre_tokenizer(kind)
    backend.train_from_iterator(_affordable(kind, sample.texts), trainer)
    return json.loads(backend.to_str())["model"]


def _affordable(kind: str, texts: list[str]) -> list[str]:
    """Texts, evenly thinned out if learning from all of them would take too much memory or time.

    Both go by the bytes of *distinct* words, which is a tenth of an English text, and most of a
    Chinese one, where a word of the pattern is a clause.
    """
    limit = _DISTINCT_BYTES.get(kind)
    if limit is None:
        return texts
    cut = pre_tokenizer(kind)
    distinct: set[str] = set()
    n_read = n_texts = 0
    for text in texts:
        words = [word for word, _ in cut.pre_tokenize_str(text)]
        distinct.update(words)
        n_read += sum(map(len, words))
        n_texts += 1
        if n_read > _PROBE_BYTES:
            break
    if not n_read:
        return texts
    n_distinct = sum(map(len, distinct)) * len(texts) / n_texts
    kept = min(1.0, limit / n_distinct)
    return [text for i, text in enumerate(texts) if int((i + 1) * kept) > int(i * kept)]


def _longest_match(kind: str, pieces: list[str]) -> Backend:
    """Greedy longest match, with every byte in both positions: nothing is ever unknown."""
    model = models.WordPiece(
        vocab=_numbered(pieces),
        unk_token=END,  # named because a name is needed; no text leads to it
        continuing_subword_prefix=CONTINUATION,
        max_input_chars_per_word=1 << 30,
    )
    backend = _byte_level(kind, model)
    backend.decoder = decoders.Sequence([decoders.Replace(CONTINUATION, ""), decoders.ByteLevel()])
    return backend


def _byte_level(kind: str, model: models.Model) -> Backend:
    backend = Backend(model)
    backend.pre_tokenizer = pre_tokenizer(kind)
    backend.decoder = decoders.ByteLevel()
    return backend


def _numbered(pieces: list[str]) -> dict[str, int]:
    """Ids in order of first appearance."""
    return {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
