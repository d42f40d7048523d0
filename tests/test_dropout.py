"""Dropout: masks for a sentence or for each position, and where the model applies them.

Legend: T time, B batch, F features.
"""

from __future__ import annotations

import pytest
import torch
from oracle.cases import STYLES, TinyBatch, tiny_batch, tiny_config, tiny_model
from torch import Tensor, nn

from seq2seq.config import Style
from seq2seq.model.decoder import DecoderState
from seq2seq.model.layers import Dropout
from seq2seq.model.translation_model import TranslationModel

TIME, BATCH, FEATURES = 6, 3, 64

either_kind = pytest.mark.parametrize("variational", [False, True], ids=["ordinary", "variational"])


def dropped(variational: bool, *, time_axis: int = 0, rate: float = 0.4) -> Tensor:
    """Return the output in training for ones [T, B, F], or [B, T, F] where time is axis 1."""
    torch.manual_seed(0)
    shape = (TIME, BATCH, FEATURES) if time_axis == 0 else (BATCH, TIME, FEATURES)
    dropout = Dropout(rate, variational=variational).train()
    result: Tensor = dropout(torch.ones(shape), time_axis=time_axis)
    return result


def run(model: TranslationModel, batch: TinyBatch, seed: int) -> Tensor:
    torch.manual_seed(seed)
    readout: Tensor = model(batch.source_BS, batch.mask_BS, batch.inputs_BT)[0]
    return readout


@pytest.mark.parametrize("time_axis", [0, 1])
def test_variational_mask_is_equal_at_all_positions(time_axis: int) -> None:
    masks_TBF = dropped(True, time_axis=time_axis).transpose(0, time_axis)
    assert torch.equal(masks_TBF, masks_TBF[:1].expand_as(masks_TBF))


@pytest.mark.parametrize("time_axis", [0, 1])
@either_kind
def test_sentences_have_different_masks(variational: bool, time_axis: int) -> None:
    masks_TBF = dropped(variational, time_axis=time_axis).transpose(0, time_axis)
    for other in range(1, BATCH):
        assert not torch.equal(masks_TBF[0, 0], masks_TBF[0, other])


def test_ordinary_mask_differs_by_position() -> None:
    masks_TBF = dropped(False)
    for other in range(1, TIME):
        assert not torch.equal(masks_TBF[0, 0], masks_TBF[other, 0])


@either_kind
def test_expectation_is_preserved(variational: bool) -> None:
    torch.manual_seed(0)
    dropout = Dropout(0.3, variational=variational).train()
    inputs = torch.ones(2, 1000, 100)
    outputs = dropout(inputs, time_axis=0)
    assert outputs.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert outputs.mean().item() == pytest.approx(1, abs=0.01)


@either_kind
def test_gradient_uses_the_same_mask(variational: bool) -> None:
    torch.manual_seed(0)
    inputs = torch.ones(TIME, BATCH, FEATURES, requires_grad=True)
    outputs = Dropout(0.4, variational=variational).train()(inputs, time_axis=0)
    outputs.sum().backward()
    assert inputs.grad is not None
    assert torch.equal(inputs.grad, outputs.detach())


@either_kind
def test_no_dropout_in_eval_or_at_rate_zero(variational: bool) -> None:
    inputs = torch.randn(TIME, BATCH, FEATURES)
    for dropout in (
        Dropout(0.9, variational=variational).eval(),
        Dropout(0.0, variational=variational).train(),
    ):
        assert torch.equal(dropout(inputs, time_axis=0), inputs)


@either_kind
@pytest.mark.parametrize("style", STYLES)
@torch.no_grad()
def test_model_drops_in_training_only(style: Style, variational: bool) -> None:
    config = tiny_config(style=style, dropout=0.5, variational_dropout=variational)
    model, batch = tiny_model(config), tiny_batch()
    assert torch.equal(run(model, batch, seed=1), run(model, batch, seed=2))
    without = tiny_model(tiny_config(style=style))
    assert torch.equal(run(model, batch, seed=1), run(without, batch, seed=1))
    model.train()
    assert torch.equal(run(model, batch, seed=1), run(model, batch, seed=1))
    assert not torch.equal(run(model, batch, seed=1), run(model, batch, seed=2))


@pytest.mark.parametrize("style", STYLES)
@torch.no_grad()
def test_dropout_of_embeddings_states_and_readout(style: Style) -> None:
    config = tiny_config(style=style, dropout=0.5, readout_size=7, encoder_layers=2)
    model, batch = tiny_model(config).train(), tiny_batch((5, 2), target_length=3)
    places: list[tuple[int, int]] = []

    def note(module: nn.Module, args: tuple[Tensor], kwargs: dict[str, int], _: Tensor) -> None:
        (inputs,), axis = args, kwargs["time_axis"]
        assert inputs.shape[1 - axis] == len(batch.mask_BS)
        places.append((inputs.shape[axis], inputs.shape[2]))

    for module in (model.dropout, model.encoder.dropout):
        module.register_forward_hook(note, with_kwargs=True)
    run(model, batch, seed=1)
    source_embeddings, target_embeddings, readout, states = (5, 4), (3, 4), (3, 7), (5, 6)
    between_layers = states
    expected = [source_embeddings, between_layers, states, target_embeddings, readout]
    assert places == expected


@either_kind
@pytest.mark.parametrize(
    ("style", "feeding"),
    [
        ("bahdanau", True),
        ("conditional", True),
        ("luong", True),
        ("luong", False),
        ("pre_attention", True),
    ],
    ids=["bahdanau", "conditional", "luong-fed", "luong-unfed", "pre_attention"],
)
@torch.no_grad()
def test_dropout_between_decoder_layers(style: Style, feeding: bool, variational: bool) -> None:
    """See the key model.dropout; all other dropout is off here."""
    config = tiny_config(
        style=style,
        input_feeding=feeding,
        decoder_layers=2,
        dropout=0.5,
        variational_dropout=variational,
    )
    model, batch = tiny_model(config).train(), tiny_batch()
    for module in model.modules():
        if isinstance(module, Dropout) and module is not model.decoder.dropout:
            module.rate = 0.0
    assert not torch.equal(run(model, batch, seed=1), run(model, batch, seed=2))


@either_kind
@torch.no_grad()
def test_step_loop_draws_the_masks_of_one_pass(variational: bool) -> None:
    config = tiny_config(decoder_layers=3, dropout=0.5, variational_dropout=variational)
    decoder = tiny_model(config).decoder
    state = DecoderState(tuple(torch.zeros(BATCH, 6).double() for _ in range(3)))
    assert decoder.layer_masks(TIME, state) == [()] * TIME
    torch.manual_seed(0)
    steps = decoder.train().layer_masks(TIME, state)
    assert len(steps) == TIME
    for lower, upper in steps:
        assert lower.shape == upper.shape == (BATCH, 6)
        assert not torch.equal(lower, upper)
    for later in steps[1:]:
        assert torch.equal(later[0], steps[0][0]) == variational


@torch.no_grad()
def test_dropout_between_encoder_layers() -> None:
    model = tiny_model(tiny_config(encoder_layers=2, dropout=0.5)).train()
    batch = tiny_batch()
    embedded, mask = model.source_embedding(batch.source_BS.t()), batch.mask_BS.t()
    model.encoder.dropout.rate = 0.0
    still = model.encoder(embedded, mask).summary_BH
    model.encoder.dropout.rate = 0.5
    assert not torch.equal(model.encoder(embedded, mask).summary_BH, still)
