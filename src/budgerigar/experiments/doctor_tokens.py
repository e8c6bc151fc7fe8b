"""The doctor's checks of tokens: what a text begins and ends with, specials, templates, vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from budgerigar.errors import UserError
from budgerigar.experiments.doctor_patient import GGUF, HUGGING_FACE, Fault, NotMadeError, Patient
from budgerigar.text.chat_template import ChatTemplate
from budgerigar.text.declared_tokens import ROLES
from budgerigar.text.tokenizer_parts import PATTERNS, SAME_AS

_LIKE_SPECIAL = re.compile(r"<\|[^|<>\s{}]{1,40}\|>|</?s>|<(?:bos|eos|start_of_turn|end_of_turn)>")
_QUESTION = {"role": "user", "content": "Hello"}


# -- vocabulary ------------------------------------------------------------------------------------
def vocabulary(patient: Patient) -> Iterator[Fault]:
    """Rows of the tables of tokens against pieces of the tokenizer."""
    config, tokenizer = patient.need_config(), patient.need_tokenizer()
    sides = [("the tokenizer", tokenizer, config.vocab_size)]
    if patient.source_tokenizer not in (None, tokenizer):
        rows = getattr(config, "source_vocab_size", None) or config.vocab_size
        sides.append(("the source's tokenizer", patient.source_tokenizer, rows))
    for name, one, rows in sides:
        if one.vocab_size > rows:
            yield Fault(
                "vocabulary larger than the model's",
                f"{name} has {one.vocab_size:,} pieces and the model has rows for {rows:,}",
                "A token without a row cannot be read: tokenizer and model are of different models.",
            )
        elif one.vocab_size < rows:
            yield Fault(
                "padded vocabulary",
                f"the model has {rows:,} rows and {name} {one.vocab_size:,} pieces",
                "Usual where tables are padded to a round number; rows beyond stand for no token and "
                "are never written here. Another program may write them as nothing.",
                "note",
            )


def knows_pre_tokenizer(metadata: Mapping[str, Any]) -> bool:
    """Whether a GGUF file's way of cutting words is known, or it needs none."""
    name = metadata.get("tokenizer.ggml.pre")
    if metadata.get("tokenizer.ggml.model") != "gpt2" or not isinstance(name, str):
        return True
    return name == "default" or SAME_AS.get(name, name) in PATTERNS


def pre_tokenizer(patient: Patient) -> Iterator[Fault]:
    """How words are cut before they are pieces, in a GGUF file by a name."""
    if patient.form != GGUF:
        patient.need_tokenizer()  # it says so itself, and was read
        return
    if patient.values.get("tokenizer.ggml.model") != "gpt2":
        return
    name = patient.values.get("tokenizer.ggml.pre")
    if not knows_pre_tokenizer(patient.values):
        yield Fault(
            "unknown pre-tokenizer",
            f"tokenizer.ggml.pre = {name!r}; known are {', '.join([*PATTERNS, *SAME_AS])}",
            "Words cut in another way make a model worse without a word. Take a Hugging Face folder of "
            "the same model, whose tokenizer.json says how it cuts.",
        )
    elif name is None or name == "default":
        yield Fault(
            "no pre-tokenizer named",
            f"tokenizer.ggml.pre is {'missing' if name is None else 'default'}",
            "The file was made by an old converter: convert it again, or take a newer file.",
            "warning",
        )


# -- ends ------------------------------------------------------------------------------------------
def ends(patient: Patient) -> Iterator[Fault]:
    """Every place that names an end, against the others."""
    tokenizer = patient.need_tokenizer()
    places = _places(patient)
    beyond = {
        where: numbers
        for where, found in places.items()
        if (numbers := {i for i in found if not 0 <= i < tokenizer.vocab_size})
    }
    for where, numbers in beyond.items():
        yield Fault(
            "an end beyond the vocabulary",
            f"{where} says {_numbers(numbers)}, and the vocabulary has {tokenizer.vocab_size:,} tokens",
            "Such an end is never reached: put the number of the right token there.",
        )
    named = {where: found - beyond.get(where, set()) for where, found in places.items()}
    used = next((w for w in _STOPPING if named.get(w)), None)
    if used is None:
        return
    for where, found in named.items():
        if where != used and found and not found & named[used]:
            yield Fault(
                "end tokens that disagree",
                f"{where} says {_named(tokenizer, found)} and {used} {_named(tokenizer, named[used])}",
                f"Generation stops at what {used} says alone in most programs, and runs on if the "
                "other was meant. Here every one of them is an end; name them all there.",
                "warning",
            )
            return


_STOPPING = ("generation_config.json", "config.json", "the metadata", "the tokenizer")
"""who decides where generation stops, in most programs: the first that says something"""


def _places(patient: Patient) -> dict[str, set[int]]:
    """Where an end is named -> which ids."""
    tokenizer, said = patient.tokenizer, patient.said
    found: dict[str, set[int]] = {}
    if patient.form == HUGGING_FACE and said is not None:
        found["generation_config.json"] = _ids(said.generation.get("eos_token_id"))
        found["config.json"] = _ids(said.model.get("eos_token_id"))
        own = said.token("eos")
        numbers = _vocabulary_of(tokenizer)
        found["the tokenizer"] = {numbers[own]} if own in numbers else set()
    elif patient.form == GGUF:
        keys = ("eos_token_id", "eot_token_id", "eom_token_id", "eog_token_id", "eos_token_ids")
        values = [patient.values.get(f"tokenizer.ggml.{key}") for key in keys]
        found["the metadata"] = set().union(*map(_ids, values))
    elif tokenizer.end_id is not None:
        found["the tokenizer"] = {tokenizer.end_id}
    turn = _turn_end(patient)
    return found | ({} if turn is None else {"the chat template": {turn}})


def _ids(value: Any) -> set[int]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    values = value if isinstance(value, list) else [value]
    return {i for i in values if isinstance(i, int) and not isinstance(i, bool)}


def _turn_end(patient: Patient) -> int | None:
    """The special token that the template puts behind an answer."""
    try:
        chat = [_QUESTION, {"role": "assistant", "content": "Hi"}, _QUESTION]
        rendered = _template(patient).render(chat, mark_answer=True)
        first = next(iter(rendered.parts_after_answer()), None)
    except (UserError, NotMadeError):
        return None
    return first if isinstance(first, int) else None


def _vocabulary_of(tokenizer: Any) -> dict[str, int]:
    return dict(tokenizer.backend.get_vocab(with_added_tokens=True))


def _numbers(numbers: set[int]) -> str:
    return ", ".join(f"{i:,}" for i in sorted(numbers))


def _named(tokenizer: Any, numbers: set[int]) -> str:
    names = {i: name for name, i in _vocabulary_of(tokenizer).items()}
    return ", ".join(f"{names.get(i, '?')} ({i:,})" for i in sorted(numbers))


# -- special tokens and templates ------------------------------------------------------------------
def specials(patient: Patient) -> Iterator[Fault]:
    """Tokens that are declared with a role, against the vocabulary."""
    tokenizer = patient.need_tokenizer()
    if patient.form == HUGGING_FACE and patient.said is not None:
        numbers = _vocabulary_of(tokenizer)
        lost = [
            f"{role}_token = {token!r}"
            for role in ROLES
            if (token := patient.said.token(role)) and token not in numbers
        ]
    elif patient.form == GGUF:
        keys = ("bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id")
        lost = [
            f"{key} = {number}"
            for key in keys
            if (number := _one(patient.values.get(f"tokenizer.ggml.{key}"))) is not None
            and key != "eos_token_id"  # spoken of as an end
            and not 0 <= number < tokenizer.vocab_size
        ]
    else:
        return
    if lost:
        yield Fault(
            "special tokens that the vocabulary lacks",
            "; ".join(lost),
            "Files of different models lie together: take all of them from one place.",
        )


def _one(value: Any) -> int | None:
    return next(iter(_ids(value)), None)


def _template(patient: Patient) -> ChatTemplate:
    tokenizer = patient.need_tokenizer()
    if tokenizer.chat_template is None:
        raise NotMadeError("the model has no chat template")
    return ChatTemplate(tokenizer.chat_template, tokenizer.special_ids, tokenizer.names)


def template(patient: Patient) -> Iterator[Fault]:
    """Whether the template works, and its special tokens are the tokenizer's."""
    made = _template(patient)
    known = _vocabulary_of(patient.tokenizer)
    missing = sorted(set(_LIKE_SPECIAL.findall(made.source)) - set(known))
    plain = sorted(
        set(_LIKE_SPECIAL.findall(made.source)) & set(known) - set(patient.tokenizer.special_ids)
    )
    if missing:
        yield Fault(
            "a template for another tokenizer",
            f"the chat template writes {', '.join(missing)}, which the vocabulary lacks",
            "The model reads them letter by letter, as it never did in training. Take tokenizer and "
            "template of the same model.",
        )
    if plain:
        yield Fault(
            "tokens of the template that are not special",
            f"{', '.join(plain)}: in the vocabulary, but no special tokens",
            "Declare them special in tokenizer_config.json, or a text can write them.",
            "warning",
        )
    try:
        made.render([_QUESTION])
    except UserError as error:
        yield Fault(
            "a chat template that does not work",
            str(error),
            "Give another one: `budgie chat … --template FILE`.",
        )


def twice(patient: Patient) -> Iterator[Fault]:
    """A start that more than one part puts before a text."""
    tokenizer = patient.need_tokenizer()
    start = tuple(getattr(tokenizer, "start_ids", ()))
    if len(start) > 1 and len(set(start)) < len(start):
        yield Fault(
            "BOS twice",
            f"the tokenizer puts {_repeated(tokenizer, start)} before a text",
            "Take one of them out of tokenizer.json's post_processor.",
        )
    if tokenizer.chat_template is None:
        return
    try:
        parts = _template(patient).render([_QUESTION]).parts()
    except UserError:
        return  # told by the check of the template
    leading: list[int] = []
    for part in parts:
        if not isinstance(part, int):
            break
        leading.append(part)
    first = leading[:1]
    n = next((i for i, token in enumerate(leading) if token != leading[0]), len(leading))
    if n > 1 and (first[0] in start or first[0] == tokenizer.opening_id):
        yield Fault(
            "BOS twice",
            f"the chat template alone writes {_repeated(tokenizer, tuple(leading[:n]))}",
            "Take one of them out of the template.",
        )
    elif start and first == [start[-1]]:
        yield Fault(
            "BOS twice",
            f"the chat template writes {_named(tokenizer, set(first))}, and the tokenizer puts it "
            "before every text",
            "Here a chat has it once. A program that renders the template to text and cuts that text "
            "has it twice: tell it to add no special tokens (add_special_tokens=False).",
            "warning",
        )


def _repeated(tokenizer: Any, numbers: tuple[int, ...]) -> str:
    names = {i: name for name, i in tokenizer.special_ids.items()}
    return " ".join(names.get(i, str(i)) for i in numbers)


# -- generation ------------------------------------------------------------------------------------
def generation(patient: Patient) -> Iterator[Fault]:
    """What generation needs to know: where to stop, and what a decoder starts with."""
    config, tokenizer = patient.need_config(), patient.need_tokenizer()
    assembly = getattr(config, "assembly", None)
    if assembly is None or assembly == "encoder-only":
        return
    ends_known = bool(tokenizer.end_ids) or tokenizer.end_id is not None
    documents = (patient.values.get("text") or {}).get("documents", "none")
    imported = patient.form != "a run of ours" or documents != "none"
    if not ends_known and imported:
        yield Fault(
            "no end named",
            "no file says which token ends a text",
            "Generation runs to its limit: name eos_token_id in generation_config.json.",
            "warning",
        )
    if patient.form != HUGGING_FACE or patient.said is None:
        return
    if assembly == "encoder-decoder" and "decoder_start_token_id" not in {
        **patient.said.model, **patient.said.generation
    }:  # fmt: skip
        yield Fault(
            "generation defaults missing",
            "neither config.json nor generation_config.json names decoder_start_token_id",
            "Name it in generation_config.json: what a target begins with cannot be guessed.",
        )
    elif not patient.said.generation:
        yield Fault(
            "generation defaults missing",
            "there is no generation_config.json",
            "Ends and defaults of sampling come from config.json then; write it with "
            "`transformers`' GenerationConfig.",
            "note",
        )
