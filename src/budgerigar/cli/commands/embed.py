"""Make a vector of each text: the mean of its tokens' vectors, or as the model's folder declares.

Texts that are arguments, 2 to 10 of them, are compared: a table of cosines (1: the same direction).
Otherwise a line of numbers for each text, tabs between. --out writes .npy (float32, a row for each
text) or .tsv. The texts are the arguments, the lines of --file, or those of stdin.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from budgerigar.cli.lines import add_text_flags, given_texts
from budgerigar.errors import UserError

USES = ("out", "device", "threads", "json")
EXAMPLES = """examples:
  budgie embed minilm-l6 "a small parrot" "a budgerigar" "a tax return"
  budgie embed minilm-l6 --file lines.txt --out vectors.npy
  budgie embed minilm-l6 "one text" --no-normalise"""

FEW = 10  # texts that a table can hold
SHOWN = 40  # characters of each text beside the table
SUFFIXES = (".npy", ".tsv")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which model, which texts, what is made of them."""
    parser.add_argument("model", metavar="RUN", help="a run, a model's folder, or a name")
    add_text_flags(parser, "embed")
    parser.add_argument(
        "--pooling",
        metavar="WAY",
        help="mean, cls (the first token), last or max [as the folder declares, else mean]",
    )
    parser.add_argument(
        "--normalise",
        action=argparse.BooleanOptionalAction,
        help="make each vector 1 long [as the folder declares, else no]",
    )
    parser.add_argument(
        "--vectors", action="store_true", help="print the vectors of a few texts, too"
    )


def run(options: argparse.Namespace) -> None:
    """Load the model, embed, print or write."""
    out = _checked_out(options)
    texts = given_texts(options)
    if not texts:
        raise UserError("there is no text to embed: give it as an argument, or with --file")

    from budgerigar import api, progress
    from budgerigar.api.embedding import embed

    model = api.load(options.model, device=options.device or "auto", threads=options.threads)
    found = embed(model, texts, pooling=options.pooling, normalise=options.normalise)
    for note in found.notes:
        progress.note(f"note: {note}")
    if out is not None:
        _write(out, found.vectors)
    if options.json:
        from budgerigar.cli.output import print_json

        content = found.as_dict()
        if len(texts) <= FEW:
            content["cosines"] = found.cosines.tolist()
        print_json(content)
    elif out is not None:
        print(out)
    elif options.texts and 1 < len(texts) <= FEW and not options.vectors:
        print(_table(found))
    else:
        for vector in found.vectors:
            print(_row(vector))


def _checked_out(options: argparse.Namespace) -> Path | None:
    if not options.out:
        return None
    out = Path(options.out)
    if out.suffix.lower() not in SUFFIXES:
        raise UserError(f"--out {out}: vectors are written as {' or '.join(SUFFIXES)}; name it so")
    if out.exists():
        raise UserError(f"{out} exists already; choose another --out or remove it")
    if not out.parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {out.parent}")
    return out


def _write(out: Path, vectors: Any) -> None:
    """The file, whole or not at all."""
    import numpy as np

    from budgerigar.formats.atomic import file_aside

    with file_aside(out) as aside:
        if out.suffix.lower() == ".npy":
            with aside.open("wb") as file:
                np.save(file, vectors, allow_pickle=False)
            return
        with aside.open("w", encoding="utf-8", newline="\n") as lines:
            lines.writelines(f"{_row(vector)}\n" for vector in vectors)


def _row(vector: Any) -> str:
    """Nine digits: as many as a float32 needs to come back as it was."""
    return "\t".join(f"{number:.9g}" for number in vector.tolist())


def _table(found: Any) -> str:
    """Each text's cosine with each, and the texts."""
    from budgerigar.cli.output import table

    numbers = range(1, len(found.texts) + 1)
    rows: list[tuple[str, ...]] = [("", *(f"{number:>6}" for number in numbers), "")]
    for number, text, row in zip(numbers, found.texts, found.cosines, strict=True):
        shown = " ".join(text.split())
        shown = shown if len(shown) <= SHOWN else shown[: SHOWN - 1] + "…"
        cells = ("     –" if cosine != cosine else f"{cosine:6.3f}" for cosine in row)
        rows.append((str(number), *cells, shown))
    return table(rows)
