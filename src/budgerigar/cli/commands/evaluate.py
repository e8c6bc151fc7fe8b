"""Loss and perplexity of a model on its validation text or on another; a translator's BLEU too.

Every token of a text but the first is scored once, in consecutive windows of the context length
(the windowed figure). With --streaming the state is carried through the whole text, and that figure
stands beside the windowed one. An encoder-decoder is given a source and its translation: its
losses are over the targets, and its own translations get BLEU, chrF and TER from sacreBLEU, with
signatures and 95 % intervals. Without files it is its validation split.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from budgerigar.cli.flags import add_dataclass, given, whole_number
from budgerigar.cli.output import count, print_json, table
from budgerigar.errors import UserError

USES = ("out", "device", "seed", "threads", "json")
EXAMPLES = """examples:
  budgie evaluate last
  budgie evaluate runs/shakespeare-1 other_play.txt --streaming
  budgie evaluate last --source test.de --target test.en --out test.translated
  budgie evaluate last --corpus multi30k             on its test pairs
  budgie evaluate last --alignments                  which head aligns words best
  budgie evaluate runs/trec-1 trec_test.tsv          a classifier, on labelled texts
  budgie evaluate last --json"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which model, which text or pairs, how they are scored."""
    from budgerigar.generation.translation_options import TranslationOptions

    parser.add_argument("model", metavar="RUN", help="a run's folder, or last")
    parser.add_argument(
        "file", metavar="FILE", nargs="?", help="a text; without one, the run's validation text"
    )
    parser.add_argument("--encoding", metavar="NAME", help="encoding of the files, if not UTF-8")
    parser.add_argument(
        "--streaming", action="store_true", help="also with the state carried through the text"
    )
    add = parser.add_argument_group("translation").add_argument
    add("--source", metavar="FILE", action="append", help="lines to translate (repeatable)")
    add("--target", metavar="FILE", action="append", help="their translations, line by line")
    add("--pairs", metavar="FILE", action="append", help="both in one file: .tsv or JSON lines")
    add("--corpus", metavar="NAME", help="the test pairs of a corpus of `budgie list`")
    add("--columns", metavar="A,B", help="two columns or keys of that file, source first")
    add("--tokenize", metavar="NAME", help="BLEU's tokenizer [zh for Chinese, else 13a]")
    add("--lowercase", action="store_true", help="score without regard to case")
    add(
        "--bootstrap",
        metavar="N",
        type=whole_number,
        default=1000,
        help="resampled test sets for the intervals, 0: none [1000]",
    )
    add(
        "--alignments",
        metavar="GOLD",
        nargs="?",
        const=True,
        help="alignment error rate of each head, against a Pharaoh file for --source and --target, "
        "or against the generated pairs",
    )
    add_dataclass(parser, TranslationOptions, "how it translates", "translation", ("seed",))


def run(options: argparse.Namespace) -> None:
    """Evaluate in the way that fits the model, and print."""
    if options.out and Path(options.out).exists():
        raise UserError(f"{options.out} exists already; choose another --out or remove it")

    from budgerigar import api

    model = api.load(options.model, device=options.device or "auto", threads=options.threads)
    if options.alignments:
        _alignments(model, options)
    elif _names_pairs(options) and not model.translates:
        api.need_translator(model, "be evaluated on sentence pairs")
    elif model.role == "classes":
        _classes(model, options)
    elif model.translates and (_names_pairs(options) or not api.fills_spans(model)):
        _translations(model, options)
    else:
        _losses(model, options)


def _names_pairs(options: argparse.Namespace) -> bool:
    return bool(options.source or options.target or options.pairs or options.corpus)


# -- a text --------------------------------------------------------------------------------------


def _losses(model: Any, options: argparse.Namespace) -> None:
    """One column per way of reading."""
    _note_unused(options, ("out", "tokenize", "lowercase", "columns"))
    if model.role == "vectors":
        _vectors(model, options)
        return
    if model.role == "fill-in" or model.translates:
        _gaps(model, options)
        return
    results = {"windowed": model.evaluate(options.file, encoding=options.encoding)}
    if options.streaming:
        results["streaming"] = model.evaluate(
            options.file, streaming=True, encoding=options.encoding
        )
    if options.json:
        print_json({"run": str(model.folder), "text": options.file or "validation", **results})
        return
    print(f"{model.folder} on {options.file or 'its validation text'}")
    print(_loss_table(results))


def _note_unused(options: argparse.Namespace, names: tuple[str, ...]) -> None:
    """What was asked for and is for models that translate."""
    for name in (*names, *given(options, "translation")):
        if getattr(options, name, True):
            words = "has no effect here: it is for models that translate"
            print(f"note: --{name.replace('_', '-')} {words}", file=sys.stderr)


def _gaps(model: Any, options: argparse.Namespace) -> None:
    """Every token of a text hidden once, with masks that are always the same."""
    found = model.evaluate(options.file, encoding=options.encoding, streaming=options.streaming)
    if options.json:
        text = options.file or "validation"
        print_json({"run": str(model.folder), "text": text, **found.as_dict()})
        return
    print(f"{model.folder} on {options.file or 'its validation text'}: {found.explained}")
    print(table(_gap_rows(found.as_dict(), found.unit)))


def _gap_rows(found: dict[str, Any], unit: str) -> list[tuple[str, str]]:
    words = ", whole words" if found.get("whole_words") else ""
    rows = [
        (unit, _nats(found["nats_per_token"])),
        ("standard error", _nats(found["standard_error"])),
    ]
    if "nats_per_hidden_token" in found:
        rows.append(("nats per hidden token", _nats(found["nats_per_hidden_token"])))
    hidden = found.get("n_hidden", found["n_tokens"])
    return [
        *rows,
        ("hidden token right", f"{100 * found['accuracy']:.1f} %"),
        ("tokens hidden", f"{count(hidden)}, each once, 1 of {found['passes']} at a time{words}"),
    ]


def _classes(model: Any, options: argparse.Namespace) -> None:
    """Accuracy, F1 and confusions, beside what words alone tell."""
    _note_unused(options, ("out", "tokenize", "lowercase", "streaming"))
    where = {"columns": options.columns, "encoding": options.encoding}
    found = model.evaluate(options.file, **where)
    try:
        beside, why = model.beside(options.file, **where), ""
    except UserError as error:
        beside, why = {}, f"no comparison with words alone: {error}"
    if options.json:
        text = {"run": str(model.folder), "text": options.file or "validation"}
        print_json(text | found.as_dict() | {"beside": {n: b.as_dict() for n, b in beside.items()}})
        return
    print(f"{model.folder} on {options.file or 'the texts held out of training'}")
    print(_indented(found.text()))
    for name, one in beside.items():
        shares = (one.accuracy, one.accuracy_low, one.accuracy_high, one.macro_f1)
        accuracy, low, high, f1 = (f"{100 * share:.1f}" for share in shares)
        print(f"  {name} for comparison: accuracy {accuracy} % ({low} to {high}), macro F1 {f1} %")
    if why:
        print(why, file=sys.stderr)


def _vectors(model: Any, options: argparse.Namespace) -> None:
    """Word vectors predict no text: their own loss, beside what needs no vectors."""
    found = model.evaluate(options.file, encoding=options.encoding, streaming=options.streaming)
    text = options.file or "validation"
    if options.json:
        print_json({"run": str(model.folder), "text": text, **found.as_dict()})
        return
    print(f"{model.folder} on {options.file or 'its validation text'}: nats per pair of near words")
    rows = [("these vectors", found.loss), ("frequency alone", found.by_frequency)]
    rows.append(("nothing", found.by_nothing))
    print(table([(name, f"{loss:.4f}") for name, loss in rows]))
    print(f"  over {found.pairs:,.0f} pairs of {found.n_words:,} words, {found.n_tokens:,} tokens")


def _loss_table(results: dict[str, Any]) -> str:
    rows: list[tuple[str, ...]] = [("", *results)] if any(results) else []
    for label, name, form in ROWS:
        values = [form(getattr(result, name)) for result in results.values()]
        rows.append((label, *values))
    return table(rows)


def _nats(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


ROWS = (
    ("nats per token", "nats_per_token", _nats),
    ("standard error", "standard_error", _nats),
    ("nats per character", "nats_per_character", _nats),
    ("bits per byte", "bits_per_byte", _nats),
    ("perplexity per token", "perplexity", lambda value: f"{value:,.2f}"),
    ("next token right", "accuracy", lambda value: f"{100 * value:.1f} %"),
    ("tokens scored", "n_tokens", count),
)


# -- pairs ---------------------------------------------------------------------------------------


def _translations(model: Any, options: argparse.Namespace) -> None:
    """Scores of its translations, losses on the given ones."""
    if options.file or options.streaming:
        model.evaluate(options.file, streaming=options.streaming)  # says why that cannot be
    chosen = given(options, "translation")
    if options.seed is not None:
        chosen["seed"] = options.seed
    found = model.evaluate_translations(
        **_pairs(model, options),
        tokenize=options.tokenize,
        lowercase=options.lowercase,
        bootstrap=options.bootstrap,
        **chosen,
    )
    if options.out:
        from budgerigar.formats.atomic import write_text

        write_text(Path(options.out), "".join(line + "\n" for line in found.translations))
    if options.json:
        print_json({"run": str(model.folder), **found.as_dict()})
        return
    blank = f" ({found.n_blank:,} with a blank side are left out)" if found.n_blank else ""
    print(f"{model.folder} on {found.on}: {found.n_pairs:,} pairs{blank}")
    print(_indented(str(found.scores)))
    print(_loss_table({"": found.loss}))
    print(f"  exactly as the target  {found.n_exact:,} of {found.n_pairs:,}")
    how = f"beam {found.options.beam_size}" if found.options.beam_size > 1 else "greedy"
    how = "sampling" if found.options.sampling else how
    print(
        f"  translated in {found.seconds:.1f} s: {found.sentences_per_second:,.1f} sentences a "
        f"second ({how}, {found.options.batch_size} at a time)"
    )
    if options.out:
        print(f"  its translations: {options.out}")


def _pairs(model: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Where the pairs are."""
    files = {name: getattr(options, name) or () for name in ("source", "target", "pairs")}
    if options.corpus:
        if any(files.values()):
            raise UserError("give files or --corpus, not both")
        from budgerigar import api

        files |= api.test_split(model, options.corpus)
    return {**files, "columns": options.columns, "encoding": options.encoding}


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _alignments(model: Any, options: argparse.Namespace) -> None:
    """Every head by its alignment error rate, the best first."""
    gold = None if options.alignments is True else options.alignments
    found = model.alignment_errors(gold=gold, **_pairs(model, options))
    if options.json:
        print_json({"run": str(model.folder), **found.as_dict()})
        return
    print(found)
