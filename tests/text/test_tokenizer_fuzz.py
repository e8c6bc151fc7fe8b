"""Five thousand damaged tokenizer files and chat templates: each is read or refused, and nothing else.

pytest -m slow tests/text/test_tokenizer_fuzz.py
"""

from __future__ import annotations

import random
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foreign_tokenizers as foreign
import pytest

from budgerigar.errors import UserError
from budgerigar.text.imported_tokenizer import tokenizer_from_folder
from budgerigar.text.template_worker import answer

TEXT = "The <s> budgerigar 虎 [MASK] 🦜"
MB = 1024  # KiB


def sentencepiece(kind: str) -> Callable[[Path], object]:
    def made(folder: Path) -> object:
        foreign.sentencepiece_model(folder / "tokenizer.model", kind, byte_fallback=kind == "bpe")
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')
        return None

    return made


LAYOUTS: dict[str, Callable[[Path], object]] = {
    "byte-level": foreign.byte_level,
    "llama": foreign.llama_like,
    "vocab.txt": foreign.bert_like,
    "two files": foreign.two_files,
    "sentencepiece bpe": sentencepiece("bpe"),
    "sentencepiece unigram": sentencepiece("unigram"),
}


def damaged(whole: bytes, rng: random.Random) -> bytes:
    """Bytes changed, left out, doubled, cut off, or numbers made vast."""
    data = bytearray(whole)
    for _ in range(rng.randint(1, 4)):
        kind, at = rng.randrange(6), rng.randrange(max(len(data), 1))
        if kind == 0 and data:
            data[at] = rng.randrange(256)
        elif kind == 1:
            del data[at : at + rng.randint(1, 40)]
        elif kind == 2:
            data[at:at] = data[at : at + rng.randint(1, 80)]
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            digits = [i for i in range(at, min(at + 400, len(data))) if 48 <= data[i] <= 57]
            if digits:
                place = rng.choice(digits)
                data[place : place + 1] = rng.choice([b"-1", b"999999999999", b"1.5", b"null"])
        else:
            data[at:at] = rng.choice([b"{" * 3000, b"[" * 3000, b'"', b"\0", b"\xff\xfe", b"\n"])
    return bytes(data)


def fuzz(folder: Path, layout: str, n: int, seed: int) -> int:
    """How many of n damaged copies of a tokenizer were refused. Any other fault ends it."""
    whole = folder / "whole"
    whole.mkdir()
    LAYOUTS[layout](whole)
    files = sorted(path.name for path in whole.iterdir() if path.name != "tokenizer_config.json")
    rng, refused, place = random.Random(seed), 0, folder / "damaged"
    shutil.copytree(whole, place)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for k in range(n):
        name = "tokenizer_config.json" if k % 6 == 5 else rng.choice(files)
        (place / name).write_bytes(damaged((whole / name).read_bytes(), rng))
        try:
            tokenizer = tokenizer_from_folder(place)
            tokenizer.decode(tokenizer.encode(TEXT))
        except UserError:
            refused += 1
        shutil.copyfile(whole / name, place / name)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * MB
    return refused


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_damaged_tokenizers(layout: str, tmp_path: Path) -> None:
    if layout.startswith("sentencepiece"):
        pytest.importorskip("sentencepiece")
    assert 0 < fuzz(tmp_path, layout, 834, seed=len(layout)) <= 834


@pytest.mark.parametrize("layout", ["byte-level", "vocab.txt", "two files"])
def test_some_damaged_tokenizers(layout: str, tmp_path: Path) -> None:
    fuzz(tmp_path, layout, 30, seed=1)


# -- chat templates ----------------------------------------------------------------------------------
TEMPLATE = (
    "{% if messages[0]['role'] == 'system' %}{% set first = messages[0]['content'] %}{% endif %}"
    "{% for message in messages %}{% if loop.index0 % 2 == 5 %}{{ raise_exception('no') }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    "{{ strftime_now('%d') }}{{ messages | tojson }}"
    "{% macro a(b) %}{{ b * 2 }}{% endmacro %}{{ a('x') }}"
)
PARTS = [
    "{{", "}}", "{%", "%}", "messages", ".__class__", "|attr('x')", "range(10)", "loop", "* 9999",
    "()", "[0]", "'", "{% for x in messages %}", "{% endfor %}", "~", "|tojson", "|map", "namespace()",
    "%s", "{#", "lipsum()", "self", "cycler", "|join", "is", "not", "{% set x = x %}",
]  # fmt: skip


def render_damaged(n: int, seed: int) -> int:
    rng, errors = random.Random(seed), 0
    variables: dict[str, Any] = {
        "messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": True,
    }  # fmt: skip
    for _ in range(n):
        text = TEMPLATE
        for _ in range(rng.randint(1, 5)):
            at = rng.randrange(len(text))
            if rng.random() < 0.5:
                text = text[:at] + rng.choice(PARTS) + text[at:]
            else:
                text = text[:at] + text[at + rng.randint(1, 12) :]
        found = answer({"template": text, "variables": variables, "most": 1 << 20})
        assert set(found) in ({"text"}, {"error"}, {"refused"})
        errors += "text" not in found
    return errors


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
def test_damaged_templates() -> None:
    assert 0 < render_damaged(100, seed=1) < 100


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid escape sequence")
def test_five_thousand_damaged_templates() -> None:
    assert 0 < render_damaged(5000, seed=2) < 5000
