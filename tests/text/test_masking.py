"""Masked words: how many, which, what becomes of them; the same again; every token once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from budgerigar.errors import UserError
from budgerigar.text.batches import WindowBatches
from budgerigar.text.masking import MaskedBatches, MaskRule, mask_rule, whole_windows
from budgerigar.text.store import TokenStore, store_from_documents
from budgerigar.text.tokenizer import MASK, Tokenizer
from budgerigar.text.tokenizers import build_tokenizer, draw_sample
from budgerigar.text.words import word_edges

V, MASKED = 50, 49


def rule(share: float = 0.15, joins: Any = None) -> MaskRule:
    maskable = np.ones(V, dtype=bool)
    maskable[[0, MASKED]] = False  # 0 plays <end>
    return MaskRule(MASKED, maskable, np.arange(1, MASKED), joins, share)


def words(text: str, kind: str = "bpe") -> Tokenizer:
    sample = draw_sample([text], 10_000, 0)
    return build_tokenizer(sample, kind, None, end=True, specials=(MASK,))


def random_tokens(rows: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, MASKED, (rows, width))


def test_the_share_is_exact_in_every_window_and_special_tokens_stay() -> None:
    tokens = random_tokens(40, 60)
    chosen = rule().choose(tokens, np.random.default_rng(1))
    free = (tokens != 0).sum(1)
    assert chosen.sum(1).tolist() == [round(0.15 * n) for n in free]
    assert not chosen[tokens == 0].any()
    assert rule().choose(tokens[:, :2] * 0 + 5, np.random.default_rng(1)).sum(1).min() == 1


def test_every_place_is_chosen_about_equally_often() -> None:
    tokens = np.full((4000, 20), 7)
    share = rule().choose(tokens, np.random.default_rng(2)).mean(0)
    assert np.abs(share - 0.15).max() < 5 * np.sqrt(0.15 * 0.85 / 4000)


def test_eighty_ten_ten() -> None:
    tokens = random_tokens(400, 100)
    random = np.random.default_rng(3)
    chosen = rule().choose(tokens, random)
    hidden = rule().hide(tokens, chosen, random)
    assert (hidden[~chosen] == tokens[~chosen]).all()
    masked = hidden[chosen] == MASKED
    same = hidden[chosen] == tokens[chosen]
    n = int(chosen.sum())
    deviation = np.sqrt(0.1 * 0.9 / n)
    assert abs(masked.mean() - 0.8) < 4 * np.sqrt(0.8 * 0.2 / n)
    assert abs(same.mean() - 0.1 - 0.1 / 48) < 4 * deviation  # a replacement may be the same
    replaced = hidden[chosen][~masked & ~same]
    assert abs(len(replaced) / n - 0.1 * 47 / 48) < 4 * deviation
    assert set(replaced.tolist()) <= set(range(1, MASKED))
    assert len(set(replaced.tolist())) == MASKED - 1  # none of them is left out


def test_whole_words_are_hidden_whole_and_the_share_is_right_on_average() -> None:
    """Pieces 1 to 9 begin a word, 10 to 19 go on with one."""
    inside = np.zeros(V, dtype=bool)
    inside[10:20] = True
    everything = np.ones(V, dtype=bool)
    everything[0] = False
    joined = rule(joins=(inside, everything))
    tokens = np.tile([1, 10, 11, 2, 3, 12, 4, 5, 13, 14, 15, 6], (3000, 2))
    units = joined.units(tokens[:1])[0]
    assert units.tolist()[:12] == [0, 0, 0, 1, 2, 2, 3, 4, 4, 4, 4, 5]
    chosen = joined.choose(tokens, np.random.default_rng(4))
    for row in chosen[:200]:
        for unit in set(units.tolist()):
            assert len(set(row[units == unit].tolist())) == 1
    wanted = round(0.15 * 24) / 24
    assert chosen.mean() == pytest.approx(wanted, abs=0.01)
    assert chosen.sum(1).min() >= 0


@pytest.mark.parametrize("joined", [False, True])
def test_the_passes_hide_every_token_once_whatever_stands_beside(joined: bool) -> None:
    inside = np.zeros(V, dtype=bool)
    inside[20:] = True
    some = rule(joins=(inside, np.ones(V, dtype=bool)) if joined else None)
    tokens = random_tokens(6, 30, seed=5)
    groups = some.groups(tokens, seed=0, first=3)
    assert ((groups == -1) == (tokens == 0)).all()
    assert groups.max() < some.passes == 7
    if not joined:
        for row in groups:
            sizes = np.bincount(row[row >= 0], minlength=7)
            assert sizes.max() - sizes.min() <= 1
    for row in range(6):
        alone = some.groups(tokens[row : row + 1], seed=0, first=3 + row)
        assert (alone[0] == groups[row]).all()
    assert (some.groups(tokens, seed=1, first=3) != groups).any()


TEXT = "the quick brown fox jumps over the lazy dog and doesn't mind. " * 30


def store_of(text: str, tokenizer: Tokenizer) -> TokenStore:
    return store_from_documents([text], tokenizer)


def test_batches_go_on_where_they_stopped_and_each_pass_has_other_masks() -> None:
    tokenizer = words(TEXT)
    store = store_of(TEXT, tokenizer)

    def batches() -> MaskedBatches:
        return MaskedBatches(
            WindowBatches(store, 16, 3, 1, "shuffled"), mask_rule(tokenizer, True), 9
        )

    one, other = batches(), batches()
    for _ in range(7):
        one.next()
    other.load_state_dict(one.state_dict())
    for _ in range(40):  # over the end of a pass
        first, second = one.next(), other.next()
        assert (first.tokens == second.tokens).all()
        assert (first.targets == second.targets).all()
        original = first.tokens.clone()
        original[first.chosen] = first.targets
        assert set(first.inputs()) == {"tokens", "only", "document_ids", "positions"}
        assert tokenizer.mask_id not in original
    fixed = WindowBatches(store, store.n_tokens - 1, 1, 1, "shuffled")  # always the same window
    again = MaskedBatches(fixed, mask_rule(tokenizer, False), 9)
    drawn = [again.next().chosen for _ in range(3)]
    assert (drawn[0] != drawn[1]).any()
    assert (drawn[1] != drawn[2]).any()


def test_windows_hold_every_token_once() -> None:
    tokenizer = words(TEXT)
    store = store_of(TEXT, tokenizer)
    found: list[int] = []
    for first in range(0, 100, 2):
        if first * 11 >= store.n_tokens:
            break
        batch, sizes = whole_windows(store, 11, 2, first)
        for row, size in zip(batch.tokens, sizes, strict=True):
            found += row[: int(size)].tolist()
    assert found == store.tokens.tolist()


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "word", "character", "byte"])
def test_words_are_found_in_every_kind_of_vocabulary(kind: str) -> None:
    text = "Ein Hündchen läuft, nicht 42 Katzen 诗人 schön."
    tokenizer = words(text * 3, kind)
    begins, ends = word_edges(tokenizer)
    ids = tokenizer.encode(text)
    joined = [bool(ends[a] and begins[b]) for a, b in pairwise(ids)]
    spelled, at = [[ids[0]]], 1
    for is_joined in joined:
        spelled[-1].append(ids[at]) if is_joined else spelled.append([ids[at]])
        at += 1
    found = [tokenizer.decode(one).strip() for one in spelled]
    found = [word for word in found if word]
    wanted = ["Ein", "Hündchen", "läuft", ",", "nicht", "42", "Katzen", "诗", "人", "schön", "."]
    if kind not in ("character", "word"):  # one piece, or bytes that might be those of a letter
        wanted[7:9] = ["诗人"]
    assert found == wanted


def test_marks_of_wordpiece_are_believed() -> None:
    from tokenizers import Tokenizer as Backend
    from tokenizers import models

    vocabulary = {"[UNK]": 0, "play": 1, "##ing": 2, "##s": 3, ".": 4}
    tokenizer = Tokenizer("wordpiece", Backend(models.WordPiece(vocabulary, unk_token="[UNK]")))
    begins, ends = word_edges(tokenizer)
    assert begins.tolist() == [False, False, True, True, False]
    assert ends[1:4].all()


def test_a_vocabulary_without_a_mask_is_refused() -> None:
    sample = draw_sample([TEXT], 10_000, 0)
    with pytest.raises(UserError, match=r"no \[MASK\]"):
        mask_rule(build_tokenizer(sample, "bpe", None), False)


def test_what_is_typed_is_never_a_mask() -> None:
    tokenizer = words(TEXT)
    assert tokenizer.mask_id not in tokenizer.encode("the [MASK] fox")
    assert tokenizer.decode(tokenizer.encode("the [MASK] fox")) == "the [MASK] fox"
