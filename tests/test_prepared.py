"""Prepared models against the plain ones, whose own oracle is NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from oracle.cases import TARGET_VOCAB, every_case, tiny_batch, tiny_model
from torch import Tensor

from seq2seq.config import ModelConfig
from seq2seq.inference.protocol import Decoding
from seq2seq.model.prepared.model import PreparedModel
from seq2seq.model.prepared.product import multiplies_int8
from seq2seq.model.translation import TranslationModel

LENGTHS = (4, 1, 5)
STEPS = 3
CPU = torch.device("cpu")

needs_int8 = pytest.mark.skipif(not multiplies_int8(CPU), reason="a CPU without VNNI")


def by_steps(decoding: Decoding, hypotheses: int) -> tuple[Tensor, Tensor | None]:
    """Return logits [T, R, V] and weights [T, R, S] of random targets, reordered on the way."""
    generator = torch.Generator().manual_seed(1)
    rows_R = torch.arange(decoding.num_sentences).repeat_interleave(hypotheses)
    state, steps = decoding.start().select(rows_R), []
    for _ in range(STEPS):
        tokens_R = torch.randint(4, TARGET_VOCAB, (len(rows_R),), generator=generator)
        logits_RV, weights_RS, state = decoding.step(tokens_R, state)
        steps.append((logits_RV, weights_RS))
        parents_R = torch.randint(hypotheses, (len(rows_R),), generator=generator)
        state = state.select(rows_R * hypotheses + parents_R)
    logits, weights = zip(*steps, strict=True)
    known = [w for w in weights if w is not None]
    return torch.stack(logits), torch.stack(known) if known else None


def both(
    model: TranslationModel, dtype: torch.dtype, hypotheses: int, sentences: Sequence[int]
) -> list[tuple[Tensor, Tensor | None]]:
    """Return what the plain and the prepared model give for some sentences of a batch."""
    batch = tiny_batch(LENGTHS)
    plain = model.decoding(batch.source_BS, batch.mask_BS)
    prepared = PreparedModel(model, dtype).decoding(
        batch.source_BS, batch.mask_BS, shared=hypotheses > 1
    )
    chosen = torch.tensor(sentences)
    return [by_steps(decoding.select(chosen), hypotheses) for decoding in (plain, prepared)]


@pytest.mark.parametrize("hypotheses", [1, 3])
@every_case
@torch.no_grad()
def test_a_prepared_model_is_the_model(config: ModelConfig, hypotheses: int) -> None:
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        model = tiny_model(config, dtype=dtype)
        (logits, weights), (found, found_weights) = both(model, dtype, hypotheses, (2, 0))
        scale = float(logits.abs().max())
        torch.testing.assert_close(found, logits, rtol=0, atol=tolerance * max(1.0, scale))
        assert (weights is None) == (found_weights is None)
        if weights is not None:
            torch.testing.assert_close(found_weights, weights, rtol=0, atol=tolerance)
