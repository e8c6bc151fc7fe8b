"""The word game of the demo: an n-gram fails, a small GPT learns it, one head turns out to do it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group
from rich.text import Text

from budgerigar.evaluation.cloze import Filled, fill_gaps, gap_ids, guesses
from budgerigar.experiments.demo_runs import trained
from budgerigar.experiments.demo_screen import (
    Frames,
    Screen,
    clock,
    colour_scale,
    guess_bars,
    level,
    story_text,
    weighted_words,
)
from budgerigar.text.stories import CHANCE, Story, cloze_set, lesson_passage

if TYPE_CHECKING:
    from budgerigar.experiments.demo import Summary

ORDER = 5
N_TESTS = 400
N_QUICK_TESTS = 40  # looked at every second while it trains


def word_game(
    screen: Screen, folder: Path, settings: dict[str, Any], summary: Summary, started: float
) -> None:
    """The whole first part."""
    from budgerigar.training.corpora import gather_corpus

    screen.heading("1  The word game")
    story = lesson_passage(48)
    _ask(screen, story)
    recipe = game_recipe(settings)
    if screen.animated:
        with screen.console.status("writing 20,000 stories to learn from …"):
            corpus = gather_corpus(recipe.text)
    else:
        screen.line(f"writing {recipe.text.n_stories:,} stories to learn from …\n")
        corpus = gather_corpus(recipe.text)
    tests = cloze_set(N_TESTS, seed=1, filler_words=48)
    game = Game(screen, story, tests, corpus, summary, started)
    game.let_the_ngram_try()
    game.train_the_gpt(folder, recipe)
    game.name_the_head()
    game.switch_it_off()
    game.draw(folder)


def game_recipe(settings: Mapping[str, Any]) -> Any:
    """How the GPT of the word game is trained, `settings` apart."""
    from budgerigar.training.recipe import load_recipe, override

    return override(load_recipe("stories"), {"baselines": False, "sample_every": 0, **settings})


def _ask(screen: Screen, story: Story) -> None:
    words = story.cloze.prefix.split()
    mentioned = [n for n, word in enumerate(words) if word == story.cloze.answer]
    screen.say("Here is a story with a gap. What belongs into it?")
    screen.show(_indented(story_text(words, dict.fromkeys(mentioned, "bold yellow"))))
    screen.say(
        f"You know at once: a {story.cloze.answer}, named {story.cloze.distance_words} words before "
        "the gap. Nothing near the gap tells. (The story is generated, like all in this part; the "
        "models below have never read it, nor any other in which that person has that pet.)"
    )


def _indented(text: Text) -> Any:
    from rich.padding import Padding

    return Padding(text, (0, 2, 0, 2))


@dataclass
class Glance:
    """What a network makes of the story at one moment."""

    guesses: list[tuple[str, float]]
    head: str
    """the head that looks at the answer hardest"""
    words: list[float]
    """how much of that head's weight each word before the gap gets"""
    on_answer: list[list[float]]
    """layer by layer, head by head: the weight on the answer's mention"""

    @property
    def weight(self) -> float:
        """Of the hardest-looking head on the answer."""
        return max(max(row) for row in self.on_answer)


def glance(network: Any, tokenizer: Any, story: Story, start_id: int | None) -> Glance:
    """Trace the story up to the gap; the last token's row is what fills it."""
    from budgerigar.inspection.traces import trace

    ids, _ = gap_ids(tokenizer, story, start_id)
    seen = trace(network, tokenizer, ids, record=())
    words = story.cloze.prefix.split()
    owners = word_of_token(words, seen.spelling.spans)
    mention = max(n for n, word in enumerate(words) if word == story.cloze.answer)
    on_answer: list[list[float]] = []
    best: tuple[float, str, list[float]] = (-1.0, "", [])
    for head in seen.heads():
        row = head.weights[-1]
        shares = [float(row[owners == n].sum()) for n in range(len(words))]
        if head.layer == len(on_answer):
            on_answer.append([])
        on_answer[-1].append(shares[mention])
        best = max(best, (shares[mention], head.name, shares))
    return Glance(guesses(network, tokenizer, ids), best[1], best[2], on_answer)


def word_of_token(words: Sequence[str], spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """(T,) number of the word that each token belongs to; -1 for tokens without letters."""
    edges = np.cumsum([0, *(len(word) + 1 for word in words)])  # words stand one blank apart
    last = np.array([end - 1 for _, end in spans])
    empty = np.array([start == end for start, end in spans])
    return np.where(empty, -1, np.searchsorted(edges, last, side="right") - 1)


class Watch(Frames):
    """A training callback: once a second a frame with the guess and the row of weights."""

    def __init__(self, game: Game, live: Any) -> None:
        super().__init__(live, seconds_between_lines=5.0)
        self.game = game
        self.lit: float | None = None

    def draw(self, event: Any, seconds: float) -> None:
        """The guess as it is now, and the row of weights."""
        game, began = self.game, time.perf_counter()
        seen = glance(event.network, event.tokenizer, game.story, game.start_id)
        quick = fill_gaps(event.network, event.tokenizer, game.tests[:N_QUICK_TESTS], game.start_id)
        if game.summary.first_look is None:
            game.summary.first_look = began - game.began
        if self.lit is None and seen.weight > 0.5:
            self.lit = seconds
        if self.live is None:
            game.screen.line(_log_line(event, seen, quick, seconds, game.story))
        else:
            self.live.update(_frame(event, seen, quick, seconds, game.story), refresh=True)


def _progress(event: Any, quick: Filled, seconds: float) -> str:
    return (
        f"{clock(seconds):>6} · step {event.step:>3} of {event.total_steps} · "
        f"loss {event.loss:.2f} nats per word · {quick.right:>2} of {quick.n} unseen gaps right"
    )


def _log_line(event: Any, seen: Glance, quick: Filled, seconds: float, story: Story) -> str:
    word, probability = seen.guesses[0]
    return (
        f"{_progress(event, quick, seconds)} · guess: {word} {probability:.0%} · head {seen.head} "
        f"looks at “{story.cloze.answer}” with {seen.weight:.2f}"
    )


def _frame(event: Any, seen: Glance, quick: Filled, seconds: float, story: Story) -> Group:
    heads = Text("  on “" + story.cloze.answer + "”, head by head:  ", "dim")
    for layer, row in enumerate(seen.on_answer):
        heads.append(f" layer {layer} ", "dim")
        for weight in row:
            heads.append(level(weight), "bold yellow" if weight > 0.5 else "yellow")
            heads.append(" ")
    return Group(
        Text("  " + _progress(event, quick, seconds), "bold"),
        Text(),
        _indented(weighted_words(story.cloze.prefix.split(), seen.words)),
        Text(),
        Text.assemble(
            ("  how much the gap looks at each word, through head ", "dim"),
            (seen.head, "bold"),
            colour_scale(),
        ),
        heads,
        Text(),
        guess_bars(seen.guesses, story.cloze.answer),
    )


class Game:
    """The models of the word game and what is told about them."""

    def __init__(
        self,
        screen: Screen,
        story: Story,
        tests: list[Story],
        corpus: Any,
        summary: Summary,
        began: float,
    ) -> None:
        self.screen, self.story, self.tests, self.corpus = screen, story, tests, corpus
        self.summary, self.began = summary, began
        self.tokenizer = corpus.tokenizer
        self.start_id: int | None = corpus.train.end_id
        self.network: Any = None
        self.whole: Filled = Filled(0, 0, 0.0)

    def let_the_ngram_try(self) -> None:
        """Count, guess, fail."""
        from budgerigar.models.configs import NgramConfig
        from budgerigar.models.ngram import NgramModel

        config = NgramConfig(vocab_size=self.tokenizer.vocab_size, order=ORDER)
        ngram = NgramModel.fit(self.corpus.train.tokens, config, end_id=self.start_id)
        ids, _ = gap_ids(self.tokenizer, self.story, self.start_id)
        near = " ".join(self.story.cloze.prefix.split()[-(ORDER - 1) :])
        found = fill_gaps(ngram, self.tokenizer, self.tests, self.start_id)
        self.screen.say(
            f"An n-gram has counted which word follows which {ORDER - 1} in "
            f"{self.corpus.train.n_tokens:,} words of such stories. Before this gap it sees only "
            f"“{near}”, so it can but say which pets are common there:"
        )
        self.screen.show(guess_bars(guesses(ngram, self.tokenizer, ids), self.story.cloze.answer))
        self.screen.say(
            f"Of {found.n} stories it has not read it fills {found.accuracy:.0%} right; blind "
            f"chance is {CHANCE:.0%}. More counting does not help: the word lies too far back."
        )
        self.summary.rows.append(
            ("word game: n-gram", f"{found.accuracy:.1%}", f"counts up to {ORDER} words in a row")
        )

    def train_the_gpt(self, folder: Path, recipe: Any) -> None:
        """Train, or take what an earlier demo trained."""
        self.screen.say(
            "Now a small GPT. Each of its attention heads may, at every word, look at all words "
            "before it and share out a weight of 1 among them; what to look at is not told, it is "
            "learnt. Watch the row of weights from the gap, and the guess:"
        )
        with self.screen.frames() as live:
            watch = Watch(self, live)
            done, fresh = trained(recipe, self.corpus, folder, [watch])
        self.network = done.network
        self.whole = fill_gaps(self.network, self.tokenizer, self.tests, self.start_id)
        seconds = done.report.get("training_seconds") or 0.0
        if not fresh:
            self._show_again(folder)
        self.screen.line("")
        lit = f" The head lit up after {clock(watch.lit)}." if watch.lit is not None else ""
        self.screen.say(
            f"Trained in {clock(seconds)} on this machine.{lit} Of the {self.whole.n} unseen stories "
            f"it now fills {self.whole.accuracy:.1%} right."
        )
        n = sum(p.numel() for p in self.network.parameters())
        how = f"{n:,} parameters, {clock(seconds)}"
        self.summary.rows.append(("word game: GPT", f"{self.whole.accuracy:.1%}", how))

    def _show_again(self, folder: Path) -> None:
        self.screen.say(
            f"It was trained by an earlier demo ({folder}); delete that folder to watch."
        )
        seen = glance(self.network, self.tokenizer, self.story, self.start_id)
        if self.summary.first_look is None:
            self.summary.first_look = time.perf_counter() - self.began
        words = self.story.cloze.prefix.split()
        self.screen.show(_indented(weighted_words(words, seen.words)))
        self.screen.show(guess_bars(seen.guesses, self.story.cloze.answer))

    def name_the_head(self) -> None:
        """Which head links the gap to the word, beside what chance and distance would give."""
        from budgerigar.inspection.traces import trace

        ids, _ = gap_ids(self.tokenizer, self.story, self.start_id)
        self.trace = trace(self.network, self.tokenizer, ids, name="the demo's GPT")
        answer = self.story.cloze.answer
        self.links = self.trace.links(len(ids) - 1, answer, key_occurrence=-1)
        best = self.links[0]
        self.screen.say(
            "Which head did that? All heads by the weight between the gap and the word:"
        )
        self.screen.line(self.links.table(top=4))
        self.screen.line("")
        beside = (
            ""
            if best.distance is None
            else (f"Between other words as far apart the same head puts {best.distance:.3f}")
        )
        fresh = (
            ""
            if best.untrained is None
            else (f", before training it put {best.untrained:.3f} there")
        )
        self.screen.say(
            f"Head {best.name} gives {best.weight:.2f} of its weight to “{answer}”. {beside}{fresh}: "
            "it is neither the distance nor chance, it has learnt to look for the pet."
        )

    def switch_it_off(self) -> None:
        """The same guess without that head, without all that do the same, and without another."""
        best, other = self.links[0].name, self.links[-1].name
        ids, _ = gap_ids(self.tokenizer, self.story, self.start_id)
        self.screen.say(f"And without it? The same network with head {best} switched off guesses:")
        without = guesses(self._without([best]), self.tokenizer, ids)
        self.screen.show(guess_bars(without, self.story.cloze.answer))
        lost = self._accuracy_without([best])
        told = [f"With all heads {self.whole.accuracy:.1%} of the unseen gaps are right"]
        told.append(f"without {best} {lost:.1%}")
        alike = [link.name for link in self.links if link.weight > 0.1]
        if len(alike) > 1 and lost > 0.5:
            both = self._accuracy_without(alike)
            told.append(f"other heads had learnt the same: without {', '.join(alike)} {both:.1%}")
        kept = self._accuracy_without([other])
        told.append(f"without a head that does something else ({other}) {kept:.1%}")
        self.screen.say("; ".join(told) + ".")

    def _accuracy_without(self, names: list[str]) -> float:
        """Of the unseen gaps; also a row of the closing table."""
        found = fill_gaps(self._without(names), self.tokenizer, self.tests, self.start_id)
        label = f"word game: GPT without {', '.join(names)}"
        self.summary.rows.append((label, f"{found.accuracy:.1%}", "output of the head set to zero"))
        return found.accuracy

    def _without(self, names: list[str]) -> Any:
        from budgerigar.inspection.editing import EditedNetwork, plan_edit

        return EditedNetwork(self.network, plan_edit(self.network, names))

    def draw(self, folder: Path) -> None:
        """Pictures of that head and of all heads."""
        name = self.links[0].name
        for path, options in (
            (folder / f"head-{name}.png", {"head": name}),
            (folder / "all-heads.png", {}),
        ):
            self.summary.pictures.append(Path(self.trace.heatmap(path, **options)))
