"""Writing the files of a corpus, all or none."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from seq2seq.files import locked, sync_directory, sync_file


@contextlib.contextmanager
def publish_files(directory: Path) -> Iterator[Path]:
    """Yield a directory to fill; on leaving, sync its files and move them into `directory`.

    No file is moved before all are on disk; on error none is. One process at a time can do this.
    """
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / ".partial"
    with locked(directory):
        shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir()
            yield partial
            files = sorted(partial.iterdir())
            for file in files:
                sync_file(file)
            for file in files:
                file.replace(directory / file.name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        sync_directory(directory)
