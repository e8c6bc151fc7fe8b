"""Sentences per second, against the same weights run by `transformers`' MarianMTModel.

    python benchmarks/translate.py --threads 1           # Multi30k if it lies in ../shared/data
    python benchmarks/translate.py --source FILE --target FILE --test FILE   # another parallel text
    python benchmarks/translate.py --run RUN --test FILE  # a run folder: post-norm, split sinusoids

Without a run, a 3+3-layer Transformer of width 256 (post-norm, split sinusoids, as Marian's) is
trained for `--seconds` on the parallel text first: it translates badly, but its sentences are about
as long as they should be and end, which is what the speed depends on. Without any text the embedded
generated pairs are used.

Both sides get the same token ids in the same batches, in the order of the file and sorted by length
(a favour to the rival: ours sorts by itself), the same scores (average log-probability), the same
length limits, and as many threads. Tokenization and loading are left out. With one thread the time
is the processor's, so that what else runs on the machine counts less. They alternate, A B A B; medians
are printed, with how often both found the same target and whose model score is better where
they differ. First the logits are compared. Exits with 1 if those differ by more than 1e-4, or if
beam 5 at batch 64 is not at least 2 times as fast as the rival at its best.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from budgerigar.generation.beam import search
from budgerigar.generation.beam_batch import pad
from budgerigar.generation.translation_options import TranslationOptions
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.text.pairs import iter_pairs
from budgerigar.text.tokenizers import train_tokenizer

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "multi30k"
TARGET = 2.0  # times as fast, beam 5, batch 64
EXTRA = 50  # most tokens beyond the source's
TOLERANCE = 1e-4
Ids = list[list[int]]


def main() -> int:
    """Measure all four settings, print a table; 1 if a target is missed."""
    options = _options()
    torch.set_num_threads(options.threads)
    network, sources = load_run(options) if options.run else train_one(options)
    end = network.config.decoder_start
    assert end is not None
    rival = marian(network, end)
    worst = logits_differ(network, rival, sources[:32], end)
    print(f"logits: largest difference {worst:.1e} (relative); {options.threads} threads")
    fine = worst < TOLERANCE
    for beam in options.beams:
        for batch in options.batches:
            some = sources if batch > 1 else sources[:: max(1, len(sources) // options.alone)]
            ratio = compare(network, rival, some, end, (beam, batch), options.repeats)
            if (beam, batch) == (5, 64):
                fine &= ratio >= TARGET
    return 0 if fine else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    data = {name: DATA / name for name in ("train.en", "train.de", "test2016.en")}
    given = {n: path if path.exists() else None for n, path in data.items()}
    parser.add_argument("--run", help="a run folder with a Marian-like encoder-decoder")
    parser.add_argument("--source", type=Path, default=given["train.en"])
    parser.add_argument("--target", type=Path, default=given["train.de"])
    parser.add_argument(
        "--test", type=Path, default=given["test2016.en"], help="lines to translate"
    )
    parser.add_argument("--lines", type=int, default=1000, help="so many of them")
    parser.add_argument("--alone", type=int, default=64, help="so many of them at batch 1")
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--seconds", type=float, default=60, help="of training")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, alternating")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 64])
    return parser.parse_args()


# -- speed -----------------------------------------------------------------------------------------
def compare(
    network: Transformer,
    rival: Any,
    sources: Ids,
    end: int,
    setting: tuple[int, int],
    repeats: int,
) -> float:
    """Alternate both on the same ids and print medians; how many times as fast as the rival's best."""
    beam, batch = setting
    contenders: dict[str, Callable[[], Ids]] = {
        "budgerigar": lambda: ours(network, sources, end, beam, batch),
        "transformers": lambda: theirs(rival, sources, end, beam, batch, False),
        "transformers, sorted": lambda: theirs(rival, sources, end, beam, batch, True),
    }
    if batch == 1:
        del contenders["transformers, sorted"]
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    targets: dict[str, Ids] = {}
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    for _ in range(repeats):
        for name, translate in contenders.items():
            start = clock()
            targets[name] = translate()
            seconds[name].append(clock() - start)
    medians = {name: statistics.median(taken) for name, taken in seconds.items()}
    print(f"beam {beam}, batch {batch}: {len(sources)} sentences, median of {repeats}")
    for name, median in medians.items():
        tokens = sum(len(ids) + 1 for ids in targets[name])
        print(
            f"  {name:22}{len(sources) / median:8.1f} sentences/s {tokens / median:8.0f} tokens/s  "
            f"x {median / medians['budgerigar']:.2f}"
        )
    print(f"  {agreement(network, sources, targets, end)}")
    mine = medians.pop("budgerigar")
    return min(medians.values()) / mine


def ours(network: Transformer, sources: Ids, end: int, beam: int, batch: int) -> Ids:
    """Our search: it sorts and batches by itself."""
    options = TranslationOptions(
        beam_size=beam, batch_size=batch, length_penalty="average", max_extra=EXTRA
    )
    found = search(network, sources, options, start_id=end, end_id=end)
    return [list(hypotheses[0].ids) for hypotheses in found]


@torch.inference_mode()
def theirs(rival: Any, sources: Ids, end: int, beam: int, batch: int, by_length: bool) -> Ids:
    """`generate` on the same batches; its length limit holds for a whole batch."""
    order = list(range(len(sources)))
    if by_length:
        order.sort(key=lambda i: len(sources[i]))
    found: Ids = [[] for _ in sources]
    for first in range(0, len(order), batch):
        rows = order[first : first + batch]
        ids, lengths = pad([sources[i] for i in rows], torch.device("cpu"))
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        out = rival.generate(
            input_ids=ids,
            attention_mask=mask,
            num_beams=beam,
            do_sample=False,
            length_penalty=1.0,
            early_stopping=False,
            max_new_tokens=ids.shape[1] + EXTRA,
            use_cache=True,
        )
        for i, line in zip(rows, out[:, 1:].tolist(), strict=True):
            found[i] = line[: line.index(end)] if end in line else line
    return found


def agreement(network: Transformer, sources: Ids, targets: dict[str, Ids], end: int) -> str:
    """How often both found the same, and whose average log-probability is better where not."""
    mine, other = targets["budgerigar"], targets["transformers"]
    differing = [i for i in range(len(sources)) if mine[i] != other[i]]
    scores = [
        average_scores(network, [sources[i] for i in differing], [t[i] for i in differing], end)
        for t in (mine, other)
    ]
    better = sum(a > b for a, b in zip(*scores, strict=True))
    return (
        f"{1 - len(differing) / len(sources):.1%} equal; of the {len(differing)} others ours has the "
        f"better score in {better}"
    )


@torch.inference_mode()
def average_scores(network: Transformer, sources: Ids, targets: Ids, end: int) -> list[float]:
    """Mean log-probability per token, `<end>` included, by plain `forward`, one at a time."""
    found = []
    for source, target in zip(sources, targets, strict=True):
        logits = network(torch.tensor([[end, *target]]), source=torch.tensor([source]))[0]
        wanted = torch.tensor([*target, end])[:, None]
        found.append(float(logits.double().log_softmax(-1).gather(1, wanted).mean()))
    return found


# -- the rival -------------------------------------------------------------------------------------
def marian(network: Transformer, end: int) -> Any:
    """MarianMTModel with the weights of a post-norm network with split sinusoids."""
    from transformers import MarianConfig, MarianMTModel

    config = network.config
    fits = config.norm_place == "post" and config.positions == "sinusoidal"
    if not fits or config.sinusoid_layout != "split" or config.gated or config.kv_heads < 1:
        sys.exit("only a post-norm Transformer with split sinusoids can be run by Marian's classes")
    model = MarianMTModel(
        MarianConfig(
            vocab_size=config.vocab_size,
            d_model=config.d_model,
            encoder_layers=config.encoder_layers,
            decoder_layers=config.decoder_layers,
            encoder_attention_heads=config.n_heads,
            decoder_attention_heads=config.n_heads,
            encoder_ffn_dim=config.ff_width,
            decoder_ffn_dim=config.ff_width,
            activation_function=config.activation,
            scale_embedding=config.embedding_scale == "sqrt",
            max_position_embeddings=1024,
            pad_token_id=end,
            eos_token_id=end,
            decoder_start_token_id=end,
            forced_eos_token_id=None,
        )
    )
    missing, unused = model.load_state_dict(marian_weights(network), strict=False)
    derived = {"lm_head.weight", "final_logits_bias"}  # tied, and zero
    wrong = [n for n in missing if n not in derived and "embed_" not in n] + unused
    assert not wrong, wrong
    model.tie_weights()
    return model.eval()


def marian_weights(network: Transformer) -> dict[str, Tensor]:
    """Our names to Marian's: for this benchmark alone."""
    parts = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    names = {"embedding.tokens.weight": "model.shared.weight"}
    for stack in ("encoder", "decoder"):
        for layer in range(getattr(network.config, f"{stack}_layers")):
            ours, other = f"{stack}.{layer}.", f"model.{stack}.layers.{layer}."
            renamed = {
                "attention_norm": "self_attn_layer_norm",
                "cross_attention_norm": "encoder_attn_layer_norm",
                "feed_forward_norm": "final_layer_norm",
                "feed_forward.up": "fc1",
                "feed_forward.down": "fc2",
            }
            for a, b in parts.items():
                renamed[f"self_attention.{a}"] = f"self_attn.{b}"
                renamed[f"cross_attention.{a}"] = f"encoder_attn.{b}"
            for a, b in renamed.items():
                for kind in ("weight", "bias"):
                    names[f"{ours}{a}.{kind}"] = f"{other}{b}.{kind}"
    weights = {names[name]: value for name, value in network.state_dict().items()}
    for stack in ("encoder", "decoder"):
        weights[f"model.{stack}.embed_tokens.weight"] = weights["model.shared.weight"]
    return {**weights, "lm_head.weight": weights["model.shared.weight"]}


@torch.inference_mode()
def logits_differ(network: Transformer, rival: Any, sources: Ids, end: int) -> float:
    """Largest difference of logits over the largest logit, sources padded, random targets."""
    source, lengths = pad(sources, torch.device("cpu"))
    mask = (torch.arange(source.shape[1]) < lengths[:, None]).long()
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(0, network.vocab_size, (len(sources), 12), generator=generator)
    target[:, 0] = end
    mine = network(target, source=source, source_lengths=lengths)
    other = rival(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
    return float((mine - other).abs().max() / mine.abs().max())


# -- a model to run --------------------------------------------------------------------------------
def load_run(options: argparse.Namespace) -> tuple[Transformer, Ids]:
    """A run's network and the lines of `--test` as its encoder reads them."""
    import budgerigar as bg

    model = bg.load(options.run)
    tokenizer = getattr(model, "source_tokenizer", None) or model.tokenizer
    lines = [line for line in _lines(options.test) if line.strip()][: options.lines]
    return model.network.eval(), [[*tokenizer.encode(line), tokenizer.end_id] for line in lines]


def train_one(options: argparse.Namespace) -> tuple[Transformer, Ids]:
    """Train a small model for some seconds; the lines to translate as its encoder reads them."""
    if options.source is None or options.target is None or options.test is None:
        made = [(p.source, p.target) for p in islice(iter_pairs(seed=0), 20_000)]
        pairs, lines = made[options.lines :], [source for source, _ in made[: options.lines]]
    else:
        pairs = list(zip(_lines(options.source), _lines(options.target), strict=True))
        lines = [line for line in _lines(options.test) if line.strip()][: options.lines]
    texts = [line for pair in pairs for line in pair]
    tokenizer = train_tokenizer(texts, "bpe", options.vocab_size, end=True)
    end = tokenizer.end_id
    assert end is not None
    config = TransformerConfig(
        assembly="encoder-decoder",
        vocab_size=tokenizer.vocab_size,
        context_length=512,
        d_model=256,
        n_layers=3,
        n_heads=8,
        d_ff=1024,
        activation="relu",
        positions="sinusoidal",
        sinusoid_layout="split",
        norm_place="post",
        embedding_scale="sqrt",
        decoder_start=end,
        initialisation="xavier",
    )
    network = Transformer(config, seed=0)
    ids = [tuple([*tokenizer.encode(text), end] for text in pair) for pair in pairs]
    steps, loss = train(network, ids, end, options.seconds)
    print(f"{tokenizer}, {sum(p.numel() for p in network.parameters()):,} parameters;", end=" ")
    print(f"{steps} steps of training, loss {loss:.2f}")
    return network.eval(), [[*tokenizer.encode(line), end] for line in lines]


def train(network: Transformer, pairs: list[Any], end: int, seconds: float) -> tuple[int, float]:
    """Plain training until the time is up."""
    batches = _batches(pairs)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, betas=(0.9, 0.98))
    begun, steps, loss = time.process_time(), 0, torch.zeros(())
    while time.process_time() < begun + seconds:
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, (steps + 1) / 100)
        batch = next(batches)
        source, lengths = pad([s for s, _ in batch], torch.device("cpu"))
        target, _ = pad([[end, *t] for _, t in batch], torch.device("cpu"))
        sizes = torch.tensor([len(t) for _, t in batch])
        logits = network(target[:, :-1], source=source, source_lengths=lengths)
        real = torch.arange(logits.shape[1]) < sizes[:, None]
        loss = torch.nn.functional.cross_entropy(logits[real], target[:, 1:][real])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        steps += 1
    return steps, float(loss.detach())


def _batches(pairs: list[Any], rows: int = 64) -> Iterator[list[Any]]:
    """Batches of pairs of like length, in random order, endless."""
    rng = np.random.default_rng(0)
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
    starts = np.arange(0, len(pairs), rows)
    while True:
        for first in rng.permutation(starts):
            yield [pairs[i] for i in order[first : first + rows]]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").rstrip("\n").split("\n")


if __name__ == "__main__":
    sys.exit(main())
