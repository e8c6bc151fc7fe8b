"""Write a model in another form: a Hugging Face folder, a GGUF file (shapes of Llama and GPT-2), a
folder of Budgerigar's own, or, of a translator, a CTranslate2 folder. What was written is read again,
and the largest difference of the logits is printed; a setting that has no counterpart there is named,
and nothing is written.

Runs of these recipes are Hugging Face folders of a family, also at other sizes (--d-model, --n-layers):
gpt2-124m, nanogpt-char-cpu, nanogpt-char-gpu (GPT-2); bert-base (BERT); t5-small, t5-tiny (T5);
iwslt14-de-en (Marian). What `budgie train FILE` makes by itself is one of Llama's when trained with
--activation swiglu --qk-norm none. Other Transformers that translate go out by --to ctranslate2.
"""

from __future__ import annotations

import argparse
import sys

from budgerigar.cli.flags import one_of

USES = ("json",)
FORMS = ("hugging-face", "gguf", "run", "ctranslate2")
TYPES = ("f32", "f16", "q8_0")
EXAMPLES = """examples:
  budgie convert last my-model               a folder that transformers loads
  budgie convert last my-model.gguf --type q8_0
  budgie convert smollm2.gguf smollm2 --to run"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """What, where and how."""
    parser.add_argument("model", metavar="PATH", help="a run's or model's folder, or a file")
    parser.add_argument("target", metavar="OUT", help="a new folder, or a new file NAME.gguf")
    parser.add_argument(
        "--to",
        type=one_of(FORMS),
        metavar="{" + ",".join(FORMS) + "}",
        help="the form [gguf where OUT ends in .gguf, else hugging-face]",
    )
    parser.add_argument(
        "--type",
        type=lambda text: one_of(TYPES)(text.lower()),
        metavar="{" + ",".join(TYPES) + "}",
        help="numbers of a GGUF file [f16]",
    )


def run(options: argparse.Namespace) -> None:
    """Convert, and say how near the two are."""
    from budgerigar import api

    done = api.convert(options.model, options.target, options.to, options.type)
    if options.json:
        from budgerigar.cli.output import print_json

        print_json(done)
        return
    if not options.quiet:
        for note in done.notes:
            print(f"note: {note}", file=sys.stderr)
    print("\n".join(line for line in done.lines() if line not in done.notes))
