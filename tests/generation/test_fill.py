"""Filling gaps: spaces, several gaps that must agree, spans by beam; by hand-made models."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from budgerigar import models
from budgerigar.errors import UserError
from budgerigar.generation.fill import fill_text
from budgerigar.layers.config import TransformerConfig
from budgerigar.text.fill_in_tokens import CORRUPTED_SPANS, sentinel_ids
from budgerigar.text.tokenizer import MASK, Tokenizer
from budgerigar.text.tokenizers import build_tokenizer, draw_sample

TEXT = "the cat sat on the mat . the dog lay on the rug ."


def vocabulary(kind: str = "word") -> Tokenizer:
    sample = draw_sample([TEXT], 10_000, 0)
    made = build_tokenizer(sample, kind, None, end=True, specials=(MASK, *CORRUPTED_SPANS))
    seen = set(made.encode(TEXT))
    return made.with_never_seen(
        torch.tensor([i not in seen for i in range(made.vocab_size)]).numpy()
    )


class Encoder:
    """Fills with ` cat` unless ` dog` stands somewhere; what it is shown is kept."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.config = SimpleNamespace(assembly="encoder-only")
        self.context_length, self.vocab_size = 12, tokenizer.vocab_size
        self.device = torch.device("cpu")
        self.word = {w: tokenizer.encode(f" {w}")[0] for w in ("cat", "dog", "mat", "rug")}
        self.shown: list[list[int]] = []

    def predict(self, tokens: Tensor, mask: Tensor, *_: Any, **__: Any) -> Tensor:
        self.shown += tokens.tolist()
        logits = torch.zeros(int(mask.sum()), self.vocab_size)
        logits[:, -1] = 9.0  # a sentinel, which must never be a guess
        dog = bool((tokens == self.word["dog"]).any())
        for row, place in enumerate(mask[0].nonzero()[:, 0].tolist()):
            if place < 3:  # the first gap is the surer one
                logits[row, self.word["dog"]] = 5.0
                logits[row, self.word["cat"]] = 4.0
            else:
                logits[row, self.word["rug" if dog else "mat"]] = 3.0
        return logits


def test_gaps_are_filled_the_surest_first_and_agree() -> None:
    tokenizer = vocabulary()
    network = Encoder(tokenizer)
    text = "the [MASK] sat on the [MASK] ."
    found = fill_text(network, tokenizer, text, top_k=2, starts_documents=True)
    ids = [tokenizer.end_id, *tokenizer.encode("the"), tokenizer.mask_id]
    ids += [*tokenizer.encode(" sat on the"), tokenizer.mask_id, *tokenizer.encode(" .")]
    assert network.shown[0] == ids
    assert [guess.text for guess in found.gaps[0].guesses] == [" dog", " cat"]
    assert found.gaps[1].guesses[0].text == " mat"  # with the first gap open
    assert found.text == "the dog sat on the rug ."
    total = math.exp(9) + math.exp(5) + math.exp(4) + tokenizer.vocab_size - 3
    assert found.gaps[0].guesses[0].probability == pytest.approx(math.exp(5) / total, rel=1e-5)
    assert found.as_dict()["gaps"][0]["guesses"][1]["text"] == " cat"


def test_characters_keep_their_spaces() -> None:
    tokenizer = vocabulary("character")
    seen: list[list[int]] = []

    class Letters(Encoder):
        def __init__(self) -> None:
            self.config = SimpleNamespace(assembly="encoder-only")
            self.context_length, self.vocab_size = 40, tokenizer.vocab_size
            self.device = torch.device("cpu")

        def predict(self, tokens: Tensor, mask: Tensor, *_: Any, **__: Any) -> Tensor:
            seen.extend(tokens.tolist())
            return torch.zeros(int(mask.sum()), self.vocab_size)

    fill_text(Letters(), tokenizer, "the [MASK]at", starts_documents=False)
    wanted = [*tokenizer.encode("the "), tokenizer.mask_id, *tokenizer.encode("at")]
    assert seen[0] == wanted


@pytest.mark.parametrize(
    ("text", "top_k", "words"),
    [
        ("the cat sat", 5, "no gap"),
        ("the [MASK] sat", 0, "from 1 to"),
        ("the cat " * 9 + "[MASK]", 5, "at most 12"),
    ],
)
def test_what_cannot_be_filled_is_said(text: str, top_k: int, words: str) -> None:
    tokenizer = vocabulary()
    with pytest.raises(UserError, match=words):
        fill_text(Encoder(tokenizer), tokenizer, text, top_k=top_k)


@pytest.fixture(scope="module")
def spans() -> tuple[Any, Tokenizer]:
    """A real encoder-decoder with weights large enough to have opinions."""
    tokenizer = vocabulary()
    config = TransformerConfig(
        assembly="encoder-decoder", vocab_size=tokenizer.vocab_size, context_length=24, d_model=16,
        n_layers=1, n_heads=2, positions="relative", decoder_start=tokenizer.end_id,
    )  # fmt: skip
    network = models.build(config, seed=2)
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(4)
    return network.eval(), tokenizer


def test_the_probability_of_a_span_is_the_models_own(spans: tuple[Any, Tokenizer]) -> None:
    """Of the span and the sentinel after it, given the one before it, in one pass of the decoder."""
    network, tokenizer = spans
    found = fill_text(network, tokenizer, "the [MASK] sat on [MASK] .", top_k=3)
    first, second, third = sentinel_ids(tokenizer)[:3]
    source: list[Any] = [*tokenizer.encode("the"), first, *tokenizer.encode(" sat on"), second]
    source += [*tokenizer.encode(" ."), tokenizer.end_id]
    prefix: list[Any] = [first]
    for gap, stop in zip(found.gaps, (second, third), strict=True):
        assert len(gap.guesses) == 3
        probabilities = [guess.probability for guess in gap.guesses]
        assert probabilities == sorted(probabilities, reverse=True)
        for guess in gap.guesses:
            assert guess.ids
            assert not set(guess.ids) & set(tokenizer.special_ids.values())
            target = [*prefix, *guess.ids, stop]
            read = torch.tensor([[tokenizer.end_id, *target[:-1]]])
            with torch.no_grad():
                log_p = network(read, source=torch.tensor([source]))[0].double().log_softmax(-1)
            own = log_p[range(len(target)), target][len(prefix) :].sum()
            assert guess.probability == pytest.approx(float(own.exp()), rel=1e-4)
        prefix += [*gap.guesses[0].ids, stop]
    filled = [gap.guesses[0].text for gap in found.gaps]
    assert found.text == f"the{filled[0]} sat on{filled[1]} ."


def test_t5s_own_names_are_gaps_too(spans: tuple[Any, Tokenizer]) -> None:
    network, tokenizer = spans
    one = fill_text(network, tokenizer, "the <extra_id_0> sat")
    assert one.gaps == fill_text(network, tokenizer, "the [MASK] sat").gaps
