"""Write the results of a study into a page: `python scripts/include_study.py RUNS/STUDY PAGE`.

The text between the markers of the study in the page is replaced by its tables and figures; long
tables are folded. The figures are copied to images/ next to the page.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

from documentation.pages import replace_between

FOLDED = re.compile(
    r"^## (All cells|BLEU by length)\n(.*?)\s*(?=^## |^!\[|\Z)", re.MULTILINE | re.DOTALL
)


def include(results: Path, page: Path) -> None:
    """Replace the text between the markers. Raises SystemExit if there are none."""
    name = json.loads((results / "results.json").read_text(encoding="utf-8"))["study"]["name"]
    text = (results / "results.md").read_text(encoding="utf-8")
    text = FOLDED.sub(_folded, text.partition("\n")[2].strip())
    text = re.sub(r"(?m)^## ", "#### ", text)
    figures = {f: f"images/{name}-{f}" for f in re.findall(r"\]\((\S+\.png)\)", text)}
    for figure, copy in figures.items():
        text = text.replace(f"({figure})", f"({copy})")
    replace_between(page, f"<!-- study {name} -->", "<!-- end of study -->", text)
    (page.parent / "images").mkdir(exist_ok=True)
    for figure, copy in figures.items():
        shutil.copyfile(results / figure, page.parent / copy)


def _folded(section: re.Match[str]) -> str:
    """Return a section that a click opens, on GitHub and on the website."""
    title, text = section.groups()
    return f'<details markdown="1">\n<summary>{title}</summary>\n{text}\n\n</details>\n\n'


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    include(Path(sys.argv[1]), Path(sys.argv[2]))
