"""Rows of a Hugging Face dataset: from the hub, a local folder or file, or save_to_disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from seq2seq.errors import DataError

_BUILDERS = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".json": "json",
    ".jsonl": "json",
    ".csv": "csv",
}
_SAVED = ("state.json", "dataset_dict.json")


def read_dataset(
    name: str, subset: str | None, *, split: str, columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a split, memory-mapped, with these columns only.

    Raises DataError where the dataset, the split or a column is not to be had.
    """
    rows = _load(name, subset, split)
    _check(rows.column_names, columns, f"{name} {split}")
    yield from rows.select_columns(sorted(set(columns)))


def stream_dataset(name: str, subset: str | None, *, split: str, columns: Sequence[str]) -> Any:
    """Return the rows of a split as an IterableDataset, which reads as it goes.

    Raises DataError where the dataset, the split or a column is not to be had.
    """
    rows = _load(name, subset, split, streaming=True)
    if rows.column_names is not None:  # known before the first row
        _check(rows.column_names, columns, f"{name} {split}")
        rows = rows.select_columns(sorted(set(columns)))
    return rows


def dataset_files(name: str, subset: str | None, *, split: str) -> list[Path]:
    """Return the files that hold the rows of a split, fetched where they are not here."""
    path = Path(name)
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file())
    if path.is_file():
        return [path]
    return [Path(file["filename"]) for file in _load(name, subset, split).cache_files]


def _check(known: Sequence[str], columns: Sequence[str], where: str) -> None:
    for column in columns:
        if column not in known:
            raise DataError(f"{where}: no column '{column}'; columns: {', '.join(known)}")


def _load(name: str, subset: str | None, split: str, *, streaming: bool = False) -> Any:
    try:
        return _find(name, subset, split, streaming=streaming)
    except Exception as error:  # the library raises whatever its builders and filesystems raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{name} {split}: the dataset cannot be loaded: {reason}; check name, subset, split"
        ) from None


def _find(name: str, subset: str | None, split: str, *, streaming: bool) -> Any:
    import datasets  # seconds, and only this format needs it

    path = Path(name)
    if path.is_file() and path.suffix in _BUILDERS:
        return datasets.load_dataset(
            _BUILDERS[path.suffix], data_files=name, split=split, streaming=streaming
        )
    if any((path / marker).is_file() for marker in _SAVED):
        saved = datasets.load_from_disk(name)
        splits = saved if isinstance(saved, datasets.DatasetDict) else {saved.split or split: saved}
        if split not in splits:
            raise ValueError(f"no split '{split}' on disk; splits: {', '.join(map(str, splits))}")
        return splits[split].to_iterable_dataset() if streaming else splits[split]
    return datasets.load_dataset(name, subset, split=split, streaming=streaming)
