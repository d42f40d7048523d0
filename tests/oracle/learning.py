"""A task that a tiny model must learn within seconds: copy or reverse random words."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seq2seq.config import AttentionConfig, ModelConfig, Score, Style
from seq2seq.inference.search import SearchOptions, search
from seq2seq.inference.torch_backend import TorchBackend
from seq2seq.model.kernels import projection_loss
from seq2seq.model.translation_model import TranslationModel

BOS, EOS, FIRST_WORD = 2, 3, 4
WORDS, SHORTEST, LONGEST = 8, 2, 6
SIZE = 32


@dataclass(frozen=True)
class Pairs:
    """Sources and targets of one length a pair, each with its end of sentence; their mask."""

    source_BS: Tensor
    target_BS: Tensor
    mask_BS: Tensor


def small_config(score: Score, style: Style, *, input_feeding: bool = True) -> ModelConfig:
    """Return a model that is large enough for the task."""
    heads = 2 if score == "multi_head" else 1
    return ModelConfig(
        style=style,
        embedding_size=SIZE,
        encoder_size=SIZE // 2,
        decoder_size=SIZE,
        attention=AttentionConfig(score=score, size=SIZE, heads=heads),
        input_feeding=input_feeding,
        dropout=0.0,
        init="scaled",  # 0.1 is little for so few units
    )


def draw(count: int, *, reverse: bool, generator: torch.Generator) -> Pairs:
    """Return random sentences whose targets are copies, or reversed."""
    lengths_B = torch.randint(SHORTEST, LONGEST + 1, (count,), generator=generator)
    words_BS = torch.randint(
        FIRST_WORD, FIRST_WORD + WORDS, (count, LONGEST + 1), generator=generator
    )
    mask_BS = torch.arange(LONGEST + 1) <= lengths_B[:, None]
    words_BS[torch.arange(count), lengths_B] = EOS
    source_BS = words_BS * mask_BS
    target_BS = source_BS.clone()
    if reverse:
        for row, length in enumerate(lengths_B.tolist()):
            target_BS[row, :length] = source_BS[row, :length].flip(0)
    return Pairs(source_BS, target_BS, mask_BS)


def train(config: ModelConfig, *, reverse: bool, steps: int) -> tuple[TranslationModel, set[str]]:
    """Return a model trained by Adam with a falling learning rate, and its training sources."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = TranslationModel(config, FIRST_WORD + WORDS, FIRST_WORD + WORDS).train()
    optimizer = torch.optim.Adam(model.parameters())
    seen: set[str] = set()
    for step in range(steps):
        pairs = draw(64, reverse=reverse, generator=generator)
        seen.update(map(str, pairs.source_BS.tolist()))
        inputs_BS = pairs.target_BS.roll(1, 1)
        inputs_BS[:, 0] = BOS
        readout_BSO, _ = model(pairs.source_BS, pairs.mask_BS, inputs_BS)
        readout_NO, labels_N = readout_BSO[pairs.mask_BS], pairs.target_BS[pairs.mask_BS]
        loss, _ = projection_loss(readout_NO, model.output_weight, model.output_bias, labels_N)
        optimizer.zero_grad()
        (loss / len(labels_N)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = 5e-3 * min(1.0, 2 * (1 - step / steps))
        optimizer.step()
    return model.eval(), seen


def exact_match(model: TranslationModel, seen: set[str], *, reverse: bool) -> float:
    """Return the share of unseen sentences that greedy search translates exactly."""
    pairs = draw(400, reverse=reverse, generator=torch.Generator().manual_seed(1))
    decoding = TorchBackend(model).decoding(pairs.source_BS.numpy())
    found = search(decoding, SearchOptions(beam_size=1))
    right = []
    for row, (hypothesis,) in enumerate(found):
        if str(pairs.source_BS[row].tolist()) not in seen:
            target = pairs.target_BS[row][pairs.mask_BS[row]].tolist()
            right.append([*hypothesis.tokens, EOS] == target)
    assert len(right) >= 100
    return sum(right) / len(right)
