"""A known translation, piece by piece, through the modules that are trained.

The model runs as in a search: encode, start, step. What its modules were given and gave is
heard through hooks; scores, weights and context are asked once more from the attention's own
methods, with the query and the memory that it was given.

Legend: B sentences of the batch (row 0 is the one that is explained), K queries a sentence (1
here), S source length, T steps, V vocabulary, H memory size, D key size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2seq.data.batching import make_batch
from seq2seq.data.tokenizer import BOS
from seq2seq.errors import CheckpointError
from seq2seq.explaining.explanation import Looked
from seq2seq.explaining.listening import Call, Heard, listening
from seq2seq.inference.frontier import log_softmax
from seq2seq.model.attention import Attention
from seq2seq.model.memory import Encoded, Memory
from seq2seq.model.translation import TranslationModel


@dataclass(frozen=True)
class Replay:
    """What was heard of a model on its way through a translation."""

    model: TranslationModel
    heard: Heard
    memory: Memory
    log_probs_TV: Tensor  # of row 0

    @property
    def states_SH(self) -> Tensor:
        """Return the encoder's states."""
        encoded: Encoded = self.heard[self.model.encoder][0].output
        return encoded.states_BSH[0]

    @property
    def keys_SD(self) -> Tensor:
        """Return the keys, before the score function keeps what it needs of them."""
        projection = _key(self.attention)
        return self.states_SH if projection is None else self.heard[projection][0].output[0]

    @property
    def attention(self) -> Attention:
        """Return the model's attention."""
        return self.model.decoder.attention

    @property
    def attended(self) -> list[Call]:
        """Return what the attention was given and gave, at each step."""
        return self.heard[self.attention]

    @property
    def has_weights(self) -> bool:
        """Return whether there is attention at all."""
        return self.attended[0].output[1] is not None

    def looked(self, place: int) -> Looked | None:
        """Return what led to the weights of a step, from the attention's own methods."""
        if not self.has_weights:
            return None
        call = self.attended[place]
        query_BKQ, memory = call.inputs
        scores = self.attention.scores(query_BKQ, memory)  # [B, K, S]; of heads [B, N, K, S]
        weights = self.attention.weights(scores, memory)
        return Looked(
            scores_S=scores[0].select(-2, 0).cpu(),
            weights_S=weights[0].select(-2, 0).cpu(),
            mean_weights_S=call.output[1][0, 0].cpu(),
            context_M=self.attention.context(weights, memory)[0, 0].cpu(),
        )

    def added(self, place: int) -> Tensor | None:
        """Return the query as the residual adds it at a step."""
        residual = self.attention.residual
        if residual is None:
            return None
        added_BKM: Tensor = self.heard[residual][place].output
        return added_BKM[0, 0].cpu()


def replay(
    model: TranslationModel, sources: Sequence[Sequence[int]], target: Sequence[int]
) -> Replay:
    """Let the model read sources and, step by step, the target, the same for each source.

    Raises CheckpointError for logits that are not finite.
    """
    batch = make_batch(sources, None, range(len(sources))).to(model.output_bias.device)
    attention = model.decoder.attention
    with listening(model.encoder, attention, _key(attention), attention.residual) as heard:
        decoding = model.decoding(batch.source_BS, batch.source_mask_BS)
        state, steps = decoding.start(), []
        for piece in (BOS, *target):
            tokens_B = torch.full((len(sources),), piece, device=batch.source_BS.device)
            logits_BV, _, state = decoding.step(tokens_B, state)
            if not logits_BV.isfinite().all():
                raise CheckpointError("the logits are not finite; explain another checkpoint")
            steps.append(log_softmax(logits_BV)[0])
    return Replay(model, heard, decoding.memory, torch.stack(steps))


def difference(padded: Replay, alone: Replay) -> float:
    """Return the largest change of a probability or a weight that neighbours make."""
    changes = [(padded.log_probs_TV.exp() - alone.log_probs_TV.exp()).abs().max()]
    if padded.has_weights:
        for one, other in zip(padded.attended, alone.attended, strict=True):
            weights_S, alone_S = one.output[1][0, 0], other.output[1][0, 0]
            changes.append((weights_S[: len(alone_S)] - alone_S).abs().max())
    return float(torch.stack(changes).max())


def _key(attention: Attention) -> nn.Module | None:
    """Return what makes keys of the encoder's states, where they are not the keys themselves."""
    projection: nn.Module | None = getattr(attention, "key", None)
    return projection
