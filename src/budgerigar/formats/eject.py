"""Eject: one plain PyTorch file that is one model only, to read, to take along, to build on.

The file is composed from a template (eject_template.py): only the lines that this configuration
needs are kept. It imports nothing of ours, loads the same weights under the same names, and gives
the same logits.
"""

from __future__ import annotations

import json
import math
import os
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgerigar.errors import UserError
from budgerigar.formats.atomic import write_text
from budgerigar.formats.eject_template import ACTIVATIONS, TEMPLATE
from budgerigar.formats.eject_texts import ends_of_texts, texts, words
from budgerigar.layers import shapes
from budgerigar.layers.config import TransformerConfig
from budgerigar.models.configs import kind_of

if TYPE_CHECKING:
    from budgerigar.formats.run import Loaded

DEFAULT_NAME = "model.py"


def eject(run: str | Path | Loaded, out: str | Path | None = None) -> tuple[Path, int]:
    """Write the model of `run` (whatever `load_any` takes, or what it returned) as one file.

    `out` defaults to model.py in the run's folder. A model that is no run of ours (a Hugging Face
    folder, a GGUF file, one of the catalogue) has its weights written beside the file too, in float32:
    there `out` is a new folder. -> (path, number of lines).

    Raises:
        UserError: it is no decoder-only Transformer, has a dial that a plain decoder file has no
            place for, or something is there already.
    """
    from budgerigar.formats.load import load_any
    from budgerigar.formats.run import Loaded

    loaded = run if isinstance(run, Loaded) else load_any(run)
    _check_kind(loaded)
    if loaded.report is not None:
        return _eject_imported(loaded, out)
    path = Path(out) if out is not None else loaded.folder / DEFAULT_NAME
    path = path / DEFAULT_NAME if path.is_dir() else path
    if path.exists():
        raise UserError(f"{path} exists already; choose another --out or remove it first.")
    if "adapters" in loaded.config:
        raise UserError(
            f"{loaded.folder} keeps only what it changed of {loaded.config['adapters']['base']}, and "
            "an ejected file reads all weights from one place. Write them there first: budgie convert "
            f"{loaded.folder} OUT --to run"
        )
    return path, _write(loaded, loaded.folder, path, path)


def _check_kind(loaded: Loaded) -> None:
    """Refuse what is no decoder-only Transformer, with what can be done instead."""
    config = loaded.network.config
    if not isinstance(config, TransformerConfig):
        kind = kind_of(config)
        raise UserError(
            f"eject writes a decoder-only Transformer; {loaded.folder} is of kind {kind}, whose whole "
            "code is one file of this package (budgerigar/models)."
        )
    if config.assembly != "decoder-only":
        raise UserError(
            f"eject writes a decoder-only Transformer; {loaded.folder} is {config.assembly}. Other "
            f"programs run it from an open form: budgie convert {loaded.folder} OUT"
        )


def _eject_imported(loaded: Loaded, out: str | Path | None) -> tuple[Path, int]:
    """A new folder with the weights under our names, the tokenizer, and the file that reads them."""
    from budgerigar.formats.convert import save_as_run

    if out is None or Path(out).suffix == ".py":
        name = re.sub(r"\W+", "-", Path(loaded.folder).stem).strip("-")
        raise UserError(
            f"{loaded.folder} is no run of ours: its weights are written anew beside the file, so "
            f"--out is a new folder for both, such as --out {name}-ejected"
        )
    folder = Path(out)
    if folder.exists():
        raise UserError(f"{folder} exists already; choose another --out or remove it first.")
    _refuse_dials(loaded.network.config)
    n_lines = 0

    def beside(aside: Path) -> None:
        nonlocal n_lines
        n_lines = _write(loaded, folder, folder / DEFAULT_NAME, aside / DEFAULT_NAME)

    save_as_run(loaded, folder, beside)
    return folder / DEFAULT_NAME, n_lines


def _write(loaded: Loaded, folder: Path, path: Path, where: Path) -> int:
    """The file that will lie at `path` and reads weights in `folder`, written to `where`; its lines."""
    documents = (loaded.config.get("text") or {}).get("starts_documents")
    text = source(loaded.network.config, loaded.tokenizer, folder, path, documents)
    write_text(where, text)
    return text.count("\n")


def unsupported(config: TransformerConfig) -> list[str]:
    """The dials of `config` that an ejected file cannot have, in words."""
    c = config
    kinds = {c.norm_of(layer) for layer in range(c.n_layers)}
    checks = [
        (c.assembly != "decoder-only", f"assembly = {c.assembly}"),
        (c.embedding_size is not None, f"embedding_size = {c.embedding_size}"),
        (len(kinds) > 1, "layers with different norms"),
        (c.norm_offset and "layer" in kinds, "norm_offset with norm = layer"),
        (
            kinds == {"layer"} and c.norm_bias and not c.norm_weight,
            "norm_bias without norm_weight",
        ),
    ]
    return [words for true, words in checks if true]


def source(
    config: TransformerConfig,
    tokenizer: Any,
    folder: Path,
    path: Path,
    documents: bool | None = None,
) -> str:
    """The text of the file for `path`, of the model whose weights lie in `folder`.

    `documents`: an `<end>` of the tokenizer opens and ends texts; None: if it has one, and texts of an
    imported tokenizer as its authors have it.
    """
    _refuse_dials(config)
    flags = {**_flags(config, tokenizer), **ends_of_texts(tokenizer, documents)}
    values = {**_places(folder, path), **texts(tokenizer, flags, documents), **_numbers(config)}
    values |= {**_snippets(config, flags), **_rotary(config, flags), **words(config, flags)}
    return fill(TEMPLATE, flags, values)


def _refuse_dials(config: TransformerConfig) -> None:
    wrong = unsupported(config)
    if wrong:
        raise UserError(
            "this model cannot be written as one plain decoder file, because of: "
            + "; ".join(wrong)
            + "."
        )


# -- the template's few rules ----------------------------------------------------------------------
def fill(template: str, flags: dict[str, bool], values: dict[str, Any]) -> str:
    """Keep the lines whose conditions hold, and put values in their places."""
    kept: list[str] = []
    stack: list[tuple[bool, bool]] = []  # (this branch holds, an earlier branch did)
    for line in template.split("\n"):
        word, _, name = line.partition(" ")
        if word == "%if":
            stack.append((flags[name], flags[name]))
        elif word == "%elif":
            done = stack.pop()[1]
            stack.append((flags[name] and not done, flags[name] or done))
        elif word == "%else":
            done = stack.pop()[1]
            stack.append((not done, True))
        elif word == "%end":
            stack.pop()
        elif all(holds for holds, _ in stack):
            kept.append(line)
    assert not stack
    return re.sub(r"\{\{(\w+)\}\}", lambda found: str(values[found[1]]), "\n".join(kept))


def _flags(c: TransformerConfig, tokenizer: Any) -> dict[str, bool]:
    """Which parts this model has."""
    windows = {c.window_of(layer) for layer in range(c.n_layers)}
    bases = {c.rotary_base_of(layer) for layer in range(c.n_layers)}
    flags = {name: c.positions == name for name in ("sinusoidal", "learned", "rotary", "alibi")}
    relative = c.positions == "relative"
    flags |= {place: c.norm_place == place for place in ("pre", "post", "sandwich", "output")}
    flags |= {
        "relative": relative,
        "relative_shared": relative and c.relative_shared,
        "relative_own": relative and not c.relative_shared,
        "uses_math": relative or c.positions == "sinusoidal",
        "uses_length": c.positions in ("sinusoidal", "learned") or (relative and c.relative_shared),
        "split": c.sinusoid_layout == "split",
        "scaled_rotary": c.rotary_scaling is not None,
        "whole_rotary": c.rotary_width == c.head_width,
        "several_bases": c.positions == "rotary" and len(bases) > 1,
        "windowed": windows != {None},
        "mixed_windows": len(windows) > 1,
        "sinks": c.sink_tokens > 0,
        "grouped": c.kv_heads != c.n_heads,
        "uneven_slopes": not math.log2(c.n_heads).is_integer(),
        "power_of_two": math.log2(c.n_heads).is_integer(),
        "qk_norm": c.qk_norm != "none",
        "qk_norm_head": c.qk_norm == "head",
        "qk_norm_full": c.qk_norm == "full",
        "sink_logit": c.sink_logit,
        "softcap": c.attention_softcap is not None,
        "gated": c.gated,
        "parallel": c.parallel_residual,
        "sequential": not c.parallel_residual,
        "norm_offset": c.norm_offset,
        "final_norm": c.has_final_norm,
        "embedding_norm": c.embedding_norm,
        "token_types": c.token_types > 0,
        "tied": c.tied_embeddings,
        "head_scale": c.head_scale != 1.0,
        "logit_softcap": c.logit_softcap is not None,
        "plain_logits": c.head_scale == 1.0 and c.logit_softcap is None,
        "never_seen": bool(tokenizer.never_seen.any()),
    }
    flags["uses_layer"] = flags["mixed_windows"] or flags["several_bases"]
    return flags


# -- what is put into the places -------------------------------------------------------------------
def _places(folder: Path, path: Path) -> dict[str, str]:
    """Where the weights are, seen from the file."""
    away = Path(os.path.relpath(folder.resolve(), path.parent.resolve())).as_posix()
    here = away == "."
    name = re.sub(r'["\\\\]', "_", folder.resolve().name)  # it stands in a docstring
    return {
        "title": f"A language model: {name}.",
        "file": path.name,
        "folder": "Path(__file__).parent"
        if here
        else f"Path(__file__).parent / {json.dumps(away)}",
        "where": "model.safetensors and tokenizer.json beside this file"
        if here
        else "model.safetensors and tokenizer.json in the run's folder, or in --folder",
    }


def _numbers(c: TransformerConfig) -> dict[str, Any]:
    values: dict[str, Any] = {name: getattr(c, name) for name in vars(c)}
    values |= {
        "parameters": f"{shapes.parameters(c).total:,}",
        "kv_heads": c.kv_heads,
        "head_width": c.head_width,
        "ff_width": c.ff_width,
        "group": c.n_heads // c.kv_heads,
        "position_rows": c.context_length + c.position_offset,
        "relative_max": c.relative_max_distance,
        "epsilon": c.norm_epsilon,
        "softcap": c.attention_softcap,
        "windows": _listed([c.window_of(layer) for layer in range(_period(c))]),
        "slopes": _slopes(c),
    }
    return values


def _slopes(c: TransformerConfig) -> str:
    if c.positions != "alibi":
        return ""
    from budgerigar.layers.positions import alibi_slopes

    return _listed(alibi_slopes(c.n_heads).double().tolist())


def _period(c: TransformerConfig) -> int:
    """After how many layers their pattern repeats."""
    return min(len(c.layers) or 1, c.n_layers)


def _listed(items: Sequence[object]) -> str:
    """A list in as few lines as fit; the file says there that no formatter should unfold it."""
    text = ", ".join(repr(item) for item in items)
    if len(text) < 60:
        return f"[{text}]"
    return f"[\n{textwrap.indent(textwrap.fill(text, 90), '    ')},\n]"


def _snippets(c: TransformerConfig, flags: dict[str, bool]) -> dict[str, str]:
    """Pieces of lines."""
    layer = flags["uses_layer"]
    shared = flags["relative_shared"]
    scale = {1.0: ""}.get(c.scale, f" * {c.scale!r}")
    embedded = {"sqrt": " * D**0.5", "none": ""}.get(
        str(c.embedding_scale), f" * {c.embedding_scale}"
    )
    offset = c.position_offset
    window = "window" if flags["mixed_windows"] else str(c.window_of(0))
    return {
        "kv": "K" if flags["grouped"] else "H",
        "scale": " / E**0.5" if c.attention_scale == "sqrt" else scale,
        "embedding_scale": embedded,
        "position_range": f"{offset}, {offset} + T" if offset else "T",
        "qkv_bias": _bias(c.qkv_bias),
        "output_bias": _bias(c.output_bias),
        "ff_bias": _bias(c.ff_bias),
        "plus": "x + " if c.residual else "",
        "window": window,
        "window_parameter": ", window: int | None" if flags["mixed_windows"] else "",
        "window_argument": ", WINDOWS[self.layer % len(WINDOWS)]" if flags["mixed_windows"] else "",
        "layer_argument": ", layer: int" if layer else "",
        "layer_value": "layer" if layer else "",
        "layer_call": "i" if layer else "",
        "bias_parameter": ", bias: Tensor" if shared else "",
        "bias": ", bias" if shared else "",
        "activated": ACTIVATIONS[c.activation][0].format("self.up(x)"),
        "activated_gate": ACTIVATIONS[c.activation][0].format("self.gate(x)"),
        **_norms(c),
    }


def _bias(has_bias: bool) -> str:
    return "" if has_bias else ", bias=False"


def _norms(c: TransformerConfig) -> dict[str, str]:
    """Calls that make norms; those of queries and keys are RMSNorm always."""
    rms = c.norm_of(0) == "rms"
    plain = "" if c.norm_weight else ", elementwise_affine=False"
    rms_call = f"nn.RMSNorm({{}}, eps={c.norm_epsilon}{plain})"
    rms_call = "Norm({})" if c.norm_offset else rms_call
    shift = "" if c.norm_bias or plain else ", bias=False"
    layer_call = f"nn.LayerNorm({{}}, eps={c.norm_epsilon}{plain}{shift})"
    widths = ("E", "E") if c.qk_norm == "head" else ("H * E", f"{_kv(c)} * E")
    return {
        "norm_call": (rms_call if rms else layer_call).format("width"),
        "query_norm": rms_call.format(widths[0]),
        "key_norm": rms_call.format(widths[1]),
    }


def _kv(c: TransformerConfig) -> str:
    return "K" if c.kv_heads != c.n_heads else "H"


def _rotary(c: TransformerConfig, flags: dict[str, bool]) -> dict[str, str]:
    """Angles: from the base, or as numbers where they are stretched."""
    several = flags["several_bases"]
    values = {
        "pairs": str(c.rotary_width // 2),
        "rotary_width": str(c.rotary_width),
        "rotary_base": "ROTARY_BASES[layer % len(ROTARY_BASES)]"
        if several
        else str(c.rotary_base_of(0)),
        "rotary_bases": _listed([c.rotary_base_of(layer) for layer in range(_period(c))]),
        "base_parameter": ", base: float" if several else "",
        "base_argument": ", ROTARY_BASES[self.layer % len(ROTARY_BASES)]" if several else "",
        "of_base": "[base]" if several else "",
        "per_layer": ", by rotary base" if several else "",
        "cosines": "turned.cos()",
        "sines": "turned.sin()",
        "frequencies": "",
        "scaling_words": "",
    }
    if c.positions != "rotary" or c.rotary_scaling is None:
        return values
    from budgerigar.layers.positions import rotary_frequencies

    bases = sorted({c.rotary_base_of(layer) for layer in range(c.n_layers)})
    found = {base: rotary_frequencies(c, base) for base in bases}
    factor = found[bases[0]][1]
    if factor != 1.0:
        values["cosines"] = f"(turned.cos() * {factor!r})"
        values["sines"] = f"(turned.sin() * {factor!r})"
    values["scaling_words"] = f"{c.rotary_scaling.kind}, {c.rotary_scaling.factor} times"
    if several:
        rows = [f"{base}: {_listed(f.tolist())}" for base, (f, _) in found.items()]
        values["frequencies"] = "{\n" + ",\n".join(rows) + ",\n}"
    else:
        values["frequencies"] = _listed(found[bases[0]][0].tolist())
    return values
