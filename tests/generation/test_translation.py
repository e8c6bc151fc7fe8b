"""Lines in, as many lines out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from scripted_model import PieceTokenizer
from scripted_translator import ScriptedTranslator

from budgerigar.errors import UserError
from budgerigar.generation.translation import CHUNK, translate_lines, translate_texts
from budgerigar.generation.translation_options import TranslationOptions

PIECES = [b"a", b"b", b"c", b" ", b"\n", b"\r", b"x"]
TOKENIZER = PieceTokenizer(PIECES, end=True)
END = TOKENIZER.end_id
assert END is not None
V = TOKENIZER.vocab_size
GREEDY = TranslationOptions(beam_size=1)


def copier(context_length: int | None = None, changed: dict[int, int] | None = None):
    """Copies its source, token by token, all but surely; `changed` tokens become others."""

    def table(source: tuple[int, ...], history: tuple[int, ...]) -> list[float]:
        wanted = source[len(history)] if len(history) < len(source) else END
        wanted = (changed or {}).get(wanted, wanted)
        return [0.93 if token == wanted else 0.01 for token in range(V)]

    return ScriptedTranslator(table, V, context_length)


def run(network, lines, options=GREEDY, **settings) -> list[str]:
    return [t.text for t in translate_lines(network, TOKENIZER, None, lines, options, **settings)]


LINES = ["abc", "", "a b", "   ", "\t", "c", "aaaa bbbb", ""]


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_as_many_lines_come_out_in_order(beam_size: int, batch_size: int) -> None:
    options = TranslationOptions(beam_size=beam_size, batch_size=batch_size)
    found = run(copier(), LINES, options)
    assert found == ["abc", "", "a b", "", "", "c", "aaaa bbbb", ""]
    assert translate_texts(copier(), TOKENIZER, TOKENIZER, LINES, options) == found


def test_blank_lines_are_not_shown_to_the_model() -> None:
    network = copier()
    (found,) = translate_lines(network, TOKENIZER, None, [" "], GREEDY)
    assert network.widths == []
    assert found.source == " "
    assert [(h.text, h.ids, h.score, h.finished) for h in found.hypotheses] == [("", (), 0, True)]


def test_many_chunks_are_read_only_when_they_are_asked_for() -> None:
    read = []

    def lines() -> Iterator[str]:
        for i in range(200):
            read.append(i)
            yield "abc"[: i % 4]

    options = TranslationOptions(beam_size=1, batch_size=2)
    translations = translate_lines(copier(), TOKENIZER, None, lines(), options)
    assert next(translations).text == ""
    assert len(read) == 2 * CHUNK
    assert [t.text for t in translations] == ["abc"[: i % 4] for i in range(1, 200)]


def test_a_line_break_that_is_generated_becomes_a_space() -> None:
    network = copier(changed={6: 4})  # x becomes a line feed
    assert run(network, ["axb", "x"]) == ["a b", " "]
    assert run(copier(changed={6: 5}), ["axb"]) == ["a b"]


def test_a_source_beyond_the_context_is_cut_and_its_line_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    network = copier(context_length=8)
    assert run(network, ["a", "", "ab" * 50_000, "c"]) == ["a", "", "abababa", "c"]
    assert "line 3 has 100,000 tokens, more than the 7" in capsys.readouterr().err


def test_never_seen_and_special_pieces_are_not_generated() -> None:
    tokenizer = PieceTokenizer(PIECES, end=True)
    tokenizer.never_seen[[0, END]] = True  # the end stays allowed, whatever the list says
    (found,) = translate_lines(copier(), tokenizer, None, ["ba"], GREEDY)
    assert found.text[0] == "b"
    assert 0 not in found.hypotheses[0].ids
    assert found.hypotheses[0].finished


def test_two_vocabularies() -> None:
    source = PieceTokenizer([b"1", b"2", b"3"], end=True)  # its <end> is 3, a space to the target

    def table(read, history):
        assert read[-1] == 3
        wanted = read[len(history)] if len(history) < len(read) - 1 else END
        return [0.93 if token == wanted else 0.01 for token in range(V)]

    network = ScriptedTranslator(table, V)
    assert translate_texts(network, TOKENIZER, source, ["123", "3"], GREEDY) == ["abc", "c"]


def test_n_best_with_scores() -> None:
    options = TranslationOptions(beam_size=4, n_best=3)
    (found,) = translate_lines(copier(), TOKENIZER, None, ["ab"], options)
    assert len(found.hypotheses) == 3
    assert found.text == found.hypotheses[0].text == "ab"
    scores = [h.score for h in found.hypotheses]
    assert scores == sorted(scores, reverse=True)
    assert all(h.finished and h.log_probability < 0 for h in found.hypotheses)


def test_prefixes_for_all_lines_or_one_for_each() -> None:
    assert run(copier(), ["abc", "", "b"], prefixes="cc") == ["ccc", "", "cc"]
    assert run(copier(), ["abc", "", "bb"], prefixes=["", "x", "c"]) == ["abc", "", "cb"]
    for prefixes in (["c"], ["c"] * 3):
        with pytest.raises(UserError, match="give one for each"):
            run(copier(), ["abc", "b"], prefixes=prefixes)


def test_a_tokenizer_without_an_end_is_refused() -> None:
    with pytest.raises(UserError, match="not trained on pairs"):
        translate_texts(copier(), PieceTokenizer(PIECES), None, ["a"])
