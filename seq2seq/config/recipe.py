"""The recipe: its sections `training` and `inference`, and all sections together."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2seq.config.data import DataConfig
from seq2seq.config.model import ModelConfig
from seq2seq.config.section import LARGEST, Count, CountFrom0, Rate, Section

TrackerName = Literal["mlflow", "wandb"]
BeamSize = Annotated[int, Field(ge=1, le=10_000)]


class ScheduleConfig(Section):
    """Learning rate schedule: a linear warm-up, then one of several decays."""

    kind: Literal["constant", "inverse_sqrt", "plateau", "cosine", "linear"] = Field(
        "constant", description="decay after the warm-up"
    )
    warmup_steps: CountFrom0 = Field(
        0, description="steps of linear warm-up from 0; it takes at most a fifth of max_minutes"
    )
    decay_steps: Count | None = Field(
        None, description="cosine, linear: step at which the decay ends; null: max_steps"
    )
    min_factor: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="lower bound of the rate, as a factor of learning_rate"
    )
    plateau_factor: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.5, description="plateau: factor by which the rate is reduced"
    )
    plateau_patience: CountFrom0 = Field(
        2, description="plateau: validations without improvement before the rate is reduced"
    )


class InitialConfig(Section):
    """Weights that training starts from, instead of random ones."""

    run: str = Field(
        description="run directory (its best checkpoint) or checkpoint, as given with --from; its "
        "tokenizers, unless new_tokenizers is true, and the shape of its model are used"
    )
    new_tokenizers: bool = Field(
        False,
        description="train tokenizers of the recipe's own; embeddings of new pieces begin as the "
        "means of the old pieces that spell them",
    )
    weights: str | None = Field(
        None, description="SHA-256 of the weights, recorded by the run; no others are accepted"
    )


class TrainingConfig(Section):
    """Optimization, validation and checkpoints."""

    seed: CountFrom0 = Field(1, description="random seed")
    max_steps: Count = Field(100_000, description="stop after this many updates")
    max_epochs: Count | None = Field(None, description="stop after this many epochs")
    max_minutes: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="stop after this many minutes, validations included; the schedules cosine and "
        "linear then end with this time or with their steps, whichever comes first",
    )
    initial: InitialConfig | None = Field(
        None, description="start from the weights of another run; null: from random weights"
    )
    optimizer: Literal["adam", "adamw"] = Field("adam", description="optimizer, as in torch.optim")
    learning_rate: Annotated[float, Field(gt=0)] = Field(0.001, description="peak learning rate")
    betas: tuple[Rate, Rate] = Field((0.9, 0.999), description="Adam's beta_1 and beta_2")
    eps: Annotated[float, Field(gt=0)] = Field(1e-8, description="Adam's epsilon")
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.0, description="applied to matrices only")
    schedule: ScheduleConfig = Field(default_factory=ScheduleConfig)
    label_smoothing: Rate = Field(0.0, description="probability spread evenly over the vocabulary")
    scheduled_sampling: Rate = Field(
        0.0, description="maximum probability of feeding back a prediction, not the reference"
    )
    scheduled_sampling_steps: Count = Field(
        10_000, description="steps over which that probability rises from 0"
    )
    clip_norm: Annotated[float, Field(gt=0)] | None = Field(
        1.0, description="maximum norm of the gradient; null: no clipping"
    )
    max_skipped: Count = Field(
        20, description="stop after this many updates in a row with a non-finite loss or gradient"
    )
    accumulate: Count = Field(1, description="batches per update")
    local_updates: Count = Field(
        1,
        description="with several processes, updates that each makes on batches of its own before "
        "all take the mean of their weights (early in training, a quarter of the updates so far); "
        "1: they make every update together",
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="of matrix products; auto: bf16 where the hardware supports it natively"
    )
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    threads: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        None, description="CPU threads; null: chosen by torch"
    )
    cuda_graphs: Literal["auto", True, False] = Field(
        "auto",
        description="on a GPU, record the kernels of a batch as one graph for each of its shapes, "
        "to launch them many times as fast; auto: false, until it has been tried on more GPUs",
    )
    reduce_bf16: bool = Field(
        False, description="processes exchange gradients in bf16, half the size of fp32"
    )
    log_every: Count = Field(100, description="steps between log lines")
    validate_every: Count = Field(1000, description="steps between validations")
    checkpoint_every: Count = Field(1000, description="steps between checkpoints")
    keep_last: Count = Field(3, description="latest checkpoints to keep, besides the best")
    keep_best: Count = Field(1, description="best checkpoints to keep")
    metric: Literal["bleu", "loss", "chrf"] = Field(
        "bleu", description="metric for the best checkpoint and for early stopping"
    )
    patience: Count | None = Field(
        None, description="stop after this many validations without improvement"
    )
    validation_beam: BeamSize = Field(1, description="beam size in validation; 1: greedy")
    validation_sentences: Count | None = Field(
        None, description="number of pairs to validate on, from the first; null: all"
    )
    samples: CountFrom0 = Field(3, description="translations shown at each validation")
    ema: Rate = Field(0.0, description="decay of the moving average of weights; 0: off")
    average: Literal["none", "last", "best"] = Field(
        "none", description="average the kept checkpoints into the final model"
    )
    tensorboard: bool = Field(True, description="write TensorBoard logs into the run directory")
    trackers: tuple[TrackerName, ...] = Field(
        (), description="also report to MLflow, Weights & Biases or both (docs/measuring.md)"
    )

    @model_validator(mode="after")
    def _fits(self) -> TrainingConfig:
        if self.schedule.kind == "inverse_sqrt" and self.schedule.warmup_steps == 0:
            raise ValueError("schedule.kind inverse_sqrt requires schedule.warmup_steps >= 1")
        if (self.schedule.decay_steps or LARGEST) < self.schedule.warmup_steps:
            raise ValueError("schedule.decay_steps is less than schedule.warmup_steps; raise it")
        return self


class InferenceConfig(Section):
    """Defaults for translation; the search options can be changed on the command line."""

    beam_size: BeamSize = Field(5, description="beam size; 1: greedy search")
    length_penalty: Annotated[float, Field(ge=0, le=10)] = Field(
        1.0, description="alpha of ((5 + length) / 6) ** alpha (Wu et al. 2016, eq. 14)"
    )
    coverage_penalty: Annotated[float, Field(ge=0, le=100)] = Field(
        0.0, description="beta of the coverage penalty (Wu et al. 2016, eq. 14)"
    )
    max_length_factor: Annotated[float, Field(gt=0, le=100)] = Field(
        2.0, description="maximum output length: this x source pieces + max_length_offset"
    )
    max_length_offset: Annotated[int, Field(ge=1, le=10_000)] = Field(
        10, description="added to the maximum output length, in pieces"
    )
    no_repeat_ngram: Annotated[int, Field(ge=0, le=10_000)] = Field(
        0, description="forbid repeated n-grams of this size; 0: off"
    )
    batch_tokens: Count = Field(
        4096, description="maximum batch size: source tokens x beam size; 16 times as many on a GPU"
    )
    max_source_length: Annotated[int, Field(ge=8, le=100_000)] = Field(
        256, description="split longer source sentences, in pieces, at punctuation"
    )
    split_sentences: bool = Field(
        True,
        description="translate a line sentence by sentence, as sentencex splits its source "
        "language; false: keep lines whole",
    )


class Config(Section):
    """The run directory and all sections."""

    run_dir: str = Field(description="run directory; replaced only with --overwrite")
    data: DataConfig
    model: ModelConfig = Field(default_factory=ModelConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    inference: InferenceConfig = Field(default_factory=InferenceConfig)

    @model_validator(mode="after")
    def _fits(self) -> Config:
        if self.model.joint_embeddings and not self.data.tokenizer.joint:
            raise ValueError("model.joint_embeddings requires data.tokenizer.joint=true")
        if self.model.attention.score == "none" and self.inference.coverage_penalty:
            raise ValueError(
                "model.attention.score none has no weights; remove inference.coverage_penalty"
            )
        return self
