"""The schema of a recipe, strictly typed and immutable, and how recipes are read and written.

The names are imported when first used: translating needs one section, without YAML.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seq2seq.config.data import (
        BatchingConfig,
        CleaningConfig,
        CorpusConfig,
        DataConfig,
        TokenizerConfig,
    )
    from seq2seq.config.inference import InferenceConfig
    from seq2seq.config.loading import (
        changed_keys,
        dump_config,
        load_config,
        parse_config,
        parse_section,
        read_yaml_file,
    )
    from seq2seq.config.model import AttentionConfig, ModelConfig, Score, Style
    from seq2seq.config.recipe import Config, InitialConfig, ScheduleConfig, TrainingConfig
    from seq2seq.config.section import Section

__all__ = [
    "AttentionConfig",
    "BatchingConfig",
    "CleaningConfig",
    "Config",
    "CorpusConfig",
    "DataConfig",
    "InferenceConfig",
    "InitialConfig",
    "ModelConfig",
    "ScheduleConfig",
    "Score",
    "Section",
    "Style",
    "TokenizerConfig",
    "TrainingConfig",
    "changed_keys",
    "dump_config",
    "load_config",
    "parse_config",
    "parse_section",
    "read_yaml_file",
]

_MODULES = ("section", "inference", "model", "data", "recipe", "loading")  # cheap ones first


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            found = vars(import_module(f"seq2seq.config.{module}"))
            if name in found:
                globals()[name] = found[name]
                return found[name]
    raise AttributeError(f"module 'seq2seq.config' has no attribute '{name}'")
