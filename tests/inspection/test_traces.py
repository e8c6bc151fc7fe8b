"""What a trace shows is what the model did, and looking changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from toy import STORY, network, words

from budgerigar.errors import UserError
from budgerigar.inspection import edited_network, trace
from budgerigar.layers.config import LayerPattern
from budgerigar.layers.taps import Taps

DIALS: dict[str, dict[str, Any]] = {
    "sinusoidal": {"positions": "sinusoidal"},
    "learned": {"positions": "learned"},
    "rotary": {"positions": "rotary"},
    "rotary half": {"positions": "rotary", "rotary_fraction": 0.5},
    "relative": {"positions": "relative"},
    "relative own": {"positions": "relative", "relative_shared": False},
    "alibi": {"positions": "alibi"},
    "none": {"positions": "none"},
    "grouped": {"n_kv_heads": 2},
    "one kv head": {"n_kv_heads": 1, "positions": "alibi"},
    "window": {"attention_window": 5},
    "window and sinks": {"attention_window": 4, "sink_tokens": 2},
    "window in one layer": {"layers": (LayerPattern(attention_window=3), LayerPattern())},
    "sink logit": {"sink_logit": True},
    "sink logit, alibi": {"sink_logit": True, "positions": "alibi"},
    "soft-cap": {"attention_softcap": 2.0},
    "unscaled": {"attention_scale": "none"},
    "a scale": {"attention_scale": 0.1},
    "qk-norm head": {"qk_norm": "head"},
    "qk-norm full": {"qk_norm": "full"},
    "post": {"norm_place": "post"},
    "sandwich": {"norm_place": "sandwich", "norm": "rms"},
    "output": {"norm_place": "output", "norm": "rms"},
    "parallel": {"parallel_residual": True},
    "wide heads": {"d_head": 8},
    "no residual": {"residual": False},
    "encoder": {"assembly": "encoder-only", "positions": "learned"},
    "encoder relative": {"assembly": "encoder-only", "positions": "relative"},
}


@pytest.mark.parametrize("name", DIALS)
def test_difference_and_unchanged_logits(name: str) -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size, **DIALS[name])
    if DIALS[name].get("sink_logit"):
        with torch.no_grad():
            for block in model.decoder.blocks():
                block.self_attention.sink_logit.copy_(torch.tensor([0.5, -1.0, 2.0, 0.0]))
    seen = trace(model, tokenizer, STORY, start_id=0)
    with torch.no_grad():
        plain = model(torch.tensor([seen.ids]))[0]
    assert torch.equal(plain, seen.logits)
    heads = list(seen.heads())
    assert [h.name for h in heads] == [f"L{i}.H{j}" for i in range(2) for j in range(4)]
    group = 4 // model.config.kv_heads
    scale = model.config.scale
    for head in heads:
        assert head.difference < 1e-5, head.name
        assert head.kv_head == head.head // group
        # against float64 from the vectors shown: the arithmetic, step by step
        q, k, v = (x.astype(np.float64) for x in (head.queries, head.keys, head.values))
        np.testing.assert_allclose(head.scores, q @ k.T, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(head.scaled, head.scores * scale, rtol=1e-5, atol=1e-6)
        hidden = head.mask_reason != ""
        assert (np.isneginf(head.masked) == hidden).all()
        assert (head.weights[hidden] == 0.0).all()
        assert (head.masked[~hidden] == head.biased[~hidden]).all()
        total = np.exp(head.masked.astype(np.float64))
        sink = head.module.sink_logit
        extra = 0.0 if sink is None else float(sink.detach()[head.head].exp())
        expected = total / (total.sum(axis=1, keepdims=True) + extra)
        np.testing.assert_allclose(head.weights, expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(head.head_output, expected @ v, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["rotary", "grouped", "post", "encoder"])
def test_contributions_sum_to_the_attention_output(name: str) -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size, **DIALS[name])
    seen = trace(model, tokenizer, STORY)
    for layer in range(2):
        heads = list(seen.heads(layer))
        total = (
            sum(head.contribution for head in heads) + heads[0].module.output.bias.detach().numpy()
        )
        own = next(iter(seen.values(f"*.{layer}.self_attention.output").values()))
        np.testing.assert_allclose(total, own, rtol=1e-3, atol=1e-4)


def test_rotation_is_shown_before_and_after() -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size, positions="rotary"), tokenizer, STORY)
    head = seen.attention("L0.H1")
    assert np.allclose(head.queries[0], head.queries_unrotated[0])  # position 0 is not turned
    assert not np.allclose(head.queries[5], head.queries_unrotated[5])
    np.testing.assert_allclose(
        np.linalg.norm(head.keys, axis=1), np.linalg.norm(head.keys_unrotated, axis=1), rtol=1e-5
    )
    flat = trace(network(tokenizer.vocab_size, positions="alibi"), tokenizer, STORY)
    same = flat.attention("L0.H1")
    assert np.array_equal(same.queries, same.queries_unrotated)
    assert not np.array_equal(same.biased, same.capped)
    assert np.array_equal(same.capped, same.scaled)


def test_first_layer_from_the_weights_alone_in_float64() -> None:
    """Embedding, norm and projections by hand: an independent way to the first layer's weights."""
    tokenizer = words()
    model = network(tokenizer.vocab_size, positions="learned", n_kv_heads=2)
    seen = trace(model, tokenizer, STORY, start_id=0)
    weight = {n: p.detach().double().numpy() for n, p in model.named_parameters()}
    x = (
        weight["embedding.tokens.weight"][seen.ids]
        + weight["embedding.positions.weight"][: len(seen)]
    )
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    x = x * weight["decoder.0.attention_norm.weight"] + weight["decoder.0.attention_norm.bias"]

    def projected(part: str) -> np.ndarray:
        name = f"decoder.0.self_attention.{part}"
        return (x @ weight[f"{name}.weight"].T + weight[f"{name}.bias"]).reshape(len(seen), -1, 4)

    query, key = projected("query"), projected("key")
    for h in range(4):
        scores = query[:, h] @ key[:, h // 2].T / 2.0  # sqrt(d_head) = sqrt(4)
        scores[np.triu_indices(len(seen), 1)] = -np.inf
        expected = np.exp(scores - scores.max(1, keepdims=True))
        expected /= expected.sum(1, keepdims=True)
        np.testing.assert_allclose(seen.attention(f"L0.H{h}").weights, expected, atol=1e-5)


def test_reasons_of_masks() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size, attention_window=3, sink_tokens=1)
    reasons = trace(model, tokenizer, STORY).attention("L0.H0").mask_reason
    assert reasons[5, 6] == "future"
    assert reasons[5, 1] == "window"
    assert reasons[5, 0] == ""  # the sink token stays visible
    assert reasons[5, 3] == ""


def test_documents_inside_ids_do_not_see_each_other() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size, positions="learned")
    first, second = tokenizer.encode("Xuanyuan had a budgerigar"), tokenizer.encode(" he was young")
    both = trace(model, tokenizer, [0, *first, 0, *second], start_id=0)
    assert not both.start_added
    head = both.attention("L1.H2")
    assert head.difference < 1e-5
    assert head.mask_reason[6, 2] == "document"
    assert head.mask_reason[2, 6] == "future"
    alone = trace(model, tokenizer, [0, *second])
    np.testing.assert_allclose(both.logits[5:].numpy(), alone.logits.numpy(), atol=1e-4)


def test_start_token_is_put_first_and_labelled() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size)
    seen = trace(model, tokenizer, STORY, start_id=0, name="stories")
    assert seen.start_added
    assert seen.labels == ["<end>", *STORY.split()]
    assert seen.attention("L0.H0").query_labels == seen.labels
    assert "<end> put before it" in seen.about
    assert not trace(model, tokenizer, STORY).start_added


def test_rows_and_words() -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY)
    head = seen.attention("L1.H0")
    row = head.row("always")
    place = seen.labels.index("always")
    assert len(row) == len(seen)
    assert row[0][1] == pytest.approx(float(head.weights[place].max()))
    assert row[0][0] == seen.labels[int(head.weights[place].argmax())]
    assert sum(weight for _, weight in row) == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(UserError, match="occurrence"):
        head.row("budgerigar")
    assert head.row("budgerigar", occurrence=2, top=1)[0][1] == pytest.approx(
        float(head.weights[19].max())
    )


def test_only_the_layers_looked_at_are_recomputed() -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY)
    assert not seen._steps
    seen.attention("L1.H3")
    assert [key[2] for key in seen._steps] == [1]


def test_a_trace_knows_when_its_model_changed() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size)
    seen = trace(model, tokenizer, STORY)
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    with pytest.raises(UserError, match="changed since"):
        seen.attention("L0.H0")


def test_dropout_is_off_while_looking_and_on_again_after() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size, dropout_attention=0.5, dropout_residual=0.5).train()
    seen = trace(model, tokenizer, STORY)
    assert model.training
    model.embedding.eval()  # a part that is frozen stays so
    trace(model, tokenizer, STORY)
    assert not model.embedding.training
    model.eval()
    with torch.no_grad():
        assert torch.equal(model(torch.tensor([seen.ids]))[0], seen.logits)


def test_values_are_listed_and_given() -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY)
    found = seen.values("decoder.*.residual_after")
    assert list(found) == ["decoder.0.residual_after", "decoder.1.residual_after"]
    assert found["decoder.0.residual_after"].shape == (len(seen), 16)
    with pytest.raises(UserError, match="no recorded value"):
        seen.values("decoder.*.nonsense")


def test_user_mistakes() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size)
    with pytest.raises(UserError, match="at most 64"):
        trace(model, tokenizer, [1] * 65)
    with pytest.raises(UserError, match="no text"):
        trace(model, tokenizer, "")
    seen = trace(model, tokenizer, STORY)
    for name, message in [("L9.H0", "no layer 9"), ("L0.H9", "no head 9"), ("head 3", "no head;"),
                          ("L1", "names a layer")]:  # fmt: skip
        with pytest.raises(UserError, match=message):
            seen.attention(name)
    with pytest.raises(UserError, match="kind='cross'"):
        seen.attention("L0.H0", kind="cross")


def test_looking_at_all_taps_does_not_change_a_bit() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size, n_kv_heads=2, attention_window=6)
    tokens = torch.tensor([tokenizer.encode(STORY)])
    with torch.no_grad():
        assert torch.equal(model(tokens), model(tokens, taps=Taps(record=("*",))))


def test_a_model_without_attention_still_shows_surprise() -> None:
    from budgerigar.models.configs import NgramConfig
    from budgerigar.models.ngram import NgramModel

    tokenizer = words()
    ids = tokenizer.encode(STORY)
    model = NgramModel.fit(np.array(ids * 3), NgramConfig(vocab_size=tokenizer.vocab_size, order=3))
    seen = trace(model, tokenizer, STORY)
    assert len(seen.surprise()) == len(ids)
    with pytest.raises(UserError, match="no attention"):
        seen.attention("L0.H0")


def test_documents_of_an_ngram() -> None:
    from budgerigar.models.configs import NgramConfig
    from budgerigar.models.ngram import NgramModel

    tokenizer = words()
    ids = tokenizer.encode(STORY)
    model = NgramModel.fit(np.array([0, *ids]), NgramConfig(tokenizer.vocab_size, 3), end_id=0)
    both = trace(model, tokenizer, [0, *ids, 0, *ids[:5]], start_id=0)
    alone = trace(model, tokenizer, [0, *ids[:5]], start_id=0)
    assert torch.equal(both.logits[-6:], alone.logits)


def test_ids_and_sources_that_the_model_does_not_have() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size)
    both = network(tokenizer.vocab_size, assembly="encoder-decoder")
    for wrong in (999, -1):
        with pytest.raises(UserError, match=f"token id {wrong} does not exist"):
            trace(model, tokenizer, [1, wrong])
        with pytest.raises(UserError, match=f"token id {wrong} in the source"):
            trace(both, tokenizer, [1], source=[wrong])
        with pytest.raises(UserError, match=f"token id {wrong} in the reference"):
            edited_network(model, "L0.H0", "mean", reference=[wrong])
    with pytest.raises(UserError, match="reads no source"):
        trace(model, tokenizer, [1, 2], source=[1])


def test_a_trace_of_an_edited_view_knows_when_the_model_changed() -> None:
    tokenizer = words()
    model = network(tokenizer.vocab_size)
    seen = trace(edited_network(model, "L0.H0"), tokenizer, STORY)
    with torch.no_grad():
        model.embedding.tokens.weight.add_(1.0)
    with pytest.raises(UserError, match="make a new trace"):
        seen.attention("L1.H0")
