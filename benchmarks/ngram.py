"""What n-grams reach on the characters of a text: loss, seconds to fit and to score, memory.

    python benchmarks/ngram.py --file tinyshakespeare.txt

The first nine tenths are counted, the last tenth is scored: every character but the first, once.
Streaming: the context reaches back as far as it likes; windowed: it starts anew every 256.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np

from budgerigar import progress
from budgerigar.models.configs import NgramConfig, Smoothing
from budgerigar.models.ngram import NgramModel
from budgerigar.models.ngram_counts import Ints
from budgerigar.text.reading import read_text

WINDOW = 256


def main() -> None:
    """Fit, score, print."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--file", required=True, help="a text file")
    parser.add_argument("--kneser-ney", default="3,4,5,6,7,8", help="orders, separated by commas")
    parser.add_argument("--witten-bell", default="1,2,3,5", help="orders, separated by commas")
    parser.add_argument("--fraction", type=float, default=0.1, help="part that is scored")
    options = parser.parse_args()
    progress.set_quiet(True)
    text = read_text(options.file)
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    letters, tokens = np.unique(points, return_inverse=True)
    cut = len(tokens) - math.ceil(len(tokens) * options.fraction)
    print(f"{options.file}: {cut:,} characters counted, {len(tokens) - cut:,} scored, ", end="")
    print(f"{len(letters):,} different, uniform {math.log(len(letters)):.3f} nats per character")
    print("smoothing    order  streaming  windowed  fit s  score s    n-grams     MB")
    chosen: list[tuple[Smoothing, str]] = [
        ("witten-bell", options.witten_bell),
        ("kneser-ney", options.kneser_ney),
    ]
    for smoothing, orders in chosen:
        for order in filter(None, orders.split(",")):
            config = NgramConfig(len(letters), int(order), smoothing)
            print(line(tokens[:cut], tokens[cut:], config), flush=True)


def line(train: Ints, validation: Ints, config: NgramConfig) -> str:
    """One row of the table."""
    begun = time.perf_counter()
    model = NgramModel.fit(train, config)
    fitted = time.perf_counter()
    streaming = model.score(validation)[0][1:].mean()
    scored = time.perf_counter()
    usable = (np.arange(len(validation)) - 1) % WINDOW + 1
    windowed = model.score(validation, usable)[0][1:].mean()
    return (
        f"{config.smoothing:<12} {config.order:>5}  {streaming:>9.4f}  {windowed:>8.4f}"
        f"  {fitted - begun:>5.2f}  {scored - fitted:>7.2f}  {sum(model.n_ngrams):>9,}"
        f"  {model.nbytes / 1e6:>5.0f}"
    )


if __name__ == "__main__":
    main()
