"""A second, slow implementation of the model in NumPy, and the cases that it is compared in.

It is written from the papers' formulas: one sentence at a time, one step at a time, one source
position at a time, without padding. Of the model it reads the weights only.
"""
