"""Graphs are there when they are needed: of the best weights, in the run or beside it."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import ToyCorpus, toy_pairs
from foreign import checkpoint_of

from seq2seq import cli, pipeline
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.errors import CheckpointError, ConfigError, DataError, UserError
from seq2seq.inference import translator
from seq2seq.inference.sampling import Sampling
from seq2seq.inference.torch_backend import TorchBackend
from seq2seq.inference.translator import Translator
from seq2seq.onnx import backend as onnx_backend
from seq2seq.onnx import export as exporting
from seq2seq.onnx.export import export, read_valid
from seq2seq.onnx.graphs import KINDS, META, PRECISIONS, Graphs, read_graphs
from seq2seq.pipeline import train
from seq2seq.runs.directory import RunDirectory

NAMES = {f"{kind}.{p}.onnx" for kind in KINDS for p in PRECISIONS} | {META}


@pytest.fixture
def run(single: Path, tmp_path: Path) -> Path:
    """Return a run with one checkpoint and its graphs."""
    return Path(shutil.copytree(single, tmp_path / "run"))


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/seq2seq"


def graphs_of(run: Path) -> Graphs:
    graphs = read_graphs(run / "graph")
    assert graphs is not None
    return graphs


def translation(*paths: Path, **options: Any) -> str:
    return Translator.load(*paths, **options).translate(["gato come"])[0][0].text


def command(*arguments: object) -> int:
    return cli.main([str(argument) for argument in arguments])


def refuse(*_: object) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def remake(run: Path) -> None:
    """Make the graphs those of other weights."""
    path = run / "graph" / META
    path.write_text(json.dumps(json.loads(path.read_text()) | {"weights": "0" * 64}))


# --- training


def written(path: Path) -> tuple[int, int]:
    """Return what changes when a file is written, not when it is read."""
    return path.stat().st_mtime_ns, path.stat().st_ino


def test_training_exports_its_best_checkpoint(trained: Path) -> None:
    best = RunDirectory(trained).best("bleu")
    graphs = graphs_of(trained)
    assert {path.name for path in graphs.path.iterdir()} == NAMES
    assert graphs.meta["weights"] == best.weights_sum
    assert graphs.meta["checkpoint"] == best.path.name
    assert "int8_bleu_loss" in graphs.meta


def test_average_of_checkpoints_is_exported(toy: ToyCorpus, tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(toy.config(path, "training.average=last", "training.keep_last=2"))
    checkpoint = RunDirectory(path).best("bleu")
    assert graphs_of(path).meta["checkpoint"] == checkpoint.path.name
    export(path / "checkpoints/average", tmp_path / "mean")
    assert graphs_of(tmp_path / "mean").meta["checkpoint"] == "average"


@pytest.mark.parametrize("made", [True, False])
def test_translating_imports_no_torch(run: Path, made: bool) -> None:
    if not made:
        shutil.rmtree(run / "graph")
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from seq2seq.cli import main\nsys.exit(main(['translate', sys.argv[1]]))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, run], input="gato come\n", capture_output=True, text=True
    )
    assert found.stdout == "cat eats\n", found.stderr
    assert ("exported fp32 and int8" in found.stderr) != made
    assert (run / "graph" / META).exists()


def test_resuming_keeps_the_graphs_and_overwriting_deletes_them(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = toy.config(tmp_path / "run", "training.max_steps=2")
    train(config)
    before = written(tmp_path / "run/graph" / META)
    assert train(config, resume=True) == "finished"
    assert written(tmp_path / "run/graph" / META) == before
    (tmp_path / "run/.graph.partial").mkdir()
    monkeypatch.setattr(pipeline, "export_trained", lambda *_: None)
    train(config, overwrite=True)
    assert not (tmp_path / "run/graph").exists()


def test_training_that_cannot_export_is_complete(
    toy: ToyCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(exporting, "publish_directory", refuse)
    assert train(toy.config(tmp_path / "run", "training.max_steps=2")) == "finished"
    assert "graph: not exported" in caplog.text
    assert not (tmp_path / "run/graph").exists()


# --- which graphs are used


def test_new_weights_make_graphs_stale(run: Path, trained: Path) -> None:
    before = graphs_of(run).meta
    shutil.copytree(trained / "checkpoints/average", run / "checkpoints/average")
    shutil.rmtree(checkpoint_of(run))
    assert translation(run) == "cat eats"
    assert graphs_of(run).meta["checkpoint"] == "average"
    assert graphs_of(run).meta["weights"] != before["weights"]
    # What int8 costs these weights is not known.
    assert "int8_bleu_loss" not in graphs_of(run).meta


def test_damaged_best_checkpoint_is_passed_over(run: Path, trained: Path) -> None:
    shutil.copytree(trained / "checkpoints/step-000050", run / "checkpoints/step-000050")
    (run / "graph" / META).unlink()
    os.truncate(checkpoint_of(run) / "model.safetensors", 5000)
    for _ in range(2):
        Translator.load(run)
        assert graphs_of(run).meta["checkpoint"] == "step-000050"


def test_checkpoint_of_a_path_is_kept_in_the_cache(trained: Path, own_cache: Path) -> None:
    before = written(trained / "graph" / META)
    early, late = (
        Translator.load(trained / f"checkpoints/step-{step}").translate(["gato come"])[0][0].score
        for step in ("000050", "000150")
    )
    assert early < late
    assert written(trained / "graph" / META) == before
    entries = sorted(path.name for path in own_cache.glob("graphs-*"))
    assert len(entries) in (1, 2)  # the last checkpoint may be the best
    Translator.load(trained / "checkpoints/step-000050")
    assert sorted(path.name for path in own_cache.glob("graphs-*")) == entries


def test_run_that_cannot_be_written_uses_the_cache(
    run: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remake(run)
    monkeypatch.setattr(exporting, "publish_directory", refuse)
    assert translation(run) == "cat eats"
    assert graphs_of(run).meta["weights"] == "0" * 64
    (entry,) = own_cache.glob("graphs-*")
    before = written(entry / META)
    assert translation(run) == "cat eats"
    assert written(entry / META) == before


def test_cache_that_cannot_be_written_is_replaced_by_a_temporary_folder(
    run: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    remake(run)
    own_cache.parent.write_text("a file")
    monkeypatch.setattr(exporting, "publish_directory", refuse)
    assert translation(run) == "cat eats"
    assert "is not writable" in caplog.text
    assert "using a temporary folder" in caplog.text


def test_two_processes_export_at_once(run: Path) -> None:
    shutil.rmtree(run / "graph")
    code = "import sys; from seq2seq.cli import main; sys.exit(main(['translate', sys.argv[1]]))"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, run],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    found = [process.communicate("gato come\n") for process in processes]
    assert [output for output, _ in found] == ["cat eats\n"] * 2
    assert sum("exported" in errors for _, errors in found) in (1, 2)
    assert {path.name for path in (run / "graph").iterdir()} == NAMES
    assert not list(run.glob(".graph*"))


def test_ensemble_with_one_run_exported_only(exported: Path, other: Path, trained: Path) -> None:
    shared = Translator.load(trained, other).translate(["gato come pan"])[0][0]
    mixed = Translator.load(exported, other).translate(["gato come pan"])[0][0]
    assert (mixed.text, mixed.score) == (shared.text, pytest.approx(shared.score, abs=1e-6))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"backend": "onnx", "precision": "bf16"}, "not in bf16; use backend torch"),
        ({"backend": "onnx", "device": "cuda"}, "backend onnx.* not on cuda"),
        ({"backend": "torch", "precision": "int8"}, "precision int8 needs the onnx backend"),
    ],
)
def test_options_that_do_not_go_together(trained: Path, options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        translation(trained, **options)


def test_onnx_does_not_look_for_gpus(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator, "is_cpu", lambda device: device == "cpu")
    assert translation(trained, backend="onnx") == "cat eats"
    monkeypatch.setattr(translator, "is_cpu", lambda device: False)
    with pytest.raises(ConfigError, match="not on cuda; use backend torch"):
        translation(trained, backend="onnx", device="cuda")


@pytest.mark.parametrize(
    ("cost", "native", "used"),
    [(0.1, True, "int8"), (-1.0, True, "int8"), (0.2, True, "fp32"), (None, True, "fp32"),
     (float("nan"), True, "fp32"), (0.1, False, "fp32")],
)  # fmt: skip
def test_auto_is_int8_where_it_is_native_and_good(
    run: Path, monkeypatch: pytest.MonkeyPatch, cost: float | None, native: bool, used: str
) -> None:
    path, loaded = run / "graph" / META, []
    path.write_text(json.dumps(json.loads(path.read_text()) | {"int8_bleu_loss": cost}))
    files = Graphs.files
    monkeypatch.setattr(Graphs, "files", lambda *a: (loaded.append(a[1]), files(*a))[1])
    monkeypatch.setattr(onnx_backend, "multiplies_int8", lambda: native)
    Translator.load(run, precision="auto")
    Translator.load(run)
    assert loaded == [used, "fp32"]


def test_auto_is_fp32_with_pytorch_on_a_cpu(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2seq.device.multiplies_bf16", lambda device: True)
    [model] = Translator.load(trained, device="cpu", precision="auto", backend="torch").backends
    assert isinstance(model, TorchBackend)
    assert model.dtype == torch.float32


# --- seq2seq export


@pytest.mark.parametrize("precision", ["fp32", "int8", None])
def test_export_to_a_directory(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    precision: str | None,
) -> None:
    asked = [] if precision is None else ["--precision", precision]
    for _ in range(2):
        assert command("export", run, "-o", tmp_path / "to/dog", *asked) == 0
    names = {name for name in NAMES if precision in (None, name.split(".")[1]) or name == META}
    assert {path.name for path in (tmp_path / "to/dog").iterdir()} == {
        "config.yaml", "source.model", "target.model", "graph",
    }  # fmt: skip
    assert {path.name for path in (tmp_path / "to/dog/graph").iterdir()} == names
    printed = capsys.readouterr().out
    assert ("BLEU" in printed) == (precision != "fp32")
    monkeypatch.setattr(onnx_backend, "multiplies_int8", lambda: True)  # for auto
    for chosen in (precision or "fp32", "auto"):
        assert translation(tmp_path / "to/dog", precision=chosen) == "cat eats"
    if precision == "int8":
        with pytest.raises(
            CheckpointError, match="exported in int8 only, not in fp32; use --precision int8, or"
        ):
            translation(tmp_path / "to/dog")


def test_export_as_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("export", run, "--json", "--precision", "fp32") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["path"] == str(run / "graph")
    assert found["bytes"].keys() == {f"{kind}.fp32.onnx" for kind in KINDS} | {META}
    assert found["int8_bleu_loss"] is None


def test_export_replaces_damaged_graphs(run: Path) -> None:
    whole = (run / "graph/step.int8.onnx").read_bytes()
    (run / "graph/step.int8.onnx").write_bytes(b"damaged")
    export(run)
    assert (run / "graph/step.int8.onnx").read_bytes() == whole


def test_export_refuses_other_runs_and_what_cannot_be_written(
    run: Path, trained: Path, exported: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="a run with checkpoints of its own; name another"):
        export(run, trained)
    (tmp_path / "file").write_text("")
    for path in ("file", "file/dog"):
        with pytest.raises(DataError, match="cannot be written"):
            export(run, tmp_path / path)
    with pytest.raises(CheckpointError, match="exported without its weights, which this needs"):
        export(exported, tmp_path / "again")


def test_int8_is_measured_on_the_data_that_is_named(
    run: Path,
    toy: ToyCorpus,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.INFO)
    shutil.rmtree(run / "graph")
    assert "int8_bleu_loss" not in export(run, tmp_path / "dog").meta
    assert "int8 was not measured, so --precision auto will not use it" in caplog.text
    pairs = [line.split("\t")[:2] for line in (toy.folder / "valid.tsv").read_text().splitlines()]
    sides = tmp_path / "valid.es", tmp_path / "valid.en"
    for side, texts in zip(sides, zip(*pairs, strict=True), strict=True):
        side.write_text("".join(f"{text}\n" for text in texts))
    for named in ([toy.folder / "valid.tsv"], [sides[0], "--target", sides[1]]):
        assert command("export", run, "-o", tmp_path / "dog", "--json", "--valid", *named) == 0
        cost = json.loads(capsys.readouterr().out)["int8_bleu_loss"]
        assert cost is not None
    for wrong in (
        ["--valid", sides[0], "--precision", "int8"],
        ["--target", sides[1]],
        ["--valid", "none"],
    ):
        assert command("export", run, *wrong) == 2
        assert "--valid" in (error := capsys.readouterr().err) or "no such file" in error


def test_cost_is_not_recorded_in_graphs_that_replaced_those_it_was_measured_of(
    run: Path, trained: Path, toy: ToyCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = read_valid(run, str(toy.folder / "valid.tsv"))
    score_graphs, early = exporting._bleu, trained / "checkpoints/step-000050"

    def replace_meanwhile(*arguments: Any) -> float:
        found = score_graphs(*arguments)
        if arguments[1] == "int8":
            shutil.rmtree(checkpoint_of(run))
            shutil.copytree(early, run / "checkpoints/step-000050")
            monkeypatch.setattr(exporting, "_bleu", score_graphs)
            export(run)
        return found

    monkeypatch.setattr(exporting, "_bleu", replace_meanwhile)
    export(run, valid=pairs)
    meta = graphs_of(run).meta
    assert (meta["checkpoint"], "int8_bleu_loss" in meta) == ("step-000050", False)
    assert "int8_bleu_loss" in export(run, valid=pairs).meta
    assert "int8_bleu_loss" in graphs_of(run).meta


def test_exported_directory_needs_no_weights(
    exported: Path, toy: ToyCorpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("gato come\nperro\n")
    assert command("translate", exported, "-i", lines, "--attention", "--format", "jsonl") == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["text"] for line in found] == ["cat eats", "dog"]
    test = toy.folder / "test.tsv"
    assert command("evaluate", exported, test, "-o", tmp_path / "out", "--workers", 2) == 0
    assert "BLEU" in capsys.readouterr().out
    assert len((tmp_path / "out").read_text().splitlines()) == 20
    assert command("align", exported, test, "-o", tmp_path / "links") == 0
    assert (tmp_path / "links").read_text().startswith("0-0")
    capsys.readouterr()
    for arguments in (
        ["translate", exported, "-i", lines, "--backend", "torch"],
        ["explain", exported, "gato"],
    ):
        assert command(*arguments) == 2
        assert "exported without its weights, which this needs; use" in capsys.readouterr().err


# --- one translation, whatever computes it

SENTENCES = [source for source, _ in toy_pairs(500, 77)]
SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 5},
    "list": {"beam_size": 5, "nbest": 5, "no_repeat_ngram": 2},
    "coverage": {"beam_size": 3, "coverage_penalty": 0.3, "length_penalty": 0.6},
}


@pytest.fixture(scope="module")
def both(trained: Path) -> tuple[Translator, Translator]:
    return Translator.load(trained, backend="onnx"), Translator.load(trained, backend="torch")


@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_selected_sentences_are_decoded_from_their_start(single: Path, backend: str) -> None:
    [model] = Translator.load(single, device="cpu", backend=backend).backends
    decoding = model.decoding(np.array([[4, 5, EOS], [6, EOS, PAD], [7, 8, EOS]]))
    tokens, chosen = np.array([BOS] * 3), np.array([0, 2])
    before = decoding.step(tokens, decoding.start(), weights=True)
    fewer = decoding.select(chosen)
    after = fewer.step(tokens[:2], fewer.start(), weights=True)
    assert after.log_probs_RC == pytest.approx(before.log_probs_RC[chosen], abs=1e-5)
    if backend == "onnx":  # which moves the memory: nothing may refer to the sentences of before
        assert decoding is fewer


@pytest.mark.parametrize("name", SEARCHES)
def test_backends_translate_alike(both: tuple[Translator, Translator], name: str) -> None:
    options = both[0].options(**SEARCHES[name], keep_weights=True)
    found, expected = (translator.translate(SENTENCES, options) for translator in both)
    for one, other in zip(found, expected, strict=True):
        assert [each.text for each in one] == [each.text for each in other]
        assert [each.score for each in one] == pytest.approx([e.score for e in other], abs=1e-4)
        for mine, yours in zip(one, other, strict=True):
            for part, same in zip(mine.parts, yours.parts, strict=True):
                np.testing.assert_allclose(part.weights, same.weights, rtol=0, atol=1e-4)


def test_backends_sample_alike(both: tuple[Translator, Translator]) -> None:
    sampling = Sampling(num_samples=2, temperature=1.0, seed=3)
    found, expected = (
        [sample.text for line in each.translate(SENTENCES, sampling=sampling) for sample in line]
        for each in both
    )
    # Sums of probabilities differ by rounding, and a draw may fall between both: with two of
    # thirty seeds it did, for one sample of the thousand.
    assert len(found) == len(expected) == 2 * len(SENTENCES)
    assert sum(one != other for one, other in zip(found, expected, strict=True)) <= 1


def test_backends_force_alike(both: tuple[Translator, Translator]) -> None:
    targets = [target for _, target in toy_pairs(500, 77)]
    found, expected = (each.force(SENTENCES, targets) for each in both)
    for part, same in zip(found, expected, strict=True):
        assert part.log_prob == pytest.approx(same.log_prob, abs=1e-4)
        np.testing.assert_allclose(part.weights, same.weights, rtol=0, atol=1e-4)


def test_int8_translates_nearly_alike(both: tuple[Translator, Translator], trained: Path) -> None:
    reduced = Translator.load(trained, precision="int8")
    found, expected = (each.translate(SENTENCES) for each in (reduced, both[0]))
    equal = sum(one[0].text == other[0].text for one, other in zip(found, expected, strict=True))
    assert equal >= 0.95 * len(SENTENCES)


@pytest.mark.parametrize("vnni", [True, False])
def test_int8_products_are_summed_in_32_bits(
    trained: Path, monkeypatch: pytest.MonkeyPatch, vnni: bool
) -> None:
    monkeypatch.setattr(onnx_backend, "has_vnni", lambda: vnni)
    [backend] = Translator.load(trained, precision="int8").backends
    assert isinstance(backend, onnx_backend.OnnxBackend)
    for session in (backend.encoder, backend.embedding, backend.step):
        options = session.get_session_options()
        entry = options.get_session_config_entry("session.x64quantprecision")
        assert entry == ("0" if vnni else "1")


def test_backend_is_onnx(trained: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "seq2seq.onnx.backend"):
        (backend,) = Translator.load(trained).backends
    assert isinstance(backend, onnx_backend.OnnxBackend)
    assert f"translating with {trained / 'graph'} in fp32" in caplog.text


def test_checkpoint_is_exported_to_a_directory_of_its_own(run: Path, tmp_path: Path) -> None:
    checkpoint = checkpoint_of(run)
    with pytest.raises(UserError, match="a checkpoint; name a directory for its graphs"):
        export(checkpoint)
    graphs = export(checkpoint, tmp_path / "early", ["fp32"])
    assert graphs.meta["checkpoint"] == "step-000150"


def test_directories_of_others_are_left_alone(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/config.yaml").write_text("mine: 1\n")
    with pytest.raises(DataError, match="mine: not empty, and not an earlier export"):
        export(run, tmp_path / "mine")
    assert (tmp_path / "mine/config.yaml").read_text() == "mine: 1\n"
    for inside in ("graph", "checkpoints"):
        with pytest.raises(DataError, match="within the run itself"):
            export(run, run / inside)
    with pytest.raises(ConfigError, match="unknown precision 'fp16'; use fp32 or int8"):
        export(run, tmp_path / "new", ["fp16"])  # type: ignore[list-item]
    (run / "target.model").unlink()
    with pytest.raises(DataError, match=r"target.model: cannot be read"):
        export(run, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"backend": "onx"}, "unknown backend 'onx'; use one of auto, onnx, torch"),
        ({"precision": "fp8"}, "unknown precision 'fp8'"),
        ({"threads": -1}, "threads: expected 1 or more, found -1"),
    ],
)
def test_unknown_choices_are_refused(trained: Path, wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Translator.load(trained, **wrong)


def test_one_text_instead_of_lines_is_refused(trained: Path) -> None:
    with pytest.raises(DataError, match=r"pass \[text\]"):
        Translator.load(trained).translate("gato")
