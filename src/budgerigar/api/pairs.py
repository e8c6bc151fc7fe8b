"""What an encoder-decoder does with one pair: a source it reads and a target it is given to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from budgerigar.api.translation import need_translator
from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.api.model import Model
    from budgerigar.inspection.traces import Trace


def source_ids(model: Model, source: str) -> list[int]:
    """Ids of a source as the encoder reads it: closed by `<end>`.

    Raises:
        UserError: it is longer than the model can read.
    """
    from budgerigar.text.pair_store import encode_source

    line = source.lower() if model.lowercase else source
    ids = list(encode_source(model.source_tokenizer or model.tokenizer, line))
    _check_length(model, ids, "source")
    return ids


def target_ids(model: Model, target: str) -> list[int]:
    """Ids of a target as the decoder is to write it: closed by `<end>`."""
    from budgerigar.text.pair_store import encode_target

    line = target.lower() if model.lowercase else target
    ids = list(encode_target(model.tokenizer, line))
    _check_length(model, ids, "target")
    return ids


def _check_length(model: Model, ids: Sequence[int], side: str) -> None:
    limit = model.network.context_length
    if limit is not None and len(ids) > limit:
        raise UserError(
            f"the {side} has {len(ids)} tokens, its end included; this model reads at most {limit} "
            "at once, so give a shorter one"
        )


def source_inputs(model: Model, source: Sequence[int] | None) -> dict[str, Tensor]:
    """What a pass is given to read: the source (1,S) and its length."""
    if not source:
        raise UserError(
            "an encoder-decoder needs a source to read: logits(ids, source=model.encode(text))"
        )
    device = model.network.device
    return {
        "source": torch.tensor([list(source)], device=device),
        "source_lengths": torch.tensor([len(source)], device=device),
    }


@torch.inference_mode()
def score_pair(model: Model, source: str, target: str) -> dict[str, Any]:
    """The fields of a `Score` of `target`, each token from the source and the tokens before it."""
    need_translator(model, "score a source and a target")
    read, written = source_ids(model, source), target_ids(model, target)
    given = [model.network.config.decoder_start, *written[:-1]]
    log_p = model.logits(given, read).double().log_softmax(-1)  # (T, V)
    wanted = torch.tensor(written, device=log_p.device)[:, None]
    own = log_p.gather(1, wanted)  # (T, 1)
    ranks = (log_p > own).sum(1) + 1
    pieces = model.tokenizer.pieces(written)
    per_token = list(zip(pieces, (-own[:, 0]).tolist(), ranks.tolist(), strict=True))
    return {
        "tokens": len(written),
        "characters": len(target) + 1,  # <end> stands for the line end
        "bytes": len(target.encode()) + 1,
        "nats": float(sum(nats for _, nats, _ in per_token)),
        "per_token": per_token,
    }


def trace_pair(
    model: Model, source: str | Sequence[int], target: str | Sequence[int] | None
) -> Trace:
    """A trace of `target` being written; None: the model's own translation."""
    from budgerigar.inspection.traces import trace

    need_translator(model, "trace a source and a target")
    if target is None:
        if not isinstance(source, str):
            raise UserError("of a source given as token ids the target must be given too")
        target = model.translate(source)
    if isinstance(source, str):
        source = source_ids(model, source)
    if isinstance(target, str) and model.lowercase:
        target = target.lower()
    return trace(
        model.network,
        model.tokenizer,
        target,
        start_id=model.network.config.decoder_start,
        source=source,
        source_tokenizer=model.source_tokenizer,
        name="" if model.folder is None else model.folder.name,
    )
