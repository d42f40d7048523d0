"""Tiny models in every legal combination, and a tiny batch.

Score, style, residual and input feeding are combined in every legal way; of the other switches,
each pair of values occurs in some case.
"""

from __future__ import annotations

import functools
import itertools
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from seq2seq.config import AttentionConfig, ModelConfig, Score, Style
from seq2seq.model.model import TranslationModel
from seq2seq.onnx.weights import Model

SOURCE_VOCAB, TARGET_VOCAB = 11, 9
SOURCE_LENGTHS = (4, 1, 5)
TARGET_LENGTH = 3

SCORES: tuple[Score, ...] = get_args(Score)
STYLES: tuple[Style, ...] = get_args(Style)
INITIAL_STATES = ("backward", "mean", "last", "zeros")

# Memory size is 6. Each size is once equal to another that it may be compared or added to,
# and once not, so that projections come and go.
SWITCHES: dict[str, tuple[Any, ...]] = {
    "decoder_size": (6, 5),
    "encoder_layers": (1, 2),
    "decoder_layers": (1, 2),
    "layer_norm": (False, True),
    "tie_target": (False, True),
    "joint_embeddings": (False, True),
    "readout_size": (None, 7),
    "readout": ("maxout", "tanh"),
    "lexical": (False, True),
    "attention.key_size": (None, 4, 5),
    "attention.value_size": (None, 4, 5),
    "attention.heads": (1, 2),
    "attention.project_query": (False, True),
    "attention.previous_piece": (False, True),
}
Choice = dict[str, Any]


def tiny_config(**choice: Any) -> ModelConfig:
    """Return a tiny configuration; keys with `attention.` are those of its attention."""
    attention = {k.partition(".")[2]: v for k, v in choice.items() if k.startswith("attention.")}
    rest = {k: v for k, v in choice.items() if not k.startswith("attention.")}
    sizes = {"embedding_size": 4, "encoder_size": 3, "decoder_size": 6, "dropout": 0.0}
    return ModelConfig(**{**sizes, **rest}, attention=AttentionConfig(**{"size": 3, **attention}))


def bases() -> list[Choice]:
    """Return all legal combinations of score, style, residual and feeding."""
    found = []
    for score, style, residual in itertools.product(SCORES, STYLES, (False, True)):
        if style == "pre_attention" and score == "none" and not residual:
            continue
        base = {"attention.score": score, "style": style, "attention.residual": residual}
        feedings = (False, True) if style == "luong" else (None,)
        found += [base | ({} if f is None else {"input_feeding": f}) for f in feedings]
    return found


def _applies(switch: str, base: Choice) -> bool:
    score = base["attention.score"]
    applies: dict[str, bool] = {
        "readout": base["style"] in ("bahdanau", "conditional"),
        "attention.previous_piece": base["style"] == "bahdanau" and score != "none",
        "lexical": score != "none",
        "attention.key_size": score != "none",
        "attention.value_size": score != "none",
        "attention.heads": score == "multi_head",
        "attention.project_query": score in ("dot", "scaled_dot"),
    }
    return applies.get(switch, True)


def legal_choice(base: Choice, initial_state: str, generator: random.Random) -> Choice:
    """Return the base with a random legal choice of all switches that apply to it."""
    while True:
        drawn = {k: generator.choice(v) for k, v in SWITCHES.items() if _applies(k, base)}
        choice = {**base, "initial_state": initial_state, **drawn}
        try:
            tiny_config(**choice)
        except ValidationError:
            continue
        return choice


def pairs(choice: Choice) -> set[tuple[Any, ...]]:
    """Return the pairs of switch values of a choice; the base counts as one switch."""
    free = (*SWITCHES, "initial_state")
    base = tuple((k, v) for k, v in choice.items() if k not in free)
    settings = [(k, choice[k]) for k in free if k in choice]
    return set(itertools.combinations([("base", base), *settings], 2))


@functools.cache
def choices() -> tuple[list[Choice], ...]:
    """Return choices of the other switches for each base, which together cover all pairs."""
    generator = random.Random(1)
    seen: set[tuple[Any, ...]] = set()
    found: list[list[Choice]] = []
    left: list[tuple[list[Choice], Choice]] = []
    for base in bases():
        rows: list[Choice] = []
        for initial_state in INITIAL_STATES:
            drawn = [legal_choice(base, initial_state, generator) for _ in range(8)]
            drawn.sort(key=lambda choice: len(pairs(choice) - seen))
            left += [(rows, choice) for choice in drawn]
            rows.append(drawn[-1])
            seen |= pairs(drawn[-1])
        found.append(rows)
    for rows, choice in left:
        if pairs(choice) - seen:
            rows.append(choice)
            seen |= pairs(choice)
    return tuple(found)


def name(choice: Choice) -> str:
    """Return a readable name of a case: the base, then the switches not at their first value."""
    residual = "residual" if choice["attention.residual"] else ""
    fed = {None: "", True: "fed", False: "unfed"}[choice.get("input_feeding")]
    parts = [choice["attention.score"], choice["style"], residual, fed, choice["initial_state"]]
    for switch, values in SWITCHES.items():
        value = choice.get(switch, values[0])
        if value != values[0]:
            label = switch.removeprefix("attention.")
            parts.append(label if value is True else f"{label}={value}")
    return "-".join(filter(None, parts))


ALL_CHOICES = [choice for rows in choices() for choice in rows]
ALL = {name(choice): tiny_config(**choice) for choice in ALL_CHOICES}
# One case for each score, style, residual and feeding, with ever another initial state.
ONE_EACH_CHOICES = [rows[number % len(rows)] for number, rows in enumerate(choices())]
ONE_EACH = {name(choice): tiny_config(**choice) for choice in ONE_EACH_CHOICES}

every_case = pytest.mark.parametrize("config", ALL.values(), ids=ALL.keys())
one_of_each = pytest.mark.parametrize("config", ONE_EACH.values(), ids=ONE_EACH.keys())


def tiny_model(
    config: ModelConfig, *, seed: int = 0, dtype: torch.dtype = torch.float64
) -> TranslationModel:
    """Return a model in eval mode with random weights, biases and norms."""
    target_vocab = SOURCE_VOCAB if config.joint_embeddings else TARGET_VOCAB
    model = TranslationModel(config, SOURCE_VOCAB, target_vocab).to(dtype).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            is_gain = "norm_" in parameter_name and parameter_name.endswith("weight")
            parameter.copy_(drawn * 0.3 + 1 if is_gain else drawn * 0.5)
    return model


def arrays_of(model: TranslationModel) -> Model:
    """Return the model as the arrays that graphs are made of."""
    arrays = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
    target_vocab, _ = model.output_weight.shape
    return Model(model.config, SOURCE_VOCAB, target_vocab, arrays, origin=Path("tiny"))


@dataclass(frozen=True)
class TinyBatch:
    """Sources with padding, their mask, and decoder inputs; see seq2seq.data.batching.Batch."""

    source_BS: Tensor
    mask_BS: Tensor
    inputs_BT: Tensor

    @property
    def sources(self) -> list[list[int]]:
        """Each sentence's pieces without padding."""
        rows = zip(self.source_BS, self.mask_BS, strict=True)
        return [source[mask].tolist() for source, mask in rows]


def tiny_batch(
    lengths: tuple[int, ...] = SOURCE_LENGTHS,
    *,
    target_length: int = TARGET_LENGTH,
    padding: int = 0,
    seed: int = 0,
) -> TinyBatch:
    """Return random sentences of these lengths, padded beyond the longest."""
    generator = torch.Generator().manual_seed(seed)
    width = max(lengths) + padding
    mask_BS = torch.arange(width) < torch.tensor(lengths)[:, None]
    source_BS = torch.zeros(len(lengths), width, dtype=torch.long)
    for row, length in enumerate(lengths):
        source_BS[row, :length] = torch.randint(4, SOURCE_VOCAB, (length,), generator=generator)
    inputs_BT = torch.randint(4, TARGET_VOCAB, (len(lengths), target_length), generator=generator)
    return TinyBatch(source_BS, mask_BS, inputs_BT)
