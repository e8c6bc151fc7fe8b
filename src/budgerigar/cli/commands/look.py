"""What each head attends to in a text, recomputed from the tensors that the model used.

A row is a query (the token that looks), a column a key (the token looked at). Without a flag: the
heads in a list, and the heat map of the one that looks back hardest. --out draws a picture: PNG,
SVG or one offline HTML file, by its ending. Of an encoder-decoder TEXT is the source: shown is how
it looks at it while it writes the translation, each row named by the token that it predicts.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from budgerigar.cli import look_lens
from budgerigar.cli.flags import one_of, whole_number
from budgerigar.errors import UserError

USES = ("out", "device", "threads", "json")
EXAMPLES = """A word that occurs twice is written it#2 (its second place); a number is a position.

examples:
  budgie look last "Mei has a rabbit ; it has long ears ."
  budgie look last "…" --link it rabbit              which head links the two words
  budgie look last "…" --head L1.H2 --step it        the four steps for one token, in numbers
  budgie look last "…" --grid --out heads.png        every head in one picture
  budgie look last "…" --surprise                    each token by its nats
  budgie look last "…" --lens                        the guess as it forms, layer by layer
  budgie look last "…" --attribution that --token rabbit --against cat
                                                     which heads made it say the one, not the other
  budgie look last "…" --head-off L1.H2              what the model guesses without that head
  budgie look last --roles                           which head does what, with evidence
  budgie look last --roles --born                    at which checkpoint it came to do it
  budgie look last --roles --head-off L1.H2          what the model can still do without that head
  budgie look last "轩辕有一只虎皮鹦鹉"              a translation, and its word alignment (or --out)
  budgie look last "…" --prefix "Xuanyuan has a" --no-source
                                                     what it would write without its source
  budgie look lstm "…" --unit L0.U17 --out unit.png  a recurrent model: its gates, one unit
  budgie look ngram "…" --step green                 an n-gram: how it backed off for one word
  budgie look rnn --reach --beside lstm gpt --out reach.png
                                                     how far back a prediction's gradient goes
  budgie look vectors king                           word vectors: the nearest words
  budgie look vectors --analogy "man king woman" --map words.png"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """What to look at."""
    parser.add_argument("model", metavar="RUN", help="a run's folder, or last")
    parser.add_argument(
        "text", metavar="TEXT", nargs="?", help="the text that the model reads; a word of vectors"
    )
    add = parser.add_argument_group("what to show").add_argument
    add("--head", metavar="NAME", help="one head, as L2.H3 (layers and heads count from 0)")
    add("--layer", metavar="N", type=whole_number, help="every head of one layer")
    add("--grid", action="store_true", help="every head of every layer")
    add("--link", nargs=2, metavar=("A", "B"), help="heads by how much word A looks at word B")
    add(
        "--step",
        metavar="QUERY",
        help="one token in numbers: the steps of attention, an n-gram's back-off",
    )
    add(
        "--full",
        action="store_true",
        help="--out FILE.html: every number as float32, a larger file",
    )
    add("--surprise", action="store_true", help="the text, each token coloured by its nats")
    add("--head-off", action="append", metavar="NAME", help="switch a head off (repeatable)")
    add("--roles", action="store_true", help="which head does what, on texts of its own; no TEXT")
    add("--born", action="store_true", help="--roles: at which checkpoint each came to do it")
    add(
        "--how",
        type=one_of(("mean", "resample", "zero")),
        metavar="{mean,resample,zero}",
        help="--roles --head-off: what stands for the head [mean]",
    )
    look_lens.add_flags(add)
    _add_flags_of_kinds(parser)


def _add_flags_of_kinds(parser: argparse.ArgumentParser) -> None:
    """What to look at in models of one kind."""
    add = parser.add_argument_group("of an encoder-decoder").add_argument
    add("--target", metavar="TEXT", help="the translation to look at [the model's own]")
    add("--prefix", metavar="TEXT", help="its beginning only: what would come next?")
    add("--no-source", action="store_true", help="blank what comes from the source")
    add(
        "--kind",
        type=one_of(("cross", "self")),
        metavar="{cross,self}",
        help="attention to the source, or of a side to itself [cross]",
    )
    add(
        "--of",
        type=one_of(("decoder", "encoder")),
        metavar="{decoder,encoder}",
        help="with --kind self: of which side",
    )
    add = parser.add_argument_group("of a recurrent model").add_argument
    add(
        "--unit", metavar="NAME", help="one unit over the text, as L0.U17; --layer: a layer's gates"
    )
    add(
        "--gate",
        metavar="NAME",
        help="all units of one gate: forget, input, output, cell, update …",
    )
    add = parser.add_argument_group("of any model that continues a text").add_argument
    add("--reach", action="store_true", help="how far back the gradient of a prediction reaches")
    add("--beside", nargs="+", metavar="RUN", help="--reach of these too, in the same picture")
    add("--distance", metavar="N", type=whole_number, help="most tokens back [256]")
    add = parser.add_argument_group("of word vectors").add_argument
    add("--analogy", metavar="WORDS", help='"A B C": what is to C as B is to A')
    add("--map", metavar="FILE", help="draw the frequent words (or those of TEXT) in the plane")
    add("--words", metavar="N", type=whole_number, help="how many are listed [10] or drawn [300]")


def run(options: argparse.Namespace) -> None:
    """Trace the text, show what was asked for."""
    chosen = _chosen(options)
    if len(chosen) > 1:
        raise UserError(f"{' and '.join(chosen)} ask for different pictures; give one of them")
    own = options.analogy or options.map or options.reach or options.roles
    if options.text is None and not own:
        raise UserError("TEXT must be given: what the model reads, or a word of word vectors")
    if options.text == "":
        raise UserError("the text is empty: there is nothing to look at")
    if options.out and Path(options.out).exists():
        raise UserError(f"{options.out} exists already; choose another --out or remove it")

    if options.full and not str(options.out or "").lower().endswith(".html"):
        raise UserError("--full is about the numbers in an HTML file: give --out FILE.html too")
    if options.target is not None and options.prefix is not None:
        raise UserError("--target is a whole translation, --prefix a beginning: give one of them")

    from budgerigar import api
    from budgerigar.cli import (
        look_gates,
        look_ngram,
        look_pair,
        look_reach,
        look_roles,
        look_vectors,
    )

    if not options.roles:
        look_roles.refuse(options)
    lens = look_lens.asked(options)
    model = api.load(options.model, device=options.device or "auto", threads=options.threads)
    if lens:
        look_lens.refuse(model)
    if options.roles:
        look_roles.show(model, options)
        return
    if options.reach:
        look_reach.show(model, options)
        return
    look_reach.refuse(options)
    if model.role == "vectors":
        look_vectors.show(model, options)
        return
    look_vectors.refuse(model, options)
    for room in (look_gates, look_ngram):
        if not lens and room.fits(model, options):
            room.show(model, options)
            return
    options.head_off = list(dict.fromkeys(options.head_off or ()))
    trace = (look_pair.make_trace if model.translates else _make_trace)(model, options)
    if lens:
        look_lens.show(model, options, trace, _word)
        return
    _show(trace, options, pair=model.translates)


def _make_trace(model: Any, options: argparse.Namespace) -> Any:
    """The trace of a text; what switched-off heads change of the guesses is printed."""
    from budgerigar import api

    for name in ("target", "prefix", "no_source", "kind", "of"):
        if getattr(options, name) not in (None, False):
            api.need_translator(model, f"be looked at with --{name.replace('_', '-')}")
    if options.head_off:
        _show_edit(model, options)
        model = model.edited(off=tuple(options.head_off))
    return model.trace(options.text)


def _show(trace: Any, options: argparse.Namespace, pair: bool) -> None:
    """What was asked for, or the heads."""
    from budgerigar import api
    from budgerigar.cli import look_pair

    if options.surprise:
        from budgerigar.inspection.surprise import surprise_text

        print(surprise_text(trace.surprise()))
    asked = options.link or options.step or options.out
    said = options.surprise or options.head_off or options.prefix is not None
    if said and not asked and not _chosen(options):
        return
    of, kind = look_pair.site_of(trace, options) if pair else (None, None)
    if options.link:
        links = trace.links(*(_word(word, trace) for word in options.link), of=of, kind=kind)
        print(links)
        options.head = options.head or links[0].name
    if options.step:
        head = options.head or api.busiest_head(trace, of, kind)
        print(trace.attention(head, of, kind).step_text(_word(options.step, trace)))
    if options.out:
        print(look_pair.draw_alignment(trace, options) or _draw(trace, options, of, kind))
    elif not asked:
        (look_pair.show if pair else _show_heads)(trace, options)


def _chosen(options: argparse.Namespace) -> list[str]:
    """Which heads were asked for, as flags."""
    flags = [f"--{name}" for name in ("head", "grid") if getattr(options, name)]
    return flags + (["--layer"] if options.layer is not None else [])


def _word(text: str, trace: Any) -> str | int:
    """A number that is no word of the text is a position."""
    is_number = text.removeprefix("-").isdigit()
    return int(text) if is_number and text not in trace.text.split() else text


def _show_heads(trace: Any, options: argparse.Namespace) -> None:
    """Heat maps in the terminal."""
    from budgerigar import api

    if options.grid or options.layer is not None:
        names = [head.name for head in trace.heads(options.layer)]
    elif options.head:
        names = [options.head]
    else:
        names = [api.busiest_head(trace)]
        print(api.heads_in_words(trace))
        print()
    for name in names:
        print(trace.attention(name))
        print()
    if len(names) == 1 and not options.quiet:
        more = "other heads: --head NAME, --layer N, --grid; a picture: --out heads.png"
        print(more, file=sys.stderr)


def _draw(trace: Any, options: argparse.Namespace, of: str | None, kind: str | None) -> Path:
    """Write the picture and return its path."""
    out = Path(options.out)
    if out.suffix.lower() == ".html":
        if not (options.head or options.kind or options.of):
            of = kind = None  # the page from its start
        return Path(trace.html(out, of, kind, head=options.head, full=options.full))
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UserError(f"{out}: a picture's name ends in .png, .svg, .pdf or .html")
    return Path(trace.heatmap(out, head=options.head, layer=options.layer, of=of, kind=kind))


def _show_edit(model: Any, options: argparse.Namespace) -> None:
    """The guess for the next token with all heads and without some."""
    from budgerigar import api
    from budgerigar.cli.output import table

    off = tuple(options.head_off)
    with_all = api.guesses(model, options.text)
    without = api.guesses(model.edited(off=off), options.text)
    rows: list[tuple[str, ...]] = [("all heads", "", f"without {', '.join(off)}", "")]
    for (word, p), (other, q) in zip(with_all, without, strict=True):
        rows.append((word, f"{p:.3f}", other, f"{q:.3f}"))
    print("what the model guesses next")
    print(table(rows))
    print()
