"""One of several processes that compute the gradient of the same batches; rank 0 writes it."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

from seq2seq.config import load_config
from seq2seq.data.dataset import load_pairs, train_tokenizers
from seq2seq.data.stream import BatchStream
from seq2seq.evaluation.validation import Validator
from seq2seq.model.translation_model import TranslationModel
from seq2seq.processes import init_process_group
from seq2seq.runs.directory import RunDirectory
from seq2seq.training.trainer import Trainer


def main(recipe: str, out: str, *overrides: str) -> None:
    torch.set_num_threads(1)
    config = load_config(recipe, overrides)
    with init_process_group() as ranks:
        store, valid = load_pairs(config)
        tokenizers = ranks.on_rank0(train_tokenizers, store, config)
        torch.manual_seed(ranks.rank)  # rank 0's weights are used
        model = TranslationModel(config.model, *(t.vocab_size for t in tokenizers))
        stream = BatchStream(store, *tokenizers, config.data, seed=1)
        cpu, dtype = torch.device("cpu"), torch.float32
        validator = Validator(valid, *tokenizers, config, device=cpu, dtype=dtype, ranks=ranks)
        trainer = Trainer(
            model, stream, config.training, RunDirectory(Path("none")), validator, ranks
        )
        batches = iter(stream)
        few = next(batches).shard(3, 12)  # fewer rows than there may be ranks
        trainer.optimizer.step = lambda *_: torch.zeros(())  # type: ignore[method-assign]
        trainer.update([few, next(batches), next(batches)])
        metrics = validator(model).metrics
        if ranks.is_first:
            optimizer = trainer.optimizer
            tensors = optimizer._views(optimizer.gradients_N)
            tensors |= {f"metric.{name}": torch.tensor(value) for name, value in metrics.items()}
            tensors["loss"] = torch.tensor(trainer._counts[1])
            save_file(tensors, out)
