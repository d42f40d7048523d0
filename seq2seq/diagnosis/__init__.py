"""Checks that find what is wrong with a run, and faults that show that they do."""
