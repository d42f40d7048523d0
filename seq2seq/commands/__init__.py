"""The commands of the program, one per module: parse arguments, call the package, print."""
