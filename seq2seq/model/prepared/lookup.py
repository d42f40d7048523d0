"""Embedded pieces on their way into a layer: a table of products instead of products.

Legend: V vocabulary, E embedding size, O outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq.model.prepared.product import product

_MOST = 2**25  # numbers in a table; larger ones cost more memory than they are worth


class Lookup:
    """The product W e + b of each piece's embedding e."""

    def __init__(
        self, embedding_VE: Tensor, weight_OE: Tensor, bias_O: Tensor, dtype: torch.dtype
    ) -> None:
        # Embeddings are not bounded, and a table is made only once: int8 would gain nothing.
        exact = torch.float32 if dtype == torch.int8 else dtype
        self.rows = embedding_VE.detach()
        self.multiply = product(weight_OE, bias_O, exact)
        self.is_table = len(embedding_VE) * len(weight_OE) <= _MOST
        if self.is_table:
            self.rows = self.multiply(self.rows)

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return [..., O] for tokens [...]; a new tensor."""
        rows = torch.nn.functional.embedding(tokens, self.rows)
        return rows if self.is_table else self.multiply(rows)
