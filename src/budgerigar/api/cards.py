"""`card`: what a model is and costs, from a run, a recipe or a published shape. `eject`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from budgerigar.errors import UserError


@dataclass(frozen=True)
class Card:
    """A model on one page. `facts` and `costs` are (name, value) in words; `numbers` are plain."""

    name: str
    about: str
    facts: dict[str, Any]
    costs: dict[str, Any]
    training: dict[str, Any]


def card(thing: str | Path, vocab_size: int | None = None) -> Card:
    """The card of a run's folder (or "last"), a recipe or a paper's shape, whichever it names.

    `vocab_size` is for recipes, whose vocabulary only the text decides.

    Raises:
        UserError: it is none of them; the nearest names are given.
    """
    from budgerigar.models.papers import paper_config, papers
    from budgerigar.training.recipe import recipe_names

    name = str(thing)
    if name == "last" or Path(name).is_dir() or (Path("runs") / name).is_dir():
        return _run_card(name)
    if name in recipe_names() or name.endswith(".toml"):
        return _recipe_card(name, vocab_size)
    if name in papers():
        return _card(name, papers()[name], paper_config(name), {})
    raise UserError(_unknown(name, [*recipe_names(), *papers()]))


def _unknown(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=2, cutoff=0.5)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return (
        f"{name!r} is no run folder, recipe or paper's shape.{meant} Known: {', '.join(known)}; "
        "runs are folders under runs/, or `last`."
    )


def _run_card(name: str) -> Card:
    from budgerigar.formats.metrics import read_metrics
    from budgerigar.formats.run import RunFolder, resolve_run
    from budgerigar.models.configs import config_from_dict

    run = RunFolder.open(resolve_run(name))
    settings = run.config()
    text = settings.get("text") or {}
    measured = read_metrics(run.metrics_path, "evaluation") if run.metrics_path.is_file() else []
    training: dict[str, Any] = {
        "text": [Path(str(s["path"])).name for s in text.get("sources", [])],
        "documents": text.get("documents"),
        "tokens to train on": text.get("train_tokens"),
    }
    if measured:
        best = min(measured, key=lambda row: float(row["loss"]))
        training["best validation loss"] = f"{float(best['loss']):.4f} nats per token"
        training["bits per byte"] = f"{float(best['bits_per_byte']):.4f}"
        training["at step"] = best["step"]
    about = str((run.recipe() or {}).get("about", "")).split("\n")[0]
    config = config_from_dict(settings["model"])
    return _card(str(run.path), about, config, {k: v for k, v in training.items() if v})


def _recipe_card(name: str, vocab_size: int | None) -> Card:
    from budgerigar.training.recipe import load_recipe

    recipe = load_recipe(name)
    given = {"character": 65, "symbols": 65, "byte": 256}
    size = vocab_size or recipe.text.tokenizer_vocab_size or given.get(recipe.text.tokenizer, 50257)
    training = {
        "steps": recipe.training.steps,
        "minutes": recipe.training.minutes,
        "optimizer": recipe.training.optimizer,
        "vocabulary": f"{size:,} taken here; the text decides it (--vocab-size N takes another)",
    }
    config = recipe.model_config(size)
    return _card(name, recipe.about, config, {k: v for k, v in training.items() if v})


def _card(name: str, about: str, config: Any, training: dict[str, Any]) -> Card:
    from budgerigar.models.configs import kind_of

    if kind_of(config) == "ngram":
        facts = {"kind": "n-gram", "order": config.order, "smoothing": config.smoothing}
        return Card(name, about, {**facts, "vocabulary": config.vocab_size}, {}, training)
    return Card(name, about, _facts(config), _costs(config), training)


def _facts(config: Any) -> dict[str, Any]:
    """The shape in words; what is usual is left out."""
    encoder, decoder = config.encoder_layers, config.decoder_layers
    layers = f"{encoder} + {decoder}" if encoder and decoder else encoder or decoder
    windows = {config.window_of(layer) for layer in range(max(encoder, decoder))} - {None}
    facts = {
        "kind": f"Transformer, {config.assembly}",
        "layers": layers,
        "heads": config.n_heads,
        "key-value heads": None if config.kv_heads == config.n_heads else config.kv_heads,
        "width (d_model)": config.d_model,
        "width of a head (d_head)": config.head_width,
        "inner width (d_ff)": config.ff_width,
        "context": config.context_length,
        "vocabulary": config.vocab_size,
        "positions": config.positions,
        "norm": f"{config.norm}, {config.norm_place}",
        "activation": config.activation,
        "attention window": ", ".join(str(w) for w in sorted(windows)) or None,
        "embeddings": "tied" if config.tied_embeddings else "not tied to the output layer",
    }
    return {name: value for name, value in facts.items() if value is not None}


def _costs(config: Any) -> dict[str, Any]:
    from budgerigar.models.cost import cost

    found = cost(config)
    return {
        "parameters": found.parameters,
        "parts": found.parts,
        "weights_bytes_bfloat16": 2 * found.parameters,
        "training_bytes_float32": 16 * found.parameters,
        "cache_bytes_per_token_bfloat16": found.cache_bytes_per_token,
        "cache_bytes_full_context_bfloat16": found.cache_bytes,
        "flops_per_token": found.flops_per_token,
        "attention": found.attention,
    }


def eject(run: str | Path, out: str | Path | None = None) -> tuple[Path, int]:
    """Write one plain PyTorch file of this model only -> its path and number of lines."""
    from budgerigar.formats.eject import eject as write

    return write(run, out)
