"""Trained models as ONNX graphs, for translation without PyTorch."""
