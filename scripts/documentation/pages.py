"""Text that scripts write into pages: tables, and what stands between markers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, names: int) -> str:
    """Return a Markdown table; the columns after the names are numbers."""
    lines = [head, ["---"] * names + ["---:"] * (len(head) - names), *rows]
    shown = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in shown)


def replace_between(page: Path, begin: str, end: str, text: str) -> None:
    """Replace what stands between two markers of a page. Raises SystemExit if they are missing."""
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    if not found or end not in rest:
        sys.exit(f"{page}: no markers '{begin}' and '{end}'; add them where the results should be")
    filled = f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"
    page.write_text(filled, encoding="utf-8", newline="\n")
