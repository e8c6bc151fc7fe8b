"""Continue a text with a trained model. The continuation streams to stdout as it is made.

The prompt is the argument, the file of --prompt-file, or stdin; without any, the model starts
a text of its own. Several prompts are continued as one batch and printed one after another.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from budgerigar.cli.flags import add_dataclass, given, whole_number
from budgerigar.errors import UserError

USES = ("device", "seed", "threads", "json")
EXAMPLES = """examples:
  budgie generate last "ROMEO:" --max-new-tokens 300
  budgie generate runs/poems-1 --temperature 0.6 --samples 3
  echo "Once upon a time" | budgie generate last"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Prompts and how tokens are chosen."""
    from budgerigar.generation.options import SamplingOptions

    parser.add_argument("model", metavar="RUN", help="a run's folder, or last")
    parser.add_argument("prompts", metavar="PROMPT", nargs="*", help="a text to continue")
    parser.add_argument("--prompt-file", metavar="FILE", help="read the prompt from a file")
    parser.add_argument(
        "--encoding", metavar="NAME", help="encoding of that file or of stdin, if not UTF-8"
    )
    parser.add_argument(
        "--samples", type=whole_number, default=1, metavar="N", help="continuations each [1]"
    )
    parser.add_argument("--stop", action="append", metavar="TEXT", help="end before this text")
    parser.add_argument(
        "--end-probability",
        action="store_true",
        help="print, on stderr, the probability that the text ends at each new token",
    )
    add_dataclass(parser, SamplingOptions, "how tokens are chosen", "sampling", ("seed", "stop"))


def run(options: argparse.Namespace) -> None:
    """Load the model, continue each prompt, print."""
    sampling = given(options, "sampling")
    if options.seed is not None:
        sampling["seed"] = options.seed
    if options.stop:
        sampling["stop"] = tuple(options.stop)
    _note_unused(sampling, options)
    if options.prompts and options.prompt_file:
        raise UserError("give the prompt as an argument or with --prompt-file, not both")
    if options.samples < 1:
        raise UserError(f"--samples {options.samples} makes no text; it must be at least 1")

    from budgerigar import api

    model = api.load(options.model, device=options.device or "auto", threads=options.threads)
    prompts = _prompts(options)
    if len(prompts) * options.samples == 1 and not (options.json or options.end_probability):
        _stream(model, prompts[0], sampling)
        return
    made = model.generate_many(
        prompts, samples=options.samples, show_end=options.end_probability, **sampling
    )
    if options.json:
        from budgerigar.cli.output import print_json

        print_json({"continuations": [_as_dict(one, options.end_probability) for one in made]})
        return
    for number, one in enumerate(made):
        print(f"{'' if number == 0 else chr(10)}--- {number + 1} of {len(made)}")
        print(one.prompt + one.text)
        if options.end_probability:
            _print_end(model, one)


def _stream(model: Any, prompt: str, sampling: dict[str, Any]) -> None:
    """The prompt and, as it is made, its continuation; nothing where that cannot begin."""
    pieces = model.stream(prompt, **sampling)
    first = next(pieces, "")
    print(prompt + first, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print()


def _print_end(model: Any, one: Any) -> None:
    """Each new token with the probability that the text ends there instead."""
    pieces = model.tokenizer.pieces([step.token for step in one.steps])
    for piece, step in zip(pieces, one.steps, strict=True):
        print(f"P(end) {step.p_end:.4f} where {piece} came", file=sys.stderr)


def _as_dict(one: Any, with_end: bool) -> dict[str, Any]:
    fields = {"prompt": one.prompt, "continuation": one.text, "finish": one.finish}
    return {**fields, "p_end": [step.p_end for step in one.steps]} if with_end else fields


def _prompts(options: argparse.Namespace) -> list[str]:
    """The prompts, from the one place that holds some."""
    if options.prompt_file:
        from budgerigar.text.reading import read_text

        return [read_text(options.prompt_file, options.encoding).removesuffix("\n")]
    if options.prompts:
        return list(options.prompts)
    if not sys.stdin or sys.stdin.isatty():
        return [""]
    if not hasattr(sys.stdin, "buffer"):  # text put in its place by a program
        return [sys.stdin.read().removesuffix("\n")]
    from budgerigar.text.reading import decode_text

    return [decode_text(sys.stdin.buffer.read(), "stdin", options.encoding).removesuffix("\n")]


def _note_unused(sampling: dict[str, Any], options: argparse.Namespace) -> None:
    """A flag without effect is said, and what looks like a text without quotes."""
    from budgerigar import progress

    unused: list[str] = []
    if sampling.get("temperature") == 0:
        unused = [name for name in ("top_k", "top_p", "min_p", "seed") if name in sampling]
        unused += ["samples"] if options.samples > 1 else []
    for name in unused:
        progress.note(
            f"note: --{name.replace('_', '-')} has no effect at temperature 0 (always the likeliest)"
        )
    if len(options.prompts) > 1 and not any(" " in prompt for prompt in options.prompts):
        progress.note(
            f"note: these are {len(options.prompts)} prompts, each continued by itself; a prompt of "
            "several words needs quotes around it"
        )
