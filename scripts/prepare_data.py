#!/usr/bin/env python3
"""Prepare a corpus: TAB-separated train.tsv, valid.tsv and test.tsv."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from corpora.clones import ENJA, MULTI30K, prepare_clone, text_folder
from corpora.tatoeba.prepare import FILES, METADATA, prepare_tatoeba
from seq2seq import cli
from seq2seq.commands.options import Parser, positive
from seq2seq.errors import DataError
from seq2seq.files import check_writable, make_folder

EXAMPLES = """examples:
  prepare_data.py tatoeba http://www.manythings.org/anki/spa-eng.zip
  prepare_data.py tatoeba spa-eng.tar.gz
  prepare_data.py tatoeba spa.txt --out data/tatoeba --valid 1000 --test 1000
  prepare_data.py multi30k multi30k-dataset --out data/multi30k
  prepare_data.py enja small_parallel_enja --out data/enja
  prepare_data.py general clones --out data/general
  prepare_data.py filter data/general/story.tsv es-en en-es --out data/general/story-filtered.tsv
  prepare_data.py phrases data/tatoeba/train.tsv train.links --out data/phrases.tsv
  prepare_data.py sample --out data/sample --seed 2
  prepare_data.py sample --show 50 --seed 3
  prepare_data.py challenge --force
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code, as seq2seq.cli.main does."""
    parser = Parser(
        prog="prepare_data.py",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(action=_run, parser=parser)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    tatoeba = commands.add_parser(
        "tatoeba",
        help="the Spanish-English list of manythings.org/anki",
        description="Download, clean and split the Spanish-English list of the Tatoeba project. No "
        "sentence of valid or test, nor a translation of one, is in train.",
    )
    tatoeba.add_argument(
        "source", metavar="SOURCE", help="address or file: spa-eng.zip, .tar.gz, spa.txt"
    )
    tatoeba.add_argument("--sha256", metavar="HEX", help="refuse a SOURCE with another SHA-256")
    _add_output_options(tatoeba, "data/tatoeba", rows=2000)
    tatoeba.set_defaults(run=_tatoeba)
    for name, text, layout in (
        ("multi30k", "the German-English captions of Multi30k", MULTI30K),
        ("enja", "50,000 English-Japanese pairs, the Japanese without spaces", ENJA),
    ):
        clone = commands.add_parser(
            name,
            help=text,
            description=f"Write {text}, with the publisher's splits, from a clone of "
            f"https://github.com/{layout.repository}.",
        )
        clone.add_argument(
            "clone", type=Path, metavar="CLONE", help="folder of the clone, or of its texts"
        )
        _add_folder(clone, f"data/{name}")
        clone.set_defaults(run=_clone, layout=layout)
    general = commands.add_parser(
        "general",
        help="textbooks, manuals and documentation in Spanish and English",
        description="Read, clean and split the text of the repositories that docs/models.md lists, "
        "from clones of them. For those that are missing, the commands that make them are printed.",
    )
    general.add_argument(
        "clones", type=Path, metavar="CLONES", help="folder with a folder OWNER-NAME for each clone"
    )
    general.add_argument(
        "--held-out",
        type=Path,
        metavar="FILE",
        nargs="+",
        default=[Path(f"data/tatoeba/{split}.tsv") for split in ("valid", "test")],
        help="Spanish, English, further references: no sentence of them is in train "
        "(default: data/tatoeba/valid.tsv and test.tsv)",
    )
    general.add_argument(
        "--skip-missing", action="store_true", help="do without the clones that are missing"
    )
    _add_folder(general, "data/general")
    general.set_defaults(run=_general)
    likely = commands.add_parser(
        "filter",
        help="a corpus without the pairs that two models find unlikely",
        description="Write the Spanish-English pairs of a corpus that are translations of each "
        "other, as far as two models can tell (docs/corpora.md).",
    )
    likely.add_argument("corpus", metavar="CORPUS", help="TSV: Spanish, English")
    likely.add_argument("models", metavar="RUN", nargs=2, help="from Spanish, and from English")
    likely.add_argument("--out", type=Path, metavar="FILE", required=True, help="TSV to write")
    likely.add_argument(
        "--most", type=float, metavar="X", default=5.0,
        help="maximum mean cross-entropy, in nats for each piece; default: %(default)s",
    )  # fmt: skip
    likely.add_argument(
        "--dropped", type=Path, metavar="FILE", help="TSV for unlikely pairs: score, pair"
    )
    likely.set_defaults(run=_filter)
    phrases = commands.add_parser(
        "phrases",
        help="words and short phrases of a corpus, by its word links",
        description="Write the pairs of words and short phrases that the links of a corpus "
        "support, such as por favor and please. Two models write the links: seq2seq align es-en "
        "CORPUS --reverse en-es --words marks -o LINKS",
    )
    phrases.add_argument("corpus", metavar="CORPUS", help="TSV: source, target")
    phrases.add_argument("links", metavar="LINKS", help="links (i-j), one line for each pair")
    phrases.add_argument("--out", type=Path, metavar="FILE", required=True, help="TSV to write")
    phrases.add_argument(
        "--longest", type=positive, metavar="N", default=4,
        help="maximum words on a side; default: %(default)s",
    )  # fmt: skip
    phrases.add_argument(
        "--fewest", type=positive, metavar="N", default=3,
        help="minimum occurrences of a pair (of two single words: one less); default: %(default)s",
    )  # fmt: skip
    phrases.set_defaults(run=_phrases)
    sample = commands.add_parser(
        "sample",
        help="sentences of a small grammar, with alignments",
        description="Generate Spanish-English pairs with gold word alignments from a grammar. The "
        "same seed gives the same files.",
    )
    sample.add_argument(
        "--train",
        type=positive,
        metavar="N",
        default=48_000,
        help="training pairs (default: %(default)s)",
    )
    _add_output_options(sample, "data/sample", rows=1000)
    sample.add_argument("--show", type=positive, metavar="N", help="print N pairs; write nothing")
    sample.add_argument("--links", action="store_true", help="with --show: print alignments too")
    sample.set_defaults(run=_sample)
    challenge = commands.add_parser(
        "challenge",
        help="minimal pairs of the grammar, by phenomenon",
        description="Generate right and wrong translations for seq2seq evaluate --challenge, of "
        "sentences that the sample corpus in --out lacks. The same corpus gives the same files.",
    )
    _add_folder(challenge, "data/sample")
    challenge.set_defaults(run=_challenge)
    return cli.main(argv, parser)


def _run(options: argparse.Namespace) -> int:
    options.run(options)
    return 0


def _add_output_options(parser: argparse.ArgumentParser, folder: str, *, rows: int) -> None:
    """Add the options that say what to write, and where."""
    for split in ("valid", "test"):
        parser.add_argument(
            f"--{split}",
            type=positive,
            metavar="N",
            default=rows,
            help="rows (default: %(default)s)",
        )
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: %(default)s)")
    _add_folder(parser, folder)


def _add_folder(parser: argparse.ArgumentParser, folder: str) -> None:
    parser.add_argument(
        "--out", type=Path, metavar="DIR", default=Path(folder), help="default: %(default)s"
    )
    parser.add_argument("--force", action="store_true", help="overwrite existing files")


def _check_output(directory: Path, files: Sequence[str] = FILES, *, force: bool) -> None:
    """Make a folder for a corpus. Raises DataError if it has one and `force` is not given."""
    existing = [name for name in (*files, METADATA) if (directory / name).exists()]
    if existing and not force:
        raise DataError(
            f"{directory} has {', '.join(existing)} already; choose another --out, or pass --force "
            "to overwrite them"
        )
    make_folder(directory)


def _tatoeba(options: argparse.Namespace) -> None:
    _check_output(options.out, force=options.force)
    prepare_tatoeba(
        options.source,
        options.out,
        valid=options.valid,
        test=options.test,
        seed=options.seed,
        sha256=options.sha256,
    )


def _clone(options: argparse.Namespace) -> None:
    text_folder(options.layout, options.clone)
    _check_output(options.out, force=options.force)
    prepare_clone(options.layout, options.clone, options.out)


def _general(options: argparse.Namespace) -> None:
    from corpora.general import prepare  # its libraries are not needed otherwise

    _check_output(options.out, prepare.FILES, force=options.force)
    prepare.prepare_general(
        options.clones,
        options.out,
        held_out=options.held_out,
        skip_missing=options.skip_missing,
    )


def _filter(options: argparse.Namespace) -> None:
    from corpora.general.filtering import write_filtered

    files = {"output": options.out, "dropped": options.dropped}
    for path in filter(None, files.values()):
        check_writable(path, options.corpus)
    print(write_filtered(options.corpus, tuple(options.models), most=options.most, **files))


def _phrases(options: argparse.Namespace) -> None:
    from corpora.general.phrases import write_phrases

    counts = {"longest": options.longest, "fewest": options.fewest}
    check_writable(options.out, options.corpus, options.links)
    print(write_phrases(options.corpus, options.links, options.out, **counts))


def _sample(options: argparse.Namespace) -> None:
    from corpora.sample import generate, write_sample  # the other command needs none of it
    from seq2seq.inference.words import format_links

    if options.links and options.show is None:
        raise DataError("--links requires --show N")
    if options.show is None:
        _check_output(options.out, force=options.force)
        sizes = {split: getattr(options, split) for split in ("train", "valid", "test")}
        print(write_sample(options.out, seed=options.seed, **sizes))
        return
    for pair in islice(generate(options.seed), options.show):
        print(f"{pair.source}\n    {pair.target}")
        if options.links:
            print(f"    {format_links(pair.alignment)}")


def _challenge(options: argparse.Namespace) -> None:
    from corpora.sample.challenge import FILES as names
    from corpora.sample.challenge import write_challenge

    _check_output(options.out, tuple(names.values()), force=options.force)
    print(write_challenge(options.out))


if __name__ == "__main__":
    sys.exit(main())
