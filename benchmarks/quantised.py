"""A GGUF file: time to load, memory, speed; and its greedy tokens against llama.cpp's.

    python benchmarks/quantised.py MODEL.gguf                    # speed with 1 and 2 threads
    python benchmarks/quantised.py MODEL.gguf --dense            # beside float32 weights
    python benchmarks/quantised.py MODEL.gguf --llama-cpp        # beside llama-cpp-python, if installed

Decoding reads every weight once a token, so its speed is bound by the bytes that it reads.

llama.cpp rounds what a quantised matrix is multiplied by to 8 bits, and we do not. On SmolLM2's Q4_1
file that moves its logits by up to 1.8 (and by 0.2 between a prompt read at once and token by token),
so greedy tokens part where the best two are that close; how far they agree is printed. The same
numbers written as a float32 file leave llama.cpp nothing to round: there logits must agree to 1e-3
of the largest and all greedy tokens be equal, or this exits with 1. (Measured: 1e-4 absolute.)
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from budgerigar.formats.gguf_model import load_gguf
from budgerigar.formats.gguf_out import save_gguf
from budgerigar.layers.packed_linear import packed_bytes

NEAR = 0.1  # the best two are called close below this
EXACT = 1e-3  # of the largest logit
PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a village by the sea, there lived",
    "def fibonacci(n):\n",
    "Water boils at 100 degrees Celsius because",
    "The three primary colours are",
)


def main() -> int:
    """Measure, print, compare; 1 if greedy tokens differ where they may not."""
    options = _options()
    torch.set_num_threads(options.threads[0])
    before, start = resident(), time.perf_counter()
    loaded = load_gguf(options.model, packed=not options.dense)
    seconds = time.perf_counter() - start
    size = packed_bytes(loaded.network)
    print(
        f"{options.model.name}: {options.model.stat().st_size / 1e6:.0f} MB, loaded in {seconds:.1f} s;"
        f" weights {size / 1e6:.0f} MB, resident {before / 1e6:.0f} MB before and "
        f"{resident() / 1e6:.0f} MB after"
    )
    for threads in options.threads:
        torch.set_num_threads(threads)
        reading, writing = speed(loaded, options.tokens)
        print(
            f"{threads} thread{'s' * (threads > 1)}: reads {reading:.0f} tokens/s, writes "
            f"{writing:.1f} tokens/s, {writing * size / 1e9:.1f} GB/s of weights"
        )
    if options.llama_cpp:
        torch.set_num_threads(options.threads[0])
        return compare(loaded, options)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model", type=Path, help="a .gguf file")
    parser.add_argument("--tokens", type=int, default=64, help="tokens to write")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--dense", action="store_true", help="float32 weights")
    parser.add_argument("--llama-cpp", action="store_true", help="compare with llama-cpp-python")
    return parser.parse_args()


def resident() -> int:
    """Bytes of memory that this process holds now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


@torch.inference_mode()
def speed(loaded: Any, n_tokens: int) -> tuple[float, float]:
    """(tokens read per second of a prompt of 64, tokens written per second, the median)."""
    prompt = torch.tensor([loaded.tokenizer.encode(" the" * 64)[:64]])
    network = loaded.network
    network.step(prompt, network.start(1))  # warm
    start = time.perf_counter()
    logits, state = network.step(prompt, network.start(1))
    reading = prompt.shape[1] / (time.perf_counter() - start)
    times = []
    for _ in range(n_tokens):
        start = time.perf_counter()
        logits, state = network.step(logits.argmax(-1, keepdim=True), state)
        times.append(time.perf_counter() - start)
    return reading, 1 / statistics.median(times)


# -- against llama.cpp -----------------------------------------------------------------------------
@torch.inference_mode()
def our_logits(loaded: Any, ids: list[int], n_tokens: int) -> Iterator[np.ndarray]:
    """Logits (V,) after the prompt and after each of our greedy tokens."""
    network = loaded.network
    logits, state = network.step(torch.tensor([ids]), network.start(1))
    for _ in range(n_tokens):
        yield logits[0].numpy()
        logits, state = network.step(logits.argmax(-1, keepdim=True), state)


def their_logits(llama: Any, ids: list[int]) -> np.ndarray:
    """Logits (V,) of llama.cpp after `ids`, read from where it stands."""
    import llama_cpp

    llama.eval(ids)
    found = llama_cpp.llama_get_logits_ith(llama.ctx, -1)
    return np.array(np.ctypeslib.as_array(found, shape=(llama.n_vocab(),)))


def compare(loaded: Any, options: argparse.Namespace) -> int:
    """Greedy tokens of both, from the file as it is and from its numbers as float32."""
    from llama_cpp import Llama

    n_threads, fine = options.threads[0], True
    llama = Llama(str(options.model), n_ctx=512, n_threads=n_threads, verbose=False)
    print("llama.cpp on the file as it is:")
    for prompt in PROMPTS:
        theirs = llama.tokenize(prompt.encode(), add_bos=True, special=False)
        same = theirs == wrapped(loaded, prompt)
        fine &= same
        found = agreement(loaded, llama, prompt, options.tokens)
        print(f"  {prompt!r}: {found.words(options.tokens)}{'' if same else '; cut OTHERWISE'}")
    times = []
    for _ in range(options.tokens):
        start = time.perf_counter()
        their_logits(llama, [1])
        times.append(time.perf_counter() - start)
    print(f"  it writes {1 / statistics.median(times):.1f} tokens/s")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "float32.gguf"
        save_gguf(loaded, path, "F32")
        # type 0 is float32: keys and values, too, are kept whole
        llama = Llama(str(path), n_ctx=512, n_threads=n_threads, verbose=False, type_k=0, type_v=0)
        print("llama.cpp on the same numbers as float32:")
        for prompt in PROMPTS:
            found = agreement(loaded, llama, prompt, options.tokens)
            print(f"  {prompt!r}: {found.words(options.tokens)}")
            fine &= found.parted is None and found.difference < EXACT * found.largest
    return 0 if fine else 1


def wrapped(loaded: Any, prompt: str) -> list[int]:
    """Ids of a prompt with what belongs before it."""
    return [int(i) for i in loaded.tokenizer.wrapped(loaded.tokenizer.encode(prompt))]


@dataclass
class Agreement:
    """How far greedy tokens agree."""

    n_equal: int = 0
    near: int | None = None
    """the first place where our best two are closer than `NEAR`"""
    parted: float | None = None
    """how close our best two are where the tokens differ; None: they never do"""
    difference: float = 0.0
    largest: float = 0.0
    """largest difference of logits, and largest logit"""

    def words(self, asked: int) -> str:
        """All of it in one line."""
        end = "" if self.parted is None else f", then the best two are {self.parted:.3f} apart"
        near = "none" if self.near is None else f"token {self.near}"
        return (
            f"{self.n_equal} of {asked} tokens equal{end}; first near tie: {near}; logits differ by up "
            f"to {self.difference:.4f}"
        )


def agreement(loaded: Any, llama: Any, prompt: str, n_tokens: int) -> Agreement:
    """Both read the same: the prompt, then our greedy tokens."""
    llama.reset()
    found, new = Agreement(), wrapped(loaded, prompt)
    for place, ours in enumerate(our_logits(loaded, new, n_tokens)):
        theirs = their_logits(llama, new)
        second, first = np.sort(ours)[-2:]
        if first - second < NEAR and found.near is None:
            found.near = place
        found.difference = max(found.difference, float(np.abs(ours - theirs).max()))
        found.largest = max(found.largest, float(np.abs(ours).max()))
        if int(ours.argmax()) != int(theirs.argmax()):
            found.parted = float(first - second)
            return found
        found.n_equal, new = found.n_equal + 1, [int(ours.argmax())]
    return found


if __name__ == "__main__":
    sys.exit(main())
