"""The command line: parse, call, print."""

from __future__ import annotations

import argparse
import io
import logging
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from seq2seq.arguments import parse
from seq2seq.errors import UserError

EXIT_USER, EXIT_INTERRUPTED, EXIT_TERMINATED = 2, 130, 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 for a user's mistake, 130 or 143 for a training that was ended."""
    # OpenMP's threads wait for each other by spinning, which brings training to a halt as soon as
    # another program wants a core. A short spin costs nothing on idle cores and shares busy ones.
    # It has to be said before torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    parsed = parse(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s  %(message)s", datefmt="%H:%M:%S", force=True
    )
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    try:
        code = COMMANDS[parsed.command](parsed)
        sys.stdout.flush()
        return code
    except UserError as error:
        return _fail(str(error))
    except BrokenPipeError:
        # Whoever read our output has gone, as `| head` does; that is no fault.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # A full disk, or rights that are missing: nothing that the program could mend.
        return _fail(": ".join(filter(None, (error.filename, error.strerror or str(error)))))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _fail(message: str) -> int:
    print(f"seq2seq: {' '.join(message.split())}", file=sys.stderr)
    return EXIT_USER


def _train(arguments: argparse.Namespace) -> int:
    from seq2seq.config import load_config
    from seq2seq.pipeline import train

    config = load_config(arguments.config, arguments.overrides)
    ended = train(config, resume=arguments.resume, overwrite=arguments.overwrite)
    if ended in ("interrupted", "terminated"):
        again = shlex.join([arguments.config, *arguments.overrides])
        print(f"{ended}; saved. Go on with: seq2seq train {again} --resume", file=sys.stderr)
        return EXIT_INTERRUPTED if ended == "interrupted" else EXIT_TERMINATED
    why = "no better metric for training.patience validations" if ended == "early" else "done"
    translate = shlex.join(["seq2seq", "translate", config.run_dir])
    print(f"training ended: {why}. Translate with: {translate}", file=sys.stderr)
    return 0


def _translate(arguments: argparse.Namespace) -> int:
    from seq2seq.evaluation.alignment import pharaoh
    from seq2seq.inference.service import Request, translate_files
    from seq2seq.inference.translation import Sampling
    from seq2seq.inference.translator import Translator

    drawing = {
        name: value
        for name in ("temperature", "top_k", "top_p", "seed")
        if (value := getattr(arguments, name)) is not None
    }
    if drawing and not arguments.samples:
        raise UserError(
            f"--{next(iter(drawing)).replace('_', '-')} is of sampling; add --samples N"
        )
    if arguments.samples and arguments.nbest > 1:
        raise UserError("--nbest is of the beam; with --samples N there are N translations a line")
    if arguments.attention and arguments.format != "jsonl":
        raise UserError("--attention is a matrix; add --format jsonl")
    _set_threads(arguments)
    translator = Translator.load(
        *arguments.runs, device=arguments.device, precision=arguments.precision
    )
    request = Request(
        translator.options(
            **_search(arguments),
            nbest=arguments.nbest,
            keep_weights=bool(arguments.alignments or arguments.attention),
        ),
        sampling=Sampling(arguments.samples, **drawing) if arguments.samples else None,
        mbr=arguments.mbr,
        refuse_long=arguments.long == "refuse",
        refuse_invalid=arguments.invalid == "refuse",
        format=arguments.format,
        attention=arguments.attention,
    )
    translate_files(
        translator,
        request,
        source=arguments.input,
        output=arguments.output,
        alignments=arguments.alignments,
        links=pharaoh,
    )
    return 0


def _evaluate(arguments: argparse.Namespace) -> int:
    from seq2seq.evaluation.evaluate import evaluate, read_test, write_hypotheses
    from seq2seq.inference.translator import Translator, run_of

    _set_threads(arguments)
    translator = Translator.load(
        arguments.run, device=arguments.device, precision=arguments.precision
    )
    pairs = read_test(
        arguments.test,
        translator.config.data,
        target=arguments.target,
        single_reference=arguments.single_reference,
    )
    result = evaluate(translator, pairs, translator.options(**_search(arguments)))
    beside = run_of(Path(arguments.run)).path / f"{Path(arguments.test).stem}.hypotheses.txt"
    path = Path(arguments.output) if arguments.output else beside
    write_hypotheses(path, result.hypotheses)
    print(result.as_json(path) if arguments.json else result.as_text(path))
    return 0


def _plot_attention(arguments: argparse.Namespace) -> int:
    from seq2seq.evaluation.plots import plot_sentence
    from seq2seq.inference.translator import Translator

    path = Path(arguments.output)
    plot_sentence(Translator.load(arguments.run), arguments.sentence, path, beam=arguments.beam)
    print(path)
    return 0


def _reference(arguments: argparse.Namespace) -> int:
    from seq2seq.reference import reference

    print(reference(), end="")
    return 0


def _set_threads(arguments: argparse.Namespace) -> None:
    if arguments.threads:
        import torch

        torch.set_num_threads(arguments.threads)


def _search(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "beam_size": arguments.beam,
        "length_penalty": arguments.length_penalty,
        "coverage_penalty": arguments.coverage_penalty,
        "no_repeat_ngram": arguments.no_repeat_ngram,
    }


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "train": _train,
    "translate": _translate,
    "evaluate": _evaluate,
    "plot attention": _plot_attention,
    "reference": _reference,
}
