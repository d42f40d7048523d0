"""Load a run as a translator of text: one line in, one line out, in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2seq.config import Config
from seq2seq.data.batching import source_batches
from seq2seq.data.tokenizer import Tokenizer, normalize_line
from seq2seq.device import choose_device, choose_dtype
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.inference.ensemble import Ensemble
from seq2seq.inference.mbr import Metric, minimum_bayes_risk
from seq2seq.inference.protocol import SEARCH_KEYS, Decoding, Hypothesis, SearchOptions
from seq2seq.inference.sampling import Sampling, sample
from seq2seq.inference.search import force, search
from seq2seq.inference.text import Part, Sentence, Translation, join_parts, split_line
from seq2seq.model.model import TranslationModel
from seq2seq.model.prepared.model import PreparedModel
from seq2seq.model.prepared.product import multiplies_int8
from seq2seq.runs.checkpoint import MODEL, Checkpoint, load_checkpoint, load_weights
from seq2seq.runs.directory import RunDirectory, run_of
from seq2seq.runs.untrusted import check_files, check_shapes, shapes_of

log = logging.getLogger(__name__)

# From the decoding of a batch and the indices of its sentences to the hypotheses of each.
Find = Callable[[Decoding, Sequence[int]], list[list[Hypothesis]]]
_MOST_FORCED = 9_999  # pieces; with EOS they are the largest inference.max_length_offset


class Translator:
    """The model of a run, or the models of several (an ensemble), with their tokenizers.

    The translation of a line does not depend on the lines around it.
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
        """Move the models to a device; `plain` uses them unprepared, in the dtype they have."""
        self.models = [model.to(device).eval() for model in models]
        self.source, self.target, self.config = source, target, config
        self.device, self.dtype, self.plain = device, dtype, plain

    @cached_property
    def prepared(self) -> list[PreparedModel]:
        """The models laid out for translating, with the weights that they have at first use."""
        return [PreparedModel(model, self.dtype) for model in self.models]

    @classmethod
    def load(cls, *runs: str | Path, device: str = "auto", precision: str = "fp32") -> Translator:
        """Load the best checkpoint of each run, or the checkpoint that a path names.

        Raises CheckpointError if one is missing, damaged, unsafe (seq2seq.runs.untrusted), or has
        other tokenizers than the first, and ConfigError for a device that does not exist and for
        int8 where it is not native.
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
                    f"{run.path}: its tokenizers are not those of {first.path}; the runs of an "
                    "ensemble must share them"
                )
            sizes = run.config().model, source.vocab_size, target.vocab_size
            # Before memory is allocated: a config can ask for more than there is.
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
        """Return the run's search options with these changes; None changes nothing.

        The beam is at least `nbest`. Raises ConfigError for values out of range.
        """
        values: dict[str, Any] = self.config.inference.model_dump(include=set(SEARCH_KEYS))
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
        mbr: Metric | None = None,
        refuse_long: bool = False,
        first_number: int = 1,
    ) -> list[list[Translation]]:
        """Return for each line its translations, best first (`options.nbest` at most).

        With `sampling` they are samples, in the order of drawing. With `mbr` the one with the
        highest expected utility comes first (seq2seq.inference.mbr). A line longer than
        `inference.max_source_length` pieces is split (seq2seq.inference.text), or raises DataError
        with `refuse_long`. `first_number` is the number of the first line, which error messages
        and samples depend on.
        """
        limit = self.config.inference.max_source_length
        numbered = list(enumerate(lines, first_number))
        split = [
            split_line(line, self.source, limit, number=number, refuse=refuse_long)
            for number, line in numbered
        ]
        sentences = [sentence for line in split for sentence in line]
        # What is drawn for a sentence depends only on its place in the input.
        keys = [
            (number << 32) + place
            for (number, _), line in zip(numbered, split, strict=True)
            for place in range(len(line))
        ]
        chosen = options or self.options()

        def find(decoding: Decoding, indices: Sequence[int]) -> list[list[Hypothesis]]:
            if sampling:
                return sample(decoding, chosen, sampling, keys=[keys[index] for index in indices])
            return search(decoding, chosen)

        rows = sampling.num_samples if sampling else chosen.beam_size
        found = self._search(sentences, find, rows=rows)
        if mbr:
            for hypotheses in found:
                texts = [self.target.decode(hypothesis.tokens) for hypothesis in hypotheses]
                hypotheses.insert(0, hypotheses.pop(minimum_bayes_risk(texts, mbr)))
        parts = map(self.parts, sentences, found)
        return [join_parts(list(islice(parts, len(line)))) for line in split]

    def force(
        self, sources: Sequence[str], targets: Sequence[str], options: SearchOptions | None = None
    ) -> list[Part]:
        """Return each given translation with the model's probabilities and attention.

        Each target piece is predicted from the true pieces before it. Lines are normalized and
        never split; either may be empty. Of the options only the penalties matter. Raises DataError
        if there is not one target for each source, and for a target of 10,000 pieces or more.
        """
        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources)} sources for {len(targets)} targets; give one target a source"
            )
        options = replace(options or self.options(), keep_weights=True)
        texts = [normalize_line(line) for line in sources]
        sentences = [Sentence(text, self.source.encode_normalized(text)) for text in texts]
        forced = self.target.encode_batch(targets)
        for number, tokens in enumerate(forced, 1):
            if len(tokens) > _MOST_FORCED:
                raise DataError(
                    f"target {number} of {len(forced)}: {len(tokens)} pieces are too many to force "
                    f"at once; give sentences of at most {_MOST_FORCED} pieces"
                )

        def find(decoding: Decoding, indices: Sequence[int]) -> list[list[Hypothesis]]:
            targets = [forced[index] for index in indices]
            return [[hypothesis] for hypothesis in force(decoding, targets, options)]

        found = self._search(sentences, find)
        return [self.parts(*pair)[0] for pair in zip(sentences, found, strict=True)]

    def decoding(self, source_BS: Tensor, mask_BS: Tensor, *, is_beam: bool = False) -> Decoding:
        """Return the models bound to a batch of sources; see PreparedModel.decoding."""
        members: list[Decoding]
        if self.plain:
            members = [model.decoding(source_BS, mask_BS) for model in self.models]
        else:
            members = [m.decoding(source_BS, mask_BS, is_beam=is_beam) for m in self.prepared]
        return members[0] if len(members) == 1 else Ensemble(members)

    @torch.inference_mode()
    def _search(
        self, sentences: Sequence[Sentence], find: Find, *, rows: int = 1
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence, found in batches of similar length.

        A batch is within the token budget of so many rows per sentence. Raises CheckpointError for
        logits that are not finite.
        """
        found: list[list[Hypothesis]] = [[] for _ in sentences]
        budget = max(1, self.config.inference.batch_tokens // rows)
        for batch in source_batches([sentence.ids for sentence in sentences], budget):
            batch = batch.to(self.device)
            decoding = self.decoding(batch.source_BS, batch.source_mask_BS, is_beam=rows > 1)
            try:
                results = find(decoding, batch.indices)
            except FloatingPointError as error:
                raise CheckpointError(f"{error}; use another checkpoint") from None
            for index, hypotheses in zip(batch.indices, results, strict=True):
                found[index] = hypotheses
        return found

    def parts(self, sentence: Sentence, hypotheses: list[Hypothesis]) -> list[Part]:
        """Return the hypotheses of a sentence as text."""
        source_pieces = [*self.source.pieces(sentence.ids), "</s>"]
        return [
            Part(
                source=sentence.text,
                source_pieces=source_pieces,
                target_pieces=[*self.target.pieces(hypothesis.tokens), "</s>"],
                text=self.target.decode(hypothesis.tokens),
                score=hypothesis.score,
                log_prob=hypothesis.log_prob,
                finished=hypothesis.finished,
                weights=hypothesis.weights,
                first_word=sentence.first_word,
            )
            for hypothesis in hypotheses
        ]


def _find(path: Path) -> tuple[RunDirectory, Checkpoint]:
    """Return the run and the checkpoint of a path to either."""
    run = run_of(path)
    if (path / MODEL).is_file():
        check_files(run.path, path)
        return run, load_checkpoint(path)
    check_files(run.path, run.checkpoints)
    return run, run.best(run.config().training.metric)
