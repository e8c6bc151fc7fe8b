"""The ladder to the Transformer on Multi30k, German to English: what each rung is worth.

    python benchmarks/translation_ladder.py                 # three trainings of 12 minutes each
    python benchmarks/translation_ladder.py --work FOLDER   # go on there, or read what is finished
    python benchmarks/translation_ladder.py --minutes 0.5   # only to see it run

An LSTM that has to carry the whole sentence in its state (recipe `multi30k-lstm`), a GRU that looks
back at the words (`multi30k-bahdanau`), and the Transformer (`multi30k`): same pairs, same joint
vocabulary, same time, same beam, same scorer. Published single runs of the three, with other tokens
and another scorer: 13.8, 28.3 and 36.5. Runs live in `--work` and are gone on with where they stopped.

Prints one table and writes ladder.json and ladder.svg (BLEU of the validation pairs over minutes of
training, and of the test pairs at the end) there. Exits with 1 unless each rung beats the one below.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from budgerigar.evaluation.translation_scores import Metric, score_translations
from budgerigar.formats.metrics import read_metrics
from budgerigar.formats.run import load_model
from budgerigar.generation.translation import translate_texts
from budgerigar.generation.translation_options import TranslationOptions
from budgerigar.progress import note
from budgerigar.training.run import train

RUNGS = {  # recipe: (name, published)
    "multi30k-lstm": ("LSTM, no attention", 13.8),
    "multi30k-bahdanau": ("GRU, Bahdanau's attention", 28.3),
    "multi30k": ("Transformer", 36.5),
}
SETTINGS: dict[str, dict[str, Any]] = {  # of 12 minutes, where a recipe is made for more
    "multi30k": {"dropout_residual": 0.2, "dropout_embedding": 0.1, "decay_fraction": 0.4},
}
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "multi30k"
EVALUATIONS = {"evaluate_every": 150, "bleu_sentences": 300}  # a curve wants more than a run


@dataclass
class Rung:
    """What one model reached. curve: (minutes of training, BLEU of some validation pairs)."""

    recipe: str
    parameters: int
    steps: int
    minutes: float
    bleu: float
    low: float | None
    high: float | None
    signature: str
    validation_loss: float
    curve: list[tuple[float, float]]


def main() -> int:
    """Train what is not trained yet, score, print, draw; 1 if the order is not as it should be."""
    options = _options()
    options.work.mkdir(parents=True, exist_ok=True)
    rungs = [climb(recipe, options) for recipe in RUNGS]
    text = json.dumps([asdict(rung) for rung in rungs], indent=1)
    (options.work / "ladder.json").write_text(text + "\n", encoding="utf-8")
    print(table(rungs))
    draw(rungs, options.work / "ladder.svg")
    scores = [rung.bleu for rung in rungs]
    return 0 if scores == sorted(set(scores)) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, default=DATA, help="train, val, test2016 .de and .en")
    parser.add_argument("--work", type=Path, default=Path("runs/translation-ladder"))
    parser.add_argument("--minutes", type=float, default=12.0, help="of training for each")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


# -- a rung ----------------------------------------------------------------------------------------
def climb(recipe: str, options: argparse.Namespace) -> Rung:
    """Train one model (or go on, or read it) and score its translations of the test pairs."""
    folder = options.work / recipe
    if not (folder / "config.json").exists():
        note(f"{RUNGS[recipe][0]}: {options.minutes:g} minutes")
        train(
            recipe,
            source=[options.data / "train.de"],
            target=[options.data / "train.en"],
            validation_source=[options.data / "val.de"],
            validation_target=[options.data / "val.en"],
            out=folder,
            minutes=options.minutes,
            settings={
                "source_language": "de",
                "target_language": "en",
                "seed": options.seed,
                **EVALUATIONS,
                **SETTINGS.get(recipe, {}),
            },
        )
    elif not read_metrics(folder / "metrics.jsonl", "final"):
        train(resume=folder)
    score = _scored(folder, options)
    return _rung(recipe, folder, score)


def _scored(folder: Path, options: argparse.Namespace) -> Metric:
    """BLEU on test2016; the translations are kept beside the run's other files."""
    loaded = load_model(folder)
    kept = folder / f"test2016.beam{options.beam}.en"
    if not kept.exists():
        search = TranslationOptions(beam_size=options.beam)
        tokenizers = loaded.tokenizer, loaded.source_tokenizer
        source = _lines(options.data / "test2016.de")
        found = translate_texts(loaded.network, *tokenizers, source, search)
        kept.write_text("".join(f"{line}\n" for line in found), encoding="utf-8", newline="\n")
    references = _lines(options.data / "test2016.en")
    bleu = score_translations(_lines(kept), references, target_language="en", metrics=["bleu"]).bleu
    assert bleu is not None
    return bleu


def _lines(path: Path) -> list[str]:
    """Lines end at LF only."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def _rung(recipe: str, folder: Path, bleu: Metric) -> Rung:
    evaluations = read_metrics(folder / "metrics.jsonl", "evaluation")
    final: dict[str, Any] = read_metrics(folder / "metrics.jsonl", "final")[-1]
    minutes = [entry["clock"]["training_seconds"] / 60 for entry in evaluations]
    return Rung(
        recipe=recipe,
        parameters=sum(p.numel() for p in load_model(folder).network.parameters()),
        steps=evaluations[-1]["step"],
        minutes=minutes[-1],
        bleu=bleu.score,
        low=bleu.low,
        high=bleu.high,
        signature=bleu.signature,
        validation_loss=final["loss"],
        curve=[
            (at, entry["bleu"])
            for at, entry in zip(minutes, evaluations, strict=True)
            if entry.get("bleu") is not None
        ],
    )


# -- report ----------------------------------------------------------------------------------------
def table(rungs: list[Rung]) -> str:
    """All rungs as text, the signature of their scores below."""
    head = ("BLEU", "95 % interval", "parameters", "steps", "minutes", "loss", "published")
    lines = [f"{'':<28}" + "".join(f"{word:>15}" for word in head)]
    for rung in rungs:
        name, published = RUNGS[rung.recipe]
        cells = (
            f"{rung.bleu:.1f}",
            f"{rung.low:.1f} to {rung.high:.1f}",
            f"{rung.parameters:,}",
            f"{rung.steps:,}",
            f"{rung.minutes:.1f}",
            f"{rung.validation_loss:.3f}",
            f"{published}",
        )
        lines.append(f"{name:<28}" + "".join(f"{cell:>15}" for cell in cells))
    lines.append(f"BLEU of test2016: {rungs[0].signature}")
    lines.append("loss: nats per token of the validation pairs, the same tokens for all three")
    return "\n".join(lines)


def draw(rungs: list[Rung], path: Path) -> None:
    """BLEU over minutes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    colours = ("#b35806", "#542788", "#1b7837")  # told apart by colour-blind people too
    for rung, colour, marker in zip(rungs, colours, "svo", strict=True):
        name, _ = RUNGS[rung.recipe]
        if rung.curve:
            axes.plot(*zip(*rung.curve, strict=True), color=colour, marker=marker, markersize=3)
        bar = [[rung.bleu - (rung.low or 0.0)], [(rung.high or 0.0) - rung.bleu]]
        style: dict[str, Any] = {"color": colour, "marker": marker, "capsize": 3}
        label = f"{name}: {rung.bleu:.1f}"
        axes.errorbar([rung.minutes], [rung.bleu], yerr=bar, label=label, **style)
    axes.set_xlabel("minutes of training on two CPU cores")
    axes.set_ylabel("BLEU (validation; with bar: test2016)")
    axes.set_title("Multi30k, German to English")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(path)


if __name__ == "__main__":
    sys.exit(main())
