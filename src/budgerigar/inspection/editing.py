"""Switching heads off and replacing values, to see what they were for. The original never changes.

Three ways to switch a head off (its output, before the output projection): "zero"; "mean", its mean
over the positions of a reference text; "resample", its output at the same position of the
reference (of several texts: of one after the other). Positions are those of the head's queries: of the
source for an encoder's heads, of the translation, the row that predicts <end> among them, for both
kinds of a translator's decoder. Zero takes the head where it never was in training; mean and resample
leave what does not depend on the text (Wang et al. 2022 and Chan et al. 2022 use them for that reason).

Shapes: B batch, T positions, H heads, E d_head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.inspection.names import parse_heads
from budgerigar.inspection.passes import pass_inputs, run_together
from budgerigar.inspection.places import choose, places
from budgerigar.layers.additive_attention import AdditiveAttention
from budgerigar.layers.taps import Replacement, Taps
from budgerigar.models.base import check_ids
from budgerigar.said import said

How = Literal["zero", "mean", "resample"]
_HOWS = get_args(How)
_OWN_TEXT = 256  # tokens of a reference text that the model writes itself


@dataclass(frozen=True)
class Reference:
    """Texts to take from: passes, inputs of `forward` each (1,T); words: what they are."""

    passes: list[dict[str, Tensor]]
    words: str


def ways_of(kind: str) -> tuple[How, ...]:
    """How heads of a kind of model (`Look.kind`) can be switched off, the most telling way first."""
    # additive attention runs word by word: it has no same position of another text
    return ("mean", "zero") if kind == "rnn-encoder-decoder" else ("mean", "zero", "resample")


class Edit:
    """What is changed: made once by `plan_edit`, turned into taps for each pass.

    heads: name of the head outputs' tap -> numbers of the heads switched off
    reference: name of the tap -> head outputs (H,R,E) over reference texts of R positions; empty
    for "zero". taken: these texts
    """

    def __init__(
        self,
        heads: dict[str, list[int]],
        how: How,
        reference: dict[str, Tensor],
        replace: Mapping[str, Replacement],
        taken: Reference | None = None,
    ) -> None:
        self.heads, self.how, self.reference, self.replace = heads, how, reference, dict(replace)
        self.taken = taken

    @property
    def positions(self) -> int:
        """How many positions the reference has; 0 for "zero"."""
        return next((outputs.shape[1] for outputs in self.reference.values()), 0)

    def taps(self, record: Iterable[str] = (), start: Tensor | int = 0) -> Taps:
        """Taps for one pass whose first token stands at position `start` (or one per row, (B,))."""
        changes: dict[str, Replacement] = {
            name: self._change(name, numbers, start) for name, numbers in self.heads.items()
        }
        return Taps(record, {**changes, **self.replace})

    def _change(self, name: str, numbers: list[int], start: Tensor | int) -> Replacement:
        def change(output: Tensor) -> Tensor:
            """(B,H,T,E) with some heads' outputs exchanged."""
            changed = output.clone()
            changed[:, numbers] = self._instead(name, numbers, output, start)
            return changed

        return change

    def _instead(
        self, name: str, numbers: list[int], output: Tensor, start: Tensor | int
    ) -> Tensor:
        """What stands for the outputs of the heads `numbers`: broadcastable to (B,h,T,E)."""
        if self.how == "zero":
            return output.new_zeros(())
        reference = self.reference[name][numbers].to(output)  # (h,R,E)
        if self.how == "mean":
            return reference.mean(dim=1, keepdim=True)
        first = torch.as_tensor(start, device=output.device).reshape(-1, 1)  # (B|1,1)
        places = (first + torch.arange(output.shape[2], device=output.device)) % reference.shape[1]
        return reference[:, places].transpose(0, 1)  # (B|1,h,T,E)


def plan_edit(
    network: Any,
    off: str | Sequence[str] = (),
    how: How = "zero",
    *,
    of: str | None = None,
    kind: str | None = None,
    replace: Mapping[str, Replacement] | None = None,
    reference: Sequence[int] | Reference | None = None,
    start_id: int | None = None,
    seed: int = 0,
) -> Edit:
    """Check what is to be changed and read the reference text once.

    off: heads ("L2.H3") or whole layers ("L2"); replace: name or pattern of a tap -> function of its
    value; reference: the texts that "mean" and "resample" take from, or the ids of one. Without any a
    decoder writes it itself (after `start_id`, drawn with `seed`): what it does on such text is what it
    usually does; for other models see `references.usual`. `UserError` for heads that are not there.
    """
    if how not in _HOWS:
        raise UserError(f"how={how!r} is no way to switch a head off; use {', '.join(_HOWS)}")
    names = [off] if isinstance(off, str) else list(off)
    heads: dict[str, list[int]] = {}
    if names:
        place = choose(places(network), network, of, kind, "heads that could be switched off")
        stack, attention = place.stem
        for name in names:
            layer, numbers = parse_heads(name, len(place.modules), place.modules[0].n_heads)
            off_there = heads.setdefault(f"{stack}.{layer}.{attention}.head_output", [])
            off_there += [n for n in numbers if n not in off_there]
    for pattern, function in (replace or {}).items():
        if not callable(function):
            raise UserError(f"replace[{pattern!r}] must be a function of the value")
    if not heads or how == "zero":
        return Edit(heads, how, {}, replace or {})
    if how == "resample" and isinstance(place.modules[0], AdditiveAttention):
        raise UserError(
            said(
                "additive attention runs word by word inside the decoder's loop, where there is no "
                "same position of another text; use how='mean' or 'zero'"
            )
        )
    taken = _taken(network, reference, start_id, seed)
    return Edit(heads, how, _outputs(network, list(heads), taken), replace or {}, taken)


def edited_taps(
    network: Any,
    off: str | Sequence[str] = (),
    how: How = "zero",
    *,
    record: Iterable[str] = (),
    **settings: Any,
) -> Taps:
    """Taps for one `forward` with heads switched off or values replaced; settings as `plan_edit`."""
    return plan_edit(network, off, how, **settings).taps(record)


def edited_network(
    network: Any, off: str | Sequence[str] = (), how: How = "zero", **settings: Any
) -> EditedNetwork:
    """A view of `network` with the edit in every pass; settings as `plan_edit`."""
    return EditedNetwork(network, plan_edit(network, off, how, **settings))


class EditedNetwork:
    """A view of a network with an edit in every pass; the same methods, the same weights.

    `taps` given by the caller are recorded into and their replacements run after the edit's.
    """

    def __init__(self, network: Any, edit: Edit) -> None:
        self.network, self.edit = network, edit

    def __getattr__(self, name: str) -> Any:
        # config, vocab_size, context_length, device, roll, parameters …: as the original
        if name.startswith("__") or name == "network":  # copying asks before there is a network
            raise AttributeError(name)
        return getattr(self.network, name)

    def __call__(self, *args: Any, **named: Any) -> Tensor:
        return self.forward(*args, **named)

    def forward(self, *args: Any, taps: Taps | None = None, **named: Any) -> Tensor:
        """As the network's `forward`, with the edit."""
        return self._with(taps, 0, lambda t: self.network.forward(*args, taps=t, **named))

    def start(self, *args: Any, taps: Taps | None = None, **named: Any) -> Any:
        """As the network's `start`, with the edit (an encoder runs here)."""
        return self._with(taps, 0, lambda t: self.network.start(*args, taps=t, **named))

    def step(self, tokens: Tensor, state: Any, *args: Any, taps: Taps | None = None,
             **named: Any) -> Any:  # fmt: skip
        """As the network's `step`, with the edit."""
        first = state.lengths.clone()
        return self._with(
            taps, first, lambda t: self.network.step(tokens, state, *args, taps=t, **named)
        )

    def _with(self, taps: Taps | None, start: Tensor | int, call: Callable[[Taps], Any]) -> Any:
        mine = self.edit.taps(() if taps is None else taps.patterns, start)
        if taps is not None:
            for pattern, function in taps.replacements.items():
                mine.replacements[pattern] = _after(mine.replacements.get(pattern), function)
        result = call(mine)
        if taps is not None:
            taps.values.update(mine.values)
            taps.seen |= mine.seen
            taps.used |= mine.used & set(taps.replacements)
        missing = [p for p in self.edit.replace if p not in mine.used]
        if missing and mine.seen & {"logits"}:
            raise UserError(
                f"nothing in this model is named {missing[0]!r}, so nothing was replaced; names "
                "look like decoder.0.residual_after (trace.values() lists them)"
            )
        return result


def _after(first: Replacement | None, then: Replacement) -> Replacement:
    return then if first is None else lambda value: then(first(value))


def _own_text(network: Any, start_id: int | None, seed: int) -> list[int]:
    """Ids that the model writes itself, at temperature 1, as many as fit (256 at most)."""
    from budgerigar.generation.generate import generate_ids
    from budgerigar.generation.options import SamplingOptions

    if getattr(network, "decoder", None) is None or getattr(network, "encoder", None) is not None:
        raise UserError(
            said(
                "how='mean' and 'resample' take from a reference text, which only a decoder-only model "
                "can write itself; give reference= or use how='zero'"
            )
        )
    ids: list[int] = []
    most = min(network.context_length or _OWN_TEXT, _OWN_TEXT)
    while len(ids) < most:  # one document after the other, as in training
        ids.append(0 if start_id is None else start_id)
        options = SamplingOptions(max_new_tokens=most - len(ids), temperature=1.0, seed=seed)
        ends = [] if start_id is None else [start_id]
        written = generate_ids(network, [ids[-1:]], options, end_ids=ends, samples=[len(ids)])
        ids += [event.token for event in written if event.finish != "end"]
    return ids


def _taken(
    network: Any, reference: Sequence[int] | Reference | None, start_id: int | None, seed: int
) -> Reference:
    """The reference as passes."""
    if isinstance(reference, Reference):
        return reference
    words = said("the given text")
    if reference is None:
        reference = _own_text(network, start_id, seed)
        words = said("a text that the model wrote itself")
    if not reference:
        raise UserError(
            said("the reference text is empty; mean and resample need at least one token")
        )
    check_ids(reference, network.vocab_size, said("the reference text"))
    if getattr(network, "encoder", None) is not None and network.decoder is not None:
        raise UserError(
            said(
                "an encoder-decoder reads a source and a translation: its reference is made by "
                "inspection.references, not of the ids of one text"
            )
        )
    ids = list(reference)[: network.context_length]
    return Reference([pass_inputs(network, ids, start_id)], words)


def _outputs(network: Any, names: list[str], taken: Reference) -> dict[str, Tensor]:
    """Head outputs (H,R,E) over all positions of the reference's texts, one after the other."""
    ran = [values for _, values in run_together(network, taken.passes, names)]
    return {name: torch.cat([values[name][0] for values in ran], dim=1) for name in names}
