"""Measurements of training and decoding speed, and of the matrix products they are made of."""
