"""The command line: parse, call, print."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from seq2seq.errors import UserError

EXIT_USER, EXIT_INTERRUPTED, EXIT_TERMINATED = 2, 130, 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 for a user's mistake, 130 or 143 for a training that was ended."""
    parsed = _parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s  %(message)s", datefmt="%H:%M:%S", force=True
    )
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        return command(parsed)
    except UserError as error:
        print(f"seq2seq: {error}", file=sys.stderr)
        return EXIT_USER
    except BrokenPipeError:
        # Whoever read our output has gone, as `| head` does; that is no fault.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _train(arguments: argparse.Namespace) -> int:
    from seq2seq.config import load_config
    from seq2seq.pipeline import train

    config = load_config(arguments.config, arguments.overrides)
    ended = train(config, resume=arguments.resume, overwrite=arguments.overwrite)
    run = config.run_dir
    if ended in ("interrupted", "terminated"):
        print(
            f"{ended}; saved. Go on with: seq2seq train {arguments.config} --resume",
            file=sys.stderr,
        )
        return EXIT_INTERRUPTED if ended == "interrupted" else EXIT_TERMINATED
    why = "no better metric for training.patience validations" if ended == "early" else "done"
    print(f"training ended: {why}. Translate with: seq2seq translate {run}", file=sys.stderr)
    return 0


def _translate(arguments: argparse.Namespace) -> int:
    from seq2seq.inference.service import translate_files

    translate_files(arguments)
    return 0


def _evaluate(arguments: argparse.Namespace) -> int:
    from seq2seq.evaluation.evaluate import evaluate_run

    print(evaluate_run(arguments))
    return 0


def _plot_attention(arguments: argparse.Namespace) -> int:
    from seq2seq.evaluation.plots import plot_sentence

    plot_sentence(arguments.run, arguments.sentence, Path(arguments.output), beam=arguments.beam)
    print(arguments.output)
    return 0


def _reference(arguments: argparse.Namespace) -> int:
    from seq2seq.reference import reference

    print(reference(), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="seq2seq",
        description="Train, use and measure attentional sequence-to-sequence translators.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_train(commands)
    _add_translate(commands)
    _add_evaluate(commands)
    _add_plot(commands)
    _command(
        commands,
        "reference",
        _reference,
        "print every key of the configuration with its default, as Markdown",
        "seq2seq reference > docs/configuration.md",
    )
    return parser


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _command(
    commands: Commands,
    name: str,
    function: Callable[[argparse.Namespace], int],
    summary: str,
    examples: str,
) -> argparse.ArgumentParser:
    lines = "\n".join(f"  {line}" for line in examples.splitlines())
    parser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=function)
    return parser


def _add_train(commands: Commands) -> None:
    parser = _command(
        commands,
        "train",
        _train,
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
        _translate,
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
        "--nbest", type=int, default=1, metavar="N", help="translations a line (text: N lines each)"
    )
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
        "--samples", type=int, metavar="N", help="draw N translations instead of searching"
    )
    parser.add_argument("--temperature", type=float, default=1.0, help="of sampling")
    parser.add_argument("--top-k", type=int, default=0, help="sample from the K likeliest pieces")
    parser.add_argument("--top-p", type=float, default=1.0, help="sample from this share of mass")
    parser.add_argument("--seed", type=int, default=1, help="of sampling")
    parser.add_argument(
        "--mbr", choices=("chrf", "bleu"),
        help="choose among the samples or the beam the translation that agrees best with all",
    )  # fmt: skip


def _add_evaluate(commands: Commands) -> None:
    parser = _command(
        commands,
        "evaluate",
        _evaluate,
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
    group.add_argument("--beam", type=int, metavar="N", help="hypotheses kept; 1 is greedy")
    group.add_argument("--length-penalty", type=float, metavar="ALPHA")
    group.add_argument("--coverage-penalty", type=float, metavar="BETA")
    group.add_argument("--no-repeat-ngram", type=int, metavar="N", help="forbid repeated n-grams")
    group.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    group.add_argument("--precision", choices=("auto", "fp32", "bf16"), default="fp32")
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads")


def _add_plot(commands: Commands) -> None:
    parser = commands.add_parser("plot", help="draw pictures")
    kinds = parser.add_subparsers(required=True, metavar="KIND")
    attention = _command(
        kinds,
        "attention",
        _plot_attention,
        "draw the attention weights of a sentence's translation as a heat map",
        "seq2seq plot attention runs/quickstart '¿Dónde está el perro?' -o attention.png",
    )
    attention.add_argument("run", metavar="RUN")
    attention.add_argument("sentence", metavar="SENTENCE")
    attention.add_argument(
        "-o", "--output", default="attention.png", metavar="FILE", help="PNG, SVG or PDF"
    )
    attention.add_argument("--beam", type=int, metavar="N")
