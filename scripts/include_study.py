"""Put the results of a study into a page: `python scripts/include_study.py RUNS/STUDY PAGE`.

What stands in the page between the marks of the study's name is replaced by its table, its table by
length and its pictures, which are copied to images/ beside the page.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

END = "<!-- end of study -->"


def include(results: Path, page: Path) -> None:
    """Replace what is between the marks. Raises SystemExit where there are none."""
    name = json.loads((results / "results.json").read_text(encoding="utf-8"))["study"]["name"]
    start = f"<!-- study {name} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(start)
    if not found or END not in rest:
        sys.exit(f"{page}: no marks '{start}' and '{END}'; add them where the results are to be")
    text = (results / "results.md").read_text(encoding="utf-8")
    text = text.partition("\n")[2].strip().replace("\n## ", "\n#### ")
    for picture in re.findall(r"\]\((\S+\.png)\)", text):
        (page.parent / "images").mkdir(exist_ok=True)
        shutil.copyfile(results / picture, page.parent / "images" / f"{name}-{picture}")
        text = text.replace(f"({picture})", f"(images/{name}-{picture})")
    page.write_text(
        f"{before}{start}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8", newline="\n"
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    include(Path(sys.argv[1]), Path(sys.argv[2]))
