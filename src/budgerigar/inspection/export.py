"""The page as one offline HTML file, or as a frame of a notebook.

Both show what `budgie explore` shows, from records (`records.py`) instead of a live model: the same
modules draw it. A file has everything in it and forbids itself every request. `site_folder.py` writes
a folder for a web server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar.errors import UserError
from budgerigar.formats.atomic import write_text
from budgerigar.inspection.besides import without_its_source
from budgerigar.inspection.inlining import whole_page
from budgerigar.inspection.packing import packed_page
from budgerigar.inspection.records import DEFAULTS, SMALL, Recorded, model_id, record
from budgerigar.inspection.views import Look, can
from budgerigar.inspection.views.look import most_tokens

if TYPE_CHECKING:
    from budgerigar.inspection.heads import Head
    from budgerigar.inspection.traces import Trace

State = Mapping[str, Any]
"""How a page begins, as `state.js` has it: {"view": "head", "selection": {"layer": 2, "head": 3}}."""


def page_of(
    looks: Look | Sequence[Look],
    *,
    full: bool = False,
    steps: bool = True,
    state: State | None = None,
    packed: bool = False,
) -> str:
    """The HTML text of one file about one or several looks, the first one shown at first.

    full: every number as float32, and every extra. steps: without them, a small page of the text and
    the attention over it. packed: see `packing.py`.
    """
    given = [looks] if isinstance(looks, Look) else list(looks)
    limit = (SMALL - len(whole_page("", {}))) / len(given)
    found = [record(look, full, steps=steps, limit=limit) for look in given]
    beside = [other for look in given for other in without_its_source(look)] if steps else []
    return _page(given, found, state, beside, packed)


def head_page(head: Head) -> str:
    """A small page about one head alone, packed."""
    look = look_of(head.trace)
    return _page([look], [record(look, heads=[head])], head_state(head), packed=True)


def write_page(
    trace: Trace, path: str | Path, *, full: bool = False, state: State | None = None
) -> Path:
    """Write the page of a trace as one file."""
    target = Path(path)
    write_text(target, page_of(look_of(trace), full=full, state=state))
    return target


def frame(html: str, height: int = 760) -> str:
    """A page in an iframe, for a notebook or a report: its scripts and styles stay its own."""
    inner = escape(html, quote=True)
    style = f"width:100%;height:{height}px;border:0"
    return (
        f'<iframe srcdoc="{inner}" style="{style}" title="Budgerigar: look inside">'
        f"{_UNTRUSTED}</iframe>"
    )


_UNTRUSTED = (
    "Budgerigar: look inside. A notebook that is not trusted shows no frames: trust it, or run the "
    "cell again."
)
"""what is left of a frame where a notebook takes it out"""


def look_of(trace: Trace) -> Look:
    """The look that a trace is of, for the page's views.

    Raises:
        UserError: the trace does not know its tokenizer (it is an untrained copy's).
    """
    model, question = trace.asked or (_Stand.of(trace), _question(trace))
    look = Look(model, question)
    look.__dict__["trace"] = trace  # made already
    return look


def _question(trace: Trace) -> dict[str, Any]:
    """What would make this trace again."""
    from budgerigar.inspection.pair_traces import PairTrace

    if not isinstance(trace, PairTrace):
        return {"ids": list(trace.ids)}
    written = trace.targets[:-1] if trace.prefix else trace.targets
    target = None if trace.own else written
    return {"source": trace.source, "target": target, **({"prefix": True} if trace.prefix else {})}


@dataclass(frozen=True)
class _Stand:
    """Stands for the model of a trace that was made without one."""

    network: Any
    tokenizer: Any
    source_tokenizer: Any
    name: str
    folder: None = None

    @classmethod
    def of(cls, trace: Trace) -> _Stand:
        if trace.tokenizer is None:
            raise UserError(
                "this trace does not know its tokenizer, so no page can name its tokens"
            )
        name = trace.name or "this model"
        return cls(trace.network, trace.tokenizer, trace.source_tokenizer, name)


def head_state(head: Head) -> dict[str, Any]:
    """A page that begins with this head."""
    site = head.site
    place = {"of": site.of, "kind": site.kind, "layer": head.layer, "head": head.head}
    return {"view": "head", "selection": place}


def _page(
    looks: Sequence[Look],
    found: Sequence[Recorded],
    state: Any,
    beside: Sequence[Recorded] = (),
    packed: bool = False,
) -> str:
    """beside: records of questions that no reader chooses, but views ask."""
    blocks: list[dict[str, Any]] = [{**block_of(one), "records": one.records} for one in found]
    blocks += [{**block_of(one), "records": one.records, "beside": True} for one in beside]
    recorded = recorded_block([model_of(look) for look in looks], blocks, state)
    written = packed_page if packed else whole_page
    return written(looks[0].trace.about or "Budgerigar: look inside", {"recorded": recorded})


def block_of(found: Recorded) -> dict[str, Any]:
    """What a page says of a look: which question it is, and the views that it answers."""
    return {"question": found.question, "views": found.views}


def recorded_block(
    models: Sequence[Mapping[str, Any]], blocks: Sequence[Any], state: State | None
) -> dict[str, Any]:
    """What `recorded.js` reads. models: see `model_of`; one that is named twice stands there once."""
    by_id = {str(model["id"]): model for model in models}
    value = {"models": list(by_id.values()), "defaults": DEFAULTS, "looks": list(blocks)}
    return value if state is None else {**value, "state": dict(state)}


def model_of(look: Look) -> dict[str, Any]:
    """As `GET /api/models` has it; its name without the folders above it."""
    return {
        "id": model_id(look),
        "name": look.name,
        "kind": look.kind,
        "views": can(look.model),
        "context_length": look.network.context_length,
        "most_tokens": most_tokens(look.network),
    }
