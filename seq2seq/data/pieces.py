"""The pieces of a SentencePiece model, for those who cut words themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

SPACE_PIECE = "\u2581"  # SentencePiece's own sign for a space


class Pieces:
    """What a SentencePiece model can cut a word into."""

    def __init__(self, processor: Any) -> None:
        """Read the pieces, scores and bytes of a sentencepiece.SentencePieceProcessor."""
        special = (
            processor.IsControl, processor.IsUnknown, processor.IsUnused, processor.IsByte
        )  # fmt: skip
        ids = range(processor.GetPieceSize())
        usual = [i for i in ids if not any(is_special(i) for is_special in special)]
        self.ids: dict[str, int] = {processor.IdToPiece(i): i for i in usual}
        self.scores: dict[str, float] = {
            processor.IdToPiece(i): processor.GetScore(i) for i in usual
        }
        self.longest = max(map(len, self.ids), default=1)
        self._bytes = [i for i in ids if processor.IsByte(i)]  # in the order of their values
        self._unknown: int = processor.unk_id()
        self._processor = processor

    @property
    def are_merges(self) -> bool:
        """Whether the model is BPE: its scores are 0, -1, -2 ..., the order of the merges."""
        return all(score == int(score) for score in self.scores.values())

    def spell(self, symbols: Iterable[str]) -> list[int]:
        """Return the ids of pieces; what is no piece is in bytes, or one <unk> a run."""
        found: list[int] = []
        for symbol in symbols:
            known = self.ids.get(symbol)
            if known is not None:
                found.append(known)
            elif self._bytes:
                found += [self._bytes[value] for value in symbol.encode()]
            elif found[-1:] != [self._unknown]:
                found.append(self._unknown)
        return found

    def best(self, word: str) -> list[int]:
        """Return the ids of the best segmentation of a word."""
        ids: list[int] = self._processor.Encode(word, out_type=int, num_threads=1)
        return ids
