"""The encoder against torch.nn.GRU and the NumPy formulas; independence of padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pytest
import torch
from oracle.cases import every_case, tiny_batch, tiny_config, tiny_model
from oracle.model import OracleModel
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq.config import ModelConfig
from seq2seq.model.attention import Encoded, Memory
from seq2seq.model.layers import GRU
from seq2seq.model.translation_model import Encoder, TranslationModel

LENGTHS = (4, 1, 5)

some_layers = pytest.mark.parametrize("encoder_layers", [1, 2])
either_norm = pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "normalized"])


def encode(model: TranslationModel, source_BS: Tensor, mask_BS: Tensor) -> Encoded:
    encoded: Encoded = model.encoder(model.source_embedding(source_BS.t()), mask_BS.t())
    return encoded


def in_torch_order(encoder: Encoder) -> Iterator[nn.Parameter]:
    """Yield the parameters in the order of a bidirectional torch.nn.GRU."""
    for forwards, backwards in zip(encoder.forwards, encoder.backwards, strict=True):
        for layer in (forwards, backwards):
            assert isinstance(layer, GRU)
            yield from layer.parameters()


def same_at_real_positions(memory: Memory, other: Memory, row: int, other_row: int) -> None:
    """Compare all fields of one sentence; those with a source axis without padding."""
    length = int(memory.mask_BS[row].sum())
    for field in fields(Memory):
        mine, theirs = getattr(memory, field.name), getattr(other, field.name)
        if mine is theirs is None:
            continue
        mine, theirs = mine[row], theirs[other_row]
        if not field.name.endswith("_BH"):
            mine, theirs = mine[:length], theirs[:length]
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12, msg=field.name)


@some_layers
@either_norm
@torch.no_grad()
def test_states_match_formulas(encoder_layers: int, layer_norm: bool) -> None:
    model = tiny_model(tiny_config(encoder_layers=encoder_layers, layer_norm=layer_norm))
    batch = tiny_batch(LENGTHS, padding=2)
    encoded = encode(model, batch.source_BS, batch.mask_BS)
    for row, source in enumerate(batch.sources):
        expected = OracleModel.of(model).encode(source)
        states, padding = encoded.states_BSH[row].tensor_split([len(source)])
        np.testing.assert_allclose(states, expected.states, rtol=0, atol=1e-12)
        assert not padding.any()
        np.testing.assert_allclose(encoded.summary_BH[row], expected.summary, rtol=0, atol=1e-12)


@some_layers
def test_states_and_gradients_match_torch(encoder_layers: int) -> None:
    model, batch = tiny_model(tiny_config(encoder_layers=encoder_layers)), tiny_batch(LENGTHS)
    theirs = nn.GRU(4, 3, num_layers=encoder_layers, bidirectional=True).double()
    mine = list(in_torch_order(model.encoder))
    with torch.no_grad():
        for parameter, other in zip(mine, theirs.parameters(), strict=True):
            other.copy_(parameter)
    states = encode(model, batch.source_BS, batch.mask_BS).states_BSH
    embedded = model.source_embedding(batch.source_BS)
    packed = pack_padded_sequence(
        embedded, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False
    )
    expected, _ = pad_packed_sequence(theirs(packed)[0], batch_first=True)
    torch.testing.assert_close(states, expected, rtol=0, atol=1e-12)
    direction = torch.randn(states.shape, generator=torch.manual_seed(0)).double()
    found = torch.autograd.grad((states * direction).sum(), mine)
    wanted = torch.autograd.grad((expected * direction).sum(), list(theirs.parameters()))
    for gradient, other_gradient in zip(found, wanted, strict=True):
        torch.testing.assert_close(gradient, other_gradient, rtol=0, atol=1e-12)


@every_case
@torch.no_grad()
def test_memory_does_not_depend_on_batch(config: ModelConfig) -> None:
    model, batch, order = tiny_model(config), tiny_batch(LENGTHS, padding=3), [2, 0, 1]
    memory = model.encode(batch.source_BS, batch.mask_BS)
    permuted = model.encode(batch.source_BS[order], batch.mask_BS[order])
    for row, source in enumerate(batch.sources):
        whole = torch.ones(1, len(source), dtype=torch.bool)
        same_at_real_positions(memory, model.encode(torch.tensor([source]), whole), row, 0)
        same_at_real_positions(memory, permuted, row, order.index(row))


@every_case
@torch.no_grad()
def test_memory_select(config: ModelConfig) -> None:
    model, batch, chosen = tiny_model(config), tiny_batch(LENGTHS), [2, 2, 0]
    memory = model.encode(batch.source_BS, batch.mask_BS)
    selected = memory.select(torch.tensor(chosen))
    assert len(selected.mask_BS) == len(chosen)
    for new, old in enumerate(chosen):
        same_at_real_positions(selected, memory, new, old)


@some_layers
@torch.no_grad()
def test_summary_is_last_forward_and_first_backward_state(encoder_layers: int) -> None:
    model, batch = tiny_model(tiny_config(encoder_layers=encoder_layers)), tiny_batch(LENGTHS)
    encoded = encode(model, batch.source_BS, batch.mask_BS)
    for row, length in enumerate(LENGTHS):
        last, first = encoded.states_BSH[row, length - 1], encoded.states_BSH[row, 0]
        assert torch.equal(encoded.summary_BH[row], torch.cat([last[:3], first[3:]]))


@torch.no_grad()
def test_mean_ignores_padding() -> None:
    model, batch = tiny_model(tiny_config()), tiny_batch(LENGTHS, padding=2)
    states = encode(model, batch.source_BS, batch.mask_BS).states_BSH
    mean = model.encode(batch.source_BS, batch.mask_BS).mean_BH
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(mean[row], states[row, :length].mean(0))


@either_norm
@torch.no_grad()
def test_sources_of_500_pieces_and_one_piece(layer_norm: bool) -> None:
    model, batch = tiny_model(tiny_config(layer_norm=layer_norm)), tiny_batch((500, 1))
    encoded = encode(model, batch.source_BS, batch.mask_BS)
    assert encoded.states_BSH.isfinite().all()
    assert encoded.states_BSH[0].abs().amax(-1).min() > 0
    assert torch.equal(encoded.summary_BH[1], encoded.states_BSH[1, 0])
