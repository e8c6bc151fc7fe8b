"""The translation of the demo: a small Transformer learns Chinese to English, one sentence is
translated token by token, and what it looks at turns out to be an alignment of the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from budgerigar.experiments.demo_runs import trained
from budgerigar.experiments.demo_screen import (
    Frames,
    Screen,
    alignment_grid,
    clock,
    colour_scale,
    guess_bars,
)
from budgerigar.experiments.translating import (
    Step,
    translate_greedily,
    word_probabilities,
)
from budgerigar.text.pairs import SentencePair, lesson_pair, sentence_pairs
from budgerigar.text.story_grammar import spans_of
from budgerigar.text.story_words import PETS

if TYPE_CHECKING:
    from budgerigar.experiments.demo import Summary

STEPS = 600  # some fifteen seconds; the recipe's own are more than these sentences need
N_TESTS = 200
N_QUICK_TESTS = 40  # translated every second while it trains
PREFIX = "Xuanyuan has a"
TEST_SEED = 7
RECIPE = "stories-zh-en"
MOST_ROWS = 10  # of the grid: what is written at first may be long
MOST_WRITTEN = 44  # columns of it in a line of a log


def translation(screen: Screen, folder: Path, settings: dict[str, Any], summary: Summary) -> None:
    """The whole second part."""
    from budgerigar.training.corpora import gather_corpus

    screen.heading("2  A translation")
    pair = lesson_pair()
    recipe = translation_recipe(settings)
    _ask(screen, pair, recipe.text.n_pairs)
    act = Act(screen, pair, gather_corpus(recipe.text, pairs=recipe.reads_pairs), summary)
    act.train(folder, recipe)
    act.measure_heads()
    act.translate()
    act.align(folder)
    act.blank_the_source()


def translation_recipe(settings: Mapping[str, Any]) -> Any:
    """How the translator is trained, `settings` apart."""
    from budgerigar.training.recipe import load_recipe, override

    silent = {"baselines": False, "sample_every": 0, "bleu_sentences": 0}
    return override(load_recipe(RECIPE), {"steps": STEPS, **silent, **settings})


def _ask(screen: Screen, pair: SentencePair, n_pairs: int) -> None:
    screen.say(
        "The Transformer was invented to translate. Its encoder reads a whole sentence, both ways; "
        "its decoder writes the translation token by token, and before each token looks back into "
        "the source, by cross-attention. Here is a sentence:"
    )
    screen.line(Text(f"    {pair.source}", "bold yellow"))
    screen.line("")
    screen.say(
        f"It says “{pair.target}”. The network below learns from {n_pairs:,} generated pairs of "
        "sentences. This one is not among them, nor any other in which Xuanyuan meets a budgerigar; "
        "and nothing tells it which word belongs to which."
    )


@dataclass
class Reading:
    """What a network makes of the sentence at one moment."""

    steps: list[Step]
    trace: Any
    """PairTrace: everything that its cross-attention did meanwhile"""
    alignment: Any
    """WordAlignment: the weights between the words of both sides"""


class Watch(Frames):
    """A training callback: once a second a frame with the translation and where it looks."""

    def __init__(self, act: Act, live: Any) -> None:
        super().__init__(live, seconds_between_lines=4.0)
        self.act = act
        self.right_after: float | None = None

    def draw(self, event: Any, seconds: float) -> None:
        """The translation as it is now, and where each word looked."""
        from budgerigar.inspection.labels import shorten

        act = self.act
        seen = act.read(event.network)
        right = act.count_right(event.network, N_QUICK_TESTS)
        written = act.written(seen.steps)
        if self.right_after is None and written == act.pair.target:
            self.right_after = seconds
        head = (
            f"{clock(seconds):>6} · step {event.step:>3} of {event.total_steps} · loss "
            f"{event.loss:.2f} nats per token · {right:>2} of {N_QUICK_TESTS} unseen right"
        )
        if self.live is None:
            act.screen.line(f"{head} · {shorten(written, MOST_WRITTEN)}")
            return
        legend = Text.assemble(
            (f"  a row: where {seen.alignment.head} looks for that word  ", "dim"), colour_scale()
        )
        parts = (Text("  " + head, "bold"), Text(), grid(seen.alignment), Text(), legend)
        self.live.update(Group(*parts), refresh=True)


class Act:
    """The network of the translation and what is told about it."""

    def __init__(self, screen: Screen, pair: SentencePair, corpus: Any, summary: Summary) -> None:
        self.screen, self.pair, self.corpus, self.summary = screen, pair, corpus, summary
        self.tokenizer = corpus.tokenizer
        self.source_tokenizer = corpus.source_tokenizer
        self.end_id: int = self.tokenizer.end_id
        self.source = [*self.source_tokenizer.encode(pair.source), self.source_tokenizer.end_id]
        self.tests = sentence_pairs(N_TESTS, seed=TEST_SEED, split="test")
        self.network: Any = None

    # -- what the network does ---------------------------------------------------------------------
    def read(self, network: Any, head: str | None = None, whole: bool = False) -> Reading:
        """Translate the sentence; and where `head` (None: a whole layer) looked meanwhile.

        whole: every value is recorded, as the page that is written about it needs.
        """
        from budgerigar.inspection.alignments import align
        from budgerigar.inspection.pair_traces import trace_pair

        steps = translate_greedily(network, self.source, self.end_id)
        seen = trace_pair(
            network,
            self.tokenizer,
            self.source,
            [step.token for step in steps],
            source_tokenizer=self.source_tokenizer,
            record=("*",) if whole else ("*cross_attention*",),
            name="the demo's translator",
        )
        words = spans_of(self.pair.source_words, "")
        return Reading(steps, seen, align(seen, head, source_spans=words))

    def written(self, steps: Sequence[Step]) -> str:
        """The translation as text."""
        return str(self.tokenizer.decode([s.token for s in steps if s.token != self.end_id]))

    def count_right(self, network: Any, n: int) -> int:
        """How many of the first `n` unseen sentences are translated exactly as their pair says."""
        from budgerigar.generation.translation import translate_texts
        from budgerigar.generation.translation_options import TranslationOptions

        tests, options = self.tests[:n], TranslationOptions(beam_size=1, batch_size=n)
        found = translate_texts(
            network, self.tokenizer, self.source_tokenizer, [t.source for t in tests], options
        )
        return sum(text == test.target for text, test in zip(found, tests, strict=True))

    # -- what is shown -----------------------------------------------------------------------------
    def train(self, folder: Path, recipe: Any) -> None:
        """Train, or take what an earlier demo trained."""
        self.screen.say("Watch the translation, and where each of its words looks in the source:")
        with self.screen.frames() as live:
            watch = Watch(self, live)
            done, fresh = trained(recipe, self.corpus, folder, [watch])
        self.network = done.network
        if not fresh:
            self.screen.say(
                f"It was trained by an earlier demo ({folder}); delete that folder to watch."
            )
        seconds = done.report.get("training_seconds") or 0.0
        right = self.count_right(self.network, N_TESTS)
        self.screen.line("")
        self.screen.say(
            f"Trained in {clock(seconds)} on this machine. Of {N_TESTS} sentences that it has never "
            f"read it translates {right} exactly as their pairs say, to the last word."
        )
        n = sum(p.numel() for p in self.network.parameters())
        how = f"exactly right; {n:,} parameters, {clock(seconds)}"
        self.summary.rows.append(("translation: unseen sentences", f"{right / N_TESTS:.1%}", how))

    def measure_heads(self) -> None:
        """Every head's alignment against the gold one; the best is what is looked at from here."""
        from budgerigar import models
        from budgerigar.inspection.alignment_errors import head_alignment_errors

        readers = self.tokenizer, self.source_tokenizer
        self.errors = head_alignment_errors(self.network, *readers, self.tests)
        fresh = models.build(self.network.config, seed=0).to(self.network.device).eval()
        self.untrained = head_alignment_errors(fresh, *readers, self.tests)
        self.head = self.errors.best[0]

    def translate(self) -> None:
        """Step by step until the end token."""
        seen = self.seen = self.read(self.network, self.head, whole=True)
        weights = seen.trace.attention(self.head, kind="cross").weights
        names = [label.strip("␣") for label in seen.trace.target_labels]
        self.screen.say(
            "Now slowly. The decoder is given a token that says start, and then, each time, what it "
            f"has written so far. Beside each choice: where head {self.head} looked most to make it."
        )
        broad = max(map(len, names))
        for n, step in enumerate(seen.steps):
            at = int(weights[n].argmax())
            line = Text.assemble((f"  {n + 1:>2}  ", "dim"), (f"{names[n]:<{broad}}", "bold green"))
            line.append(f" {step.probability:6.1%}")
            line.append(f"   looked at {seen.trace.source_labels[at]} ({weights[n, at]:.2f})")
            if step.second_probability > 0.001:
                second = self._label(step.second)
                line.append(f"   next best: {second} {step.second_probability:.1%}", "dim")
            self.screen.line(line)
        self.screen.line("")
        self.screen.say(ending(seen.steps, self.written(seen.steps), self.pair.target, self.end_id))

    def _label(self, token: int) -> str:
        from budgerigar.inspection.labels import spell

        return spell(self.tokenizer, [token]).labels[0].strip("␣")

    def align(self, folder: Path) -> None:
        """The words of both languages and the weights between them; how right that is."""
        (name, best), (_, chance) = self.errors.best, self.untrained.best
        self.screen.say(
            f"The same, word by word. The lines are the weights of head {name}, and a word that it "
            "links to nothing looked at the source's <end>:"
        )
        self.screen.show(self._drawn(self.seen.alignment))
        self.screen.say(verdict_on_alignment(name, best, chance, self.errors.diagonal))
        how = f"head {name}; untrained {chance.error_rate:.1%}"
        self.summary.rows.append(
            ("translation: alignment error rate", f"{best.error_rate:.1%}", how)
        )
        self.summary.pictures += [
            Path(self.seen.alignment.picture(folder / "alignment.png")),
            Path(self.seen.trace.heatmap(folder / f"cross-{name}.png", head=name, kind="cross")),
            Path(self.seen.trace.html(folder / "cross-attention.html", kind="cross")),
        ]

    def _drawn(self, alignment: Any) -> Text:
        """Two rows of words and the lines between them."""
        from budgerigar.inspection.alignment_drawing import drawing
        from budgerigar.inspection.palette import depth_of

        depth = depth_of(self.screen.console.file) if self.screen.animated else "none"
        text = drawing(alignment, columns=self.screen.width - 4, depth=depth)
        return Text.from_ansi("\n".join("  " + line for line in text.split("\n")))

    def blank_the_source(self) -> None:
        """The same network with nothing coming from the source."""
        from budgerigar.models.modes import without_source

        pets = [pet.english for pet in PETS]
        blind, seeing = (
            word_probabilities(network, self.tokenizer, self.source, PREFIX, pets)
            for network in (without_source(self.network), self.network)
        )
        answer = self.pair.target_words[-1]
        self.screen.say(
            f"And without the source? The decoder is made to write “{PREFIX}” and must go on, while "
            "everything that comes from the Chinese sentence is switched off:"
        )
        self.screen.show(guess_bars(likeliest(blind), answer))
        self.screen.say("With the source:")
        self.screen.show(guess_bars(likeliest(seeing), answer))
        self.screen.say(verdict_on_blindness(blind, seeing, answer))
        self.summary.rows.append(
            (
                f"translation: “{answer}”",
                f"{seeing[answer]:.1%}",
                f"without the source {blind[answer]:.1%}",
            )
        )


def grid(alignment: Any) -> Text:
    """Words of the translation (rows) over those of the source."""
    rows = alignment.target.texts[:MOST_ROWS]
    text = alignment_grid(alignment.weights, rows, [*alignment.source.texts, "<end>"])
    if len(alignment.target) > MOST_ROWS:
        text.append("\n  …", "dim")
    return text


def likeliest(chances: Mapping[str, float], top: int = 4) -> list[tuple[str, float]]:
    """The likeliest words, and what is left for all others."""
    best = sorted(chances.items(), key=lambda item: -item[1])[:top]
    return [*best, ("(other words)", max(0.0, 1 - sum(p for _, p in best)))]


def ending(steps: Sequence[Step], written: str, right: str, end_id: int) -> str:
    """How the translation ended, and whether it is right."""
    if steps[-1].token != end_id:
        return f"After {len(steps)} tokens it had not come to an end: “{written}”."
    stops = f"It chose <end> by itself, which ends the translation: “{written}”"
    return f"{stops}. That is right." if written == right else f"{stops}. Right would be “{right}”."


def verdict_on_alignment(name: str, best: Any, chance: Any, diagonal: Any) -> str:
    """What the error rates say, in words."""
    told = (
        f"The generated pairs know which words belong together. Measured on {best.sentences} unseen "
        f"ones, the links of head {name} have an alignment error rate of {best.error_rate:.1%}. The "
        f"best head of the same network before training has {chance.error_rate:.1%}; linking each "
        f"word to the one at the same place, {diagonal.error_rate:.1%}."
    )
    without = min(chance.error_rate, diagonal.error_rate)
    if best.error_rate < 0.5 * without:
        return f"{told} Nobody told it: it is what translating needs."
    if best.error_rate < 0.8 * without:
        return (
            f"{told} Nobody told it; and it errs, for a head may look at any place that knows the "
            "word, not only at the word."
        )
    return f"{told} So this network does not keep its alignment in one head."


def verdict_on_blindness(
    blind: Mapping[str, float], seeing: Mapping[str, float], answer: str
) -> str:
    """Whether it wavers without the source, and not with it."""
    first, second, third = [name for name, _ in likeliest(blind)[:3]]
    wavers, sure = max(blind.values()) < 0.5, seeing[answer] > 0.9
    told = (
        f"Without the source its favourites are {first} ({blind[first]:.0%}), {second} "
        f"({blind[second]:.0%}) and {third} ({blind[third]:.0%}); with it “{answer}” gets "
        f"{seeing[answer]:.1%}."
    )
    if wavers and sure:
        return f"{told} What to write it knows from the source, how to write it from the decoder."
    if not wavers:
        return f"{told} So it does not waver here: it has a favourite."
    return f"{told} So with the source it is not sure either: it has not learnt enough."
