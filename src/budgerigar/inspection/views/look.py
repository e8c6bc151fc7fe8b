"""A question that the page asks, resolved: which network, which text, what is switched off.

    {"model": id, "text": str}                      or "ids": [int] where tokens are meant, not text
    {"model": id, "source": str, "target": str|[int]|null}   null: the model's own translation;
                                                    "prefix": true: the target is only a beginning
    and, all optional:
    "checkpoint": name    the same model at that moment of its training
    "off": ["L2.H3", "L1"], "how": "zero"|"mean"|"resample", "of", "kind", "reference": str
    "blank": true         an encoder-decoder whose source is switched off
    "mask": [positions]   tokens that an encoder is to fill in

A question without a text is about the model alone (`about`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

from budgerigar.errors import UserError
from budgerigar.inspection.editing import How
from budgerigar.models.ngram import NgramModel
from budgerigar.said import said
from budgerigar.text.fill_in_tokens import need_mask

if TYPE_CHECKING:
    from budgerigar.inspection.traces import Trace

MOST_TOKENS = 1024
"""of a text that is looked at: beyond it one layer's steps alone take gigabytes"""
KINDS = (
    "decoder",
    "encoder-decoder",
    "encoder",
    "recurrent",
    "rnn-encoder-decoder",
    "ngram",
    "feed-forward",
)
_ASSEMBLIES = {"decoder-only": "decoder", "encoder-only": "encoder"}
_TYPES: dict[str, tuple[Any, str]] = {
    "model": (str, "text"),
    "text": (str, "text"),
    "ids": (list, "a list of token ids"),
    "source": (str, "text"),
    "target": (
        (str, list, type(None)),
        "text, a list of token ids, or null for the model's own translation",
    ),
    "prefix": (bool, "true or false"),
    "checkpoint": ((str, type(None)), "the name of a checkpoint"),
    "off": (list, 'a list of heads such as "L2.H3"'),
    "how": (str, "zero, mean or resample"),
    "of": ((str, type(None)), "encoder or decoder"),
    "kind": ((str, type(None)), "self or cross"),
    "reference": (str, "text"),
    "blank": (bool, "true or false"),
    "mask": (list, "a list of positions"),
}
Loader = Callable[[str], Any]


def kind_of(network: Any) -> str:
    """Which of `KINDS` a network, or a view of one, is. `UserError` for word vectors."""
    config = network.config
    if hasattr(config, "cell"):
        return "rnn-encoder-decoder" if hasattr(config, "n_encoder_layers") else "recurrent"
    assembly = getattr(config, "assembly", None)
    if assembly is not None:
        return _ASSEMBLIES.get(assembly, str(assembly))
    if isinstance(getattr(network, "network", network), NgramModel):
        return "ngram"
    if hasattr(config, "order"):
        return "feed-forward"
    raise UserError(
        f"{type(network).__name__} reads no text, so there is nothing to look at on this page; "
        "word vectors are looked at with `budgie look RUN WORD`"
    )


def reads_pairs(kind: str) -> bool:
    """Whether a model of that kind reads a source and writes a target."""
    return kind in ("encoder-decoder", "rnn-encoder-decoder")


class Look:
    """A question resolved. The trace is made when a view first needs it, and kept.

    model: what answers, edits and checkpoint included; `original` the same without the edits.
    """

    def __init__(self, model: Any, question: Mapping[str, Any], original: Any = None) -> None:
        self.model, self.question = model, dict(question)
        self.original = model if original is None else original
        self.kind = kind_of(model.network)
        self.resolve: Callable[[Mapping[str, Any]], Look] | None = None
        """another question -> its look, of any model at hand; None: only this one is"""

    @property
    def network(self) -> Any:
        """What computes."""
        return self.model.network

    @property
    def tokenizer(self) -> Any:
        """Of the text, or of an encoder-decoder's target."""
        return self.model.tokenizer

    @property
    def source_tokenizer(self) -> Any:
        """Of an encoder-decoder's source."""
        return getattr(self.model, "source_tokenizer", None) or self.model.tokenizer

    @property
    def config(self) -> Any:
        """The network's configuration."""
        return self.network.config

    @property
    def name(self) -> str:
        """The model's, to speak of it: its folder's name, where it has one."""
        return _name_of(self.model)

    @property
    def pair(self) -> bool:
        """Whether it reads a source and writes a target."""
        return reads_pairs(self.kind)

    @property
    def end_ids(self) -> list[int]:
        """Ids at which what it writes ends, its tokenizer's `end_id` first; none: it has no end."""
        end = getattr(self.tokenizer, "end_id", None)
        if self.pair:
            return [int(self.tokenizer.end_id)]
        others = set(getattr(self.tokenizer, "end_ids", ())) - {end}
        return [*([] if end is None else [int(end)]), *sorted(map(int, others))]

    @property
    def edits(self) -> dict[str, Any] | None:
        """The heads that are switched off and how; None: none."""
        if not self.question.get("off"):
            return None
        return {name: self.question.get(name) for name in ("off", "how", "of", "kind")}

    @cached_property
    def masked(self) -> list[int]:
        """Positions of an encoder's text that it is to fill in, ascending."""
        return sorted(set(self.question.get("mask", ())))

    @cached_property
    def trace(self) -> Trace:
        """One pass over the text. `UserError` for no text, or one that is too long."""
        asked = self.question
        if self.pair:
            return _checked(self._pair_trace(), self.name)
        if "text" not in asked and "ids" not in asked:
            raise UserError(said('there is no text to look at: the question needs "text"'))
        text: Any = asked.get("ids", asked.get("text"))
        ids = self.model.encode(text) if isinstance(text, str) else text
        _check_length(len(ids), said("text"), self.network)
        return _checked(self.model.trace(self._with_gaps(ids) if self.masked else text), self.name)

    def _pair_trace(self) -> Trace:
        asked = self.question
        if "source" not in asked:
            raise UserError(said('there is no source to look at: the question needs "source"'))
        target = asked.get("target")
        n_source = len(self.source_tokenizer.encode(asked["source"]))
        _check_length(n_source, said("source"), self.network)
        if target is not None:
            ids = self.tokenizer.encode(target) if isinstance(target, str) else target
            _check_length(len(ids), said("target"), self.network)
        prefix = bool(asked.get("prefix")) and target is not None
        traced: Trace = self.model.trace(asked["source"], target, prefix=prefix)
        return traced

    def _with_gaps(self, ids: list[int]) -> list[int]:
        """`ids` with `[MASK]` at the masked positions."""
        gap, found = need_mask(self.tokenizer), list(ids)
        if self.masked[-1] >= len(found):
            raise UserError(
                f"there is no position {self.masked[-1]} to mask: the text has positions 0 to "
                f"{len(found) - 1}"
            )
        for position in self.masked:
            found[position] = gap
        return found

    @cached_property
    def untrained(self) -> Trace:
        """The same tokens read by a model of the same shape with fresh weights."""
        from budgerigar.inspection.links import untrained_copy

        return untrained_copy(self.trace)


def _name_of(model: Any) -> str:
    folder = getattr(model, "folder", None)
    return str(model.name) if folder is None else str(folder.name)


def most_tokens(network: Any) -> int:
    """The longest text that can be asked about, in tokens."""
    return min(MOST_TOKENS, network.context_length or MOST_TOKENS)


def look_at(model: Any, question: Mapping[str, Any], checkpoint: Loader | None = None) -> Look:
    """Resolve `question` about `model`: `.network`, `.tokenizer`, `.name`, `.encode`, `.trace`,
    `.edited`, `.without_source`, as `api.Model` has them.

    checkpoint: name -> the model at that moment of its training; called where the question names one.

    Raises:
        UserError: an unknown or ill-typed part of the question, or one that does not fit the model.
    """
    asked = {key: part for key, part in checked_question(question).items() if part is not None}
    name = asked.get("checkpoint")
    if name is not None:
        if checkpoint is None:
            raise UserError(
                said(
                    "there is no checkpoint {name!r} at hand: only a run folder of ours keeps them",
                    name=name,
                )
            )
        model = checkpoint(name)
    kind = kind_of(model.network)
    _check_fit(kind, asked, model)
    original = model
    if asked.get("blank"):
        original = model = model.without_source()
    if asked.get("off"):
        model = model.edited(
            asked["off"],
            of=asked.get("of"),
            kind=asked.get("kind"),
            how=asked.get("how", "zero"),
            reference=asked.get("reference"),
        )
    return Look(model, asked, original)


def checked_question(question: Any) -> dict[str, Any]:
    """The question as it was given. `UserError` where a part is unknown or of the wrong type."""
    if not isinstance(question, Mapping):
        raise UserError(f'a question is a JSON object such as {{"text": …}}, not {question!r}')
    for key, part in question.items():
        if key not in _TYPES:
            raise UserError(f"a question has no part {key!r}; its parts are {', '.join(_TYPES)}")
        kind, words = _TYPES[key]
        if not isinstance(part, kind):
            raise UserError(f"{key} = {part!r} in a question must be {words}")
        if isinstance(part, str):
            _check_text(key, part)
    for key in ("ids", "mask", "target"):
        given = question.get(key)
        for number in given if isinstance(given, list) else ():
            if not isinstance(number, int) or isinstance(number, bool) or number < 0:
                raise UserError(
                    f"{key} in a question holds {number!r}; it must be {_TYPES[key][1]}"
                )
    if not all(isinstance(head, str) for head in question.get("off", ())):
        raise UserError(f"off = {question['off']!r} in a question must be {_TYPES['off'][1]}")
    if question.get("how", "zero") not in get_args(How):
        raise UserError(f"how = {question['how']!r} in a question must be {_TYPES['how'][1]}")
    if "ids" in question and "text" in question:
        raise UserError("a question has either text or ids, not both")
    return dict(question)


def _check_text(key: str, part: str) -> None:
    try:
        part.encode()
    except UnicodeEncodeError as error:
        raise UserError(
            said(
                "{part} in a question holds half of a character (position {at}), which no text file "
                "can hold; type it again",
                part=key,
                at=error.start,
            )
        ) from None


def _check_fit(kind: str, asked: Mapping[str, Any], model: Any) -> None:
    """`UserError` where a part of the question does not fit the kind of model."""
    pair = reads_pairs(kind)
    wrong = ("text", "ids") if pair else ("source", "target", "prefix", "blank")
    for key in wrong:
        if asked.get(key) not in (None, False):
            needed = 'a "source" (and a "target")' if pair else 'a "text"'
            raise UserError(
                f"{_name_of(model)} is a model of the kind {kind}: ask it with {needed}"
            )
    if asked.get("mask") and kind != "encoder":
        raise UserError(
            f"{_name_of(model)} is a model of the kind {kind}; only an encoder fills in masked tokens"
        )


def _checked(trace: Trace, name: str) -> Trace:
    """`UserError` where what the model computes is no number: there is nothing to show."""
    if trace.logits.isnan().any():
        raise UserError(
            said(
                "what {name} computes for this text is no number (NaN): its training has gone astray, "
                "or its weights are damaged",
                name=name,
            )
        )
    return trace


def _check_length(n: int, what: str, network: Any) -> None:
    if n > MOST_TOKENS:
        raise UserError(
            said(
                "the {what} has {n} tokens; at most {most} are looked at at once: take a shorter piece "
                "of it",
                what=what,
                n=n,
                most=most_tokens(network),
            )
        )
