"""Embedded pieces on their way into a layer: a table of products instead of products.

Legend: V vocabulary, E embedding size, O outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq.model.prepared.product import product

_MOST = 2**25  # numbers in a table; larger ones would cost more memory than they are worth


class Lookup:
    """The product of each piece's embedding, from a table as soon as the table pays."""

    def __init__(
        self, embedding_VE: Tensor, weight_OE: Tensor, bias_O: Tensor, dtype: torch.dtype
    ) -> None:
        self.embedding_VE = embedding_VE.detach()
        # Not in int8: embeddings are not bounded, and the table is made once.
        self.multiply = product(weight_OE, bias_O, torch.float32 if dtype == torch.int8 else dtype)
        self.table_VO: Tensor | None = None
        fits = len(embedding_VE) * len(weight_OE) <= _MOST
        self._to_pay = len(embedding_VE) if fits else -1

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return [..., O] for tokens [...]; a new tensor."""
        if self.table_VO is None and 0 <= self._to_pay < tokens.numel():
            # As many products have been made as the table has rows. Its rows are what they were.
            self.table_VO = self.multiply(self.embedding_VE)
        if self.table_VO is not None:
            return torch.nn.functional.embedding(tokens, self.table_VO)
        if self._to_pay >= 0:
            self._to_pay -= tokens.numel()
        return self.multiply(torch.nn.functional.embedding(tokens, self.embedding_VE))
