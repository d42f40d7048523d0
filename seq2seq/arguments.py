"""What may be given on the command line, with its help."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from seq2seq import __version__

EXIT_USAGE = 2


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what was given; `command` is the name of the command. Exits with 2 on a mistake."""
    parser = _parser()
    parsed, further = parser.parse_known_args(arguments)
    # argparse does not expect overrides behind an option, as in `train CONFIG --resume a.b=c`.
    if hasattr(parsed, "overrides"):
        parsed.overrides += [text for text in further if not text.startswith("-")]
        further = [text for text in further if text.startswith("-")]
    if further:
        parser.error(f"unknown: {' '.join(further)}")
    return parsed


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected 1, 2, 3, ..., found '{text}'")
    return number


def _from_zero(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected 0, 1, 2, ..., found '{text}'")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="seq2seq",
        description="Train, use and measure attentional sequence-to-sequence translators.",
        epilog="seq2seq COMMAND --help tells more, with examples.",
    )
    parser.add_argument("--version", action="version", version=f"seq2seq {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_train(commands)
    _add_translate(commands)
    _add_evaluate(commands)
    _add_plot(commands)
    _command(
        commands,
        "reference",
        "print every key of the configuration with its default, as Markdown",
        "seq2seq reference > docs/configuration.md",
    )
    return parser


if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction["_Parser"]


def _command(
    commands: Commands,
    name: str,
    summary: str,
    examples: str,
    *,
    group: str = "",
) -> argparse.ArgumentParser:
    lines = "\n".join(f"  {line}" for line in examples.splitlines())
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=f"{group} {name}".strip())
    return parser


def _add_train(commands: Commands) -> None:
    parser = _command(
        commands,
        "train",
        "train a translator from a recipe",
        "seq2seq train configs/quickstart.yaml\n"
        "seq2seq train configs/quickstart.yaml run_dir=runs/luong model.style=luong\n"
        "seq2seq train configs/quickstart.yaml --resume\n"
        "seq2seq reference                       (every key with its default)",
    )
    parser.add_argument("config", help="YAML file of a recipe")
    parser.add_argument("overrides", nargs="*", metavar="section.key=value", help="changed keys")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    how.add_argument("--overwrite", action="store_true", help="delete the run that is there")


def _add_translate(commands: Commands) -> None:
    parser = _command(
        commands,
        "translate",
        "translate lines of text: one line in, one line out, in order",
        "echo '¿Dónde está el perro?' | seq2seq translate runs/quickstart\n"
        "seq2seq translate runs/quickstart -i spanish.txt -o english.txt --beam 8\n"
        "seq2seq translate runs/quickstart --format jsonl --attention < spanish.txt\n"
        "seq2seq translate runs/a runs/b -i spanish.txt             (an ensemble)\n"
        "seq2seq translate runs/quickstart --samples 16 --mbr chrf  (minimum Bayes risk)",
    )
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="run directory or checkpoint; several: ensemble"
    )
    parser.add_argument("-i", "--input", metavar="FILE", help="default: standard input")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    _add_search(parser)
    parser.add_argument(
        "--nbest", type=_positive, default=1, metavar="N",
        help="translations a line (text: N lines each); raises the beam to N where it is smaller",
    )  # fmt: skip
    parser.add_argument(
        "--alignments", metavar="FILE", help="write word links (i-j, words by white space)"
    )
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.add_argument("--attention", action="store_true", help="jsonl: with the attention matrix")
    parser.add_argument(
        "--long", choices=("split", "refuse"), default="split",
        help="a line longer than inference.max_source_length: split it at sentence ends, clause "
        "marks or spaces and join the translations, or end with an error",
    )  # fmt: skip
    parser.add_argument(
        "--invalid", choices=("replace", "refuse"), default="replace",
        help="a line that is not UTF-8: replace what is invalid by U+FFFD and say so, or end with "
        "an error",
    )  # fmt: skip
    parser.add_argument(
        "--samples", type=_positive, metavar="N", help="draw N translations instead of searching"
    )
    parser.add_argument("--temperature", type=float, metavar="T", help="of sampling")
    parser.add_argument(
        "--top-k", type=_from_zero, metavar="K", help="sample from the K likeliest pieces"
    )
    parser.add_argument("--top-p", type=float, metavar="P", help="sample from this share of mass")
    parser.add_argument("--seed", type=_from_zero, metavar="N", help="of sampling")
    parser.add_argument(
        "--mbr", choices=("chrf", "bleu"),
        help="choose among the samples or the beam the translation that agrees best with all",
    )  # fmt: skip


def _add_evaluate(commands: Commands) -> None:
    parser = _command(
        commands,
        "evaluate",
        "score a run on a test set: BLEU, chrF and TER by sacreBLEU",
        "seq2seq evaluate runs/quickstart data/sample/test.tsv\n"
        "seq2seq evaluate runs/tatoeba data/tatoeba/test.tsv --beam 1 --json\n"
        "seq2seq evaluate runs/tatoeba test.es --target test.en",
    )
    parser.add_argument("run", metavar="RUN", help="run directory or checkpoint")
    parser.add_argument(
        "test", metavar="TEST", help="TSV: source, target, further references; or the source side"
    )
    parser.add_argument("--target", metavar="FILE", help="the target side, line by line")
    parser.add_argument(
        "--single-reference", action="store_true", help="use the first reference only"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("-o", "--output", metavar="FILE", help="hypotheses; default: into the run")
    _add_search(parser)


def _add_search(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("search (defaults: the run's inference section)")
    group.add_argument("--beam", type=_positive, metavar="N", help="hypotheses kept; 1 is greedy")
    group.add_argument("--length-penalty", type=float, metavar="ALPHA")
    group.add_argument("--coverage-penalty", type=float, metavar="BETA")
    group.add_argument(
        "--no-repeat-ngram", type=_from_zero, metavar="N", help="forbid repeated n-grams"
    )
    group.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    group.add_argument("--precision", choices=("auto", "fp32", "bf16"), default="fp32")
    group.add_argument("--threads", type=_positive, metavar="N", help="CPU threads")


def _add_plot(commands: Commands) -> None:
    parser = commands.add_parser(
        "plot",
        help="draw pictures",
        epilog="example: seq2seq plot attention runs/quickstart '¿Dónde está el perro?'",
    )
    kinds = parser.add_subparsers(required=True, metavar="KIND")
    attention = _command(
        kinds,
        "attention",
        "draw the attention weights of a sentence's translation as a heat map",
        "seq2seq plot attention runs/quickstart '¿Dónde está el perro?' -o attention.png",
        group="plot",
    )
    attention.add_argument("run", metavar="RUN")
    attention.add_argument("sentence", metavar="SENTENCE")
    attention.add_argument(
        "-o", "--output", default="attention.png", metavar="FILE", help="PNG, SVG or PDF"
    )
    attention.add_argument("--beam", type=_positive, metavar="N")
