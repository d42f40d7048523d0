"""Execute docs/attention.ipynb and write it with its outputs.

python scripts/documentation/notebook.py
"""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

PAGE = Path(__file__).parents[2] / "docs/attention.ipynb"


def executed() -> NotebookNode:
    """Return the notebook with new outputs, and without what changes from run to run.

    Raises nbclient.exceptions.CellExecutionError if a cell fails.
    """
    notebook = nbformat.read(PAGE, as_version=4)
    # Neither times nor the version of Python; what a cell prints is one output.
    client = NotebookClient(notebook, timeout=600, record_timing=False, coalesce_streams=True)
    client.execute(cwd=str(PAGE.parent))
    notebook.metadata.language_info = {"name": "python"}
    return notebook


if __name__ == "__main__":
    nbformat.write(executed(), PAGE)
