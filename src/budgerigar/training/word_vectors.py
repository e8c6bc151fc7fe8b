"""Training word vectors: stochastic gradient descent over blocks of text, several passes.

The rate falls linearly over the whole (Mikolov et al. 2013a). Every draw comes from a generator of its
own for each pass and span of the text, so that a run that was stopped goes on bit for bit. After each
pass the held-out loss is measured. Kept are the vectors after the last pass, as the authors' program
keeps them, not those of the lowest loss: while the rate is high the vectors lean to what they read
last, which the held-out end of a text resembles, and rare words still all look alike.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from budgerigar import progress
from budgerigar.errors import UserError
from budgerigar.evaluation.word_vectors import VectorEvaluation, evaluate_vectors
from budgerigar.formats.checkpoints import Checkpoint, write_checkpoint
from budgerigar.formats.metrics import MetricsFile
from budgerigar.formats.run import RunFolder, save_weights
from budgerigar.models.word_vectors import WordVectors, block_loss, learn_block
from budgerigar.models.word_vectors_config import WordVectorsConfig
from budgerigar.text.word_text import WordText, keep_shares, noise_distribution, word_text
from budgerigar.text.words import numbered, row_words, whole_words, word_keys
from budgerigar.training.recipe import TrainingRecipe
from budgerigar.training.signals import StopRequest
from budgerigar.training.word_blocks import SPAN, Block, SpanBlocks

LOOK_EVERY = 16  # blocks between two whose loss is computed, which takes as long as learning
LOG_EVERY = 512  # blocks per line of metrics.jsonl
MOST_LOAD = 2.0  # rate x what a vector meets in a block; beyond it steps could overshoot and grow
FEWEST = 2  # words with which there is anything to learn


@dataclass
class VectorText:
    """A corpus as word vectors see it."""

    train: WordText
    validation: WordText
    rows: np.ndarray
    """(V,) int32: each token's row, -1 for none"""
    counts: np.ndarray
    """(R,) int64: how often each word occurs in the training text"""
    words: list[str]
    """(R,) the word of each row"""
    config: WordVectorsConfig
    """min_count may have become 1, where the text is short"""


def vector_text(corpus: Any, config: WordVectorsConfig) -> VectorText:
    """Number the words of a prepared corpus.

    Raises:
        UserError: it holds fewer than two words.
    """
    tokenizer, tokens = corpus.tokenizer, corpus.train.tokens
    keys = word_keys(tokenizer, config.lowercase)
    whole = tokens[whole_words(tokens, tokenizer)]
    seen = np.bincount(whole, minlength=tokenizer.vocab_size)
    rows = numbered(keys, seen, config.min_count)
    if rows.max(initial=-1) + 1 < FEWEST and config.min_count > 1:
        progress.note(
            f"min_count: 1 instead of {config.min_count}, because hardly a word occurs that often"
        )
        config = config.replace(min_count=1)
        rows = numbered(keys, seen, 1)
    n_words = int(rows.max(initial=-1)) + 1
    if n_words < FEWEST:
        raise UserError(
            "The text holds fewer than two different words, so there is nothing to learn vectors "
            "from. Give a longer text."
        )
    counts = np.bincount(rows[rows >= 0], weights=seen[rows >= 0], minlength=n_words)
    train, validation = (
        word_text(store.tokens, rows, tokenizer, store.end_id)
        for store in (corpus.train, corpus.validation)
    )
    return VectorText(
        train, validation, rows, counts.astype(np.int64), row_words(keys, rows), config
    )


@dataclass
class Place:
    """Where a training stands. All of it goes into a checkpoint."""

    epoch: int = 0
    span: int = 0
    block: int = 0
    """of that span: the next to learn from"""
    blocks: int = 0
    """learnt from so far"""
    pairs: float = 0.0
    seconds: float = 0.0
    """spent learning"""
    best_loss: float | None = None
    best_epoch: int = 0
    seen: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """loss and pairs of the blocks looked at since the last line of metrics"""


class VectorTrainer:
    """Learns `model` from `text`; `run` goes on from `place` to the last pass or to a stop."""

    def __init__(
        self,
        model: WordVectors,
        text: VectorText,
        settings: TrainingRecipe,
        epochs: int,
        folder: RunFolder | None = None,
    ) -> None:
        self.model, self.text, self.settings, self.epochs = model, text, settings, epochs
        self.folder = folder
        self.place = Place()
        self.evaluation: VectorEvaluation | None = None
        config = model.config
        self._keep = keep_shares(model.counts, config.subsample)
        self._edges = np.cumsum(noise_distribution(model.counts, config.noise_power))
        self._spans = max(1, -(-len(text.train) // SPAN))
        self._metrics = None if folder is None else MetricsFile(folder.metrics_path)

    # -- the passes ------------------------------------------------------------------------------
    def run(self, stop: StopRequest) -> bool:
        """Train; True when all passes are done, False when it was asked to stop (and has saved)."""
        total = self.epochs * len(self.text.train)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # products this small are slower on two
        try:
            with progress.track("learning word vectors", total, "words") as job:
                job.advance(self._words_done(0))
                while self.place.epoch < self.epochs:
                    if not self._run_span(stop, job):
                        self.save()
                        self._checkpoint()
                        return False
                    self._next_span()
            return True
        finally:
            torch.set_num_threads(threads)
            if self._metrics is not None:
                self._metrics.flush()

    def blocks(self, epoch: int, span: int) -> SpanBlocks:
        """The blocks of one span in one pass, the same whenever they are asked for."""
        part = self.text.train
        cut = slice(span * SPAN, (span + 1) * SPAN)
        rng = np.random.default_rng([self.settings.seed, epoch, span])
        text = WordText(part.words[cut], part.documents[cut], part.n_tokens)
        return SpanBlocks(text, self.model.config, self._keep, self._edges, rng)

    def _run_span(self, stop: StopRequest, job: Any) -> bool:
        place, begun = self.place, time.perf_counter()
        made = self.blocks(place.epoch, place.span)
        words = self.span_words() / max(len(made), 1)
        while place.block < len(made):
            if stop.asked:
                place.seconds += time.perf_counter() - begun
                return False
            rate = self._rate(place.block * words)
            self.learn(made[place.block], rate)
            place.block += 1
            if place.blocks % LOG_EVERY == 0:
                self._log(rate)
            if place.blocks % LOOK_EVERY == 0:
                loss = place.seen[0] / place.seen[1] if place.seen[1] else float("nan")
                job.advance(LOOK_EVERY * words, loss=f"{loss:.3f}")
        place.seconds += time.perf_counter() - begun
        return True

    def learn(self, block: Block, rate: float) -> None:
        """One step."""
        model, place = self.model, self.place
        x, y = (
            model.inputs.index_select(0, block.inputs),
            model.outputs.index_select(0, block.outputs),
        )
        positives, noise = block.positives, block.noise
        new_x, new_y, scores = learn_block(x, y, positives, noise, rate, block.mixing)
        steps = zip((x, y), (new_x, new_y), block.loads, block.most, strict=True)
        for old, new, load, most in steps:
            if rate * most > MOST_LOAD:
                share = (MOST_LOAD / (rate * load)).clamp_(max=1.0)
                torch.lerp(old, new, share[:, None], out=new)
        model.inputs.index_copy_(0, block.inputs, new_x)
        model.outputs.index_copy_(0, block.outputs, new_y)
        if place.blocks % LOOK_EVERY == 0:
            place.seen[0] += float(block_loss(scores, positives, noise))
            place.seen[1] += block.pairs
        place.blocks += 1
        place.pairs += block.pairs

    def _next_span(self) -> None:
        place = self.place
        place.block, place.span = 0, place.span + 1
        if place.span < self._spans:
            self._checkpoint()
            return
        place.span, place.epoch = 0, place.epoch + 1
        self._evaluate()
        self._checkpoint()

    # -- the rate --------------------------------------------------------------------------------
    def _rate(self, words_into_span: float) -> float:
        """Linear from learning_rate to min_learning_rate over all passes."""
        done = self._words_done(words_into_span) / max(self.epochs * len(self.text.train), 1)
        first, last = self.settings.learning_rate, self.settings.min_learning_rate
        return first + (last - first) * min(done, 1.0)

    def _words_done(self, into_span: float) -> float:
        place = self.place
        return place.epoch * len(self.text.train) + place.span * SPAN + into_span

    def span_words(self) -> int:
        """Words of the present span, before it is thinned out."""
        return min(SPAN, len(self.text.train) - self.place.span * SPAN)

    # -- what is kept ----------------------------------------------------------------------------
    def _evaluate(self) -> None:
        place = self.place
        self.evaluation = found = evaluate_vectors(self.model, self.text.validation)
        best = place.best_loss is None or found.loss < place.best_loss
        if best:
            place.best_loss, place.best_epoch = found.loss, place.epoch
        self.save()
        self._write({
            "kind": "evaluation", "step": place.blocks, "epoch": place.epoch, "loss": found.loss,
            "by_frequency": found.by_frequency, "n_tokens": found.n_tokens, "best": best,
        })  # fmt: skip
        speed = place.epoch * len(self.text.train) / max(place.seconds, 1e-9)
        progress.note(
            f"pass {place.epoch} of {self.epochs}: held-out loss {found.loss:.4f} nats per pair "
            f"(by frequency alone {found.by_frequency:.4f}), {speed:,.0f} words/s"
        )

    def _log(self, rate: float) -> None:
        place = self.place
        loss, pairs = place.seen
        if pairs:
            entry = {"kind": "step", "step": place.blocks, "loss": loss / pairs}
            self._write({**entry, "learning_rate": rate, "pairs": place.pairs})
        place.seen = [0.0, 0.0]

    def _write(self, entry: dict[str, Any]) -> None:
        if self._metrics is not None:
            self._metrics.append(entry)

    def _checkpoint(self) -> None:
        if self.folder is None or self._metrics is None:
            return
        state = {
            "place": vars(self.place),
            "epochs": self.epochs,
            "metrics_bytes": self._metrics.flush(sync=True),
        }
        weights, only_to_learn = {"inputs": self.model.inputs}, {"outputs": self.model.outputs}
        keep = self.settings.keep_checkpoints
        write_checkpoint(self.folder.path, self.place.blocks, state, weights, only_to_learn, keep)

    def save(self) -> None:
        """Make the present vectors the run's."""
        if self.folder is not None:
            save_weights(self.folder.path, self.model)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from where `checkpoint` was written."""
        self.place = Place(**checkpoint.state["place"])
        self.model.inputs = checkpoint.weights["inputs"]
        self.model.outputs = checkpoint.training["outputs"]
