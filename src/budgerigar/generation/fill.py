"""Filling gaps of a text: a masked token by an encoder, a span of any length by an encoder-decoder.

A gap is written `[MASK]`. An encoder (BERT) puts one token into each, told from everything around it;
of several gaps the surest is filled first and the others are told again with it in place, so that they
agree. An encoder-decoder that learnt corrupted spans (T5) writes what is missing, gap after gap.
A space before a gap belongs to what fills it, where the vocabulary's pieces carry their spaces: then
only such pieces are guesses, so that "good [MASK]" never becomes "goods".

Shapes: T tokens, N gaps, V vocab_size.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from budgerigar.errors import UserError
from budgerigar.generation.beam import search
from budgerigar.generation.translation_options import TranslationOptions
from budgerigar.models.modes import without_dropout
from budgerigar.text.fill_in_tokens import need_mask, need_sentinels
from budgerigar.text.labelled_corpus import frame_of
from budgerigar.text.tokenizer import MASK
from budgerigar.text.words import INSIDE

GAP = re.compile(r"\[MASK\]|<extra_id_\d+>")
LONGEST_SPAN = 24  # tokens that a gap may be filled with
MOST_GUESSES = 100
_SPACELESS = ("character", "symbols", "byte")  # kinds whose spaces are pieces of their own


@dataclass(frozen=True)
class Guess:
    """What may stand in a gap, with its space if it has one, and its probability."""

    text: str
    probability: float
    ids: tuple[int, ...]


@dataclass(frozen=True)
class Gap:
    """The likeliest guesses of one gap, best first."""

    guesses: tuple[Guess, ...]


@dataclass(frozen=True)
class Filled:
    """A text with its gaps filled."""

    given: str
    text: str
    """with the best filling of all gaps together"""
    gaps: tuple[Gap, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def fill_text(
    network: Any,
    tokenizer: Any,
    text: str,
    *,
    top_k: int = 5,
    starts_documents: bool = False,
) -> Filled:
    """Fill the gaps of `text`; `top_k` guesses of each.

    An encoder's guesses of several gaps are each made with all of them open; an encoder-decoder's with
    those before it filled.

    Raises:
        UserError: there is no gap, the model fills none, or the text is too long for it.
    """
    if not 1 <= top_k <= MOST_GUESSES:
        raise UserError(f"top_k = {top_k}: from 1 to {MOST_GUESSES} guesses can be shown")
    parts = GAP.split(text)
    if len(parts) == 1:
        raise UserError(f'there is no gap in the text; write one as {MASK}: "The {MASK} sat."')
    carry, wrong = _after_a_space(tokenizer, network)
    spaced = [part.endswith(" ") for part in parts[:-1]]
    if carry:
        parts = [*(part.removesuffix(" ") for part in parts[:-1]), parts[-1]]
    both = getattr(network.config, "assembly", None) == "encoder-decoder"
    with without_dropout(network), torch.no_grad():
        if both:
            gaps, chosen = _spans(network, tokenizer, parts, spaced, top_k)
        else:
            frame = frame_of(tokenizer, starts_documents)
            never = _banned(tokenizer, network)
            banned = torch.stack([never | wrong if space else never for space in spaced])
            gaps, chosen = _tokens(network, tokenizer, parts, spaced, banned, top_k, *frame)
    both_sides = zip(chosen, spaced, strict=True)
    whole = _join(parts, [_spelled(tokenizer, ids, space) for ids, space in both_sides])
    return Filled(text, whole, tuple(gaps))


def _join(parts: Sequence[str], fillings: Sequence[str]) -> str:
    pairs = zip(parts, [*fillings, ""], strict=True)
    return "".join(part + filling for part, filling in pairs)


def _spelled(tokenizer: Any, ids: Sequence[int], spaced: bool) -> str:
    """What fills a gap, as it stands after a space or not. (Decoding would take it for a beginning.)"""
    raw = b"".join(tokenizer.token_bytes(token) for token in ids)
    text = raw.decode(errors="replace")
    return text.removeprefix(" ") if tokenizer.imported and not spaced else text


def _with_gaps(tokenizer: Any, parts: Sequence[str], gaps: Sequence[int]) -> list[int]:
    """Ids of a text whose parts have one of `gaps` between each two."""
    between = zip(parts[1:], gaps, strict=True)
    mixed: list[str | int] = [parts[0]]
    for part, gap in between:
        mixed += [gap, part]
    return list(tokenizer.encode_parts(mixed))


# -- one token a gap -------------------------------------------------------------------------------


def _tokens(
    network: Any,
    tokenizer: Any,
    parts: Sequence[str],
    spaced: Sequence[bool],
    banned: torch.Tensor,
    top_k: int,
    start: Sequence[int],
    end: Sequence[int],
) -> tuple[list[Gap], list[list[int]]]:
    """Guesses of each gap with all open, and the ids that are filled in one gap after the other.

    banned: (N,V) bool, what must not be put into each gap.
    """
    mask_id = need_mask(tokenizer)
    ids = [*start, *_with_gaps(tokenizer, parts, [mask_id] * (len(parts) - 1)), *end]
    places = [place for place, token in enumerate(ids) if token == mask_id]
    _check_length(network, len(ids))
    log_p = _log_p(network, ids, places).masked_fill(banned, -math.inf)
    rows = zip(log_p, spaced, strict=True)
    gaps = [Gap(_best(tokenizer, row, space, top_k)) for row, space in rows]
    left = list(range(len(places)))
    while left:
        log_p = _log_p(network, ids, [places[gap] for gap in left])
        log_p = log_p.masked_fill(banned[left], -math.inf)
        surest = int(log_p.max(-1).values.argmax())
        ids[places[left.pop(surest)]] = int(log_p[surest].argmax())
    return gaps, [[ids[place]] for place in places]


def _log_p(network: Any, ids: list[int], places: list[int]) -> torch.Tensor:
    """ln p of each token in each gap (N,V), float64."""
    tokens = torch.tensor([ids], device=network.device)
    hidden = torch.zeros_like(tokens, dtype=torch.bool)
    hidden[0, places] = True
    found: torch.Tensor = network.predict(tokens, hidden).double().log_softmax(-1).cpu()
    return found


def _banned(tokenizer: Any, network: Any) -> torch.Tensor:
    """bool (V,): special tokens and pieces that training never saw are no words."""
    banned = torch.ones(network.vocab_size, dtype=torch.bool)
    banned[: tokenizer.vocab_size] = torch.from_numpy(np.asarray(tokenizer.never_seen, dtype=bool))
    banned[list(tokenizer.special_ids.values())] = True
    return banned


def _after_a_space(tokenizer: Any, network: Any) -> tuple[bool, torch.Tensor]:
    """Whether pieces carry the space before them, and bool (V,): those that cannot stand after one.

    Where they do, pieces without; in WordPiece's vocabularies those that go on inside a word.
    """
    wrong = torch.zeros(network.vocab_size, dtype=torch.bool)
    if tokenizer.kind in _SPACELESS:
        return False, wrong
    size = tokenizer.vocab_size
    spaces = torch.tensor([tokenizer.token_bytes(i)[:1] == b" " for i in range(size)])
    if bool(spaces.any()):
        wrong[:size] = ~spaces
        return True, wrong
    pieces = tokenizer.backend.get_vocab(with_added_tokens=True)
    wrong[[i for piece, i in pieces.items() if piece.startswith(INSIDE)]] = True
    return False, wrong


def _best(tokenizer: Any, log_p: torch.Tensor, spaced: bool, top_k: int) -> tuple[Guess, ...]:
    values, ids = log_p.sort(descending=True, stable=True)
    kept = [(p, i) for p, i in zip(values[:top_k].exp().tolist(), ids.tolist(), strict=False) if p]
    return tuple(Guess(_spelled(tokenizer, [i], spaced), p, (i,)) for p, i in kept)


def _check_length(network: Any, length: int) -> None:
    if length > network.context_length:
        raise UserError(
            f"the text has {length:,} tokens, this model reads at most {network.context_length:,} at "
            "once; give a shorter piece of it"
        )


# -- spans -----------------------------------------------------------------------------------------


def _spans(
    network: Any, tokenizer: Any, parts: Sequence[str], spaced: Sequence[bool], top_k: int
) -> tuple[list[Gap], list[list[int]]]:
    """Guesses of each gap with the best of those before it in place, and these best ones."""
    sentinels = need_sentinels(tokenizer)
    n_gaps = len(parts) - 1
    if n_gaps >= len(sentinels):
        raise UserError(
            f"{n_gaps} gaps are more than the {len(sentinels) - 1} that this model knows"
        )
    source = [*_with_gaps(tokenizer, parts, sentinels[:n_gaps]), int(tokenizer.end_id)]
    _check_length(network, len(source))
    prefix, gaps, chosen = [sentinels[0]], [], []
    for number in range(n_gaps):
        stop, room = sentinels[number + 1], network.context_length - len(prefix)
        before = _log_p_of(network, source, prefix)
        found = _continuations(
            network, tokenizer, source, prefix, stop, top_k, room // (n_gaps - number)
        )
        guesses = [
            Guess(
                _spelled(tokenizer, ids, spaced[number]),
                math.exp(min(log_p - before, 0.0)),
                tuple(ids),
            )
            for ids, log_p in found
        ]
        gaps.append(Gap(tuple(guesses)))
        chosen.append(found[0][0])
        prefix = [*prefix, *found[0][0], stop]
    return gaps, chosen


def _start_id(network: Any, end_id: int) -> int:
    start = network.config.decoder_start
    return end_id if start is None else int(start)


def _log_p_of(network: Any, source: list[int], target: list[int]) -> float:
    """ln p of a beginning of the answer."""
    read = [_start_id(network, source[-1]), *target[:-1]]
    tokens, given = (torch.tensor([ids], device=network.device) for ids in (read, source))
    log_p = network(tokens, source=given)[0].double().log_softmax(-1)
    return float(log_p[range(len(target)), target].sum())


def _continuations(
    network: Any,
    tokenizer: Any,
    source: list[int],
    prefix: list[int],
    stop: int,
    top_k: int,
    room: int,
) -> list[tuple[list[int], float]]:
    """(ids of a span, ln p up to the sentinel `stop` after it), best first; at most `room` ids."""
    if room < 2:
        raise UserError("the gaps before have filled this model's context; give fewer gaps")
    banned = _banned(tokenizer, network)
    banned[stop] = False
    options = TranslationOptions(
        beam_size=max(top_k, 4),
        n_best=top_k,
        length_penalty="none",
        min_length=len(prefix) + 1,  # no span that was learnt from is empty
        max_length=len(prefix) + min(LONGEST_SPAN, room),
    )
    found = search(
        network,
        [source],
        options,
        start_id=_start_id(network, source[-1]),
        end_id=stop,
        forbidden=banned,
        prefixes=[prefix],
    )[0]
    return [(list(one.ids[len(prefix) :]), one.log_probability) for one in found]
