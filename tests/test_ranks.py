"""Several processes that train, translate or score together."""

from __future__ import annotations

import json
import logging
import math
import multiprocessing
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ToyCorpus, to_read
from processes import Server, Training
from safetensors.torch import load_file, save_file
from test_trainer import assert_same, records
from torch import Tensor
from torch.distributed.elastic.multiprocessing.api import SignalException

from seq2seq.cli import main
from seq2seq.config import Config, dump_config
from seq2seq.data.batching import make_batch
from seq2seq.data.dataset import PreparedPairs
from seq2seq.device import choose_device
from seq2seq.errors import ConfigError, RankLostError
from seq2seq.inference.lines import WINDOW
from seq2seq.model.translation_model import TranslationModel
from seq2seq.pipeline import train
from seq2seq.processes import Ranks, init_process_group, launcher
from seq2seq.processes import launch as launch_ranks
from seq2seq.runs.directory import RunDirectory
from seq2seq.training import replay
from seq2seq.training.optimizer import Optimizer
from seq2seq.training.trainer import Trainer, seed_generators

STILL = ("model.dropout=0", "training.scheduled_sampling=0")


def codes(ranks: Iterable[Training]) -> list[int]:
    """Return the exit codes of ranks, when all have ended."""
    return [rank.wait(120) for rank in ranks]


def text(ranks: Iterable[Training]) -> str:
    """Return what ranks have written."""
    return "".join(rank.text() for rank in ranks)


def gradients(
    server: Server, recipe: Path, out: Path, size: int, *overrides: str
) -> dict[str, torch.Tensor]:
    """Return the gradient that `size` processes compute for the same update."""
    arguments = [str(recipe), str(out), *STILL, *overrides]
    work = f"import rank_gradients; rank_gradients.main(*{arguments}); raise SystemExit"
    ranks = server.start_ranks(size, [], out.with_suffix(".txt"), work)
    assert codes(ranks) == [0] * size, text(ranks)
    return load_file(out)


@pytest.fixture(scope="module")
def recipe(toy: ToyCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks") / "toy.yaml"
    path.write_text(dump_config(toy.config(path.with_name("run"))))
    return path


@pytest.fixture(scope="module")
def alone(server: Server, recipe: Path) -> dict[str, torch.Tensor]:
    return gradients(server, recipe, recipe.with_name("1.safetensors"), 1)


@pytest.mark.parametrize("size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_rank_count_does_not_change_gradients_or_metrics(
    server: Server, recipe: Path, alone: dict[str, torch.Tensor], size: int
) -> None:
    together = gradients(server, recipe, recipe.with_name(f"{size}.safetensors"), size)
    assert together.keys() == alone.keys()
    for name, expected in alone.items():
        scale = float(expected.abs().max())
        torch.testing.assert_close(together[name], expected, rtol=1e-5, atol=1e-5 * scale)


def test_bf16_gradient_reduction_is_close(
    server: Server, recipe: Path, alone: dict[str, torch.Tensor]
) -> None:
    path, override = recipe.with_name("n.safetensors"), "training.reduce_bf16=true"
    near = gradients(server, recipe, path, 2, override)
    differs = False
    for name, expected in alone.items():
        scale = float(expected.abs().max())
        torch.testing.assert_close(near[name], expected, rtol=1e-2, atol=1e-2 * scale)
        differs |= not torch.allclose(near[name], expected, rtol=1e-5, atol=1e-5 * scale)
    assert differs


def test_shards_partition_a_batch_with_minimal_padding() -> None:
    sources = [[5] * n for n in (3, 1, 2, 4, 1)]
    targets = [[6] * n for n in (1, 2, 3, 1, 2)]
    batch = make_batch(sources, targets, range(10, 15))
    shards = [batch.shard(rank, 3) for rank in range(3)]
    assert sorted(i for shard in shards for i in shard.indices) == list(range(10, 15))
    assert sum(shard.num_target_tokens for shard in shards) == batch.num_target_tokens
    assert sum(int(shard.source_lengths_B.sum()) for shard in shards) == 16
    for shard in shards:
        assert shard.source_BS.shape[1] == int(shard.source_lengths_B.max())
        assert shard.labels_BT.shape[1] == int(shard.target_lengths_B.max())
        for row, index in enumerate(shard.indices):
            length = int(shard.target_lengths_B[row])
            assert torch.equal(shard.labels_BT[row, :length], batch.labels_BT[index - 10, :length])
    stand_in = batch.shard(6, 8)
    assert (len(stand_in), int(stand_in.label_mask_BT.sum()), stand_in.num_target_tokens) == (
        0,
        0,
        0,
    )
    assert batch.shard(0, 1) is batch


def test_random_numbers_depend_on_seed_step_and_rank() -> None:
    def drawn(rank: int, seed: int, step: int) -> tuple[float, ...]:
        seed_generators(seed, step, rank)
        return tuple(torch.rand(4).tolist())

    numbers = {drawn(rank, seed, step) for rank in (0, 1) for seed in (1, 2) for step in (0, 1, 2)}
    assert len(numbers) == 12
    assert drawn(1, 2, 1) in numbers


def launch(
    server: Server, recipe: Path, path: Path, *arguments: str, python: Path | None = None
) -> Training:
    """Start the launcher of two ranks; with Python itself, they take seconds to import it all."""
    command = ["train", recipe, f"run_dir={path}", *arguments, "--processes", 2]
    output = path.with_name(f"{path.name}.txt")
    return server.start(command, output, PYTHON_EXEC=str(python or server.python))


def start_ranks(
    server: Server, recipe: Path, path: Path, *arguments: str, processes: int = 2
) -> list[Training]:
    """Start the ranks alone, as the launcher starts them."""
    command = ["train", recipe, f"run_dir={path}", *arguments]
    return server.start_ranks(processes, command, path.with_name(f"{path.name}.txt"))


def run(
    server: Server, recipe: Path, path: Path, *arguments: str, processes: int = 2
) -> tuple[int, str]:
    """Train with several ranks; return the exit code, which is that of each, and their output."""
    for old in path.parent.glob(f"{path.name}.txt.*"):
        old.unlink()
    ranks = start_ranks(server, recipe, path, *arguments, processes=processes)
    [code] = set(codes(ranks))
    return code, text(ranks)


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def ranks_of(launcher: Training) -> list[int]:
    """Return the process ids of a launcher's ranks."""
    listed = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    return [int(pid) for pid in listed if b"seq2seq" in Path(f"/proc/{pid}/cmdline").read_bytes()]


@pytest.fixture(scope="module")
def together(server: Server, recipe: Path, shared: Path) -> Iterator[Path]:
    def make(path: Path) -> None:
        settings = ("training.max_steps=60", "training.average=last")
        code, errors = run(server, recipe, path, *settings)
        assert code == 0, errors
        assert errors.count("training ended: done") == 1
        assert errors.count("step 3/60") == 1

    yield from to_read(shared / "together", make)


def test_two_processes_train_like_one(server: Server, recipe: Path, toy: ToyCorpus) -> None:
    """Without dropout, which draws other masks in each process.

    Adam makes updates of one size even of gradients that are noise, so that losses drift apart.
    """
    same = ("training.max_steps=10", "model.dropout=0", "training.log_every=1")
    code, errors = run(server, recipe, recipe.with_name("pair"), *same)
    assert code == 0, errors
    train(toy.config(recipe.with_name("alone"), *same))
    one, two = (records(recipe.with_name(name)) for name in ("alone", "pair"))
    assert [(r["kind"], r["step"], r.get("tokens")) for r in one] == [
        (r["kind"], r["step"], r.get("tokens")) for r in two
    ]
    assert two[0]["loss"] == pytest.approx(one[0]["loss"], rel=1e-6)
    assert [r["loss"] for r in two] == pytest.approx([r["loss"] for r in one], rel=0.01)
    assert two[-1]["loss"] < 0.8 * two[0]["loss"]


@pytest.mark.slow
def test_two_processes_resume_bit_identically(server: Server, recipe: Path, together: Path) -> None:
    path = recipe.with_name("stopped")
    settings = ("training.max_steps=60", "training.average=last")
    launcher = launch(server, recipe, path, *settings)
    wait_for(lambda: any(path.glob("checkpoints/step-*")))
    launcher.send(signal.SIGTERM)
    assert launcher.wait() == 143, launcher.text()
    assert launcher.text().count("terminated: saving") == 1
    assert launcher.text().count("terminated; saved") == 1
    assert "death signal" not in launcher.text()
    stopped = RunDirectory(path).newest().step
    assert 0 < stopped < 60
    assert run(server, recipe, path, *settings, "--resume")[0] == 0
    assert_same(together, path)


LOCAL = ("training.local_updates=4", "training.validate_every=8", "training.checkpoint_every=8")


def test_local_updates_see_all_batches_and_resume_bit_identically(
    server: Server, recipe: Path
) -> None:
    whole, parts, alone = (recipe.with_name(f"local-{name}") for name in ("whole", "parts", "one"))
    settings = (*LOCAL, "training.log_every=4")
    assert run(server, recipe, whole, *settings, "training.max_steps=24")[0] == 0
    assert run(server, recipe, parts, *settings, "training.max_steps=8")[0] == 0
    assert run(server, recipe, parts, *settings, "training.max_steps=24", "--resume")[0] == 0
    assert_same(whole, parts)
    assert run(server, recipe, alone, *settings, "training.max_steps=48", processes=1)[0] == 0
    tokens, tokens_alone = (
        [r["tokens"] for r in records(path) if r["kind"] == "train"] for path in (whole, alone)
    )
    assert tokens == tokens_alone[1::2]
    losses = [r["loss"] for r in records(whole) if r["kind"] == "train"]
    assert losses[-1] < 0.8 * losses[0]


def test_local_updates_stop_together(server: Server, recipe: Path) -> None:
    path = recipe.with_name("local-stopped")
    # As the launcher starts them.
    command = [f"run_dir={path}", *LOCAL, "training.max_steps=100000"]
    options = ["--processes", "2", "--restarts", "3"]
    ranks = server.start_ranks(
        2, ["train", recipe, *command, *options], path.with_name(f"{path.name}.txt"),
        TORCHELASTIC_RUN_ID="none",
    )  # fmt: skip
    wait_for(lambda: any(path.glob("checkpoints/step-*")))
    for rank in ranks:  # as the launcher does
        rank.send(signal.SIGTERM)
    assert codes(ranks) == [143, 143], text(ranks)
    errors = text(ranks)
    assert errors.count("terminated: saving") == 1
    again = shlex.join(["seq2seq", "train", str(recipe), *command, *options, "--resume"])
    assert errors.count(f"terminated; saved. Continue with: {again}\n") == 1
    more = RunDirectory(path).newest().step + 8
    code, errors = run(server, recipe, path, *LOCAL, f"training.max_steps={more}", "--resume")
    assert code == 0, errors
    assert RunDirectory(path).newest().step == more


@pytest.mark.slow
def test_resume_with_another_number_of_processes(server: Server, recipe: Path) -> None:
    path, before = recipe.with_name("changed"), 0
    for steps, processes in ((8, 2), (16, 3), (24, 1)):
        how = ["--resume"] if steps > 8 else []
        settings = (f"training.max_steps={steps}", *how)
        code, errors = run(server, recipe, path, *settings, processes=processes)
        assert code == 0, errors
        if steps > 8:
            assert f"saved with processes {before}, resumed with {processes}" in errors
        before = processes
    assert RunDirectory(path).newest().step == 24
    tokens = [r["tokens"] for r in records(path) if r["kind"] == "train"]
    assert tokens == sorted(tokens)


@pytest.mark.slow
def test_killed_rank_stops_the_others_and_restart_resumes(
    server: Server, recipe: Path, together: Path
) -> None:
    settings = ("training.max_steps=60", "training.average=last")
    for restarts in (0, 1):
        path = recipe.with_name(f"killed{restarts}")
        # Without a restart, the code of the rank that is left must not come before that signal.
        python = None if restarts else Path(sys.executable)
        options = ("--restarts", str(restarts))
        launcher = launch(server, recipe, path, *settings, *options, python=python)
        wait_for(lambda: any(path.glob("checkpoints/step-*")))  # noqa: B023
        os.kill(ranks_of(launcher)[1], signal.SIGKILL)
        began = time.monotonic()
        code, errors = launcher.wait(120), launcher.text()
        if restarts:
            assert code == 0, errors
            assert "resuming from" in errors
            assert_same(together, path)
        else:
            assert code == 1
            assert time.monotonic() - began < 60
            assert "killed by signal 9" in errors
            assert "Traceback" not in errors


def test_restart_does_not_touch_the_run_of_another_launch(
    server: Server, recipe: Path, tmp_path: Path
) -> None:
    """Restarted by torchrun, a command that the user got wrong is still refused."""
    path = tmp_path / "old"

    def launched(launch: str, start: int, *arguments: str) -> tuple[list[int], str]:
        torchrun = {"TORCHELASTIC_RUN_ID": launch, "TORCHELASTIC_RESTART_COUNT": str(start)}
        command = ["train", recipe, f"run_dir={path}", *arguments]
        output = tmp_path / f"{launch}-{start}.txt"
        ranks = server.start_ranks(2, command, output, **torchrun)
        return codes(ranks), text(ranks)

    assert launched("first", 0, "training.max_steps=4")[0] == [0, 0]
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for launch, flags, fault in (
        ("second", [], "a run already exists"),
        ("third", ["--resume", "model.decoder_size=8"], "--resume: model.decoder_size was"),
    ):
        for start in (0, 1):
            found, errors = launched(launch, start, "training.max_steps=8", *flags)
            assert found == [2, 2]
            assert errors.count(fault) == 1, errors
            assert {f: f.read_bytes() for f in path.rglob("*") if f.is_file()} == before


def fork_ranks(target: Callable[..., None], *arguments: Any, size: int = 2) -> list[int | None]:
    """Return the exit codes of processes that were forked to call a function as ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def work(rank: int) -> None:
        os.environ |= {
            "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        }  # fmt: skip
        target(rank, *arguments)

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=work, args=(rank,)) for rank in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


def test_launcher_passes_on_the_command_that_was_typed(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = []
    monkeypatch.setattr("seq2seq.processes.launch", lambda *how, **_: launched.append(how) or 0)
    typed = ["train", str(recipe), "model.style=luong", "--processes", "2", "--overwrite"]
    assert main(typed) == 0
    assert launched == [(2, typed)]


def test_command_of_torchrun_is_known_as_far_as_it_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launcher() == ["seq2seq"]
    for key, value in {
        "TORCHELASTIC_RUN_ID": "none", "GROUP_WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "4",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }.items():  # fmt: skip
        monkeypatch.setenv(key, value)
    assert shlex.join(launcher()) == "torchrun --nproc-per-node 4 -m seq2seq"
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    several = "torchrun --nnodes 2 --nproc-per-node 4 --max-restarts 3 ... -m seq2seq"
    assert shlex.join(launcher()) == several


def test_launcher_is_silent_when_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(_: object) -> None:
        name = "torch.distributed.elastic.agent.server.api"
        logging.getLogger(name).warning("Received 2 death signal, shutting down workers")
        raise SignalException("", signal.SIGINT)

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr("torch.distributed.run.run", run)
    logging.basicConfig(force=True)
    assert launch_ranks(2, ["train", "quickstart"]) == 130
    assert capfd.readouterr() == ("", "")


def wait_for_rank0(rank: int) -> None:
    with init_process_group() as ranks:
        ranks.on_rank0(time.sleep, 1.2)  # longer than the TIMEOUT below
        assert ranks.all_reduce([1.0]) == [2.0]


def test_ranks_wait_longer_while_rank_0_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2seq.processes.TIMEOUT", timedelta(seconds=1))
    assert fork_ranks(wait_for_rank0) == [0, 0]


def test_ranks_exchange_weights_only_when_all_have_prepared_their_data(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def record(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def called(*given: Any, **keys: Any) -> Any:
            calls.append(name)
            return method(*given, **keys)

        monkeypatch.setattr(owner, name, called)

    record(PreparedPairs, "encode")
    record(Ranks, "wait_for_preparation")
    record(Ranks, "broadcast_from_rank0_")
    train(toy.config(tmp_path / "run", "training.max_steps=1"))
    assert calls == ["encode", "wait_for_preparation", "broadcast_from_rank0_"]


def wait_for_a_slow_rank(rank: int, dies: bool) -> None:
    with init_process_group() as ranks:
        time.sleep(2 * rank)  # longer than the TIMEOUT below
        if dies and rank:
            os._exit(7)
        ranks.wait_for_preparation()
        assert ranks.all_reduce([1.0]) == [2.0]


@pytest.mark.parametrize(("dies", "codes"), [(False, [0, 0]), (True, [1, 7])])
def test_ranks_wait_longer_for_preparation_but_not_for_dead_ranks(
    monkeypatch: pytest.MonkeyPatch, dies: bool, codes: list[int]
) -> None:
    monkeypatch.setattr("seq2seq.processes.TIMEOUT", timedelta(seconds=1))
    assert fork_ranks(wait_for_a_slow_rank, dies) == codes


def test_ranks_use_gpus_if_each_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("auto").type == "cuda"
    assert choose_device("cuda:1").index == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert choose_device("auto").type == "cuda"
    with pytest.raises(ConfigError, match="cuda:1 is one GPU for 2 processes; use cuda, so"):
        choose_device("cuda:1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert choose_device("auto").type == "cpu"
    with pytest.raises(ConfigError, match="3 processes on this machine, but 2 GPUs"):
        choose_device("cuda")


def test_error_is_printed_once(server: Server, recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/config.yaml").write_text("run_dir: here\n")
    code, errors = run(server, recipe, tmp_path / "run")
    assert code == 2
    assert errors.count("has config.yaml, not written by training") == 1
    assert "Traceback" not in errors


def sources(toy: ToyCorpus, run: Path, count: int) -> list[str]:
    """Return `count` sentences of the toy language."""
    rows = Path(toy.config(run).data.valid.path).read_text().splitlines()
    found = [row.split("\t")[0] for row in rows]
    return (found * (count // len(found) + 1))[:count]


def test_ranks_translate_and_score_like_one_process(
    server: Server, together: Path, toy: ToyCorpus, tmp_path: Path
) -> None:
    count = 4 * WINDOW + 321  # two rounds of three ranks, with a short last window
    lines = sources(toy, together, count)
    (tmp_path / "in").write_text("\n".join(["", *lines]))

    def translated(size: int) -> bytes:
        out = tmp_path / f"{size}.out"
        command = ["translate", together, "-i", tmp_path / "in", "-o", out]
        command += ["--beam", "1", "--format", "jsonl", "--attention"]
        ranks = server.start_ranks(size, command, tmp_path / f"{size}.txt")
        assert codes(ranks) == [0] * size, text(ranks)
        return out.read_bytes()

    def scored(size: int) -> Any:
        test = toy.config(together).data.valid.path
        command = ["evaluate", together, test, "--json", "-o", tmp_path / "hypotheses"]
        ranks = server.start_ranks(size, command, tmp_path / f"{size}.scores")
        assert codes(ranks) == [0] * size, text(ranks)
        return json.loads(text(ranks))

    assert translated(3) == translated(1)
    assert (tmp_path / "3.out").read_bytes().count(b"\n") == count + 1
    assert scored(3) == scored(1)


def test_ranks_refuse_standard_input_and_workers(
    server: Server, together: Path, tmp_path: Path
) -> None:
    ranks = server.start_ranks(2, ["translate", together], tmp_path / "first.txt")
    assert 0 not in codes(ranks)
    errors = text(ranks)
    assert "several ranks cannot share standard input; name a file with --input" in errors
    (tmp_path / "in").write_text("a\n")
    names = ["-i", tmp_path / "in", "-o", tmp_path / "out", "--workers", 2]
    ranks = server.start_ranks(2, ["translate", together, *names], tmp_path / "second.txt")
    assert 0 not in codes(ranks)
    assert "remove --workers" in text(ranks)


@pytest.mark.slow
def test_killed_rank_leaves_no_gap_in_the_output(
    server: Server, together: Path, toy: ToyCorpus, tmp_path: Path
) -> None:
    lines = sources(toy, together, 60 * WINDOW)
    (tmp_path / "in").write_text("\n".join(lines))
    out = tmp_path / "out"
    command = ["translate", together, "-i", tmp_path / "in", "-o", out, "--beam", "1"]
    ranks = server.start_ranks(2, command, tmp_path / "text")
    wait_for(lambda: out.exists() and out.stat().st_size > 0)
    ranks[1].send(signal.SIGKILL)
    assert codes(ranks) == [1, -signal.SIGKILL]
    assert "another process died" in ranks[0].text()
    written = out.read_bytes().decode()
    assert written.endswith("\n")
    assert 0 < written.count("\n") < len(lines)
    (tmp_path / "in").write_text("\n".join(lines[: written.count("\n")]))
    assert server.start(command, tmp_path / "again").wait() == 0
    assert out.read_bytes().decode() == written


def train_until_one_dies(rank: int, config: Config, method: str) -> None:
    """Train as one of two ranks, of which the second is killed in the third call of a method."""
    owner = {"replay": replay, "Trainer": Trainer, "Optimizer": Optimizer}
    name, attribute = method.split(".")
    original, calls = getattr(owner[name], attribute), count(1)

    def dying(*arguments: Any, **options: Any) -> Any:
        if rank and next(calls) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)

    setattr(owner[name], attribute, dying)
    try:
        train(config)
    except RankLostError:
        os._exit(3)


@pytest.mark.parametrize(
    "method",
    [
        "replay.teacher_forced_loss",
        "Optimizer.step",
        "Trainer._average_ranks",
        "Trainer._synchronize",
    ],
)
def test_dead_rank_is_noticed_in_every_phase(toy: ToyCorpus, tmp_path: Path, method: str) -> None:
    local = LOCAL if method == "Trainer._average_ranks" else ()
    codes = fork_ranks(train_until_one_dies, toy.config(tmp_path / "run", *local), method)
    assert codes == [3, -signal.SIGKILL]


def train_with_a_spoilt_loss(rank: int, config: Config) -> None:
    """Train as one of two ranks; the second has an infinite loss in its third backward pass."""
    real_loss, calls, step = replay.teacher_forced_loss, count(1), Optimizer.step
    norms = []
    shown = Path(config.run_dir).with_name(f"shown.{rank}")
    logging.basicConfig(filename=shown, force=True)

    def spoilt(*arguments: Any, **options: Any) -> Any:
        loss, plain = real_loss(*arguments, **options)
        return loss * (math.inf if rank and next(calls) == 3 else 1.0), plain

    def stepping(self: Optimizer, *arguments: Any) -> Tensor:
        norm = step(self, *arguments)
        if norm.isfinite():
            norms.append(float(norm))
        return norm

    replay.teacher_forced_loss = spoilt
    Optimizer.step = stepping  # type: ignore[method-assign]
    assert train(config) == "finished"
    with Path(config.run_dir, f"norms.{rank}").open("w") as file:
        json.dump(norms, file)


def train_two(config: Config) -> list[list[float]]:
    """Return the norms of both ranks' gradients, one of them with a spoilt loss."""
    assert fork_ranks(train_with_a_spoilt_loss, config) == [0, 0]
    return [json.loads(Path(config.run_dir, f"norms.{rank}").read_text()) for rank in (0, 1)]


def test_loss_that_is_not_finite_is_skipped_by_the_rank_alone_that_updates_alone(
    toy: ToyCorpus, tmp_path: Path
) -> None:
    config = toy.config(tmp_path / "run", *LOCAL, "training.max_steps=8")
    assert [len(norms) for norms in train_two(config)] == [8, 7]
    # Only this rank knows of it, and the terminal shows of its messages what is an error.
    shown = (tmp_path / "shown.1").read_text()
    assert shown.count("ERROR:seq2seq.training.trainer:step 2: loss inf") == 1
    assert RunDirectory(tmp_path / "run").newest().step == 8


def test_loss_that_is_not_finite_on_one_rank_is_skipped_by_all(
    toy: ToyCorpus, tmp_path: Path
) -> None:
    config = toy.config(tmp_path / "run", "training.max_steps=4", "training.log_every=1")
    norms = train_two(config)
    assert norms[0] == norms[1]
    assert len(norms[0]) == 3
    assert [r["step"] for r in records(tmp_path / "run") if r["kind"] == "train"] == [1, 3, 4]
    assert (
        "step 2: loss inf, gradient norm nan: update skipped"
        in (tmp_path / "run/log.txt").read_text()
    )


def train_with_infinite_losses(rank: int, config: Config, resume: bool) -> None:
    spoil_losses(lambda step: True)
    train(config, resume=resume)


def spoil_losses(is_spoilt: Callable[[int], bool]) -> None:
    """Make the losses of these updates of this process infinite."""
    make = Optimizer.step

    def spoilt(self: Optimizer, step: int, rate: float, loss: Tensor) -> Tensor:
        if is_spoilt(step):
            loss.fill_(math.inf)
        return make(self, step, rate, loss)

    Optimizer.step = spoilt  # type: ignore[method-assign]


def test_skipped_local_updates_are_counted_once(toy: ToyCorpus, tmp_path: Path) -> None:
    """Each rank skips all of its updates; neither the other rank nor resuming adds to the count."""
    for steps, resume in ((2, False), (3, True), (4, True)):
        settings = ("training.local_updates=4", f"training.max_steps={steps}")
        config = toy.config(tmp_path / "run", *settings)
        assert fork_ranks(train_with_infinite_losses, config, resume) == [0, 0]
        assert RunDirectory(tmp_path / "run").newest().state["progress"]["skipped"] == steps


def train_with_some_infinite_losses(rank: int, config: Config) -> None:
    """Let rank 0 skip updates 2 to 10, and rank 1 update 11."""
    spoil_losses(lambda step: step in (range(2, 11) if rank == 0 else [11]))
    train(config)


def test_local_updates_that_other_ranks_skipped_do_not_count(
    toy: ToyCorpus, tmp_path: Path
) -> None:
    settings = ("training.local_updates=4", "training.max_steps=12", "training.max_skipped=10")
    config = toy.config(tmp_path / "run", *settings)
    assert fork_ranks(train_with_some_infinite_losses, config) == [0, 0]
    assert RunDirectory(tmp_path / "run").newest().state["progress"]["skipped"] == 0


def train_and_save_state(rank: int, config: Config, folder: Path) -> None:
    """Train as one of several ranks; save what they have before and after each average."""
    init, average, names = Trainer.__init__, Trainer._average_ranks, count()

    def different(self: Trainer, model: TranslationModel, *arguments: Any) -> None:
        with torch.no_grad():
            model.output_bias += rank
        init(self, model, *arguments)
        save(self)

    def averaging(self: Trainer) -> None:
        save(self)
        average(self)
        save(self)

    def save(self: Trainer) -> None:
        optimizer = self.optimizer
        tensors = {"state": optimizer.state_SN, "updates": optimizer.updates}
        tensors |= {name: p.clone() for name, p in self.model.named_parameters()}
        save_file(tensors, folder / f"{rank}-{next(names):03d}")

    Trainer.__init__ = different  # type: ignore[method-assign,assignment]
    Trainer._average_ranks = averaging  # type: ignore[method-assign]
    assert train(config) == "finished"


@pytest.mark.parametrize(
    ("size", "setting"),
    [
        (3, "training.reduce_bf16=false"),
        (2, "training.reduce_bf16=true"),
        (3, "training.local_updates=3"),
    ],
)
def test_all_ranks_have_the_same_weights(
    toy: ToyCorpus, tmp_path: Path, size: int, setting: str
) -> None:
    """Before the first update and after the last; with local updates, always the mean of all."""
    config = toy.config(tmp_path / "run", setting, "training.max_steps=8")
    assert fork_ranks(train_and_save_state, config, tmp_path, size=size) == [0] * size
    names = sorted(path.name[2:] for path in tmp_path.glob("0-*"))
    assert len(names) > 4
    local = "local" in setting
    first, last = [load_file(tmp_path / f"0-{name}") for name in (names[0], names[-1])]
    assert not torch.equal(first["output_weight"], last["output_weight"])
    means: dict[str, torch.Tensor] = {}
    differed = False
    for name in names:
        ranks = [load_file(tmp_path / f"{rank}-{name}") for rank in range(size)]
        if local and int(name) % 2:  # before an average
            differed |= not torch.equal(ranks[0]["state"], ranks[1]["state"])
            means = {
                key: torch.stack([tensors[key] for tensors in ranks]).mean(0)
                for key in ("state", "updates")
            }
            continue
        for key, tensor in ranks[0].items():
            assert all(torch.equal(tensors[key], tensor) for tensors in ranks)
        for key, mean in means.items():
            torch.testing.assert_close(ranks[0][key], mean)
    assert differed is local
