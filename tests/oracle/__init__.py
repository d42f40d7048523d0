"""A slow reference implementation of the model in NumPy, and the cases to compare it in.

It follows the papers' formulas: one sentence, one step and one source position at a time, without
padding. It reads only the weights of the model.
"""
