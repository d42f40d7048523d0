"""The weights of a checkpoint by name, each checked against the config when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from seq2seq.config import ModelConfig
from seq2seq.errors import CheckpointError
from seq2seq.runs.tensors import Array


class Model:
    """A trained model as arrays, which have the names of the parameters in seq2seq.model."""

    def __init__(
        self,
        config: ModelConfig,
        source_vocab: int,
        target_vocab: int,
        arrays: Mapping[str, Array],
        *,
        origin: Path,
    ) -> None:
        """Take weights and, for error messages, where they are from."""
        self.config, self.arrays, self.origin = config, arrays, origin
        self.source_vocab, self.target_vocab = source_vocab, target_vocab
        self._unread = {*arrays}

    def __call__(self, name: str, *shape: int) -> Array:
        """Return weights in double precision, in which they are joined.

        Raises CheckpointError if they are missing or have another shape.
        """
        if name not in self.arrays:
            raise CheckpointError(
                f"{self.origin}: weights do not match the config: missing ['{name}']"
            )
        found = self.arrays[name]
        if found.shape != shape:
            raise CheckpointError(
                f"{self.origin}: {name} has the shape {found.shape}, but the config asks for "
                f"{shape}"
            )
        self._unread.discard(name)
        return found.astype(np.float64)

    def source_embedding(self) -> Array:
        """Return the embeddings of source pieces [V, E]."""
        if self.config.joint_embeddings:
            return self.target_embedding()
        sizes = self.source_vocab, self.config.embedding_size
        return self("source_embedding.weight", *sizes)

    def target_embedding(self) -> Array:
        """Return the embeddings of target pieces [V, E]; a shared matrix has its first name."""
        if self.config.tie_target:
            return self.output_weight()
        name = "source" if self.config.joint_embeddings else "target"
        sizes = self.target_vocab, self.config.embedding_size
        return self(f"{name}_embedding.weight", *sizes)

    def output_weight(self) -> Array:
        """Return the matrix of the output projection [V, O]."""
        return self("output_weight", self.target_vocab, self.config.features_size)

    def check_all_read(self) -> None:
        """Raise CheckpointError if there are weights that no graph has read."""
        if unknown := sorted(self._unread)[:3]:
            raise CheckpointError(
                f"{self.origin}: weights do not match the config: unknown {unknown}"
            )
