import itertools
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import Pair, prepared
from test_batching import indices_of, same

from seq2seq.config import (
    AugmentationConfig,
    BatchingConfig,
    CorpusConfig,
    DataConfig,
    TokenizerConfig,
)
from seq2seq.data.batching import Batch
from seq2seq.data.stream import BatchStream
from seq2seq.data.tokenizer import BOS, EOS, UNK, Tokenizer, train_tokenizer
from seq2seq.data.windows import Windows
from seq2seq.errors import CheckpointError, DataError, WorkerError

REAL_DATA = Path(__file__).parents[2] / "shared/data/tatoeba-es-en/train.tsv"
SETTINGS = settings(max_examples=25, deadline=None)


def make_pairs(count: int, longest: int = 12, seed: int = 0) -> list[Pair]:
    generator = random.Random(seed)

    def sentence(length: int) -> str:
        return " ".join(
            "".join(generator.choices("aeioulnrst", k=generator.randint(1, 4)))
            for _ in range(length)
        )

    lengths = [generator.randint(1, longest) for _ in range(count)]
    return [Pair(sentence(n), sentence(max(1, n + generator.randint(-2, 2)))) for n in lengths]


PAIRS = make_pairs(300)
KINDS = tuple(AugmentationConfig.model_fields)
EVERY_KIND = AugmentationConfig(**dict.fromkeys(KINDS, 0.2))
PREPARED = prepared(PAIRS)


@pytest.fixture(scope="module")
def tokenizers() -> tuple[Tokenizer, Tokenizer]:
    source, target = (
        train_tokenizer(texts, config=TokenizerConfig(), vocab_size=330, name=name)
        for texts, name in zip(zip(*PAIRS, strict=True), ("source", "target"), strict=True)
    )
    return source, target


def make_config(
    word_dropout: float = 0.0,
    weights: Sequence[float] = (1.0,),
    augmentation: AugmentationConfig | None = None,
    **batching,
) -> DataConfig:
    return DataConfig(
        source_language="es",
        target_language="en",
        train=tuple(CorpusConfig(path="train.tsv", weight=weight) for weight in weights),
        augmentation=augmentation,
        valid=CorpusConfig(path="valid.tsv"),
        batching=BatchingConfig(**batching),
        word_dropout=word_dropout,
    )


def make_stream(tokenizers, pairs=PREPARED, seed=1, processes=1, **config) -> BatchStream:
    return BatchStream(pairs, *tokenizers, make_config(**config), seed=seed, processes=processes)


def take_epoch(stream: BatchStream) -> list[Batch]:
    epoch, batches = stream.epoch, []
    for batch in stream:
        batches.append(batch)
        if stream.epoch != epoch:
            break
    return batches


@SETTINGS
@given(
    count=st.integers(1, 150),
    window=st.integers(1, 200),
    unit=st.sampled_from(["tokens", "sentences"]),
    size=st.integers(1, 200),
    seed=st.integers(0, 2**40),
)
def test_every_pair_once_an_epoch_within_the_budget(tokenizers, count, window, unit, size, seed):
    pairs = prepared(PAIRS[:count])
    stream = make_stream(tokenizers, pairs, seed=seed, window=window, unit=unit, size=size)
    for epoch in (0, 1):
        assert (stream.epoch, stream.position) == (epoch, 0)
        batches = take_epoch(stream)
        assert sorted(indices_of(batches)) == list(range(count))
        for batch in batches:
            longest = max(batch.source_BS.shape[1], batch.labels_BT.shape[1])
            used = longest * len(batch) if unit == "tokens" else len(batch)
            assert used <= size or len(batch) == 1
    assert stream.epoch == 2


def test_batches_hold_the_texts_they_name(tokenizers):
    stream = make_stream(tokenizers, size=200, window=70)
    source, target = tokenizers
    for batch in take_epoch(stream):
        assert int(batch.source_lengths_B.sum()) == int(batch.source_mask_BS.sum())
        assert batch.num_target_tokens == int(batch.label_mask_BT.sum())
        assert batch.inputs_BT[:, 0].eq(BOS).all()
        for row, index in enumerate(batch.indices):
            assert source.decode(batch.source_BS[row].tolist()) == PAIRS[index].source
            assert target.decode(batch.labels_BT[row].tolist()) == PAIRS[index].target
            assert target.decode(batch.inputs_BT[row].tolist()) == PAIRS[index].target


def test_weights_say_how_often_pairs_are_seen(tokenizers):
    pairs = prepared(PAIRS, [number % 3 for number in range(len(PAIRS))])
    weights = (1.0, 2.0, 0.25)
    stream = make_stream(tokenizers, pairs, weights=weights, size=100, window=60)
    counts = Counter(index for _ in range(8) for index in indices_of(take_epoch(stream)))
    for corpus, weight in enumerate(weights):
        of_corpus = [counts[index] for index in range(corpus, len(PAIRS), 3)]
        assert sum(of_corpus) / len(of_corpus) == pytest.approx(8 * weight, rel=0.15)
        if weight >= 1:
            assert set(of_corpus) == {8 * weight}
        else:
            assert max(of_corpus) <= 8


def test_large_weight_of_few_pairs(tokenizers):
    pairs = prepared(PAIRS[:3])
    stream = make_stream(tokenizers, pairs, weights=(200.0,), size=100, window=10)
    assert Counter(indices_of(take_epoch(stream))) == dict.fromkeys(range(3), 200)


def test_augmented_batches_hold_the_changed_texts(tokenizers):
    capitals = AugmentationConfig(**dict.fromkeys(KINDS, 0.0) | {"upper_case": 0.5})
    stream = make_stream(tokenizers, augmentation=capitals, size=200, window=70)
    source, target = tokenizers
    seen = []
    for epoch in range(2):
        batches = take_epoch(stream)
        assert sorted(indices_of(batches)) == list(range(len(PAIRS)))
        changed = set()
        for batch in batches:
            for row, index in enumerate(batch.indices):
                found = (
                    source.decode(batch.source_BS[row].tolist()),
                    target.decode(batch.labels_BT[row].tolist()),
                )
                if found != PAIRS[index]:
                    assert found == tuple(text.upper() for text in PAIRS[index])
                    changed.add(index)
        assert len(changed) / len(PAIRS) == pytest.approx(0.5, abs=0.12), epoch
        seen.append(changed)
    assert seen[0] != seen[1]


def test_changed_pairs_that_are_too_long_stay_as_they_are(tokenizers):
    joined = AugmentationConfig(**dict.fromkeys(KINDS, 0.0) | {"joined": 0.99})
    pairs = [Pair(f"{source}.", f"{target}.") for source, target in PAIRS]
    pieces = [
        max(len(tokenizer.encode(text)) for tokenizer, text in zip(tokenizers, pair, strict=True))
        for pair in pairs
    ]
    longest = max(pieces)
    stream = make_stream(
        tokenizers, prepared(pairs), augmentation=joined, max_length=longest, size=200
    )
    batches = take_epoch(stream)
    assert sorted(indices_of(batches)) == list(range(len(pairs)))
    lengths = [int(length) for batch in batches for length in batch.source_lengths_B]
    assert max(lengths) <= longest + 1
    assert sum(lengths) > sum(pieces)


def test_target_counts_match_the_labels(tokenizers):
    stream = make_stream(tokenizers, word_dropout=0.3, size=200)
    size = tokenizers[1].vocab_size
    counts = stream.target_counts(size)
    assert (stream.epoch, stream.position) == (0, 0)
    learned = Counter(
        piece
        for batch in take_epoch(stream)
        for piece in batch.labels_BT[batch.label_mask_BT].tolist()
    )
    assert counts.tolist() == [learned[piece] for piece in range(size)]
    assert counts[EOS] == len(PAIRS)


def test_orders_differ_by_epoch_and_seed(tokenizers):
    stream = make_stream(tokenizers, size=100)
    first, second = indices_of(take_epoch(stream)), indices_of(take_epoch(stream))
    other = indices_of(take_epoch(make_stream(tokenizers, size=100, seed=2)))
    assert first != second
    assert first != other
    assert indices_of(take_epoch(make_stream(tokenizers, size=100))) == first
    lengths = [len(PAIRS[index].source) for index in first]
    assert lengths != sorted(lengths)


@SETTINGS
@given(
    taken=st.integers(0, 60),
    window=st.sampled_from([37, 150, 1000]),
    augmentation=st.sampled_from([None, EVERY_KIND]),
)
def test_stream_resumes_from_any_position(tokenizers, taken, window, augmentation):
    options = {"word_dropout": 0.1, "size": 150, "window": window}
    options |= {"augmentation": augmentation, "weights": (1.5,)}
    stream = make_stream(tokenizers, **options)
    batches = iter(stream)
    positions = [stream.position for _ in itertools.islice(batches, taken)]
    assert all(b in (a + 1, 0) for a, b in itertools.pairwise(positions))
    state = json.loads(json.dumps(stream.state_dict()))
    resumed = make_stream(tokenizers, **options)
    resumed.load_state_dict(state)
    assert (resumed.epoch, resumed.position) == (stream.epoch, stream.position)
    for expected, found in itertools.islice(zip(batches, resumed, strict=False), 40):
        assert same(expected, found)
    assert resumed.state_dict() == stream.state_dict()


def test_state_for_other_pairs_is_refused(tokenizers):
    """Other settings are refused before (test_which_keys_may_change_on_resume)."""
    state = make_stream(tokenizers).state_dict()
    with pytest.raises(CheckpointError, match=r"the pairs of data\.train are not those"):
        make_stream(tokenizers, prepared(PAIRS[1:])).load_state_dict(state)


def test_unknown_languages_are_logged(tokenizers, caplog):
    caplog.set_level("INFO")
    for languages, told in {("zzz", "kr"): ["zzz", "kr"], ("es", "und"): []}.items():
        caplog.clear()
        config = DataConfig(
            train=(CorpusConfig(path="unused"),), valid=CorpusConfig(path="unused"),
            source_language=languages[0], target_language=languages[1],
        )  # fmt: skip
        Windows(PREPARED, tokenizers, config, seed=0)
        found = [r.message for r in caplog.records if "nothing is known of it" in r.message]
        assert [message.split(":")[0] for message in found] == [f"language '{c}'" for c in told]


def test_long_pairs_are_skipped_and_counted_once(tokenizers, caplog):
    pieces = [
        max(len(tokenizer.encode(text)) for tokenizer, text in zip(tokenizers, pair, strict=True))
        for pair in PAIRS
    ]
    fitting = [index for index, count in enumerate(pieces) if count <= 20]
    assert 0 < len(fitting) < len(PAIRS)
    stream = make_stream(tokenizers, max_length=20, size=100, window=50)
    assert (stream.num_pairs, stream.num_skipped) == (len(fitting), len(PAIRS) - len(fitting))
    assert f"{stream.num_skipped} of 300 training pairs are skipped" in caplog.text
    for _ in range(2):
        batches = take_epoch(stream)
        assert sorted(indices_of(batches)) == fitting
        assert max(int(batch.source_lengths_B.max()) for batch in batches) <= 21
        assert max(int(batch.target_lengths_B.max()) for batch in batches) <= 21
    assert stream.num_skipped == len(PAIRS) - len(fitting)


def test_windows_without_pairs_are_skipped(tokenizers):
    long = Pair("a" * 999, "a b")
    stream = make_stream(
        tokenizers, prepared([long] * 100 + PAIRS[:3] + [long] * 100), window=10, max_length=100
    )
    for epoch in range(2):
        assert (stream.epoch, stream.position) == (epoch, 0)
        assert sorted(indices_of(take_epoch(stream))) == [100, 101, 102]


@pytest.mark.parametrize("pairs", [prepared([Pair("a" * 999, "a b c d e f")] * n) for n in (1, 3)])
def test_a_corpus_with_nothing_left_is_refused(tokenizers, pairs):
    with pytest.raises(DataError, match=r"none of \d pairs.*data\.batching\.max_length"):
        make_stream(tokenizers, pairs, max_length=3)


def test_word_dropout_changes_inputs_only(tokenizers):
    plain = take_epoch(make_stream(tokenizers, size=300))
    dropped = take_epoch(make_stream(tokenizers, size=300, word_dropout=0.3))
    counts: Counter[str] = Counter()
    for before, after in zip(plain, dropped, strict=True):
        assert before.indices == after.indices
        assert torch.equal(before.labels_BT, after.labels_BT)
        for name in ("source_BS", "inputs_BT"):
            old, new = getattr(before, name), getattr(after, name)
            changed = old != new
            assert new[changed].eq(UNK).all()
            assert not changed[old <= EOS].any()
            counts[f"{name} changed"] += int(changed.sum())
            counts[name] += int((old > EOS).sum())
    for name in ("source_BS", "inputs_BT"):
        assert counts[f"{name} changed"] / counts[name] == pytest.approx(0.3, abs=0.03)


def test_window_is_prepared_once(tokenizers, monkeypatch):
    stream = make_stream(tokenizers, size=100, window=100)
    prepare, seen = Windows.prepare, []
    monkeypatch.setattr(Windows, "prepare", lambda *of: seen.append(of[1].window) or prepare(*of))
    stream.target_counts(330)
    stream.sample(3)
    take_epoch(stream)
    assert seen == [0, 1, 2, 0]


def test_workers_give_the_same_batches(tokenizers):
    options = {"word_dropout": 0.1, "size": 150, "window": 37, "augmentation": EVERY_KIND}
    alone = iter(make_stream(tokenizers, **options))
    batches = iter(make_stream(tokenizers, processes=2, **options))
    workers = [next(batches) for _ in range(40)]
    assert len(children()) == 2
    batches.close()
    assert not children()
    assert all(map(same, workers, alone))


def children() -> list[multiprocessing.process.BaseProcess]:
    return multiprocessing.active_children()


def test_killed_worker_is_reported(tokenizers):
    batches = iter(make_stream(tokenizers, processes=2, size=100, window=37))
    next(batches)
    os.kill(children()[0].pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"was killed.*lower data\.processes"):
        for _ in batches:
            pass


def test_a_program_can_end_in_the_middle_of_an_epoch(tokenizers, tmp_path):
    tokenizers[0].save(tmp_path / "a.model")
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_stream import *
tokenizer = Tokenizer.load({str(tmp_path / "a.model")!r})
batches = iter(make_stream((tokenizer, tokenizer), size=100, window=100))
next(batches)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(not REAL_DATA.exists(), reason="needs the Tatoeba pairs")
def test_padding_on_real_pairs():
    with REAL_DATA.open(encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in itertools.islice(file, 20_000)]
    pairs = [Pair(line[0], line[1]) for line in lines]
    tokenizers = [
        train_tokenizer(
            (pair[side] for pair in pairs),
            config=TokenizerConfig(type="bpe", max_sentences=3000),
            vocab_size=2000,
            name="source",
        )
        for side in (0, 1)
    ]
    positions = real = 0
    for batch in take_epoch(make_stream(tokenizers, prepared(pairs), size=2048)):
        positions += batch.source_BS.numel() + batch.labels_BT.numel()
        real += int(batch.source_lengths_B.sum()) + batch.num_target_tokens
    assert 1 - real / positions < 0.05
