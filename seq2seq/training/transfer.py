"""Give a model other tokenizers: keep what it has learned, and make embeddings of new pieces.

A new piece begins as the mean of the old pieces that spell it (Gee et al. 2022, "Fast Vocabulary
Transfer for Language Model Compression", section 2).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from seq2seq.data.tokenizer import SPACE_PIECE, Tokenizer
from seq2seq.model.translation_model import TranslationModel

Tokenizers = tuple[Tokenizer, Tokenizer]  # of the source and the target

_OF_PIECES = ("source_embedding.weight", "target_embedding.weight", "output_weight", "output_bias")


@torch.no_grad()
def transfer(
    old: TranslationModel, old_tokenizers: Tokenizers, new: TranslationModel, tokenizers: Tokenizers
) -> None:
    """Set the weights of a model from those of another one with other tokenizers.

    The models may differ only in their vocabularies. If the new model has one table where the old
    one has several, a row is the sum of what each of them gives; if one of them spells the piece
    with fewer old pieces, it alone counts. Pieces that no old pieces spell keep their values, as do
    the output biases.
    """
    theirs = dict(old.named_parameters())
    for name, parameter in new.named_parameters():
        if name not in _OF_PIECES:
            parameter.copy_(theirs[name])
    sources, targets = (
        [_spell(piece, before.ids) for piece in _pieces(after, before)]
        for before, after in zip(old_tokenizers, tokenizers, strict=True)
    )
    tables = (
        (new.source_embedding.weight, old.source_embedding.weight, sources),
        (new.target_embedding.weight, old.target_embedding.weight, targets),
        (new.output_weight, old.output_weight, targets),
    )
    for table in {id(table): table for table, _, _ in tables}.values():
        # A table that the old model shares as well counts once.
        parts = {id(part): (part, spelled) for shared, part, spelled in tables if shared is table}
        for row in range(len(table)):
            known = [(part, spelled[row]) for part, spelled in parts.values() if spelled[row]]
            fewest = min((len(ids) for _, ids in known), default=0)
            means = [part[ids].mean(0) for part, ids in known if len(ids) == fewest]
            if means:
                table[row] = torch.stack(means).sum(0)


def _pieces(after: Tokenizer, before: Tokenizer) -> list[str]:
    """Return the new pieces as the old tokenizer writes them."""
    pieces = after.pieces(range(after.vocab_size))
    if after.marks_case == before.marks_case:
        return pieces
    texts = (before.spell(after.restore(piece.replace(SPACE_PIECE, " "))) for piece in pieces)
    return [
        piece if piece in before.ids else text.replace(" ", SPACE_PIECE)  # bytes stay as they are
        for piece, text in zip(pieces, texts, strict=True)
    ]


def _spell(piece: str, ids: Mapping[str, int]) -> list[int]:
    """Return the fewest old pieces that spell a new one, none if there are no such pieces."""
    if piece in ids:
        return [ids[piece]]
    best: list[list[int] | None] = [[]]  # the number n spells the first n characters
    for end in range(1, len(piece) + 1):
        found = [
            [*before, ids[piece[start:end]]]
            for start in range(end)
            if (before := best[start]) is not None and piece[start:end] in ids
        ]
        best.append(min(found, key=len, default=None))
    return best[-1] or []
