"""Encoder-decoders must learn: copying, reversing and sorting digits, from files to sacreBLEU.

10,000 lines of which one in a hundred is empty on both sides; scored on lines that were never read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from budgerigar.evaluation.translation_scores import score_translations
from budgerigar.generation.translation import translate_texts
from budgerigar.generation.translation_options import TranslationOptions
from budgerigar.training.recipe import recipe_from_dict
from budgerigar.training.run import train

Digits = list[str]
TASKS: dict[str, Callable[[Digits], Sequence[str]]] = {
    "copy": list,
    "reverse": lambda digits: digits[::-1],
    "sort": sorted,
}
TRANSFORMER: dict[str, Any] = {  # as in the paper, small, and pre-norm, which needs no patience
    "kind": "transformer",
    "assembly": "encoder-decoder",
    "d_model": 48,
    "n_layers": 2,
    "n_heads": 4,
    "context_length": 32,
    "positions": "sinusoidal",
    "embedding_scale": "sqrt",
    "activation": "relu",
    "initialisation": "xavier",
}
RNN: dict[str, Any] = {  # Bahdanau's
    "kind": "rnn-encoder-decoder",
    "cell": "gru",
    "attention": "bahdanau",
    "d_embedding": 32,
    "d_hidden": 64,
    "context_length": 32,
}
TRAINING: dict[str, Any] = {
    "optimizer": "adamw",
    "learning_rate": 3e-3,
    "beta2": 0.98,
    "schedule": "linear",
    "warmup_steps": 50,
    "weight_decay": 0.0,
    "batch_tokens": 1024,
    "evaluate_every": 1000,
    "bleu_sentences": 0,
    "baselines": False,
    "precision": "float32",
    "threads": 1,
}


def numbers(n: int, seed: int, longest: int, without: Sequence[Digits] = ()) -> list[Digits]:
    """`n` lines of 1 to `longest` digits, every hundredth empty, none of them one of `without`."""
    rng, known = random.Random(seed), set(map(tuple, without))
    found: list[Digits] = []
    while len(found) < n:
        length = 0 if len(found) % 100 == 99 else rng.randint(1, longest)
        digits = [str(rng.randrange(10)) for _ in range(length)]
        if not digits or tuple(digits) not in known:
            found.append(digits)
    return found


def write(path: Path, lines: Sequence[Sequence[str]]) -> Path:
    path.write_text("".join(" ".join(line) + "\n" for line in lines), encoding="utf-8")
    return path


def learnt(
    task: str,
    folder: Path,
    model: dict[str, Any],
    *,
    longest: int,
    n: int = 10_000,
    **training: Any,
) -> tuple[float, float]:
    """BLEU and the share of lines exactly right, of 200 lines that were not in the training."""
    solve, given = TASKS[task], numbers(n, 1, longest)
    files = {
        "source": [write(folder / "train.in", given)],
        "target": [write(folder / "train.out", [solve(line) for line in given])],
    }
    recipe = recipe_from_dict(
        {"text": {"tokenizer": "word"}, "model": model, "training": {**TRAINING, **training}}, task
    )
    done = train(recipe, out=folder / "run", **files)
    asked = numbers(200, 2, longest, without=given)
    found = translate_texts(
        done.network,
        done.tokenizer,
        None,
        [" ".join(line) for line in asked],
        TranslationOptions(beam_size=1),
    )
    right = [" ".join(solve(line)) for line in asked]
    assert [line == "" for line in found] == [line == "" for line in right]
    scores = score_translations(found, right, bootstrap=0, metrics=("bleu",))
    exact = sum(a == b for a, b in zip(found, right, strict=True)) / len(right)
    return scores.bleu.score, exact


def test_a_transformer_learns_to_copy_short_lines(tmp_path: Path) -> None:
    narrow = {**TRANSFORMER, "d_model": 32, "n_heads": 2}
    training = {"steps": 220, "batch_tokens": 512, "learning_rate": 5e-3}
    bleu, exact = learnt("copy", tmp_path, narrow, longest=6, n=4_000, **training)
    assert bleu >= 98
    assert exact >= 0.9


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("task", TASKS)
def test_a_transformer_learns(task: str, tmp_path: Path) -> None:
    bleu, exact = learnt(task, tmp_path, TRANSFORMER, longest=10, steps=600)
    assert bleu >= 98
    assert exact >= 0.95


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_a_recurrent_network_with_attention_learns(task: str, tmp_path: Path) -> None:
    bleu, exact = learnt(task, tmp_path, RNN, longest=10, steps=450)
    assert bleu >= 98
    assert exact >= 0.95
