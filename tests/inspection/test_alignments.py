"""Words from tokens, alignments from weights, error rates by head: all against weights set by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy import SOURCE, TARGET, Pieces, chinese, english, recurrent, single_bytes, translator

from budgerigar.errors import UserError
from budgerigar.evaluation.alignment import GoldAlignment, alignment_error_rate, parse_pharaoh
from budgerigar.inspection.alignment_drawing import drawing
from budgerigar.inspection.alignment_errors import (
    GoldPair,
    gold_lines,
    gold_of,
    head_alignment_errors,
)
from budgerigar.inspection.alignments import (
    WordAlignment,
    Words,
    align,
    align_pairs,
    cross_weights,
    default_layer,
    pool,
    word_spans,
    words_of,
)
from budgerigar.inspection.labels import spell, width
from budgerigar.inspection.pair_traces import trace_pair
from budgerigar.layers.visibility import View
from budgerigar.models.modes import without_source
from budgerigar.text.pairs import lesson_pair, sentence_pairs


def cut(text: str) -> list[str]:
    return [text[a:b] for a, b in word_spans(text)]


def test_words_stand_between_blanks_and_chinese_characters_alone() -> None:
    assert cut("  Xuanyuan has a budgie. ") == ["Xuanyuan", "has", "a", "budgie."]
    assert cut("轩辕有一只鸟。") == list("轩辕有一只鸟。")
    assert cut("用 BPE算法 吗") == ["用", "BPE", "算", "法", "吗"]
    assert cut("한국어 단어") == ["한국어", "단어"]
    assert cut("") == cut(" \t ") == []
    assert cut("a\u2028b\u3000c") == ["a", "b", "c"]


def test_words_of_several_tokens_and_tokens_of_several_words() -> None:
    target = words_of(spell(english(), [*english().encode(TARGET), 0]))
    assert target.texts == ("Xuanyuan", "has", "a", "budgerigar")
    assert target.of_token == (0, 0, 1, 2, 3, 3, -1)
    assert target.members == ((0,), (1,), (2,), (3,))
    source = words_of(spell(chinese(), [*chinese().encode(SOURCE), 0]))
    assert source.texts == ("轩辕", "有一", "只", "虎皮", "鹦鹉")
    assert source.members == ((0, 1), (2, 3), (4,), (5, 6), (7, 8))
    assert (len(source), source.plain, source.of_token[-1]) == (5, 9, -1)
    # gold words: 虎皮鹦鹉 is one of two tokens; 有 and 一 share a token, so they stand together
    pair = lesson_pair()
    gold = words_of(spell(chinese(), chinese().encode(SOURCE)), gold_of(pair).source_spans)
    assert pair.source_words == ("轩辕", "有", "一", "只", "虎皮鹦鹉")
    assert gold.texts == ("轩辕", "有一", "只", "虎皮鹦鹉")
    assert gold.members == ((0,), (1, 2), (3,), (4,))
    assert gold.of_token == (0, 1, 2, 3, 3)


def test_bytes_of_one_character_are_one_word() -> None:
    words = words_of(spell(single_bytes(), single_bytes().encode("鹦 é")))
    assert words.texts == ("鹦", "é")
    assert words.of_token == (0, 0, 0, -1, 1, 1)


def test_pooling_by_hand() -> None:
    target = Words(("a", "bc"), ((0,), (1,)), (0, 1, 1, -1))
    source = Words(("x", "y"), ((0,), (1,)), (0, 0, 1, -1))
    weights = np.array(
        [[0.5, 0.2, 0.2, 0.1], [0.0, 0.1, 0.8, 0.1], [0.2, 0.1, 0.2, 0.5], [0.1, 0.1, 0.1, 0.7]]
    )
    pooled = pool(weights, target, source)
    np.testing.assert_allclose(pooled, [[0.7, 0.2, 0.1], [0.2, 0.5, 0.3]])
    found = WordAlignment(source, target, pooled, "L0.H0")
    assert found.links == {(0, 0), (1, 1)}
    assert found.pharaoh == "0-0 1-1"
    assert found.pairs() == [("a", "x", pytest.approx(0.7)), ("bc", "y", pytest.approx(0.5))]
    assert found.coverage == pytest.approx([0.9, 0.7])
    np.testing.assert_allclose(pool(np.stack([weights, weights]), target, source)[1], pooled)
    parked = WordAlignment(source, target, np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]]), "L0.H0")
    assert parked.best == [None, 0]
    assert parked.links == {(0, 1)}
    assert parked.pairs()[0] == ("a", None, 0.5)


def test_words_that_share_a_token_have_all_its_links() -> None:
    source = Words(("有一", "只"), ((0, 1), (2,)), (0, 1))
    target = Words(("has",), ((0,),), (0,))
    found = WordAlignment(source, target, np.array([[0.9, 0.1, 0.0]]), "L0.H0")
    assert found.pharaoh == "0-0 1-0"


def test_which_layer_is_asked_unless_another_is_named() -> None:
    assert [default_layer(n) for n in (1, 2, 3, 6)] == [0, 0, 1, 4]
    model = translator(n_layers=3)
    seen = trace_pair(model, english(), SOURCE, TARGET, source_tokenizer=chinese())
    heads = [head.weights for head in seen.heads(1, kind="cross")]
    mean = pool(np.mean(heads, axis=0), seen.alignment().target, seen.alignment().source)
    np.testing.assert_allclose(seen.alignment().weights, mean, atol=1e-6)
    assert seen.alignment().head == "L1, mean of 4 heads"
    assert seen.alignment("L2.H3").head == "L2.H3"
    np.testing.assert_allclose(
        seen.alignment("L2.H3").weights,
        pool(seen.attention("L2.H3", kind="cross").weights, *(
            getattr(seen.alignment(), side) for side in ("target", "source"))),
        atol=1e-6,
    )  # fmt: skip
    np.testing.assert_allclose(seen.alignment().weights.sum(axis=1), 1.0, atol=1e-5)
    with pytest.raises(UserError, match="no layer 3"):
        seen.alignment("L3")


@pytest.mark.parametrize("make", [translator, recurrent])
def test_many_pairs_in_batches_are_aligned_as_each_alone(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make()
    pairs = [
        (SOURCE, TARGET),
        ("小梅有一只猫", "Mei has a cat"),
        ("", ""),
        ("猫", ""),
        ("", "Mei"),
        ("鹦鹉", " a budgerigar is in the cat"),
    ]
    for cells in (1 << 21, 400):
        monkeypatch.setattr("budgerigar.inspection.alignments._BATCH_NUMBERS", cells)
        found = align_pairs(model, english(), pairs, source_tokenizer=chinese())
        assert len(found) == len(pairs)
        for (source, target), one in zip(pairs, found, strict=True):
            alone = align(trace_pair(model, english(), source, target, source_tokenizer=chinese()))
            assert (one.source, one.target, one.head) == (alone.source, alone.target, alone.head)
            np.testing.assert_allclose(one.weights, alone.weights, atol=1e-5)
    assert [one.pharaoh for one in found[2:5]] == ["", "", ""]
    ids = [(chinese().encode(SOURCE), [*english().encode(TARGET), 0])]
    assert align_pairs(model, english(), ids, source_tokenizer=chinese())[0].links == found[0].links
    blank = align_pairs(without_source(model), english(), pairs[:1], source_tokenizer=chinese())
    assert not blank[0].links
    long = [("猫" * 99, " a cat" * 99)]
    assert len(align_pairs(model, english(), long, source_tokenizer=chinese())) == 1


def scripted(monkeypatch: pytest.MonkeyPatch, tables: list[list[list[float]]]) -> Any:
    """Make every sentence's cross-attention (1 layer, heads) the given tables."""

    def weights(network: Any, start: int, sides: Any) -> Any:
        yield from ((n, np.array([tables])) for n in range(len(sides)))

    monkeypatch.setattr("budgerigar.inspection.alignment_errors.cross_weights", weights)
    return translator()


def test_error_rates_of_heads_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Pieces([w.encode() for w in ("小", "猫", " small", " cat", "a")])
    # rows: a, small, cat, <end>; columns: 小, 猫, <end>
    right = [[0.1, 0.1, 0.8], [0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]]
    wrong = [[0.1, 0.8, 0.1], [0.1, 0.9, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0]]
    model = scripted(monkeypatch, [wrong, right])
    gold = GoldAlignment(frozenset({(0, 1), (1, 2)}), frozenset({(0, 1), (1, 2)}))
    pairs = gold_lines(["小猫"], ["a small cat"], [gold])
    found = head_alignment_errors(model, tokenizer, None, pairs)
    scores = dict(found.rows)
    assert set(scores) == {"L0.H0", "L0.H1", "L0"}
    assert scores["L0.H1"].error_rate == 0
    # links a-猫, small-猫, cat-猫 against small-小, cat-猫
    assert scores["L0.H0"].error_rate == pytest.approx(1 - 2 * 1 / (3 + 2))
    assert scores["L0.H0"].recall == pytest.approx(1 / 2)
    # mean of both: a on 猫 and <end> alike (0.45): the word comes first; small on 小 and 猫 alike
    assert scores["L0"].error_rate == pytest.approx(1 - 2 * 2 / (3 + 2))
    assert found.best[0] == "L0.H1"
    assert found.rows[0][0] == "L0.H1"
    assert found.default == "L0"
    assert found.diagonal.predicted == 3
    assert "used unless another" in str(found)
    assert found.as_dict()["heads"][0]["head"] == "L0.H1"


def test_gold_words_that_share_a_token_count_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = lesson_pair()
    n_rows, n_columns = 7, 6
    table = np.full((n_rows, n_columns), 0.01)
    # rows: Xuan yuan has a budger igar <end>; columns: 轩辕 有一 只 虎皮 鹦鹉 <end>
    for row, column in enumerate((0, 0, 1, 1, 3, 4, 5)):
        table[row, column] = 0.95
    model = scripted(monkeypatch, [table.tolist()] * 2)
    found = head_alignment_errors(model, english(), chinese(), [pair])
    assert found.best[1].error_rate == 0
    assert found.merged == 2
    assert found.words == 9
    assert "2 of 9 words share a token" in str(found)


def test_gold_of_both_directions() -> None:
    pair = sentence_pairs(1, split="test")[0]
    forth, back = gold_of(pair), gold_of(pair, reverse=True)
    assert [forth.source[a:b] for a, b in forth.source_spans] == list(pair.source_words)
    assert [forth.target[a:b] for a, b in forth.target_spans] == list(pair.target_words)
    assert (back.source, back.target) == (pair.target, pair.source)
    assert back.gold.sure == {(j, i) for i, j in forth.gold.sure}


def test_every_head_of_real_networks_equals_the_slow_way() -> None:
    pairs = [
        GoldPair(SOURCE, TARGET, tuple(word_spans(SOURCE)), tuple(word_spans(TARGET)),
                 parse_pharaoh("0-0 2-1 3-2 5-3 6-3")),
        GoldPair("小梅有猫", "Mei has a cat", tuple(word_spans("小梅有猫")),
                 tuple(word_spans("Mei has a cat")), parse_pharaoh("0-0 1-0 2-1 3-3")),
    ]  # fmt: skip
    for model, names in ((translator(), 11), (recurrent(), 1)):
        found = head_alignment_errors(model, english(), chinese(), pairs)
        assert len(found) == names
        for name, score in found:
            links = wanted = hits = 0
            for one in pairs:
                seen = trace_pair(
                    model, english(), one.source, one.target, source_tokenizer=chinese()
                )
                alignment = seen.alignment(name)
                predicted = {(s, t) for t, s in enumerate(alignment.best) if s is not None}
                gold = {
                    (alignment.source.number(i), alignment.target.number(j))
                    for i, j in one.gold.sure
                }
                links, wanted = links + len(predicted), wanted + len(gold)
                hits += len(predicted & gold)
            assert score.error_rate == pytest.approx(1 - 2 * hits / (links + wanted))


def test_hundreds_of_generated_pairs_are_read_in_batches() -> None:
    characters = sorted({c for p in sentence_pairs(300) for c in p.source + p.target})
    tokenizer = Pieces([c.encode() for c in characters])
    model = translator(
        vocab_size=tokenizer.vocab_size, source_vocab_size=None, shared_embeddings=True,
        context_length=96,
    )  # fmt: skip
    found = head_alignment_errors(model, tokenizer, None, sentence_pairs(60))
    assert found.diagonal.sentences == 60
    assert found.merged == 0
    assert 0.2 < found.diagonal.error_rate < 0.9
    assert 0.2 < found.best[1].error_rate <= 1


def test_weights_of_a_batch_hide_the_padding() -> None:
    model = recurrent()
    sides = [([1, 0], [2, 3, 0]), ([1, 2, 3, 4, 0], [1, 0])]
    for _, weights in cross_weights(model, 0, sides):
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-6)
    view = View(torch.arange(3)[None], torch.arange(5)[None], causal=False)
    assert view.visible().all()


def test_user_mistakes() -> None:
    gold = parse_pharaoh("0-3")
    with pytest.raises(UserError, match=r"line 1: link 0-3 names target word 3"):
        gold_lines(["a"], ["b c"], [gold])
    with pytest.raises(UserError, match="2 sources, 1 translations and 1 gold"):
        gold_lines(["a", "b"], ["c"], [gold])
    with pytest.raises(UserError, match="no sentence pairs"):
        head_alignment_errors(translator(), english(), chinese(), [])
    with pytest.raises(UserError, match="no attention to a source"):
        align_pairs(recurrent(attention="none", d_attention=None), english(), [(SOURCE, TARGET)])


# -- drawings --------------------------------------------------------------------------------------


def straight() -> WordAlignment:
    source = Words(("轩辕", "有", "虎皮鹦鹉"), ((0,), (1,), (2,)), (0, 1, 2, -1))
    target = Words(("Xuanyuan", "has", "a", "budgie"), ((0,), (1,), (2,), (3,)), (0, 1, 2, 3, -1))
    weights = np.array(
        [[0.95, 0.03, 0.0, 0.02], [0.3, 0.6, 0.0, 0.1], [0.0, 0.1, 0.1, 0.8], [0, 0.02, 0.98, 0]]
    )
    return WordAlignment(source, target, weights, "L1.H0", "runs/x: “轩辕有…” → “Xuanyuan …”")


def test_drawing_in_a_terminal() -> None:
    text = drawing(straight(), columns=80, depth="none")
    lines = text.split("\n")
    assert lines[0] == "alignment by cross-attention L1.H0"
    assert lines[2].split() == ["轩辕", "有", "虎皮鹦鹉"]
    assert lines[8].split() == ["Xuanyuan", "has", "a", "budgie"]
    assert all(0x2800 < ord(c) < 0x2900 for line in lines[3:8] for c in line if c != " ")
    assert "a ← (nothing) 0.80" in text
    assert "budgie ← 虎皮鹦鹉 0.98" in text
    # a line ends under the middle of its word
    for word, dots in (("Xuanyuan", lines[7]), ("budgie", lines[7])):
        middle = lines[8].index(word) + len(word) // 2
        assert dots[middle - 1 : middle + 2].strip()
    coloured = drawing(straight(), columns=80, depth="truecolor")
    assert "\x1b[38;2;" in coloured


def test_thick_lines_are_heavy_weights() -> None:
    source, target = Words(("xxx",), ((0,),), (0,)), Words(("yyy",), ((0,),), (0,))

    def dots(weight: float) -> int:
        one = WordAlignment(source, target, np.array([[weight, 1 - weight]]), "L0.H0")
        text = drawing(one, columns=40, depth="none")
        return sum(bin(ord(c) - 0x2800).count("1") for c in text if 0x2800 < ord(c) < 0x2900)

    counts = [dots(w) for w in (0.05, 0.2, 0.5, 0.9)]
    assert counts == [0, 20, 40, 60]


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_drawings_keep_to_the_terminals_width(columns: int) -> None:
    words = tuple(f"word{n}" for n in range(30))
    side = Words(words, tuple((n,) for n in range(30)), tuple(range(30)))
    weights = np.concatenate([np.eye(30) * 0.8, np.full((30, 1), 0.2)], axis=1)
    for one in (straight(), WordAlignment(side, side, weights, "L0.H0", "x" * 200)):
        text = drawing(one, columns=columns, depth="none")
        assert all(width(line) <= columns for line in text.split("\n"))
        assert text.count("←") == len(one.target)


def test_pictures_of_alignments(tmp_path: Path) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a missing glyph is one
        for ending in (".png", ".svg"):
            path = straight().picture(tmp_path / f"alignment{ending}")
            assert path.stat().st_size > 1000
    svg = (tmp_path / "alignment.svg").read_text(encoding="utf-8")
    for word in ("虎皮鹦鹉", "Xuanyuan", "weight; darker: the link"):
        assert word in svg
    with pytest.raises(UserError, match="must end in"):
        straight().picture(tmp_path / "alignment.bmp")


def test_error_rate_of_the_drawn_one() -> None:
    assert alignment_error_rate(straight().links, {(0, 0), (1, 1), (2, 3)}) == 0
