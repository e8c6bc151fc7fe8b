"""The texts on which head roles are measured, for whatever kind of model it is.

| probe | for | roles |
| --- | --- | --- |
| random tokens, repeated after a distance that differs from text to text | all | duplicate, induction |
| stories (generated) | one stack; an encoder's or a decoder's side | places, rest, gold links |
| code of Python's standard library | the same | brackets |
| sentence pairs (generated) | encoder-decoders | places, rest, word alignment |

Where a tokenizer cannot write a text, the probe says so instead of measuring something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from budgerigar.inspection import role_gold as gold
from budgerigar.inspection import role_patterns as patterns
from budgerigar.inspection.alignment_errors import GoldPair, gold_of
from budgerigar.inspection.alignments import Words, words_of
from budgerigar.inspection.pair_traces import pair_inputs, start_of
from budgerigar.inspection.passes import pass_inputs, run_together
from budgerigar.inspection.sites import Site
from budgerigar.inspection.traces import Trace, trace
from budgerigar.said import Said, said

Array = np.ndarray

LONGEST = 96  # tokens of a text at most: enough for every role, quick for a large model
N_RANDOM, N_STORIES, N_CODE, N_PAIRS = 12, 32, 20, 60
_FEWEST = 4  # texts that a tokenizer must hold
_LONGEST_REPEAT = 32
_FEW_TOKENS = 12  # of which some must stand twice in a half


@dataclass(frozen=True)
class Asked:
    """One role of one kind of attention on one text. right: (Q,K) between tokens, or, with the words
    of both sides, (words of the rows, words of the columns + 1 for none).
    """

    role: str
    site: tuple[str, str]
    right: Array
    rows: Words | None = None
    columns: Words | None = None


@dataclass(frozen=True)
class Example:
    """A text, or a source and a target, and what is asked of its trace. natural: entropy, confidence
    and the sink rate are measured on it.
    """

    ids: list[int]
    ask: Callable[[Trace], list[Asked]]
    source: list[int] | None = None
    natural: bool = False


@dataclass(frozen=True)
class Probe:
    """Texts of one kind. on: what they are, in words; reason: why there are none; roles: what they
    are for.
    """

    on: str
    roles: tuple[str, ...]
    sites: tuple[tuple[str, str], ...]
    examples: list[Example] = field(default_factory=list)
    reason: str | None = None


@dataclass(frozen=True)
class Reader:
    """A model as far as texts for it are to be chosen."""

    network: Any
    tokenizer: Any
    source_tokenizer: Any = None
    start_id: int | None = None

    @property
    def assembly(self) -> str:
        """ "decoder-only", "encoder-only" or "encoder-decoder" """
        found = getattr(self.network.config, "assembly", None)
        return str(found or ("encoder-decoder" if self.paired else "decoder-only"))

    @property
    def paired(self) -> bool:
        """It reads a source."""
        both = [getattr(self.network, part, None) is not None for part in ("encoder", "decoder")]
        return all(both)

    @property
    def longest(self) -> int:
        """Tokens of a text, start and end included."""
        return min(self.network.context_length or LONGEST, LONGEST)

    def traces(self, examples: Sequence[Example], network: Any = None) -> Iterator[Trace]:
        """One pass over several examples, by the model or by another network of its shape."""
        network = network or self.network
        given = [self.inputs(example) for example in examples]
        tokenizers = {"source_tokenizer": self.source_tokenizer or self.tokenizer}
        for example, ran in zip(examples, run_together(network, given), strict=True):
            source = {} if example.source is None else {"source": example.source, **tokenizers}
            start = None if source else self.start_id
            yield trace(network, self.tokenizer, example.ids, start, **source, record=(), ran=ran)

    def inputs(self, example: Example) -> dict[str, Tensor]:
        """What one pass over an example is given, as `trace` gives it."""
        if example.source is None:
            start, ids = self.start_id, example.ids
            opening = [] if start is None or ids[:1] == [start] else [start]
            return pass_inputs(self.network, [*opening, *ids], start)
        closing = (self.source_tokenizer or self.tokenizer).end_id
        read = [start_of(self.network, self.tokenizer), *example.ids]
        return pair_inputs(self.network, [*example.source, closing], read)


def probes(reader: Reader) -> list[Probe]:
    """All texts for a model."""
    found = [repeats(reader)]
    if reader.paired:
        found.append(pairs(reader))
        for of in ("encoder", "decoder"):
            found += [stories(reader, of), code(reader, of)]
        return found
    of = "encoder" if reader.assembly == "encoder-only" else "decoder"
    return [*found, stories(reader, of), code(reader, of)]


# -- random tokens, repeated -----------------------------------------------------------------------


def repeats(reader: Reader, n: int = N_RANDOM, seed: int = 0) -> Probe:
    """Sequences r random tokens twice, r another one in each, so that no fixed distance is right."""
    sites = (("decoder", "self"), ("encoder", "self"))
    roles = ("duplicate", "induction")
    room = reader.longest - 1 - int(reader.assembly == "encoder-only")
    known = [_known_ids(t) for t in (reader.tokenizer, reader.source_tokenizer or reader.tokenizer)]
    fewest_known = min(map(len, known))
    # all tokens of a half differ where there are enough of them
    most = min(room // 2, _LONGEST_REPEAT, max(fewest_known, _FEW_TOKENS))
    fewest = max(3, most // 3)
    on = said(
        "{n} sequences of {fewest} to {most} random tokens, each given twice",
        n=n,
        fewest=fewest,
        most=most,
    )
    if most < fewest or fewest_known < 2:
        reason = said("{n} positions are too few to repeat anything", n=reader.longest)
        return Probe(on, roles, sites, reason=reason)
    rng = np.random.default_rng(seed)
    lengths = [round(length) for length in np.linspace(fewest, most, n)]
    examples = []
    for r in lengths:
        ids, source = (_twice(rng, pool, r) for pool in known)
        examples.append(Example(ids, _ask_tokens, source if reader.paired else None))
    return Probe(on, roles, sites, examples)


def _known_ids(tokenizer: Any) -> Array:
    """Ids that a model has met, special tokens left out."""
    known = np.ones(tokenizer.vocab_size, dtype=bool)
    never = getattr(tokenizer, "never_seen", None)
    if never is not None:
        known &= ~np.asarray(never)
    known[list(tokenizer.special_ids.values())] = False
    return np.flatnonzero(known)


def _twice(rng: np.random.Generator, pool: Array, r: int) -> list[int]:
    drawn = rng.choice(pool, size=r, replace=len(pool) < r)
    return [int(token) for token in (*drawn, *drawn)]


def _ask_tokens(seen: Trace) -> list[Asked]:
    found = []
    for site in _selves(seen):
        ids, causal = ids_of(seen, site), site.of == "decoder"
        for role, right in (
            ("duplicate", patterns.duplicates(ids, causal)),
            ("induction", patterns.after_duplicates(ids, causal)),
        ):
            found.append(Asked(role, (site.of, site.kind), right))
    return found


def ids_of(seen: Trace, site: Site) -> list[int]:
    """The tokens along the rows of a kind of self-attention."""
    if site.of == "encoder" and hasattr(seen, "source_ids"):
        return list(seen.source_ids)
    return list(seen.ids)


def _selves(seen: Trace) -> list[Site]:
    return [site for site in seen.sites if site.kind == "self"]


# -- stories and code ------------------------------------------------------------------------------

_GOLD = (
    "reference",
    "reference_needed",
    "reference_verb",
    "gap",
    "subject",
    "adjective",
    "bracket",
)
_PLACES = ("previous", "next", "self", "first", "last")


def stories(reader: Reader, of: str, n: int = N_STORIES) -> Probe:
    """Generated stories, in English or, where the tokenizer holds only that, in Chinese."""
    roles = _GOLD if reader.paired else (*_PLACES, *_GOLD)
    tokenizer = _tokenizer_of(reader, of)
    tried: list[str] = []
    for language, name in (("en", said("English")), ("zh", said("Chinese"))):
        texts = gold.story_texts(n, language, causal=of == "decoder")
        held = [text for text in texts if gold.holds(tokenizer, text.text)]
        if len(held) >= _FEWEST:
            on = said("{n} generated {language} stories", n=len(held), language=name)
            return _probe_of(reader, of, held, on, roles)
        tried = tried or [text.text for text in texts]
    reason = said(
        "the tokenizer does not hold the words of the generated stories, English or Chinese"
    )
    reason = _with_examples(reason, tokenizer, tried)
    if reader.paired:
        return Probe(said("generated stories"), roles, ((of, "self"),), reason=reason)
    return _places_on_random(reader, of, reason)


def _places_on_random(reader: Reader, of: str, reason: str) -> Probe:
    """The roles by place need no words: they are measured on random tokens where stories cannot be."""
    pool, rng = _known_ids(reader.tokenizer), np.random.default_rng(1)
    n = max(2, reader.longest - 2)
    ids = [[int(t) for t in rng.choice(pool, size=n)] for _ in range(N_RANDOM)]
    examples = [Example(one, _ask_places, None, natural=True) for one in ids]
    on = said("{n} sequences of random tokens", n=N_RANDOM)
    return Probe(on, (*_PLACES, *_GOLD), ((of, "self"),), examples, reason)


def code(reader: Reader, of: str, n: int = N_CODE) -> Probe:
    """Pieces of Python's own standard library, for their brackets."""
    texts = gold.code_texts(n)
    tokenizer = _tokenizer_of(reader, of)
    held = [text for text in texts if gold.holds(tokenizer, text.text)]
    on = said("{n} pieces of {library}", n=len(held), library=gold.python_name())
    roles = ("code_bracket",)
    if len(held) >= _FEWEST:
        return _probe_of(reader, of, held, on, roles)
    reason = said("Python's standard library is not here as source files")
    if texts:
        reason = said("the tokenizer does not hold Python code")
        reason = _with_examples(reason, tokenizer, [text.text for text in texts])
    return Probe(on, roles, ((of, "self"),), reason=reason)


def _with_examples(reason: Said, tokenizer: Any, texts: Sequence[str]) -> Said:
    """The reason, with some words that the tokenizer does not hold."""
    words = gold.unknown_words(tokenizer, texts)
    if not words:
        return reason
    examples = ", ".join(f"“{word}”" for word in words)
    return said("{reason} ({examples} …)", reason=reason, examples=examples)


def _tokenizer_of(reader: Reader, of: str) -> Any:
    source_side = reader.paired and of == "encoder" and reader.source_tokenizer is not None
    return reader.source_tokenizer if source_side else reader.tokenizer


def _probe_of(
    reader: Reader, of: str, texts: Sequence[gold.GoldText], on: str, roles: tuple[str, ...]
) -> Probe:
    """Each text as one example; of an encoder-decoder on one side, the other being empty."""
    tokenizer = _tokenizer_of(reader, of)
    closing = list(getattr(tokenizer, "closing_ids", ()))
    room = reader.longest - 1 - len(closing)
    natural = "previous" in roles
    examples = []
    for text in texts:
        ids = [int(token) for token in tokenizer.encode(text.text)][:room]
        ask = _ask_gold(text, of, natural)
        if not reader.paired:
            examples.append(Example(ids + closing if of == "encoder" else ids, ask, None, natural))
        elif of == "encoder":
            examples.append(Example([], ask, ids))
        else:
            examples.append(Example(ids, ask, []))
    return Probe(on, roles, ((of, "self"),), examples)


def _ask_gold(text: gold.GoldText, of: str, natural: bool) -> Callable[[Trace], list[Asked]]:
    def ask(seen: Trace) -> list[Asked]:
        site = next(site for site in _selves(seen) if site.of == of)
        found = gold.placed(text, site.query_spelling)
        asked = [
            Asked(role, (of, "self"), right, found.words, found.words)
            for role, right in found.right.items()
        ]
        return asked + (_ask_places(seen) if natural else [])

    return ask


def _ask_places(seen: Trace) -> list[Asked]:
    """The roles by place, of every kind of attention of a trace."""
    found = []
    for site in seen.sites:
        shape = (len(site.query_spelling), len(site.key_spelling))
        rights = {"last": patterns.at_column(shape, shape[1] - 1)}
        if site.kind == "self":
            offsets = {"previous": 1, "self": 0, "next": -1}
            rights |= {role: patterns.at_offset(shape[0], at) for role, at in offsets.items()}
            rights["first"] = patterns.at_column(shape, 0)
        found += [Asked(role, (site.of, site.kind), right) for role, right in rights.items()]
    return found


# -- pairs -----------------------------------------------------------------------------------------


def pairs(reader: Reader, n: int = N_PAIRS) -> Probe:
    """Generated sentence pairs whose word alignment is known, in the direction that the model reads."""
    from budgerigar.text.pairs import sentence_pairs

    sites = (("encoder", "self"), ("decoder", "self"), ("decoder", "cross"))
    roles = (*_PLACES, "alignment")
    source = reader.source_tokenizer or reader.tokenizer
    given = sentence_pairs(n, split="test")
    tried: list[str] = []
    for reverse, name in ((False, said("Chinese-English")), (True, said("English-Chinese"))):
        golds = [gold_of(pair, reverse) for pair in given]
        held = [
            one
            for one in golds
            if gold.holds(source, one.source) and gold.holds(reader.tokenizer, one.target)
        ]
        if len(held) >= _FEWEST:
            on = said("{n} generated {languages} sentence pairs", n=len(held), languages=name)
            return Probe(on, roles, sites, [_pair_example(reader, one) for one in held])
        tried = tried or [one.source for one in golds]
    reason = said("the tokenizers do not hold the words of the generated Chinese-English pairs")
    examples = _random_pairs(reader)
    on = said("{n} sources and targets of random tokens", n=len(examples))
    return Probe(on, roles, sites, examples, _with_examples(reason, source, tried))


def _random_pairs(reader: Reader) -> list[Example]:
    """For the roles by place, which need no words."""
    known = [_known_ids(t) for t in (reader.tokenizer, reader.source_tokenizer or reader.tokenizer)]
    rng = np.random.default_rng(1)
    n = max(2, min(reader.longest - 2, _LONGEST_REPEAT))
    drawn = [
        [[int(t) for t in rng.choice(pool, size=n)] for pool in known] for _ in range(N_RANDOM)
    ]
    return [Example(ids, _ask_places, source, natural=True) for ids, source in drawn]


def _pair_example(reader: Reader, one: GoldPair) -> Example:
    room = reader.longest - 1
    source = (reader.source_tokenizer or reader.tokenizer).encode(one.source)
    target = reader.tokenizer.encode(one.target)

    def ask(seen: Trace) -> list[Asked]:
        return _ask_places(seen) + _ask_alignment(seen, one)

    ids = [int(token) for token in target][:room]
    return Example(ids, ask, [int(token) for token in source][:room], natural=True)


def _ask_alignment(seen: Trace, one: GoldPair) -> list[Asked]:
    site = next((site for site in seen.sites if site.kind == "cross"), None)
    if site is None:
        return []
    target = gold.written_spans(one.target, one.target_spans, site.query_spelling.text)
    source = gold.written_spans(one.source, one.source_spans, site.key_spelling.text)
    rows, columns = words_of(site.query_spelling, target), words_of(site.key_spelling, source)
    links = [(rows.number(j), columns.number(i)) for i, j in one.gold.sure]
    right = patterns.linked((len(rows), len(columns) + 1), links)
    return [Asked("alignment", ("decoder", "cross"), right, rows, columns)]


def parking(site: Site, special: set[int], ids: Sequence[int]) -> Array:
    """(K,) bool: where idle heads park: special tokens, and the first token of a causal text."""
    found = np.array([token in special for token in ids], dtype=bool)
    if site.of == "decoder" and site.kind == "self":
        found[:1] = True
    return found
