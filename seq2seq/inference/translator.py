"""A run directory to a translator of text: one line in, one line out, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from seq2seq.config import Config
from seq2seq.data.batching import evaluation_batches
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import CheckpointError
from seq2seq.inference.ensemble import Ensemble
from seq2seq.inference.lines import split_line
from seq2seq.inference.mbr import minimum_bayes_risk
from seq2seq.inference.protocol import Decoding, Hypothesis, SearchOptions
from seq2seq.inference.sampling import sample
from seq2seq.inference.search import beam_search, greedy
from seq2seq.model.translation import TranslationModel
from seq2seq.runs.checkpoint import Checkpoint, load_checkpoint, load_weights
from seq2seq.runs.directory import RunDirectory
from seq2seq.training.device import choose_device, choose_dtype


@dataclass(frozen=True)
class Part:
    """A sentence that was translated at once, with one of its hypotheses."""

    source: str
    source_pieces: list[str]  # with the end of sentence
    target_pieces: list[str]  # with the end of sentence
    text: str
    score: float
    log_prob: float
    finished: bool  # false: closed at the length limit
    weights: Tensor | None = None  # [target pieces, source pieces]


@dataclass(frozen=True)
class Translation:
    """One of the translations of a line; an empty line has no parts."""

    parts: list[Part] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole line; a line break that a model makes up becomes a space."""
        return " ".join(" ".join(part.text for part in self.parts).split())

    @property
    def score(self) -> float:
        """The mean score of the parts."""
        return sum(part.score for part in self.parts) / max(1, len(self.parts))


@dataclass(frozen=True)
class Sampling:
    """Draw translations instead of searching for the best; see seq2seq.inference.sampling."""

    num_samples: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1


class Translator:
    """Models of one or several runs (an ensemble) with their tokenizers.

    Translation of a line does not depend on the lines around it.
    """

    def __init__(
        self,
        models: Sequence[TranslationModel],
        source: Tokenizer,
        target: Tokenizer,
        config: Config,
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.models = [model.to(device).eval() for model in models]
        self.source, self.target, self.config = source, target, config
        self.device, self.dtype = device, dtype

    @classmethod
    def load(cls, *runs: str | Path, device: str = "auto", precision: str = "fp32") -> Translator:
        """Load the best checkpoint of each run, or the very checkpoint that a path names.

        Raises CheckpointError when one is missing, damaged, or of other tokenizers than the first.
        """
        chosen = [_find(Path(run)) for run in runs]
        first = chosen[0][0]
        source, target = first.tokenizers()
        where = choose_device(device)
        models = []
        for run, checkpoint in chosen:
            pair = run.tokenizers()
            if (
                pair[0].model_proto != source.model_proto
                or pair[1].model_proto != target.model_proto
            ):
                raise CheckpointError(
                    f"{run.path}: its tokenizers are not those of {first.path}; an ensemble needs "
                    "runs that share them"
                )
            model = TranslationModel(run.config().model, source.vocab_size, target.vocab_size)
            load_weights(model, checkpoint.weights(), origin=checkpoint.path)
            models.append(model)
        dtype = choose_dtype(precision, where)
        return cls(models, source, target, first.config(), device=where, dtype=dtype)

    def options(self, **changes: int | float | bool | None) -> SearchOptions:
        """Return the run's search options with some of them changed; None changes nothing."""
        defaults = self.config.inference
        names = (
            "beam_size", "length_penalty", "coverage_penalty", "max_length_factor",
            "max_length_offset", "no_repeat_ngram",
        )  # fmt: skip
        values = {name: getattr(defaults, name) for name in names}
        values |= {name: value for name, value in changes.items() if value is not None}
        return SearchOptions(**values)

    def translate(
        self,
        lines: Sequence[str],
        options: SearchOptions | None = None,
        *,
        sampling: Sampling | None = None,
        mbr: Literal["chrf", "bleu"] | None = None,
        refuse_long: bool = False,
        first_number: int = 1,
    ) -> list[list[Translation]]:
        """Return for each line its translations, best first (`options.nbest` at most).

        With `sampling` they are samples, in the order of drawing. With `mbr` the one of them that
        the others agree with most comes first (seq2seq.inference.mbr). A line longer than
        `inference.max_source_length` pieces is split (seq2seq.inference.lines), or raises
        DataError with `refuse_long`; `first_number` is the number of the first line, for that
        error and for what is drawn.
        """
        options = options or self.options()
        limit = self.config.inference.max_source_length
        parts = [
            split_line(line, self.source, limit, number=number, refuse=refuse_long)
            for number, line in enumerate(lines, first_number)
        ]
        keys = [
            number * 1000 + place
            for number, line in enumerate(parts, first_number)
            for place in range(len(line))
        ]
        sentences = [part for line in parts for part in line]
        hypotheses = self._search(sentences, keys, options, sampling)
        if mbr:
            hypotheses = [self._agreed_first(found, mbr) for found in hypotheses]
        found = iter(zip(sentences, hypotheses, strict=True))
        return [_join([self._parts(*next(found)) for _ in line]) for line in parts]

    def decoding(self, source_BS: Tensor, mask_BS: Tensor) -> Decoding[Any]:
        """Return the models bound to a batch of sources."""
        members = [model.decoding(source_BS, mask_BS) for model in self.models]
        return members[0] if len(members) == 1 else Ensemble(members)

    @torch.inference_mode()
    def _search(
        self,
        sentences: list[str],
        keys: list[int],
        options: SearchOptions,
        sampling: Sampling | None,
    ) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in sentences]
        ids = self.source.encode_batch(sentences)
        rows = sampling.num_samples if sampling else options.beam_size
        budget = max(1, self.config.inference.batch_tokens // rows)
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            for batch in evaluation_batches(ids, None, budget):
                batch = batch.to(self.device)
                decoding = self.decoding(batch.source_BS, batch.source_mask_BS)
                if sampling:
                    here = [keys[index] for index in batch.indices]
                    results = sample(decoding, options, keys=here, **vars(sampling))
                else:
                    search = greedy if options.beam_size == 1 else beam_search
                    results = search(decoding, options)
                for index, hypotheses in zip(batch.indices, results, strict=True):
                    found[index] = hypotheses
        return found

    def _agreed_first(
        self, hypotheses: list[Hypothesis], utility: Literal["chrf", "bleu"]
    ) -> list[Hypothesis]:
        texts = [self.target.decode(hypothesis.tokens) for hypothesis in hypotheses]
        chosen = minimum_bayes_risk(texts, utility=utility)
        return [hypotheses[chosen], *hypotheses[:chosen], *hypotheses[chosen + 1 :]]

    def _parts(self, source: str, hypotheses: list[Hypothesis]) -> list[Part]:
        return [self._part(source, hypothesis) for hypothesis in hypotheses]

    def _part(self, source: str, hypothesis: Hypothesis) -> Part:
        return Part(
            source,
            [*self.source.pieces(self.source.encode(source)), "</s>"],
            [*self.target.pieces(hypothesis.tokens), "</s>"],
            self.target.decode(hypothesis.tokens),
            hypothesis.score,
            hypothesis.log_prob,
            hypothesis.finished,
            hypothesis.weights,
        )


def _join(parts: list[list[Part]]) -> list[Translation]:
    """Combine the parts of a line: the n-th best line has the n-th best of each part."""
    if not parts:
        return [Translation()]
    ranks = max(len(hypotheses) for hypotheses in parts)
    return [
        Translation([hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in parts])
        for rank in range(ranks)
    ]


def _find(path: Path) -> tuple[RunDirectory, Checkpoint]:
    """Return the run and the checkpoint that a path to either names."""
    if (path / "model.safetensors").is_file():
        run = RunDirectory(path.resolve().parent.parent)
        return run, load_checkpoint(path)
    run = RunDirectory(path)
    return run, run.best(run.config().training.metric)
