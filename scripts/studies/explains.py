"""Does attention explain? `python scripts/studies/explains.py RUN... --pairs data/sample/test.tsv`.

Compares the attention of runs, and the attributions of `seq2seq explain`, with what the models do,
under forced decoding of the references:

- AER of the links from each target word to the source word with the largest value.
- Agreement: Kendall's tau-b between attention and an attribution over the source words of a step.
- Comprehensiveness and sufficiency (DeYoung et al. 2020): how much probability a target piece loses
  without the source words that count most, and with these words alone; the mean for 10, 20 and
  50 % of the words (one at least). The pieces of a word are left out. Good explanations have high
  comprehensiveness and low sufficiency.
- Permuted attention (Jain & Wallace 2019): the median total variation distance of the next piece's
  distribution over random permutations of a step's weights.
- Adversarial attention (Jain & Wallace 2019): the largest Jensen-Shannon divergence (at most ln 2)
  found between a step's weights and others that move its distribution by at most 0.01.

Words include punctuation marks; the end of sentence is not one. All values are means over target
pieces. `random` are values drawn at random, for comparison.

The results are means over the runs of a decoder, such as several seeds.

Legend: S source pieces, T target pieces, both with the end of sentence; W source words without it,
R rows: steps T times draws; V vocabulary.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parents[1]))  # scripts/

from documentation.pages import markdown_table
from seq2seq import cli
from seq2seq.analysis.alignment import Gold, alignment_error, gold_of
from seq2seq.analysis.attribution import MEANINGS, attribute, forced_batch, forced_log_probs
from seq2seq.commands.options import Parser, positive
from seq2seq.config import CorpusConfig, ModelConfig
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.tokenizer import normalize_line
from seq2seq.evaluation.evaluate import with_alignments
from seq2seq.files import write_atomic
from seq2seq.inference.text import Part
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import WORDS, Floats, Links, links_of, membership, words_of_pieces
from seq2seq.model.attention import Attention
from seq2seq.model.decoder import DecoderState
from seq2seq.model.translation_model import TranslationModel
from studies.results import Spread, shown

Results = dict[str, Any]  # of results.json: the settings under "study", measures of each of "runs"

SPLIT = WORDS["marks"]
SHARES = (0.1, 0.2, 0.5)
PERMUTATIONS = 50
EPSILON = 0.01  # total variation that an adversary may cause
TITLES = {
    "aer": "AER (lower is better)",
    "tau": "Kendall's tau with attention",
    "comprehensiveness": "Comprehensiveness (higher is better)",
    "sufficiency": "Sufficiency (lower is better)",
    "changed": "Attention changed: distance when permuted, divergence of an adversary",
}
STARTS, UPDATES, RATE, PENALTY = 3, 150, 0.1, 500.0  # of the search for adversarial weights
ROWS = 64  # sources decoded at once


@dataclass(frozen=True)
class Forced:
    """A pair under forced decoding, with values [T, S] of source pieces by explanation."""

    model: TranslationModel
    part: Part
    source: list[int]
    target: list[int]
    words: list[list[int]]  # of each source piece
    values: dict[str, Floats]

    def of_words(self, values_TS: Floats) -> Floats:
        """Return values [T, W], summed over the pieces of a word."""
        summed_TW: Floats = values_TS @ membership(self.words).T
        return summed_TW


def forced_pair(translator: Translator, pair: Pair, generator: np.random.Generator) -> Forced:
    """Return a pair with its attention, attributions and random values."""
    [part], [model] = translator.force_decode([pair.source], [pair.target]), translator.models
    source = translator.source.encode_normalized(normalize_line(pair.source))
    [target] = translator.target.encode_batch([pair.target])
    words = words_of_pieces(part.source_pieces, SPLIT)
    values = {} if part.weights is None else {"attention": part.weights.astype(np.float64)}
    for method in MEANINGS:
        values[method] = attribute(model, source, target, method, words).double().numpy()
    values["random"] = generator.random((len(target) + 1, len(source) + 1))
    return Forced(model, part, source, target, words, values)


def kendall(one_TW: Floats, other_TW: Floats) -> Floats:
    """Return Kendall's tau-b of each row that is not constant on either side."""
    signs, others = (np.sign(x[:, :, None] - x[:, None]) for x in (one_TW, other_TW))
    norms_T = np.sqrt((signs**2).sum((1, 2)) * (others**2).sum((1, 2)))
    taus: Floats = (signs * others).sum((1, 2))[norms_T > 0] / norms_T[norms_T > 0]
    return taus


def erasure(forced: Forced) -> dict[str, tuple[list[float], list[float]]]:
    """Return comprehensiveness and sufficiency of each step and share, by explanation."""
    every = frozenset(chain(*forced.words))
    sizes = [max(1, round(share * len(every))) for share in SHARES]
    tops = {
        name: [
            [frozenset(order[:size].tolist()) for size in sizes]
            for order in np.argsort(-forced.of_words(values_TS), axis=1)
        ]
        for name, values_TS in forced.values.items()
    }
    each = [*chain(*(chain(*rows) for rows in tops.values()))]
    removed = [*{frozenset(), *each, *(every - top for top in each)}]
    place = {words: number for number, words in enumerate(removed)}
    sources = [
        [n for n, of in zip(forced.source, forced.words, strict=False) if left.isdisjoint(of)]
        for left in removed
    ]
    p_TR = probabilities(forced.model, sources, forced.target)

    def loss(step: int, left: frozenset[int]) -> float:
        return float(p_TR[step, place[frozenset()]] - p_TR[step, place[left]])

    return {
        name: (
            [loss(t, top) for t, row in enumerate(rows) for top in row],
            [loss(t, every - top) for t, row in enumerate(rows) for top in row],
        )
        for name, rows in tops.items()
    }


@torch.no_grad()
def probabilities(
    model: TranslationModel, sources: Sequence[Sequence[int]], target: Sequence[int]
) -> Floats:
    """Return the probability [T, R] of each target piece with each of the sources."""
    found = []
    for start in range(0, len(sources), ROWS):
        batch = forced_batch(model, sources[start : start + ROWS], target)
        decoding = model.decoding(batch.source_BS, batch.source_mask_BS)
        found.append(torch.stack([*forced_log_probs(decoding, batch)]).exp())
    joined: Floats = torch.cat(found, 1).double().numpy()
    return joined


class Steps:
    """All steps of one forced translation at once, whose weights can be changed."""

    @torch.no_grad()
    def __init__(self, forced: Forced) -> None:
        self.attention: Attention = forced.model.decoder.attention
        batch = forced_batch(forced.model, [forced.source], forced.target)
        self.decoding = forced.model.decoding(batch.source_BS, batch.source_mask_BS)
        self.tokens_T = batch.inputs_BT[0]
        states = [self.decoding.start()]
        for token in self.tokens_T[:-1]:
            states.append(self.decoding.step(token.view(1), states[-1])[2])
        fed = [s.attentional_RO for s in states if s.attentional_RO is not None]
        hidden = zip(*(state.hidden for state in states), strict=True)
        self.state = DecoderState(
            tuple(torch.cat(layer) for layer in hidden), torch.cat(fed) if fed else None
        )
        self.weights_TS = torch.from_numpy(forced.values["attention"]).float()
        self.p_TV = self.distributions(lambda weights: weights, 1)[:, 0]

    def distributions(self, change: Callable[[Tensor], Tensor], draws: int) -> Tensor:
        """Return the distributions [T, draws, V] of the next piece with changed weights.

        `change` gets weights [1, R, S], with several heads [1, N, R, S].
        """

        own = self.attention.weights
        rows_R = torch.arange(len(self.tokens_T)).repeat_interleave(draws)
        with patch.object(self.attention, "weights", lambda *inputs: change(own(*inputs))):
            logits_RV, _, _ = self.decoding.step(self.tokens_T[rows_R], self.state.select(rows_R))
        return logits_RV.softmax(-1).view(len(self.tokens_T), draws, -1)

    def moved(self, change: Callable[[Tensor], Tensor], draws: int) -> Tensor:
        """Return the total variation distance [T, draws] that changed weights cause."""
        changed = self.distributions(change, draws)
        return (changed - self.p_TV.unsqueeze(1)).abs().sum(-1) / 2

    def permutations(self, draws: int, generator: torch.Generator) -> Tensor:
        """Return random orders [R, S] of the source pieces."""
        length, rows = self.weights_TS.shape[1], len(self.tokens_T) * draws
        return torch.rand(rows, length, generator=generator).argsort(1)


@torch.no_grad()
def permuted(steps: Steps, generator: torch.Generator) -> Floats:
    """Return the median total variation distance [T] over permutations of the weights."""
    order_RS = steps.permutations(PERMUTATIONS, generator)
    moved = steps.moved(lambda w: w.gather(-1, order_RS.expand_as(w)), PERMUTATIONS)
    medians: Floats = np.median(moved.double().numpy(), axis=1)
    return medians


def adversarial(steps: Steps, generator: torch.Generator) -> Floats:
    """Return the largest divergence [T] found of weights that move no more than EPSILON.

    Several heads all get the same weights, and diverge from their mean. 0: none was found.
    """
    own_TS = steps.weights_TS
    order_RS = steps.permutations(STARTS, generator)
    own_RS = own_TS.repeat_interleave(STARTS, 0)
    logits_RS = own_RS.gather(1, order_RS).clamp_min(1e-3).log().requires_grad_()
    best_T = torch.zeros(len(own_TS))
    optimizer = torch.optim.Adam([logits_RS], lr=RATE)
    for _ in range(UPDATES):
        weights_RS = logits_RS.softmax(-1)
        moved = steps.moved(lambda w, new=weights_RS: new.expand_as(w), STARTS)  # type: ignore[misc]
        diverged = divergence(own_RS, weights_RS).view(moved.shape)
        allowed = diverged.detach().where(moved <= EPSILON, torch.zeros(()))
        best_T = torch.maximum(best_T, allowed.amax(1))
        optimizer.zero_grad()
        loss = (PENALTY * (moved - EPSILON).clamp_min(0) - diverged).sum()
        torch.autograd.backward(loss)
        optimizer.step()
    found: Floats = best_T.double().numpy()
    return found


def divergence(one_RS: Tensor, other_RS: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence of each row in nats."""
    mean_RS = ((one_RS + other_RS) / 2).clamp_min(1e-12)
    parts = [torch.special.xlogy(each, each / mean_RS).sum(-1) for each in (one_RS, other_RS)]
    return torch.stack(parts).mean(0)


def measure(
    translator: Translator, pairs: Sequence[Pair], gold: Sequence[Gold] | None, searched: int
) -> dict[str, Any]:
    """Return measures of TITLES by explanation; adversaries are searched for some first pairs."""
    for parameter in translator.models[0].parameters():
        parameter.requires_grad_(False)
    generator, draws = np.random.default_rng(1), torch.Generator().manual_seed(1)
    links = defaultdict[str, list[Links]](list)
    found = defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))
    attention = defaultdict[str, list[Floats]](list)
    for number, pair in enumerate(pairs):
        forced = forced_pair(translator, pair, generator)
        for name, (comprehensiveness, sufficiency) in erasure(forced).items():
            found[name]["comprehensiveness"] += comprehensiveness
            found[name]["sufficiency"] += sufficiency
        for name, values_TS in forced.values.items():
            links[name].append(links_of(replace(forced.part, weights=values_TS), split=SPLIT))
            if "attention" in forced.values and name != "attention":
                pair_TW = map(forced.of_words, (forced.values["attention"], values_TS))
                found[name]["tau"] += kendall(*pair_TW).tolist()
        if "attention" in forced.values:
            steps = Steps(forced)
            attention["permuted"].append(permuted(steps, draws))
            if number < searched:
                attention["adversarial"].append(adversarial(steps, draws))
    measures = {
        measure: {
            name: float(np.mean(by_measure[measure]))
            for name, by_measure in found.items()
            if by_measure[measure]
        }
        for measure in ("tau", "comprehensiveness", "sufficiency")
    }
    if gold:
        errors = {name: alignment_error(each, gold).aer or 0.0 for name, each in links.items()}
        measures = {"aer": errors, **measures}
    changed = {name: float(np.concatenate(each).mean()) for name, each in attention.items()}
    return {**measures, "changed": changed}


def decoder_of(config: ModelConfig) -> str:
    """Return the style and score of a model in words."""
    feeding = "" if config.style != "luong" or config.input_feeding else " without feeding"
    return f"{config.style}{feeding}, {config.attention.score}"


# --- Results


def table(results: Results, measure: str) -> str:
    """Return a Markdown table of a measure: a row for each decoder, a column for each explanation.

    Values are means ± sample standard deviations over runs.
    """
    groups = defaultdict[str, list[dict[str, Any]]](list)
    for run in results["runs"].values():
        groups[run["decoder"]].append(run[measure])
    names = list(dict.fromkeys(chain.from_iterable(chain.from_iterable(groups.values()))))
    rows = []
    for decoder, runs in groups.items():
        found = (tuple(run[name] for run in runs if name in run) for name in names)
        cells = (shown(Spread(values), 2) if values else "" for values in found)
        rows.append([decoder, str(len(runs)), *cells])
    return markdown_table(["decoder", "runs", *names], rows, names=1)


def write_results(results: Results, directory: Path) -> str:
    """Write results.md; return it."""
    measured = {name for run in results["runs"].values() for name, found in run.items() if found}
    sections = [
        f"## {title}\n\n{table(results, measure)}"
        for measure, title in TITLES.items()
        if measure in measured
    ]
    page = "\n\n".join(["# Does attention explain?", *sections]) + "\n"
    write_atomic(directory / "results.md", page)
    return page


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code, as seq2seq.cli.main does."""
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = Parser(
        prog="explains.py", description=summary, epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.set_defaults(action=_measure_runs, parser=parser)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument(
        "--pairs",
        required=True,
        metavar="TSV",
        help="source, target, and perhaps their gold alignment",
    )
    parser.add_argument("--sentences", type=positive, default=100, help="first pairs; default: 100")
    parser.add_argument(
        "--searched", type=int, default=20, metavar="N",
        help="first pairs for which adversarial weights are searched; default: 20",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("runs/studies/explains"), metavar="DIR",
        help="directory of results.json and results.md; the same command continues "
        "what was interrupted; default: runs/studies/explains",
    )  # fmt: skip
    return cli.main(arguments, parser)


def _measure_runs(chosen: argparse.Namespace) -> int:
    """Measure the runs that --out does not have yet; write the results there and print them."""
    torch.set_num_threads(1)  # more do not help with sentences one by one
    corpus = CorpusConfig(path=chosen.pairs, references=True)
    pairs = with_alignments(islice(read_corpus(corpus), chosen.sentences))
    settings = {key: getattr(chosen, key) for key in ("pairs", "sentences", "searched")}
    results: Results = {"study": {"name": "explains", **settings}, "runs": {}}
    chosen.out.mkdir(parents=True, exist_ok=True)
    file = chosen.out / "results.json"
    if file.exists() and (old := json.loads(file.read_text(encoding="utf-8"))):
        if old["study"] != results["study"]:
            sys.exit(f"{file}: has results of other settings, {old['study']}; choose another --out")
        results = old
    gold = gold_of(pairs, split=SPLIT)
    for run in tqdm([run for run in chosen.runs if run not in results["runs"]], unit="run"):
        translator = Translator.load(run, device="cpu", backend="torch")
        found = measure(translator, pairs, gold, chosen.searched)
        results["runs"][run] = {"decoder": decoder_of(translator.config.model), **found}
        write_atomic(file, json.dumps(results, indent=1) + "\n")
    print(write_results(results, chosen.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
