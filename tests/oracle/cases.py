"""Tiny models whose options are combined in pairs, and a tiny batch.

In some case each option has each of its values together with each value of every other option,
as far as that is legal: a pairwise covering array. `make fuzz` tries each legal combination of
score, style, residual and input feeding with each value of every other option.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from properties import fuzzing
from pydantic import ValidationError
from torch import Tensor

from seq2seq.config import AttentionConfig, ModelConfig, Score, Style
from seq2seq.model.translation_model import TranslationModel
from seq2seq.onnx.builder import Parameters

SOURCE_VOCAB, TARGET_VOCAB = 11, 9
SOURCE_LENGTHS = (4, 1, 5)
TARGET_LENGTH = 3

SCORES: tuple[Score, ...] = get_args(Score)
STYLES: tuple[Style, ...] = get_args(Style)

# The first four are combined in full by `make fuzz`.
OPTIONS: dict[str, tuple[Any, ...]] = {
    "attention.score": SCORES,
    "style": STYLES,
    "attention.residual": (False, True),
    "input_feeding": (False, True),
    "initial_state": ("backward", "mean", "last", "zeros"),
    # Memory size is 6. Each size is once equal to another that it may be compared or added to,
    # and once not, so that projections come and go.
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
FULL = tuple(OPTIONS)[:4]
Choice = dict[str, Any]
Setting = tuple[str, Any]


def tiny_config(**choice: Any) -> ModelConfig:
    """Return a tiny configuration; keys with `attention.` are those of its attention."""
    attention = {k.partition(".")[2]: v for k, v in choice.items() if k.startswith("attention.")}
    rest = {k: v for k, v in choice.items() if not k.startswith("attention.")}
    sizes = {"embedding_size": 4, "encoder_size": 3, "decoder_size": 6, "dropout": 0.0}
    return ModelConfig(**{**sizes, **rest}, attention=AttentionConfig(**{"size": 3, **attention}))


def _applies(option: str, choice: Choice) -> bool:
    """Return whether an option matters to models of this score and style."""
    score, style = choice["attention.score"], choice["style"]
    applies: dict[str, bool] = {
        "input_feeding": style == "luong",
        "readout": style in ("bahdanau", "conditional"),
        "attention.previous_piece": style == "bahdanau" and score != "none",
        "lexical": score != "none",
        "attention.key_size": score != "none",
        "attention.value_size": score != "none",
        "attention.heads": score == "multi_head",
        "attention.project_query": score in ("dot", "scaled_dot"),
    }
    return applies.get(option, True)


def random_choice(generator: random.Random, given: Choice, *, tries: int = 200) -> Choice | None:
    """Return a legal choice of all options that apply, with those given; None if none is found."""
    for _ in range(tries):
        drawn = {option: generator.choice(values) for option, values in OPTIONS.items()} | given
        choice = {option: value for option, value in drawn.items() if _applies(option, drawn)}
        if given.keys() <= choice.keys():
            with contextlib.suppress(ValidationError):
                tiny_config(**choice)
                return choice
    return None


def pairs(settings: Iterable[Setting]) -> Iterator[tuple[Setting, Setting]]:
    """Return all pairs of settings of different options."""
    return itertools.combinations(settings, 2)


def _full(choice: Choice) -> list[Setting]:
    """Return the settings of a choice; those that are combined in full count as one."""
    first = tuple(choice.get(option) for option in FULL)
    return [("full", first), *((o, v) for o, v in choice.items() if o not in FULL)]


def covering(pool: list[Choice], settings: Callable[[Choice], Iterable[Setting]]) -> list[Choice]:
    """Return choices that together have all pairs of settings in the pool.

    The next one is always that with the most new pairs; pairs are bits, which is fast.
    """
    numbers: dict[tuple[Setting, Setting], int] = {}
    bits = [
        sum(1 << numbers.setdefault(pair, len(numbers)) for pair in pairs(settings(choice)))
        for choice in pool
    ]
    left, found = (1 << len(numbers)) - 1, []
    while left:
        best = max(range(len(pool)), key=lambda n: (bits[n] & left).bit_count())
        left &= ~bits[best]
        found.append(pool[best])
    return found


def _pool(count: int) -> list[Choice]:
    """Return random choices, `count` for each combination of the first options."""
    generator, found = random.Random(1), []
    for values in itertools.product(*(OPTIONS[option] for option in FULL)):
        combination = dict(zip(FULL, values, strict=True))
        given = {option: v for option, v in combination.items() if _applies(option, combination)}
        found += [random_choice(generator, given, tries=50) for _ in range(count)]
    return [choice for choice in found if choice is not None]


def name(choice: Choice) -> str:
    """Return a readable name of a case: the first options, then those not at their first value."""
    residual = "residual" if choice["attention.residual"] else ""
    fed = {None: "", True: "fed", False: "unfed"}[choice.get("input_feeding")]
    parts = [choice["attention.score"], choice["style"], residual, fed]
    for option, value in choice.items():
        if option not in FULL and value != OPTIONS[option][0]:
            label = option.removeprefix("attention.")
            parts.append(label if value is True else f"{label}={value}")
    return "-".join(filter(None, parts))


CHOICES = covering(_pool(8), _full if fuzzing() else dict.items)
CASES = {name(choice): tiny_config(**choice) for choice in CHOICES}


def for_each(cases: Mapping[str, ModelConfig]) -> pytest.MarkDecorator:
    """Return what calls a test with each `config`."""
    marks = [pytest.mark.fuzz] * fuzzing()
    return pytest.mark.parametrize(
        "config", [pytest.param(config, id=name, marks=marks) for name, config in cases.items()]
    )


every_case = for_each(CASES)

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")
on_each_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NO_GPU)])


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


def arrays_of(model: TranslationModel) -> Parameters:
    """Return the model as the arrays that graphs are made of."""
    arrays = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
    target_vocab, _ = model.output_weight.shape
    return Parameters(model.config, SOURCE_VOCAB, target_vocab, arrays, origin=Path("tiny"))


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
