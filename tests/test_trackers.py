"""training.trackers reports to MLflow and Weights & Biases, which write to local files here.

Each takes a second to import, so they are imported where they are needed: all processes of a test
run import this file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ToyCorpus

from seq2seq.config.loading import flat
from seq2seq.errors import ConfigError
from seq2seq.pipeline import train
from seq2seq.runs.directory import RunDirectory
from seq2seq.runs.logs import read_metrics

Numbers = dict[tuple[int, str], float]


@pytest.fixture(autouse=True)
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the package, which writes into a folder, as that of W&B does."""
    import mlflow

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file:{tmp_path}/mlflow")
    yield mlflow
    mlflow.end_run()


def recorded(run: Path) -> Numbers:
    """Return the floats of metrics.jsonl, by step and name."""
    return {
        (record["step"], f"{record['kind']}/{key}"): value
        for record in read_metrics(run / "metrics.jsonl")
        for key, value in record.items()
        if isinstance(value, float)
    }


def in_mlflow(identity: str) -> Numbers:
    import mlflow

    client = mlflow.MlflowClient()
    return {
        (point.step, name): point.value
        for name in client.get_run(identity).data.metrics
        for point in client.get_metric_history(identity, name)
    }


def in_wandb(folder: Path) -> tuple[Numbers, dict[str, str]]:
    """Return the numbers and the settings of an offline run, whose file is small enough for one
    block of records, each with a header of seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    [file] = folder.glob("*.wandb")
    data = file.read_bytes()
    numbers: Numbers = {}
    config: dict[str, str] = {}
    at = 7
    while at < len(data):
        [size] = struct.unpack("<H", data[at + 4 : at + 6])
        record = Record.FromString(data[at + 7 : at + 7 + size])
        at += 7 + size
        items = {item.key or item.nested_key[0]: item.value_json for item in record.history.item}
        for key in items.keys() - {"_step", "_runtime", "_timestamp"}:
            numbers[int(items["_step"]), key] = float(items[key])
        config |= {item.key: item.value_json for item in record.run.config.update}
    return numbers, config


def test_trackers_have_the_metrics_and_the_recipe(
    mlflow: Any, toy: ToyCorpus, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    steps = "training.max_steps={}"
    changes = ["training.trackers=[mlflow, wandb]", "training.log_every=2"]
    train(toy.config(run, *changes, steps.format(4)))
    identity = (run / "mlflow.id").read_text()
    first, config = in_wandb(run / "wandb/latest-run")
    expected = recorded(run)
    assert {key for _, key in expected} > {"train/loss", "validation/bleu"}
    assert first == in_mlflow(identity) == pytest.approx(expected)
    recipe = flat(RunDirectory(run).config().model_dump(mode="json"))
    assert mlflow.get_run(identity).data.params == {key: str(x) for key, x in recipe.items()}
    assert config["training.max_steps"] == "4"
    assert config.keys() > recipe.keys()

    train(toy.config(run, *changes, steps.format(8)), resume=True)
    assert (run / "mlflow.id").read_text() == identity
    assert in_mlflow(identity) == pytest.approx(recorded(run) | first)
    later, _ = in_wandb(run / "wandb/latest-run")
    assert later == pytest.approx({key: x for key, x in recorded(run).items() if key[0] > 4})
    folders = [path.name for path in (run / "wandb").glob("offline-run-*")]
    assert {name.rpartition("-")[2] for name in folders} == {(run / "wandb.id").read_text()}

    train(toy.config(run, steps.format(2)), overwrite=True)
    assert not [*run.glob("*.id"), *run.glob("wandb")]


def test_training_goes_on_where_reporting_fails(
    mlflow: Any,
    toy: ToyCorpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr(mlflow, "log_metrics", fail)
    changes = "training.trackers=[mlflow]", "training.max_steps=4"
    assert train(toy.config(tmp_path / "run", *changes))
    assert "mlflow: no network; this was not reported, training goes on" in caplog.text


def test_tracker_that_cannot_begin_is_a_user_error(
    mlflow: Any, toy: ToyCorpus, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(toy.config(run, "training.max_steps=2"))
    before = (run / "metrics.jsonl").read_bytes()
    mlflow.set_tracking_uri("nonsense://host")
    with pytest.raises(ConfigError, match=r"^training.trackers: mlflow cannot be used: .*nonsense"):
        train(toy.config(run, "training.trackers=[mlflow]"), overwrite=True)
    assert (run / "metrics.jsonl").read_bytes() == before
    assert RunDirectory(run).newest().step == 2
