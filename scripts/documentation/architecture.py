"""Count the code and draw the rooms of docs/architecture.md.

    python scripts/documentation/architecture.py

Fills in the table between the page's markers and writes docs/images/rooms.png. Both come from the
files themselves: lines and functions from the sources, layers from .importlinter.
"""

from __future__ import annotations

import ast
import configparser
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

sys.path.insert(0, str(Path(__file__).parents[1]))  # scripts/

from documentation.pages import replace_between

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "seq2seq"
PAGE = ROOT / "docs/architecture.md"
PICTURE = ROOT / "docs/images/rooms.png"
BEGIN, END = "<!-- code size: begin -->", "<!-- code size: end -->"


@dataclass(frozen=True)
class Size:
    """How large some Python files are; all lines count, comments and blank ones too."""

    files: list[int]  # lines of each
    functions: list[tuple[int, str]]  # lines and name of each
    typed: int  # functions with an annotation for every parameter and the result

    @property
    def lines(self) -> int:
        """All lines of all files."""
        return sum(self.files)


def measure(files: list[Path]) -> Size:
    """Return the size of some files. Empty ones, such as most __init__.py, do not count."""
    lines, functions, typed = [], [], 0
    for path in files:
        text = path.read_text(encoding="utf-8")
        if not text.strip():
            continue
        lines.append(text.count("\n"))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{path.relative_to(ROOT)}:{node.name}"
                functions.append(((node.end_lineno or 0) - node.lineno + 1, name))
                typed += is_typed(node)
    return Size(lines, functions, typed)


def is_typed(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether every parameter (but self and cls) and the result are annotated."""
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named = [each for each in every if each.arg not in ("self", "cls")]
    return node.returns is not None and all(each.annotation is not None for each in named)


def table() -> str:
    """Return the table of sizes as Markdown."""
    package = measure(sorted(PACKAGE.rglob("*.py")))
    tests = measure(sorted((ROOT / "tests").rglob("*.py")))
    longest, where = max(package.functions)
    rows = [
        ("lines / files of the package", f"{package.lines:,} / {len(package.files)}"),
        ("median file, lines", f"{statistics.median(package.files):.0f}"),
        ("longest function, lines", f"{longest} (`{where}`)"),
        ("functions with complete types", f"{package.typed / len(package.functions):.0%}"),
        ("lines of tests per line of the package", f"{tests.lines / package.lines:.2f}"),
    ]
    return "| | |\n| --- | --- |\n" + "".join(f"| {name} | {value} |\n" for name, value in rows)


def files_of(room: str) -> list[Path]:
    """Return the files of a room of seq2seq: a package or a single module."""
    path = PACKAGE / room
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def layers() -> list[list[str]]:
    """Return the layers of .importlinter from the top down, without the package's own name."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    lines = parser["importlinter:contract:layers"]["layers"].split("\n")
    found = [[name.strip().removeprefix("seq2seq.") for name in line.split(":")] for line in lines]
    return [layer for layer in found if layer != [""] and layer != ["__main__"]]


def draw(path: Path) -> None:
    """Draw the layers as rows of boxes; a box is as wide as the share of its room's lines."""
    found = layers()
    sizes = {name: measure(files_of(name)).lines for layer in found for name in layer}
    largest = max(sum(sizes[name] for name in layer) for layer in found)
    figure, axes = plt.subplots(figsize=(9, 0.62 * len(found) + 0.4))
    for row, layer in enumerate(found):
        widths = [max(1.5, 8 * sizes[name] / largest) for name in layer]
        left = -(sum(widths) + 0.15 * (len(layer) - 1)) / 2
        for name, width in zip(layer, widths, strict=True):
            box = FancyBboxPatch(
                (left, -row), width, 0.62, boxstyle="round,pad=0.02", linewidth=1,
                facecolor="#e8eef7", edgecolor="#4a6a9a",
            )  # fmt: skip
            axes.add_patch(box)
            axes.text(
                left + width / 2, 0.31 - row, f"{name}  {sizes[name]:,}", ha="center", va="center"
            )
            left += width + 0.15
    axes.annotate(
        "imports", (4.75, 0.6 - len(found) + 0.4), (4.75, 0.6), ha="center", color="#555555",
        arrowprops={"arrowstyle": "->", "color": "#888888"},
    )  # fmt: skip
    axes.set(xlim=(-4.6, 5.3), ylim=(0.7 - len(found), 1))
    axes.axis("off")
    figure.savefig(path, dpi=130, bbox_inches="tight")


def main() -> None:
    """Fill in the page and draw the picture."""
    replace_between(PAGE, BEGIN, END, f"\n{table()}")
    draw(PICTURE)


if __name__ == "__main__":
    main()
