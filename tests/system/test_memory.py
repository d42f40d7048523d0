"""Memory does not grow with the corpus, neither in preparing it nor in reading its batches."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# One process prepares, so that all memory is in sight; shards and chunks are small, so that even
# the smaller corpus has several.
SCRIPT = """
import json, sys
from seq2seq.config import parse_config
from seq2seq.data import dataset
from seq2seq.data.dataset import load_pairs, train_tokenizers
from seq2seq.data.stream import BatchStream

dataset._SHARD_ROWS, dataset._CHUNK_ROWS = 1 << 13, 2000
folder, train = sys.argv[1:]
config = parse_config(f'''
run_dir: {folder}/run
data:
  source_language: es
  target_language: en
  train: [{train}]
  valid: {{path: {folder}/small.tsv}}
  tokenizer: {{source_vocab_size: 400, target_vocab_size: 400, max_sentences: 5000}}
  batching: {{window: 5000, size: 4000}}
  processes: 1
  cache: null
''')

def peak():
    # The most memory in MiB that was resident since the last call.
    with open("/proc/self/status") as file:
        found = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return found / 1024

peaks = {"start": peak()}
pairs, _ = load_pairs(config)
peaks["cleaning"] = peak()
tokenizers = train_tokenizers(pairs, config)
peaks["tokenizers"] = peak()
stream = BatchStream(pairs, *tokenizers, config.data, seed=1)
peaks["encoding"] = peak()
count = 0
for batch in stream:
    count += len(batch)
    if stream.epoch:
        break
peaks["batches"] = peak()
print(json.dumps([count, peaks]))
"""


def write(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            file.write(f"la frase número {number} de esta lista\tthe sentence {number} of it\n")


def peaks_of(folder: Path, train: str) -> tuple[int, dict[str, float]]:
    """Return how many pairs an epoch has, and the peak of each phase."""
    command = [sys.executable, "-c", SCRIPT, str(folder), train]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, peaks = json.loads(done.stdout)
    return count, peaks


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    peaks = []
    for name, count in (("small", 20_000), ("large", 200_000)):
        write(tmp_path / f"{name}.tsv", count)
        train = f"{{path: {tmp_path}/{name}.tsv}}"
        found, peak = peaks_of(tmp_path, train)
        assert found == count
        peaks.append(peak)
    # The larger corpus has 12 MB more of text, and 60 MB as Python strings. While it is cleaned, 20
    # bytes for each pair are in memory: 3.6 MB more.
    for phase, small in peaks[0].items():
        assert peaks[1][phase] - small < 6, phase
