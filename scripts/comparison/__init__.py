"""This project compared with OpenNMT-py and JoeyNMT; README.md has the method."""
