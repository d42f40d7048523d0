"""The schema of a recipe: typed, frozen, strict; YAML files with `section.key=value` overrides."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from seq2seq.errors import ConfigError

Score = Literal["dot", "scaled_dot", "general", "additive", "concat", "multi_head", "none"]
Style = Literal["bahdanau", "luong", "pre_attention"]
Rate = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A part of the configuration; unknown keys are errors and values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, validate_default=True)


Column = Annotated[int, Field(ge=0)] | str | None


class CorpusConfig(Section):
    """Where sentence pairs are read from. A path that ends in .gz is read as gzip."""

    format: Literal["tsv", "manythings", "aligned", "jsonl", "huggingface"] = Field(
        "tsv",
        description="tsv: columns of one file; manythings: English<TAB>Spanish[<TAB>attribution]; "
        "aligned: two files, line by line; jsonl: one object a line; huggingface: a dataset by name",
    )
    path: str | None = Field(None, description="the file (tsv, manythings, jsonl)")
    source_path: str | None = Field(None, description="the source side (aligned)")
    target_path: str | None = Field(None, description="the target side (aligned)")
    source: Column = Field(
        None,
        description="column number from 0 (tsv: 0; manythings: 1) or field name, dots for nesting "
        "(jsonl, huggingface: translation.es)",
    )
    target: Column = Field(
        None, description="the same for the target (tsv: 1; manythings: 0)"
    )
    alignment: Column = Field(
        None, description="column or field of gold word alignments (i-j), where there are any"
    )
    references: bool = Field(
        False, description="tsv: every column after the target is one more reference"
    )
    name: str | None = Field(None, description="huggingface: the dataset's name or a local folder")
    subset: str | None = Field(None, description="huggingface: the dataset's configuration")
    split: str | None = Field(None, description="huggingface: the split, for example train[:10%]")

    @model_validator(mode="after")
    def _complete(self) -> CorpusConfig:
        needed = {
            "tsv": ("path",),
            "manythings": ("path",),
            "jsonl": ("path", "source", "target"),
            "aligned": ("source_path", "target_path"),
            "huggingface": ("name", "split", "source", "target"),
        }[self.format]
        for key in needed:
            if getattr(self, key) is None:
                raise ValueError(f"format {self.format} needs the key '{key}'")
        if self.format in ("tsv", "manythings"):
            for key in ("source", "target", "alignment"):
                if isinstance(getattr(self, key), str):
                    raise ValueError(f"'{key}' is a column number in format {self.format}")
        if self.references and self.alignment is not None:
            raise ValueError("a corpus has further references or an alignment column, not both")
        return self


class CleaningConfig(Section):
    """Which pairs are dropped from the training data; every drop is counted by its reason."""

    max_chars: Count = Field(1000, description="longest side, in characters")
    max_ratio: Annotated[float, Field(gt=1)] = Field(
        4.0, description="longest side over shortest, in words plus three"
    )
    drop_duplicates: bool = Field(True, description="keep one of each exact pair")
    drop_overlap: bool = Field(
        False, description="drop train pairs that share a side with valid or test (else: warn)"
    )


class TokenizerConfig(Section):
    """SentencePiece subwords, trained from the train side of the corpus."""

    type: Literal["unigram", "bpe"] = Field("unigram", description="SentencePiece model type")
    joint: bool = Field(False, description="one vocabulary for both languages")
    source_vocab_size: Annotated[int, Field(ge=16)] = Field(
        8000, description="pieces of the source (of both, when joint)"
    )
    target_vocab_size: Annotated[int, Field(ge=16)] = Field(
        8000, description="pieces of the target (not used when joint)"
    )
    lower_vocab_size: bool = Field(
        True, description="lower a vocabulary that the data cannot fill, with a warning"
    )
    byte_fallback: bool = Field(True, description="spell unseen characters as bytes, never <unk>")
    character_coverage: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="share of characters that get pieces of their own"
    )
    max_sentences: Count = Field(1_000_000, description="sentences that training looks at")
    sampling_alpha: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="subword sampling in training; 0 is off (unigram: try 0.1-0.3, bpe: 0.1)"
    )


class BatchingConfig(Section):
    """How pairs are put together: buckets of similar length, every pair once an epoch."""

    unit: Literal["tokens", "sentences"] = Field("tokens", description="what size counts")
    size: Count = Field(
        2048, description="budget of a batch: padded tokens of its longer side, or sentences"
    )
    max_length: Count = Field(
        256, description="longest side in pieces; longer train pairs are dropped and counted"
    )
    window: Count = Field(
        100_000, description="pairs that are shuffled and sorted by length together"
    )


class DataConfig(Section):
    """Corpora, cleaning, subwords and batches."""

    source_language: str = Field("es", description="name of the source language, for messages")
    target_language: str = Field("en", description="name of the target language, for messages")
    train: Annotated[tuple[CorpusConfig, ...], Field(min_length=1)] = Field(
        description="one or several sources of training pairs"
    )
    valid: CorpusConfig = Field(description="pairs that choose the best checkpoint")
    test: CorpusConfig | None = Field(
        None, description="pairs that are only scored; named here to watch for leaks"
    )
    cleaning: CleaningConfig = CleaningConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    batching: BatchingConfig = BatchingConfig()
    word_dropout: Rate = Field(
        0.0, description="share of input pieces replaced by <unk> in training, on both sides"
    )


class AttentionConfig(Section):
    """The score function and what surrounds it."""

    score: Score = Field("additive", description="score function; none is the fixed context")
    size: Count = Field(256, description="hidden size of additive and concat")
    heads: Count = Field(1, description="heads of multi_head")
    key_size: Count | None = Field(None, description="project H to keys of this size")
    value_size: Count | None = Field(None, description="project H to values of this size")
    project_query: bool = Field(
        False, description="dot, scaled_dot: project the query to the key size where they differ"
    )
    residual: bool | None = Field(
        None,
        description="add the query to the attention output; default: only in style pre_attention",
    )


class ModelConfig(Section):
    """Sizes and shape of encoder, attention and decoder."""

    style: Style = Field("bahdanau", description="what queries, and where the context enters")
    embedding_size: Count = Field(256, description="both embeddings")
    encoder_size: Count = Field(256, description="state of the encoder, each direction")
    encoder_layers: Count = Field(1, description="BiGRU layers")
    decoder_size: Count = Field(512, description="state of the decoder")
    decoder_layers: Count = Field(
        1, description="GRU layers (pre_attention: of those after the attention)"
    )
    attention: AttentionConfig = AttentionConfig()
    input_feeding: bool = Field(True, description="luong: feed the attentional state back")
    readout: Literal["maxout", "tanh"] = Field(
        "maxout", description="bahdanau: the deep output (maxout is the paper's)"
    )
    readout_size: Count | None = Field(
        None,
        description="features that the vocabulary projection sees; default: decoder_size, "
        "or embedding_size when tied",
    )
    initial_state: Literal["backward", "mean", "last", "zeros"] = Field(
        "backward", description="what the decoder starts from"
    )
    dropout: Rate = Field(0.2, description="on embeddings, between layers and before the output")
    variational_dropout: bool = Field(
        True, description="one mask a sentence instead of one a position"
    )
    layer_norm: bool = Field(False, description="normalise the gates of every GRU")
    tie_target: bool = Field(
        False, description="share the target embedding with the output projection"
    )
    joint_embeddings: bool = Field(
        False, description="share source and target embeddings (joint vocabulary only)"
    )
    init: Literal["default", "uniform"] = Field(
        "default", description="default: scaled to each matrix; uniform: all within +-0.1"
    )

    @model_validator(mode="after")
    def _fits(self) -> ModelConfig:
        attention = self.attention
        memory_size = 2 * self.encoder_size
        key_size = attention.key_size or memory_size
        is_dot = attention.score in ("dot", "scaled_dot")
        if is_dot and not attention.project_query and key_size != self.decoder_size:
            raise ValueError(
                f"attention.score {attention.score} multiplies queries of decoder_size "
                f"{self.decoder_size} with keys of size {key_size}: make them equal, set "
                f"attention.key_size={self.decoder_size}, or attention.project_query=true"
            )
        if self.style == "pre_attention" and attention.score == "none" and not self.residual:
            raise ValueError(
                "style pre_attention with attention.score none and attention.residual false would "
                "never see the target: set attention.residual=true, or choose a score"
            )
        if attention.score == "multi_head" and key_size % attention.heads:
            raise ValueError(
                f"attention.heads {attention.heads} does not divide the key size {key_size}"
            )
        value_size = attention.value_size or memory_size
        if attention.score == "multi_head" and value_size % attention.heads:
            raise ValueError(
                f"attention.heads {attention.heads} does not divide the value size {value_size}"
            )
        if attention.score != "multi_head" and attention.heads != 1:
            raise ValueError("attention.heads is for attention.score multi_head only")
        if self.tie_target and self.features_size != self.embedding_size:
            raise ValueError(
                f"tie_target needs readout_size {self.features_size} equal to embedding_size "
                f"{self.embedding_size}"
            )
        return self

    @property
    def features_size(self) -> int:
        """Size of what the vocabulary projection sees."""
        return self.readout_size or (self.embedding_size if self.tie_target else self.decoder_size)

    @property
    def residual(self) -> bool:
        """Whether the query is added to the attention output."""
        chosen = self.attention.residual
        return self.style == "pre_attention" if chosen is None else chosen


class ScheduleConfig(Section):
    """The learning rate over the steps."""

    kind: Literal["constant", "inverse_sqrt", "plateau", "cosine", "linear"] = Field(
        "constant", description="what follows the warm-up"
    )
    warmup_steps: Annotated[int, Field(ge=0)] = Field(0, description="linear rise from 0")
    decay_steps: Count | None = Field(
        None, description="cosine, linear: step at which min_factor is reached; default: max_steps"
    )
    min_factor: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="lowest share of the learning rate"
    )
    plateau_factor: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.5, description="plateau: what the rate is multiplied by"
    )
    plateau_patience: Annotated[int, Field(ge=0)] = Field(
        2, description="plateau: validations without a better metric that are waited for"
    )


class TrainingConfig(Section):
    """Optimization, validation, checkpoints."""

    seed: Annotated[int, Field(ge=0)] = Field(1, description="of everything that is random")
    max_steps: Count = Field(100_000, description="updates after which training ends")
    max_epochs: Count | None = Field(None, description="epochs after which training ends")
    max_minutes: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="minutes of training after which it ends; cosine and linear then follow the "
        "clock instead of the steps",
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
    accumulate: Count = Field(1, description="batches an update")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="auto: bf16 where the processor multiplies it natively"
    )
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    threads: Count | None = Field(None, description="CPU threads; default: torch's choice")
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
    samples: Annotated[int, Field(ge=0)] = Field(3, description="translations shown each time")
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
    """Defaults of translating; each has a flag on the command line."""

    beam_size: Count = Field(5, description="hypotheses kept; 1 is greedy")
    length_penalty: Annotated[float, Field(ge=0)] = Field(
        1.0, description="alpha of ((5 + length) / 6) ** alpha (Wu et al. 2016, eq. 14)"
    )
    coverage_penalty: Annotated[float, Field(ge=0)] = Field(
        0.0, description="beta of the coverage penalty (Wu et al. 2016, eq. 14)"
    )
    max_length_factor: Annotated[float, Field(gt=0)] = Field(
        2.0, description="longest output: factor x source pieces + max_length_offset"
    )
    max_length_offset: Annotated[int, Field(ge=1)] = Field(10, description="see above")
    no_repeat_ngram: Annotated[int, Field(ge=0)] = Field(
        0, description="forbid repeating n-grams of this size; 0 is off"
    )
    batch_tokens: Count = Field(4096, description="source tokens x beam translated together")
    max_source_length: Count = Field(
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


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a recipe from YAML and apply `section.key=value` overrides in order.

    Raises ConfigError, which names the file and the key, for whatever does not fit the schema.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as UTF-8 text ({error})") from None
    return parse_config(text, overrides, origin=str(path))


def parse_config(text: str, overrides: Sequence[str] = (), *, origin: str = "config") -> Config:
    """Parse a recipe from YAML text; see load_config."""
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{origin}: not valid YAML: {_one_line(error)}") from None
    if not isinstance(raw, dict):
        raise ConfigError(f"{origin}: expected keys and values, found {type(raw).__name__}")
    for override in overrides:
        _override(raw, override)
    try:
        return Config.model_validate(_tuples(raw))
    except ValidationError as error:
        raise ConfigError(f"{origin}: {_explain(error)}") from None


def dump_config(config: Config) -> str:
    """Return the whole recipe, defaults included, as YAML that load_config reads back."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _override(raw: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"override '{override}': expected section.key=value")
    *parents, leaf = key.split(".")
    node: Any = raw
    for depth, name in enumerate(parents):
        node = _child(node, name, ".".join(parents[: depth + 1]))
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"override '{override}': {_one_line(error)}") from None
    if isinstance(node, list):
        index = _index(node, leaf, key)
        node[index] = parsed
    else:
        node[leaf] = parsed


def _child(node: Any, name: str, path: str) -> Any:
    if isinstance(node, list):
        node_list: list[Any] = node
        return node_list[_index(node_list, name, path)]
    child = node.get(name)
    if child is None:
        child = node[name] = {}
    if not isinstance(child, dict | list):
        raise ConfigError(f"override {path}: it has the value {child!r} and no keys below it")
    return child


def _index(node: list[Any], name: str, path: str) -> int:
    if not name.isdigit() or int(name) >= len(node):
        raise ConfigError(f"override {path}: expected a number below {len(node)}, found '{name}'")
    return int(name)


def _tuples(value: Any) -> Any:
    """Turn YAML's lists into the tuples that a frozen schema holds."""
    if isinstance(value, dict):
        return {str(key): _tuples(item) for key, item in value.items()}
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    return value


def _explain(error: ValidationError) -> str:
    problems = []
    for problem in error.errors(include_url=False):
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            problems.append(f"{key}: unknown key{_suggest(problem['loc'])}")
        elif problem["type"] == "missing":
            problems.append(f"{key}: this key is needed")
        elif problem["type"] == "value_error":
            problems.append(": ".join(filter(None, (key, str(problem["ctx"]["error"])))))
        else:
            found = problem["input"]
            problems.append(f"{key}: {problem['msg']}, found {found!r}")
    return "; ".join(problems)


def _suggest(location: tuple[int | str, ...]) -> str:
    section: Any = Config
    for part in location[:-1]:
        if isinstance(part, str):
            section = section_of(section.model_fields[part].annotation)
    close = difflib.get_close_matches(str(location[-1]), section.model_fields, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return "; known here: " + ", ".join(section.model_fields)


def section_of(annotation: Any) -> Any:
    """Return the Section inside an optional or a tuple of one."""
    if get_origin(annotation) in (Union, UnionType, tuple, Annotated):
        for part in get_args(annotation):
            found = section_of(part)
            if found is not None:
                return found
        return None
    return annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
