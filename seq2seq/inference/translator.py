"""A run directory to a translator of text: one line in, one line out, in order."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from seq2seq.config import Config
from seq2seq.data.batching import source_batches
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.device import choose_device, choose_dtype
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.inference.ensemble import Ensemble
from seq2seq.inference.mbr import minimum_bayes_risk
from seq2seq.inference.protocol import MOST_PIECES, Decoding, Hypothesis, SearchOptions
from seq2seq.inference.sampling import sample
from seq2seq.inference.search import beam_search, force, greedy
from seq2seq.inference.text import (
    Part,
    Sampling,
    Translation,
    first_words,
    join_parts,
    normalize_line,
    split_line,
)
from seq2seq.model.model import TranslationModel
from seq2seq.model.prepared.model import PreparedModel
from seq2seq.model.prepared.product import multiplies_int8
from seq2seq.runs.checkpoint import MODEL, Checkpoint, load_checkpoint, load_weights
from seq2seq.runs.directory import RunDirectory
from seq2seq.runs.untrusted import check_files, check_shapes, shapes_of

__all__ = ["Part", "Sampling", "Translation", "Translator"]

log = logging.getLogger(__name__)

Utility = Literal["chrf", "bleu"]


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
        plain: bool = False,
    ) -> None:
        """Keep the models; a `plain` translator uses them as they are, in the dtype they have."""
        self.models = [model.to(device).eval() for model in models]
        self.source, self.target, self.config = source, target, config
        self.device, self.dtype, self.plain = device, dtype, plain

    @cached_property
    def prepared(self) -> list[PreparedModel]:
        """The models laid out for translating, from the weights that they have at the first use."""
        return [PreparedModel(model, self.dtype) for model in self.models]

    @classmethod
    def load(cls, *runs: str | Path, device: str = "auto", precision: str = "fp32") -> Translator:
        """Load the best checkpoint of each run, or the very checkpoint that a path names.

        Raises CheckpointError when one is missing, damaged, made to do harm (runs.untrusted),
        or of other tokenizers than the first, and ConfigError for a device that is not there and
        for int8 where it is not native.
        """
        if not runs:
            raise ConfigError("a translator needs a run directory or a checkpoint")
        where = choose_device(device)
        chosen = [_find(Path(run)) for run in runs]
        first = chosen[0][0]
        source, target = first.tokenizers()
        models = []
        for run, checkpoint in chosen:
            if not run.shares_tokenizers(first):
                raise CheckpointError(
                    f"{run.path}: its tokenizers are not those of {first.path}; an ensemble needs "
                    "runs that share them"
                )
            sizes = run.config().model, source.vocab_size, target.vocab_size
            # Before memory is taken: a config can ask for more than there is.
            check_shapes(shapes_of(*sizes), checkpoint.shapes(), origin=checkpoint.path)
            model = TranslationModel(*sizes)
            load_weights(model, checkpoint.weights(), origin=checkpoint.path)
            log.debug("translating with %s", checkpoint.path)
            models.append(model)
        dtype = choose_dtype(precision, where)
        if dtype == torch.int8 and not multiplies_int8(where):
            raise ConfigError(
                f"precision int8: {where} has no instructions for it here (VNNI); use auto"
            )
        return cls(models, source, target, first.config(), device=where, dtype=dtype)

    def options(self, **changes: int | float | bool | None) -> SearchOptions:
        """Return the run's search options with some of them changed; None changes nothing.

        The beam is as wide as `nbest` at least. Raises ConfigError for values out of range.
        """
        defaults = self.config.inference
        names = (
            "beam_size", "length_penalty", "coverage_penalty", "max_length_factor",
            "max_length_offset", "no_repeat_ngram",
        )  # fmt: skip
        values: dict[str, Any] = {name: getattr(defaults, name) for name in names}
        values |= {name: value for name, value in changes.items() if value is not None}
        if values["beam_size"] >= 1:
            values["beam_size"] = max(values["beam_size"], values.get("nbest", 1))
        return SearchOptions(**values)

    def translate(
        self,
        lines: Sequence[str],
        options: SearchOptions | None = None,
        *,
        sampling: Sampling | None = None,
        mbr: Utility | None = None,
        refuse_long: bool = False,
        first_number: int = 1,
    ) -> list[list[Translation]]:
        """Return for each line its translations, best first (`options.nbest` at most).

        With `sampling` they are samples, in the order of drawing. With `mbr` the one of them that
        the others agree with most comes first (seq2seq.inference.mbr). A line longer than
        `inference.max_source_length` pieces is split (seq2seq.inference.text), or raises
        DataError with `refuse_long`; `first_number` is the number of the first line, for that
        error and for what is drawn.
        """
        limit = self.config.inference.max_source_length
        texts = [normalize_line(line) for line in lines]
        split = [
            split_line(text, self.source, limit, number=number, refuse=refuse_long)
            for number, text in enumerate(texts, first_number)
        ]
        sentences = [part for parts in split for part in parts]
        # What is drawn for a part depends on its place in the input only.
        keys = [
            (number << 32) + place
            for number, parts in enumerate(split, first_number)
            for place in range(len(parts))
        ]
        ids = self.source.encode_batch(sentences)
        results = self._search(ids, keys, options or self.options(), sampling)
        if mbr:
            results = [self._agreed_first(hypotheses, mbr) for hypotheses in results]
        waiting = zip(ids, results, strict=True)
        found = []
        for text, parts in zip(texts, split, strict=True):
            words = first_words(text, parts)
            found.append(
                join_parts(
                    [
                        self._parts(part, word, *next(waiting))
                        for part, word in zip(parts, words, strict=True)
                    ]
                )
            )
        return found

    @torch.inference_mode()
    def force(
        self, sources: Sequence[str], targets: Sequence[str], options: SearchOptions | None = None
    ) -> list[Part]:
        """Return for each source and its given translation the model's own account of it.

        Log probability, score and attention weights are of exactly the target's pieces, each piece
        given the true ones before it. Lines are normalised and never split; either may be empty.
        Of the options the penalties count. Raises DataError where the numbers of lines differ, and
        for a target of 10,000 pieces or more.
        """
        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources)} sources for {len(targets)} targets: their numbers must be equal"
            )
        options = replace(options or self.options(), keep_weights=True)
        texts = [normalize_line(line) for line in sources]
        ids = self.source.encode_batch(texts)
        forced = self.target.encode_batch([normalize_line(line) for line in targets])
        for number, tokens in enumerate(forced, 1):
            if len(tokens) >= MOST_PIECES:  # with its end it is one more
                raise DataError(
                    f"target {number} of {len(forced)}: {len(tokens)} pieces, too many to force at "
                    f"once; give sentences of less than {MOST_PIECES} pieces"
                )
        found: dict[int, Hypothesis] = {}
        for batch in source_batches(ids, self.config.inference.batch_tokens):
            batch = batch.to(self.device)
            decoding = self.decoding(batch.source_BS, batch.source_mask_BS)
            here = [forced[index] for index in batch.indices]
            try:
                results = force(decoding, here, options)
            except FloatingPointError as error:
                raise CheckpointError(f"{error}; use another checkpoint") from None
            found |= zip(batch.indices, results, strict=True)
        return [
            self._parts(text, 0, ids[index], [found[index]])[0] for index, text in enumerate(texts)
        ]

    def decoding(
        self, source_BS: Tensor, mask_BS: Tensor, *, shared: bool = False
    ) -> Decoding[Any]:
        """Return the models bound to a batch of sources; see PreparedModel.decoding."""
        members: list[Decoding[Any]]
        if self.plain:
            members = [model.decoding(source_BS, mask_BS) for model in self.models]
        else:
            members = [m.decoding(source_BS, mask_BS, shared=shared) for m in self.prepared]
        return members[0] if len(members) == 1 else Ensemble(members)

    @torch.inference_mode()
    def _search(
        self,
        ids: list[list[int]],
        keys: list[int],
        options: SearchOptions,
        sampling: Sampling | None,
    ) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in ids]
        rows = sampling.num_samples if sampling else options.beam_size
        budget = max(1, self.config.inference.batch_tokens // max(1, rows))
        search = greedy if options.beam_size == 1 else beam_search
        for batch in source_batches(ids, budget):
            batch = batch.to(self.device)
            decoding = self.decoding(batch.source_BS, batch.source_mask_BS, shared=rows > 1)
            try:
                if sampling:
                    here = [keys[index] for index in batch.indices]
                    results = sample(decoding, options, keys=here, **vars(sampling))
                else:
                    results = search(decoding, options)
            except FloatingPointError as error:
                raise CheckpointError(f"{error}; translate with another checkpoint") from None
            for index, hypotheses in zip(batch.indices, results, strict=True):
                found[index] = hypotheses
        return found

    def _agreed_first(self, hypotheses: list[Hypothesis], utility: Utility) -> list[Hypothesis]:
        texts = [self.target.decode(hypothesis.tokens) for hypothesis in hypotheses]
        chosen = minimum_bayes_risk(texts, utility=utility)
        return [hypotheses[chosen], *hypotheses[:chosen], *hypotheses[chosen + 1 :]]

    def _parts(
        self, source: str, first_word: int, ids: list[int], hypotheses: list[Hypothesis]
    ) -> list[Part]:
        """Return the hypotheses of one part of a line as text."""
        source_pieces = [*self.source.pieces(ids), "</s>"]
        return [
            Part(
                source=source,
                source_pieces=source_pieces,
                target_pieces=[*self.target.pieces(hypothesis.tokens), "</s>"],
                text=self.target.decode(hypothesis.tokens),
                score=hypothesis.score,
                log_prob=hypothesis.log_prob,
                finished=hypothesis.finished,
                weights=hypothesis.weights,
                first_word=first_word,
            )
            for hypothesis in hypotheses
        ]


def _find(path: Path) -> tuple[RunDirectory, Checkpoint]:
    """Return the run and the checkpoint that a path to either names."""
    run = run_of(path)
    if (path / MODEL).is_file():
        check_files(run.path, path)
        return run, load_checkpoint(path)
    check_files(run.path, run.checkpoints)
    return run, run.best(run.config().training.metric)


def run_of(path: Path) -> RunDirectory:
    """Return the run of a path to it or to one of its checkpoints."""
    if (path / MODEL).is_file():
        return RunDirectory(path.resolve().parent.parent)
    return RunDirectory(path)
