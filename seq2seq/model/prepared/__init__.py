"""Trained models laid out for translating: the functions of seq2seq.model, up to rounding."""
