"""The schema of a recipe, strictly typed and immutable, and how recipes are read and written."""

from seq2seq.config.data import (
    AugmentationConfig,
    BatchingConfig,
    CleaningConfig,
    CorpusConfig,
    DataConfig,
    TokenizerConfig,
)
from seq2seq.config.loading import changed_keys, dump_config, load_config, parse_config
from seq2seq.config.model import AttentionConfig, ModelConfig, Score, Style
from seq2seq.config.recipe import (
    Config,
    InferenceConfig,
    InitialConfig,
    ScheduleConfig,
    TrackerName,
    TrainingConfig,
)
from seq2seq.config.section import Section

__all__ = [
    "AttentionConfig",
    "AugmentationConfig",
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
    "TrackerName",
    "TrainingConfig",
    "changed_keys",
    "dump_config",
    "load_config",
    "parse_config",
]
