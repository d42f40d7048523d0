"""Translate lines of text, sentence by sentence: one line in, one line out, in order.

examples:
  echo '¿Dónde está el perro?' | seq2seq translate runs/quickstart
  seq2seq translate runs/quickstart -i spanish.txt -o english.txt --beam 8
  seq2seq translate runs/quickstart --format jsonl --attention < spanish.txt
  seq2seq translate runs/quickstart -i spanish.txt -o english.txt --workers 4   (not all cores)
  torchrun --nproc-per-node 4 -m seq2seq translate runs/quickstart -i in.txt -o out.txt
  seq2seq translate runs/quickstart -i spanish.txt --glossary terms.tsv
  seq2seq translate runs/a runs/b -i spanish.txt             (an ensemble)
  seq2seq translate runs/quickstart --samples 16 --mbr chrf  (minimum Bayes risk)
  echo '{"text": "No lo veo.", "prefix": "I can"}' | seq2seq translate runs/quickstart \\
    --input-format jsonl
"""

from __future__ import annotations

import argparse

from seq2seq.commands import options
from seq2seq.errors import UserError


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "translate", _translate, __doc__)
    options.add_arguments(parser, "runs")
    parser.add_argument("-i", "--input", metavar="FILE", help="default: standard input")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    parser.add_argument(
        "--input-format", choices=("text", "jsonl"), default="text",
        help="jsonl: each line is a JSON object with a text and, optionally, the prefix of its "
        "translation; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--prefix", metavar="FILE",
        help="each translation begins with exactly the text on its line of FILE (empty: any "
        "translation), which may end within a word; a space at its end completes the word",
    )  # fmt: skip
    options.add_arguments(parser, "--glossary")
    options.add_search(parser)
    options.add_arguments(parser, "--workers")
    parser.add_argument(
        "--nbest", type=options.positive, default=1, metavar="N",
        help="write the N best translations of each line (as text, N lines); a smaller beam is "
        "raised to N",
    )  # fmt: skip
    parser.add_argument("--format", choices=("text", "jsonl"), default="text")
    parser.add_argument(
        "--attention", action="store_true",
        help="include attention weights; requires --format jsonl",
    )  # fmt: skip
    parser.add_argument(
        "--tree", action="store_true",
        help="include all hypotheses of the beam search, as a tree; requires --format jsonl",
    )  # fmt: skip
    parser.add_argument(
        "--invalid", choices=("replace", "refuse"), default="replace",
        help="lines that are not UTF-8: replace invalid bytes by U+FFFD with a warning (default), "
        "or exit with an error",
    )  # fmt: skip
    parser.add_argument(
        "--samples", type=options.positive, metavar="N", help="draw N samples instead of searching"
    )
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="divide logits by T; requires --samples"
    )
    parser.add_argument(
        "--top-k", type=options.from_zero, metavar="K",
        help="sample from the K most likely pieces; requires --samples",
    )  # fmt: skip
    parser.add_argument(
        "--top-p", type=float, metavar="P",
        help="sample from the most likely pieces that hold probability P; requires --samples",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=options.from_zero, metavar="N", help="random seed; requires --samples"
    )
    parser.add_argument(
        "--mbr", choices=("chrf", "bleu"),
        help="minimum Bayes risk: choose the sample with the best mean chrF or BLEU against all "
        "samples; without --samples, the hypothesis of the beam, all weighted by probability",
    )  # fmt: skip


def _translate(arguments: argparse.Namespace) -> int:
    drawing = {
        name: value
        for name in ("temperature", "top_k", "top_p", "seed")
        if (value := getattr(arguments, name)) is not None
    }
    if drawing and not arguments.samples:
        raise UserError(f"--{next(iter(drawing)).replace('_', '-')} requires --samples N")
    if arguments.samples and arguments.nbest > 1:
        raise UserError("--samples N writes N translations of each line; remove --nbest")
    if arguments.samples and arguments.beam:
        raise UserError("--samples N draws translations and searches for none; remove --beam")
    if arguments.mbr and arguments.nbest > 1:
        raise UserError("--mbr chooses one translation of each line; remove --nbest")
    for name in ("attention", "tree"):
        if getattr(arguments, name) and arguments.format != "jsonl":
            raise UserError(f"--{name} requires --format jsonl")
    if arguments.tree and arguments.samples:
        raise UserError("--tree requires beam search; remove --samples")
    if arguments.glossary and (arguments.prefix or arguments.samples):
        raise UserError("--glossary requires beam search; remove --prefix and --samples")
    if arguments.prefix and arguments.input_format == "jsonl":
        raise UserError('--input-format jsonl has a "prefix" in each line; remove --prefix')
    with options.parallelism(arguments) as shared:
        from seq2seq.inference.lines import Request, translate_files
        from seq2seq.inference.sampling import Sampling

        translator = options.load_translator(arguments, *arguments.runs)
        request = Request(
            translator.options(
                **options.search_options(arguments),
                nbest=arguments.nbest,
                keep_weights=arguments.attention,
                keep_tree=arguments.tree,
            ),
            sampling=Sampling(arguments.samples, **drawing) if arguments.samples else None,
            mbr=arguments.mbr,
            refuse_invalid=arguments.invalid == "refuse",
            format=arguments.format,
            attention=arguments.attention,
            tree=arguments.tree,
            input_format=arguments.input_format,
        )
        translate_files(
            translator,
            request,
            source=arguments.input,
            output=arguments.output,
            prefixes=arguments.prefix,
            parallelism=shared,
        )
    return 0
