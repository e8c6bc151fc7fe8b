"""Masked cross-entropy: against hand-made masks and torch, by batch, at the plateau; and scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from budgerigar import models
from budgerigar.evaluation.masked import evaluate_masked, pseudo_scores, unigram_lines
from budgerigar.evaluation.spans import evaluate_spans, span_lines
from budgerigar.layers.config import TransformerConfig
from budgerigar.text.fill_in_tokens import CORRUPTED_SPANS
from budgerigar.text.masking import MaskRule, mask_rule
from budgerigar.text.span_corruption import evaluation_spans, span_rule
from budgerigar.text.store import store_from_documents
from budgerigar.text.tokenizer import MASK, Tokenizer
from budgerigar.text.tokenizers import build_tokenizer, draw_sample

DOCUMENTS = [f"number {n} of the cats sat on mat {n * 7 % 5}." for n in range(25)]
SHAPE: dict[str, Any] = {"context_length": 16, "d_model": 16, "n_layers": 2, "n_heads": 2}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    sample = draw_sample(DOCUMENTS, 100_000, 0)
    specials = (MASK, *CORRUPTED_SPANS)
    return build_tokenizer(sample, "word", None, end=True, specials=specials)


@pytest.fixture(scope="module")
def encoder(tokenizer: Tokenizer) -> Any:
    config = TransformerConfig(
        assembly="encoder-only", vocab_size=tokenizer.vocab_size, dropout_residual=0.5, **SHAPE
    )
    network = models.build(config, seed=3)
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(3)
    return network


@pytest.mark.parametrize("batch_size", [1, 4, 64])
@pytest.mark.parametrize("documents", [True, False])
def test_the_loss_is_torchs_with_masks_made_by_hand(
    encoder: Any, tokenizer: Tokenizer, batch_size: int, documents: bool
) -> None:
    """One window and one pass at a time, positions and documents counted here."""
    store = store_from_documents(DOCUMENTS, tokenizer)
    if not documents:
        store = type(store)(store.tokens, 1, 1, None, store.counts)
    rule = mask_rule(tokenizer, whole_words=False)
    encoder.train()
    found = evaluate_masked(encoder, store, rule, batch_size=batch_size)
    assert encoder.training
    encoder.eval()
    losses: list[float] = []
    right = 0
    for number, begin in enumerate(range(0, store.n_tokens, 16)):
        ids = np.asarray(store.tokens[begin : begin + 16]).astype(np.int64)
        padded = np.r_[ids, np.zeros(16 - len(ids), dtype=np.int64)]
        groups = rule.groups(padded[None], 0, number)[0][: len(ids)]
        opens = ids == tokenizer.end_id if documents else np.zeros(len(ids), dtype=bool)
        document = np.cumsum(opens)
        place = [i - max([j for j in range(i + 1) if opens[j]], default=0) for i in range(len(ids))]
        for k in range(7):
            read = torch.from_numpy(np.where(groups == k, rule.mask_id, ids))[None]
            inputs = {
                "document_ids": torch.from_numpy(document)[None],
                "positions": torch.tensor([place]),
            }
            with torch.no_grad():
                logits = encoder(read, **inputs)[0]
            for at in np.flatnonzero(groups == k):
                losses.append(-float(logits[at].double().log_softmax(-1)[ids[at]]))
                right += int(logits[at].argmax()) == ids[at]
    assert found.n_tokens == len(losses) == int((store.tokens != tokenizer.end_id).sum())
    assert found.nats_per_token == pytest.approx(np.mean(losses), rel=1e-5)
    assert found.accuracy == pytest.approx(right / len(losses))
    assert found.standard_error is not None
    assert not hasattr(found, "bits_per_byte")
    assert "not comparable" in found.explained


class Frequencies:
    """An encoder that knows how often each token occurs, and nothing else."""

    def __init__(self, p: np.ndarray) -> None:
        self.logits, self.vocab_size = torch.from_numpy(np.log(p)), len(p)
        self.context_length, self.device = 16, torch.device("cpu")

    def predict(self, tokens: Tensor, mask: Tensor, *_: Any, **__: Any) -> Tensor:
        return self.logits.expand(int(mask.sum()), -1)


def test_the_unigrams_line_is_where_frequency_alone_ends_up(tokenizer: Tokenizer) -> None:
    train = store_from_documents(DOCUMENTS, tokenizer)
    held_out = store_from_documents(DOCUMENTS[::3], tokenizer)
    rule = mask_rule(tokenizer, whole_words=False)
    free = rule.maskable
    p = np.zeros(tokenizer.vocab_size) + 1e-300
    seen, kinds = train.counts[free], int((train.counts[free] > 0).sum())
    p[free] = np.where(seen > 0, seen, kinds / (seen == 0).sum()) / (seen.sum() + kinds)
    assert p.sum() == pytest.approx(1)
    found = evaluate_masked(Frequencies(p), held_out, rule)
    lines = unigram_lines(train.counts[free], held_out.counts[free])
    assert lines["unigram"] == pytest.approx(found.nats_per_token, rel=1e-6)
    assert lines["uniform"] == pytest.approx(math.log((train.counts[free] > 0).sum()))


def test_pseudo_scores_hide_one_token_at_a_time(encoder: Any, tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the cats sat on number 3.")[:12]
    assert tokenizer.end_id is not None
    assert tokenizer.mask_id is not None
    found = pseudo_scores(encoder, ids, tokenizer.mask_id, tokenizer.end_id, batch_size=5)
    encoder.eval()
    for place, token in enumerate(ids):
        read = torch.tensor([[tokenizer.end_id, *ids]])
        read[0, place + 1] = tokenizer.mask_id
        with torch.no_grad():
            log_p = encoder(read)[0, place + 1].double().log_softmax(-1)
        assert found.nats[place] == pytest.approx(-float(log_p[token]), rel=1e-5)
        assert found.ranks[place] == 1 + int((log_p > log_p[token]).sum())
    long = (ids * 4)[:40]
    assert len(pseudo_scores(encoder, long, tokenizer.mask_id).nats) == 40


def test_predict_gives_the_logits_at_the_gaps_alone(encoder: Any) -> None:
    encoder.eval()
    tokens = torch.randint(0, 40, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.rand(3, 9, generator=torch.Generator().manual_seed(2)) < 0.3
    lengths = torch.tensor([9, 5, 7])
    whole = encoder(tokens.masked_fill(mask, 41), lengths)
    assert torch.equal(encoder.predict(tokens, mask, lengths, mask_id=41), whole[mask])
    alone = encoder.predict(tokens[1:2, :5], mask[1:2, :5], mask_id=41)
    both = whole[1, :5][mask[1, :5]]
    torch.testing.assert_close(alone, both, rtol=1e-4, atol=1e-5)


def test_masked_losses_are_those_of_transformers(tokenizer: Tokenizer) -> None:
    """BertForMaskedLM with the same weights, -100 where nothing is hidden."""
    transformers = pytest.importorskip("transformers")
    from budgerigar.training.objective import cross_entropy

    config = TransformerConfig(
        assembly="encoder-only", vocab_size=60, positions="learned", token_types=2, norm_place="post",
        norm_epsilon=1e-12, embedding_norm=True, head_transform=True, head_bias=True, d_ff=32, **SHAPE,
    )  # fmt: skip
    ours = models.build(config, seed=1)
    theirs = transformers.BertForMaskedLM(
        transformers.BertConfig(
            vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=16,
        )
    ).eval()  # fmt: skip
    copy_bert(ours, theirs)
    tokens = torch.randint(0, 60, (4, 16), generator=torch.Generator().manual_seed(3))
    chosen = torch.rand(4, 16, generator=torch.Generator().manual_seed(4)) < 0.3
    read = tokens.masked_fill(chosen, 59)
    loss = theirs(input_ids=read, labels=tokens.masked_fill(~chosen, -100)).loss
    logits = ours(read, only=chosen)
    _, true = cross_entropy(logits, tokens[chosen], weight=1 / int(chosen.sum()))
    assert true.item() == pytest.approx(loss.item(), rel=1e-5)


def copy_bert(ours: Any, theirs: Any) -> None:
    """Give our BERT the weights of theirs."""
    from_ours = dict(ours.named_parameters())

    def put(name: str, value: Tensor) -> None:
        with torch.no_grad():
            from_ours.pop(name).copy_(value)

    bert, head = theirs.bert, theirs.cls.predictions
    words = bert.embeddings
    put("embedding.tokens.weight", words.word_embeddings.weight)
    put("embedding.positions.weight", words.position_embeddings.weight)
    put("embedding.types.weight", words.token_type_embeddings.weight)
    pairs: list[tuple[str, Any]] = [("embedding.norm", words.LayerNorm)]
    for number, layer in enumerate(bert.encoder.layer):
        at = f"encoder.{number}"
        own = layer.attention.self
        pairs += [
            (f"{at}.self_attention.query", own.query),
            (f"{at}.self_attention.key", own.key),
            (f"{at}.self_attention.value", own.value),
            (f"{at}.self_attention.output", layer.attention.output.dense),
            (f"{at}.attention_norm", layer.attention.output.LayerNorm),
            (f"{at}.feed_forward.up", layer.intermediate.dense),
            (f"{at}.feed_forward.down", layer.output.dense),
            (f"{at}.feed_forward_norm", layer.output.LayerNorm),
        ]
    pairs += [
        ("head.transform", head.transform.dense),
        ("head.transform_norm", head.transform.LayerNorm),
    ]
    for name, module in pairs:
        put(f"{name}.weight", module.weight)
        put(f"{name}.bias", module.bias)
    put("head.bias", head.bias)
    assert not from_ours, list(from_ours)


# -- spans -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> Any:
    config = TransformerConfig(
        assembly="encoder-decoder", vocab_size=tokenizer.vocab_size, positions="relative",
        decoder_start=tokenizer.end_id, **SHAPE,
    )  # fmt: skip
    return models.build(config, seed=5).eval()


@pytest.mark.parametrize("batch_tokens", [1, 100, 5000])
def test_span_losses_are_those_of_single_pairs(
    translator: Any, tokenizer: Tokenizer, batch_tokens: int
) -> None:
    store = store_from_documents(DOCUMENTS, tokenizer)
    rule = span_rule(tokenizer, None)
    found = evaluate_spans(translator, store, rule, batch_tokens=batch_tokens)
    assert found.n_hidden == int((store.tokens != tokenizer.end_id).sum())
    nats, hidden = 0.0, 0.0
    special = {tokenizer.end_id, *rule.sentinels}
    for batch, _ in evaluation_spans(store, rule, 16, 1, seed=0):
        row = batch.targets[0][batch.targets[0] != -100]
        with torch.no_grad():
            logits = translator(batch.tokens[:1], source=batch.source[:1])
        own = -logits[0, : len(row)].double().log_softmax(-1)[range(len(row)), row]
        nats += float(own.sum())
        hidden += float(sum(n for n, t in zip(own, row.tolist(), strict=True) if t not in special))
    assert found.nats == pytest.approx(nats, rel=1e-5)
    assert found.nats_hidden == pytest.approx(hidden, rel=1e-5)


def test_the_spans_line_counts_what_is_to_be_written(tokenizer: Tokenizer) -> None:
    store = store_from_documents(DOCUMENTS, tokenizer)
    rule = span_rule(tokenizer, None)
    lines = span_lines(store, store, rule, 16)
    assert 0 < lines["unigram"] < lines["uniform"]


def test_a_share_of_one_half_takes_two_passes() -> None:
    assert MaskRule(1, np.ones(2, bool), np.arange(2), share=0.5).passes == 2
    assert MaskRule(1, np.ones(2, bool), np.arange(2), share=0.15).passes == 7


def test_a_short_text_is_not_read_with_the_padding_of_its_window(
    encoder: Any, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_from_documents(DOCUMENTS[:1], tokenizer)
    rule = mask_rule(tokenizer, whole_words=False)
    whole = evaluate_masked(encoder, store, rule)
    widths: list[int] = []
    predict = encoder.predict

    def watched(tokens: Tensor, *rest: Any, **named: Any) -> Any:
        widths.append(tokens.shape[1])
        return predict(tokens, *rest, **named)

    monkeypatch.setattr(encoder, "predict", watched)
    again = evaluate_masked(encoder, store, rule)
    assert again == whole
    assert set(widths) == {store.n_tokens}
    assert store.n_tokens < 16
