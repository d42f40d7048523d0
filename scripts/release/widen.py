"""Widen a run's model, as a run of its own that translates the same and can learn more.

    python scripts/release/widen.py runs/general-4 -o runs/wide \
        model.encoder_size=384 model.decoder_size=640

A training that goes on from there needs the same sizes in its recipe. New units read the old ones
with random weights, and the old units read the new ones with zeros, so that the outputs stay
(Chen, Goodfellow and Shlens 2016, "Net2Net", keep them by copies of units). Takes the best
checkpoint, or the one that the path names. The weights are drawn with the recipe's seed: runs of
the same sizes that are widened alike can still be averaged.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))  # scripts/

from release.average import write_run
from seq2seq import cli
from seq2seq.commands.options import Parser
from seq2seq.config import ModelConfig
from seq2seq.config.loading import dump_config, parse_config
from seq2seq.errors import ConfigError
from seq2seq.files import write_atomic
from seq2seq.model.translation_model import TranslationModel
from seq2seq.packaged import find_run
from seq2seq.runs.checkpoint import Checkpoint
from seq2seq.runs.directory import RunDirectory, find_checkpoint, run_of


def widen(run: str, output: Path, overrides: Sequence[str]) -> Checkpoint:
    """Write a run whose model has the overrides' sizes; return its only checkpoint.

    Raises ConfigError for sizes that are smaller, or that are not the encoder's and the decoder's,
    and as `export` does.
    """
    path = find_run(run)
    checkpoint, config = find_checkpoint(path), run_of(path).config()
    wide = parse_config(dump_config(config), overrides, origin=run)
    sizes = {"encoder_size": wide.model.encoder_size, "decoder_size": wide.model.decoder_size}
    if wide != config.model_copy(update={"model": config.model.model_copy(update=sizes)}) or any(
        size < getattr(config.model, name) for name, size in sizes.items()
    ):
        raise ConfigError(
            f"{' '.join(overrides)}: only model.encoder_size and model.decoder_size can grow"
        )
    weights = widen_weights(checkpoint.weights(), config.model, wide.model, config.training.seed)
    made = write_run(run, output, weights, checkpoint.step)
    write_atomic(RunDirectory(output).config_path, dump_config(wide))
    return made


@torch.no_grad()
def widen_weights(
    weights: dict[str, Tensor], narrow: ModelConfig, wide: ModelConfig, seed: int
) -> dict[str, Tensor]:
    """Return weights with which the wide model computes what the narrow one does with these.

    Raises ConfigError for other models than those with a conditional decoder, additive attention
    and tied embeddings.
    """
    if narrow.style != "conditional" or narrow.attention.score != "additive":
        raise ConfigError("only conditional decoders with additive attention can be widened")
    torch.manual_seed(seed)
    outputs = len(weights["output_bias"])
    sources = len(weights.get("source_embedding.weight", weights["output_bias"]))
    model = TranslationModel(wide, sources, outputs)
    for name, parameter in model.named_parameters():
        old = weights[name]
        before, after = (_parts(name, old.shape, model) for model in (narrow, wide))
        if (*map(sum, before), *map(sum, after)) != (*old.shape, *parameter.shape):
            raise ConfigError(f"{name}: a weight that cannot be widened")
        rows, *columns = map(_places, before, after)
        parameter[rows] = 0  # no old unit reads a new one
        parameter[torch.meshgrid(rows, *columns, indexing="ij")] = old
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def _parts(name: str, shape: Sequence[int], model: ModelConfig) -> list[tuple[int, ...]]:
    """Return the sizes of the parts, each of one kind of unit, of a parameter's dimensions."""
    encoder, decoder = model.encoder_size, model.decoder_size
    memory = (encoder, encoder)  # forth and back
    owner, _, kind = name.rpartition(".")
    rows: tuple[int, ...] = (shape[0],)
    columns: tuple[int, ...] = (shape[-1],)
    if kind.endswith(("_input", "_hidden")):  # of a GRU layer
        decodes, layer = name.startswith("decoder"), int(owner[-1])
        size = decoder if decodes else encoder
        rows = (size,) * 3
        if kind == "weight_hidden" or (decodes and layer > 1):
            columns = (size,)
        elif layer:
            columns = memory
    elif owner == "decoder.initial":
        rows, columns = (decoder,) * model.decoder_layers, (encoder,)
    elif owner == "decoder.readout":
        columns = (decoder, model.embedding_size, *memory)
    elif owner == "decoder.attention.score.query":
        columns = (decoder,)
    elif owner == "decoder.attention.score.key":
        columns = memory
    return [rows, columns][: len(shape)]


def _places(narrow: Sequence[int], wide: Sequence[int]) -> Tensor:
    """Return where the entries of a dimension are once its parts have grown."""
    starts = accumulate(wide, initial=0)
    return torch.cat(
        [start + torch.arange(size) for start, size in zip(starts, narrow, strict=False)]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code, as seq2seq.cli.main does."""
    parser = Parser(
        prog="widen.py", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.set_defaults(action=_widen, parser=parser)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("sizes", metavar="KEY=VALUE", nargs="+", help="model.encoder_size=384 ...")
    parser.add_argument("-o", "--output", required=True, type=Path, help="the folder of the result")
    return cli.main(arguments, parser)


def _widen(given: argparse.Namespace) -> int:
    print(widen(given.run, given.output, given.sizes).path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
