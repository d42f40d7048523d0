"""Explanations of small random models in every score and style, with the toy language's pieces."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from oracle.cases import SCORES, STYLES, Choice, covering, for_each, tiny_config
from properties import fuzzing

from seq2seq.config import ModelConfig
from seq2seq.inference.torch_backend import TorchBackend
from seq2seq.inference.translator import Translator
from seq2seq.model.translation_model import TranslationModel

# Options that add or remove projections.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "dot": [{}, {"attention.project_query": True, "decoder_size": 5}],
    "scaled_dot": [{"attention.key_size": 4, "attention.project_query": True}],
    "general": [{"attention.value_size": 5}],
    "additive": [{}, {"attention.key_size": 4}],
    "concat": [{"decoder_size": 5, "decoder_layers": 2}],
    "multi_head": [{"attention.heads": 2, "attention.key_size": 4, "attention.value_size": 8}],
    "none": [{}],
}


def _choices() -> Iterator[Choice]:
    for score, style, residual in itertools.product(SCORES, STYLES, (False, True)):
        if (score, style, residual) != ("none", "pre_attention", False):
            for number in range(len(VARIANTS[score])):
                yield {"variant": (score, number), "style": style, "residual": residual}


def _config(choice: Choice) -> ModelConfig:
    score, number = choice["variant"]
    residual = {"attention.score": score, "attention.residual": choice["residual"]}
    return tiny_config(style=choice["style"], **residual, **VARIANTS[score][number])


def _name(choice: Choice) -> str:
    score, number = choice["variant"]
    return f"{score}-{choice['style']}{'-residual' * choice['residual']}-{number}"


# Every variant of every score with every style, with and without a residual.
CONFIGS = {_name(choice): _config(choice) for choice in _choices()}
# Those to test: as many as have each pair of variant, style and residual; all with `make fuzz`.
TESTED = [*_choices()] if fuzzing() else covering([*_choices()], dict.items)
MODELS = {_name(choice): _config(choice) for choice in TESTED}

every_model = for_each(MODELS)


def with_model(translator: Translator, config: ModelConfig) -> Translator:
    """Return a translator with a random model of this configuration."""
    model = TranslationModel(config, translator.source.vocab_size, translator.target.vocab_size)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.6, generator=generator)
    return Translator(
        [TorchBackend(model)], translator.source, translator.target, translator.config
    )
