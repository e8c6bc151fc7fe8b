"""`budgie look` at a translation: the words, their alignment, and what each head looks at."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError


def make_trace(model: Any, options: argparse.Namespace) -> Any:
    """The trace that the flags ask for, and in words on stdout what it is a trace of.

    Heads that are switched off and a blanked source show in it; what they change of the translation
    or of the guesses is printed.
    """
    whole = model
    if options.head_off:
        kind = options.kind or ("self" if options.of == "encoder" else "cross")
        model = model.edited(tuple(options.head_off), of=options.of, kind=kind)
    if options.no_source:
        model = model.without_source()
    target = options.target if options.prefix is None else options.prefix
    trace = model.trace(options.text, target, prefix=options.prefix is not None)
    print(f"source       {trace.source.strip()}")
    label = "translation" if options.prefix is None else "begins with"
    print(f"{label}  {trace.text.strip()}{'' if target else '   (its own)'}")
    print()
    if options.prefix is not None:
        _show_guesses(whole, trace, options)
    elif model is not whole and not options.target:
        changed = _changes(options)
        print(f"{changed}: {trace.text.strip()}")
        print(f"as it is: {whole.translate(options.text)}")
        print()
    return trace


def _changes(options: argparse.Namespace) -> str:
    parts = [f"without {', '.join(options.head_off)}"] if options.head_off else []
    return " and ".join(parts + ["without the source"] * options.no_source)


def _show_guesses(whole: Any, trace: Any, options: argparse.Namespace) -> None:
    """What comes next, beside what the unchanged model says."""
    from budgerigar.cli.output import table

    columns = {"": trace}
    if options.no_source or options.head_off:
        columns = {"as it is": whole.trace(options.text, options.prefix, prefix=True)}
        columns[_changes(options)] = trace
    heads = [cell for name in columns for cell in (name, "")]
    rows: list[list[str]] = [heads] if any(heads) else []
    guesses = [one.guesses() for one in columns.values()]
    for line in zip(*guesses, strict=False):
        cells = [(whole.tokenizer.pieces([token])[0], f"{p:.3f}") for token, p in line]
        rows.append([cell for pair in cells for cell in pair])
    print("what the model guesses next")
    print(table(rows))
    print()


def show(trace: Any, options: argparse.Namespace) -> None:
    """Alignment, heads and heat map in the terminal, or the heads that were asked for."""
    from budgerigar import api

    of, kind = site_of(trace, options)
    if options.head or options.layer is not None or options.grid:
        names = [options.head] if options.head else None
        names = names or [head.name for head in trace.heads(options.layer, of, kind)]
    elif kind == "cross" and options.no_source and options.kind is None:
        _point_to_self_attention(trace, options)  # every weight here is switched off
        return
    else:
        if kind == "cross" and not options.no_source:
            print(trace.alignment())
            print()
        print(api.heads_in_words(trace, of, kind))
        print()
        names = [api.busiest_head(trace, of, kind)]
    for name in names:
        print(trace.attention(name, of, kind))
        print()
    if len(names) == 1 and not options.quiet:
        more = (
            "other heads: --head NAME, --layer N, --grid; other attention: --kind self --of encoder"
        )
        print(f"{more}; a picture: --out heads.png", file=sys.stderr)


def draw_alignment(trace: Any, options: argparse.Namespace) -> Path | None:
    """The picture of the alignment, where no head is asked for; None: draw the heads instead."""
    heads = options.head or options.grid or options.layer is not None or options.kind or options.of
    picture = Path(options.out).suffix.lower() in (".png", ".svg", ".pdf")
    if heads or not picture or options.no_source or not hasattr(trace, "alignment"):
        return None
    return Path(trace.alignment().picture(options.out))


def _point_to_self_attention(trace: Any, options: argparse.Namespace) -> None:
    """Say how to see what the decoder looks at without its source, if it looks at itself."""
    with suppress(UserError):
        trace.site("decoder", "self")
        if not options.quiet:
            print("what the decoder looks at in itself: --kind self --of decoder", file=sys.stderr)


def site_of(trace: Any, options: argparse.Namespace) -> tuple[str | None, str | None]:
    """Which attention is meant: the decoder's to the source, unless another is asked for."""
    kind = options.kind or ("self" if options.of == "encoder" else "cross")
    of = options.of
    if of is None and kind == "self":
        raise UserError(
            "encoder and decoder both attend to themselves: add --of encoder or --of decoder"
        )
    trace.site(of, kind)  # or says what there is
    return of, kind
