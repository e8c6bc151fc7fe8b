"""Train the n-gram, the feed-forward network, the RNN, the LSTM and a GPT on one text, and compare.

Same tokens, same minutes (or as many weights, or as much reading), same measure: bits per byte in
windows and streaming, with standard errors. A table, two pictures, a sample of each, as a page and as
CSV in the output folder; the same command goes on where it stopped. The probes need no text: they
measure the troubles for which the Transformer came.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from budgerigar.cli.flags import add_dataclass, given, number, one_of, whole_number
from budgerigar.cli.output import print_json

USES = ("out", "device", "seed", "threads", "json")
PROBES = ("recall", "parallel", "context")
EXAMPLES = """examples:
  budgie compare my.txt                              5 minutes for each network
  budgie compare my.txt --minutes 1 --models ngram,lstm,gpt
  budgie compare my.txt --parameters 400_000 --passes 5
                                                     as many weights, as much reading
  budgie compare shakespeare --json                  a corpus of `budgie list`
  budgie compare --probe recall                      a name, a long way, the name again
  budgie compare --probe parallel                    training by length, writing by position
  budgie compare --probe context                     what long texts cost attention"""
STOPPED = 130  # as a shell says of a command that Ctrl-C ended
COMMON = ("out", "seed", "device", "threads")
OWN = ("models", "minutes", "passes", "parameters", "context_length")
PROBES_OWN = ("owners", "quick")
PAIRS = {
    "corpus", "n_stories", "language", "filler_words", "corpus_seed", "source_language",
    "target_language", "vocabulary", "source_tokenizer", "source_vocab_size", "columns",
    "lowercase", "n_pairs", "mix",
}  # fmt: skip


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which text and models, how much of each; or which probe."""
    from budgerigar.training.recipe import TextRecipe

    parser.add_argument(
        "corpus", metavar="CORPUS", nargs="?", help="a file, a folder, a corpus of `budgie list`"
    )
    add = parser.add_argument
    add("--models", metavar="A,B", help="of ngram, feed-forward, rnn, lstm, gru, gpt [all but gru]")
    add("--minutes", metavar="X", type=number, help="of training, for each network [5]")
    add("--passes", metavar="X", type=number, help="over the text, for each network, not minutes")
    add("--parameters", metavar="N", type=whole_number, help="weights of each network")
    add(
        "--context-length",
        metavar="N",
        type=whole_number,
        help="tokens of an evaluation window, for all [256]",
    )
    add("--probe", type=one_of(PROBES), metavar="NAME", help=f"{', '.join(PROBES)}, not a text")
    add("--owners", metavar="N", type=whole_number, help="probe recall: owners of pets, 1 or 2 [1]")
    add("--quick", action="store_true", help="probes: a small one, a minute or two")
    add_dataclass(parser, TextRecipe, "text", "text", PAIRS)


def run(options: argparse.Namespace) -> int:
    """Compare, or probe, and print."""
    from budgerigar import api
    from budgerigar.experiments.demo_runs import StoppedError

    try:
        found = api.compare(options.corpus, **_settings(options))
    except StoppedError as stop:
        print(f"stopped, and saved in {stop}; the same command goes on there", file=sys.stderr)
        return STOPPED
    except KeyboardInterrupt:  # between two trainings, while a model is measured
        if options.probe:
            raise
        print("stopped; the same command goes on after the models that are done", file=sys.stderr)
        return STOPPED
    if options.json:
        print_json(found.as_dict())
    else:
        print(found)
        print(f"page, pictures, table and runs: {found.folder}")
    return 0


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """What was asked for, as `api.compare` takes it; what has no effect here is said."""
    asked = {n: getattr(options, n) for n in (*COMMON, *OWN, *PROBES_OWN, "corpus")}
    asked = {name: v for name, v in asked.items() if v is not None and v is not False}
    if options.models:
        asked["models"] = [name.strip() for name in options.models.split(",") if name.strip()]
    text = given(options, "text")
    if options.probe:
        from budgerigar.api.probes import settings_of

        known = {"out", *settings_of(options.probe)}
        where, found = f"on --probe {options.probe}", {"probe": options.probe}
    else:
        known = {*COMMON, *OWN, "corpus", *text}
        where, found = "without --probe", {"text": text}
    for name in [*asked, *text]:
        if name not in known:
            flag = "the text" if name == "corpus" else f"--{name.replace('_', '-')}"
            print(f"note: {flag} has no effect {where}", file=sys.stderr)
    kept = {name: value for name, value in asked.items() if name in known and name != "corpus"}
    return {**found, **kept}
