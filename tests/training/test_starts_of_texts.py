"""Training on tokenizers whose authors open a text with a token of its own: `<s>`, `[CLS]`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import foreign_tokenizers as foreign
import numpy as np
import pytest
import torch
from tiny_models import transformers

import budgerigar as bg
from budgerigar.evaluation import evaluate
from budgerigar.text.batches import NOT_SCORED, evaluation_windows, gather_windows
from budgerigar.text.corpus import prepare
from budgerigar.text.imported_tokenizer import ImportedTokenizer, tokenizer_from_folder
from budgerigar.text.store import TokenStore, store_from_documents
from budgerigar.training.run import train

BLOCKS = [f"The budgerigar number {i} sat\non a perch." for i in range(30)]
TEXT = "\n\n".join(BLOCKS) + "\n"
QUICK: dict[str, Any] = {
    "threads": 1, "steps": 2, "evaluate_every": 2, "sample_tokens": 5, "window_length": 24,
}  # fmt: skip


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "birds.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with Llama 2's way of opening a text."""
    folder = tmp_path_factory.mktemp("models") / "llama"
    foreign.llama_like(folder)
    config = transformers.LlamaConfig(
        vocab_size=tokenizer_from_folder(folder).vocab_size, hidden_size=16, intermediate_size=24,
        num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=256,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def pieces(store: TokenStore, tokenizer: ImportedTokenizer) -> list[str]:
    names = {number: name for name, number in tokenizer.special_ids.items()}
    return [names.get(int(i), ".") for i in store.tokens]


def test_documents_begin_and_end_as_the_authors_have_it(llama: Path, text: Path) -> None:
    tokenizer = tokenizer_from_folder(llama)
    corpus = prepare(text, tokenizer=tokenizer, documents="blank-lines")
    for store in (corpus.train, corpus.validation, store_from_documents(BLOCKS, tokenizer)):
        shown = "".join(pieces(store, tokenizer))
        documents = shown.removeprefix("<s>").removesuffix("</s><s>").split("</s><s>")
        assert all(set(one) == {"."} for one in documents), shown
        assert store.opens_id == tokenizer.start_ids[0]
        assert store.n_targets == sum(map(len, documents)) + len(documents)
        assert store.counts.sum() == store.n_tokens
    assert any("<s> stands before each document" in note for note in corpus.notes)


def test_a_plain_text_begins_once(llama: Path, text: Path) -> None:
    tokenizer = tokenizer_from_folder(llama)
    corpus = prepare(text, tokenizer=tokenizer, documents="none")
    shown = pieces(corpus.train, tokenizer)
    assert shown[0] == "<s>"
    assert set(shown[1:]) == {"."}
    assert corpus.train.n_targets == corpus.train.n_tokens - 1
    assert gather_windows(corpus.train, np.array([0]), 8).document_ids is None
    again = prepare(text, tokenizer=tokenizer, documents="none")
    assert again.fingerprint == corpus.fingerprint
    assert TokenStore.open(corpus.train.path).start_ids == tokenizer.start_ids


def test_what_opens_a_text_is_read_and_never_a_target(llama: Path) -> None:
    tokenizer = tokenizer_from_folder(llama)
    store = store_from_documents(BLOCKS[:4], tokenizer)
    (batch,) = evaluation_windows(store, store.n_tokens - 1, 1)
    tokens, targets = batch.tokens[0], batch.targets[0]
    start = tokenizer.start_ids[0]
    assert (tokens == start).sum() == 4
    assert start not in targets
    assert (targets[tokens == tokenizer.end_id] == NOT_SCORED).all()
    assert batch.positions is not None
    assert (batch.positions[0][tokens == start] == 0).all()
    network = bg.load(llama).network
    assert store.n_tokens < network.context_length  # one window: none of the documents is cut
    by_window = evaluate(network, store)
    # the same by hand: each document alone, as the authors' own library would read it
    nats = 0.0
    for block in BLOCKS[:4]:
        ids = torch.tensor([[*tokenizer.wrapped(tokenizer.encode(block)), tokenizer.end_id]])
        logits = network(ids[:, :-1])[0]
        loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")
        nats += float(loss.detach())
    assert by_window.n_tokens == store.n_targets
    assert by_window.nats == pytest.approx(nats, rel=1e-5)
    by_steps = evaluate(Steps(network), store, context_length=8)
    assert by_steps.n_tokens == store.n_targets


class Steps:
    """The same network without `forward`."""

    def __init__(self, network: Any) -> None:
        for name in ("config", "vocab_size", "device", "start", "step"):
            setattr(self, name, getattr(network, name))
        self.context_length = None


@pytest.mark.parametrize("documents", ["blank-lines", "none"])
def test_a_run_from_such_a_model_opens_texts_so(
    llama: Path, text: Path, tmp_path: Path, documents: str
) -> None:
    settings = {**QUICK, "documents": documents}
    run = train(None, [text], start_from=llama, out=tmp_path / "run", settings=settings)
    config = json.loads((run.folder / "config.json").read_text())
    assert config["text"]["starts_documents"] is True
    model = bg.load(run.folder)
    assert model.start_id == model.tokenizer.start_ids[0]
    assert model.evaluate().n_tokens > 0


def test_an_encoder_reads_cls_text_sep(tmp_path: Path, text: Path) -> None:
    foreign.bert_like(tmp_path / "bert")
    tokenizer = tokenizer_from_folder(tmp_path / "bert")
    shown = pieces(prepare(text, tokenizer=tokenizer, documents="blank-lines").train, tokenizer)
    assert shown[0] == "[CLS]"
    assert "[SEP][CLS]" in "".join(shown)
    assert "[SEP]." not in "".join(shown)


def test_where_an_end_opens_the_next_document_nothing_is_added(tmp_path: Path, text: Path) -> None:
    foreign.byte_level(tmp_path / "gpt2")
    tokenizer = tokenizer_from_folder(tmp_path / "gpt2")
    store = prepare(text, tokenizer=tokenizer, documents="blank-lines").train
    assert store.start_ids == ()
    assert store.n_targets == store.n_tokens - 1
    assert store.opens_id == store.end_id == store.tokens[0]
