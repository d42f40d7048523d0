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
    where = f"{name} {split}"
    try:
        rows = _load(name, subset, split)
    except Exception as error:  # the library raises whatever its builders and filesystems raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"{where}: the dataset cannot be loaded: {reason}; check name, subset, split"
        ) from None
    for column in columns:
        if column not in rows.column_names:
            raise DataError(
                f"{where}: no column '{column}'; columns: {', '.join(rows.column_names)}"
            )
    yield from rows.select_columns(sorted(set(columns)))


def _load(name: str, subset: str | None, split: str) -> Any:
    import datasets  # seconds, and only this format needs it

    path = Path(name)
    if path.is_file() and path.suffix in _BUILDERS:
        return datasets.load_dataset(_BUILDERS[path.suffix], data_files=name, split=split)
    if any((path / marker).is_file() for marker in _SAVED):
        saved = datasets.load_from_disk(name)
        splits = saved if isinstance(saved, datasets.DatasetDict) else {saved.split or split: saved}
        if split not in splits:
            raise ValueError(f"no split '{split}' on disk; splits: {', '.join(map(str, splits))}")
        return splits[split]
    return datasets.load_dataset(name, subset, split=split)
