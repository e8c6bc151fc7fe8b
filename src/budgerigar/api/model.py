"""`Model`: a network, its tokenizer and the verbs.

Shapes: T positions, V vocab_size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor

from budgerigar.api.checks import checked_ids, checked_target, checked_text
from budgerigar.api.heads import HasHeads
from budgerigar.api.pairs import (
    alignment_errors,
    score_pair,
    source_ids,
    source_inputs,
    trace_pair,
)
from budgerigar.api.roles import need_vectors
from budgerigar.api.score import Score, score_text
from budgerigar.api.translation import (
    Files,
    need_translator,
    pair_files,
    translates,
    translation_options,
    translations,
)
from budgerigar.api.writing import Writes
from budgerigar.errors import UserError
from budgerigar.text.model_catalogue import called

if TYPE_CHECKING:
    from budgerigar.api.evaluation import TranslationEvaluation
    from budgerigar.evaluation.evaluate import Evaluation
    from budgerigar.formats.load_report import LoadReport
    from budgerigar.generation.fill import Filled
    from budgerigar.generation.translation import Translation
    from budgerigar.inspection.alignment_errors import HeadAlignments
    from budgerigar.inspection.reach import Reach
    from budgerigar.inspection.traces import Trace
    from budgerigar.text.tokenizers import Tokenizer


@dataclass(repr=False)
class Model(Writes, HasHeads):
    """A network and its tokenizer, with everything one can do with them.

    `settings` is the content of the run's config.json, `recipe` of its recipe.toml.
    """

    network: Any
    tokenizer: Tokenizer
    settings: dict[str, Any] = field(default_factory=dict, repr=False)
    recipe: dict[str, Any] | None = field(default=None, repr=False)
    folder: Path | None = None
    source_tokenizer: Tokenizer | None = field(default=None, repr=False)
    """an encoder-decoder's for its source; None: the same as `tokenizer`, or no encoder-decoder"""
    load_report: LoadReport | None = field(default=None, repr=False)
    """an imported model's: which tensor of its files filled each weight, and how"""

    def __repr__(self) -> str:
        """What it is, on one line; `.network` shows the modules."""
        place = "in memory" if self.folder is None else str(self.folder)
        what = "n-gram"
        if hasattr(self.network, "parameters"):
            from budgerigar.layers.packed_linear import n_weights

            what = f"{n_weights(self.network):,} parameters"
            what += f" in {self._layers()}"
        return f"Model({place}: {what}, {self.tokenizer.vocab_size:,} pieces)"

    def _layers(self) -> str:
        if self.translates:
            shape = self.network.config
            depths = [getattr(shape, f"n_{side}_layers", None) for side in ("encoder", "decoder")]
            return "{} + {} layers".format(*(depth or shape.n_layers for depth in depths))
        n_layers = self.config.n_layers
        return f"{n_layers} layer{'s' if n_layers > 1 else ''}"

    role = "text"
    """it predicts text; "vectors": word vectors, which have neighbours instead"""

    @property
    def name(self) -> str:
        """How to speak of it: its folder, its name in the catalogue, or what it is."""
        return "this model" if self.folder is None else called(self.folder)

    @property
    def config(self) -> Any:
        """The network's configuration (`TransformerConfig`, `NgramConfig` …)."""
        return self.network.config

    @property
    def translates(self) -> bool:
        """It is an encoder-decoder: `translate` is its verb, `generate` that of all others."""
        return translates(self.network)

    @property
    def lowercase(self) -> bool:
        """It was trained on lower-cased pairs; what it translates is lower-cased too."""
        return bool(((self.recipe or {}).get("text") or {}).get("lowercase"))

    @property
    def device(self) -> torch.device:
        """Where the network computes."""
        return torch.device(self.network.device)

    @property
    def start_id(self) -> int | None:
        """What opens a text: `<end>` where the model learnt documents, `<s>` and its like; or None."""
        starts = (self.settings.get("text") or {}).get("starts_documents")
        usual = self.tokenizer.end_id if starts else None
        return None if starts is False else next(iter(self.tokenizer.start_ids), usual)

    # -- text in, text out -------------------------------------------------------------------------
    @overload
    def translate(self, lines: str, *, prefix: str | None = None, **options: Any) -> str: ...
    @overload
    def translate(
        self, lines: Iterable[str], *, prefix: str | None = None, **options: Any
    ) -> list[str]: ...
    def translate(
        self, lines: str | Iterable[str], *, prefix: str | None = None, **options: Any
    ) -> str | list[str]:
        """The translation of a line, or of each of several: blank in, blank out, order kept.

        prefix: words that every translation begins with. Options: see `TranslationOptions`.
        """
        made = self.translations(lines, prefix=prefix, **options)
        return made[0].text if isinstance(lines, str) else [one.text for one in made]

    def translations(
        self, lines: str | Iterable[str], *, prefix: str | None = None, **options: Any
    ) -> list[Translation]:
        """The same with scores, tokens and the `n_best` hypotheses of each line."""
        need_translator(self)
        given = (
            list(lines) if isinstance(lines, Iterable) and not isinstance(lines, str) else [lines]
        )
        for line in given:
            if "\n" in checked_text(line):
                raise UserError(
                    f"{line!r} is several lines; text.split('\\n') makes a list of them"
                )
        chosen = translation_options(options)
        return list(translations(self, [given], prefix=prefix, options=chosen, total=len(given)))

    def fill(self, text: str, top_k: int = 5) -> Filled:
        """`text` with its gaps, each written `[MASK]`, filled in; see `generation.fill`."""
        from budgerigar.api.filling import fill

        return fill(self, text, top_k)

    def embed(
        self,
        texts: str | Iterable[str],
        *,
        pooling: str | None = None,
        normalise: bool | None = None,
    ) -> Tensor:
        """The vector of a text, float32 (D,), or of each of several (n,D); see `api.embedding`."""
        from budgerigar.api.embedding import embed

        one = isinstance(texts, str)
        given = [texts] if isinstance(texts, str) else texts
        vectors = torch.from_numpy(embed(self, given, pooling=pooling, normalise=normalise).vectors)
        return vectors[0] if one else vectors

    # -- numbers -----------------------------------------------------------------------------------
    def encode(self, text: str) -> list[int]:
        """Ids of a text as the model reads it: opened by `<end>` where it learnt documents.

        An encoder-decoder's are those of a source, which `<end>` closes.
        """
        if self.translates:
            return source_ids(self, checked_text(text))
        ids = list(self.tokenizer.encode(checked_text(text)))
        return ids if self.start_id is None else [self.start_id, *ids]

    def score(self, text: str, target: str | None = None) -> Score:
        """How well the model predicts `text`; an encoder-decoder: `target`, having read `text`.

        Of a translation `<end>` is scored too, which stands for its line end. See `Score`.
        """
        if target is not None or self.translates:
            return Score(**score_pair(self, checked_text(text), checked_target(target)))
        return score_text(self, checked_text(text))

    @torch.inference_mode()
    def logits(self, ids: Sequence[int], source: Sequence[int] | None = None) -> Tensor:
        """Logits float32 (T, V): row t is about the token that follows `ids[t]`.

        source: ids that an encoder-decoder reads, its `<end>` included (`encode(text)`).
        """
        from budgerigar.inspection.passes import pass_inputs, run

        ids = checked_ids(ids)
        limit = self.network.context_length
        if not getattr(self.config, "token_head", True):
            raise UserError(f"{self.name} predicts no tokens: it has no output layer over them")
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
        # the very pass that `trace` looks at
        inputs = pass_inputs(self.network, ids, self.start_id)
        if self.translates:
            inputs |= source_inputs(self, None if source is None else checked_ids(source))
        return run(self.network, inputs)[0][0]

    def evaluate(
        self,
        file: str | Path | None = None,
        *,
        source: Files = (),
        target: Files = (),
        pairs: Files = (),
        columns: str | Sequence[str] | None = None,
        streaming: bool = False,
        encoding: str | None = None,
    ) -> Evaluation:
        """Loss over every token of a text but its first: `file`, or the run's validation text.

        An encoder-decoder's is over the targets and their `<end>`: of `source` and `target`, of
        `pairs` (with `columns`), or of the run's validation pairs.
        """
        from budgerigar.api.evaluation import evaluate_model

        files = pair_files(source, target, pairs, columns)
        return evaluate_model(self, file, files, streaming=streaming, encoding=encoding)

    def evaluate_translations(
        self,
        *,
        source: Files = (),
        target: Files = (),
        pairs: Files = (),
        columns: str | Sequence[str] | None = None,
        encoding: str | None = None,
        tokenize: str | None = None,
        lowercase: bool = False,
        bootstrap: int = 1000,
        **options: Any,
    ) -> TranslationEvaluation:
        """BLEU, chrF and TER of its own translations, beside the loss; files as in `evaluate`.

        Options: see `TranslationOptions`; the others: `score_translations`.
        """
        from budgerigar.api.evaluation import evaluate_translations

        return evaluate_translations(
            self,
            pair_files(source, target, pairs, columns),
            encoding=encoding,
            tokenize=tokenize,
            lowercase=lowercase,
            bootstrap=bootstrap,
            options=translation_options(options),
        )

    # -- word vectors ------------------------------------------------------------------------------
    def neighbours(self, word: str, k: int = 10) -> list[tuple[str, float]]:
        """The words whose vectors are nearest: (word, cosine). See `api.vectors`."""
        need_vectors(self, "give neighbours")

    def analogy(self, a: str, b: str, c: str, k: int = 10) -> list[tuple[str, float]]:
        """What is to `c` as `b` is to `a`: (word, cosine), best first. See `api.vectors`."""
        need_vectors(self, "complete an analogy")

    # -- looking -----------------------------------------------------------------------------------
    def trace(
        self,
        text: str | Sequence[int],
        target: str | Sequence[int] | None = None,
        *,
        prefix: bool = False,
    ) -> Trace:
        """Every intermediate value of one pass over `text`; see `inspection.traces`.

        An encoder-decoder reads `text` and is made to write `target`, by default its own
        translation -> `inspection.pair_traces.PairTrace`. prefix: `target` is only a beginning.
        """
        from budgerigar.inspection.traces import trace

        text = text if isinstance(text, str) else checked_ids(text)
        if target is not None or self.translates:
            target = target if isinstance(target, str | None) else checked_ids(target)
            pair = trace_pair(self, text, target, prefix)
            if isinstance(text, str):
                question = {"source": text, "target": target}
                pair.asked = self, {**question, "prefix": True} if prefix else question
            return pair
        name = "" if self.folder is None else self.folder.name
        found = trace(self.network, self.tokenizer, text, start_id=self.start_id, name=name)
        found.asked = self, {"text" if isinstance(text, str) else "ids": text}
        return found

    def reach(self, text: str | None = None, **options: Any) -> Reach:
        """How far back the gradient of a prediction reaches on `text` [the validation text].

        Options: distance, positions, carried, of; see `inspection.reach.reach`.
        """
        from budgerigar.api.reach import reach

        return reach(self, text, **options)

    def alignment_errors(
        self,
        gold: str | Path | None = None,
        *,
        source: Files = (),
        target: Files = (),
        pairs: Files = (),
        columns: str | Sequence[str] | None = None,
        encoding: str | None = None,
    ) -> HeadAlignments:
        """How well each head of an encoder-decoder aligns words, by alignment error rate.

        gold: a Pharaoh file for the pairs of `source` and `target`; None: the generated pairs of a
        model between Chinese and English, whose alignment is known.
        """
        files = pair_files(source, target, pairs, columns)
        return alignment_errors(self, gold, files, encoding)

    @property
    def checkpoints(self) -> list[str]:
        """The kept checkpoints of its run, the earliest first: names for `at_checkpoint`."""
        from budgerigar.api.checkpoints import checkpoints

        return checkpoints(self)

    def at_checkpoint(self, name: str) -> Model:
        """The model as it was at a checkpoint ("step-00001000"); see `api.checkpoints`."""
        from budgerigar.api.checkpoints import at_checkpoint

        return at_checkpoint(self, name)

    def without_source(self) -> Model:
        """A view of an encoder-decoder that never sees its source: what the decoder knows alone."""
        from budgerigar.models.modes import without_source

        need_translator(self, "lose sight of its source")
        return dataclasses.replace(self, network=without_source(self.network))

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

        `how`: "zero", or "mean" and "resample", which take from the text `reference` (an
        encoder-decoder: from its lines as sources and the model's own translations). Without one: from
        a text that a decoder writes itself, or see `inspection.references`.
        """
        from budgerigar.api.heads import reference_of
        from budgerigar.inspection.editing import EditedNetwork, plan_edit

        edit = plan_edit(
            self.network,
            off,
            how,
            of=of,
            kind=kind,
            replace=replace,
            reference=reference_of(self, reference) if off and how != "zero" else None,
            start_id=self.start_id,
        )
        return dataclasses.replace(self, network=EditedNetwork(self.network, edit))
