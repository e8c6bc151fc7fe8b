"""`Model`: a network, its tokenizer and the verbs; `load` makes one from what is on the disk.

Shapes: T positions, V vocab_size.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from budgerigar.errors import UserError
from budgerigar.generation.options import SamplingOptions
from budgerigar.generation.streaming import generate_texts, stream_text

if TYPE_CHECKING:
    from budgerigar.evaluation.evaluate import Evaluation
    from budgerigar.inspection.traces import Trace
    from budgerigar.text.tokenizers import Tokenizer


@dataclass(frozen=True)
class Score:
    """How well a model predicts a text; all tokens in one pass, each from those before it."""

    tokens: int
    """tokens scored"""
    characters: int
    """characters of the scored tokens"""
    bytes: int
    """UTF-8 bytes of the scored tokens"""
    nats: float
    """sum of -ln p over the scored tokens"""
    per_token: list[tuple[str, float, int]] = field(repr=False)
    """(piece, nats, rank) of each scored token; rank 1 is the model's first guess"""
    unscored: str = ""
    """the text before the first scored token: a model without documents needs one to start from"""

    @property
    def nats_per_token(self) -> float:
        """Mean -ln p of a token."""
        return self.nats / self.tokens if self.tokens else math.nan

    @property
    def nats_per_character(self) -> float:
        """Nats by characters: compares different tokenizers on one text."""
        return self.nats / self.characters if self.characters else math.nan

    @property
    def bits_per_byte(self) -> float:
        """log2 loss by UTF-8 bytes: compares different tokenizers and languages."""
        return self.nats / math.log(2) / self.bytes if self.bytes else math.nan

    @property
    def perplexity(self) -> float:
        """exp of nats per token: between how many equally likely tokens the model wavers."""
        return math.exp(self.nats_per_token)


@dataclass(repr=False)
class Model:
    """A network and its tokenizer, with everything one can do with them.

    `settings` is the content of the run's config.json, `recipe` of its recipe.toml.
    """

    network: Any
    tokenizer: Tokenizer
    settings: dict[str, Any] = field(default_factory=dict, repr=False)
    recipe: dict[str, Any] | None = field(default=None, repr=False)
    folder: Path | None = None

    def __repr__(self) -> str:
        """What it is, on one line; `.network` shows the modules."""
        place = "in memory" if self.folder is None else str(self.folder)
        what = "n-gram"
        if hasattr(self.network, "parameters"):
            what = f"{sum(p.numel() for p in self.network.parameters()):,} parameters"
            what += f" in {self.config.n_layers} layer{'s' if self.config.n_layers > 1 else ''}"
        return f"Model({place}: {what}, {self.tokenizer.vocab_size:,} pieces)"

    @property
    def config(self) -> Any:
        """The network's configuration (`TransformerConfig` or `NgramConfig`)."""
        return self.network.config

    @property
    def device(self) -> torch.device:
        """Where the network computes."""
        return torch.device(self.network.device)

    @property
    def start_id(self) -> int | None:
        """The `<end>` that opens a document, where the model learnt documents; else None."""
        text = self.settings.get("text") or {}
        return self.tokenizer.end_id if text.get("starts_documents", True) else None

    # -- text in, text out -------------------------------------------------------------------------
    def generate(self, prompt: str = "", **options: Any) -> str:
        """The continuation of `prompt`, without it. Options: see `SamplingOptions`."""
        return "".join(self.stream(prompt, **options))

    def stream(self, prompt: str = "", **options: Any) -> Iterator[str]:
        """The same continuation piece by piece, as it is made; never half a character."""
        return stream_text(
            self.network,
            self.tokenizer,
            _text(prompt, "continue several with generate_many"),
            _sampling(options),
            starts_documents=self.start_id is not None,
        )

    def generate_many(self, prompts: Sequence[str], samples: int = 1, **options: Any) -> list[Any]:
        """Continue several prompts as one batch, `samples` times each -> `Generation` each.

        Each is the text that it would be alone: the batch is invisible.
        """
        explain, show_end = options.pop("explain", 0), options.pop("show_end", False)
        return generate_texts(
            self.network,
            self.tokenizer,
            [_text(prompt) for prompt in ([prompts] if isinstance(prompts, str) else prompts)],
            _sampling(options),
            samples=samples,
            starts_documents=self.start_id is not None,
            explain=explain,
            show_end=show_end,
        )

    # -- numbers -----------------------------------------------------------------------------------
    def encode(self, text: str) -> list[int]:
        """Ids of a text as the model reads it: opened by `<end>` where it learnt documents."""
        ids = list(self.tokenizer.encode(_text(text)))
        return ids if self.start_id is None else [self.start_id, *ids]

    def score(self, text: str) -> Score:
        """How well the model predicts `text`; see `Score`."""
        from budgerigar.evaluation import score_ids

        ids = list(self.tokenizer.encode(_text(text)))
        first = 0 if self.start_id is not None else 1
        if len(ids) <= first:
            raise UserError(
                "there is nothing to score: this model needs one token to start from and another "
                "to predict, so give it a longer text"
            )
        nats, ranks = score_ids(self.network, ids, start_id=self.start_id)
        scored = ids[first:]
        raw = b"".join(self.tokenizer.token_bytes(token) for token in scored)
        pieces = self.tokenizer.pieces(scored)
        rows = [(piece, float(n), int(r)) for piece, n, r in zip(pieces, nats, ranks, strict=True)]
        return Score(
            tokens=len(scored),
            characters=len(raw.decode("utf-8", errors="replace")),
            bytes=len(raw),
            nats=float(sum(row[1] for row in rows)),
            per_token=rows,
            unscored="".join(self.tokenizer.pieces(ids[:first])),
        )

    @torch.inference_mode()
    def logits(self, ids: Sequence[int]) -> Tensor:
        """Logits float32 (T, V): row t is about the token that follows `ids[t]`."""
        from budgerigar.inspection.passes import pass_inputs, run

        ids = _ids(ids)
        limit = self.network.context_length
        if not ids:
            raise UserError("logits need at least one token id")
        if limit is not None and len(ids) > limit:
            raise UserError(
                f"{len(ids)} ids are more than the {limit} positions of this model; give fewer"
            )
        wrong = [i for i in ids if not 0 <= i < self.network.vocab_size]
        if wrong:
            raise UserError(
                f"id {wrong[0]} is outside the vocabulary of {self.network.vocab_size} tokens"
            )
        inputs = pass_inputs(
            self.network, ids, self.start_id
        )  # the very pass that `trace` looks at
        return run(self.network, inputs)[0][0]

    def evaluate(
        self,
        file: str | Path | None = None,
        *,
        streaming: bool = False,
        encoding: str | None = None,
    ) -> Evaluation:
        """Loss over every token of a text but its first: `file`, or the run's validation text."""
        from budgerigar.api.evaluation import evaluate_model

        return evaluate_model(self, file, streaming=streaming, encoding=encoding)

    # -- looking -----------------------------------------------------------------------------------
    def trace(self, text: str | Sequence[int]) -> Trace:
        """Every intermediate value of one pass over `text`; see `inspection.traces`."""
        from budgerigar.inspection.traces import trace

        text = text if isinstance(text, str) else _ids(text)
        name = "" if self.folder is None else self.folder.name
        return trace(self.network, self.tokenizer, text, start_id=self.start_id, name=name)

    def edited(
        self,
        off: str | Sequence[str] = (),
        of: str | None = None,
        kind: str | None = None,
        how: Literal["zero", "mean", "resample"] = "zero",
        replace: Mapping[str, Any] | None = None,
        reference: str | None = None,
    ) -> Model:
        """A view with some heads switched off or values replaced; the original never changes.

        `how`: "zero", or "mean" and "resample", which take from the text `reference`.
        """
        from budgerigar.inspection.editing import EditedNetwork, plan_edit

        edit = plan_edit(
            self.network,
            off,
            how,
            of=of,
            kind=kind,
            replace=replace,
            reference=None if reference is None else self.encode(reference),
            start_id=self.start_id,
        )
        network = EditedNetwork(self.network, edit)
        return Model(network, self.tokenizer, self.settings, self.recipe, self.folder)


def load(
    path: str | Path = "last", device: str = "auto", threads: int | str | None = None
) -> Model:
    """A model from a run's folder, its name under runs/, or "last" (the newest).

    Raises:
        UserError: there is none, or a file of it is missing or damaged.
    """
    from budgerigar.formats.run import load_model

    if isinstance(threads, int):
        torch.set_num_threads(threads)
    loaded = load_model(path, device=choose_device(device))
    return Model(loaded.network, loaded.tokenizer, loaded.config, loaded.recipe, loaded.folder)


def choose_device(name: str) -> str:
    """`auto` is a CUDA device where there is one; any other name is checked."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"device {name!r} cannot be used here ({reason}); try cpu or auto"
        ) from None
    return name


def _text(value: object, hint: str = "give text in quotes") -> str:
    """`value`, or a `UserError` where it is not text."""
    if not isinstance(value, str):
        raise UserError(f"{value!r} is a {type(value).__name__}, not text; {hint}")
    return value


def _ids(values: Iterable[Any]) -> list[int]:
    """Token ids as Python's numbers, also from an array or a tensor."""
    try:
        return [operator.index(value) for value in values]
    except TypeError:
        raise UserError(
            f"{values!r} is no list of token ids (whole numbers); model.encode(text) gives one"
        ) from None


def _sampling(options: dict[str, Any]) -> SamplingOptions:
    """Checked options; an unknown name is an error that lists the known ones."""
    from dataclasses import fields

    known = [f.name for f in fields(SamplingOptions)]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise UserError(
            f"generate has no option {unknown[0]!r}; its options are {', '.join(known)}"
        )
    return SamplingOptions(**options).validate()
