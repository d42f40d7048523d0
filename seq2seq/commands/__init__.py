"""The commands of the program, one a module: what may be given, and what is then called."""
