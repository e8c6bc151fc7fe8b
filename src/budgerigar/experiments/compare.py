"""`budgie compare`: the road from the n-gram to the Transformer on one text. Read top to bottom.

One corpus and one tokenizer for all; each model is trained by the ordinary training into its own
run folder OUT/<model>, then measured by the same measures. What is finished is not done again: the
same call goes on where it stopped.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.evaluation import evaluate
from budgerigar.evaluation.baselines import choose_ngram
from budgerigar.experiments.compare_measure import Result, carried_bytes, scores, writes
from budgerigar.experiments.compare_models import Asked, network_recipe
from budgerigar.experiments.demo_runs import standing_of, trained
from budgerigar.experiments.folders import read_kept, refuse_strangers
from budgerigar.formats.atomic import write_text
from budgerigar.formats.metrics import read_metrics
from budgerigar.inspection.back_off_text import NAMES
from budgerigar.training.corpora import first_tokens, gather_corpus
from budgerigar.training.recipe import Recipe, TextRecipe, load_recipe

SETTINGS = "compare.json"
RESULTS = "results.json"


@dataclass(frozen=True)
class Comparison:
    """What was compared and how it ended; results in the order of the models asked for."""

    corpus: str
    asked: Asked
    window: int
    """tokens of an evaluation window"""
    n_tokens: int
    """scored tokens of the validation split"""
    train_tokens: int
    results: tuple[Result, ...]
    folder: Path

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON, the verdict in words among them."""
        from budgerigar.experiments.compare_words import verdict

        found = dataclasses.asdict(self)
        for result in found["results"]:
            result.pop("window_nats")
        return {**found, "folder": str(self.folder), "verdict": verdict(self)}

    def __str__(self) -> str:
        from budgerigar.experiments.compare_words import as_text

        return as_text(self)


def compare(
    files: Sequence[Path],
    text: TextRecipe | None = None,
    asked: Asked | None = None,
    out: Path | None = None,
) -> Comparison:
    """Train and measure each model; write table, pictures and page into the folder `out`.

    files: the text, or none: the corpus that `text` names. out: default runs/compare-<its name>.

    Raises:
        UserError: no text, settings that cannot be compared, or a folder of another comparison.
        StoppedError: the user stopped a training; the same call goes on there.
    """
    from budgerigar.experiments.compare_page import write_files

    text, asked = text or TextRecipe(), (asked or Asked()).validate()
    name = files[0].stem if files else text.corpus or "text"
    folder = out or Path("runs") / f"compare-{name}"
    refuse_strangers(folder, SETTINGS, "comparison")
    corpus = gather_corpus(text, list(files))
    window = min(asked.context_length, corpus.train.n_tokens - 1, corpus.validation.n_tokens - 1)
    _same_as_before(folder, asked, corpus)
    work = _Work(list(files), text, asked, corpus, window, folder)
    results = tuple(work.result(model) for model in asked.models)
    found = Comparison(
        name,
        asked,
        window,
        corpus.validation.n_tokens - 1,
        corpus.train.n_tokens,
        results,
        folder,
    )
    write_files(found)
    return found


# -- the folder -----------------------------------------------------------------------------------


def _same_as_before(folder: Path, asked: Asked, corpus: Any) -> None:
    """Keep what is compared; refuse to mix it with other settings. Models may be added."""
    now = {**dataclasses.asdict(asked), "minutes": asked.budget}  # 5 said or not said
    now["fingerprint"] = corpus.fingerprint
    free = ("models", "threads")
    path = folder / SETTINGS
    if path.is_file():
        before = read_kept(path, mark=True)
        changed = [n for n in now if n not in free and before.get(n) != now[n]]
        if changed:
            words = ", ".join("the text" if n == "fingerprint" else n for n in changed)
            raise UserError(
                f"{folder} holds a comparison with another {words}, and numbers of both would not "
                "compare. Choose another --out, or remove that folder."
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(now, indent=2))


# -- the models -----------------------------------------------------------------------------------


@dataclass
class _Work:
    files: list[Path]
    text: TextRecipe
    asked: Asked
    corpus: Any
    window: int
    folder: Path

    def result(self, name: str) -> Result:
        """What is known of a model, or will be after training and measuring it."""
        path = self.folder / name / RESULTS
        if path.is_file():
            progress.note(f"{name}: finished before, in {path.parent}")
            return Result.from_dict(read_kept(path))
        progress.note(f"{name}:")
        fields, network = self._ngram() if name == "ngram" else self._network(name)
        progress.note(f"{name}: measuring")
        found = Result(
            name=name,
            **fields,
            **scores(network, self.corpus, self.window),
            **writes(network, self.corpus, self.asked.seed),
            carried_bytes=carried_bytes(network, self.corpus, self.window),
        )
        write_text(path, json.dumps(found.as_dict()))
        return found

    def _ngram(self) -> tuple[dict[str, Any], Any]:
        """The order and smoothing chosen on the end of the training text, with the time for that."""
        train = self.corpus.train
        before = time.perf_counter()
        chosen = choose_ngram(train, context_length=self.window)
        seconds = time.perf_counter() - before
        recipe = load_recipe("ngram").replace(
            text=dataclasses.asdict(self.text),
            model={"order": chosen.order, "smoothing": chosen.smoothing},
        )
        network, report = self._trained(recipe, "ngram")
        seconds += float(report.get("training_seconds", 0.0))  # not known of one counted before
        part = first_tokens(self.corpus.validation, self._curve_tokens(), self.corpus.tokenizer)
        on_part = evaluate(network, part, context_length=self.window)
        return {
            "about": f"order {network.config.order}, {NAMES[network.config.smoothing]}",
            "parameters": sum(network.n_ngrams),
            "training_seconds": seconds,
            "tokens_read": train.n_tokens,
            "tokens_per_second": train.n_tokens / max(seconds, 1e-9),
            "curve": ((seconds, on_part.bits_per_byte),),
        }, network

    def _network(self, name: str) -> tuple[dict[str, Any], Any]:
        known = self.folder / name
        recipe = None
        if standing_of(known) is None:
            recipe = network_recipe(name, self.text, self.corpus, self.asked)
        network, report = self._trained(recipe, name)
        entries = [e for e in read_metrics(known / "metrics.jsonl") if e["kind"] == "evaluation"]
        seconds, tokens = float(report["training_seconds"]), int(report["tokens"])
        return {
            "about": in_words(network.config),
            "parameters": sum(p.numel() for p in network.parameters()),
            "training_seconds": seconds,
            "tokens_read": tokens,
            "tokens_per_second": tokens / max(seconds, 1e-9),
            "curve": tuple(
                (float(e["clock"]["training_seconds"]), float(e["bits_per_byte"])) for e in entries
            ),
            "steps": int(report["step"]),
            "total_steps": int(report["total_steps"]),
        }, network

    def _curve_tokens(self) -> int:
        from budgerigar.experiments.compare_models import CURVE_TOKENS

        return min(self.corpus.validation.n_tokens, CURVE_TOKENS)

    def _trained(self, recipe: Recipe | None, name: str) -> tuple[Any, dict[str, Any]]:
        """(network with its best weights, report) of the run in the model's folder."""
        run = self.folder / name
        standing = standing_of(run)
        if name == "ngram" and standing is not None:  # counted in one go, without checkpoints
            from budgerigar.formats.run import load_model

            return load_model(run).network, standing
        done, _ = trained(recipe, self.corpus, run, given={"files": self.files})
        return done.network, done.report


def in_words(config: Any) -> str:
    """The size of a network on one line."""
    names = ("order", "n_layers", "n_heads", "d_model", "d_embedding", "d_hidden")
    cell = {"elman": "Elman's cell, ", "gru": "GRU, ", "lstm": "LSTM, "}
    words = [f"{name} {getattr(config, name)}" for name in names if hasattr(config, name)]
    return cell.get(getattr(config, "cell", ""), "") + ", ".join(words)
