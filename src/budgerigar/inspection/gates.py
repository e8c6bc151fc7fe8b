"""The gates of a recurrent layer over a text: what it lets in, what it keeps, what it shows.

LSTM (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000), cell c, hidden h:
    c = forget * c_before + input * candidate          h = output * tanh(c)
GRU (Cho et al. 2014, equation 7):
    h = update * h_before + (1 - update) * candidate   (an open update gate keeps)
Elman (1990) has no gate: h = tanh(W x + U h_before) is written anew at every token.

Shown are the values that the model used. They are computed again in float64 from the weights, the
layer's input and its own states before each token; `difference` says how far apart both are.

Shapes: T tokens, H units of the layer. Row t is the moment of reading token t.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.inspection.passes import array
from budgerigar.layers.recurrent import NAMES, STEPS, Carried, Recurrence

if TYPE_CHECKING:
    from budgerigar.inspection.labels import Spelling
    from budgerigar.inspection.traces import Trace

CELL_NAMES = {"lstm": "LSTM", "gru": "GRU", "elman": "Elman network"}
KEEPS = {"lstm": "forget_gate", "gru": "update_gate"}
"""The gate that says how much of a unit's memory stays."""
NEVER = 1e9  # tokens; the memory of a unit whose gate is 1 throughout is no longer than that


@dataclass(frozen=True)
class LayerGates:
    """One layer over a text.

    values: the parts that the cell names in `layers.recurrent.NAMES`, (T,H) float32 each.
    hidden_before, cell_before (LSTM): its state before each token, (T,H).
    difference: max abs(computed again - the model's own) / max abs(the model's own), the largest
    over all parts.
    """

    layer: int
    n_layers: int
    kind: str
    values: dict[str, np.ndarray]
    hidden_before: np.ndarray
    cell_before: np.ndarray | None
    difference: float
    spelling: Spelling
    about: str = ""
    trace: Trace | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """`L0`."""
        return f"L{self.layer}"

    @property
    def labels(self) -> list[str]:
        """T readable names of the tokens."""
        return list(self.spelling.labels)

    @property
    def n_units(self) -> int:
        """H."""
        return int(self.hidden_before.shape[1])

    @property
    def gates(self) -> list[str]:
        """The parts that are shares between 0 and 1; Elman's network has none."""
        return [part for part in self.values if part.endswith("_gate")]

    @property
    def memory(self) -> np.ndarray:
        """(T,H): what each unit holds after each token: an LSTM's cell, else the hidden state."""
        return self.values["cell" if self.kind == "lstm" else "hidden"]

    @property
    def memory_before(self) -> np.ndarray:
        """(T,H): the same before each token."""
        return self.hidden_before if self.cell_before is None else self.cell_before

    @property
    def shown(self) -> np.ndarray:
        """(T,H) between -1 and 1: the memory; an LSTM's through the tanh that its output applies."""
        return np.tanh(self.memory) if self.kind == "lstm" else self.memory

    @property
    def kept(self) -> np.ndarray | None:
        """(T,H): the share of each unit's memory that stays; None: an Elman network keeps nothing."""
        return self.values[KEEPS[self.kind]] if self.kind in KEEPS else None

    @property
    def written(self) -> np.ndarray:
        """(T,H): what is put in; memory = kept * memory_before + written."""
        if self.kind == "lstm":
            return self.values["input_gate"] * self.values["candidate"]
        if self.kind == "gru":
            return (1 - self.values["update_gate"]) * self.values["candidate"]
        return self.values["hidden"]

    @cached_property
    def kept_share(self) -> np.ndarray:
        """(T,): the length of what stays of the memory, as a share of its length before.

        NaN where there was none (before the first token), and for an Elman network.
        """
        before = np.linalg.norm(self.memory_before, axis=1)
        if self.kept is None:
            return np.full(len(before), np.nan)
        stays = np.linalg.norm(self.kept * self.memory_before, axis=1)
        return np.divide(stays, before, out=np.full(len(before), np.nan), where=before > 0)

    @cached_property
    def memory_lengths(self) -> np.ndarray:
        """(H,): tokens after which 1/e of what a unit holds is left: -1 / ln(mean kept share).

        A unit that keeps all and is emptied now and then gets the mean time between (Tallec &
        Ollivier 2018 read a forget gate as this time). Elman: the same of the correlation of a
        unit's value with its value a token earlier, 0 where that is not positive.
        """
        stays = persistence(self.values["hidden"]) if self.kept is None else self.kept.mean(0)
        stays = np.clip(stays.astype(np.float64), 0.0, 1.0 - 1.0 / NEVER)
        rates = np.log(stays, out=np.full_like(stays, -np.inf), where=stays > 0)
        return np.asarray(-1.0 / rates)

    @cached_property
    def order(self) -> np.ndarray:
        """(H,): the units, the longest memory first."""
        return np.argsort(-self.memory_lengths, kind="stable")

    def part(self, name: str) -> str:
        """The full name of a part: "forget" is "forget_gate". `UserError` when there is none."""
        wanted = name.strip().lower().replace("-", "_").replace(" ", "_")
        for part in self.values:
            if wanted in (part, part.removesuffix("_gate")):
                return part
        raise UserError(
            f"this {CELL_NAMES[self.kind]} has no {name!r}; it has "
            f"{', '.join(part.removesuffix('_gate') for part in self.values)}"
        )

    def unit(self, number: int) -> dict[str, np.ndarray]:
        """Every part of one unit over the text, (T,) each. `UserError` when there is none."""
        if not 0 <= number < self.n_units:
            raise UserError(
                f"there is no unit {number}: layer {self.name} has units U0 to U{self.n_units - 1}"
            )
        return {name: value[:, number] for name, value in self.values.items()}

    def __repr__(self) -> str:
        from budgerigar.inspection.gates_text import summary

        return summary(self)

    def heatmap(self, path: str | Path, part: str | None = None, unit: int | None = None) -> Path:
        """Write PNG, SVG or PDF: every part, one of them, or one unit over the text."""
        from budgerigar.inspection import gates_plots
        from budgerigar.inspection.plots import save

        svg = Path(path).suffix.lower() == ".svg"
        if unit is not None:
            return save(gates_plots.unit_figure(self, unit, svg), path)
        return save(gates_plots.gates_figure(self, None if part is None else [part], svg), path)

    def html(
        self,
        path: str | Path,
        part: str | None = None,
        unit: int | None = None,
        *,
        full: bool = False,
    ) -> Path:
        """Write the page of `budgie explore` as one offline file; it begins with this layer's gates.

        part: what is drawn of every unit [what a gate keeps]; unit: which one is shown in full [the one
        with the longest memory].
        """
        from budgerigar.inspection.export import write_page

        assert self.trace is not None, "gates_of knows the trace"
        settings: dict[str, Any] = {"gates.layer": self.layer}
        if unit is not None:
            self.unit(unit)
            settings["unit"] = unit
        if part is not None:
            settings["part"] = self.part(part)
        state = {"view": "gates", "settings": settings}
        return write_page(self.trace, path, full=full, state=state)


def persistence(values: np.ndarray) -> np.ndarray:
    """(H,): the correlation of values (T,H) with themselves a row earlier; 0 of a constant."""
    if len(values) < 3:
        return np.zeros(values.shape[1])
    earlier, later = (part - part.mean(0) for part in (values[:-1], values[1:]))
    spread = np.sqrt((earlier**2).sum(0) * (later**2).sum(0))
    return np.divide((earlier * later).sum(0), spread, out=np.zeros(len(spread)), where=spread > 0)


def layer_gates(
    cells: Recurrence, x: Tensor, hidden: Tensor, cell: Tensor | None, opens: Tensor | None = None
) -> tuple[dict[str, Tensor], Carried]:
    """The parts of one layer in float64, (T,H) each, and the states before each token.

    x (T,I): what the layer read; hidden, cell (T,H): the states that it had after each token, from
    zeros; opens (T,) boolean: tokens before which the state is zero again. Nothing is carried from a
    computed state to the next: each token starts from the states given.
    """

    def before(states: Tensor) -> Tensor:
        shifted = torch.cat([torch.zeros_like(states[:1]), states[:-1]]).double()
        return shifted if opens is None else shifted.masked_fill(opens[:, None], 0.0)

    past = Carried(before(hidden), None if cell is None else before(cell))
    found: dict[str, Tensor] = {}

    def see(name: str, value: Tensor) -> Tensor:
        found[name] = value
        return value

    into, across = cells.input, cells.hidden
    from_input = x.double() @ into.weight.double().t() + into.bias.double()
    from_hidden = past.hidden @ across.weight.double().t() + across.bias.double()
    STEPS[cells.kind](from_input, from_hidden, past, see)
    return found, past


def gates_of(trace: Trace, layer: int = 0) -> LayerGates:
    """The gates of one layer of a recurrent language model, from a trace of it.

    Raises:
        UserError: another kind of model, or no such layer.
    """
    blocks = recurrent_layers(trace.network)
    if not 0 <= layer < len(blocks):
        raise UserError(f"there is no layer {layer}: the model has layers 0 to {len(blocks) - 1}")
    trace.check_unchanged()
    block: Any = blocks[layer]
    below = f"decoder.{layer - 1}.hidden" if layer else "decoder.embedding"
    names = NAMES[block.kind]
    own = {name: torch.from_numpy(trace.tap(f"decoder.{layer}.{name}")) for name in names}
    positions = trace.inputs.get("positions")
    opens = None if positions is None else positions[0].cpu() == 0
    x = torch.from_numpy(trace.tap(below))
    cells = _on_cpu(block)
    with torch.no_grad():
        again, past = layer_gates(cells, x, own["hidden"], own.get("cell"), opens)
    return LayerGates(
        layer=layer,
        n_layers=len(blocks),
        kind=block.kind,
        values={name: value.numpy() for name, value in own.items()},
        hidden_before=array(past.hidden),
        cell_before=None if past.cell is None else array(past.cell),
        difference=max(_difference(again[name], own[name]) for name in names),
        spelling=trace.spelling,
        about=trace.about,
        trace=trace,
    )


def _on_cpu(block: Recurrence) -> Recurrence:
    """The layer where its taps were brought to; float64 is not everywhere else."""
    import copy

    return block if block.hidden.weight.device.type == "cpu" else copy.deepcopy(block).cpu()


def _difference(again: Tensor, own: Tensor) -> float:
    largest = float(own.abs().max())
    return float((again - own).abs().max()) / largest if largest else float(again.abs().max())


def recurrent_layers(network: Any) -> list[Recurrence]:
    """The layers of a recurrent language model. `UserError` for another kind of model."""
    if not has_gates(network):
        raise UserError(
            f"this model ({type(network).__name__}) is no recurrent language model, so it has no "
            "gates to look at"
        )
    return list(network.decoder.blocks())


def has_gates(network: Any) -> bool:
    """Whether `gates_of` works for it: an Elman network, a GRU or an LSTM that reads one text."""
    config = network.config
    return hasattr(config, "cell") and not hasattr(config, "n_encoder_layers")


def parse_unit(name: str, n_layers: int, n_units: Sequence[int] | int) -> tuple[int, int]:
    """(layer, unit) of "L0.U17". `UserError` for another form or a unit that is not there."""
    found = re.fullmatch(r"L(\d+)\.?U(\d+)", name.strip(), re.IGNORECASE)
    if not found:
        raise UserError(f"{name!r} is no unit; units are named like L0.U17, counted from 0")
    layer, unit = int(found[1]), int(found[2])
    if layer >= n_layers:
        raise UserError(f"there is no layer {layer}: the model has layers L0 to L{n_layers - 1}")
    width = n_units if isinstance(n_units, int) else n_units[layer]
    if unit >= width:
        raise UserError(f"there is no unit {unit}: layer L{layer} has units U0 to U{width - 1}")
    return layer, unit
