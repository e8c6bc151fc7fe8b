"""The catalogue's models themselves: fetched once into the user's cache (190 MB), skipped where no
network is. `make test-slow` runs them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import budgerigar as bg
from budgerigar import api
from budgerigar.api.cards import card
from budgerigar.errors import UserError
from budgerigar.text.model_catalogue import FetchedModel, fetch_model

pytestmark = pytest.mark.slow

TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "A budgerigar is a small parrot.",
    "Parrots are birds that can learn words.",
    "Xuanyuan has a budgerigar; it has green feathers.",
    "tax return",
    "轩辕有一只虎皮鹦鹉",
    "",
    "Café naïve — 3.14 % (ﬁne) 🦜",
    "word " * 400,
]

Get = Callable[[str], FetchedModel]


@pytest.fixture
def get(monkeypatch: pytest.MonkeyPatch) -> Get:
    """A model of the catalogue, from the user's own cache."""
    monkeypatch.delenv("BUDGIE_CACHE")

    def fetch(name: str) -> FetchedModel:
        try:
            return fetch_model(name)
        except UserError as error:
            pytest.skip(str(error))

    return fetch


def transformers_vectors(folder: Path, texts: list[str]) -> np.ndarray:
    """As the model's page says it is done with `transformers` alone, one text at a time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import AutoModel, AutoTokenizer
    reader = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    rows = []
    for text in texts:
        inputs = reader(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.inference_mode():
            vector = model(**inputs).last_hidden_state[0].mean(0)
        rows.append(torch.nn.functional.normalize(vector, dim=0))
    return torch.stack(rows).numpy()


def test_vectors_of_minilm_are_those_of_transformers(get: Get) -> None:
    found = get("minilm-l6")
    vectors = bg.load("minilm-l6").embed(TEXTS).numpy()
    assert vectors.shape == (len(TEXTS), 384)
    difference = np.abs(vectors - transformers_vectors(found.path, TEXTS)).max()
    print(f"largest difference {difference:.1e}")
    assert difference < 1e-4
    likeness = vectors @ vectors.T
    assert likeness[1, 2] > likeness[1, 4] + 0.3  # parrots with parrots


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("The animal didn't cross the street because it was too tired", 0.640),
        ("The animal didn't cross the street because it was too wide", 0.266),
        ("The animal didn't cross the street because it was too tired.", 0.677),
        ("The animal didn't cross the street because it was too wide.", 0.281),
    ],
)
def test_what_it_stands_for(get: Get, text: str, weight: float) -> None:
    """The last word decides what `it` looks at. An encoder: in a model that reads from left to right
    `it` cannot know what comes after it."""
    get("minilm-l6")
    head = bg.load("minilm-l6").trace(text).attention("L3.H1")
    row = {piece.strip("␣"): share for piece, share in head.row("it")}
    print(f"{row['animal']:.4f}")
    assert row["animal"] == pytest.approx(weight, abs=6e-4)


def test_smollm2_answers(get: Get) -> None:
    get("smollm2-135m-instruct")
    facts = card("smollm2-135m-instruct").as_dict()
    assert facts["sizes"]["n_layers"] == 30
    assert (facts["sizes"]["n_heads"], facts["sizes"]["n_kv_heads"]) == (9, 3)
    assert facts["parameters"]["total"] == 134_515_008
    assert facts["imported"]["output_layer_tied"] == "yes"
    model = bg.load("smollm2-135m-instruct")
    chat = api.conversation(model, temperature=0.0, max_new_tokens=20)
    assert "Paris" in "".join(chat.say("What is the capital of France?"))
    vectors = model.embed(["a small parrot", "a budgerigar"])
    assert vectors.shape == (2, 576)
    assert vectors.isfinite().all()
    packed = sum(b.nbytes for b in model.network.buffers())
    packed += sum(p.nbytes for p in model.network.parameters())
    told = facts["imported"]["weights_in_memory_bytes"]
    assert told == pytest.approx(packed, rel=0.01)  # rotary tables beside the weights
