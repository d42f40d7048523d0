"""`seq2seq translate`: lines to lines."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from seq2seq.commands.options import (
    Commands,
    add_command,
    add_search,
    add_workers,
    from_zero,
    parallelism,
    positive,
    search_options,
)
from seq2seq.errors import UserError

if TYPE_CHECKING:
    from seq2seq.parallel import Parallelism


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "translate",
        "translate lines of text: one line in, one line out, in order",
        "echo '¿Dónde está el perro?' | seq2seq translate runs/quickstart\n"
        "seq2seq translate runs/quickstart -i spanish.txt -o english.txt --beam 8\n"
        "seq2seq translate runs/quickstart --format jsonl --attention < spanish.txt\n"
        "seq2seq translate runs/quickstart -i spanish.txt -o english.txt --workers 4\n"
        "torchrun --nproc-per-node 4 -m seq2seq translate runs/quickstart -i in.txt -o out.txt\n"
        "seq2seq translate runs/a runs/b -i spanish.txt             (an ensemble)\n"
        "seq2seq translate runs/quickstart --samples 16 --mbr chrf  (minimum Bayes risk)",
        action=_translate,
    )
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="run directory or checkpoint; several: ensemble"
    )
    parser.add_argument("-i", "--input", metavar="FILE", help="default: standard input")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    add_search(parser)
    add_workers(parser)
    parser.add_argument(
        "--nbest", type=positive, default=1, metavar="N",
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
        "--samples", type=positive, metavar="N", help="draw N translations instead of searching"
    )
    parser.add_argument("--temperature", type=float, metavar="T", help="of sampling")
    parser.add_argument(
        "--top-k", type=from_zero, metavar="K", help="sample from the K likeliest pieces"
    )
    parser.add_argument("--top-p", type=float, metavar="P", help="sample from this share of mass")
    parser.add_argument("--seed", type=from_zero, metavar="N", help="of sampling")
    parser.add_argument(
        "--mbr", choices=("chrf", "bleu"),
        help="choose among the samples or the beam the translation that agrees best with all",
    )  # fmt: skip


def _translate(arguments: argparse.Namespace) -> int:
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
    with parallelism(arguments) as shared:
        _translate_shared(arguments, shared, drawing)
    return 0


def _translate_shared(
    arguments: argparse.Namespace, shared: Parallelism, drawing: dict[str, Any]
) -> None:
    from seq2seq.evaluation.alignment import pharaoh
    from seq2seq.inference.service import Request, translate_files
    from seq2seq.inference.text import Sampling
    from seq2seq.inference.translator import Translator

    translator = Translator.load(
        *arguments.runs, device=arguments.device, precision=arguments.precision
    )
    request = Request(
        translator.options(
            **search_options(arguments),
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
        parallelism=shared,
    )
