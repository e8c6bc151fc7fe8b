"""Scores are sacreBLEU's own, also where lines are blank; remarks and errors say what is odd."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF, TER

from budgerigar.errors import UserError
from budgerigar.evaluation import translation_scores
from budgerigar.evaluation.translation_scores import (
    bleu,
    check_target_language,
    score_translations,
)

TEXT = "a man in the red shirt , and two dogs run over snow . near trees with children"
WORDS = TEXT.split()


def texts(n: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """References and worse copies of them, some lines blank on either side or both."""
    rng = random.Random(seed)
    references = [" ".join(rng.choices(WORDS, k=rng.randint(3, 14))) for _ in range(n)]
    hypotheses = [" ".join(w for w in line.split() if rng.random() < 0.85) for line in references]
    hypotheses[3] = references[5] = ""
    hypotheses[7] = references[7] = ""
    return hypotheses, references


@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_signatures_and_intervals_are_sacrebleus(lowercase: bool) -> None:
    hypotheses, references = texts(250)
    found = score_translations(hypotheses, references, bootstrap=200, lowercase=lowercase)
    judges = (BLEU(lowercase=lowercase, force=True), CHRF(lowercase=lowercase), TER())
    for ours, judge in zip(found.metrics, judges, strict=True):
        theirs = judge.corpus_score(hypotheses, [references], n_bootstrap=200)
        assert ours.name == theirs.name
        assert ours.score == pytest.approx(theirs.score, abs=1e-9)
        assert ours.signature == str(judge.get_signature())
        assert ours.low is not None
        assert ours.high is not None
        assert ours.mean == pytest.approx(theirs._mean, abs=1e-3)  # theirs adds up in float32
        assert (ours.high - ours.low) / 2 == pytest.approx(theirs._ci, abs=1e-3)
        assert ours.low < ours.score < ours.high
    assert f"version:{sacrebleu.__version__}" in found.metrics[0].signature
    assert found.lines == 250


def test_the_interval_does_not_depend_on_how_much_is_resampled_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hypotheses, references = texts(61)
    whole = score_translations(hypotheses, references, bootstrap=101)
    monkeypatch.setattr(translation_scores, "_RESAMPLED_CELLS", 61 * 7)
    monkeypatch.setattr(translation_scores, "_CHUNK", 13)
    assert score_translations(hypotheses, references, bootstrap=101) == whole
    other = score_translations(hypotheses, references, bootstrap=101, seed=7)
    assert other.bleu is not None
    assert whole.bleu is not None
    assert other.bleu.low != whole.bleu.low
    assert "seed:7" in other.bleu.signature


def test_resampling_large_files_takes_little_memory() -> None:
    metric = CHRF()
    metric.num_refs = 1
    stats = np.random.default_rng(0).integers(1, 9, size=(60_000, 18))
    tracemalloc.start()
    translation_scores._interval(metric, stats, 20, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60_000 * 18 * 8 * 10  # sacreBLEU's table would be 20 times the counts


def test_only_what_is_asked_for() -> None:
    hypotheses, references = texts(30)
    found = score_translations(hypotheses, references, metrics=["chrF"], bootstrap=0)
    assert found.bleu is None
    assert found.ter is None
    assert found.chrf is not None
    assert found.chrf.low is None
    assert "bs:" not in found.chrf.signature
    as_dict = found.as_dict()
    assert as_dict["chrf"]["score"] == found.chrf.score
    assert as_dict["lines"] == 30
    assert "chrF2" in str(found)


def test_blank_lines_count_as_lines() -> None:
    """Blank references once stopped sacreBLEU; here every line counts on both sides."""
    blank = score_translations(["", ""], ["", ""], bootstrap=10)
    assert [m.score for m in blank.metrics] == [0.0, 0.0, 0.0]
    found = score_translations(["", "a b c d e", "x"], ["y z", "a b c d e", ""], bootstrap=10)
    assert found.ter is not None
    assert found.ter.score == pytest.approx(100 * (2 + 0 + 1) / 7)  # by hand: two missing, one over
    assert any("translations are empty" in remark for remark in found.remarks)
    assert any("references are empty" in remark for remark in found.remarks)


def test_bleu_by_hand() -> None:
    # 4 of 5 words, 2 of 4 pairs, 1 of 3 triples, and no quadruple: smoothed to 1 / (2 * 2)
    score = bleu(["the dog runs over ice"], ["the dog runs on ice"])
    assert score == pytest.approx(100 * (4 / 5 * 2 / 4 * 1 / 3 * 1 / 4) ** 0.25)
    assert bleu(["the dog runs home"], ["the dog runs home"]) == pytest.approx(100)
    short = bleu(["a b c d"], ["a b c d e f"])  # brevity penalty exp(1 - 6/4)
    assert short == pytest.approx(100 * np.exp(-0.5))


@pytest.mark.parametrize("language", ["zh", "zh-CN", "cmn_Hans", "Chinese", None])
def test_chinese_is_split_into_characters(language: str | None) -> None:
    hypotheses, references = ["轩辕有一只猫。", "小梅有书"], ["轩辕有一只狗。", "小梅有书"]
    found = score_translations(hypotheses, references, target_language=language, bootstrap=0)
    assert found.bleu is not None
    assert found.ter is not None
    assert "tok:zh" in found.bleu.signature
    assert found.bleu.score == pytest.approx(
        sacrebleu.corpus_bleu(hypotheses, [references], tokenize="zh").score
    )
    assert found.ter.score == pytest.approx(100 / 11)  # one character of eleven
    assert "asian:yes" in found.ter.signature
    assert bool(found.remarks) == (language is None)
    assert bleu(hypotheses, references) == found.bleu.score
    plain = score_translations(hypotheses, references, tokenize="13a", bootstrap=0)
    assert plain.bleu is not None
    assert "tok:13a" in plain.bleu.signature


def test_japanese_and_korean_need_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(tokenize: str, lowercase: bool) -> BLEU:
        if tokenize.endswith("mecab"):
            raise RuntimeError("not installed")
        return BLEU(tokenize=tokenize)

    monkeypatch.setattr(translation_scores, "_make_bleu", missing)
    for language, extra in (("ja", r"sacrebleu\[ja\]"), ("Korean", r"sacrebleu\[ko\]")):
        with pytest.raises(UserError, match=extra):
            bleu(["a"], ["a"], language)
        with pytest.raises(UserError, match=extra):
            check_target_language(language)
    guessed = score_translations(["これはペンです"], ["これはペンです"], bootstrap=0)
    assert guessed.bleu is not None
    assert "tok:char" in guessed.bleu.signature
    assert any(r"sacrebleu[ja]" in remark for remark in guessed.remarks)
    assert check_target_language("de") == "13a"
    assert check_target_language("zh-TW") == "zh"
    assert check_target_language(None) == "13a"


def test_remarks_on_lines_that_do_not_compare() -> None:
    split = score_translations(["a man runs ."] * 4, ["a man runs."] * 4, bootstrap=0)
    assert any("tokenised" in remark for remark in split.remarks)
    marked = score_translations(["a bud@@ gie", "▁a cat"], ["a budgie", "a cat"], bootstrap=0)
    assert any("2 translations hold subword marks" in remark for remark in marked.remarks)
    assert not score_translations(["A man runs."] * 4, ["A man runs."] * 4, bootstrap=0).remarks


def test_user_mistakes() -> None:
    with pytest.raises(UserError, match="2 translations stand against 1 references"):
        bleu(["a", "b"], ["a"])
    with pytest.raises(UserError, match="no lines to score"):
        score_translations([], [])
    with pytest.raises(UserError, match="no tokenizer 'moses'"):
        score_translations(["a"], ["a"], tokenize="moses")
    with pytest.raises(UserError, match="no score 'meteor'"):
        score_translations(["a"], ["a"], metrics=["meteor"])
    with pytest.raises(UserError, match="bootstrap"):
        score_translations(["a"], ["a"], bootstrap=-1)
