"""The `model` section of a recipe, with checks that its sizes and options fit together."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from seq2seq.config.section import Layers, Rate, Section, Size

Score = Literal["dot", "scaled_dot", "general", "additive", "concat", "multi_head", "none"]
Style = Literal["bahdanau", "conditional", "luong", "pre_attention"]


class AttentionConfig(Section):
    """Score function, projections of the encoder states H, and residual."""

    score: Score = Field("additive", description="score function; none: a fixed context")
    size: Size = Field(256, description="additive, concat: hidden size")
    heads: Size = Field(1, description="multi_head: number of heads")
    key_size: Size | None = Field(None, description="project H to keys of this size")
    value_size: Size | None = Field(None, description="project H to values of this size")
    project_query: bool = Field(
        False, description="dot, scaled_dot: project the query to the key size if they differ"
    )
    previous_piece: bool = Field(
        False, description="bahdanau: the query also sees the piece before, s_(i-1) + W y_(i-1)"
    )
    residual: bool | None = Field(
        None, description="add the query to the attention output; null: only in style pre_attention"
    )


class ModelConfig(Section):
    """Encoder, attention and decoder."""

    style: Style = Field(
        "bahdanau", description="decoder style: which state queries, and where the context enters"
    )
    embedding_size: Size = Field(256, description="size of source and target embeddings")
    encoder_size: Size = Field(256, description="size of the encoder state, per direction")
    encoder_layers: Layers = Field(1, description="bidirectional GRU layers")
    decoder_size: Size = Field(512, description="size of the decoder state")
    decoder_layers: Layers = Field(
        1, description="GRU layers (pre_attention: those above the attention)"
    )
    attention: AttentionConfig = Field(default_factory=AttentionConfig)
    input_feeding: bool = Field(
        True, description="luong: feed the attentional state to the next step"
    )
    readout: Literal["maxout", "tanh"] = Field(
        "maxout",
        description="bahdanau, conditional: layer before the vocabulary projection (Bahdanau et "
        "al. 2014: maxout)",
    )
    readout_size: Size | None = Field(
        None,
        description="input size of the vocabulary projection; null: decoder_size, or "
        "embedding_size with tie_target",
    )
    lexical: bool = Field(
        False,
        description="lexical shortcut: the attended source pieces vote for their translation; "
        "tanh(sum of weights x W embedding) is added to the readout",
    )
    initial_state: Literal["backward", "mean", "last", "zeros"] = Field(
        "backward", description="what the decoder state is initialized from"
    )
    dropout: Rate = Field(
        0.2, description="dropout of embeddings, between layers and before the output"
    )
    variational_dropout: bool = Field(
        True, description="use one dropout mask per sentence instead of one per position"
    )
    layer_norm: bool = Field(False, description="layer normalization in the gates of every GRU")
    tie_target: bool = Field(
        False, description="share the target embedding with the output projection"
    )
    joint_embeddings: bool = Field(
        False, description="share source and target embeddings; requires data.tokenizer.joint"
    )
    init: Literal["uniform", "scaled"] = Field(
        "uniform",
        description="initial weights; uniform: within 0.1 of zero; scaled: by the size of each "
        "matrix; output biases are log frequencies of the pieces in both",
    )

    @model_validator(mode="after")
    def _fits(self) -> ModelConfig:
        attention = self.attention
        memory_size = 2 * self.encoder_size
        key_size = attention.key_size or memory_size
        is_dot = attention.score in ("dot", "scaled_dot")
        if is_dot and not attention.project_query and key_size != self.decoder_size:
            raise ValueError(
                f"attention.score {attention.score} requires queries and keys of one size, but "
                f"decoder_size is {self.decoder_size} and the key size {key_size}; set "
                f"attention.key_size={self.decoder_size} or attention.project_query=true"
            )
        if attention.project_query and not is_dot:
            raise ValueError("attention.project_query requires attention.score dot or scaled_dot")
        if attention.previous_piece and self.style != "bahdanau":
            raise ValueError(
                f"attention.previous_piece is for style bahdanau; the query of {self.style} has "
                "read the piece before"
            )
        if attention.score == "none" and (attention.key_size or attention.value_size):
            raise ValueError("attention.score none has no keys or values; remove their sizes")
        if attention.score == "none" and attention.previous_piece:
            raise ValueError("attention.score none has no query; remove attention.previous_piece")
        if attention.score == "none" and self.lexical:
            raise ValueError("attention.score none has no weights; remove lexical")
        if self.style == "pre_attention" and attention.score == "none" and not self.residual:
            raise ValueError(
                "style pre_attention with attention.score none and attention.residual false would "
                "never see the target; set attention.residual=true or choose a score"
            )
        for name, size in (("key", key_size), ("value", attention.value_size or memory_size)):
            if attention.score == "multi_head" and size % attention.heads:
                raise ValueError(
                    f"attention.heads {attention.heads} does not divide the {name} size {size}"
                )
        if attention.score != "multi_head" and attention.heads != 1:
            raise ValueError("attention.heads requires attention.score multi_head")
        if self.tie_target and self.readout_width != self.embedding_size:
            raise ValueError(
                f"tie_target requires readout_size ({self.readout_width}) to equal embedding_size "
                f"({self.embedding_size})"
            )
        return self

    @property
    def readout_width(self) -> int:
        """Input size of the vocabulary projection."""
        return self.readout_size or (self.embedding_size if self.tie_target else self.decoder_size)

    @property
    def attention_output_size(self) -> int:
        """Size of the attention output."""
        return self.attention.value_size or 2 * self.encoder_size

    @property
    def residual(self) -> bool:
        """Whether the query is added to the attention output."""
        chosen = self.attention.residual
        return self.style == "pre_attention" if chosen is None else chosen
