"""Pictures: attention weights, learning curves, BLEU by source length."""

from __future__ import annotations

from seq2seq.evaluation.plots.attention import plot_attention, plot_sentences
from seq2seq.evaluation.plots.figure import check_picture, run_names
from seq2seq.evaluation.plots.length import plot_length
from seq2seq.evaluation.plots.training import plot_training

__all__ = [
    "check_picture", "plot_attention", "plot_length", "plot_sentences", "plot_training",
    "run_names",
]  # fmt: skip
