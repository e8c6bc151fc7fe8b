"""What an encoder-decoder does with one pair: a source it reads and a target it is given to write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from budgerigar.api.translation import need_translator
from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.api.model import Model
    from budgerigar.inspection.alignment_errors import HeadAlignments
    from budgerigar.inspection.pair_traces import PairTrace
    from budgerigar.text.pair_files import PairFiles


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
    start = model.network.config.decoder_start
    given = [written[-1] if start is None else start, *written[:-1]]  # <end> starts, unless …
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
    model: Model,
    source: str | Sequence[int],
    target: str | Sequence[int] | None = None,
    prefix: bool = False,
) -> PairTrace:
    """A trace of `target` being written; None: the model's own translation. See `Model.trace`."""
    from budgerigar.inspection.pair_traces import trace_pair as trace

    need_translator(model, "look at a source")
    return trace(
        model.network,
        model.tokenizer,
        _lowered(model, source),
        None if target is None else _lowered(model, target),
        source_tokenizer=model.source_tokenizer,
        prefix=prefix,
        no_source=_is_blank(model.network),
        name="" if model.folder is None else model.folder.name,
    )


def _lowered(model: Model, text: str | Sequence[int]) -> str | Sequence[int]:
    return text.lower() if isinstance(text, str) and model.lowercase else text


def _is_blank(network: Any) -> bool:
    """Whether a view of a network, or a view of that, hides the source."""
    from budgerigar.models.blank_source import WithoutSource

    inner = vars(network).get("network")
    return isinstance(network, WithoutSource) or (inner is not None and _is_blank(inner))


def pharaoh(
    model: Model, pairs: Sequence[tuple[str, str | Sequence[int]]], head: str | None = None
) -> list[str]:
    """The word alignment of each source and its translation (text or ids), as "0-0 1-2"."""
    from budgerigar.inspection.alignments import align_pairs

    need_translator(model, "align")
    given = [(source.lower() if model.lowercase else source, target) for source, target in pairs]
    found = align_pairs(
        model.network, model.tokenizer, given, source_tokenizer=model.source_tokenizer, head=head
    )
    return [one.pharaoh for one in found]


GENERATED = 500  # pairs whose gold alignment is known, enough for errors of a percent


def alignment_errors(
    model: Model, gold: str | Path | None, files: PairFiles | None, encoding: str | None
) -> HeadAlignments:
    """The alignment error rate of each head; see `Model.alignment_errors`."""
    from budgerigar.inspection.alignment_errors import gold_lines, head_alignment_errors

    need_translator(model, "align")
    examples: Sequence[Any]
    reverse = False
    if gold is None:
        if files:
            raise UserError(
                "the gold alignment of these files is missing: name the file in Pharaoh format "
                "(0-0 1-2, a line for each pair), as in --alignments GOLD"
            )
        reverse = _translates_from(model) == "en"
        from budgerigar.text.pairs import sentence_pairs

        examples = sentence_pairs(GENERATED, split="validation")
    else:
        if not files:
            raise UserError(
                f"{gold} holds links between words of which sentences? Give --source FILE and "
                "--target FILE (or --pairs FILE) too"
            )
        from budgerigar.evaluation.alignment import read_pharaoh
        from budgerigar.text.pair_files import iter_file_pairs

        pairs = list(iter_file_pairs(files, encoding, model.lowercase, keep_blanks=True))
        links = read_pharaoh(gold, sentences=len(pairs))
        examples = gold_lines([s for s, _ in pairs], [t for _, t in pairs], links)
    return head_alignment_errors(
        model.network, model.tokenizer, model.source_tokenizer, examples, reverse=reverse
    )


def _translates_from(model: Model) -> str:
    """The source's language, of a model that knows Chinese and English."""
    text = model.settings.get("text") or {}
    asked = (model.recipe or {}).get("text") or {}
    source, target = (text.get(f"{side}_language") for side in ("source", "target"))
    if asked.get("corpus") == "stories" and not source:
        return "zh"
    if {source, target} != {"zh", "en"}:
        raise UserError(
            "the generated pairs, whose gold alignment is known, are Chinese and English, and "
            f"{model.name} is not known to translate between these. Give the gold alignment of "
            "other pairs: --alignments GOLD --source FILE --target FILE"
        )
    return str(source)
