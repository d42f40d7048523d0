"""Updates of all weights against torch.optim."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from oracle.cases import on_each_device
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from seq2seq.config import TrainingConfig
from seq2seq.training.optimizer import Optimizer

RATES = (0.1, 0.05, 0.2)
LOSS = torch.tensor(1.0, dtype=torch.float64)


def make_model(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 3))


def make_gradients(model: nn.Module) -> list[dict[str, Tensor]]:
    """Return gradients for each update."""
    generator = torch.Generator().manual_seed(1)
    return [
        {n: torch.randn(p.shape, generator=generator) for n, p in model.named_parameters()}
        for _ in RATES
    ]


def train(
    config: TrainingConfig, gradients: list[dict[str, Tensor]]
) -> tuple[list[float], dict[str, Tensor]]:
    """Return the norms of all updates and the final state."""
    model = make_model()
    optimizer = Optimizer(model, config)
    norms = []
    for step, (rate, own) in enumerate(zip(RATES, gradients, strict=True), 1):
        optimizer.zero_grad()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            parameter.grad += own[name]
        norms.append(float(optimizer.step(step, rate, LOSS)))
    state = {f"weights.{name}": tensor for name, tensor in optimizer.weights().items()}
    state |= {f"model.{name}": tensor.detach() for name, tensor in model.named_parameters()}
    return norms, state | optimizer.state()


def expected(
    config: TrainingConfig, gradients: list[dict[str, Tensor]]
) -> tuple[list[float], dict[str, Tensor]]:
    """Return the same with torch's clipping and optimizers, parameter by parameter."""
    model = make_model()
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1]},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    adam = kind(groups, betas=config.betas, eps=config.eps, weight_decay=config.weight_decay)
    averages = {name: p.detach().clone() for name, p in model.named_parameters()}
    norms = []
    for step, rate in enumerate(RATES, 1):
        for name, parameter in model.named_parameters():
            parameter.grad = gradients[step - 1][name].clone()
        norms.append(
            float(nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm or math.inf))
        )
        for group in adam.param_groups:
            group["lr"] = rate
        adam.step()
        decay = min(config.ema, (1 + step) / (10 + step))
        for name, parameter in model.named_parameters():
            averages[name] = decay * averages[name] + (1 - decay) * parameter.detach()
    state = {}
    for name, parameter in model.named_parameters():
        state[f"model.{name}"] = parameter.detach()
        state[f"weights.{name}"] = averages[name] if config.ema else parameter.detach()
        if config.ema:
            state[f"raw.{name}"] = parameter.detach()
        state |= {f"{key}.{name}": value for key, value in adam.state[parameter].items()}
    return norms, state


@pytest.mark.parametrize(
    "settings",
    [
        {"clip_norm": None},
        {"ema": 0.5, "weight_decay": 0.1},
        {"ema": 0.1, "weight_decay": 0.1, "optimizer": "adamw", "betas": (0.8, 0.9), "eps": 1e-3},
    ],
)
def test_updates_equal_those_of_torch(settings: dict[str, Any]) -> None:
    config = TrainingConfig(**settings)
    gradients = make_gradients(make_model())
    norms, state = train(config, gradients)
    norms_expected, state_expected = expected(config, gradients)
    torch.testing.assert_close(norms, norms_expected)
    torch.testing.assert_close(state, state_expected)


def test_saved_state_restores(tmp_path: Any) -> None:
    config = TrainingConfig(ema=0.9)
    first = Optimizer(make_model(), config)
    for parameter in first.parameters.values():
        assert parameter.grad is not None
        parameter.grad += 1
    first.step(1, 0.1, LOSS)
    save_file(first.weights(), tmp_path / "weights")
    save_file(first.state(), tmp_path / "state")
    second = Optimizer(make_model(1), config)
    second.restore(load_file(tmp_path / "weights"), load_file(tmp_path / "state"))
    for mine, saved in ((second.weights(), first.weights()), (second.state(), first.state())):
        assert mine.keys() == saved.keys()
        assert all(torch.equal(mine[name], saved[name]) for name in saved)


def test_model_has_averaged_weights_for_a_while() -> None:
    model = make_model()
    optimizer = Optimizer(model, TrainingConfig(ema=0.9))
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.grad += 1
    optimizer.step(1, 0.1, LOSS)
    trained = [p.detach().clone() for p in model.parameters()]
    with optimizer.averaged_weights():
        averaged = dict(model.named_parameters())
        for name, tensor in optimizer.weights().items():
            assert torch.equal(averaged[name], tensor)
        assert not torch.equal(trained[0], next(model.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(trained, model.parameters(), strict=True))


@pytest.mark.parametrize("spoilt", ["loss", "gradient"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@on_each_device
def test_what_is_not_finite_changes_nothing(spoilt: str, value: float, device: str) -> None:
    model, finite = make_model().to(device), LOSS.to(device)
    optimizer = Optimizer(model, TrainingConfig(ema=0.9))
    gradients = make_gradients(model)[0]
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        parameter.grad += gradients[name].to(device)
    optimizer.step(1, 0.1, finite)
    before = optimizer.state_SN.clone(), optimizer.updates.clone()
    if spoilt == "gradient":
        optimizer.gradients_N[3] = value
    norm = optimizer.step(2, 0.1, finite * (value if spoilt == "loss" else 1))
    assert math.isfinite(norm) is (spoilt == "loss")
    assert torch.equal(optimizer.state_SN, before[0])
    assert torch.equal(optimizer.updates, before[1])
    optimizer.gradients_N[3] = 1.0
    optimizer.step(2, 0.1, finite)
    assert optimizer.state_SN.isfinite().all()
    assert not torch.equal(optimizer.state_SN, before[0])
