"""ONNX Runtime behind the interface of search: the exported graphs, on the CPU.

seq2seq.inference.protocol says what a Backend, a State and a Decoding do.

Legend: B sentences, K hypotheses a sentence, R = B * K rows, S source length, Z state size,
V vocabulary
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seq2seq.data.cache import open_cache
from seq2seq.data.tokenizer import EOS, PAD
from seq2seq.device import has_vnni, multiplies_int8
from seq2seq.errors import CheckpointError
from seq2seq.inference.protocol import Floats, Ints, Step
from seq2seq.onnx.graphs import AGAIN, FORMAT, Graphs, origin_of, read_graphs
from seq2seq.packaged import is_read_only
from seq2seq.runs.checkpoint import Checkpoint, open_checkpoint
from seq2seq.runs.directory import RunDirectory, check_files, find_checkpoint, run_of
from seq2seq.version import VERSION

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

log = logging.getLogger(__name__)

# What the step returns beside the weights of attention.
_OUTPUTS = ["log_probs", "next_state"]
_OUT_OF_MEMORY = ("bad_alloc", "Failed to allocate memory")  # ONNX Runtime's messages


class OnnxBackend:
    """A `Backend`: the encoder and the step of a model as ONNX graphs (docs/export.md)."""

    on_gpu = False

    def __init__(
        self, graphs: Graphs, precision: str, vocab_size: int, *, threads: int = 1
    ) -> None:
        """Load the graphs. Raises CheckpointError if they do not fit together.

        `vocab_size` is that of the target.
        """
        loaded = [_load(path, threads) for path in graphs.files(precision)]
        self.encoder, self.embedding, self.step = loaded
        try:
            fits = self._connect()
        except UnicodeDecodeError:  # a name that is not text
            fits = False
        if not fits:
            raise CheckpointError(
                f"{graphs.path}: the encoder's outputs are not what the step takes{AGAIN}"
            )
        (found,) = (each for each in self.step.get_outputs() if each.name == "log_probs")
        if found.shape[-1:] != [vocab_size]:
            raise CheckpointError(
                f"{graphs.path}: not made for the tokenizer's {vocab_size} target pieces{AGAIN}"
            )
        self.vocab_size, self.weights_sum = vocab_size, graphs.meta["weights"]
        # Rows are computed when their piece is first read; others take no memory.
        inputs_1X = self._embed(np.array([EOS]))
        self._inputs_VX: Floats = np.empty((vocab_size, inputs_1X.shape[1]), dtype=np.float32)
        self._is_known_V = np.zeros(vocab_size, dtype=np.bool_)

    def _connect(self) -> bool:
        """Set the names and sizes of what the graphs exchange; return whether they fit."""
        encoded, embedded, stepped = (
            {output.name: output for output in session.get_outputs()}
            for session in (self.encoder, self.embedding, self.step)
        )
        self.memory = [name for name in encoded if name != "state"]
        self.attends = "weights" in stepped
        outputs = [*encoded.values(), *embedded.values(), *stepped.values()]
        return (
            "state" in encoded
            and {*_OUTPUTS} <= stepped.keys()
            and {*embedded, *encoded} == {given.name for given in self.step.get_inputs()}
            and {output.type for output in outputs} == {"tensor(float)"}
        )

    def inputs(self, tokens_R: Ints) -> Floats:
        """Return what a step needs of the embeddings of these pieces."""
        if not self._is_known_V[tokens_R].all():
            new = np.array(sorted({*tokens_R[~self._is_known_V[tokens_R]].tolist()}))
            self._inputs_VX[new] = self._embed(new, self._inputs_VX.shape[1])
            self._is_known_V[new] = True
        return self._inputs_VX[tokens_R]

    def _embed(self, pieces_N: Ints, size: int | None = None) -> Floats:
        found: Floats
        [found] = _run(self.embedding, ["inputs"], {"pieces": pieces_N})
        if found.ndim != 2 or found.shape != (len(pieces_N), size or found.shape[1]):
            raise CheckpointError(f"the graph does not embed each piece{AGAIN}")
        return found

    def decoding(self, source_BS: Ints) -> OnnxDecoding:
        state_BZ, *memory = _run(self.encoder, ["state", *self.memory], {"source": source_BS})
        sizes = {array.shape[:1] for array in (state_BZ, *memory)}
        if state_BZ.ndim != 2 or sizes != {source_BS.shape[:1]}:
            raise CheckpointError(f"the graph does not encode each sentence{AGAIN}")
        lengths_B, width = (source_BS != PAD).sum(1), source_BS.shape[1]
        named = dict(zip(self.memory, memory, strict=True))
        return OnnxDecoding(self, lengths_B, width, named, state_BZ)


def _load(path: Path, threads: int) -> InferenceSession:
    import onnxruntime  # starts a thread, which forked workers of data preparation would lose

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.enable_mem_pattern = False  # shapes change at each step
    options.log_severity_level = 4  # errors are raised
    # A file that looks like its own format would be read as that, and was not checked.
    options.add_session_config_entry("session.load_model_format", "ONNX")
    # Without VNNI, x86 sums pairs of products of signed with unsigned bytes in 16 bits, which
    # overflow. This makes the weights unsigned, whose products are summed in 32, but more slowly.
    options.add_session_config_entry("session.x64quantprecision", "0" if has_vnni() else "1")
    try:
        # From the file, not from bytes, which a session would keep. A fallback would print to
        # standard output.
        return onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # the classes that it raises have no base of their own
        raise CheckpointError(f"{path}: ONNX Runtime cannot use it ({error}){AGAIN}") from None


def _run(session: InferenceSession, outputs: list[str], inputs: dict[str, Any]) -> list[Any]:
    try:
        found: list[Any] = session.run(outputs, inputs)
    except Exception as error:
        if any(words in str(error) for words in _OUT_OF_MEMORY):
            raise MemoryError from None
        raise CheckpointError(f"the graph cannot be computed ({error}){AGAIN}") from None
    return found


def load_graphs(path: Path, vocab_size: int, precision: str, threads: int) -> OnnxBackend:
    """Return the graphs of a run's best checkpoint, or of the checkpoint that the path names.

    They are exported if they are missing, damaged, or made from other weights: into the run
    directory, or into the cache where that cannot be written or comes with the package.
    `vocab_size` is that of the target. Raises CheckpointError as Translator.load does.
    """
    start = partial(_start, vocab_size=vocab_size, precision=precision, threads=threads)
    run = run_of(path)
    is_run = path == run.path
    check_files(run.path, run.graphs, run.checkpoints if is_run else path)
    if is_run and not run.checkpoints.exists() and (kept := read_graphs(run.graphs)):
        if not kept.matches(origin_of(run)):
            raise CheckpointError(f"{run.graphs}: exported with other tokenizers{AGAIN}")
        return start(kept)
    # Reading all weights to verify them takes longer than translating a sentence.
    config = run.config()
    first = run.candidates(config.training.metric)[:1] if is_run else [open_checkpoint(path)]
    origins = [origin_of(run, checkpoint, config.model) for checkpoint in first]
    try:
        kept = read_graphs(run.graphs)
        if kept and any(map(kept.matches, origins)):
            return start(kept)
    except CheckpointError as error:
        log.warning("%s: doing that now", error)
    checkpoint = find_checkpoint(path)
    if is_run and not is_read_only(run.path):
        from seq2seq.onnx.export import ensure_graphs  # imports onnx, which is slow

        with contextlib.suppress(OSError):
            return start(ensure_graphs(checkpoint, run))
    made_of = {**origin_of(run, checkpoint, config.model), "format": FORMAT, "version": VERSION}
    cache = open_cache("auto")  # a temporary one is deleted with this object
    return cache.entry(
        "graphs",
        made_of,
        partial(_write_graphs, checkpoint, run),
        lambda entry: start(Graphs(entry.path, entry.about)),
    )


def _write_graphs(checkpoint: Checkpoint, run: RunDirectory, folder: Path) -> dict[str, Any]:
    from seq2seq.onnx.export import write_graphs

    meta = write_graphs(checkpoint, run, folder)
    log.info("%s: made its graphs, which are kept in the cache", run.path.name)
    return meta


def _start(graphs: Graphs, *, vocab_size: int, precision: str, threads: int) -> OnnxBackend:
    if precision == "auto":
        good = graphs.int8_is_good or graphs.precisions == ["int8"]
        precision = "int8" if multiplies_int8() and good else "fp32"
    log.debug("translating with %s in %s", graphs.path, precision)
    return OnnxBackend(graphs, precision, vocab_size, threads=threads)


@dataclass(frozen=True)
class OnnxState:
    """A `State`: that of the decoder."""

    rows_RZ: Floats

    def select(self, rows_R: Ints) -> OnnxState:
        return OnnxState(self.rows_RZ[rows_R])


@dataclass
class OnnxDecoding:
    """A `Decoding`: a model and the memory of a batch, which `select` changes."""

    backend: OnnxBackend
    source_lengths_B: Ints
    width: int  # S
    memory: Mapping[str, Floats]
    initial_BZ: Floats

    def start(self) -> OnnxState:
        return OnnxState(self.initial_BZ)

    def step(
        self, tokens_R: Ints, state: OnnxState, *, count: int | None = None, weights: bool = False
    ) -> Step:
        """Return the log probabilities after one piece per row, of all pieces for any `count`."""
        rows, sentences = len(tokens_R), len(self.source_lengths_B)
        shape_BK = sentences, rows // sentences
        names = [*_OUTPUTS, "weights"] if weights and self.backend.attends else _OUTPUTS
        log_probs_BKV, next_BKZ, *weights_BKS = _run(
            self.backend.step,
            names,
            {
                "inputs": self.backend.inputs(tokens_R).reshape(*shape_BK, -1),
                "state": state.rows_RZ.reshape(*shape_BK, state.rows_RZ.shape[1]),
                **self.memory,
            },
        )
        found = [array.size for array in (log_probs_BKV, next_BKZ, *weights_BKS)]
        expected = [rows * self.backend.vocab_size, state.rows_RZ.size, rows * self.width]
        if found != expected[: len(found)]:
            raise CheckpointError(f"the graph does not advance each hypothesis{AGAIN}")
        return Step(
            log_probs_BKV.reshape(rows, -1),
            OnnxState(next_BKZ.reshape(rows, -1)),
            weights_BKS[0].reshape(rows, -1) if weights_BKS else None,
        )

    def select(self, sentences_B: Ints) -> OnnxDecoding:
        """Keep these sentences, whose memory is moved within its arrays: a copy would be slower."""
        size = len(sentences_B)
        moved = (sentences_B != np.arange(size)).nonzero()[0]

        def kept(array: Any) -> Any:
            array[moved] = array[sentences_B[moved]]
            return array[:size]

        self.source_lengths_B, self.initial_BZ = map(kept, (self.source_lengths_B, self.initial_BZ))
        self.memory = {name: kept(array) for name, array in self.memory.items()}
        return self
