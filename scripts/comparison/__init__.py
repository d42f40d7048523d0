"""This project compared with OpenNMT-py and JoeyNMT; docs/comparison.md has the method."""
