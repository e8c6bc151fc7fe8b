"""Word vectors against gensim's, with the same settings on the same words, in turns in one process.

    python -m pip install gensim
    python benchmarks/word_vectors.py --file tinyshakespeare.txt

Printed are the seconds of learning alone (one thread each), their ratio in each round, and the
held-out loss of both by our measure: the loss that both minimise, on the last tenth.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import torch

from budgerigar import progress
from budgerigar.evaluation.word_vectors import evaluate_vectors
from budgerigar.models.word_vectors import WordVectors
from budgerigar.models.word_vectors_config import WordVectorsConfig
from budgerigar.text.corpus import prepare
from budgerigar.training.recipe import TrainingRecipe
from budgerigar.training.signals import StopRequest
from budgerigar.training.word_vectors import VectorText, VectorTrainer, vector_text

SENTENCE = 10_000  # words; gensim cuts longer ones


def main() -> None:
    """Learn by both, in turns."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--file", required=True, help="a text file")
    parser.add_argument("--method", default="skip-gram", choices=("skip-gram", "cbow"))
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rate", type=float, default=0.025)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    progress.set_quiet(True)
    torch.set_num_threads(1)
    corpus = prepare(options.file, tokenizer="word", documents="none")
    config = WordVectorsConfig(vocab_size=corpus.tokenizer.vocab_size, method=options.method)
    text = vector_text(corpus, config)
    print(f"{options.file}: {len(text.train):,} words, {len(text.words):,} different; {options}")
    ratios = []
    for round_number in range(options.rounds):
        ours, our_loss, frequency = learn_here(text, options, seed=round_number + 1)
        theirs, their_loss = learn_there(text, options, seed=round_number + 1)
        ratios.append(ours / theirs)
        print(
            f"here {ours:6.2f} s, loss {our_loss:.4f}   gensim {theirs:6.2f} s, loss {their_loss:.4f}"
            f"   ratio {ours / theirs:.2f}   (by frequency alone {frequency:.4f})",
            flush=True,
        )
    print(f"median ratio {statistics.median(ratios):.2f}: below 1, we are faster")


def learn_here(text: VectorText, options: Any, seed: int) -> tuple[float, float, float]:
    """(seconds without evaluations, held-out loss, loss by frequency)."""
    model = WordVectors.begin(text.config, text.rows, text.counts, seed)
    settings = TrainingRecipe(learning_rate=options.rate, min_learning_rate=1e-4, seed=seed)
    trainer = VectorTrainer(model, text, settings, options.epochs)
    trainer.run(StopRequest())
    assert trainer.evaluation is not None
    return trainer.place.seconds, trainer.evaluation.loss, trainer.evaluation.by_frequency


def learn_there(text: VectorText, options: Any, seed: int) -> tuple[float, float]:
    """The same by gensim."""
    from gensim.models import Word2Vec

    words = [str(row) for row in text.train.words]
    sentences = [words[at : at + SENTENCE] for at in range(0, len(words), SENTENCE)]
    c = text.config
    model = Word2Vec(
        vector_size=c.d_embedding, window=c.window, negative=c.negatives, sample=c.subsample,
        ns_exponent=c.noise_power, sg=int(c.method == "skip-gram"), alpha=options.rate, min_count=1,
        min_alpha=1e-4, epochs=options.epochs, seed=seed, workers=1,
    )  # fmt: skip
    model.build_vocab(sentences)
    begun = time.perf_counter()
    model.train(sentences, total_examples=len(sentences), epochs=options.epochs)
    seconds = time.perf_counter() - begun
    order = np.array([model.wv.key_to_index[str(row)] for row in range(len(text.words))])
    inputs, outputs = (torch.from_numpy(a[order]) for a in (model.wv.vectors, model.syn1neg))
    theirs = WordVectors(c, text.rows, text.counts, inputs, outputs)
    return seconds, evaluate_vectors(theirs, text.validation).loss


if __name__ == "__main__":
    main()
