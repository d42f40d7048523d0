from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ToyCorpus
from same_runs import assert_same, records

import study
from seq2seq.cli import main
from seq2seq.config import Config, TrainingConfig
from seq2seq.data.batching import make_batch
from seq2seq.data.dataset import load_pairs, train_tokenizers
from seq2seq.data.stream import BatchStream
from seq2seq.device import choose_device
from seq2seq.errors import ConfigError
from seq2seq.model.translation_model import TranslationModel
from seq2seq.pipeline import train
from seq2seq.runs.checkpoint import Checkpoint
from seq2seq.runs.directory import RunDirectory
from seq2seq.training import loss as losses
from seq2seq.training import trainer as module
from seq2seq.training.monitor import Monitor, Validation
from seq2seq.training.signals import StopRequest
from seq2seq.training.trainer import Trainer


def make_trainer(config: Config, run: Path, validate: Any = None) -> Trainer:
    pairs, _ = load_pairs(config)
    source, target = train_tokenizers(pairs, config)
    torch.manual_seed(0)
    model = TranslationModel(config.model, source.vocab_size, target.vocab_size)
    stream = BatchStream(pairs, source, target, config.data, seed=1)
    directory = RunDirectory(run)
    directory.create(config, source, target, {})

    def nothing(model: TranslationModel) -> Validation:
        return Validation({"bleu": 1.0, "loss": 1.0}, [])

    return Trainer(model, stream, config.training, directory, validate or nothing)


@pytest.fixture
def monitor(tmp_path: Path) -> Callable[..., Monitor]:
    """Return a function that makes the monitor of a run."""

    def make(**keys: Any) -> Monitor:
        config = TrainingConfig(tensorboard=False, **keys)
        run = RunDirectory(tmp_path)
        return Monitor(run, config, start=0, minutes=0.0, validated=False, is_first=True)

    return make


RECORD = {
    "step": 100, "minutes": 3.0, "loss": 2.0, "perplexity": 7.0, "learning_rate": 0.01,
    "tokens_per_second": 500.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("most", "reached"),
    [
        ({"max_minutes": 30}, "step 100, 3.0/30 min"),
        ({"max_minutes": 30, "max_steps": 200}, "step 100/200"),
        ({}, "step 100/100000"),
    ],
)
def test_progress_is_towards_the_limit_that_ends_training(
    monitor: Callable[..., Monitor],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    most: dict[str, int],
    reached: str,
) -> None:
    with caplog.at_level("INFO"), monitor(**most) as shown:
        shown.train(RECORD)
        assert f"{reached}  loss 2.000  perplexity 7.0  rate 0.01  500 tokens/s  " in caplog.text
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with monitor(**most) as shown:
        shown.advance(100, 3.0)
        shown.train(RECORD)
    [percent] = ({"30": "10", "200": "50"}.get(reached.split("/")[1].split()[0], "0"),)
    assert f"{reached}  {percent:>2}%|" in capsys.readouterr().err


def test_log_says_how_far_training_is_where_records_are_rare(
    monitor: Callable[..., Monitor],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    monkeypatch.setattr("seq2seq.training.monitor.time.monotonic", lambda: now)
    with caplog.at_level("INFO"), monitor(max_minutes=30) as shown:
        for step in range(1, 8):
            now = 10.0 * step
            shown.advance(step, now / 60)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["step 3, 0.5/30 min  29.5 min left", "step 6, 1.0/30 min  29.0 min left"]


@pytest.fixture(scope="module")
def straight(toy: ToyCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "straight"
    assert train(toy.config(path)) == "finished"
    return path


@pytest.mark.parametrize("stop", [0, 1, 5, 6, 12])
def test_resume_from_any_step_is_bit_identical(
    toy: ToyCorpus, straight: Path, tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    update, entered = Trainer.update, StopRequest.__enter__
    requests: list[StopRequest] = []

    def enter(self: StopRequest) -> StopRequest:
        requests.append(self)
        if stop == 0:
            self.reason = "interrupted"
        return entered(self)

    def interrupted(self: Trainer, batches: list[Any]) -> None:
        update(self, batches)
        if self.progress.step == stop:
            requests[-1].reason = "interrupted"

    with monkeypatch.context() as patch:
        patch.setattr(StopRequest, "__enter__", enter)
        patch.setattr(Trainer, "update", interrupted)
        assert train(toy.config(path)) == "interrupted"
    newest = RunDirectory(path).newest()
    assert newest.step == stop
    # A checkpoint that was already validated when the signal arrived keeps its metrics.
    assert (newest.metric("bleu") is not None) == (stop in (6, 12))
    train(toy.config(path), resume=True)
    assert_same(straight, path)


def test_resume_of_a_finished_run_changes_nothing(toy: ToyCorpus, tmp_path: Path) -> None:
    path = tmp_path / "run"
    config = toy.config(path, "training.max_steps=6", "training.average=last")
    train(config)
    before = records(path)
    stamps = {p: p.stat().st_mtime_ns for p in (path / "checkpoints").rglob("*") if p.is_file()}
    assert train(config, resume=True) == "finished"
    assert records(path) == before
    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps


def test_final_step_is_validated_and_saved(toy: ToyCorpus, tmp_path: Path) -> None:
    for name, override in (("steps", "max_steps=5"), ("epochs", "max_epochs=1")):
        path = tmp_path / name
        train(toy.config(path, f"training.{override}", "training.validate_every=100"))
        newest = RunDirectory(path).newest()
        assert newest.metric("bleu") is not None
        assert (newest.step == 5) == (name == "steps")
        assert newest.state["stream"]["epoch"] == (name == "epochs")
        assert records(path)[-1]["step"] == newest.step


def test_max_minutes_ends_training(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter(range(0, 100_000, 6))  # a tenth of a minute per call
    config = toy.config(
        tmp_path / "run", "training.max_minutes=2", "training.schedule.kind=linear",
        "training.schedule.warmup_steps=0", "training.log_every=1",
    )  # fmt: skip
    trainer = make_trainer(config, tmp_path / "run")
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(now)))
    assert trainer.train() == "finished"
    assert 3 < trainer.progress.step < 20
    rates = [r["learning_rate"] for r in records(tmp_path / "run") if r["kind"] == "train"]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.3 * rates[0]


def test_early_stopping_after_patience(toy: ToyCorpus, tmp_path: Path) -> None:
    scores = iter([1.0, 3.0, math.nan, 3.0, 2.0])

    def validate(model: TranslationModel) -> Validation:
        return Validation({"bleu": next(scores), "loss": 0.0}, [])

    config = toy.config(
        tmp_path / "run", "training.validate_every=1", "training.patience=3",
        "training.schedule.warmup_steps=0",
    )  # fmt: skip
    trainer = make_trainer(config, tmp_path / "run", validate)
    assert trainer.train() == "early"
    assert trainer.progress.step == 5
    assert RunDirectory(tmp_path / "run").best("bleu").step == 2
    assert trainer.schedule.plateau == 0.125


def test_accumulated_gradients_equal_one_batch(toy: ToyCorpus, tmp_path: Path) -> None:
    config = toy.config(
        tmp_path / "run", "model.dropout=0", "training.scheduled_sampling=0",
        "training.clip_norm=null", "training.schedule.kind=constant",
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    pairs = [
        [torch.randint(4, 280, (length,), generator=generator).tolist() for length in (n, m)]
        for n, m in ((3, 9), (5, 2), (4, 1), (6, 7))
    ]
    sources, targets = zip(*pairs, strict=True)
    whole = [make_batch(sources, targets, range(4))]
    halves = [make_batch(sources[s], targets[s], range(2)) for s in (slice(2), slice(2, 4))]
    gradients = []
    for batches in (whole, halves):
        trainer = make_trainer(config, tmp_path / "run")
        trainer.optimizer.step = lambda *_: torch.zeros(())  # type: ignore[method-assign]
        trainer.update(batches)
        gradients.append({n: p.grad for n, p in trainer.model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradient, gradients[1][name], rtol=1e-4, atol=1e-7)


def test_non_finite_update_is_reported_and_skipped(
    toy: ToyCorpus, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    config = toy.config(tmp_path / "run", "training.max_skipped=3")
    trainer = make_trainer(config, tmp_path / "run")
    batches = iter(trainer.stream)
    loss = losses.projection_loss
    factors = iter([math.inf, math.nan, 1.0])
    parameters = trainer.optimizer.parameters
    before = {n: p.detach().clone() for n, p in parameters.items()}

    def spoiled(*arguments: Any, **options: Any) -> Any:
        smoothed, plain = loss(*arguments, **options)
        return smoothed * factor, plain

    monkeypatch.setattr(losses, "projection_loss", spoiled)
    spoilt = []
    for factor in factors:
        spoilt.append(next(batches))
        trainer.update(spoilt[-1:])
        changed = any(
            not torch.equal(before[n], p) for n, p in trainer.optimizer.parameters.items()
        )
        assert changed == (factor == 1)
    assert trainer.progress.step == 3
    assert trainer.progress.skipped == 0
    for step, (word, batch) in enumerate(zip(("inf", "nan"), spoilt, strict=False), 1):
        numbers = ", ".join(map(str, batch.indices[:8])) + ", ..." * (len(batch) > 8)
        pairs = f"its {len(batch)} pairs in the cleaned corpus, counted from 0: {numbers}\n"
        line = f"step {step}: loss {word}, gradient norm nan: update skipped; {pairs}"
        assert line in caplog.text
    factor = math.nan
    batch = next(batches)
    trainer.update([batch])
    trainer.update([batch])
    with pytest.raises(ConfigError, match="3 updates in a row were not finite"):
        trainer.update([batch])


def test_ema_weights_are_saved_and_validated(toy: ToyCorpus, tmp_path: Path) -> None:
    seen: dict[str, torch.Tensor] = {}

    def validate(model: TranslationModel) -> Validation:
        seen.update({n: p.detach().clone() for n, p in model.named_parameters()})
        return Validation({"bleu": 1.0}, [])

    trainer = make_trainer(
        toy.config(tmp_path / "run", "training.max_steps=6"), tmp_path / "run", validate
    )
    trainer.train()
    checkpoint = RunDirectory(tmp_path / "run").newest()
    raw = {n: p.detach() for n, p in trainer.optimizer.parameters.items()}
    for name, tensor in checkpoint.weights().items():
        assert torch.equal(tensor, seen[name])
        assert torch.equal(checkpoint.training()[f"raw.{name}"], raw[name])
    assert not torch.equal(seen["output_weight"], raw["output_weight"])


def test_ema_can_be_switched_on_and_off(toy: ToyCorpus, tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(toy.config(path, "training.max_steps=2", "training.ema=0"))
    plain = RunDirectory(path).newest().weights()
    train(toy.config(path, "training.max_steps=3", "training.ema=0.9"), resume=True)
    train(toy.config(path, "training.max_steps=4", "training.ema=0"), resume=True)
    assert not torch.equal(
        RunDirectory(path).newest().weights()["output_weight"], plain["output_weight"]
    )


@pytest.mark.parametrize(("kind", "steps"), [("last", [6, 8]), ("best", [4, 8])])
def test_average_of_last_or_best_checkpoints(
    toy: ToyCorpus, tmp_path: Path, kind: str, steps: list[int]
) -> None:
    scores = iter([1.0, 3.0, 0.5, 2.0, 9.0])

    def validate(model: TranslationModel) -> Validation:
        return Validation({"bleu": next(scores)}, [])

    config = toy.config(
        tmp_path / "run", "training.max_steps=8", "training.validate_every=2",
        "training.keep_last=2", "training.keep_best=2", f"training.average={kind}",
    )  # fmt: skip
    make_trainer(config, tmp_path / "run", validate).train()
    run = RunDirectory(tmp_path / "run")
    best = run.best("bleu")
    assert best.path == run.average_path
    assert best.state["steps"] == steps
    members = [run.checkpoint_path(step) for step in steps]
    mean = sum(Checkpoint(p, {}).weights()["output_weight"].double() for p in members) / 2
    torch.testing.assert_close(best.weights()["output_weight"], mean.float())


def test_metrics_and_log_without_a_terminal(
    toy: ToyCorpus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "run"
    with caplog.at_level("INFO"):
        train(toy.config(path, "training.tensorboard=true", "training.max_steps=6"))
    first, second, validation = records(path)
    assert (first["kind"], first["step"]) == ("train", 3)
    assert (second["kind"], second["step"]) == ("train", 6)
    assert (validation["kind"], validation["step"]) == ("validation", 6)
    assert {"loss", "perplexity", "learning_rate", "tokens", "epoch"} < second.keys()
    assert {"loss", "bleu", "chrf"} < validation.keys()
    assert "step 3/6  loss" in caplog.text
    assert "min left" in caplog.text
    assert "    translation  " in caplog.text
    assert "step 3/6  loss" in (path / "log.txt").read_text()
    assert "dropped, duplicate" in (path / "log.txt").read_text()
    assert len(list((path / "tensorboard").iterdir())) == 1


def test_resume_drops_records_after_the_checkpoint(toy: ToyCorpus, tmp_path: Path) -> None:
    path = tmp_path / "run"
    train(toy.config(path, "training.max_steps=6"))
    before = records(path)
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "step": 9}\n[1]\n{"kind": "tr')
    train(toy.config(path, "training.max_steps=6"), resume=True)
    assert records(path) == before


@pytest.mark.parametrize("name", ["tpu", "meta", "cuda:99", "cuda:x", ""])
def test_unavailable_device_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="device"):
        choose_device(name)


KERNELS = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")


@pytest.fixture
def no_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the limits of kernels out of the environment, and put back what was there."""
    for name in KERNELS:
        monkeypatch.setenv(name, "")  # notes that it was not set, if so
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("no_limits")
def test_training_from_python_leaves_the_environment(toy: ToyCorpus, tmp_path: Path) -> None:
    before = dict(os.environ)
    train(toy.config(tmp_path / "run", "training.max_steps=1"))
    assert dict(os.environ) == before


@pytest.mark.usefixtures("no_limits")
@pytest.mark.parametrize(
    ("flags", "own", "limit"),
    [("fpu avx512_bf16", "", "64"), ("fpu amx_tile", "", "2048"), ("fpu amx_tile", "9", "9")],
)
def test_command_limits_the_kernels_that_are_kept(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    flags: str, own: str, limit: str,
) -> None:  # fmt: skip
    seen: list[str] = []

    def trained(*_: Any, **__: Any) -> str:
        seen.extend(os.environ[name] for name in KERNELS)
        return "interrupted"  # and leaves no run, unlike a finished training

    monkeypatch.setattr("seq2seq.pipeline.train", trained)
    monkeypatch.setattr("seq2seq.device.cpu_flags", lambda: frozenset(flags.split()))
    if own:
        monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", own)
    (tmp_path / "recipe.yaml").write_text(toy.recipe(tmp_path / "run"))
    assert main(["train", str(tmp_path / "recipe.yaml")]) == 130
    assert seen == ["1", limit]


@pytest.mark.usefixtures("no_limits")
def test_study_limits_the_kernels_that_are_kept(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def completed(*_: Any, **__: Any) -> str:
        seen.append(all(name in os.environ for name in KERNELS))
        return "interrupted"

    monkeypatch.setattr("studies.runs.make_cell", completed)
    base = tmp_path / "recipe.yaml"
    base.write_text(toy.recipe(tmp_path / "run"))
    path = tmp_path / "study.yaml"
    grid = "grid: {model.style: [bahdanau]}\nseeds: [1]"
    path.write_text(f"name: small\nout: {tmp_path}/study\nbase: {base}\n{grid}\n")
    assert study.main([str(path), "--cell", "style=bahdanau"]) == 130
    assert seen == [True]
