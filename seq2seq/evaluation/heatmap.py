"""Attention weights as a small HTML table, whose cells a style sheet colours."""

from __future__ import annotations

from html import escape

from seq2seq.evaluation.alignment import END
from seq2seq.inference.translation import Part


def heatmap(part: Part) -> str:
    """Return the weights of one translation: source pieces across, target pieces down.

    The style sheet is that of seq2seq.evaluation.page; the darker, the heavier, 1 the darkest. A
    model without attention has no heat map.
    """
    if part.weights is None:
        return ""
    head = "".join(f"<th><span>{_shown(piece)}</span></th>" for piece in part.source_pieces)
    rows = []
    for piece, weights in zip(part.target_pieces, part.weights.tolist(), strict=True):
        cells = "".join(_cell(weight) for weight in weights)
        rows.append(f"<tr><th>{_shown(piece)}</th>{cells}</tr>")
    return (
        '<div class="scroll"><table class="heat"><caption hidden>attention weights</caption>'
        f"<thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(weight: float) -> str:
    # Most cells are next to nothing; leaving their colour out keeps pages small.
    return f"<td style=--w:{weight:.2f}>" if weight >= 0.005 else "<td>"


def _shown(piece: str) -> str:
    if piece in (END, "<pad>"):
        return {END: "(end)", "<pad>": "(pad)"}[piece]
    return escape(piece.removeprefix("▁") or "▁" if piece.startswith("▁") else f"·{piece}")
