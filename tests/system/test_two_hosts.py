"""Training on two hosts, simulated by two network namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ToyCorpus

from seq2seq.config import dump_config
from seq2seq.runs.directory import RunDirectory

SCRIPT = Path(__file__).with_name("two_hosts.sh")


def can_create_namespaces() -> bool:
    if not shutil.which("ip") or not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(not can_create_namespaces(), reason="cannot create network namespaces")
def test_two_hosts_train_together(toy: ToyCorpus, tmp_path: Path) -> None:
    recipe, run = tmp_path / "toy.yaml", tmp_path / "run"
    recipe.write_text(dump_config(toy.config(run)))
    ended = subprocess.run(
        [str(SCRIPT), str(recipe), str(run)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("training ended: done") == 1
    assert "2 processes, 1 thread each" in ended.stderr
    assert RunDirectory(run).newest().step == 20
    assert not Path("/nowhere").exists()
