"""`--probe context`: what long texts cost attention, and which cure helps against what.

Every query meets every key: twice the text, four times the scores. Written out they are also
four times the memory; the fused kernel (Dao et al. 2022) never writes them out, so its memory grows
with the text alone, but its time is still that of all scores. A window with sinks (Xiao et al. 2023)
meets only so many keys, so scores and cache stop growing; what lies before the window is out of
sight. Grouped queries (Ainslie et al. 2023) shrink the cache by a factor, not its growth.

T positions, H heads, E d_head.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from budgerigar import progress
from budgerigar.experiments.compare_words import duration
from budgerigar.experiments.probes import Chart, Probe, keep, kept, probe_folder
from budgerigar.experiments.probes_parallel import best_seconds
from budgerigar.layers.attention import attention
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer

MILLION = 1_000_000
WAYS = ("explicit", "fused", "window with sinks")


@dataclass(frozen=True)
class Sizes:
    """How large the probe is."""

    lengths: tuple[int, ...] = (512, 1024, 2048, 4096)
    """T, each twice the one before"""
    n_heads: int = 8
    d_head: int = 32
    window: int = 256
    sinks: int = 4
    cache_lengths: tuple[int, ...] = (512, 1024, 2048, 4096)
    n_layers: int = 4
    repeats: int = 3


QUICK = Sizes(lengths=(256, 512, 1024), cache_lengths=(256, 512, 1024), window=64, n_layers=2)


def context(
    *,
    seed: int = 1,
    sizes: Sizes | None = None,
    quick: bool = False,
    threads: str | int = "auto",
    out: Path | None = None,
) -> Probe:
    """Measure scores, time, memory and cache by the length of the text."""
    sizes = sizes or (QUICK if quick else Sizes())
    if threads != "auto":
        torch.set_num_threads(int(threads))
    settings = {**asdict(sizes), "seed": seed, "threads": torch.get_num_threads()}
    folder = probe_folder(out, "context", settings)
    measured: dict[str, Any] = {}
    for way in WAYS:
        name = way.replace(" ", "-")
        measured[way] = kept(folder, name) or _measured(way, sizes, seed)
        keep(folder, name, measured[way])
        progress.note(f"{way}: measured")
    caches = kept(folder, "caches") or _caches(sizes, seed)
    keep(folder, "caches", caches)
    return _probe(measured, caches, sizes, seed, folder).write()


# -- attention --------------------------------------------------------------------------------------


def score_entries(way: str, length: int, sizes: Sizes) -> int:
    """Query-key products that are computed, all heads; the fused kernel skips what is masked."""
    if way == "explicit":  # written out whole, the half behind the mask too
        return sizes.n_heads * length * length
    reach = sizes.window + sizes.sinks if way != "fused" else length
    seen = min(reach, length)
    return sizes.n_heads * (seen * (seen + 1) // 2 + (length - seen) * seen)


def _measured(way: str, sizes: Sizes, seed: int) -> dict[str, list[float]]:
    """Scores, seconds and peak bytes by length."""
    found: dict[str, list[float]] = {"scores": [], "seconds": [], "bytes": []}
    with progress.track(way, len(sizes.lengths), "lengths") as job, torch.inference_mode():
        for length in sizes.lengths:
            draws = torch.Generator().manual_seed(seed)
            shape = (1, sizes.n_heads, length, sizes.d_head)
            q, k, v = (torch.randn(shape, generator=draws) for _ in range(3))
            run = _runner(way, q, k, v, sizes)
            found["scores"].append(score_entries(way, length, sizes))
            found["seconds"].append(best_seconds(run, sizes.repeats))
            found["bytes"].append(peak_bytes(run))
            job.advance()
    return found


def _runner(way: str, q: Tensor, k: Tensor, v: Tensor, sizes: Sizes) -> Callable[[], Tensor]:
    if way == "explicit":
        seen = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril()
        return lambda: attention(q, k, v, seen)
    if way == "fused":
        return lambda: scaled_dot_product_attention(q, k, v, is_causal=True)
    return lambda: windowed(q, k, v, sizes.window, sizes.sinks)


def windowed(q: Tensor, k: Tensor, v: Tensor, window: int, sinks: int) -> Tensor:
    """Causal attention (1,H,T,E) to the last `window` positions and the first `sinks`, a block of
    `window` queries at a time: no more keys are touched than two windows and the sinks."""
    length, parts = q.shape[2], []
    for begin in range(0, length, window):
        stop, first = min(begin + window, length), max(0, begin - window + 1)
        heads = torch.arange(min(sinks, first))
        places = torch.cat([heads, torch.arange(first, stop)])
        queries = torch.arange(begin, stop)[:, None]
        seen = (places <= queries) & ((places > queries - window) | (places < sinks))
        near = scaled_dot_product_attention(
            q[:, :, begin:stop], k[:, :, places], v[:, :, places], attn_mask=seen
        )
        parts.append(near)
    return torch.cat(parts, dim=2)


class _Living(TorchDispatchMode):
    """Counts the bytes of the tensors that operations make, while they live."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        tree_map_only(Tensor, self._count, result)
        return result

    def _count(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        key, n_bytes = storage._cdata, storage.nbytes()
        if key not in self._known:  # not a view of what is counted
            self._known.add(key)
            self.now += n_bytes
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._freed, key, n_bytes)
        return tensor

    def _freed(self, key: int, n_bytes: int) -> None:
        self._known.discard(key)
        self.now -= n_bytes


def peak_bytes(run: Callable[[], object]) -> int:
    """The most bytes of tensors made during `run` that lived at the same time."""
    with _Living() as living:
        run()
    return living.most


# -- the cache --------------------------------------------------------------------------------------


def cache_configs(sizes: Sizes) -> dict[str, TransformerConfig]:
    """The same model with all keys and values kept, with fewer, and with a window."""
    heads = sizes.n_heads
    plain = TransformerConfig(
        vocab_size=64,
        context_length=max(sizes.cache_lengths),
        n_layers=sizes.n_layers,
        n_heads=heads,
        d_model=heads * sizes.d_head,
        positions="rotary",
    )
    windowed = plain.replace(
        attention_window=sizes.window,
        sink_tokens=sizes.sinks,
        context_length=2 * sizes.window + sizes.sinks,
    )
    groups = max(heads // 4, 1)
    return {
        "all heads": plain,
        f"grouped queries, {groups} of {heads}": plain.replace(n_kv_heads=groups),
        "one key-value head": plain.replace(n_kv_heads=1),
        f"window {sizes.window}, {sizes.sinks} sinks": windowed,
    }


@torch.inference_mode()
def _caches(sizes: Sizes, seed: int) -> dict[str, list[int]]:
    """Bytes carried after so many tokens, as the state itself says."""
    found = {}
    for name, config in cache_configs(sizes).items():
        network = Transformer(config.validate(), seed).eval()
        found[name] = [_carried(network, length) for length in sizes.cache_lengths]
    return found


def _carried(network: Transformer, length: int) -> int:
    state, read = network.start(1), 0
    limit = network.context_length
    assert limit is not None
    while read < length:
        full = int(state.lengths.max())
        if full >= limit:
            state = network.roll(state)
            full = int(state.lengths.max())
        n = min(length - read, limit - full, 512)
        tokens = torch.arange(read, read + n)[None] % network.vocab_size
        _, state = network.step(tokens, state)
        read += n
    return int(state.nbytes)


# -- what it shows ----------------------------------------------------------------------------------


def _probe(
    measured: dict[str, Any], caches: dict[str, list[int]], sizes: Sizes, seed: int, folder: Path
) -> Probe:
    lengths = [float(n) for n in sizes.lengths]

    def by(part: str, factor: float) -> dict[str, list[tuple[float, float]]]:
        return {
            way: [(x, factor * y) for x, y in zip(lengths, one[part], strict=True)]
            for way, one in measured.items()
        }

    cached = {
        name: [(float(x), y / 1e6) for x, y in zip(sizes.cache_lengths, line, strict=True)]
        for name, line in caches.items()
    }
    rows = [
        (
            way,
            f"{length:,}",
            f"{one['scores'][n]:,.0f}",
            f"{1e3 * one['seconds'][n]:,.1f} ms",
            _times(one["seconds"], n),
            f"{one['bytes'][n] / 1e6:,.2f} MB",
            _times(one["bytes"], n),
        )
        for way, one in measured.items()
        for n, length in enumerate(sizes.lengths)
    ]
    rows += [
        (f"cache: {name}", f"{length:,}", "", "", "", f"{line[n] / 1e6:,.2f} MB", _times(line, n))
        for name, line in caches.items()
        for n, length in enumerate(sizes.cache_lengths)
    ]
    return Probe(
        name="context",
        title="What a long text costs attention",
        about=f"One layer's causal attention, {sizes.n_heads} heads of {sizes.d_head}, forward, "
        f"float32, {torch.get_num_threads()} threads, the best of {sizes.repeats} runs; memory is the "
        f"tensors that lived at the same time. Caches of {sizes.n_layers} layers. Window "
        f"{sizes.window}, {sizes.sinks} sinks. Seed {seed}.",
        seed=seed,
        head=("way", "T", "scores", "time", "of T/2", "memory", "of T/2"),
        rows=tuple(rows),
        charts=(
            Chart("time", "time", "tokens T", "ms", by("seconds", 1e3), log_y=True),
            Chart("memory", "memory", "tokens T", "MB", by("bytes", 1e-6), log_y=True),
            Chart("cache", "cache", "tokens read", "MB", cached, log_y=True),
        ),
        says=tuple(_says(measured, caches, sizes)),
        numbers={"sizes": asdict(sizes), "attention": measured, "caches": caches},
        folder=folder,
    )


def _times(values: list[float] | list[int], n: int) -> str:
    return f"{values[n] / values[n - 1]:.1f}x" if n and values[n - 1] else ""


def _says(measured: dict[str, Any], caches: dict[str, list[int]], sizes: Sizes) -> list[str]:
    longest = sizes.lengths[-1]
    more = MILLION / longest
    said = []
    for way, one in measured.items():
        time, memory = (one[part][-1] / one[part][-2] for part in ("seconds", "bytes"))
        power = 1 if way == WAYS[2] else 2
        seconds = one["seconds"][-1] * more**power
        n_bytes = one["bytes"][-1] * more ** (2 if way == WAYS[0] else 1)
        said.append(
            f"{way}: from {longest // 2:,} to {longest:,} tokens {time:.1f} times the time and "
            f"{memory:.1f} times the memory. A million tokens, extrapolated from there: "
            f"{score_entries(way, MILLION, sizes):,} scores, {duration(seconds)} a layer here, "
            f"{n_bytes / 1e9:,.1f} GB."
        )
    read = sizes.cache_lengths[-1]
    whole = caches["all heads"][-1]
    for name, line in caches.items():
        stops = line[-1] <= line[-2]
        a_million = line[-1] if stops else line[-1] * MILLION / read
        said.append(
            f"cache, {name}: {line[-1] / 1e6:,.2f} MB after {read:,} tokens ({line[-1] / whole:.2f} of "
            f"the whole); {'it does not grow any more' if stops else 'it grows on'}: "
            f"{a_million / 1e9:,.3f} GB at a million."
        )
    return said
