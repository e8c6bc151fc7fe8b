"""Texts whose links are known: generated stories, and Python's own standard library for brackets.

A link is between words (stories) or characters (code); `placed` finds it among a model's tokens. The
weights on a word's tokens are summed, the rows of a word's tokens averaged (Clark et al. 2019,
section 5). Words that share a token count as one; a link within one is left out.
"""

from __future__ import annotations

import io
import re
import sys
import sysconfig
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from budgerigar.inspection.alignments import Words, words_of
from budgerigar.inspection.labels import Spelling, spell
from budgerigar.inspection.role_patterns import backwards, linked
from budgerigar.said import said
from budgerigar.text.stories import Story, generate_stories
from budgerigar.text.story_grammar import spans_of

Links = list[tuple[int, int]]

MODULES = ("textwrap", "json/decoder", "heapq", "shlex", "fnmatch", "csv", "string", "calendar",
           "configparser", "difflib", "pprint", "tarfile")  # fmt: skip
CODE_CHARACTERS = 500
MOST_FILLER = 20  # words, so that a story fits a small context
_PAIRS = {")": "(", "]": "[", "}": "{"}
_FEW_BRACKETS = 4


@dataclass(frozen=True)
class GoldText:
    """A text and its links by role, each (from, to).

    words: character spans that the links count; None: the links are between characters.
    """

    text: str
    words: tuple[tuple[int, int], ...] | None
    links: dict[str, Links]


@cache
def story_texts(
    n: int, language: str = "en", causal: bool = True, seed: int = 0
) -> tuple[GoldText, ...]:
    """`n` short generated stories that no model was trained on (split "test").

    Of eight times as many those with the most of what is rare: pronouns and brackets.
    """
    drawn = generate_stories(8 * n, seed, language, (0, MOST_FILLER), split="test")
    drawn.sort(
        key=lambda story: -sum(link[0] in ("antecedent", "bracket") for link in story.word_links)
    )
    return tuple(story_gold(story, causal) for story in drawn[:n])


def story_gold(story: Story, causal: bool) -> GoldText:
    """The links of one story. causal: each from the later word to the earlier, as heads there look."""
    by_kind: dict[str, Links] = {}
    for kind, start, end in story.word_links:
        by_kind.setdefault(kind, []).append((start, end))
    references = _references(story, by_kind.get("antecedent", []), causal)
    links = {
        "reference": references,
        "reference_verb": _by_verb(by_kind.get("subject", []), references, causal),
        "subject": by_kind.get("subject", []),
        "adjective": by_kind.get("adjective", []),
        "bracket": by_kind.get("bracket", []),
    }
    if causal:
        links = {role: backwards(found) for role, found in links.items()}
        links["reference_needed"] = _needed(references, by_kind.get("told", []))
        links["gap"] = _recalls(story)
    separator = " " if story.language == "en" else ""
    return GoldText(story.text, tuple(spans_of(story.words, separator)), links)


def _references(story: Story, antecedents: Links, causal: bool) -> Links:
    """From each pronoun to every mention of what it stands for (causal: every earlier one)."""
    found: Links = []
    for pronoun, noun in antecedents:
        mentions = story.word_mentions if noun in story.word_mentions else (noun,)
        found += [(pronoun, m) for m in mentions if m < pronoun or not causal]
    return found


def _needed(references: Links, told: Links) -> Links:
    """The references of those pronouns behind which a word depends on which pet it is ("it sang"):
    there a model that predicts the next word has a use for them.
    """
    depends = {word for word, _ in told}
    return [(pronoun, noun) for pronoun, noun in references if pronoun + 1 in depends]


def _by_verb(subjects: Links, references: Links, causal: bool) -> Links:
    """From each verb said of a pronoun to the mentions of what that stands for."""
    return [
        (verb, noun)
        for verb, subject in subjects
        for pronoun, noun in references
        if pronoun == subject and (noun < verb or not causal)
    ]


def _recalls(story: Story) -> Links:
    """From the word before the gap, where the pet is to be told, to every mention of it before."""
    gap = next(n for n, at in enumerate(_starts(story)) if at == story.cloze.span[0])
    return [(gap - 1, mention) for mention in story.word_mentions if mention < gap - 1]


def _starts(story: Story) -> list[int]:
    return [start for start, _ in spans_of(story.words, " " if story.language == "en" else "")]


# -- brackets of code ------------------------------------------------------------------------------


@cache
def code_texts(n: int) -> tuple[GoldText, ...]:
    """Up to `n` pieces of Python's own standard library, beginning at a function; none where it is
    not here as source files.
    """
    found: list[GoldText] = []
    for name in MODULES:
        found += _pieces(Path(sysconfig.get_path("stdlib")) / f"{name}.py", 2)
        if len(found) >= n:
            break
    return tuple(found[:n])


def python_name() -> str:
    """Whose standard library it is."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return said("Python {version}'s standard library", version=version)


def _pieces(path: Path, most: int) -> list[GoldText]:
    try:
        source = path.read_text(encoding="utf-8")
        pairs = bracket_pairs(source)
    except (OSError, SyntaxError, tokenize.TokenError, UnicodeDecodeError):
        return []
    found: list[GoldText] = []
    at = reach = 0
    for line in source.splitlines(keepends=True):
        start, at = at, at + len(line)
        if not line.lstrip().startswith("def ") or start < reach:
            continue
        reach = start + CODE_CHARACTERS
        inside = [(a - start, b - start) for a, b in pairs if start <= b < a < reach]
        if len(inside) >= _FEW_BRACKETS:
            found.append(GoldText(source[start:reach], None, {"code_bracket": inside}))
        if len(found) == most:
            break
    return found


def bracket_pairs(source: str) -> Links:
    """(place of a closing bracket, place of its opening one) in Python source; strings and comments
    hold none.

    Raises:
        SyntaxError, tokenize.TokenError: it is no Python.
    """
    starts = np.cumsum([0, *map(len, source.splitlines(keepends=True))])
    waiting: list[tuple[str, int]] = []
    found: Links = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.OP:
            continue
        place = int(starts[token.start[0] - 1]) + token.start[1]
        if token.string in _PAIRS.values():
            waiting.append((token.string, place))
        elif token.string in _PAIRS and waiting:
            opening, at = waiting.pop()
            if opening == _PAIRS[token.string]:
                found.append((place, at))
    return found


# -- among the tokens ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Placed:
    """The links of a text among a model's tokens: by role (G,G+1) of bool between words, the last
    column being on no word, or (words None) (T,T) between tokens.
    """

    words: Words | None
    right: dict[str, np.ndarray]


def placed(gold: GoldText, spelling: Spelling) -> Placed:
    """Find the links among the tokens of `spelling`, which may be a beginning of the text."""
    if gold.words is None:
        n = len(spelling)
        at = written_places(gold.text, spelling.text)
        tokens = {role: _of_characters(links, at, spelling) for role, links in gold.links.items()}
        return Placed(None, {role: linked((n, n), links) for role, links in tokens.items()})
    words = words_of(spelling, written_spans(gold.text, gold.words, spelling.text))
    group = {word: g for g, members in enumerate(words.members) for word in members}
    shape = (len(words), len(words) + 1)
    right = {}
    for role, links in gold.links.items():
        apart = [(group[a], group[b]) for a, b in links if group[a] != group[b]]
        right[role] = linked(shape, apart)
    return Placed(words, right)


def _of_characters(links: Links, at: dict[int, int], spelling: Spelling) -> Links:
    """Links between characters of a text as links between the tokens that hold them."""
    holder: dict[int, int] = {}
    for token, (start, end) in enumerate(spelling.spans):
        for character in range(start, end):
            holder.setdefault(character, token)
    tokens = [(holder.get(at.get(a, -1)), holder.get(at.get(b, -1))) for a, b in links]
    return [(a, b) for a, b in tokens if a is not None and b is not None and a != b]


def written_places(text: str, written: str) -> dict[int, int]:
    """Where each character of `text` that is no blank stands in what its tokens spell.

    That may be in lower case and spaced otherwise (WordPiece), and end sooner; {} where it is another
    text.
    """
    both = [[n for n, c in enumerate(one) if not c.isspace()] for one in (text, written)]
    found = dict(zip(*both, strict=False))
    same = all(text[a].lower() == written[b].lower() for a, b in found.items())
    return found if same and len(both[1]) <= len(both[0]) else {}


def written_spans(
    text: str, spans: Sequence[tuple[int, int]], written: str
) -> list[tuple[int, int]]:
    """Spans of characters of `text` in what its tokens spell; beyond its end where that was cut off."""
    at = written_places(text, written)
    end = len(written)
    return [
        (at[a], at[b - 1] + 1) if a in at and b - 1 in at else (end + a, end + b) for a, b in spans
    ]


def holds(tokenizer: Any, text: str) -> bool:
    """Whether a tokenizer writes a text, but for case and blanks, with tokens met in training."""
    from budgerigar.errors import UserError

    try:
        ids = list(tokenizer.encode(text))
    except UserError:
        return False
    never = getattr(tokenizer, "never_seen", None)
    if not ids or (never is not None and bool(np.asarray(never)[ids].any())):
        return False
    whole = sum(not c.isspace() for c in text)
    return len(written_places(text, spell(tokenizer, ids).text)) == whole > 0


def unknown_words(tokenizer: Any, texts: Sequence[str], most: int = 4) -> Iterator[str]:
    """Words of texts that a tokenizer does not hold, the first `most`."""
    seen: set[str] = set()
    for word in (word for text in texts for word in re.findall(r"\w+|[^\w\s]", text)):
        if len(seen) >= most:
            return
        if word not in seen and not holds(tokenizer, f" {word}") and not holds(tokenizer, word):
            seen.add(word)
            yield word
