from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.config import ScheduleConfig
from seq2seq.training.optimizer import Schedule


def schedule(max_steps: int = 100, max_minutes: float | None = None, **keys: object) -> Schedule:
    return Schedule(ScheduleConfig(**keys), max_steps, max_minutes)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["constant", "inverse_sqrt", "plateau", "cosine", "linear"])
def test_warmup_is_linear(kind: str) -> None:
    found = schedule(kind=kind, warmup_steps=10)
    assert [found.factor(step) for step in (1, 5, 10)] == [0.1, 0.5, 1.0]


@given(st.integers(11, 100), st.floats(0, 1))
def test_formulas(step: int, least: float) -> None:
    done = (step - 10) / 90
    linear = schedule(kind="linear", warmup_steps=10, min_factor=least)
    cosine = schedule(kind="cosine", warmup_steps=10, min_factor=least)
    root = schedule(kind="inverse_sqrt", warmup_steps=10, min_factor=least)
    assert linear.factor(step) == pytest.approx(1 - (1 - least) * done)
    assert cosine.factor(step) == pytest.approx(
        least + (1 - least) * (1 + math.cos(math.pi * done)) / 2
    )
    assert root.factor(step) == pytest.approx(max(least, (10 / step) ** 0.5))
    assert schedule(warmup_steps=10).factor(step) == 1


@pytest.mark.parametrize("kind", ["cosine", "linear"])
def test_decay_stays_at_its_minimum(kind: str) -> None:
    found = schedule(kind=kind, decay_steps=50, min_factor=0.1)
    assert [found.factor(step) for step in (50, 51, 1000)] == pytest.approx([0.1] * 3)


def test_decay_over_the_clock() -> None:
    found = schedule(kind="linear", max_minutes=10)
    assert found.factor(50, minutes=2.0) == 0.5
    assert found.factor(50, minutes=7.5) == 0.25
    assert found.factor(50, minutes=11.0) == 0


@pytest.mark.parametrize("kind", ["constant", "inverse_sqrt", "plateau", "linear"])
def test_warmup_takes_a_fifth_of_the_time_at_most(kind: str) -> None:
    """On a slow machine, 200 updates may be most of a training; on others they decide alone."""
    found = schedule(10_000, max_minutes=10, kind=kind, warmup_steps=200)
    assert [found.factor(step, minutes=step / 200) for step in (1, 50, 200)] == [0.005, 0.25, 1]
    assert [found.factor(step, minutes=step / 20) for step in (10, 20)] == [0.25, 0.5]
    assert found.factor(40, minutes=2) == (pytest.approx(0.8) if kind == "linear" else 1)
    found.began = 1.5  # after a validation
    assert found.factor(1, minutes=1.5) == 0.005


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), max_size=30), st.integers(0, 3))
def test_plateau_matches_torch(metrics: list[int], patience: int) -> None:
    found = schedule(kind="plateau", plateau_patience=patience, plateau_factor=0.5)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    twin = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="max", patience=patience, factor=0.5, threshold=0, eps=0
    )
    best = -math.inf
    for metric in metrics:
        found.observe(improved=metric > best)
        best = max(best, metric)
        twin.step(metric)
        assert found.factor(1) == optimizer.param_groups[0]["lr"]


def test_state_is_restored() -> None:
    first = schedule(kind="plateau", plateau_patience=1)
    for _ in range(3):
        first.observe(improved=False)
    second = schedule(kind="plateau", plateau_patience=1)
    second.restore(first.state())
    assert second == first
    assert second.factor(1) == 0.5
    first = schedule(max_minutes=10, warmup_steps=200)
    first.began = 3.0  # minutes, in which a validation was made
    second = schedule(max_minutes=10, warmup_steps=200)
    second.restore(first.state())
    assert second.factor(20, 4.0) == first.factor(20, 4.0) == 0.5
