"""`budgie look RUN TEXT --lens` and `--attribution`: what each layer would say, what made a logit."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from budgerigar.errors import UserError

NOT_HERE = ("out", "head", "layer", "grid", "link", "step", "surprise", "kind", "of", "gate", "unit",
            "analogy", "map", "words", "reach", "roles")  # fmt: skip


def add_flags(add: Callable[..., Any]) -> None:
    """What may be asked."""
    add("--lens", action="store_true", help="what the model would say if it stopped at each layer")
    add(
        "--attribution",
        metavar="QUERY",
        help="which part of the model raised the logit of its guess at one token",
    )
    add("--token", metavar="WORD", help="--attribution: of this word's logit [the likeliest]")
    add("--against", metavar="WORD", help="--attribution: minus that word's")


def asked(options: argparse.Namespace) -> bool:
    """Whether one of the two is asked for. `UserError` for other pictures beside, or a token alone."""
    views = [
        name for name in ("lens", "attribution") if getattr(options, name) not in (None, False)
    ]
    for name in ("token", "against"):
        if getattr(options, name) is not None and options.attribution is None:
            raise UserError(f"--{name} belongs to --attribution: whose logit is taken apart")
    others = [name for name in NOT_HERE if getattr(options, name) not in (None, False, [])]
    if views and others:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in others)
        raise UserError(f"--{views[0]} asks for another picture than {flags}; give one of them")
    return bool(views)


def refuse(model: Any) -> None:
    """`UserError` for a model without a residual stream, or without logits over its tokens."""
    from budgerigar.inspection.views.fits import reads_out

    if words := reads_out(model.network):
        raise UserError(words)


def show(
    model: Any, options: argparse.Namespace, trace: Any, word: Callable[[str, Any], str | int]
) -> None:
    """The tables; `word` makes a position or a word of what was typed."""
    from budgerigar.inspection import lens_text
    from budgerigar.inspection.stream import row_labels, row_spelling, rows_are_about_next

    name = lens_text.naming(model.tokenizer)
    about_next = rows_are_about_next(trace)
    if options.lens:
        from budgerigar.inspection.lens import logit_lens

        print(lens_text.lens_text(logit_lens(trace, 1), name, about_next=about_next))
    if options.attribution is None:
        return
    if options.lens:
        print()
    from budgerigar.inspection.attribution import attribute_logit
    from budgerigar.inspection.paths import frozen_scales

    # a word of several tokens: what comes after it, so its last
    place = row_spelling(trace).find(word(options.attribution, trace))[-1]
    tokens = [None if t is None else _token(model, t) for t in (options.token, options.against)]
    found = attribute_logit(trace, place, tokens[0], tokens[1])
    label = row_labels(trace)[place]
    frozen = frozen_scales(trace.network.config)
    print(lens_text.attribution_text(found, label, name, frozen, about_next=about_next))


def _token(model: Any, text: str) -> int:
    from budgerigar.inspection.stream import one_token

    return one_token(model.tokenizer, text)
