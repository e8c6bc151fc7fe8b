"""`budgie translate --search ctranslate2` against CTranslate2 itself, on the same weights.

    python benchmarks/like_ctranslate2.py RUN                    # Multi30k's test2016, 200 lines
    python benchmarks/like_ctranslate2.py RUN --test FILE --lines 1000 --beams 1 2 4 5

The run is written as a CTranslate2 folder. First the log-probabilities that both give each token of
each reference translation (or of our own, without references) are compared, then what both searches
find for each line, with the scores that they give to it. Where outputs differ, both are scored by our
`forward`, and the closest decision of our search is shown: the gap between the last
hypothesis that it kept and the first that it dropped (a step at which one rounds otherwise), or
between two results. Exits with 1 if fewer than 198 of 200 outputs are equal, if a difference has no
near tie to explain it, or if a log-probability differs by more than 1e-3. (Measured on a run of the
recipe multi30k: log-probabilities within 8e-6, 200 of 200 equal with beams of 1 and of 4, and their
scores within 1e-6.)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from budgerigar.formats.ctranslate2_out import our_scores, save_ctranslate2, vocabularies
from budgerigar.formats.run import Loaded, load_model
from budgerigar.generation import beam
from budgerigar.generation.beam_batch import Candidates, Chosen
from budgerigar.generation.beam_ctranslate2 import FullBeamSearch
from budgerigar.generation.translation_options import TranslationOptions

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "multi30k"
EQUAL = 198 / 200
CLOSE = 1e-3  # most that a log-probability of a token may differ
NEAR = 1e-3  # decisions closer than this are near ties
Ids = list[int]


class Watched(FullBeamSearch):
    """The same search, which writes down its closest decision for each source of the batch."""

    closest: np.ndarray

    def _best(self, candidates: Candidates, is_open: np.ndarray) -> Chosen:
        if not hasattr(self, "closest"):
            self.closest = np.full(len(self.found), np.inf)
        chosen = super()._best(candidates, is_open)
        beam_size = self.options.beam_size
        for b in np.flatnonzero(self.open.n_open):
            costs = chosen.log_p[b][chosen.taken[b]]
            open_ones = costs[chosen.tokens[b][chosen.taken[b]] != self.end_id]
            # the last place of all, and the last of those that go on
            for ranked in (costs, open_ones):
                if len(ranked) > beam_size:
                    gap = float(ranked[beam_size - 1] - ranked[beam_size])
                    self.closest[b] = min(self.closest[b], gap)
        return chosen


def main() -> int:
    """Compare; 1 if too much differs."""
    options = _options()
    torch.set_num_threads(options.threads)
    loaded = load_model(options.run)
    lines = _lines(options.test)[: options.lines]
    sources = [loaded.source_tokenizer.encode(line) for line in lines]
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        save_ctranslate2(loaded, Path(folder) / "model")
        rival = Rival(loaded, Path(folder) / "model", options.threads)
        given = _lines(options.reference)[: len(lines)] if options.reference else []
        if len(given) == len(lines):
            targets = [loaded.tokenizer.encode(line) for line in given]
        else:
            targets = [list(ids) for ids, _, _ in ours(loaded, sources, 1)]
        worst = scores_differ(loaded, rival, sources, targets)
        print(
            f"log-probabilities of {len(targets)} targets' tokens: largest difference {worst:.1e}"
        )
        fine &= worst <= CLOSE
        for width in options.beams:
            fine &= compare(loaded, rival, sources, width)
    return 0 if fine else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("run", help="a run folder with a translator")
    parser.add_argument(
        "--test", type=Path, default=DATA / "test2016.en", help="lines to translate"
    )
    parser.add_argument("--reference", type=Path, help="their translations")
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.test == DATA / "test2016.en" and options.reference is None:
        options.reference = DATA / "test2016.de"
    return options


def _lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [line for line in lines if line.strip()]


class Rival:
    """CTranslate2 on the same weights, in ids."""

    def __init__(self, loaded: Loaded, folder: Path, threads: int) -> None:
        import ctranslate2

        self.target, self.source = vocabularies(loaded)
        self.numbers = {piece: i for i, piece in enumerate(self.target)}
        self.translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=threads)

    def translate(self, sources: list[Ids], width: int) -> list[tuple[Ids, float]]:
        """(ids, score) of the best of each, by the library's own defaults but the beam."""
        read = [[self.source[i] for i in ids] for ids in sources]
        found = self.translator.translate_batch(read, beam_size=width, return_scores=True)
        return [([self.numbers[p] for p in one.hypotheses[0]], one.scores[0]) for one in found]

    def scores(self, sources: list[Ids], targets: list[Ids]) -> list[list[float]]:
        """Log-probability of each target token and the end."""
        found = self.translator.score_batch(
            [[self.source[i] for i in ids] for ids in sources],
            [[self.target[i] for i in ids] for ids in targets],
        )
        return [one.log_probs for one in found]


def scores_differ(loaded: Loaded, rival: Rival, sources: list[Ids], targets: list[Ids]) -> float:
    """Largest difference of a token's log-probability."""
    worst = 0.0
    for source, target, theirs in zip(
        sources, targets, rival.scores(sources, targets), strict=True
    ):
        mine = our_scores(loaded, source, target)
        worst = max(worst, float((mine - torch.tensor(theirs)).abs().max()))
    return worst


def ours(loaded: Loaded, sources: list[Ids], width: int) -> list[tuple[Ids, float, float]]:
    """(ids, score, gap of the closest decision) of the best of each by our search."""
    end = loaded.tokenizer.end_id
    assert end is not None
    start = loaded.network.config.decoder_start
    gaps: list[float] = []

    class Kept(Watched):
        def run(self) -> Any:
            found = super().run()
            gaps.extend(self.closest.tolist())
            return found

    beam.FullBeamSearch = Kept  # type: ignore[misc]
    found = []
    for source in sources:  # one by one, so that gaps and sources go together
        one = beam.search(
            loaded.network,
            [[*source, loaded.source_tokenizer.end_id]],
            TranslationOptions(search="ctranslate2", beam_size=width, n_best=min(2, width)),
            start_id=end if start is None else start,
            end_id=end,
        )[0]
        gap = gaps[-1]
        if len(one) > 1:
            gap = min(gap, *(a.score - b.score for a, b in pairwise(one)))
        found.append((list(one[0].ids), one[0].score, gap))
    beam.FullBeamSearch = FullBeamSearch  # type: ignore[misc]
    return found


def compare(loaded: Loaded, rival: Rival, sources: list[Ids], width: int) -> bool:
    """Print how many outputs are equal and each that is not; whether that is enough."""
    mine, theirs = ours(loaded, sources, width), rival.translate(sources, width)
    equal = [a[0] == b[0] for a, b in zip(mine, theirs, strict=True)]
    apart = max(
        (abs(a[1] - b[1]) for a, b, same in zip(mine, theirs, equal, strict=True) if same),
        default=0.0,
    )
    print(
        f"beam {width}: {sum(equal)} of {len(sources)} outputs equal, and their scores within "
        f"{apart:.1e}"
    )
    explained = True
    for i, same in enumerate(equal):
        if same:
            continue
        near = mine[i][2] < NEAR
        explained &= near
        why = "a near tie" if near else "NO near tie"
        print(f"  line {i + 1}: {why}, closest decision {mine[i][2]:.1e} nats apart")
        for name, ids in (("ours", mine[i][0]), ("CTranslate2", theirs[i][0])):
            exact = exact_score(loaded, sources[i], ids)
            print(f"    {name:12}{exact:.6f}  {loaded.tokenizer.decode(ids)}")
    return explained and sum(equal) >= EQUAL * len(sources)


def exact_score(loaded: Loaded, source: Ids, target: Ids) -> float:
    """Log-probability per token, the end included."""
    return float(our_scores(loaded, source, target).double().mean())


if __name__ == "__main__":
    sys.exit(main())
