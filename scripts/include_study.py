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

END = "<!-- end of study -->"
FOLDED = re.compile(
    r"^## (All cells|BLEU by length)\n(.*?)\s*(?=^## |^!\[|\Z)", re.MULTILINE | re.DOTALL
)


def include(results: Path, page: Path) -> None:
    """Replace the text between the markers. Raises SystemExit if there are none."""
    name = json.loads((results / "results.json").read_text(encoding="utf-8"))["study"]["name"]
    start = f"<!-- study {name} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(start)
    if not found or END not in rest:
        sys.exit(f"{page}: no markers '{start}' and '{END}'; add them where the results should be")
    text = (results / "results.md").read_text(encoding="utf-8")
    text = FOLDED.sub(_folded, text.partition("\n")[2].strip()).replace("\n## ", "\n#### ")
    for figure in re.findall(r"\]\((\S+\.png)\)", text):
        (page.parent / "images").mkdir(exist_ok=True)
        shutil.copyfile(results / figure, page.parent / "images" / f"{name}-{figure}")
        text = text.replace(f"({figure})", f"(images/{name}-{figure})")
    page.write_text(
        f"{before}{start}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8", newline="\n"
    )


def _folded(section: re.Match[str]) -> str:
    """Return a section that a click opens, on GitHub and on the website."""
    title, text = section.groups()
    return f'<details markdown="1">\n<summary>{title}</summary>\n{text}\n\n</details>\n\n'


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    include(Path(sys.argv[1]), Path(sys.argv[2]))
