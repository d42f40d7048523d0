"""The documentation as a site (`make site`)."""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def test_site_is_complete_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", tmp_path]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr

    pages = {
        str(path.relative_to(tmp_path)): BeautifulSoup(path.read_text(encoding="utf-8"), "lxml")
        for path in tmp_path.rglob("*.html")
    }
    navigation = {link["href"] for link in pages["404.html"].select(".md-nav--primary a[href]")}
    names = {source: f"{source.relative_to(DOCS).with_suffix('.html')}" for source in PAGES}
    assert {f"/{name}" for name in names.values()} <= navigation
    for source, name in names.items():
        formulas = pages[name].select("div.arithmatex > math[display=block]")
        assert len(formulas) == source.read_text(encoding="utf-8").count("```math\n")
    for name, page in pages.items():
        assert page.select("span.arithmatex:not(:has(> math))") == []
        loaded = [tag.get("src") or tag["href"] for tag in page.select("[src], link[href]")]
        assert [url for url in loaded if urlsplit(url).netloc] == []
        for url in [*loaded, *(link["href"] for link in page.select("a[href]"))]:
            if not urlsplit(url).netloc:
                path, anchor = urlsplit(url).path, unquote(urlsplit(url).fragment)
                linked = posixpath.normpath(posixpath.join("/", posixpath.dirname(name), path))
                file = linked.lstrip("/") if path else name
                assert file == "" or (tmp_path / file).is_file(), url
                if anchor:
                    assert pages[file].find(id=anchor), url
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"url\(\W*(?:https?:)?//|@import", style.read_text(encoding="utf-8"))
