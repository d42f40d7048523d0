"""Embeddings of new pieces (training/transfer.py); test_finetuning.py compares with brute force."""

from __future__ import annotations

import pytest
import torch

from seq2seq.config import ModelConfig, TokenizerConfig
from seq2seq.data.casing import SHIFT
from seq2seq.data.tokenizer import Tokenizer, train_tokenizer
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.transfer import transfer

TEXTS = (
    "Ana es alta.", "La casa de Ana", "The house of Tom", "Tom come mucho", "El perro come pan",
    "Dogs eat the cat", "una mesa grande y bonita", "big tables",
)  # fmt: skip
JOINT = ModelConfig(embedding_size=8, encoder_size=8, decoder_size=8, joint_embeddings=True)


def joint(size: int, *, case_marks: bool = False) -> Tokenizer:
    config = TokenizerConfig(joint=True, case_marks=case_marks)
    return train_tokenizer(TEXTS * 3, config=config, vocab_size=size, name="joint")


def transferred(before: Tokenizer, after: Tokenizer) -> tuple[TranslationModel, TranslationModel]:
    old, new = (TranslationModel(JOINT, t.vocab_size, t.vocab_size) for t in (before, after))
    transfer(old, (before, before), new, (after, after))
    return old, new


def test_what_both_models_share_counts_once():
    before, after = joint(295), joint(305)
    assert before.vocab_size < after.vocab_size
    old, new = transferred(before, after)
    shared = before.ids.keys() & after.ids.keys()
    assert len(shared) > 280
    for tables in (
        (old.source_embedding.weight, new.source_embedding.weight),
        (old.output_weight, new.output_weight),
    ):
        for piece in shared:
            assert torch.equal(tables[1][after.ids[piece]], tables[0][before.ids[piece]]), piece


@pytest.mark.parametrize("marked_before", [True, False])
def test_pieces_with_and_without_marks_for_capitals_correspond(marked_before):
    before, after = (joint(305, case_marks=m) for m in (marked_before, not marked_before))
    old, new = transferred(before, after)
    pairs = [(f"▁{SHIFT}ana", "▁Ana"), ("a", "a"), ("<0x0A>", "<0x0A>")]
    for marked, plain in pairs:
        first, second = (marked, plain) if marked_before else (plain, marked)
        assert torch.equal(
            new.source_embedding.weight[after.ids[second]],
            old.source_embedding.weight[before.ids[first]],
        )
