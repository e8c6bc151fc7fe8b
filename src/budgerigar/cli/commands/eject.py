"""Write one plain PyTorch file that is this model only: no Budgerigar, no dials, the same logits.

The file has under 300 lines, reads the run's model.safetensors and tokenizer.json, and generates.
A model from elsewhere (a Hugging Face folder, a GGUF file, one of the catalogue) is written with its
weights into a new folder, --out.
"""

from __future__ import annotations

import argparse
import sys

USES = ("out",)
EXAMPLES = """examples:
  budgie eject last                      writes model.py into the run's folder
  budgie eject runs/poems-1 --out tiny.py
  budgie eject smollm2-135m-instruct --out smollm2"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Which model."""
    parser.add_argument("model", metavar="RUN", help="a run's folder, or last; or another decoder")


def run(options: argparse.Namespace) -> None:
    """Write the file and say how to run it."""
    from budgerigar import api

    path, n_lines = api.eject(options.model, options.out)
    print(path)
    if not options.quiet:
        print(f"{n_lines} lines; try: python {path} 'Once'", file=sys.stderr)
