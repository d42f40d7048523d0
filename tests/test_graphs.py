"""Exported graphs are read as data from a stranger: whole, or refused in one line.

Where the weights are at hand, they are exported again instead.
"""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import ToyCorpus
from foreign import alter_graph, seal_graphs
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from oracle.cases import CASES, arrays_of, tiny_config, tiny_model
from properties import examples

from seq2seq.errors import CheckpointError, ConfigError, DataError, UserError
from seq2seq.inference.translator import Translator
from seq2seq.onnx import graphs as module
from seq2seq.onnx.graphs import KINDS, META, OPERATORS, PRECISIONS, check_graph, read_graphs
from seq2seq.onnx.model import embedding_graph, encoder_graph, step_graph

MAKERS = encoder_graph, embedding_graph, step_graph  # in the order of KINDS
Change = Callable[[onnx.ModelProto], Any]
TINY = arrays_of(tiny_model(next(iter(CASES.values()))))
ENCODER = encoder_graph(TINY, precision="fp32").SerializeToString()


@pytest.fixture
def copied(exported: Path, tmp_path: Path) -> Path:
    """Return a copy of an exported directory, which has no weights."""
    return Path(shutil.copytree(exported, tmp_path / "run"))


def translation(path: Path, **options: Any) -> str:
    return Translator.load(path, **options).translate(["gato come"])[0][0].text


def refused(path: Path, words: str, **options: Any) -> None:
    with pytest.raises(CheckpointError, match=words) as caught:
        translation(path, **options)
    assert "\n" not in str(caught.value)


# --- the description


def altered(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], object]:
    def alter(path: Path) -> None:
        meta = json.loads(path.read_text())
        changed = change(meta)
        path.write_text(json.dumps(changed if isinstance(changed, list) else meta))

    return alter


def file_named(name: Any) -> Callable[[Path], object]:
    return altered(lambda meta: meta["graphs"]["fp32"]["encoder"].update(file=name))


DESCRIPTIONS: dict[str, tuple[Callable[[Path], object], str]] = {
    "not JSON": (lambda p: p.write_bytes(p.read_bytes()[:-9]), "graph.json: damaged"),
    "not text": (lambda p: p.write_bytes(b"\xff\xfe"), "graph.json: damaged"),
    "nested": (lambda p: p.write_text("[" * 100_000), "graph.json: damaged"),
    "a list": (altered(lambda meta: [meta]), "graph format None, but this program reads format 2"),
    "another format": (altered(lambda meta: meta.update(format=9)), "graph format 9"),
    "no graphs": (altered(lambda meta: meta.pop("graphs")), "keys are missing"),
    "graphs in a list": (altered(lambda meta: meta.update(graphs=[1])), "keys are missing"),
    "empty": (altered(lambda meta: meta.update(graphs={})), "does not name its graphs"),
    "no step": (altered(lambda meta: meta["graphs"]["int8"].pop("step")), "keys are missing"),
    "no weights": (altered(lambda meta: meta.pop("weights")), "keys are missing"),
    "no tokenizers": (altered(lambda meta: meta.update(tokenizers=5)), "keys are missing"),
    "one tokenizer": (
        altered(lambda meta: meta["tokenizers"].pop("target.model")), "keys are missing"),
    "file a number": (file_named(5), "does not name its graphs"),
    "file a list": (file_named(["a"]), "does not name its graphs"),
    "no file name": (file_named(""), "graph: cannot be read .Is a directory"),
    "upwards": (file_named(".."), "cannot be read .Is a directory"),
    "file elsewhere": (file_named("/etc/hostname"), "graph/hostname: cannot be read"),
    "file above": (file_named("../config.yaml"), "graph/config.yaml: cannot be read"),
    "NUL in a name": (file_named("a\0b"), "graph.json: damaged"),
    "half a character": (file_named("\udc80" + "x"), "cannot be read|damaged"),
    "checksum": (
        altered(lambda meta: meta["graphs"]["fp32"]["step"].update(sha256="0" * 64)),
        "step.fp32.onnx: damaged, it does not match its checksum"),
}  # fmt: skip


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_damaged_description_is_refused(copied: Path, name: str) -> None:
    spoil, words = DESCRIPTIONS[name]
    spoil(copied / "graph" / META)
    refused(copied, words)


def test_folder_without_description_is_no_export(copied: Path) -> None:
    (copied / "graph" / META).unlink()
    assert read_graphs(copied / "graph") is None
    refused(copied, "exported without its weights")


# --- the graphs


def with_external_data(path: str) -> Change:
    def change(model: onnx.ModelProto) -> None:
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=path)

    return change


def with_node(operator: str, **attributes: Any) -> Change:
    def change(model: onnx.ModelProto) -> None:
        inputs = [model.graph.initializer[0].name]
        model.graph.node.append(helper.make_node(operator, inputs, ["more"], **attributes))

    return change


def with_subgraph(depth: int) -> Change:
    """Return what adds a Scan in the body of a Scan and so on."""

    def change(model: onnx.ModelProto) -> None:
        graph = helper.make_graph([], "inner", [], [])
        for _ in range(depth):
            node = helper.make_node("Scan", [], [], body=graph, num_scan_inputs=0)
            graph = helper.make_graph([node], "outer", [], [])
        model.graph.node.extend(graph.node)

    return change


def in_a_scan(operator: str) -> Change:
    body = helper.make_graph([helper.make_node(operator, [], ["x"])], "body", [], [])
    return with_node("Scan", body=body, num_scan_inputs=0)


def with_function(model: onnx.ModelProto) -> None:
    model.functions.append(helper.make_function("", "Add", [], [], [], []))


def with_sparse_weights(model: onnx.ModelProto) -> None:
    values = numpy_helper.from_array(np.ones(1, np.float32), "sparse")
    indices = numpy_helper.from_array(np.zeros(1, np.int64))
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [9]))


def with_lying_tensor(model: onnx.ModelProto) -> None:
    largest = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    largest.dims[0] = 1 << 40


def renamed(output: str) -> Change:
    def change(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            node.output[:] = ["other" if name == output else name for name in node.output]
        for value in model.graph.output:
            value.name = "other" if value.name == output else value.name

    return change


def reworked(output: str, operator: str, *constants: Any, **attributes: Any) -> Change:
    """Return what passes an output through one more node."""

    def change(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            for names in (node.input, node.output):
                names[:] = ["before" if name == output else name for name in names]
        given = ["before"] * (not constants or operator != "Concat")
        for number, constant in enumerate(constants):
            given.append(f"given_{number}")
            tensor = numpy_helper.from_array(np.array(constant), given[-1])
            model.graph.initializer.append(tensor)
        given += ["before"] * (operator == "Concat")
        model.graph.node.append(helper.make_node(operator, given, [output], **attributes))
        for value in model.graph.output:
            if value.name == output:
                value.type.tensor_type.ClearField("shape")

    return change


SAFE = "not an ONNX graph that can be used"
CHANGES: dict[str, tuple[str, Change, str]] = {
    "weights in a file of the machine": (
        "step", with_external_data("/etc/passwd"), "it has weights in another file"),
    "weights in a file of the run": (
        "step", with_external_data("encoder.fp32.onnx"), "it has weights in another file"),
    "weights in memory": (
        "step", with_external_data("*/_ORT_MEM_ADDR_/*"), "it has weights in another file"),
    "an unknown operator": ("step", with_node("Evil"), "it has the operator Evil, which"),
    "an image decoder": ("encoder", with_node("ImageDecoder"), "the operator ImageDecoder"),
    "If": ("step", with_node("If"), "it has the operator If, which seq2seq does not write"),
    "Loop": ("step", with_node("Loop"), "it has the operator Loop"),
    "Loop in a body": ("encoder", in_a_scan("Loop"), "it has the operator Loop"),
    "a custom domain": (
        "step", with_node("Add", domain="ai.evil"), "it has the operator ai.evil.Add"),
    "the domain of ONNX": (
        "step", with_node("Loop", domain="ai.onnx"), "it has the operator Loop"),
    "an operator of ONNX Runtime": (
        "step", with_node("Tokenizer", domain="com.microsoft"), "com.microsoft.Tokenizer"),
    "an operator in the wrong domain": (
        "step", with_node("MatMulIntegerToFloat"), "it has the operator MatMulIntegerToFloat"),
    "a function": ("step", with_function, "it has functions"),
    "training": ("step", lambda model: model.training_info.add(), "it has graphs for training"),
    "sparse weights": ("step", with_sparse_weights, "it has sparse weights"),
    "nested": ("step", with_subgraph(20), f"{SAFE} .nested too deeply"),
    "a tensor smaller than its shape": ("step", with_lying_tensor, "ONNX Runtime cannot use it"),
    "no output": ("step", renamed("log_probs"), "outputs are not what the step takes"),
    "no state": ("encoder", renamed("state"), "outputs are not what the step takes"),
    "text for numbers": (
        "encoder", reworked("state", "Cast", to=onnx.TensorProto.STRING), "cannot use it|outputs"),
    "integers": (
        "encoder", reworked("state", "Cast", to=onnx.TensorProto.INT64), "cannot use it|outputs"),
    "a failure": (
        "encoder", reworked("state", "Reshape", [7, 7]), "cannot be computed|cannot use it"),
    "sentences for one": (
        "encoder", reworked("state", "Concat", np.ones((3, 24), np.float32), axis=0),
        "does not encode each sentence"),
    "a single number": (
        "encoder", reworked("state", "ReduceMax", keepdims=0), "cannot use it|each sentence"),
    "pieces for one": (
        "embedding", reworked("inputs", "Concat", np.ones((3, 120), np.float32), axis=0),
        "does not embed each piece"),
    "inputs of another size": (
        "embedding", reworked("inputs", "Concat", np.ones((1, 3), np.float32), axis=1),
        "cannot be computed"),
    "more hypotheses": (
        "step", reworked("log_probs", "Expand", [2, 1, 1, 1]),
        "does not advance each hypothesis|target pieces"),
    "no piece": (
        "step", reworked("log_probs", "ReduceMax", axes=[2], keepdims=1),
        "does not advance each hypothesis|target pieces"),
    "another state": (
        "step", reworked("next_state", "ReduceMax", axes=[2], keepdims=1),
        "does not advance each hypothesis"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_unsafe_or_unusable_graph_is_refused(copied: Path, name: str) -> None:
    kind, change, words = CHANGES[name]
    alter_graph(copied / "graph" / f"{kind}.fp32.onnx", change)
    refused(copied, words)


@pytest.mark.parametrize("content", [b"", b"ONNX", bytes(100), b"\x3a\xff\xff\xff\xff\x0f", None])
def test_file_that_is_no_graph_is_refused(copied: Path, content: bytes | None) -> None:
    path = copied / "graph/step.fp32.onnx"
    path.write_bytes(path.read_bytes()[:-1000] if content is None else content)
    refused(copied, "damaged, it does not match its checksum")
    seal_graphs(path.parent)
    refused(copied, f"{SAFE}|ONNX Runtime cannot use it|outputs are not")
    path.unlink()
    refused(copied, r"step.fp32.onnx: cannot be read \(No such file")


def test_weights_of_attention_have_a_column_for_each_piece(copied: Path) -> None:
    path = copied / "graph/step.fp32.onnx"
    alter_graph(path, reworked("weights", "ReduceMax", axes=[2], keepdims=1))
    translator = Translator.load(copied)
    with pytest.raises(CheckpointError, match="does not advance each hypothesis"):
        translator.translate(["gato come"], translator.options(keep_weights=True))


def test_lack_of_memory_is_a_fault(copied: Path) -> None:
    alter_graph(copied / "graph/encoder.fp32.onnx", reworked("state", "Expand", [1 << 42, 1, 1]))
    with pytest.raises(MemoryError):
        translation(copied)


def test_names_that_are_no_text_are_refused(
    copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = copied / "graph/encoder.fp32.onnx"
    path.write_bytes(path.read_bytes().replace(b"values", b"\xff" * 6))
    seal_graphs(path.parent)
    refused(copied, "cannot use it|outputs are not what the step takes")
    assert capfd.readouterr() == ("", "")


def test_format_of_the_runtime_is_not_read(copied: Path) -> None:
    """Bytes that ONNX Runtime would take for its own format are read as what was checked."""
    path = copied / "graph/encoder.fp32.onnx"
    doc = b"\x32\x8a\x80\x00" + b"ORTM" + bytes(6)  # a doc_string of ten bytes
    path.write_bytes(doc + path.read_bytes())
    seal_graphs(path.parent)
    assert translation(copied) == "cat eats"


def test_field_numbers_cannot_be_disguised() -> None:
    """Of a number of 35 bits, protobuf reads 32."""
    check_graph(ENCODER + bytes([0x32, 1, 0]), Path("graph"))
    disguised = bytes([0xBA, 0x80, 0x80, 0x80, 0x10, 1, 0])  # 1 << 32, and a graph
    with pytest.raises(CheckpointError, match="field number"):
        check_graph(ENCODER + disguised, Path("graph"))


@examples(300)
@given(st.binary(max_size=60))
@example(b"")
@example(b"\x3a" * 100)
@example(b"\x80" * 12)
def test_any_bytes_pass_or_are_refused(graph: bytes) -> None:
    try:
        check_graph(graph, Path("graph"))
    except CheckpointError:
        return
    assert read(graph) is None or not operators(read(graph)) - OPERATORS


@examples(200)
@given(st.floats(0, 1), st.integers(0, 4), st.binary(max_size=4))
def test_any_damage_passes_or_is_refused(share: float, removed: int, added: bytes) -> None:
    start = int(share * len(ENCODER))
    damaged = ENCODER[:start] + added + ENCODER[start + removed :]
    test_any_bytes_pass_or_are_refused.hypothesis.inner_test(damaged)


def read(graph: bytes) -> onnx.ModelProto | None:
    """Return what the library onnx reads."""
    try:
        return onnx.load_model_from_string(graph)
    except Exception:
        return None


def operators(model: onnx.ModelProto) -> set[str]:
    """Return all operators of a model, as the library onnx finds them."""

    def of(graph: onnx.GraphProto) -> set[str]:
        found = set()
        for node in graph.node:
            prefix = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
            found.add(prefix + node.op_type)
            for attribute in node.attribute:
                for inner in (attribute.g, *attribute.graphs):
                    found |= of(inner)
        return found

    return of(model.graph)


@pytest.fixture(scope="module")
def victim(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(exported, tmp_path_factory.mktemp("victim") / "run"))


@examples(60)
@given(
    st.sampled_from([f"{kind}.fp32.onnx" for kind in KINDS]),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 4), st.binary(max_size=4)), min_size=1, max_size=4
    ),
)
def test_any_damage_with_its_checksum_is_an_error_or_harmless(
    victim: Path, name: str, changes: list[tuple[float, int, bytes]]
) -> None:
    path = victim / "graph" / name
    whole = path.read_bytes()
    raw = bytearray(whole)
    for share, removed, added in changes:
        # Most positions are among the nodes, which are first.
        start = int(share * 6000) if share < 0.9 else int((share - 0.9) * 10 * len(raw))
        raw[start : start + removed] = added
    try:
        path.write_bytes(raw)
        seal_graphs(path.parent)
        with contextlib.suppress(UserError, MemoryError):
            translator = Translator.load(victim)
            options = translator.options(keep_weights=True)
            assert len(translator.translate(["gato come pan", ""], options)) == 2
    finally:
        path.write_bytes(whole)
        seal_graphs(path.parent)


def test_operators_are_those_of_all_models() -> None:
    found: set[str] = set()
    for config in CASES.values():
        model = arrays_of(tiny_model(config))
        for precision in PRECISIONS:
            for make in MAKERS:
                graph = make(model, precision=precision)
                check_graph(graph.SerializeToString(), Path("graph"))
                found |= operators(graph)
    assert found == OPERATORS


# --- what belongs together


@pytest.mark.parametrize(
    ("encoder", "step", "words"),
    [
        ({}, {"decoder_size": 5}, "cannot be computed|each"),
        ({}, {"attention.score": "none"}, "outputs are not what the step takes"),
        ({"attention.score": "none"}, {}, "outputs are not what the step takes"),
        ({}, {"style": "luong"}, "cannot be computed"),
        ({}, {}, "graph: not made for the tokenizer's [0-9]+ target pieces"),
    ],
)
def test_graphs_of_other_models_are_refused(
    copied: Path, monkeypatch: pytest.MonkeyPatch, encoder: Any, step: Any, words: str
) -> None:
    choices = encoder, step, step
    for kind, make, choice in zip(KINDS, MAKERS, choices, strict=True):
        graph = make(arrays_of(tiny_model(tiny_config(**choice))), precision="fp32")
        (copied / f"graph/{kind}.fp32.onnx").write_bytes(graph.SerializeToString())
    seal_graphs(copied / "graph")
    if "not made for" not in words:
        size = "seq2seq.data.tokenizer.Tokenizer.vocab_size"
        monkeypatch.setattr(size, property(lambda _: 9))
    refused(copied, words)


def test_other_tokenizers_are_refused(copied: Path, toy: ToyCorpus, tmp_path: Path) -> None:
    (copied / "target.model").write_bytes((copied / "source.model").read_bytes())
    refused(copied, "graph: exported with other tokenizers; export the run again")
    (copied / "target.model").unlink()
    with pytest.raises((CheckpointError, DataError), match=r"target.model: cannot be read"):
        translation(copied)


# --- with the weights at hand

SPOILS: dict[str, tuple[Callable[[Path], object], str]] = {
    "description": (lambda graph: (graph / META).write_bytes(b"{"), "graph.json: damaged"),
    "format": (lambda graph: altered(lambda m: m.update(format=0))(graph / META), "graph format 0"),
    "cut": (lambda graph: (graph / "step.fp32.onnx").write_bytes(b"x"), "does not match"),
    "missing": (lambda graph: (graph / "encoder.fp32.onnx").unlink(), "cannot be read"),
    "altered": (
        lambda graph: alter_graph(graph / "step.fp32.onnx", with_node("Loop")), "operator Loop"),
    "nothing": (lambda graph: (graph / META).unlink(), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILS)
def test_damaged_graphs_are_made_again(
    single: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    run, (spoil, words) = shutil.copytree(single, tmp_path / "run"), SPOILS[name]
    before = {path.name: path.read_bytes() for path in (run / "graph").iterdir()}
    spoil(run / "graph")
    with caplog.at_level(logging.INFO):
        assert translation(run) == "cat eats"
    warnings = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == bool(words)
    assert all(words in warning for warning in warnings)
    after = {path.name: path.read_bytes() for path in (run / "graph").iterdir()}
    for graphs in (before, after):
        del graphs[META]
    assert after == before
    caplog.clear()
    assert translation(run) == "cat eats"
    assert not caplog.records


def test_graphs_of_another_recipe_are_made_again(single: Path, tmp_path: Path) -> None:
    """What the weights compute depends on the recipe even where their shapes do not."""
    run = shutil.copytree(single, tmp_path / "run")
    path = run / "graph" / META
    assert json.loads(path.read_text())["model"]["attention"]["project_query"] is not None
    altered(lambda meta: meta["model"]["attention"].update(heads=2))(path)
    assert translation(run) == "cat eats"
    assert json.loads(path.read_text())["model"]["attention"]["heads"] == 1


def test_choice_of_precision(copied: Path) -> None:
    with pytest.raises(ConfigError, match="unknown precision 'fp64'; use one of auto"):
        translation(copied, precision="fp64")
    altered(lambda meta: meta["graphs"].pop("int8"))(copied / "graph" / META)
    refused(copied, "exported in fp32 only, not in int8; use --precision fp32", precision="int8")
    assert translation(copied, precision="auto") == "cat eats"
    assert module.MAX_BLEU_LOSS == 0.2
