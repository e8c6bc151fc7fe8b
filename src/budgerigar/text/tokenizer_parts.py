"""The layouts older than `tokenizer.json`, written as one: BERT's vocab.txt, GPT-2's two files.

Also the ways in which byte-level BPE cuts a text into words first ("pre-tokenizers"), by the names
that GGUF files use. A model that gets other words than it was trained on still runs, only worse,
so a name that is not in this table is an error and never a guess.
"""

from __future__ import annotations

from typing import Any

from budgerigar.errors import UserError
from budgerigar.text.declared_tokens import added_token

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_REST}"
QWEN2 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_REST}"
_SIGNS = r"[\p{P}\$\+<=>\^~\|]+"

# Each is cut by one pattern after the other.
PATTERNS: dict[str, tuple[str, ...]] = {
    "gpt-2": (GPT2,),
    "llama-bpe": (LLAMA3,),
    "qwen2": (QWEN2,),
    "smollm": (r"\p{N}", GPT2),
    "default": (_SIGNS, GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
}
SAME_AS = {
    **dict.fromkeys(("phi-2", "mpt", "olmo", "jais", "trillion", "roberta-bpe"), "gpt-2"),
    **dict.fromkeys(("llama3", "llama-v3", "smaug-bpe", "dbrx", "falcon3"), "llama-bpe"),
    **dict.fromkeys(("stablelm2", "deepseek-r1-qwen"), "qwen2"),
    **dict.fromkeys(("starcoder", "refact", "command-r", "codeshell", "exaone"), "smollm"),
}
# Patterns that never put a space behind something else into one piece with it: a text may be cut
# before such a space without changing a piece.
CUT_AT_SPACES = frozenset(pattern for patterns in PATTERNS.values() for pattern in patterns)


def pre_tokenizer(name: str, where: str) -> dict[str, Any]:
    """The entry of a `tokenizer.json` for a pre-tokenizer of a GGUF file.

    Raises:
        UserError: none of that name is known; it names those that are.
    """
    patterns = PATTERNS.get(SAME_AS.get(name, name))
    if patterns is None:
        known = ", ".join([*PATTERNS, *SAME_AS])
        raise UserError(
            f"{where} cuts words by the pre-tokenizer {name!r}, which is not known here; another "
            f"one would make the model worse without a word. Known are {known}. A Hugging Face "
            "folder of the same model says how it cuts in its tokenizer.json."
        )
    return byte_level_words(patterns)


def byte_level_words(patterns: tuple[str, ...]) -> dict[str, Any]:
    """Cut by each pattern in turn, then write bytes as printable characters."""
    cuts = [
        {"type": "Split", "pattern": {"Regex": one}, "behavior": "Isolated", "invert": False}
        for one in patterns
    ]
    return {"type": "Sequence", "pretokenizers": [*cuts, _byte_level()]}


def _byte_level(prefix_space: bool = False, regex: bool = False) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": prefix_space,
        "trim_offsets": True,
        "use_regex": regex,
    }


def document(
    model: dict[str, Any],
    *,
    normalizer: dict[str, Any] | None,
    pre_tokenizer: dict[str, Any] | None,
    decoder: dict[str, Any] | None,
    added: list[dict[str, Any]],
) -> dict[str, Any]:
    """A whole `tokenizer.json`."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": None,
        "decoder": decoder,
        "model": model,
    }


def byte_level_bpe(
    vocabulary: dict[str, int],
    merges: list[list[str]],
    *,
    words: dict[str, Any] | None = None,
    added: list[dict[str, Any]] | None = None,
    normalizer: dict[str, Any] | None = None,
    prefix_space: bool = False,
    whole_words_first: bool = False,
) -> dict[str, Any]:
    """Byte-level BPE (Radford et al. 2019). whole_words_first: a word that is a piece stays whole."""
    strangers = [pair for pair in merges if any(part not in vocabulary for part in pair)]
    if strangers:
        raise UserError(
            f"the merges name {strangers[0]!r}, which the vocabulary lacks: these files do not "
            "belong together"
        )
    if not merges and len(vocabulary) > 1000:
        raise UserError(
            "the vocabulary has no merges (some converters lose them): every text would be cut "
            "into single bytes. Convert the model anew"
        )
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": whole_words_first,
        "vocab": vocabulary,
        "merges": merges,
    }
    return document(
        model,
        normalizer=normalizer,
        pre_tokenizer=words or _byte_level(prefix_space, regex=True),
        decoder=_byte_level(),
        added=added or [],
    )


def wordpiece(
    vocabulary: dict[str, int],
    *,
    lowercase: bool,
    strip_accents: bool | None,
    chinese_apart: bool,
    special: dict[str, str],
) -> dict[str, Any]:
    """BERT's WordPiece (Devlin et al. 2019). special: the content of each special token by role."""
    if special["unk"] not in vocabulary:
        raise UserError(f"the vocabulary lacks {special['unk']}, which stands for unknown words")
    model = {
        "type": "WordPiece",
        "unk_token": special["unk"],
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": vocabulary,
    }
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": chinese_apart,
        "strip_accents": strip_accents,
        "lowercase": lowercase,
    }
    contents = dict.fromkeys(content for content in special.values() if content in vocabulary)
    return document(
        model,
        normalizer=normalizer,
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
        added=[added_token(vocabulary[content], content, True) for content in contents],
    )
