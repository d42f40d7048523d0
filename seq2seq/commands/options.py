"""Options that several commands share: search, device, workers."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from inspect import getdoc
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from seq2seq.errors import EXIT_USER, UserError, one_line

if TYPE_CHECKING:
    from seq2seq.inference.translator import Translator
    from seq2seq.processes import Parallelism


EXIT_CODES = {"finished": 0, "early": 0, "interrupted": 130, "terminated": 143}
MAX_THREADS = 1024


class Parser(argparse.ArgumentParser):
    """A parser that prints errors in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USER, f"{self.prog}: {one_line(message)} (see {self.prog} --help)\n")


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_command(
    commands: Commands,
    name: str,
    action: Callable[[argparse.Namespace], int],
    text: str | None = None,
) -> Parser:
    """Add a command; `text`, or else the docstring of `action`, is a sentence and examples.

    `action` takes the arguments and returns the exit code.
    """
    text = text or getdoc(action) or name  # python -OO: no docstrings
    description, _, examples = text.partition("\n\n")
    description = " ".join(description.split())
    parser = commands.add_parser(
        name,
        help=description[0].lower() + description[1:].rstrip("."),
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(action=action, parser=parser)
    return parser


def positive(text: str) -> int:
    """Parse 1, 2, 3, ..."""
    # Nine digits are more than any option needs, and fit into 32 bits.
    if text.isdecimal() and len(text) <= 9 and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"expected 1, 2, 3, ..., found '{text}'")


def from_zero(text: str) -> int:
    """Parse 0, 1, 2, ..."""
    if text.isdecimal() and len(text) <= 9:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected 0, 1, 2, ..., found '{text}'")


def from_0_to_1(text: str) -> float:
    """Parse a number from 0 to 1."""
    with contextlib.suppress(ValueError):
        if 0 <= float(text) <= 1:
            return float(text)
    raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, found '{text}'")


def _workers(text: str) -> int | None:
    """Parse a number of workers; None stands for auto."""
    if text == "auto":
        return None
    if text.isdecimal():
        return positive(text)
    raise argparse.ArgumentTypeError(f"expected auto or 1, 2, 3, ..., found '{text}'")


def _threads(text: str) -> int:
    number = positive(text)
    if number > MAX_THREADS:
        raise argparse.ArgumentTypeError(f"expected {MAX_THREADS} or less, found {number}")
    return number


_TEST = {"metavar": "TEST", "help": "TSV: source, target, further references; or the source side"}
# The arguments of several commands, by name; `add_arguments` adds them to a parser.
_SHARED: dict[str, dict[str, Any]] = {
    "run": {"metavar": "RUN", "help": "run directory, checkpoint, model name or hf:user/name"},
    "runs": {
        "metavar": "RUN",
        "nargs": "+",
        "help": "run directory, checkpoint, model name or hf:user/name; several: ensemble",
    },
    "test": _TEST,
    "--test": _TEST,
    "--target": {"metavar": "FILE", "help": "the target side, one sentence per line"},
    "--json": {"action": "store_true", "help": "print JSON"},
    "--words": {
        "action": "store_true",
        "help": "show weights of words instead of pieces (sums over source pieces, means over "
        "target pieces)",
    },
    "--workers": {
        "type": _workers,
        "metavar": "N",
        "help": "translate in N processes with one CPU thread each, which is faster than one "
        "process with N threads; does not affect the output. auto, the default: for files of 300 "
        "lines or more, one for each core, if the memory suffices; one with PyTorch, --threads or "
        "standard input. Under torchrun, its processes share the lines instead",
    },
    "--beam": {
        "type": positive,
        "metavar": "N",
        "help": "beam size; 1 is greedy search; default: that of the recipe",
    },
    "--length-penalty": {
        "type": float,
        "metavar": "ALPHA",
        "help": "divide scores by ((5 + length) / 6)**ALPHA; larger values prefer longer "
        "translations",
    },
    "--coverage-penalty": {
        "type": float,
        "metavar": "BETA",
        "help": "larger values prefer translations whose attention covers every source piece",
    },
    "--no-repeat-ngram": {
        "type": from_zero,
        "metavar": "N",
        "help": "forbid repeated n-grams of size N",
    },
    "--no-split-sentences": {
        "dest": "split_sentences",
        "action": "store_false",
        "default": None,
        "help": "translate each line as a whole, not sentence by sentence",
    },
    "--glossary": {
        "metavar": "FILE",
        "help": "terms that must be translated as FILE says: a term, a tab and its translation on "
        "each line",
    },
    "--device": {"default": "auto", "help": "auto (a GPU if there is one), cpu, cuda or cuda:N"},
    "--precision": {
        "choices": ("auto", "fp32", "bf16", "int8"),
        "default": "fp32",
        "help": "number format of matrix products; int8 needs a CPU, bf16 needs PyTorch; auto: "
        "int8 on CPUs with AVX2 if it is known to cost less than 0.2 BLEU (docs/export.md), bf16 "
        "on GPUs, otherwise fp32; default: %(default)s",
    },
    "--backend": {
        "choices": ("auto", "onnx", "torch"),
        "default": "auto",
        "help": "onnx: ONNX Runtime on the CPU; torch: PyTorch; "
        "default: onnx on CPUs, torch on GPUs and for bf16",
    },
    "--threads": {
        "type": _threads,
        "metavar": "N",
        "help": "CPU threads; default: 1 with onnx, PyTorch's own choice with torch",
    },
}


def add_arguments(parser: argparse._ActionsContainer, *names: str, **changes: Any) -> None:
    """Add arguments that several commands share; `changes` replace values for argparse."""
    for name in names:
        parser.add_argument(name, **_SHARED[name] | changes)


def add_search(parser: argparse.ArgumentParser) -> None:
    """Add the options of search and of the device."""
    group = parser.add_argument_group("search (defaults: the run's inference section)")
    add_arguments(
        group, "--beam", "--length-penalty", "--coverage-penalty", "--no-repeat-ngram",
        "--no-split-sentences",
    )  # fmt: skip
    add_device(parser)


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the options of the device, as load_translator reads them."""
    group = parser.add_argument_group("device")
    add_arguments(group, "--device", "--precision", "--backend", "--threads")


@contextlib.contextmanager
def parallelism(arguments: argparse.Namespace) -> Iterator[Parallelism]:
    """Yield how to divide the work: among workers, or among the ranks of torchrun."""
    from seq2seq.processes import Parallelism, init_process_group

    with init_process_group() as ranks:
        yield Parallelism(1 if arguments.threads else arguments.workers, ranks)


def search_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the given search options, as Translator.options takes them."""
    names = ("length_penalty", "coverage_penalty", "no_repeat_ngram", "split_sentences")
    found = {"beam_size": arguments.beam} | {name: getattr(arguments, name) for name in names}
    if path := getattr(arguments, "glossary", None):
        from seq2seq.inference.required import Glossary

        found["glossary"] = Glossary.read(path)
    return found


def load_translator(arguments: argparse.Namespace, *runs: str) -> Translator:
    """Return a translator of a run or an ensemble, as the options say."""
    from seq2seq.inference.translator import Translator

    threads = arguments.threads
    if (getattr(arguments, "workers", None) or 1) > 1:
        if threads:
            raise UserError("--workers: each worker has one thread; remove --threads")
        threads = 1
    chosen = {name: getattr(arguments, name) for name in ("device", "precision", "backend")}
    return Translator.load(*runs, **chosen, threads=threads)
