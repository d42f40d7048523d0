"""Show sentences of the grammar: `python -m seq2seq.data.grammar --show 50 --seed 3`."""

from __future__ import annotations

import argparse
from itertools import islice

from . import generate


def main() -> None:
    """Print pairs, one language under the other."""
    parser = argparse.ArgumentParser(prog="python -m seq2seq.data.grammar", description=__doc__)
    parser.add_argument("--show", type=int, default=20, metavar="N", help="how many pairs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--links", action="store_true", help="show the alignments too")
    options = parser.parse_args()
    for pair in islice(generate(options.seed), options.show):
        print(pair.source)
        print(f"    {pair.target}")
        if options.links:
            print("    " + " ".join(f"{i}-{j}" for i, j in pair.alignment))


if __name__ == "__main__":
    main()
