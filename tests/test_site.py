"""The documentation as a site (`make site`)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def test_site_is_complete_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", tmp_path]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr

    pages = {
        path.name: BeautifulSoup(path.read_text(encoding="utf-8"), "lxml")
        for path in tmp_path.glob("*.html")
    }
    navigation = {link["href"] for link in pages["404.html"].select(".md-nav--primary a[href]")}
    assert {f"/{source.stem}.html" for source in PAGES} <= navigation
    for source in PAGES:
        formulas = pages[f"{source.stem}.html"].select("div.arithmatex > math[display=block]")
        assert len(formulas) == source.read_text(encoding="utf-8").count("```math\n")
    for page in pages.values():
        assert page.select("span.arithmatex:not(:has(> math))") == []
        loaded = [tag.get("src") or tag["href"] for tag in page.select("[src], link[href]")]
        assert [url for url in loaded if urlsplit(url).netloc] == []
        for url in [*loaded, *(link["href"] for link in page.select("a[href]"))]:
            if not urlsplit(url).netloc:
                linked, anchor = urlsplit(url).path.lstrip("/"), unquote(urlsplit(url).fragment)
                assert linked in ("", ".") or (tmp_path / linked).is_file(), url
                if anchor:
                    assert (pages[linked] if linked else page).find(id=anchor), url
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"url\(\W*(?:https?:)?//|@import", style.read_text(encoding="utf-8"))
