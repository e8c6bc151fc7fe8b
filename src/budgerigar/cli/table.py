"""The commands, in the groups and the order in which help lists them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One row of the table: what to type and what it does."""

    name: str
    usage: str
    about: str


GROUPS: dict[str, tuple[Command, ...]] = {
    "learn": (
        Command("demo", "[--quick]", "watch small models learn to look back, and to translate"),
        Command("why", "[PART]", "each part of the Transformer: what fails without it, measured"),
    ),
    "make": (
        Command("train", "[FILE…]", "train or fine-tune a model on a text, or on sentence pairs"),
        Command(
            "compare", "[CORPUS]", "n-gram, RNN, LSTM, GPT on one text: who wins, when; probes"
        ),
        Command("ablate", "RECIPE --dial X=a,b", "settings varied over seeds: what is not noise"),
        Command("evaluate", "RUN [FILE]", "loss, bits per byte, accuracy; BLEU, chrF, TER"),
    ),
    "run": (
        Command("generate", "RUN [PROMPT]", "continue a text, as it is written"),
        Command("chat", "RUN", "talk with a model that was taught to answer"),
        Command("translate", "RUN [TEXT…]", "translate: N lines in, N lines out"),
        Command("fill", "RUN TEXT", 'what may stand in the gaps of a text: "The [MASK] sat."'),
        Command("classify", "RUN [TEXT…]", "which class each text is of"),
        Command("embed", "RUN [TEXT…]", "a vector of each text; how alike a few texts are"),
    ),
    "look": (
        Command("look", "RUN TEXT", "what each head attends to: terminal, PNG, SVG, HTML"),
        Command("explore", "[RUN…]", "the page: what a model does with your sentence, live"),
    ),
    "models": (
        Command("card", "RUN|RECIPE|PAPER", "layers, heads, parameters, memory, FLOPs"),
        Command("doctor", "PATH", "what is wrong with a model's files: the classic faults, tried"),
        Command("convert", "PATH OUT", "to a Hugging Face folder, GGUF, or a run's folder"),
        Command("eject", "RUN", "one plain PyTorch file of that model only"),
    ),
    "data": (
        Command("get", "NAME", "fetch a corpus or a model of the catalogue"),
        Command("list", "", "corpora, models, recipes, papers' shapes, your runs"),
        Command("check", "FILE…", "what a text file is like, before training on it"),
    ),
}

COMMANDS: dict[str, Command] = {row.name: row for rows in GROUPS.values() for row in rows}
