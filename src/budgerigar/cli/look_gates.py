"""`budgie look` on a recurrent model: the gates of a layer, one gate, one unit."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError

OF_HEADS = ("head", "grid", "link", "step", "head_off")
OF_PAIRS = ("target", "prefix", "no_source", "kind", "of")


def fits(model: Any, options: argparse.Namespace) -> bool:
    """Whether gates are to be shown. `UserError` where they are asked of a model without."""
    from budgerigar.inspection.gates import has_gates

    asked = [f"--{name}" for name in ("unit", "gate") if getattr(options, name) is not None]
    if len(asked) > 1:
        raise UserError("--unit and --gate ask for different pictures; give one of them")
    if not has_gates(model.network):
        if asked:
            raise UserError(
                f"{model.name} is no recurrent language model, so it has no units with gates to show "
                f"with {asked[0]}; `budgie train FILE --recipe lstm` (or gru, rnn) makes one"
            )
        return False
    if options.surprise and (asked or options.out):
        raise UserError(f"--surprise colours the text; leave it or {(*asked, '--out')[0]} out")
    _refuse(model, options)
    return not options.surprise


def _refuse(model: Any, options: argparse.Namespace) -> None:
    heads = [name for name in OF_HEADS if getattr(options, name) not in (None, False, [])]
    pairs = [name for name in OF_PAIRS if getattr(options, name) not in (None, False)]
    if pairs:
        from budgerigar import api

        api.need_translator(model, f"be looked at with --{pairs[0].replace('_', '-')}")
    if heads:
        raise UserError(
            f"{model.name} is recurrent: it has no heads, so --{heads[0].replace('_', '-')} cannot be "
            "used. It has gates: --layer N, --gate NAME, --unit L0.U17"
        )


def show(model: Any, options: argparse.Namespace) -> None:
    """The layer, the gate or the unit that was asked for: in the terminal, or with --out a picture."""
    from budgerigar.inspection import gates_text
    from budgerigar.inspection.gates import parse_unit, recurrent_layers

    layers = recurrent_layers(model.network)
    layer, unit = options.layer, None
    if options.unit is not None:
        layer, unit = parse_unit(options.unit, len(layers), layers[0].d_hidden)
        if options.layer not in (None, layer):
            raise UserError(f"--unit {options.unit} is not of --layer {options.layer}")
    gates = model.trace(options.text).gates(len(layers) - 1 if layer is None else layer)
    part = None if options.gate is None else gates.part(options.gate)
    if options.out:
        print(_draw(gates, Path(options.out), part, unit, options.full))
    elif unit is not None:
        print(gates_text.unit_text(gates, unit))
    elif part is not None:
        print(gates_text.gate_map(gates, part))
    else:
        print(gates_text.summary(gates))
        if not options.quiet:
            more = "one gate: --gate forget; one unit: --unit L0.U17; a picture: --out gates.png"
            print(
                f"\n{more}{'; another layer: --layer N' if len(layers) > 1 else ''}",
                file=sys.stderr,
            )


def _draw(gates: Any, out: Path, part: str | None, unit: int | None, full: bool) -> Path:
    if out.suffix.lower() == ".html":
        return Path(gates.html(out, part, unit, full=full))
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UserError(f"{out}: a picture's name ends in .png, .svg, .pdf or .html")
    return Path(gates.heatmap(out, part, unit))
