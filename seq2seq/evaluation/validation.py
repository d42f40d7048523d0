"""Validation during training: teacher-forced loss, and BLEU and chrF of searched translations."""

from __future__ import annotations

from functools import partial

import torch

from seq2seq.config import Config
from seq2seq.data.batching import Batch, evaluation_batches
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import ConfigError
from seq2seq.evaluation.evaluate import references_of
from seq2seq.evaluation.metrics import scorer_of
from seq2seq.inference.protocol import Backend, SearchOptions
from seq2seq.inference.search import search
from seq2seq.inference.torch_backend import TorchBackend
from seq2seq.model.translation_model import TranslationModel
from seq2seq.processes import Ranks
from seq2seq.training.loss import teacher_forced_loss
from seq2seq.training.monitor import Validation


class Validator:
    """Scores a model on pairs that are encoded once; each rank translates its part."""

    def __init__(
        self, pairs: list[Pair], source: Tokenizer, target: Tokenizer, config: Config, *,
        device: torch.device, dtype: torch.dtype, ranks: Ranks | None = None,
    ) -> None:  # fmt: skip
        self.pairs = pairs[: config.training.validation_sentences]
        self.tokenizer, self.config = target, config.training
        self.device, self.dtype, self.ranks = device, dtype, ranks or Ranks()
        self.options = SearchOptions(
            beam_size=config.training.validation_beam,
            length_penalty=config.inference.length_penalty,
            max_length_factor=config.inference.max_length_factor,
            max_length_offset=config.inference.max_length_offset,
        )
        # Bound the memory of a very long line; only its beginning counts.
        longest, most = config.inference.max_source_length, config.data.batching.max_length
        sources = [ids[:longest] for ids in source.encode_batch([p.source for p in self.pairs])]
        targets = [ids[:most] for ids in target.encode_batch([p.target for p in self.pairs])]
        self.cut = partial(evaluation_batches, sources, targets)
        self.batch_tokens = config.inference.batch_tokens
        self.score = scorer_of(references_of(self.pairs), config.data.target_language)

    @torch.no_grad()
    def __call__(self, model: TranslationModel) -> Validation:
        """Return the metrics, and the first few translations as samples."""
        model.eval()
        batches = self.batches()
        there = (batch.to(self.device) for batch in batches)
        losses = [teacher_forced_loss(model, batch, dtype=self.dtype)[1] for batch in there]
        loss: float = sum(map(float, losses))  # waits for a GPU
        tokens: float = sum(batch.num_target_tokens for batch in batches)
        try:
            translations = self.translate(TorchBackend(model, dtype=self.dtype))
        except FloatingPointError as error:
            raise ConfigError(
                f"validation: {error}; lower training.learning_rate, then continue with --resume"
            ) from None
        loss, tokens = self.ranks.all_reduce([loss, tokens])
        metrics = {"loss": loss / tokens, **self.score(translations)}
        samples = [
            (pair.source, pair.target, translation)
            for pair, translation in zip(self.pairs, translations, strict=True)
        ]
        return Validation(metrics, samples[: self.config.samples])

    def batches(self, scale: int = 1) -> list[Batch]:
        """Return this rank's parts of batches with `scale` times the recipe's tokens."""
        batches = self.cut(self.batch_tokens * scale)
        rank, size = self.ranks.rank, self.ranks.size
        return [batch.shard(rank, size) for batch in batches if len(batch) > rank]

    def translate(self, backend: Backend) -> list[str]:
        """Return the translations of all pairs, the same on every rank.

        Raises FloatingPointError for logits that are not finite.
        """
        found: dict[int, str] = {}
        scale = max(1, backend.batch_scale // self.options.beam_size)
        with backend.computing():
            for batch in self.batches(scale):
                results = search(backend.decoding(batch.source_BS.numpy()), self.options)
                for index, hypotheses in zip(batch.indices, results, strict=True):
                    found[index] = self.tokenizer.decode(hypotheses[0].tokens)
        texts = {i: text for part in self.ranks.all_gather(found) for i, text in part.items()}
        return [texts[index] for index in range(len(self.pairs))]
