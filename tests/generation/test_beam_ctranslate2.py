"""Search by CTranslate2's rules: the library itself finds the same; by hand where it is not here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from scripted_translator import END, START, ScriptedTranslator

from budgerigar.api.translation import translation_options
from budgerigar.errors import UserError
from budgerigar.formats.ctranslate2_out import save_ctranslate2, vocabularies
from budgerigar.formats.run import Loaded
from budgerigar.generation.beam import Hypothesis, search
from budgerigar.generation.translation_options import TranslationOptions
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.text.tokenizers import train_tokenizer

TEXT = "the cat sat on the mat. a dog ran to the cat! viele Vögel\n" * 20
LINES = ("the cat sat", "a dog ran to the mat!", "viele", "Vögel on the cat.")


def run(network: Any, sources: list[list[int]], **settings: Any) -> list[list[Hypothesis]]:
    options = TranslationOptions(search="ctranslate2", **settings)
    return search(network, sources, options, start_id=START, end_id=END)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Loaded, Any]:
    """A translator with random weights that ends its sentences, and the library's reader of it."""
    ctranslate2 = pytest.importorskip("ctranslate2")
    tokenizer = train_tokenizer([TEXT], "bpe", 300, end=True)
    config = TransformerConfig(
        assembly="encoder-decoder", vocab_size=tokenizer.vocab_size, context_length=48, d_model=32,
        n_layers=2, n_heads=4, init_std=0.4, decoder_start=tokenizer.end_id, tied_embeddings=False,
        positions="sinusoidal", head_bias=True,
    )  # fmt: skip
    network = Transformer(config, seed=1).eval()
    network.head.bias.data[tokenizer.end_id] = 7.0  # else a random model never ends
    loaded = Loaded(network, tokenizer, {}, None, Path("run"), source_tokenizer=tokenizer)
    folder = tmp_path_factory.mktemp("ctranslate2") / "model"
    save_ctranslate2(loaded, folder)
    return loaded, ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)


SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "greedy": ({"beam_size": 1}, {"beam_size": 1}),
    "a beam": ({"beam_size": 4, "n_best": 4}, {"beam_size": 4, "num_hypotheses": 4}),
    "no penalty": (
        {"beam_size": 5, "n_best": 2, "length_penalty": "none"},
        {"beam_size": 5, "num_hypotheses": 2, "length_penalty": 0},
    ),
    "an exponent": ({"beam_size": 3, "alpha": 0.3}, {"beam_size": 3, "length_penalty": 0.3}),
    "lengths": (
        {"beam_size": 4, "n_best": 3, "min_length": 4, "max_length": 6},
        {"beam_size": 4, "num_hypotheses": 3, "min_decoding_length": 4, "max_decoding_length": 6},
    ),
    "empty ones too": (
        {"beam_size": 4, "n_best": 4, "min_length": 0},
        {"beam_size": 4, "num_hypotheses": 4, "min_decoding_length": 0},
    ),
    "no repeats": (
        {"beam_size": 3, "no_repeat_ngram": 1, "max_length": 12},
        {"beam_size": 3, "no_repeat_ngram_size": 1, "max_decoding_length": 12},
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_library_finds_the_same_with_the_same_scores(
    name: str, pair: tuple[Loaded, Any]
) -> None:
    loaded, reader = pair
    end = loaded.tokenizer.end_id
    assert end is not None
    mine, theirs = SETTINGS[name]
    target, source = vocabularies(loaded)
    ids = [loaded.tokenizer.encode(line) for line in LINES]
    read = [[source[i] for i in one] for one in ids]
    expected = reader.translate_batch(
        read, return_scores=True, **{"max_decoding_length": 48, **theirs}
    )
    options = TranslationOptions(search="ctranslate2", **{"max_length": 48, **mine})
    found = search(loaded.network, [[*one, end] for one in ids], options, start_id=end, end_id=end)
    for ours, wanted in zip(found, expected, strict=True):
        assert [[target[i] for i in one.ids] for one in ours] == wanted.hypotheses
        assert [one.score for one in ours] == pytest.approx(wanted.scores, rel=1e-5)


def test_the_beam_ends_with_its_first_results_though_a_better_one_would_come() -> None:
    def table(source: Any, history: Any) -> list[float]:  # END at once, or 2 2 2 2 END for sure
        if not history:
            return [0.05, 0.45, 0.5]
        return [0, 1, 0] if len(history) == 4 or history[0] == 0 else [0, 0, 1]

    network = ScriptedTranslator(table, 3)
    ((best,),) = run(network, [[1]], beam_size=2, min_length=0)
    assert best.ids == ()  # and (0,) was the second
    ((best,),) = search(network, [[1]], TranslationOptions(beam_size=2), start_id=START, end_id=END)
    assert best.ids == (2, 2, 2, 2)
    assert best.score == pytest.approx(math.log(0.5) / 5, abs=1e-6)
    ((best,),) = run(network, [[1]], beam_size=2)  # the end is banned first: the rest sums to 1
    assert best.ids == (2, 2, 2, 2)
    assert best.log_probability == pytest.approx(math.log(0.5 / 0.55), abs=1e-6)


def test_its_own_length_limit_is_the_librarys() -> None:
    ((best,),) = run(ScriptedTranslator(lambda s, h: [0, 0, 1.0], 3), [[1]], beam_size=2)
    assert len(best.ids) == 256
    assert not best.finished


def test_a_batch_changes_nothing(pair: tuple[Loaded, Any]) -> None:
    loaded, _ = pair
    end = loaded.tokenizer.end_id
    assert end is not None
    sources = [[*loaded.tokenizer.encode(line), end] for line in LINES]
    options = TranslationOptions(search="ctranslate2", beam_size=3, n_best=3)
    together = search(loaded.network, sources, options, start_id=end, end_id=end)
    for source, ours in zip(sources, together, strict=True):
        (alone,) = search(loaded.network, [source], options, start_id=end, end_id=end)
        assert [one.ids for one in alone] == [one.ids for one in ours]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"temperature": 1.0}, "leave temperature out"),
        ({"length_penalty": "gnmt"}, "not gnmt"),
        ({"coverage_penalty": 0.2}, "no coverage_penalty"),
        ({"search": "theirs"}, "search"),
    ],
)
def test_what_has_no_counterpart_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        TranslationOptions(**{"search": "ctranslate2", **settings}).validate()


def test_a_prefix_is_refused_and_an_idle_option_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    network = ScriptedTranslator(lambda s, h: [0, 1.0, 0], 3)
    with pytest.raises(UserError, match="takes no prefix"):
        search(
            network, [[1]], TranslationOptions(search="ctranslate2"), start_id=START, end_id=END,
            prefixes=[[2]],
        )  # fmt: skip
    translation_options({"search": "ctranslate2", "max_extra": 3})
    assert "--max-extra has no effect" in capsys.readouterr().err
