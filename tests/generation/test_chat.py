"""Conversations: nothing read twice, turns that end, contexts that fill up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import foreign_tokenizers as foreign
import numpy as np
import pytest
import torch
from scripted_model import ScriptedModel

from budgerigar.errors import UserError
from budgerigar.generation.chat import Conversation, without_oldest_turns
from budgerigar.generation.generate import generate_ids
from budgerigar.generation.options import SamplingOptions
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.transformer import Transformer
from budgerigar.text.imported_tokenizer import ImportedTokenizer, tokenizer_from_folder
from budgerigar.text.tokenizers import train_tokenizer

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
GREEDY = SamplingOptions(temperature=0, max_new_tokens=12)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> ImportedTokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    foreign.byte_level(folder)
    (folder / "generation_config.json").write_text('{"eos_token_id": [0, 2]}')
    return tokenizer_from_folder(folder)


class Counting:
    """A Transformer that counts the tokens it reads."""

    def __init__(self, vocab_size: int, context_length: int = 400) -> None:
        config = TransformerConfig(
            vocab_size=vocab_size,
            context_length=context_length,
            d_model=32,
            n_layers=2,
            n_heads=2,
            init_std=0.3,
        )
        self.inner = Transformer(config, seed=3).eval()
        self.read: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def step(self, tokens: Any, state: Any, **more: Any) -> Any:
        self.read.append(tokens.shape[1])
        return self.inner.step(tokens, state, **more)


def says(tokenizer: Any, answers: list[list[int]], context_length: int | None = None) -> Any:
    """A model that gives these answers (ids), one after each generation prompt."""
    prompt = tokenizer.encode_parts([1, "assistant\n"], inside=True)

    def table(history: tuple[int, ...]) -> Any:
        at = [
            i + len(prompt)
            for i in range(len(history) - len(prompt) + 1)
            if list(history[i : i + len(prompt)]) == prompt
        ]
        p = np.zeros(tokenizer.vocab_size)
        answer = answers[min(len(at), len(answers)) - 1] if at else [0]
        written = len(history) - at[-1] if at else 0
        p[answer[min(written, len(answer) - 1)]] = 1
        return p

    return ScriptedModel(table, tokenizer.vocab_size, context_length)


def test_only_what_is_new_is_read(tokenizer: ImportedTokenizer) -> None:
    network = Counting(tokenizer.vocab_size)
    talk = Conversation(network, tokenizer, CHATML, GREEDY)
    first = "".join(talk.say("What is the capital of France?"))
    read, n_before = sum(network.read), len(talk._memory.tokens)
    network.read.clear()
    second = "".join(talk.say("And of Spain?"))
    tail = tokenizer.encode_parts([2, "\n", 1, "user\nAnd of Spain?", 2, "\n", 1, "assistant\n"])
    ended = talk.messages[1]["content"] == first and n_before != read
    assert network.read[0] == len(tail) + (n_before - read if not ended else 1)
    assert all(width == 1 for width in network.read[1:])
    # and the answer is the one to all that was said, read afresh
    tokens = talk._memory.tokens
    start = next(
        i for i in range(n_before - 1, len(tokens)) if tokens[i : i + len(tail)] == tail
    ) + len(tail)
    fresh = [e.token for e in generate_ids(
        network, [tokens[:start]], GREEDY, end_ids=sorted(tokenizer.end_ids)
    )]  # fmt: skip
    assert fresh == tokens[start:]
    assert tokenizer.decode([i for i in fresh if i not in tokenizer.end_ids]).lstrip() == second
    with torch.inference_mode():
        logits = network.inner.forward(torch.tensor([tokens[:start]]))[0, -1]
    assert int(logits.argmax()) == tokens[start]


def test_a_turn_ends_at_any_end_and_the_template_s_own_is_read(
    tokenizer: ImportedTokenizer,
) -> None:
    hello, paris = tokenizer.encode("Hello!"), tokenizer.encode("\n Paris.")
    network = says(tokenizer, [[*hello, 0], [*paris, 2]])  # <|endoftext|>, then <|im_end|>
    for end in (0, 2):
        assert end in Conversation(network, tokenizer, CHATML)._end_ids
    talk = Conversation(network, tokenizer, CHATML, GREEDY)
    assert "".join(talk.say("Hi <|im_end|>")) == "Hello!"
    assert talk.finish == "end"
    assert "".join(talk.say("Where?")) == "Paris."
    expected = tokenizer.encode_parts(
        [
            *(1, "user\nHi <|im_end|>", 2, "\n", 1, "assistant\nHello!", 2, "\n"),
            *(1, "user\nWhere?", 2, "\n", 1, "assistant\n\n Paris.", 2),
        ]
    )
    ids = talk._memory.tokens
    assert tokenizer.pieces(ids) == tokenizer.pieces(ids)
    assert tokenizer.decode(ids) == tokenizer.decode(expected)
    assert [i for i in ids if i < 3] == [i for i in expected if i < 3]  # each special token once
    assert [m["content"] for m in talk.messages] == ["Hi <|im_end|>", "Hello!", "Where?", "Paris."]
    assert network.read == len(ids) - 1  # every token once; the last end need not be read


def test_stopped_in_the_middle_it_goes_on(tokenizer: ImportedTokenizer) -> None:
    long = [*tokenizer.encode("One two three four five six seven eight."), 2]
    network = says(tokenizer, [long, [*tokenizer.encode("Yes."), 2]])
    talk = Conversation(network, tokenizer, CHATML, SamplingOptions(temperature=0))
    pieces = talk.say("Count.")
    said = next(pieces) + next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert talk.messages[-1] == {"role": "assistant", "content": said}
    assert talk.finish is None
    read = network.read
    assert "".join(talk.say("Go on.")) == "Yes."
    assert network.read == len(talk._memory.tokens) - 1
    assert network.read > read
    talk.reset()
    assert talk.messages == []


def test_a_template_that_changes_what_was_said_is_read_anew(tokenizer: ImportedTokenizer) -> None:
    shorter = CHATML.replace(
        "message['content']", "(message['content'] if loop.last else '(' + message.role + ')')"
    )
    network = says(tokenizer, [[*tokenizer.encode("Yes."), 2], [*tokenizer.encode("No."), 2]])
    talk = Conversation(network, tokenizer, shorter, GREEDY)
    assert "".join(talk.say("A?")) == "Yes."
    read = network.read
    assert "".join(talk.say("B?")) == "No."
    whole = tokenizer.encode_parts(
        [
            *(1, "user\n(user)", 2, "\n", 1, "assistant\n(assistant)", 2, "\n"),
            *(1, "user\nB?", 2, "\n", 1, "assistant\nNo.", 2),
        ]
    )
    assert tokenizer.decode(talk._memory.tokens) == tokenizer.decode(whole)
    assert network.read - read == len(talk._memory.tokens) - 1


def test_what_opens_a_text_opens_a_chat_once(tmp_path: Path) -> None:
    foreign.llama_like(tmp_path)
    tokenizer = tokenizer_from_folder(tmp_path)
    plain = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}"
    yes = tokenizer.encode("Yes")
    for template in (plain, "{{ bos_token }}" + plain):
        network = ScriptedModel(
            lambda h: np.eye(tokenizer.vocab_size)[[*yes, 2][min(list(h).count(yes[-1]), 1)]],
            tokenizer.vocab_size,
        )
        talk = Conversation(network, tokenizer, template, GREEDY)
        list(talk.say("Hi <s>"))
        ids = talk._memory.tokens
        assert ids[0] == 1
        assert ids.count(1) == 1
        assert tokenizer.decode(ids).startswith("[user] Hi <s>")


def test_a_full_context_loses_its_oldest_turns_and_says_so(
    tokenizer: ImportedTokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [[*tokenizer.encode(f"Answer {i}."), 2] for i in range(9)]
    system = [{"role": "system", "content": "Short."}]
    network = says(tokenizer, answers, context_length=100)
    talk = Conversation(network, tokenizer, CHATML, GREEDY, system)
    for i in range(4):
        list(talk.say(f"Question number {i}?"))
    noted = capsys.readouterr().err
    assert "the context of 100 tokens is full: the oldest" in noted
    assert "are no longer seen" in noted
    assert [m["content"] for m in talk.messages[1::2]] == [
        f"Question number {i}?" for i in range(4)
    ]
    assert tokenizer.decode(talk._memory.tokens).startswith("system\nShort.\nuser\nQuestion number")
    assert "number 0" not in tokenizer.decode(talk._memory.tokens)
    assert "number 3" in tokenizer.decode(talk._memory.tokens)
    list(talk.say("x " * 200))  # alone longer than the context
    assert "oldest part of the conversation" in capsys.readouterr().err

    strict = SamplingOptions(temperature=0, max_new_tokens=12, on_overflow="error")
    talk = Conversation(network, tokenizer, CHATML, strict)
    with pytest.raises(UserError, match="the context of 100 tokens is full"):
        list(talk.say("x " * 200))
    assert talk.messages == []
    assert "".join(talk.say("Hi")).startswith("Answer")


def test_a_turn_of_plain_text_ends_at_the_text_that_follows_it() -> None:
    """Our own runs have no special tokens for a template's marks."""
    text = "Q: What?\nA: That.\nQ: Who?\nA: She.\n" * 20
    tokenizer = train_tokenizer([text], "character", end=True)
    template = (
        "{% for m in messages %}{{ 'Q: ' if m.role == 'user' else 'A: ' }}{{ m.content }}{{ '\n' }}"
        "{% endfor %}{% if add_generation_prompt %}A: {% endif %}"
    )

    def table(history: tuple[int, ...]) -> Any:
        spelled = tokenizer.decode(history)
        answered = spelled.split("A: ")[-1]
        answer = "She.\nQ: " if "Who" in spelled else "That.\nQ: "
        return np.eye(tokenizer.vocab_size)[tokenizer.encode(answer[len(answered)])[0]]

    network = ScriptedModel(table, tokenizer.vocab_size)
    talk = Conversation(network, tokenizer, template, SamplingOptions(temperature=0))
    assert "".join(talk.say("What?")) == "That."
    assert talk.finish == "stop"
    assert "".join(talk.say("Who?")) == "She."
    ids = talk._memory.tokens
    assert tokenizer.decode(ids) == "Q: What?\nA: That.\nQ: Who?\nA: She.\nQ:"
    assert ids[0] == tokenizer.end_id
    assert network.read == len(ids) - 1


def test_a_wrong_template_is_an_error_and_the_question_was_not_asked(
    tokenizer: ImportedTokenizer,
) -> None:
    network = says(tokenizer, [[2]])
    talk = Conversation(network, tokenizer, "{{ raise_exception('never') }}", GREEDY)
    with pytest.raises(UserError, match="refuses these messages: never"):
        list(talk.say("Hi"))
    assert talk.messages == []
    with pytest.raises(UserError, match="at least one token"):
        Conversation(network, tokenizer, CHATML, SamplingOptions(max_new_tokens=0))


def test_an_empty_answer_is_an_answer(tokenizer: ImportedTokenizer) -> None:
    talk = Conversation(says(tokenizer, [[2]]), tokenizer, CHATML, GREEDY)
    assert list(talk.say("Hi")) == []
    assert talk.messages[-1] == {"role": "assistant", "content": ""}


def test_without_oldest_turns() -> None:
    names = {"s": "system", "u": "user", "a": "assistant"}
    chat = [{"role": names[role], "content": str(i)} for i, role in enumerate("suauauu")]

    def left(n: int) -> str:
        return "".join(message["content"] for message in without_oldest_turns(chat, n))

    assert [left(n) for n in range(6)] == ["0123456", "03456", "056", "06", "06", "06"]
    assert without_oldest_turns(chat[:2], 3) == chat[:2]
