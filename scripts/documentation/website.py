"""What `make site` adds to MkDocs: pages from outside docs/, and formulas as MathML."""

from __future__ import annotations

import html
import posixpath
import re
from importlib.resources import files as resources
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
# The pages that are not in docs/, and where they are in the repository.
PAGES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "data.md": "data/README.md",
    "license.md": "LICENSE",
}
FONT = str(resources("ziamath.fonts") / "STIXTwoMath-Regular.ttf")
# Formulas scroll on a narrow screen, and keep together with the punctuation that follows them.
STYLE = """\
@font-face { font-family: "Formulas"; src: url("math.ttf"); }
math { font-family: "Formulas", math; font-size: 1.1em; }
span.arithmatex { white-space: nowrap; }
"""


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages that are not in docs/, and the style and the font of formulas."""
    for page, path in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, "math.css", content=STYLE))
    files.append(File.generated(config, "math.ttf", abs_src_path=FONT))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links that work on the site, by titles instead of file names."""
    folder = posixpath.dirname(PAGES.get(page.file.src_uri, f"docs/{page.file.src_uri}"))
    names = {path: name for name, path in PAGES.items()}

    def link(found: re.Match[str]) -> str:
        text, path = found[1], posixpath.normpath(posixpath.join(folder, found[2]))
        if text.endswith(".md"):
            text = (ROOT / path).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        target = names.get(path, path.removeprefix("docs/"))
        return f"[{text}]({posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or '.')}"

    return re.sub(r"\[([^\]]*)\]\((?!\w+:)([^)#\s]+)", link, markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with its formulas, which arithmatex has marked, as MathML."""

    def formula(found: re.Match[str]) -> str:
        tag, code, punctuation = found[1], html.unescape(found[2]), found[3]
        math = convert(code, display="block" if tag == "div" else "inline")
        return f'<{tag} class="arithmatex">{math}{punctuation}</{tag}>'

    pattern = r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>([,.;:)]*)'
    return re.sub(pattern, formula, content, flags=re.DOTALL)
