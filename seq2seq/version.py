"""The version of the program; a module of its own because every layer may import it."""

VERSION = "0.1.0"
