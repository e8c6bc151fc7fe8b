"""Show that preparing a file takes constant memory: time and peak memory on a generated file.

    python benchmarks/prepare_memory.py --megabytes 1000 --tokenizer character
    python benchmarks/prepare_memory.py --megabytes 200 --documents blank-lines

The file holds random words of a Zipf-like vocabulary in short paragraphs. Peak memory is that of
this process (`ru_maxrss`); pages of the mapped token store are part of it where they are touched.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from budgerigar.text.batches import WindowBatches, evaluation_windows
from budgerigar.text.corpus import prepare


def write_text(path: Path, megabytes: int, seed: int = 0) -> None:
    """Paragraphs of four lines of eight words, parted by blank lines."""
    random = np.random.default_rng(seed)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    lengths = random.integers(1, 10, size=20_000)
    words = np.array(["".join(random.choice(list(letters), size=n)) for n in lengths])
    with open(path, "w", encoding="utf-8") as file:
        while file.tell() < megabytes * 1_000_000:
            ranks = np.minimum(random.zipf(1.3, size=1 << 17) - 1, len(words) - 1)
            lines = [" ".join(line) + "." for line in words[ranks].reshape(-1, 8)]
            blocks = ["\n".join(lines[i : i + 4]) for i in range(0, len(lines), 4)]
            file.write("\n\n".join(blocks) + "\n\n")


def peak_megabytes() -> float:
    """Peak resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--tokenizer", default="auto")
    parser.add_argument("--documents", default="auto")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        write_text(path, arguments.megabytes)
        print(f"before: peak {peak_megabytes():,.0f} MB; file {path.stat().st_size / 1e6:,.0f} MB")
        for again in ("first", "again"):
            start = time.perf_counter()
            corpus = prepare(
                path,
                tokenizer=arguments.tokenizer,
                documents=arguments.documents,
                cache=Path(folder) / "cache",
            )
            seconds = time.perf_counter() - start
            speed = path.stat().st_size / 1e6 / seconds
            peak = peak_megabytes()
            print(f"{again}: {seconds:.1f} s ({speed:.0f} MB/s), peak {peak:,.0f} MB")
        print(*corpus.notes, sep="\n")
        WindowBatches(corpus.train, 256, 64, seed=0, order="shuffled").next()
        scored = sum(
            int((batch.targets >= 0).sum())
            for batch in evaluation_windows(corpus.validation, 256, 64)
        )
        assert scored == corpus.validation.n_tokens - 1
        print(f"with batches and all evaluation windows: peak {peak_megabytes():,.0f} MB")


if __name__ == "__main__":
    main()
