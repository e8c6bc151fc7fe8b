"""The four steps as text: its numbers are the head's, sums are right, omissions are stated."""

from __future__ import annotations

import re

import pytest
import torch
from toy import STORY, network, words

from budgerigar.inspection import trace


def numbers(line: str) -> list[float]:
    return [float(n) for n in re.findall(r"-?\d+\.\d+|-inf", line)]


def test_rows_of_the_table_are_the_heads_numbers() -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size, n_kv_heads=2), tokenizer, STORY, start_id=0)
    head = seen.attention("L1.H3")
    text = head.step_text("was", top=50)
    row = seen.labels.index("was")
    assert "“was” (position 7)" in text
    assert "key-value head 1 of 2" in text
    lines = {int(m[1]): m[0] for m in re.finditer(r"^ *(\d+) \S.*$", text, re.M) if "×" not in m[0]}
    for key in range(row + 1):
        found = numbers(lines[key])
        assert found == pytest.approx(
            [head.scores[row, key], head.scaled[row, key], head.masked[row, key],
             head.weights[row, key]], abs=6e-5)  # fmt: skip
    assert f"{len(seen) - row - 1} masked: later tokens" in text
    assert re.search(r"masked: later tokens +-inf +0\.000000", text)
    assert re.search(r"sum of the row +1\.000000", text)
    assert "sqrt(4) = 2" in text


def test_long_rows_state_what_they_leave_out() -> None:
    tokenizer = words()
    seen = trace(network(tokenizer.vocab_size), tokenizer, STORY)
    head = seen.attention("L0.H0")
    text = head.step_text("childhood", top=5)
    row = seen.labels.index("childhood")
    left = sorted(head.weights[row, : row + 1])[:-5]
    found = re.search(r"(\d+) weaker keys, their sum +(\d\.\d+)", text)
    assert found
    assert int(found[1]) == len(left)
    assert float(found[2]) == pytest.approx(float(sum(left)), abs=1e-6)


def test_steps_that_a_model_has_are_shown_and_others_are_not() -> None:
    tokenizer = words()
    plain = trace(network(tokenizer.vocab_size), tokenizer, STORY).attention("L0.H0")
    text = plain.step_text("It")
    assert "before rotation" in text
    assert not any(word in text for word in ("soft-cap", "bias", "sink", "window"))
    model = network(
        tokenizer.vocab_size,
        positions="alibi",
        attention_softcap=2.0,
        sink_logit=True,
        attention_window=4,
        attention_scale="none",
    )
    with torch.no_grad():
        for block in model.decoder.blocks():
            block.self_attention.sink_logit.fill_(1.0)
    head = trace(model, tokenizer, STORY).attention("L0.H0")
    text = head.step_text("It")
    for words_there in ("2 × tanh(x / 2)", "+ bias", "the sink", "outside the window", "× 1"):
        assert words_there in text
    row = 9
    sink = re.search(r"the sink +(\d\.\d+)", text)
    assert sink
    assert float(sink[1]) == pytest.approx(1 - float(head.weights[row].sum()), abs=1e-6)


def test_weighted_values_add_up_to_the_models_own_output() -> None:
    tokenizer = words()
    head = trace(network(tokenizer.vocab_size), tokenizer, STORY).attention("L1.H1")
    text = head.step_text("It")
    parts = [numbers(line)[1:] for line in text.splitlines() if "× v(" in line]
    rest = [numbers(line) for line in text.splitlines() if "other keys together" in line]
    total = [sum(column) for column in zip(*parts, *rest, strict=True)]
    assert total == pytest.approx(head.model_output[9][: len(total)].tolist(), abs=1e-3)
    assert total == pytest.approx(
        numbers(next(x for x in text.splitlines() if "the model computed" in x)), abs=1e-3
    )
