"""ONNX Runtime behind the interface of search: graphs of a run's weights, on the CPU.

The graphs are built from the weights at their first use and kept in the user's cache; none are read
from a run. See seq2seq.inference.protocol for what a Backend, a State and a Decoding do.

Legend: B sentences, K hypotheses a sentence, R = B * K rows, Z state size, V vocabulary
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seq2seq.data.cache import Cache, DamagedEntryError, Entry, user_folder
from seq2seq.data.tokenizer import EOS, PAD
from seq2seq.device import has_vnni, multiplies_int8
from seq2seq.errors import CheckpointError, ConfigError
from seq2seq.inference.protocol import Floats, Ints, Step
from seq2seq.onnx import Precision
from seq2seq.runs.checkpoint import Checkpoint
from seq2seq.runs.directory import find_checkpoint, run_of
from seq2seq.version import VERSION

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from seq2seq.config import ModelConfig

log = logging.getLogger(__name__)

BUILDER = 1  # raise it when the graphs that are built from given weights change
KINDS = ("encoder", "embedding", "step")
MAX_BLEU_LOSS = 0.2  # of int8, for precision auto
# The outputs of the step besides the attention weights.
_OUTPUTS = ["log_probs", "next_state"]
_OUT_OF_MEMORY = ("bad_alloc", "Failed to allocate memory")  # ONNX Runtime's messages


class OnnxBackend:
    """A `Backend`: the encoder and the step of a model as ONNX graphs (docs/export.md)."""

    on_gpu, batch_scale = False, 1
    computing = nullcontext

    def __init__(
        self, graphs: Iterable[Path | bytes], vocab_size: int, weights_sum: str, *, threads: int = 1
    ) -> None:
        """Load the graphs of KINDS; `vocab_size` is the number of target pieces.

        Raises DamagedEntryError for a graph that cannot be loaded.
        """
        self.encoder, self.embedding, self.step = (_load(graph, threads) for graph in graphs)
        names = [output.name for output in self.encoder.get_outputs()]
        self.memory = [name for name in names if name != "state"]
        self.attends = "weights" in [output.name for output in self.step.get_outputs()]
        self.vocab_size, self.weights_sum = vocab_size, weights_sum
        # Rows are computed when their piece is first read; others take no memory.
        inputs_1X = self._embed(np.array([EOS]))
        self._inputs_VX: Floats = np.empty((vocab_size, inputs_1X.shape[1]), dtype=np.float32)
        self._is_known_V = np.zeros(vocab_size, dtype=np.bool_)

    def inputs(self, tokens_R: Ints) -> Floats:
        """Return the inputs of a step: products of the embeddings of these pieces."""
        if not self._is_known_V[tokens_R].all():
            new = np.array(sorted({*tokens_R[~self._is_known_V[tokens_R]].tolist()}))
            self._inputs_VX[new] = self._embed(new)
            self._is_known_V[new] = True
        return self._inputs_VX[tokens_R]

    def _embed(self, pieces_N: Ints) -> Floats:
        found: Floats
        [found] = _run(self.embedding, ["inputs"], {"pieces": pieces_N})
        return found

    def decoding(self, source_BS: Ints) -> OnnxDecoding:
        state_BZ, *memory = _run(self.encoder, ["state", *self.memory], {"source": source_BS})
        named = dict(zip(self.memory, memory, strict=True))
        return OnnxDecoding(self, (source_BS != PAD).sum(1), named, state_BZ)


def _load(graph: Path | bytes, threads: int) -> InferenceSession:
    import onnxruntime  # starts a thread; workers that prepare data must be forked without one

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.enable_mem_pattern = False  # shapes change at each step
    options.log_severity_level = 4  # errors are raised
    # Without VNNI, x86 sums pairs of products of signed with unsigned bytes in 16 bits, and the
    # sums overflow. With unsigned weights it sums in 32 bits, more slowly.
    options.add_session_config_entry("session.x64quantprecision", "0" if has_vnni() else "1")
    try:
        # A session keeps the bytes that it is given, but not a file. A fallback would print to
        # standard output.
        return onnxruntime.InferenceSession(
            graph, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # its exceptions have no common base class
        where = graph if isinstance(graph, Path) else "a graph in memory"
        raise DamagedEntryError(
            f"{where}: ONNX Runtime cannot use it ({error}); install another version of onnxruntime"
        ) from None


def _run(session: InferenceSession, outputs: list[str], inputs: dict[str, Any]) -> list[Any]:
    try:
        found: list[Any] = session.run(outputs, inputs)
    except Exception as error:
        if any(words in str(error) for words in _OUT_OF_MEMORY):
            raise MemoryError from None
        raise
    return found


def load_graphs(
    path: Path, source_vocab_size: int, target_vocab_size: int, precision: str, threads: int
) -> OnnxBackend:
    """Return the best checkpoint of a run, or the checkpoint that the path names, as graphs.

    Raises CheckpointError as Translator.load does.
    """
    rest = run_of(path).config().model, (source_vocab_size, target_vocab_size), precision, threads
    # Verifying all weights takes longer than translating a sentence: only those that graphs are
    # built from are verified.
    try:
        return _load_checkpoint(find_checkpoint(path, verified=False), *rest)
    except CheckpointError as error:
        log.debug("%s", error)
    return _load_checkpoint(find_checkpoint(path), *rest)


def _load_checkpoint(
    checkpoint: Checkpoint,
    model: ModelConfig,
    sizes: tuple[int, int],
    precision: str,
    threads: int,
) -> OnnxBackend:
    """Return the graphs of a checkpoint from the user's cache; build them if they are not there.

    They stay in memory if the cache cannot be written. `model` is the recipe's section, `sizes` are
    the sizes of both vocabularies. Raises CheckpointError for damaged weights and for weights that
    do not fit the recipe.
    """
    cost = checkpoint.state.get("int8_bleu_loss")
    is_good = isinstance(cost, float) and cost < MAX_BLEU_LOSS and multiplies_int8()
    is_int8 = precision == "int8" or (precision == "auto" and is_good)
    chosen: Precision = "int8" if is_int8 else "fp32"
    log.debug("translating with %s in %s", checkpoint.path, chosen)
    vocab_size, weights_sum = sizes[1], checkpoint.weights_sum

    def make(folder: Path) -> dict[str, Any]:
        for kind, graph in build_graphs(checkpoint.verify(), model, sizes, chosen).items():
            (folder / f"{kind}.onnx").write_bytes(graph)
        return {}

    def read(entry: Entry) -> OnnxBackend:
        paths = [entry.path / f"{kind}.onnx" for kind in KINDS]
        return OnnxBackend(paths, vocab_size, weights_sum, threads=threads)

    key = {
        "weights": weights_sum,
        "model": model.model_dump(mode="json"),
        "vocabularies": sizes,
        "precision": chosen,
        "builder": [VERSION, BUILDER],
    }
    try:
        return Cache(user_folder()).entry("graphs", key, make, read)
    except (OSError, ConfigError) as error:  # the latter for a folder that vanishes each time
        log.debug("the graphs stay in memory, as the cache cannot be written: %s", error)
    graphs = build_graphs(checkpoint.verify(), model, sizes, chosen)
    return OnnxBackend(graphs.values(), vocab_size, weights_sum, threads=threads)


def build_graphs(
    checkpoint: Checkpoint, model: ModelConfig, sizes: tuple[int, int], precision: Precision
) -> dict[str, bytes]:
    """Return the serialized graphs of a checkpoint by their kinds, in the order of KINDS.

    Raises CheckpointError for weights that do not fit the recipe.
    """
    from seq2seq.onnx.builder import Parameters  # importing onnx is slow
    from seq2seq.onnx.graphs import embedding_graph, encoder_graph, step_graph

    log.debug("building the %s graphs of %s", precision, checkpoint.path)
    params = Parameters(model, *sizes, checkpoint.arrays(), origin=checkpoint.path)
    makers = encoder_graph, embedding_graph, step_graph
    graphs = [make(params, precision=precision).SerializeToString() for make in makers]
    params.check_all_read()
    return dict(zip(KINDS, graphs, strict=True))


@dataclass(frozen=True)
class OnnxState:
    """A `State`: the decoder's, of all layers side by side."""

    rows_RZ: Floats

    def select(self, rows_R: Ints) -> OnnxState:
        return OnnxState(self.rows_RZ[rows_R])


@dataclass
class OnnxDecoding:
    """A `Decoding`: a model and the memory of a batch; `select` changes it in place."""

    backend: OnnxBackend
    source_lengths_B: Ints
    memory: Mapping[str, Floats]
    initial_BZ: Floats

    def start(self) -> OnnxState:
        return OnnxState(self.initial_BZ)

    def step(
        self, tokens_R: Ints, state: OnnxState, *, count: int | None = None, weights: bool = False
    ) -> Step:
        """Return the log probabilities of all pieces after one piece per row; ignore `count`."""
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
        return Step(
            log_probs_BKV.reshape(rows, -1),
            OnnxState(next_BKZ.reshape(rows, -1)),
            weights_BKS[0].reshape(rows, -1) if weights_BKS else None,
        )

    def select(self, sentences_B: Ints) -> OnnxDecoding:
        """Keep these sentences; their memory is moved within its arrays: a copy would be slower."""
        size = len(sentences_B)
        moved = (sentences_B != np.arange(size)).nonzero()[0]

        def kept(array: Any) -> Any:
            array[moved] = array[sentences_B[moved]]
            return array[:size]

        self.source_lengths_B, self.initial_BZ = map(kept, (self.source_lengths_B, self.initial_BZ))
        self.memory = {name: kept(array) for name, array in self.memory.items()}
        return self
