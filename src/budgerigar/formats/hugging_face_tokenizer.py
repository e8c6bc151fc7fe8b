"""Tokenizers for Hugging Face folders: tokenizer.json, and beside it what it has no place for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from budgerigar.formats.run import SOURCE_PREFIX, Loaded, has_own, save_tokenizers

_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.txt", "vocab.json", "merges.txt", "tokenizer.model", "spiece.model", "sentencepiece.model",
    "spm.model", "source.spm", "target.spm", "chat_template.jinja", "chat_template.json",
    "generation_config.json", "modules.json", "sentence_bert_config.json",
)  # fmt: skip
_POOLING = Path("1_Pooling") / "config.json"  # how sentence-transformers makes one vector of a text


def copy_tokenizer(folder: Path, out: Path) -> list[str]:
    """Take the authors' own files along as they are. -> remarks"""
    for name in _FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, out / name)
    if (folder / _POOLING).is_file():
        (out / _POOLING).parent.mkdir()
        shutil.copyfile(folder / _POOLING, out / _POOLING)
    return []


def write_tokenizer(loaded: Loaded, out: Path) -> list[str]:
    """The tokenizer of a run, so that AutoTokenizer gives the ids that the model was trained on.

    -> what is different there, a sentence each.
    """
    tokenizer = loaded.tokenizer
    both = loaded.network.config.assembly == "encoder-decoder"
    notes = [
        "In transformers, text that spells a special token becomes one; here it is text."
    ] * bool(tokenizer.special_ids)
    # with what reads them here as they were: kind, pieces never seen
    save_tokenizers(out, tokenizer, loaded.source_tokenizer if both else None)
    _write_document(out / "tokenizer.json", tokenizer, _around(loaded, tokenizer, both))
    if both and has_own(tokenizer, loaded.source_tokenizer):
        source = loaded.source_tokenizer
        path = out / f"{SOURCE_PREFIX}tokenizer.json"
        _write_document(path, source, _around(loaded, source, both))
        notes.append(
            f"Two vocabularies: tokenizer.json is the target's, {path.name} the source's, which "
            f"PreTrainedTokenizerFast(tokenizer_file='{path.name}') reads."
        )
    settings = _settings(tokenizer, loaded.network.config.context_length)
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    (out / "tokenizer_config.json").write_text(text, encoding="utf-8")
    return notes


def _around(loaded: Loaded, tokenizer: Any, both: bool) -> tuple[list[int], list[int]]:
    """Ids before and after a text that the model reads."""
    if tokenizer.imported:
        return list(tokenizer.start_ids), list(tokenizer.closing_ids)
    if tokenizer.end_id is None:
        return [], []
    if both:
        return [], [tokenizer.end_id]
    opens = (loaded.config.get("text") or {}).get("starts_documents", True)
    return ([tokenizer.end_id] if opens else []), []


def _write_document(path: Path, tokenizer: Any, around: tuple[list[int], list[int]]) -> None:
    document = json.loads(tokenizer.backend.to_str())
    if not tokenizer.imported:  # an imported one has its own
        document["post_processor"] = _template(document["post_processor"], tokenizer, *around)
    text = json.dumps(document, indent=1, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")


def _template(before: Any, tokenizer: Any, first: list[int], last: list[int]) -> Any:
    """A step that puts special tokens around a text, after those that are there."""
    if not first and not last:
        return before
    names = {number: name for name, number in tokenizer.special_ids.items()}

    def one(number: int, part: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": names[number], "type_id": part}}

    def around(name: str, part: int) -> list[dict[str, Any]]:
        text = {"Sequence": {"id": name, "type_id": part}}
        return [*(one(i, part) for i in first), text, *(one(i, part) for i in last)]

    template = {
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": [*around("A", 0), *around("B", 1)],
        "special_tokens": {
            names[i]: {"id": names[i], "ids": [i], "tokens": [names[i]]} for i in {*first, *last}
        },
    }
    return template if before is None else {"type": "Sequence", "processors": [before, template]}


def _settings(tokenizer: Any, context_length: int) -> dict[str, Any]:
    """tokenizer_config.json: which special token has which part."""
    names = {number: name for name, number in tokenizer.special_ids.items()}
    if tokenizer.imported:
        roles = dict(tokenizer.names)
    else:
        end = names.get(tokenizer.end_id)
        roles = {"bos_token": end, "eos_token": end, "pad_token": end}
        roles["mask_token"] = names.get(tokenizer.mask_id)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context_length,
        "clean_up_tokenization_spaces": False,
        **{role: name for role, name in roles.items() if name is not None},
    }
    if tokenizer.chat_template is not None:
        settings["chat_template"] = tokenizer.chat_template
    return settings
