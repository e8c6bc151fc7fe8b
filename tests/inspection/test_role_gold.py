"""Gold links: what they are of, and that they are found among whatever tokens a model has."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from toy import single_bytes

from budgerigar.errors import UserError
from budgerigar.inspection import role_gold as gold
from budgerigar.inspection.alignments import pool
from budgerigar.inspection.labels import spell
from budgerigar.inspection.role_names import BY_SITE, ROLES
from budgerigar.inspection.role_probes import Reader, pairs, probes, repeats
from budgerigar.inspection.role_scores import role_scores, uniform_weights
from budgerigar.text.stories import generate_stories
from budgerigar.text.tokenizer import Tokenizer
from budgerigar.text.tokenizers import train_tokenizer


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    """Pieces of stories: several a word."""
    texts = [story.text for story in generate_stories(100, 1)]
    return train_tokenizer(texts, kind="bpe", vocab_size=420, end=True)


def _links(placed: gold.Placed, role: str) -> list[tuple[str, str]]:
    assert placed.words is not None
    words = placed.words.texts
    return [(words[a], words[b]) for a, b in np.argwhere(placed.right[role])]


@pytest.mark.parametrize("causal", [True, False])
def test_links_of_a_story_have_the_words_that_the_labels_say(bpe: Tokenizer, causal: bool) -> None:
    """Whatever the tokens, the row's text is the query's and the column's text the key's."""
    for story in generate_stories(20, 3, split="test", filler_words=(0, 10)):
        spelling = spell(bpe, bpe.encode(story.text))
        placed = gold.placed(gold.story_gold(story, causal), spelling)
        for pronoun, noun in _links(placed, "reference"):
            assert pronoun.lower() in ("it", "they")
            assert noun != pronoun
        for verb, noun in _links(placed, "reference_verb"):
            assert verb.lower() != "it"
            assert noun in story.words
        if causal:
            told = {word for kind, word, _ in story.word_links if kind == "told"}
            for row, column in np.argwhere(placed.right["reference_needed"]):
                assert story.words[row].lower() == "it"
                assert story.words[column] == story.pet
                assert row + 1 in told  # the next word is what the pet decides
            assert {noun for _, noun in _links(placed, "gap")} == {story.pet}
            (row,) = {a for a, _ in np.argwhere(placed.right["gap"])}
            assert story.words[row + 1] == story.pet  # the row is the one that predicts it
            for role, right in placed.right.items():
                assert (np.argwhere(right)[:, 0] > np.argwhere(right)[:, 1]).all(), role
        for closing, opening in _links(placed, "bracket"):
            assert (closing, opening) == (")", "(")
        expected = {
            (story.words[a], story.words[b]) for k, a, b in story.word_links if k == "subject"
        }
        if not causal:
            assert set(_links(placed, "subject")) == expected


def test_a_perfect_head_between_pieces_scores_one(bpe: Tokenizer) -> None:
    """All of each piece's weight on the pieces of the right word: the words' map has it whole."""
    story = generate_stories(1, 3, split="test")[0]
    spelling = spell(bpe, bpe.encode(story.text))
    placed = gold.placed(gold.story_gold(story, causal=False), spelling)
    words = placed.words
    assert words is not None
    assert len(spelling) > len(words)
    right = placed.right["subject"]
    n = len(spelling)
    weights = uniform_weights(np.ones((n, n), dtype=bool))
    for row, column in np.argwhere(right):
        for token in np.flatnonzero(np.array(words.of_token) == row):
            on = np.array(words.of_token) == column
            weights[token] = on / on.sum()
    uniform = pool(uniform_weights(np.ones((n, n), dtype=bool)), words, words)
    found = role_scores(pool(weights, words, words)[None], right, uniform > 0)
    assert found.score[0] == pytest.approx(1.0)
    assert found.recall[0] == 1.0


def test_a_text_that_was_cut_keeps_the_links_of_its_beginning(bpe: Tokenizer) -> None:
    story = generate_stories(1, 5, split="test")[0]
    ids = bpe.encode(story.text)
    whole = gold.placed(gold.story_gold(story, causal=True), spell(bpe, ids))
    part = gold.placed(gold.story_gold(story, causal=True), spell(bpe, ids[: len(ids) // 2]))
    assert part.words is not None
    empty = ~part.words.pooling().any(axis=0)
    assert empty.any()
    kept = [link for link in _links(whole, "subject") if link in _links(part, "subject")]
    assert kept
    # words beyond the cut have no tokens: their rows and columns hold no weight
    n = len(ids) // 2
    pooled = pool(uniform_weights(np.tri(n)), part.words, part.words)
    assert (pooled[empty] == 0).all()


def test_brackets_of_python_are_those_of_its_grammar() -> None:
    source = 'x = f(a[1], {"(": (2, ")")})  # (not these]\nprint(")")\n'
    ast.parse(source)
    pairs_found = gold.bracket_pairs(source)
    assert {source[a] + source[b] for a, b in pairs_found} == {")(", "][", "}{"}
    assert len(pairs_found) == 5
    for close, opening in pairs_found:
        inner = source[opening + 1 : close]
        assert inner.count("[") == inner.count("]")
    assert (source.index("]"), source.index("[")) in pairs_found


def test_code_comes_from_the_standard_library() -> None:
    texts = gold.code_texts(6)
    assert len(texts) == 6
    reader = single_bytes()
    for text in texts:
        ids = reader.encode(text.text)[:120]
        placed = gold.placed(text, spell(reader, ids))
        labels = spell(reader, ids).labels
        for row, column in np.argwhere(placed.right["code_bracket"]):
            assert labels[column] + labels[row] in ("()", "[]", "{}")
            assert column < row


def test_what_a_tokenizer_holds(bpe: Tokenizer) -> None:
    assert gold.holds(bpe, generate_stories(1, 1)[0].text)
    assert not gold.holds(bpe, "轩辕")  # bytes that its model never met
    assert list(gold.unknown_words(bpe, ["The 轩辕 fed the cat"])) == ["轩辕"]

    class Refusing:
        def encode(self, text: str) -> list[int]:
            raise UserError("no")

    assert not gold.holds(Refusing(), "a")


def test_what_is_written_in_lower_case_and_spaced_otherwise_is_found() -> None:
    """An uncased WordPiece vocabulary gives back " it has ears." for "It has ears ."."""
    text, written = "It has ears .", " it has ears."
    assert gold.written_spans(text, [(0, 2), (7, 11), (12, 13)], written) == [
        (1, 3),
        (8, 12),
        (12, 13),
    ]
    cut = " it ha"
    assert gold.written_spans(text, [(0, 2), (3, 6)], cut) == [(1, 3), (len(cut) + 3, len(cut) + 6)]
    assert gold.written_places(text, " he has ears.") == {}
    assert gold.written_places("a", "ab") == {}


class _Network:
    """As much of one as choosing texts needs."""

    def __init__(self, limit: int | None, **parts: object) -> None:
        self.context_length = limit
        self.config = type("Config", (), {"assembly": parts.get("assembly", "decoder-only")})
        self.encoder, self.decoder = parts.get("encoder"), parts.get("decoder", object())


def test_repeats_fit_the_context_and_no_distance_is_right_for_all(bpe: Tokenizer) -> None:
    for limit in (16, 40, None):
        probe = repeats(Reader(_Network(limit), bpe, start_id=0))
        lengths = {len(example.ids) for example in probe.examples}
        assert max(lengths) + 1 <= (limit or 96)
        assert len(lengths) > 2
        for example in probe.examples:
            half = len(example.ids) // 2
            assert example.ids[:half] == example.ids[half:]
            assert len(set(example.ids)) == half
            assert not set(example.ids) & {bpe.end_id}
            assert not bpe.never_seen[example.ids].any()
    assert repeats(Reader(_Network(4), bpe)).reason


def test_every_role_of_a_kind_of_attention_has_a_probe(bpe: Tokenizer) -> None:
    kinds = {
        ("decoder", "self"): [_Network(64)],
        ("encoder", "self"): [
            _Network(64, assembly="encoder-only", decoder=None, encoder=object())
        ],
        ("decoder", "cross"): [_Network(64, assembly="encoder-decoder", encoder=object())],
    }
    for site, networks in kinds.items():
        for network in networks:
            found = probes(Reader(network, bpe, bpe))
            for key in BY_SITE[" ".join(site)]:
                assert key in ROLES
                if key != "gap" or site[0] == "decoder":
                    assert any(key in p.roles and site in p.sites for p in found), (site, key)


def test_pairs_in_the_direction_that_the_model_reads() -> None:
    from budgerigar.text.pairs import sentence_pairs

    given = sentence_pairs(300)
    sides = [[p.source for p in given], [p.target for p in given]]
    tokenizers = [train_tokenizer(side, kind="character", end=True) for side in sides]
    network = _Network(64, assembly="encoder-decoder", encoder=object())
    forth = pairs(Reader(network, tokenizers[1], tokenizers[0]), n=20)
    back = pairs(Reader(network, tokenizers[0], tokenizers[1]), n=20)
    assert "Chinese-English" in forth.on
    assert "English-Chinese" in back.on
    stranger = train_tokenizer(["xyz"], kind="character", end=True)
    none = pairs(Reader(network, stranger, stranger), n=20)
    assert none.reason
    assert "random tokens" in none.on
