"""A whole recipe."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from seq2seq.config.data import DataConfig
from seq2seq.config.model import ModelConfig
from seq2seq.config.section import Count, Section
from seq2seq.config.training import TrainingConfig


class InferenceConfig(Section):
    """Defaults of translating; those of the search have flags on the command line."""

    beam_size: Annotated[int, Field(ge=1, le=10_000)] = Field(
        5, description="hypotheses kept; 1 is greedy"
    )
    length_penalty: Annotated[float, Field(ge=0, le=10)] = Field(
        1.0, description="alpha of ((5 + length) / 6) ** alpha (Wu et al. 2016, eq. 14)"
    )
    coverage_penalty: Annotated[float, Field(ge=0, le=100)] = Field(
        0.0, description="beta of the coverage penalty (Wu et al. 2016, eq. 14)"
    )
    max_length_factor: Annotated[float, Field(gt=0, le=100)] = Field(
        2.0, description="longest output: factor x source pieces + max_length_offset"
    )
    max_length_offset: Annotated[int, Field(ge=1, le=10_000)] = Field(10, description="see above")
    no_repeat_ngram: Annotated[int, Field(ge=0, le=10_000)] = Field(
        0, description="forbid repeating n-grams of this size; 0 is off"
    )
    batch_tokens: Count = Field(4096, description="source tokens x beam translated together")
    max_source_length: Annotated[int, Field(ge=8, le=100_000)] = Field(
        256, description="longest source in pieces; longer lines are split at punctuation"
    )


class Config(Section):
    """A whole recipe."""

    run_dir: str = Field(description="where the run is kept; never overwritten unless asked")
    data: DataConfig
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    inference: InferenceConfig = InferenceConfig()

    @model_validator(mode="after")
    def _fits(self) -> Config:
        if self.model.joint_embeddings and not self.data.tokenizer.joint:
            raise ValueError("model.joint_embeddings needs data.tokenizer.joint=true")
        return self
