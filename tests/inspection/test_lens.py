"""The logit lens: the final norm exactly once, the last row the model's own logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from streams import ALL, TRANSLATORS, model_of, traced
from toy import STORY, one_text, words

from budgerigar.errors import UserError
from budgerigar.inspection import edited_network, lens, lens_logits, logit_lens, stream, trace
from budgerigar.inspection.lens_text import lens_text, naming


@pytest.mark.parametrize("name", ALL)
def test_the_last_row_is_the_models_own_logits_to_the_last_bit(name: str) -> None:
    seen = traced(name)
    depth = seen.network.config.decoder_layers or seen.network.config.encoder_layers
    assert torch.equal(lens_logits(seen, depth), seen.logits)
    found = logit_lens(seen, top=3)
    assert found.rows == ("embedding", "L0", "L1")
    assert found.difference == 0.0
    assert (found.final_rank[-1] == 1).all()
    assert (found.divergence[-1] == 0).all()
    assert (found.top[-1, :, 0] == found.final).all()
    np.testing.assert_array_equal(found.final, seen.logits.argmax(-1).numpy())
    assert len(found.labels) == len(seen)
    assert found.top.shape == found.chances.shape == (3, len(seen), 3)


@pytest.mark.parametrize("name", ["pre", "sandwich", "output", "parallel", "post",
                                  "post with a final norm"])  # fmt: skip
def test_every_row_by_hand_in_float64(name: str) -> None:
    """The final norm once: on vectors that have not passed it; not at all in a post-norm model."""
    model = model_of(name)
    seen = traced(name, model)
    found = logit_lens(seen)
    weight = {n: p.detach().double().numpy() for n, p in model.named_parameters()}
    names = ["decoder.0.residual_before", "decoder.0.residual_after", "decoder.1.residual_after"]
    final = seen.logits.double().numpy()
    for row, tap in enumerate(names):
        x = seen.tap(tap).astype(np.float64)
        if name != "post":
            rms = model.config.norm == "rms"
            centred = x if rms else x - x.mean(1, keepdims=True)
            x = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
            x = x * (weight["decoder.final_norm.weight"] + float(model.config.norm_offset))
            x = x + (0 if rms else weight["decoder.final_norm.bias"])
        logits = x @ weight["embedding.tokens.weight"].T
        chances = np.exp(logits - logits.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        own = np.exp(final - final.max(1, keepdims=True))
        own /= own.sum(1, keepdims=True)
        places = np.arange(len(seen))
        np.testing.assert_allclose(found.final_chance[row], chances[places, found.final], rtol=1e-3,
                                   atol=1e-7)  # fmt: skip
        np.testing.assert_allclose(found.chances[row, :, 0], chances.max(1), rtol=1e-3)
        ranks = 1 + (logits > logits[places, found.final][:, None]).sum(1)
        np.testing.assert_array_equal(found.final_rank[row], ranks)
        apart = (own * np.log(own / chances)).sum(1)
        np.testing.assert_allclose(found.divergence[row], apart, rtol=2e-3, atol=1e-4)


def test_a_perfect_copy_is_settled_at_once_and_a_late_change_late() -> None:
    """Hand-made: layers that write nothing leave the embedding's own prediction in every row."""
    model = model_of("pre")
    with torch.no_grad():
        for block in model.decoder.blocks():
            for linear in (block.self_attention.output, block.feed_forward.down):
                linear.weight.zero_()
                linear.bias.zero_()
    found = logit_lens(traced("pre", model))
    assert (found.settled() == 0).all()
    assert (found.divergence == 0).all()
    with torch.no_grad():  # the last layer alone says "token 5"
        list(model.decoder.blocks())[1].feed_forward.down.bias.copy_(
            1000 * model.embedding.tokens.weight[5]
        )
    found = logit_lens(traced("pre", model))
    assert (found.final == 5).all()
    changed = found.top[0, :, 0] != 5
    assert changed.any()
    assert (found.settled()[changed] == 2).all()
    assert (found.divergence[:2, changed] > 0.1).all()


def test_rows_of_a_translation_are_named_by_the_token_being_predicted() -> None:
    for name in TRANSLATORS:
        found = logit_lens(traced(name))
        assert found.labels[0] == "Xuan"
        assert found.labels[-1] == "<end>"


def test_what_the_lens_shows_of_an_edited_model_is_the_edited_model() -> None:
    seen = traced("pre", edited_network(model_of("pre"), ["L0.H1"]))
    assert torch.equal(lens_logits(seen, 2), seen.logits)


def test_mistakes() -> None:
    seen = traced("pre")
    with pytest.raises(UserError, match="at least one"):
        logit_lens(seen, top=0)
    with pytest.raises(UserError, match=r"rows 0 \(embedding\) to 2"):
        lens_logits(seen, 3)
    assert logit_lens(seen, top=10**6).top.shape[-1] == seen.logits.shape[-1]
    tokenizer = words()
    lstm = trace(one_text("lstm", tokenizer.vocab_size), tokenizer, STORY)
    with pytest.raises(UserError, match="no residual stream"):
        logit_lens(lstm)
    with torch.no_grad():
        seen.network.embedding.tokens.weight.add_(1.0)
    with pytest.raises(UserError, match="changed since"):
        logit_lens(seen)


def test_as_a_table() -> None:
    found = logit_lens(traced("pre"), 1)
    name = naming(words())
    page = lens_text(found, name, about_next=True, columns=90)
    lines = page.splitlines()
    assert lines[0].split() == ["read", "embedding", "L0", "L1"]
    assert len(lines[1 : 1 + len(found.labels)]) == len(found.labels)
    last = lines[len(found.labels)]
    best = name(int(found.final[-1]))
    assert last.endswith(f"={best:<8} {100 * found.chances[-1, -1, 0]:>3.0f}")
    assert lines[len(found.labels) + 1].split()[:2] == ["nats", "away"]
    assert lines[len(found.labels) + 1].split()[-1] == "0.00"
    narrow = lens_text(found, name, about_next=False, columns=50)
    assert narrow.splitlines()[0].split() == ["about", "embedding", "L1"]
    assert "left out for want of room: L0" in narrow
    assert "after the one" not in narrow
    assert name(10**6) == "id 1000000"


def test_a_long_vocabulary_is_read_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stream.rows_at_once(torch.zeros(2, 50_000)) > 8
    whole = logit_lens(traced("pre"), 4)
    monkeypatch.setattr(lens, "rows_at_once", lambda logits: 3)
    monkeypatch.setattr(stream, "rows_at_once", lambda logits: 3)
    parts = logit_lens(traced("pre"), 4)
    for field in ("top", "chances", "final", "final_chance", "final_rank", "divergence"):
        np.testing.assert_array_equal(getattr(whole, field), getattr(parts, field))
