import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.batching import Batch, evaluation_batches, make_batch
from seq2seq.data.ragged import cut_batches, padded_lengths, source_batches
from seq2seq.data.tokenizer import BOS, EOS, PAD


def indices_of(batches: list[Batch]) -> list[int]:
    return [index for batch in batches for index in batch.indices]


def same(a: Batch, b: Batch) -> bool:
    return a.indices == b.indices and all(
        torch.equal(x, y) for x, y in zip(tensors(a), tensors(b), strict=True)
    )


def tensors(batch: Batch) -> list[torch.Tensor]:
    return [value for value in vars(batch).values() if isinstance(value, torch.Tensor)]


def test_make_batch():
    batch = make_batch([[5, 6], [], [7]], [[8], [9, 10, 11], []], [4, 9, 2])
    assert batch.source_BS.tolist() == [[5, 6, EOS], [EOS, PAD, PAD], [7, EOS, PAD]]
    assert batch.source_lengths_B.tolist() == [3, 1, 2]
    assert batch.inputs_BT.tolist() == [
        [BOS, 8, PAD, PAD],
        [BOS, 9, 10, 11],
        [BOS, PAD, PAD, PAD],
    ]
    assert batch.labels_BT.tolist() == [
        [8, EOS, PAD, PAD],
        [9, 10, 11, EOS],
        [EOS, PAD, PAD, PAD],
    ]
    assert batch.target_lengths_B.tolist() == [2, 4, 1]
    assert batch.source_mask_BS.tolist() == (batch.source_BS != PAD).tolist()
    assert batch.label_mask_BT.tolist() == (batch.labels_BT != PAD).tolist()
    assert (len(batch), batch.indices) == (3, (4, 9, 2))
    assert (int(batch.source_lengths_B.sum()), batch.num_target_tokens) == (6, 7)
    assert {tensor.dtype for tensor in tensors(batch)} == {torch.int64}


def test_a_batch_moves():
    batch = make_batch([[5, 6], [7]], [[8], [9]], [0, 1])
    moved = batch.to("meta")
    assert {tensor.device.type for tensor in tensors(moved)} == {"meta"}
    assert moved.source_mask_BS.device.type == "meta"
    assert moved.indices == batch.indices
    assert same(batch.to("cpu"), batch)


@given(
    lengths=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60),
    budget=st.integers(1, 200),
)
def test_evaluation_batches(lengths, budget):
    sources = [[10 + i] * n for i, (n, _) in enumerate(lengths)]
    targets = [[10 + i] * n for i, (_, n) in enumerate(lengths)]
    batches = evaluation_batches(sources, targets, budget)
    assert sorted(indices_of(batches)) == list(range(len(lengths)))
    for batch in batches:
        width = max(batch.source_BS.shape[1], batch.labels_BT.shape[1])
        assert width * len(batch) <= budget or len(batch) == 1
        expected = make_batch(
            [sources[i] for i in batch.indices], [targets[i] for i in batch.indices], batch.indices
        )
        assert same(batch, expected)
    widths = [max(b.source_BS.shape[1], b.labels_BT.shape[1]) for b in batches]
    assert widths == sorted(widths)


@given(lengths=st.lists(st.integers(0, 70), max_size=60), budget=st.integers(1, 300))
def test_source_batches_pad_a_source_to_a_length_of_its_own(lengths, budget):
    sources = [[10 + i] * n for i, n in enumerate(lengths)]
    batches = list(source_batches(sources, budget))
    assert sorted(i for _, rows in batches for i in rows.tolist()) == list(range(len(lengths)))
    for source_BS, rows in batches:
        count, width = source_BS.shape
        assert count * width <= budget or count == 1
        for ids, index in zip(source_BS, rows, strict=True):
            [(alone, _)] = source_batches([sources[index]], budget)
            assert np.array_equal(alone[0], ids)
            real = [*sources[index], EOS]
            assert ids.tolist() == real + [PAD] * (width - len(real))


def test_padded_lengths():
    lengths = np.arange(1, 200)
    padded = padded_lengths(lengths)
    assert sorted(set(padded.tolist())) == [4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256]
    assert (padded >= lengths).all()
    assert (padded <= np.maximum(lengths + 3, lengths * 1.5)).all()


@given(
    lengths=st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=60),
    unit=st.sampled_from(["tokens", "sentences"]),
    size=st.integers(1, 300),
)
def test_cutting_takes_every_pair_once_within_the_budget(lengths, unit, size):
    source, target = (np.array([pair[side] for pair in lengths], dtype=np.int64) for side in (0, 1))
    batches = cut_batches(source, target, unit=unit, size=size)
    assert sorted(row for rows in batches for row in rows.tolist()) == list(range(len(lengths)))
    for rows in batches:
        width = max(source[rows].max(), target[rows].max())
        assert len(rows) == 1 or len(rows) * (width if unit == "tokens" else 1) <= size
    counts = [len(rows) for rows in batches[:-1]]
    if unit == "tokens":
        assert all(len(f"{count:b}".rstrip("0")) <= 4 for count in counts)
    else:
        assert set(counts) <= {size}


def test_batches_are_nearly_rectangles():
    generator = torch.Generator().manual_seed(0)
    source = (torch.randn(20_000, generator=generator).abs() * 12 + 2).long()
    target = (source + torch.randn(20_000, generator=generator) * 3).long().clamp(min=1)
    batches = cut_batches(source.numpy(), target.numpy(), unit="tokens", size=2048)
    assert _padding(batches, source.numpy(), target.numpy()) < 0.08


def _padding(batches, source, target) -> float:
    padded = sum((source[b].max() + target[b].max()) * len(b) for b in batches)
    return 1 - (source.sum() + target.sum()) / padded
