"""Trained models as ONNX graphs, for translation without PyTorch."""

from typing import Literal, get_args

Precision = Literal["fp32", "int8"]  # of matrix products
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
