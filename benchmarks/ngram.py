"""n-grams on the characters of a text: loss by order; time and memory of a long text; against nltk.

    python benchmarks/ngram.py --file tinyshakespeare.txt      # every order: loss, seconds, memory
    python benchmarks/ngram.py --megabytes 100                 # one order of a long text, as trained
    python -m pip install nltk
    python benchmarks/ngram.py --megabytes 1 --nltk            # the same model by nltk.lm, in turns

The first nine tenths are counted, the last tenth is scored: every character but the first, once.
Streaming: the context reaches back as far as it likes; windowed: it starts anew every 256. With
--megabytes and no --file the text is made of the Python sources that lie here, standard library and
packages, each different file once, in a temporary folder.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

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
    parser.add_argument("--file", help="a text file")
    parser.add_argument("--kneser-ney", default="3,4,5,6,7,8", help="orders, separated by commas")
    parser.add_argument("--witten-bell", default="1,2,3,5", help="orders, separated by commas")
    parser.add_argument("--fraction", type=float, default=0.1, help="part that is scored")
    parser.add_argument("--megabytes", type=float, help="so much of the file or of Python sources")
    parser.add_argument("--order", type=int, default=6, help="with --megabytes")
    parser.add_argument("--nltk", action="store_true", help="train and score by nltk.lm too")
    parser.add_argument("--rounds", type=int, default=2, help="with --nltk: in turns, so often")
    options = parser.parse_args()
    progress.set_quiet(True)
    if options.megabytes is None:
        if not options.file or options.nltk:
            parser.error("give --file, or --megabytes (which --nltk needs)")
        by_order(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        write_text(path, options.megabytes, options.file)
        if options.nltk:
            against_nltk(path.read_text(encoding="utf-8"), options)
        else:
            long_text(path, options.order)


def write_text(path: Path, megabytes: float, source: str | None) -> None:
    """The beginning of a file, or Python sources in a shuffled order, each different one once."""
    roots = [Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib")]
    files = [Path(source)] if source else sorted({p for r in roots for p in r.rglob("*.py")})
    random.Random(0).shuffle(files)
    seen: set[bytes] = set()
    left, n_files = int(megabytes * 1e6), 0
    with open(path, "w", encoding="utf-8", newline="\n") as out:
        for file in files:
            text = ""
            with contextlib.suppress(OSError, UnicodeDecodeError):
                text = file.read_text(encoding="utf-8")
            digest = hashlib.sha256(text.encode()).digest()
            if digest in seen or left <= 0:
                continue
            seen.add(digest)
            text = text.encode()[:left].decode(errors="ignore")
            left -= len(text.encode())
            n_files += out.write(text) > 0
    if left > 1000:
        print(f"only {megabytes - left / 1e6:.1f} MB of different text are here", file=sys.stderr)
    print(f"{path.stat().st_size:,} bytes of {source or f'{n_files:,} different Python files'}")


# -- every order ----------------------------------------------------------------------------------


def by_order(options: argparse.Namespace) -> None:
    """The table of losses."""
    letters, tokens = numbered(read_text(options.file))
    cut = len(tokens) - math.ceil(len(tokens) * options.fraction)
    print(f"{options.file}: {cut:,} characters counted, {len(tokens) - cut:,} scored, ", end="")
    print(f"{letters:,} different, uniform {math.log(letters):.3f} nats per character")
    print("smoothing    order  streaming  windowed  fit s  score s    n-grams     MB")
    chosen: list[tuple[Smoothing, str]] = [
        ("witten-bell", options.witten_bell),
        ("kneser-ney", options.kneser_ney),
    ]
    for smoothing, orders in chosen:
        for order in filter(None, orders.split(",")):
            config = NgramConfig(letters, int(order), smoothing)
            print(line(tokens[:cut], tokens[cut:], config), flush=True)


def numbered(text: str) -> tuple[int, Ints]:
    """(different characters, the text as their numbers)."""
    points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
    used = np.bincount(points) > 0
    return int(used.sum()), (np.cumsum(used) - 1)[points]


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


# -- a long text ----------------------------------------------------------------------------------


def long_text(path: Path, order: int) -> None:
    """`budgie train` on it in a process of its own; then load it and generate."""
    out = path.parent / "run"
    command = [sys.executable, "-m", "budgerigar", "train", str(path), "--recipe", "ngram"]
    command += ["--order", str(order), "--tokenizer", "character", "--out", str(out)]
    begun = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env={**os.environ, "BUDGIE_CACHE": str(path.parent)})
    seconds = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = after.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e6 / 1024)
    size = (out / "model.safetensors").stat().st_size
    print(
        f"order {order}, counted, scored and saved: {seconds:.1f} s ({busy:.1f} s of a core), ",
        end="",
    )
    print(f"peak memory {peak:,.0f} MB, file {size / 1e6:,.0f} MB")
    import budgerigar as bg

    begun = time.perf_counter()
    model = bg.load(out)
    loaded = time.perf_counter()
    written = model.generate("import ", max_new_tokens=1000, seed=1)
    seconds = time.perf_counter() - loaded
    print(f"{sum(model.network.n_ngrams):,} n-grams, loaded in {loaded - begun:.2f} s; ", end="")
    print(f"{len(written):,} characters written in {seconds:.1f} s")


# -- against nltk ---------------------------------------------------------------------------------


def against_nltk(text: str, options: argparse.Namespace) -> None:
    """The same interpolated Witten-Bell model by both, in turns; seconds of processor time.

    Witten-Bell because nltk's Kneser-Ney goes through all longer n-grams for every probability.
    """
    cut = len(text) - math.ceil(len(text) * options.fraction)
    train, validation = text[:cut], text[cut:]
    print(f"{len(train):,} characters counted, {len(validation):,} scored, order {options.order}")
    here: list[float] = []
    there: list[float] = []
    for _ in range(options.rounds):
        for name, run, kept in (("here", score_here, here), ("nltk", score_nltk, there)):
            begun = time.process_time()
            fitted, nats, n_scored = run(train, validation, options.order)
            kept.append(time.process_time() - begun)
            print(
                f"{name}: trained in {fitted - begun:7.3f} s, trained and scored in {kept[-1]:7.3f} s, "
                f"{nats:.4f} nats per character over {n_scored:,}",
                flush=True,
            )
    a, b = statistics.median(here), statistics.median(there)
    print(f"medians {a:.3f} s and {b:.1f} s: {b / a:.0f} times faster than nltk.lm")


def score_here(train: str, validation: str, order: int) -> tuple[float, float, int]:
    """(time when trained, nats per character of those seen in training, how many these are)."""
    letters, tokens = numbered(train + validation)
    model = NgramModel.fit(tokens[: len(train)], NgramConfig(letters, order, "witten-bell"))
    fitted = time.process_time()
    nats = model.score(tokens[len(train) :])[0]
    seen = np.isin(tokens[len(train) :], tokens[: len(train)])
    return fitted, float(nats[seen].mean()), int(seen.sum())


def score_nltk(train: str, validation: str, order: int) -> tuple[float, float, int]:
    """The same by nltk, which gives a character that was never seen no probability at all."""
    from nltk.lm import WittenBellInterpolated
    from nltk.util import everygrams

    model = WittenBellInterpolated(order)
    model.fit([everygrams(train, max_len=order)], vocabulary_text=train)
    fitted = time.process_time()
    chances = np.array(
        [
            model.score(letter, tuple(validation[max(0, place - order + 1) : place]))
            for place, letter in enumerate(validation)
        ]
    )
    chances = chances[chances > 0]
    return fitted, float(-np.log(chances).mean()), len(chances)


if __name__ == "__main__":
    main()
