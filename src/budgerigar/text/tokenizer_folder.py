"""The tokenizer of a Hugging Face folder, in any of the layouts that folders come in.

tokenizer.json                                any pipeline of the `tokenizers` library
source.spm, target.spm, vocab.json            Marian: two SentencePiece models, one vocabulary
vocab.json, merges.txt                        GPT-2's byte-level BPE
tokenizer.model, spiece.model …               SentencePiece, BPE or unigram
vocab.txt                                     BERT's WordPiece
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from budgerigar.errors import UserError
from budgerigar.text.declared_tokens import (
    ROLES,
    Declarations,
    Declared,
    Definition,
    added_token,
    read_json,
)
from budgerigar.text.sealing import piece_numbers
from budgerigar.text.sentencepiece import (
    SentencePieceModel,
    needs_space,
    read_sentencepiece,
    sentencepiece_document,
)
from budgerigar.text.tokenizer_parts import QWEN2, byte_level_bpe, byte_level_words, wordpiece

SENTENCEPIECE_NAMES = ("tokenizer.model", "spiece.model", "sentencepiece.model", "spm.model")
Layout = tuple[dict[str, Any], tuple[str, ...], dict[str, str]]
"""(tokenizer.json, files, the token of each role where nothing declares another)"""
_BERT = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}


def has_two_sides(folder: str | Path) -> bool:
    """Whether source and target are cut by different models (Marian)."""
    return (Path(folder) / "source.spm").is_file()


def read_folder(folder: Path, side: str = "target") -> Definition:
    """What the tokenizer files of a folder define; see `imported_tokenizer.tokenizer_from_folder`."""
    said = Declarations(folder)
    if has_two_sides(folder):
        return _marian(folder, said, side)
    (document, names, defaults), spaced = _layout(folder, said)
    _add_declared_tokens(document, said, defaults)
    declared = _declared(document, said, defaults, piece_numbers(document))
    where = f"{folder.name}: {', '.join(names)}"
    return Definition(document, declared, (where, *said.files), leading_space=spaced)


def _layout(folder: Path, said: Declarations) -> tuple[Layout, bool]:
    """What is there, and whether a text gets a space before it."""
    if (folder / "tokenizer.json").is_file():
        document = read_json(folder / "tokenizer.json")
        _check_document(document, folder / "tokenizer.json")
        return (document, ("tokenizer.json",), {}), False
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return _gpt2(folder, said), False
    if (path := _sentencepiece_file(folder)) is not None:
        model = read_sentencepiece(path)
        return _sentencepiece(model, path, said), needs_space(model)
    if (folder / "vocab.txt").is_file():
        return _bert(folder, said), False
    raise UserError(
        f"{folder} holds no tokenizer that can be read: it needs tokenizer.json, or vocab.txt, or "
        "vocab.json with merges.txt, or SentencePiece's tokenizer.model or spiece.model."
    )


# -- layouts ---------------------------------------------------------------------------------------
def _check_document(document: dict[str, Any], path: Path) -> None:
    model = document.get("model")
    added = document.get("added_tokens") or []
    sound = (
        isinstance(model, dict)
        and isinstance(model.get("vocab"), dict | list)
        and isinstance(added, list)
        and all(isinstance(t, dict) and {"id", "content"} <= t.keys() for t in added)
    )
    if not sound:
        raise UserError(f"{path} is no tokenizer.json: it lacks a model with a vocabulary.")
    assert isinstance(model, dict)
    if model.get("type") is None:  # written by early versions of the library
        model["type"] = (
            "BPE" if "merges" in model else "Unigram" if "unk_id" in model else "WordPiece"
        )


def _gpt2(folder: Path, said: Declarations) -> Layout:
    vocabulary = _vocabulary(folder / "vocab.json")
    lines = _lines(folder / "merges.txt")
    if lines and lines[0].startswith("#version"):
        lines = lines[1:]
    merges = [line.split(" ") for line in lines if line]
    odd = next((merge for merge in merges if len(merge) != 2), None)
    if odd is not None:
        raise UserError(f"{folder / 'merges.txt'} has a line that is no pair: {' '.join(odd)!r}")
    qwen = "qwen2" in said.kind
    document = byte_level_bpe(
        vocabulary,
        merges,
        words=byte_level_words((QWEN2,)) if qwen else None,
        normalizer={"type": "NFC"} if qwen else None,
        prefix_space=bool(said.flag("add_prefix_space")),
    )
    end = "<|endoftext|>"
    defaults = {"eos": end} if qwen else {"bos": end, "eos": end, "unk": end}
    return document, ("vocab.json", "merges.txt"), defaults if end in vocabulary else {}


def _bert(folder: Path, said: Declarations) -> Layout:
    lines = _lines(folder / "vocab.txt")
    vocabulary = {piece: number for number, piece in enumerate(lines)}
    if len(vocabulary) < len(lines):
        raise UserError(f"{folder / 'vocab.txt'} has the same piece on two lines; it is damaged.")
    named = {role: said.token(role) or token for role, token in _BERT.items()}
    lowercase, chinese = said.flag("do_lower_case"), said.flag("tokenize_chinese_chars")
    document = wordpiece(
        vocabulary,
        lowercase=True if lowercase is None else lowercase,
        strip_accents=said.flag("strip_accents"),
        chinese_apart=True if chinese is None else chinese,
        special=named,
    )
    document["post_processor"] = {
        "type": "BertProcessing",
        "cls": [named["cls"], vocabulary.get(named["cls"])],
        "sep": [named["sep"], vocabulary.get(named["sep"])],
    }
    return document, ("vocab.txt",), _BERT


def _sentencepiece_file(folder: Path) -> Path | None:
    for name in SENTENCEPIECE_NAMES:
        if (folder / name).is_file():
            return folder / name
    return next(iter(sorted(folder.glob("*.model"))), None)


def _sentencepiece(model: SentencePieceModel, path: Path, said: Declarations) -> Layout:
    if any(kin in said.kind for kin in ("xlmroberta", "xlm-roberta", "camembert", "mbart", "nllb")):
        raise UserError(
            f"{path} is numbered in fairseq's way by this family, which is not read here. A "
            "tokenizer.json in the same folder would say all: save it with transformers."
        )
    document = sentencepiece_document(model)
    roles = {"unk": model.unk_id, "bos": model.bos_id, "eos": model.eos_id, "pad": model.pad_id}
    defaults = {
        role: model.pieces[number].text
        for role, number in roles.items()
        if number is not None and 0 <= number < len(model.pieces)
    }
    if "t5" in said.kind:
        _add_sentinels(document, said, len(model.pieces))
        defaults["closing"] = "eos"
    elif any(kin in said.kind for kin in ("llama", "mistral", "gemma", "code_llama")):
        defaults["start"] = "bos"
    return document, (path.name,), defaults


def _add_sentinels(document: dict[str, Any], said: Declarations, n_pieces: int) -> None:
    """T5's `<extra_id_0>` is the last token of all, `<extra_id_1>` the one before it."""
    number = said.tokenizer.get("extra_ids", 100)
    count = number if isinstance(number, int) and 0 <= number <= 1000 else 100
    document["added_tokens"] += [
        added_token(n_pieces + i, f"<extra_id_{count - 1 - i}>", True) for i in range(count)
    ]


def _marian(folder: Path, said: Declarations, side: str) -> Definition:
    """Ids are those of vocab.json (or target_vocab.json); SentencePiece only cuts."""
    own = folder / "target_vocab.json"
    table = own if side == "target" and own.is_file() else folder / "vocab.json"
    vocabulary = _vocabulary(table)
    spm = folder / f"{side}.spm"
    model = read_sentencepiece(spm)
    document = sentencepiece_document(model, vocabulary)
    named = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
    named |= {role: token for role in named if (token := said.token(role))}
    if named["unk"] not in vocabulary or named["eos"] not in vocabulary:
        raise UserError(f"{table} lacks {named['eos']} or {named['unk']}; it is damaged.")
    languages = {t: n for t, n in vocabulary.items() if t.startswith(">>") and t.endswith("<<")}
    declared = Declared(
        names={f"{role}_token": token for role, token in named.items()},
        closing_ids=(vocabulary[named["eos"]],),
        end_ids=frozenset({vocabulary[named["eos"]], *said.end_numbers()}),
        end_id=vocabulary[named["eos"]],
        unk_id=vocabulary[named["unk"]],
        pad_id=vocabulary.get(named["pad"]),
    )
    files = (f"{folder.name}: {spm.name}, {table.name}", *said.files)
    return Definition(document, declared, files, len(vocabulary), languages)


# -- what is declared ------------------------------------------------------------------------------
def _add_declared_tokens(
    document: dict[str, Any], said: Declarations, defaults: dict[str, str]
) -> None:
    """Mark as special what any file calls special, and add tokens that only other files have."""
    numbers = piece_numbers(document)
    added = {token["content"]: dict(token) for token in document.get("added_tokens") or ()}
    for token in said.added_tokens():
        known = numbers.get(token["content"])
        if token["content"] not in added and (known in (None, token["id"])):
            added[token["content"]] = token
    roles = [said.token(role) or defaults.get(role) for role in ROLES]
    for content in [*roles, *said.special_contents()]:
        if not content:
            continue
        if content in added:
            added[content]["special"] = True
        elif content in numbers:
            added[content] = added_token(numbers[content], content, True)
    document["added_tokens"] = sorted(added.values(), key=lambda token: token["id"])


def _declared(
    document: dict[str, Any], said: Declarations, defaults: dict[str, str], numbers: dict[str, int]
) -> Declared:
    tokens = {role: said.token(role) or defaults.get(role) for role in ROLES}
    ids = {role: numbers[token] for role, token in tokens.items() if token in numbers}
    start, closing = around(document.get("post_processor"), numbers)
    start = start or ((ids["bos"],) if "start" in defaults and "bos" in ids else ())
    closing = closing or ((ids["eos"],) if "closing" in defaults and "eos" in ids else ())
    start = _switched(start, said.flag("add_bos_token"), ids.get("bos"))
    closing = _switched(closing, said.flag("add_eos_token"), ids.get("eos"))
    end = ids.get("eos")
    ends = said.end_numbers() | ({end} if end is not None else set())
    if end is None and len(ends) == 1:
        end = next(iter(ends))
    mask = ids.get("mask", _special_of(document, ("[MASK]", "<mask>")))
    return Declared(
        names={f"{role}_token": token for role, token in tokens.items() if token},
        start_ids=start,
        closing_ids=closing,
        end_ids=frozenset(ends),
        end_id=end,
        opening_id=ids.get("bos", end),
        mask_id=mask,
        unk_id=ids.get("unk", document["model"].get("unk_id")),
        pad_id=ids.get("pad"),
        chat_template=said.chat_template(),
    )


def _special_of(document: dict[str, Any], names: tuple[str, ...]) -> int | None:
    for token in document["added_tokens"]:
        if token["content"] in names and token.get("special"):
            return int(token["id"])
    return None


def _switched(ids: tuple[int, ...], switch: bool | None, number: int | None) -> tuple[int, ...]:
    """`ids` with or without `number`, where a file says which."""
    if switch is None or number is None:
        return ids
    others = tuple(i for i in ids if i != number)
    if switch:
        return ids if number in ids else (number, *others)
    return others


def around(
    step: dict[str, Any] | None, numbers: dict[str, int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(ids before, ids after) that a post-processor puts around a single text."""
    if not step:
        return (), ()
    kind = step.get("type")
    if kind == "Sequence":
        before: tuple[int, ...] = ()
        after: tuple[int, ...] = ()
        for one in step.get("processors") or ():
            first, last = around(one, numbers)
            before, after = (*first, *before), (*after, *last)
        return before, after
    if kind in ("BertProcessing", "RobertaProcessing"):
        known = [number for name in ("cls", "sep") if (number := step[name][1]) is not None]
        return tuple(known[:1]), tuple(known[1:])
    if kind != "TemplateProcessing":
        return (), ()
    sides: tuple[list[int], list[int]] = ([], [])
    seen = False
    for item in step.get("single") or ():
        if "Sequence" in item:
            seen = True
        else:
            name = item["SpecialToken"]["id"]
            listed = (step.get("special_tokens") or {}).get(name, {}).get("ids")
            sides[seen].extend(listed or [numbers[name]])
    return tuple(sides[0]), tuple(sides[1])


# -- files -----------------------------------------------------------------------------------------
def _vocabulary(path: Path) -> dict[str, int]:
    vocabulary = read_json(path)
    if not vocabulary or not all(type(number) is int for number in vocabulary.values()):
        raise UserError(f"{path} is no vocabulary: it should give each piece its number.")
    if len(set(vocabulary.values())) < len(vocabulary):
        raise UserError(f"{path} gives two pieces the same number; it is damaged.")
    return vocabulary


def _lines(path: Path) -> list[str]:
    """Lines of a file, ended by LF (U+2028 and its like are pieces)."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    lines = [line.removesuffix("\r") if line != "\r" else line for line in text.split("\n")]
    return lines[:-1] if lines and not lines[-1] else lines
