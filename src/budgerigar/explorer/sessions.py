"""The models that a page may ask about, and the passes over texts that are kept for the next question.

The questions about a model are answered in turn, never two at once (see `jobs`). What a question
resolves to (a `Look`: a trace and what was recomputed from it) is kept under the question's canonical
form, the longest unused given up first, within a number of bytes; a view of the same sentence then
costs only what it adds.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from budgerigar.errors import UserError
from budgerigar.explorer.examples import example, example_pair
from budgerigar.explorer.jobs import Desk, Job
from budgerigar.explorer.lessons import Whys
from budgerigar.explorer.memory import held_bytes
from budgerigar.inspection.views import Look, ask, can, look_at, takes_long
from budgerigar.inspection.views.look import kind_of, most_tokens
from budgerigar.said import said

if TYPE_CHECKING:
    from budgerigar.api import Model

KEPT_BYTES = 2**29
"""of looks at the same time, all models together; the one just asked for stays even if larger"""
KEPT_CHECKPOINT_BYTES = 2**30
_LOOK_BYTES = 16 * 1024
"""of a look beside its numbers and its text, about (measured: 10 KB for a short one)"""
MOST_WAITING = 64
"""questions of one model that may wait; more are refused"""

T = TypeVar("T")


class Kept(Generic[T]):
    """Values by key, the longest unused given up first when all together exceed `most_bytes`.

    The newest stays even if it alone is larger. Safe to use from several threads.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._values: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> T | None:
        """The value of `key`, which counts as used now; None: it is not kept."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: Hashable, value: T, n_bytes: int) -> None:
        """Keep `value`, or tell anew how large it is."""
        with self._lock:
            self._values[key] = (value, n_bytes)
            self._values.move_to_end(key)
            while len(self._values) > 1 and self.nbytes > self.most_bytes:
                self._values.popitem(last=False)

    @property
    def nbytes(self) -> int:
        """Of all values."""
        return sum(size for _, size in self._values.values())

    def __len__(self) -> int:
        return len(self._values)


class Shown:
    """A model under the name that questions have for it, with the desk where they are answered."""

    def __init__(self, name: str, model: Model) -> None:
        self.name, self.model, self.kind = name, model, kind_of(model.network)
        self.desk = Desk(name)
        self.examples = {"example": example(model), "examples": list(example_pair(model))}


class Sessions:
    """The models of one server, by name, and what is kept of what was asked about them.

    Raises:
        UserError: a model reads no text (word vectors).
    """

    def __init__(self, models: Mapping[str, Model], kept_bytes: int = KEPT_BYTES) -> None:
        self.looks: Kept[Look] = Kept(kept_bytes)
        self.checkpoints: Kept[Model] = Kept(KEPT_CHECKPOINT_BYTES)
        self._shown = {name: Shown(name, model) for name, model in models.items()}
        self._long: dict[Hashable, Job] = {}
        self._lock = threading.RLock()
        self._whys = Whys()

    @property
    def names(self) -> list[str]:
        """Of the models, as questions have them."""
        return list(self._shown)

    def models(self) -> list[dict[str, Any]]:
        """What can be asked about: id, name (of its folder), kind, the names of the views that fit,
        context_length (None: no limit of its own), most_tokens of a question, the checkpoints that are
        there now, the earliest first; example: a text of words that it knows, examples: two of them.
        """
        return [
            {
                "id": shown.name,
                "name": shown.model.name,
                "kind": shown.kind,
                "views": can(shown.model),
                "context_length": shown.model.network.context_length,
                "most_tokens": most_tokens(shown.model.network),
                "checkpoints": shown.model.checkpoints,
                **shown.examples,
            }
            for shown in self._shown.values()
        ]

    def job(self, question: Mapping[str, Any], name: str, params: Mapping[str, Any]) -> Job:
        """The view `name` with `params` on its way: its progress can be seen, it can be stopped. Who
        asks a long thing that is on its way already gets the same job. "why" is an experiment and no
        view.

        Raises:
            UserError: there is no such model; whatever else is wrong comes out of the answer.
            BusyError: MOST_WAITING questions wait for it.
        """
        if name == "why":
            return self._whys.job(params)
        shown = self._named(question)

        def work() -> bytes:
            return self._answer(shown, question, name, params)

        if not takes_long(name, params):
            return shown.desk.quick(work, MOST_WAITING)
        key = (canonical(question), name, canonical(params))
        with self._lock:
            known = self._long.get(key)
            if known is None or known.stopped or known.answer.done():
                self._long[key] = known = shown.desk.long(work)
                known.answer.add_done_callback(lambda _: self._forget(key))
        return known

    def _forget(self, key: Hashable) -> None:
        """A long job is done: what it found is kept where it is computed."""
        with self._lock:
            if key in self._long and self._long[key].answer.done():
                del self._long[key]

    def _answer(
        self, shown: Shown, question: Mapping[str, Any], name: str, params: Mapping[str, Any]
    ) -> bytes:
        """In a thread of the model's, in its turn."""
        key = canonical(question)
        look = self.looks.get(key) or self._look(shown, question)
        answer = ask(look, name, params)
        held = held_bytes(look, _held_anyway(shown.model, look.original))
        self.looks.put(key, look, held + 2 * sys.getsizeof(key) + _LOOK_BYTES)
        return answer

    def _look(self, shown: Shown, question: Mapping[str, Any]) -> Look:
        """A question resolved; a view that compares asks for another one the same way."""
        look = look_at(shown.model, question, lambda step: self._at(shown, step))
        look.resolve = self._other
        return look

    def _other(self, question: Mapping[str, Any]) -> Look:
        """The look of a second question, of whichever model; read in the first one's thread."""
        return self._look(self._named(question), question)

    def _named(self, question: Mapping[str, Any]) -> Shown:
        """The model that a question names."""
        asked = question.get("model")
        if not isinstance(asked, str) or asked not in self._shown:
            raise UserError(
                said(
                    "there is no model {asked!r} here; there are {names}",
                    asked=asked,
                    names=", ".join(self.names),
                )
            )
        return self._shown[asked]

    def _at(self, shown: Shown, step: str) -> Model:
        """The model at a checkpoint, loaded when it is first asked for."""
        key = (shown.name, step)
        model = self.checkpoints.get(key)
        if model is None:
            model = shown.model.at_checkpoint(step)
            self.checkpoints.put(key, model, held_bytes(model.network))
        return model

    def close(self) -> None:
        """Answer no more: who waits is told so, what is being computed ends at its next step."""
        self._whys.close()
        for shown in self._shown.values():
            shown.desk.close()

    def rests(self, seconds: float) -> bool:
        """Whether, within that time, nothing is being computed any more."""
        end = time.monotonic() + seconds
        desks = [shown.desk for shown in self._shown.values()] + [self._whys.desk]
        while busy := any(desk.computes for desk in desks):
            if time.monotonic() > end:
                break
            time.sleep(0.01)
        return not busy


def canonical(question: Mapping[str, Any]) -> str:
    """One text for all ways to write the same question: names sorted, parts that are null left out."""
    given = {key: part for key, part in question.items() if part is not None}
    return json.dumps(given, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _held_anyway(*models: Model) -> list[Any]:
    """What belongs to models and not to a look: networks with all their modules, vocabularies."""
    found: list[Any] = []
    for model in models:
        network = model.network
        found += [model, model.tokenizer, model.source_tokenizer, network]
        found += network.modules() if hasattr(network, "modules") else ()
    return found
