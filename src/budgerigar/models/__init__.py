"""The models: the Transformer's three assemblies and its ancestors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgerigar.errors import UserError

if TYPE_CHECKING:
    from budgerigar.models.configs import ModelConfig
    from budgerigar.models.feed_forward import FeedForward
    from budgerigar.models.recurrent import Recurrent
    from budgerigar.models.rnn_encoder_decoder import RnnEncoderDecoder
    from budgerigar.models.transformer import Transformer

    Network = Transformer | RnnEncoderDecoder | Recurrent | FeedForward


def build(config: ModelConfig, seed: int = 0) -> Network:
    """A fresh model to train by gradient, its first weights drawn from `seed`.

    An n-gram model is counted, not built: `NgramModel.fit`.
    """
    from budgerigar.layers.config import TransformerConfig
    from budgerigar.models.ancestor_configs import FeedForwardConfig, RecurrentConfig
    from budgerigar.models.feed_forward import FeedForward
    from budgerigar.models.recurrent import Recurrent
    from budgerigar.models.rnn_config import RnnEncoderDecoderConfig
    from budgerigar.models.rnn_encoder_decoder import RnnEncoderDecoder
    from budgerigar.models.transformer import Transformer

    if isinstance(config, RnnEncoderDecoderConfig):
        return RnnEncoderDecoder(config, seed)
    if isinstance(config, RecurrentConfig):
        return Recurrent(config, seed)
    if isinstance(config, FeedForwardConfig):
        return FeedForward(config, seed)
    if not isinstance(config, TransformerConfig):
        raise UserError(f"{type(config).__name__} is not trained by gradient: fit it to tokens")
    return Transformer(config, seed)
