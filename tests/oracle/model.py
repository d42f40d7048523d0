"""The whole model for one sentence: encoder, initial state, the four decoders, logits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracle.layers import (
    Array,
    Weights,
    affine,
    attend,
    bigru,
    gru_gates,
    gru_step,
    under,
)
from seq2seq.config import ModelConfig
from seq2seq.model.translation_model import TranslationModel


@dataclass(frozen=True)
class Source:
    """An encoded sentence: top states, last forward state, first backward state."""

    states: list[Array]
    forward_last: Array
    backward_first: Array

    @property
    def summary(self) -> Array:
        """Both directions' final states."""
        return np.concatenate([self.forward_last, self.backward_first])


Step = tuple[Array, list[float] | None]  # readout and attention weights


class OracleModel:
    """A TranslationModel in eval mode, in NumPy."""

    def __init__(self, config: ModelConfig, weights: Weights) -> None:
        self.config = config
        self.weights = weights
        self.decoder = under(weights, "decoder")
        self.source_embedding = weights["source_embedding.weight"]
        self.target_embedding = (
            self.source_embedding if config.joint_embeddings else weights["target_embedding.weight"]
        )
        self.output_weight = (
            self.target_embedding if config.tie_target else weights["output_weight"]
        )

    @classmethod
    def of(cls, model: TranslationModel) -> OracleModel:
        """Return the twin of a model."""
        named = model.named_parameters(remove_duplicate=False)  # a tied matrix has two names
        return cls(model.config, {name: p.detach().numpy() for name, p in named})

    def encode(self, pieces: list[int]) -> Source:
        """Return the states of the top layer (Bahdanau et al. 2014, A.2.1)."""
        vectors = [self.source_embedding[piece] for piece in pieces]
        for layer in range(self.config.encoder_layers):
            forwards = under(self.weights, f"encoder.forwards.{layer}")
            backwards = under(self.weights, f"encoder.backwards.{layer}")
            vectors, last, first = bigru(
                forwards, backwards, vectors, layer_norm=self.config.layer_norm
            )
        return Source(vectors, last, first)

    def initial(self, source: Source) -> list[Array]:
        """Return the state of each decoder layer before the first piece."""
        layers = self.config.decoder_layers + (self.config.style == "pre_attention")
        if self.config.initial_state == "zeros":
            return [np.zeros(self.config.decoder_size) for _ in range(layers)]
        seen = {
            "backward": source.backward_first,
            "last": source.summary,
            "mean": sum(source.states) / np.float64(len(source.states)),
        }[self.config.initial_state]
        return np.split(np.tanh(affine(self.decoder, "initial", seen)), layers)

    def attend(self, query: Array, source: Source) -> Step:
        """Return attention output and weights."""
        return attend(
            self.config.attention,
            under(self.decoder, "attention"),
            query,
            source.states,
            source.summary,
            residual=self.config.residual,
        )

    def advance(self, layer: int, vector: Array, hidden: Array) -> Array:
        """Return the next state of one decoder layer."""
        weights = under(self.decoder, f"layers.{layer}")
        return gru_step(weights, vector, hidden, layer_norm=self.config.layer_norm)

    def advance_fed(self, embedded: Array, name: str, fed: Array, hidden: Array) -> Array:
        """Return the next state of the first layer from [embedded; fed], whose matrix is in two."""
        weights = under(self.decoder, "layers.0")
        gates = (
            weights["weight_input"] @ embedded
            + affine(self.decoder, name, fed)
            + weights.get("bias_input", 0.0)
        )
        return gru_gates(weights, gates, hidden, layer_norm=self.config.layer_norm)

    def bahdanau(self, source: Source, vectors: list[Array]) -> list[Step]:
        """Return each step of Bahdanau et al. (2014), A.2.2."""
        hidden, steps = self.initial(source), []
        for embedded in vectors:
            query = hidden[-1]
            if self.config.attention.previous_piece:
                query = query + affine(self.decoder, "query", embedded)
            context, shares = self.attend(query, source)
            hidden[0] = self.advance_fed(embedded, "context", context, hidden[0])
            for layer in range(1, len(hidden)):
                hidden[layer] = self.advance(layer, hidden[layer - 1], hidden[layer])
            steps.append((self.deep_output(hidden[-1], embedded, context), shares))
        return steps

    def conditional(self, source: Source, vectors: list[Array]) -> list[Step]:
        """Return each step of Sennrich et al. (2017), sec. 2."""
        hidden, steps = self.initial(source), []
        for embedded in vectors:
            query = self.advance(0, embedded, hidden[0])
            context, shares = self.attend(query, source)
            hidden[0] = self.advance(1, context, query)
            for layer in range(1, len(hidden)):
                hidden[layer] = self.advance(layer + 1, hidden[layer - 1], hidden[layer])
            steps.append((self.deep_output(hidden[-1], embedded, context), shares))
        return steps

    def deep_output(self, state: Array, embedded: Array, context: Array) -> Array:
        """Return the readout of a step (Bahdanau et al. 2014, A.2.2)."""
        deep = affine(self.decoder, "readout", np.concatenate([state, embedded, context]))
        if self.config.readout == "maxout":
            return np.array([max(deep[i], deep[i + 1]) for i in range(0, len(deep), 2)])
        return np.tanh(deep)

    def luong(self, source: Source, vectors: list[Array]) -> list[Step]:
        """Return each step of Luong et al. (2015), eq. 5, fed as in sec. 3.3 or not."""
        hidden, steps = self.initial(source), []
        attentional: Array = np.zeros(self.config.readout_width)
        for embedded in vectors:
            if self.config.input_feeding:
                hidden[0] = self.advance_fed(embedded, "feed", attentional, hidden[0])
            else:
                hidden[0] = self.advance(0, embedded, hidden[0])
            for layer in range(1, len(hidden)):
                hidden[layer] = self.advance(layer, hidden[layer - 1], hidden[layer])
            context, shares = self.attend(hidden[-1], source)
            both = np.concatenate([context, hidden[-1]])
            attentional = np.tanh(affine(self.decoder, "combine", both))
            steps.append((attentional, shares))
        return steps

    def pre_attention(self, source: Source, vectors: list[Array]) -> list[Step]:
        """Return each step of a GRU that asks, and further ones that read the answer."""
        hidden, steps = self.initial(source), []
        for embedded in vectors:
            hidden[0] = self.advance(0, embedded, hidden[0])
            vector, shares = self.attend(hidden[0], source)
            for layer in range(1, len(hidden)):
                vector = hidden[layer] = self.advance(layer, vector, hidden[layer])
            if self.config.readout_width != self.config.decoder_size:
                vector = np.tanh(affine(self.decoder, "readout", vector))
            steps.append((vector, shares))
        return steps

    def logits(self, source: list[int], inputs: list[int]) -> tuple[Array, Array | None]:
        """Return logits [T, V] and weights [T, S] of one sentence without padding."""
        decode = {
            "bahdanau": self.bahdanau,
            "conditional": self.conditional,
            "luong": self.luong,
            "pre_attention": self.pre_attention,
        }[self.config.style]
        steps = decode(self.encode(source), [self.target_embedding[piece] for piece in inputs])
        bias = self.weights["output_bias"]
        if self.config.lexical:
            words = [self.weights["lexical.weight"] @ self.source_embedding[p] for p in source]
            steps = [
                (
                    readout + np.tanh(sum(s * w for s, w in zip(shares or [], words, strict=True))),
                    shares,
                )
                for readout, shares in steps
            ]
        logits = np.array([self.output_weight @ readout + bias for readout, _ in steps])
        shares = [s for _, s in steps if s is not None]
        return logits, np.array(shares) if shares else None
