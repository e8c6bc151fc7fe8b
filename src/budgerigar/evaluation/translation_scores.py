"""BLEU, chrF and TER of translations, each with its signature and a bootstrap confidence interval.

sacreBLEU (Post 2018) tokenises, counts and computes; here stand what it is asked for, which
tokenizer a language needs, and what to say about lines that make a score incomparable. Settings
alone move BLEU by over a point, so no score leaves this file without its signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from budgerigar.errors import UserError
from budgerigar.progress import track

METRICS = ("bleu", "chrf", "ter")
TOKENIZERS = ("13a", "zh", "ja-mecab", "ko-mecab", "intl", "char", "none")
"""Of BLEU: 13a is WMT's; zh, and char for the rest, split characters; none takes blanks alone."""

_LANGUAGE_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
# Names of languages that need a tokenizer of their own, as people write them, to ISO 639-1.
_NAMES = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn", "yue", "wuu", "lzh", "chinese", "mandarin"), "zh"),
    **dict.fromkeys(("ja", "jpn", "jp", "japanese"), "ja"),
    **dict.fromkeys(("ko", "kor", "korean"), "ko"),
}
_PACKAGES = {"ja-mecab": "ja", "ko-mecab": "ko"}
_CHUNK = 20  # lines between two steps of the progress bar: TER may take seconds for a long bad line
_RESAMPLED_CELLS = 1 << 22  # of the index table that is in memory at a time


@dataclass(frozen=True)
class Metric:
    """One corpus score.

    name: "BLEU", "chrF2" or "TER" (TER counts errors: lower is better). score: of all lines, times
    100. low, high: ends of the 95 % interval over resampled test sets (Koehn 2004), mean: their
    mean; None without bootstrap. signature: sacreBLEU's, enough to compute the same again. detail:
    for BLEU the precisions, brevity penalty and lengths.
    """

    name: str
    score: float
    low: float | None
    high: float | None
    mean: float | None
    signature: str
    detail: str = ""

    def __str__(self) -> str:
        interval = "" if self.low is None else f"  95 %: {self.low:.2f} to {self.high:.2f}"
        detail = f"  {self.detail}" if self.detail else ""
        return f"{self.name:<6}{self.score:>6.2f}{interval}{detail}\n      {self.signature}"


@dataclass(frozen=True)
class TranslationScores:
    """The scores asked for (the others None), the number of lines, and remarks that belong to them."""

    lines: int
    bleu: Metric | None = None
    chrf: Metric | None = None
    ter: Metric | None = None
    remarks: tuple[str, ...] = ()

    @property
    def metrics(self) -> list[Metric]:
        """Those that were computed."""
        return [metric for metric in (self.bleu, self.chrf, self.ter) if metric is not None]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"remarks": list(self.remarks)}

    def __str__(self) -> str:
        return "\n".join([*map(str, self.metrics), *(f"({remark})" for remark in self.remarks)])


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    target_language: str | None = None,
    tokenize: str | None = None,
    lowercase: bool = False,
    bootstrap: int = 1000,
    seed: int = 12345,
    metrics: Sequence[str] = METRICS,
) -> TranslationScores:
    """Score hypothesis n against reference n, both as plain text (not tokenised).

    target_language: code or English name; it chooses BLEU's tokenizer (zh for Chinese, MeCab for
    Japanese and Korean, else 13a) and whether TER edits characters; None looks at the references.
    tokenize: one of `TOKENIZERS` instead. lowercase: of BLEU and chrF (TER never minds case).
    bootstrap: resampled test sets for the interval, 0 for none. Blank lines are lines.

    Raises:
        UserError: unequal numbers of lines, none at all, or an unknown metric or tokenizer.
    """
    hypotheses, references = list(hypotheses), list(references)
    _check_lines(hypotheses, references)
    wanted = [name.lower() for name in metrics]
    for name in wanted:
        if name not in METRICS:
            raise UserError(f"there is no score {name!r}; there are {', '.join(METRICS)}")
    if bootstrap < 0:
        raise UserError(f"bootstrap = {bootstrap} is no number of samples; 0 leaves it out")
    language, remarks = _language(target_language, references)
    name, remark = _tokenizer_name(tokenize, language, asked=target_language is not None)
    remarks += [remark] if remark else []
    remarks += _remarks(hypotheses, references)
    found: dict[str, Metric] = {}
    for metric in wanted:
        made = _metric(metric, name, language, lowercase)
        found[metric] = _scored(made, hypotheses, references, bootstrap, seed)
    return TranslationScores(len(hypotheses), **found, remarks=tuple(remarks))


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], target_language: str | None = None
) -> float:
    """Corpus BLEU alone, 0 to 100, as `score_translations` gives it: quick, for use in training."""
    scores = score_translations(
        hypotheses, references, target_language=target_language, bootstrap=0, metrics=("bleu",)
    )
    assert scores.bleu is not None
    return scores.bleu.score


def check_target_language(target_language: str | None, tokenize: str | None = None) -> str:
    """The tokenizer that BLEU will use; `UserError` when its package is missing.

    For the start of a long job whose end is a score.
    """
    language, _ = _language(target_language, ())
    return _tokenizer_name(tokenize, language, asked=True)[0]


def _check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} translations stand against {len(references)} references; line n is "
            "scored against line n, so both need as many lines (a blank translation is a blank line)"
        )
    if not hypotheses:
        raise UserError("there are no lines to score: both sides are empty")


def _language(named: str | None, references: Sequence[str]) -> tuple[str, list[str]]:
    """ISO code where it matters ("" where not), and what to say when it was guessed."""
    if named:
        parts = named.strip().lower().replace("_", "-").split("-")
        return _NAMES.get(parts[0], parts[0]), []
    guess = _script(references)
    if not guess:
        return "", []
    name = {"zh": "Chinese", "ja": "Japanese", "ko": "Korean"}[guess]
    return guess, [f"the references look {name}: scored as {name}"]


def _script(references: Sequence[str]) -> str:
    """zh, ja or ko when over a third of the letters of the first lines are of that script."""
    letters = [ord(c) for line in references[:200] for c in line[:200] if c.isalpha()]
    if not letters:
        return ""
    kana = sum(0x3040 <= c <= 0x30FF for c in letters)
    hangul = sum(0xAC00 <= c <= 0xD7AF for c in letters)
    han = sum(0x3400 <= c <= 0x9FFF or 0x20000 <= c <= 0x3FFFF for c in letters)
    third = len(letters) / 3
    if hangul > third:
        return "ko"
    if han + kana > third:
        return "ja" if kana > (han + kana) / 10 else "zh"
    return ""


def _tokenizer_name(tokenize: str | None, language: str, asked: bool) -> tuple[str, str]:
    """BLEU's tokenizer, and a remark where it is second best.

    A tokenizer that was asked for by name or language and is not installed is an error; a language
    that was only guessed is scored by characters.
    """
    if tokenize is not None and tokenize not in TOKENIZERS:
        raise UserError(
            f"BLEU has no tokenizer {tokenize!r} here; there are {', '.join(TOKENIZERS)}"
        )
    name = tokenize or _LANGUAGE_TOKENIZERS.get(language, "13a")
    if name not in _PACKAGES:
        return name, ""
    try:
        _make_bleu(name, lowercase=False)
    except (RuntimeError, ImportError, AssertionError):
        need = f"pip install 'sacrebleu[{_PACKAGES[name]}]'"
        if tokenize is not None or asked:
            raise UserError(
                f"BLEU's tokenizer {name} needs a package that is not installed; {need}, or choose "
                "tokenize=char, which splits characters and says so in the signature"
            ) from None
        return "char", f"BLEU by characters; by words after {need}"
    return name, ""


def _make_bleu(tokenize: str, lowercase: bool) -> Any:
    from sacrebleu.metrics.bleu import BLEU

    # force: our own remark about tokenised lines takes the place of its warning
    return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)


def _metric(name: str, tokenize: str, language: str, lowercase: bool) -> Any:
    """sacreBLEU's metric with the settings that `language` needs."""
    if name == "bleu":
        return _make_bleu(tokenize, lowercase)
    if name == "chrf":
        from sacrebleu.metrics.chrf import CHRF

        return CHRF(lowercase=lowercase)
    from sacrebleu.metrics.ter import TER

    # Without this a sentence without spaces is one word, and every difference an error of 100 %.
    unspaced = language in ("zh", "ja")
    return TER(normalized=unspaced, asian_support=unspaced)


def _scored(
    metric: Any, hypotheses: list[str], references: list[str], bootstrap: int, seed: int
) -> Metric:
    """What `metric.corpus_score` gives, with progress, both ends of the interval and little memory.

    sacreBLEU makes the table of all resampled counts at once: 2 GB for chrF of 29,000 lines.
    """
    name = {"BLEU": "BLEU", "CHRF": "chrF2", "TER": "TER"}[type(metric).__name__]
    stats: list[list[float]] = []
    with track(f"scoring {name}", len(hypotheses), unit="lines") as job:
        for start in range(0, len(hypotheses), _CHUNK):
            part = slice(start, start + _CHUNK)
            stats += metric._extract_corpus_statistics(hypotheses[part], [references[part]])
            job.advance(len(hypotheses[part]))
    score = metric._aggregate_and_compute(stats)
    low = high = mean = None
    if bootstrap:
        metric.n_bootstrap, metric.seed = bootstrap, str(seed)
        low, high, mean = _interval(metric, np.array(stats), bootstrap, seed)
    return Metric(
        name,
        float(score.score),
        low,
        high,
        mean,
        str(metric.get_signature()),
        score._verbose if name == "BLEU" else "",
    )


def _interval(
    metric: Any, stats: np.ndarray, samples: int, seed: int
) -> tuple[float, float, float]:
    """(low, high, mean) over `samples` test sets drawn from the lines with replacement.

    stats (lines, counts). The same draws and the same ranks as sacreBLEU's own, which reports half
    of high - low around the mean.
    """
    generator, lines = np.random.default_rng(seed), len(stats)
    at_once = max(1, _RESAMPLED_CELLS // lines)
    scores: list[float] = []
    for start in range(0, samples, at_once):
        rows = min(at_once, samples - start)
        drawn = generator.choice(lines, size=(rows, lines), replace=True)
        for row in drawn:
            often = np.bincount(row, minlength=lines)
            scores.append(metric._compute_score_from_stats(list(often @ stats)).score)
    ranked = np.sort(np.array(scores))
    cut = samples // 40
    return float(ranked[cut]), float(ranked[samples - cut - 1]), float(ranked.mean())


def _remarks(hypotheses: list[str], references: list[str]) -> list[str]:
    """What makes these scores hard to compare with others, or explains them."""
    remarks = []
    split = sum(line.endswith(" .") for line in hypotheses)
    if split >= max(3, len(hypotheses) // 10):
        remarks.append(
            f"{split} translations end in a full stop after a blank, so they look tokenised; BLEU "
            "is made for plain text, and such scores do not compare with others"
        )
    marks = sum("@@ " in line or "▁" in line for line in hypotheses)
    if marks:
        remarks.append(f"{marks} translations hold subword marks (@@ or ▁): join the pieces first")
    empty = sum(
        not h.strip() and bool(r.strip()) for h, r in zip(hypotheses, references, strict=True)
    )
    if empty:
        remarks.append(f"{empty} of {len(hypotheses)} translations are empty, their references not")
    none = sum(
        not r.strip() and bool(h.strip()) for h, r in zip(hypotheses, references, strict=True)
    )
    if none:
        remarks.append(f"{none} references are empty, their translations not")
    return remarks
