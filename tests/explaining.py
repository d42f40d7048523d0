"""Explanations of small random models in every score and style, with the toy language's pieces."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from oracle.cases import SCORES, STYLES, tiny_config

from seq2seq.config import ModelConfig
from seq2seq.inference.torch_backend import TorchBackend
from seq2seq.inference.translator import Translator
from seq2seq.model.model import TranslationModel

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


def configs() -> dict[str, ModelConfig]:
    """Return every score with every style, with and without a residual."""
    found = {}
    for score, style, residual in itertools.product(SCORES, STYLES, (False, True)):
        if (score, style, residual) == ("none", "pre_attention", False):
            continue
        for number, variant in enumerate(VARIANTS[score]):
            name = f"{score}-{style}{'-residual' * residual}-{number}"
            base = {"attention.score": score, "style": style, "attention.residual": residual}
            found[name] = tiny_config(**base, **variant)
    return found


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
