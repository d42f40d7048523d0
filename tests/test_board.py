from __future__ import annotations

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from seq2seq.training.monitor import TensorBoardWriter


def test_tensorboard_drops_scalars_after_the_resumed_step(tmp_path: Path) -> None:
    for number, first in enumerate((1, 3)):
        board = TensorBoardWriter(tmp_path / "board", first=first)
        for step in range(first, first + 4):
            board.write("train", {"step": step, "loss": step + 10.0 * number})
        board.close()
        [file] = (tmp_path / "board").iterdir()
        # TensorBoard orders files by the second in their names.
        file.rename(tmp_path / f"events.out.tfevents.{number}")
    for file in tmp_path.glob("events.*"):
        file.rename(tmp_path / "board" / file.name)
    found = EventAccumulator(str(tmp_path / "board"))
    found.Reload()
    scalars = [(event.step, event.value) for event in found.Scalars("train/loss")]
    assert scalars == [(1, 1.0), (2, 2.0), (3, 13.0), (4, 14.0), (5, 15.0), (6, 16.0)]
