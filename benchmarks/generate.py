"""Generation with a cache against generation without, on a model of a published shape.

    python benchmarks/generate.py                     # gpt2-124m, 256 and 512 tokens: minutes
    python benchmarks/generate.py --tokens 64 --repeats 1

Random weights: speed does not depend on what they are. Cached and uncached runs alternate, medians
are printed. Without a cache every token reads the whole text again, which takes minutes for 512
tokens; so of the uncached tokens only every n-th is timed and counted n times (`--every 1` times all
of them). A cached token must read every weight once, so its speed is shown as a share of the read
bandwidth measured in the same run. At the end: the same logits, and on a trained small model the
same tokens. Exits with 1 if the tokens differ or the speed-up is below the target (4 times at 256
tokens, 8 at 512, for gpt2-124m).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import torch

from budgerigar.generation.generate import generate_ids
from budgerigar.generation.options import SamplingOptions
from budgerigar.layers import shapes
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.papers import paper_config
from budgerigar.models.transformer import Transformer
from budgerigar.text.stories import stories_documents

TARGETS = {256: 4.0, 512: 8.0}  # times as fast with a cache as without
GREEDY = 0.0


def main() -> int:
    """Run everything, print a table; 1 if a target is missed."""
    options = _options()
    if options.threads:
        torch.set_num_threads(options.threads)
    config = paper_config(options.model)
    network = Transformer(config).eval()
    read = weight_bytes_per_token(config)
    print(f"{options.model}: {shapes.parameters(config).total:,} parameters, float32, ", end="")
    print(f"{torch.get_num_threads()} threads, prompt of {options.prompt} tokens")
    fine = True
    for n in options.tokens:
        fine &= compare(network, n, options, read)
    print(f"largest difference of logits, cached and uncached: {logits_differ(network):.1e}")
    same, loss = tokens_agree()
    print(
        f"trained small model (loss {loss:.2f}): 300 greedy tokens {'equal' if same else 'DIFFER'}"
    )
    return 0 if fine and same else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", default="gpt2-124m", help="a paper's shape")
    parser.add_argument("--tokens", type=int, nargs="+", default=[256, 512], help="new tokens")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, alternating")
    parser.add_argument("--every", type=int, default=16, help="time every n-th uncached token")
    parser.add_argument("--prompt", type=int, default=8, help="tokens of the prompt")
    parser.add_argument("--threads", type=int, default=0, help="0: as torch chooses")
    return parser.parse_args()


# -- speed -----------------------------------------------------------------------------------------
def compare(network: Transformer, n: int, options: argparse.Namespace, read: int) -> bool:
    """Alternate cached and uncached runs of `n` new tokens and print the medians."""
    prompt = [i % network.vocab_size for i in range(options.prompt)]
    cached, uncached, bandwidths = [], [], []
    for _ in range(options.repeats):
        bandwidths.append(read_bandwidth())
        seconds, text = cached_seconds(network, prompt, n)
        cached.append(seconds)
        uncached.append(uncached_seconds(network, text, len(prompt), options.every))
    fast, slow = statistics.median(cached), statistics.median(uncached)
    bandwidth = statistics.median(bandwidths)
    cache = shapes.cache_bytes_per_token(network.config) * (len(prompt) + n / 2)
    achieved = (read + cache) * n / fast
    ratio, target = slow / fast, TARGETS.get(n) if options.model == "gpt2-124m" else None
    print(
        f"{n} new tokens: {n / fast:.1f} tokens/s with the cache ({1000 * fast / n:.1f} ms each), "
    )
    print(f"  {n / slow:.1f} without: {ratio:.1f} times as fast", end="")
    print(f" (target {target:g})" if target else "")
    print(
        f"  reads {achieved / 1e9:.1f} GB/s of weights and cache, {achieved / bandwidth:.0%} of the"
    )
    print(f"  {bandwidth / 1e9:.1f} GB/s that reading memory reaches here")
    return target is None or ratio >= target


def cached_seconds(network: Transformer, prompt: list[int], n: int) -> tuple[float, list[int]]:
    """Seconds for `n` greedy tokens after `prompt`, prompt included; and the whole text."""
    options = SamplingOptions(max_new_tokens=n, temperature=GREEDY)
    start = time.perf_counter()
    new = [event.token for event in generate_ids(network, [prompt], options)]
    return time.perf_counter() - start, [*prompt, *new]


def uncached_seconds(network: Transformer, text: list[int], n_prompt: int, every: int) -> float:
    """Seconds for the same tokens, each after reading all before it; only every n-th is run."""
    options = SamplingOptions(max_new_tokens=1, temperature=GREEDY)
    total = 0.0
    for first in range(n_prompt, len(text), every):
        covered = range(first, min(first + every, len(text)))
        middle = covered[len(covered) // 2]  # stands for its neighbours: time grows with length
        start = time.perf_counter()
        list(generate_ids(network, [text[:middle]], options, cached=False))
        total += (time.perf_counter() - start) * len(covered)
    return total


def weight_bytes_per_token(config: TransformerConfig) -> int:
    """Bytes of weights that one token must read: all but the tables that are only looked up."""
    counted = shapes.parameters(config)
    looked_up = counted.position_embedding
    looked_up += 0 if config.tied_embeddings else counted.token_embedding
    return 4 * (counted.total - looked_up)


def read_bandwidth(megabytes: int = 512) -> float:
    """Bytes per second of reading memory far larger than the caches: the best of a few ways."""
    matrix = torch.ones(megabytes * 256, 1024)  # rows of 4 KiB
    vector = torch.ones(1024)
    best = 0.0
    for work in (lambda: matrix.sum(), lambda: matrix @ vector):
        for _ in range(3):
            start = time.perf_counter()
            work()
            best = max(best, matrix.nbytes / (time.perf_counter() - start))
    return best


# -- the same answers ------------------------------------------------------------------------------
@torch.inference_mode()
def logits_differ(network: Transformer, n: int = 64) -> float:
    """Largest difference of logits between `forward` and token by token, over the largest logit."""
    tokens = torch.randint(
        0, network.vocab_size, (1, n), generator=torch.Generator().manual_seed(0)
    )
    whole = network(tokens)[0]
    state, worst = network.start(1), 0.0
    for i in range(n):
        logits, state = network.step(tokens[:, i : i + 1], state)
        worst = max(worst, float((logits[0] - whole[i]).abs().max()))
    return worst / float(whole.abs().max())


def tokens_agree(steps: int = 250) -> tuple[bool, float]:
    """Train a small model on stories for some seconds; are its greedy tokens the same both ways?"""
    text = "\n".join(stories_documents(400, seed=0))[:200_000]
    alphabet = sorted(set(text))
    ids = torch.tensor([alphabet.index(character) for character in text])
    config = TransformerConfig(
        vocab_size=len(alphabet), context_length=64, d_model=64, n_layers=2, n_heads=4
    )
    network = Transformer(config, seed=0)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    generator, loss = torch.Generator().manual_seed(0), torch.zeros(())
    for _ in range(steps):
        starts = torch.randint(0, len(ids) - 65, (16, 1), generator=generator)
        batch = ids[starts + torch.arange(65)]
        logits = network(batch[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    options = SamplingOptions(max_new_tokens=300, temperature=GREEDY)
    both = [
        [event.token for event in generate_ids(network, [[0]], options, cached=cached)]
        for cached in (True, False)
    ]
    return both[0] == both[1], loss.item()


if __name__ == "__main__":
    sys.exit(main())
