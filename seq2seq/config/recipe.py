"""A whole recipe."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2seq.config.data import DataConfig
from seq2seq.config.model import ModelConfig
from seq2seq.config.section import Count, CountFrom0, Rate, Section


class ScheduleConfig(Section):
    """The learning rate over the steps."""

    kind: Literal["constant", "inverse_sqrt", "plateau", "cosine", "linear"] = Field(
        "constant", description="what follows the warm-up"
    )
    warmup_steps: CountFrom0 = Field(0, description="linear rise from 0")
    decay_steps: Count | None = Field(
        None, description="cosine, linear: step at which min_factor is reached; default: max_steps"
    )
    min_factor: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="lowest share of the learning rate"
    )
    plateau_factor: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.5, description="plateau: what the rate is multiplied by"
    )
    plateau_patience: CountFrom0 = Field(
        2, description="plateau: validations without a better metric that are waited for"
    )


class TrainingConfig(Section):
    """Optimization, validation, checkpoints."""

    seed: CountFrom0 = Field(1, description="of everything that is random")
    max_steps: Count = Field(100_000, description="updates after which training ends")
    max_epochs: Count | None = Field(None, description="epochs after which training ends")
    max_minutes: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="minutes of training, validations included, after which it ends; cosine and "
        "linear then reach their end by the clock or by the steps, whichever is first",
    )
    optimizer: Literal["adam", "adamw"] = Field("adam", description="both as in torch.optim")
    learning_rate: Annotated[float, Field(gt=0)] = Field(0.001, description="highest rate")
    betas: tuple[Rate, Rate] = Field((0.9, 0.999), description="Adam's decay rates")
    eps: Annotated[float, Field(gt=0)] = Field(1e-8, description="Adam's epsilon")
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.0, description="for matrices only")
    schedule: ScheduleConfig = ScheduleConfig()
    label_smoothing: Rate = Field(0.0, description="mass spread evenly over the vocabulary")
    scheduled_sampling: Rate = Field(
        0.0, description="highest share of own predictions fed back instead of the reference"
    )
    scheduled_sampling_steps: Count = Field(
        10_000, description="steps over which that share rises from 0"
    )
    clip_norm: Annotated[float, Field(gt=0)] | None = Field(
        1.0, description="largest norm of the gradient; null: no clipping"
    )
    max_skipped: Count = Field(
        20, description="updates in a row with a loss or gradient not finite, that end training"
    )
    accumulate: Count = Field(1, description="batches an update")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="auto: bf16 where the processor multiplies it natively"
    )
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="CPU threads; default: torch's choice"
    )
    reduce_bf16: bool = Field(
        False, description="several processes: send gradients in bf16, half the bytes of fp32"
    )
    log_every: Count = Field(100, description="steps between two lines of the log")
    validate_every: Count = Field(1000, description="steps between two validations")
    checkpoint_every: Count = Field(1000, description="steps between two checkpoints")
    keep_last: Count = Field(3, description="checkpoints that are kept beside the best")
    keep_best: Count = Field(1, description="best checkpoints that are kept")
    metric: Literal["bleu", "loss", "chrf"] = Field(
        "bleu", description="what chooses the best checkpoint and stops early"
    )
    patience: Count | None = Field(
        None, description="validations without a better metric after which training ends"
    )
    validation_beam: Count = Field(1, description="beam of the validation; 1 is greedy")
    validation_sentences: Count | None = Field(
        None, description="validate on the first n pairs only"
    )
    samples: CountFrom0 = Field(3, description="translations shown each time")
    ema: Rate = Field(0.0, description="decay of a moving average of weights; 0 is off")
    average: Literal["none", "last", "best"] = Field(
        "none", description="average the kept checkpoints into the final model"
    )
    tensorboard: bool = Field(True, description="write TensorBoard files into the run")

    @model_validator(mode="after")
    def _fits(self) -> TrainingConfig:
        if self.schedule.kind == "inverse_sqrt" and self.schedule.warmup_steps == 0:
            raise ValueError("schedule.kind inverse_sqrt needs schedule.warmup_steps of 1 or more")
        return self


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
