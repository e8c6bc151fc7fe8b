"""Training that fills gaps of a text: masked words (BERT) and corrupted spans (T5), and what is
measured of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from budgerigar.training.events import Written
from budgerigar.training.given import Given
from budgerigar.training.objectives import MASKED_WORDS, SPAN_CORRUPTION
from budgerigar.training.recipe import Recipe, TextRecipe
from budgerigar.training.recipe_checks import column_names

UNITS = ("nats per hidden token", "nats per token of the spans")
ON_PLATEAU = 0.95  # of the unigram's loss
SHOWN = 4  # held-out pieces of text in a sample
SHOWN_TOKENS = 24  # of each


def specials_of(objective: str) -> tuple[str, ...]:
    """The special tokens that a tokenizer trained for this objective has, `<end>` aside."""
    from budgerigar.text import fill_in_tokens

    return {
        MASKED_WORDS: fill_in_tokens.MASKED_WORDS,
        SPAN_CORRUPTION: fill_in_tokens.CORRUPTED_SPANS,
    }.get(objective, ())


# -- text ----------------------------------------------------------------------------------------


@dataclasses.dataclass
class TaskCorpus:
    """Running text beside tasks that are pairs of texts, in one vocabulary. Fields as of `Corpus`."""

    running: Any
    tasks: Any
    train: Any = dataclasses.field(init=False)
    validation: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.train, self.validation = self.running.train, self.running.validation

    tokenizer = property(lambda self: self.running.tokenizer)
    documents = property(lambda self: self.running.documents)
    n_documents = property(lambda self: self.running.n_documents)
    fingerprint = property(lambda self: f"{self.running.fingerprint}-{self.tasks.fingerprint}")

    @property
    def sources(self) -> list[dict[str, Any]]:
        """Files of both."""
        return [*self.running.sources, *self.tasks.sources]

    @property
    def notes(self) -> list[str]:
        """What was decided of both."""
        return [*self.running.notes, *(f"tasks: {note}" for note in self.tasks.notes)]


def with_tasks(running: Any, text: TextRecipe, given: Given) -> TaskCorpus:
    """The corpus `running` with the pairs that were given beside it, in its vocabulary.

    With three columns the first is the task: its words begin the source ("reverse: …").
    """
    from budgerigar.text.pair_corpus import prepare_pairs

    columns = column_names(text.columns or "")
    two = (columns[-2], columns[-1]) if columns else None
    files = dataclasses.replace(
        given.training_pairs(two), prefix=columns[0] if len(columns) == 3 else None
    )
    validation = given.validation_split(two)
    if validation is not None:
        validation = dataclasses.replace(validation, prefix=files.prefix)
    tasks = prepare_pairs(
        files,
        tokenizer=running.tokenizer,
        vocabulary="joint",
        validation=validation,
        validation_fraction=text.validation_fraction,
        encoding=text.encoding,
        lowercase=text.lowercase,
        seed=text.corpus_seed,
    )
    seen = running.tokenizer.never_seen & tasks.tokenizer.never_seen
    tokenizer = running.tokenizer.with_never_seen(seen)
    return TaskCorpus(dataclasses.replace(running, tokenizer=tokenizer), tasks)


# -- batches -------------------------------------------------------------------------------------


def rule_of(recipe: Recipe, tokenizer: Any) -> Any:
    """What is hidden, and how."""
    training = recipe.training
    if recipe.objective == MASKED_WORDS:
        from budgerigar.text.masking import mask_rule

        return mask_rule(tokenizer, training.whole_words, training.mask_share)
    from budgerigar.text.span_corruption import span_rule

    start = recipe.model.get("decoder_start")
    return span_rule(tokenizer, start, training.mask_share, training.span_length)


def masked(windows: Any, recipe: Recipe, corpus: Any) -> Any:
    """Windows of a text with words masked."""
    from budgerigar.text.masking import MaskedBatches

    return MaskedBatches(windows, rule_of(recipe, corpus.tokenizer), recipe.training.seed)


def make_span_batches(recipe: Recipe, corpus: Any, network: Any) -> Any:
    """Rows of a text with spans taken out; with tasks, batches of these among them."""
    from budgerigar.text.span_corruption import MixedBatches, SpanBatches
    from budgerigar.training.pair_corpora import make_pair_batches

    training = recipe.training
    length = training.window_length or network.context_length
    spans = SpanBatches(
        corpus.train,
        rule_of(recipe, corpus.tokenizer),
        length,
        training.batch_tokens,
        training.seed,
    )
    tasks = getattr(corpus, "tasks", None)
    if tasks is None:
        return spans
    pairs = make_pair_batches(recipe, tasks, network)
    return MixedBatches(spans, pairs, training.task_share, training.seed)


# -- what is measured ----------------------------------------------------------------------------


def fill_in_lines(recipe: Recipe, corpus: Any, context_length: int | None) -> dict[str, float]:
    """What needs no context: guessing, and the frequency of each token alone (the plateau)."""
    rule = rule_of(recipe, corpus.tokenizer)
    if recipe.objective == MASKED_WORDS:
        from budgerigar.evaluation.masked import unigram_lines

        free = rule.maskable
        return unigram_lines(corpus.train.counts[free], corpus.validation.counts[free])
    from budgerigar.evaluation.spans import span_lines

    assert context_length is not None
    return span_lines(corpus.train, corpus.validation, rule, context_length)


def fill_in_loss(recipe: Recipe, network: Any, store: Any, tokenizer: Any) -> Any:
    """`MaskedEvaluation` or `SpanEvaluation` of `store`, as the recipe hides."""
    rule = rule_of(recipe, tokenizer)
    if recipe.objective == MASKED_WORDS:
        from budgerigar.evaluation.masked import evaluate_masked

        return evaluate_masked(network, store, rule)
    from budgerigar.evaluation.spans import evaluate_spans

    return evaluate_spans(network, store, rule)


def fill_in_evaluator(recipe: Recipe, whole: Any, part: Any, tokenizer: Any) -> Any:
    """`(network, whole split?) -> evaluation` of the whole split, or of `part` of it."""

    def run(network: Any, everything: bool) -> Any:
        return fill_in_loss(recipe, network, whole if everything else part, tokenizer)

    return run


def fill_in_sampler(recipe: Recipe, corpus: Any) -> Callable[[nn.Module, int], Written] | None:
    """`(network, step) -> pieces of held-out text with a gap each, and how it is filled`."""
    if recipe.training.sample_every == 0:
        return None
    from budgerigar.text.store import opens_texts

    starts = opens_texts(corpus.train)

    def run(network: nn.Module, step: int) -> Written:
        from budgerigar.generation.fill import fill_text

        lines = []
        for before, word, after in _gaps(corpus, network):
            text = f"{before}[MASK]{after}"
            found = fill_text(network, corpus.tokenizer, text, top_k=3, starts_documents=starts)
            guesses = ", ".join(repr(one.text) for one in found.gaps[0].guesses)
            lines.append(f"{before}[{word}]{after}\n  {guesses}")
        return Written("\n".join(lines))

    return run


def _gaps(corpus: Any, network: Any) -> list[tuple[str, str, str]]:
    """(before, a word, after) of pieces of the held-out text, short enough to be read."""
    store, tokenizer = corpus.validation, corpus.tokenizer
    most = network.context_length // 2  # the other half: what is filled in, and spelled words
    found = []
    for number in range(SHOWN):
        start = number * max(store.n_tokens - SHOWN_TOKENS, 1) // SHOWN
        ids = store.tokens[start : start + min(SHOWN_TOKENS, most)].tolist()
        words = tokenizer.decode(ids).replace("\n", " ").split(" ")[1:-1]
        places = [i for i, word in enumerate(words) if word.isalpha()]
        if places and len(tokenizer.encode(" ".join(words))) <= most:
            at = places[len(places) // 2]
            before, after = " ".join([*words[:at], ""]), " ".join(["", *words[at + 1 :]])
            found.append((before, words[at], after))
    return found


def plain_line(sample: str) -> str:
    """The first piece of text in a sample, without what it says of it."""
    line = sample.split("\n")[0].partition(": ")
    return (line[2] or line[0]).replace("[", "").replace("]", "")


def plateau(losses: Sequence[float], lines: Mapping[str, float], unit: str) -> str | None:
    """A warning where a loss has come no further than the frequency of each token, or None.

    unit: of the losses, as evaluations say it; those of other objectives have no such plateau.
    """
    line = lines.get("unigram")
    if unit not in UNITS or line is None or not losses or min(losses) < ON_PLATEAU * line:
        return None
    return (
        f"The loss, {min(losses):.3f}, is on the plateau that filling in begins with: knowing how "
        f"often each token occurs, and nothing of the text around it, gives {line:.3f}. Models stay "
        "there for a while and then fall off it at once: train longer, or with a higher rate, more "
        "warm-up or a smaller vocabulary."
    )
