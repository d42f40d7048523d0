"""The shape of the model, and which sizes fit together."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from seq2seq.config.section import Layers, Rate, Section, Size

Score = Literal["dot", "scaled_dot", "general", "additive", "concat", "multi_head", "none"]
Style = Literal["bahdanau", "luong", "pre_attention"]


class AttentionConfig(Section):
    """The score function and what surrounds it."""

    score: Score = Field("additive", description="score function; none is the fixed context")
    size: Size = Field(256, description="hidden size of additive and concat")
    heads: Size = Field(1, description="heads of multi_head")
    key_size: Size | None = Field(None, description="project H to keys of this size")
    value_size: Size | None = Field(None, description="project H to values of this size")
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
    embedding_size: Size = Field(256, description="both embeddings")
    encoder_size: Size = Field(256, description="state of the encoder, each direction")
    encoder_layers: Layers = Field(1, description="BiGRU layers")
    decoder_size: Size = Field(512, description="state of the decoder")
    decoder_layers: Layers = Field(
        1, description="GRU layers (pre_attention: of those after the attention)"
    )
    attention: AttentionConfig = AttentionConfig()
    input_feeding: bool = Field(True, description="luong: feed the attentional state back")
    readout: Literal["maxout", "tanh"] = Field(
        "maxout", description="bahdanau: the deep output (maxout is the paper's)"
    )
    readout_size: Size | None = Field(
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
    init: Literal["uniform", "scaled"] = Field(
        "uniform",
        description="uniform: all weights within 0.1 of zero; scaled: to the size of each matrix; "
        "with both, training begins with output biases that are log frequencies of the pieces",
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
        if attention.project_query and not is_dot:
            raise ValueError(
                "attention.project_query is for attention.score dot and scaled_dot only"
            )
        if attention.score == "none" and (attention.key_size or attention.value_size):
            raise ValueError("attention.key_size and value_size need an attention.score, not none")
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
    def attention_output_size(self) -> int:
        """Size of what the attention gives to the decoder."""
        memory_size = 2 * self.encoder_size
        if self.attention.score == "none":
            return memory_size
        return self.attention.value_size or memory_size

    @property
    def residual(self) -> bool:
        """Whether the query is added to the attention output."""
        chosen = self.attention.residual
        return self.style == "pre_attention" if chosen is None else chosen
