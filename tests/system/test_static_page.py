"""The folder of `seq2seq export --web` in Chromium, from a static server and without one."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

from seq2seq.inference.translator import Translator
from seq2seq.packaged import SAMPLE
from seq2seq.serving.static import export_web

CHROMIUM = shutil.which("chromium")
PATIENCE = 120_000  # milliseconds, on a busy machine
MOST_BYTES = 25_000_000
EXAMPLE = "White houses are very small."
# With several sentences on a line, capitals, emoji, abbreviations, white space, other scripts.
HARD = [
    "Hola. ¿Cómo estás? Me llamo Ana.", "¡NO PUEDO IR HOY! ¿PUEDES TÚ?", "Me gusta 😀. ¡Qué bien!",
    "El Sr. García vive en EE.UU. Tiene 3 gatos.", "Mi familia 👨‍👩‍👧 vive en España 🇪🇸.",
    "«¿Vienes?», dijo Ana. «No sé…»", "Cuesta 3,50. Escríbeme pronto.",
    "no sé dónde está. creo que en casa.", "Ana\u00a0 no\tlo  sabe.", "日本語。",
]  # fmt: skip

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    flags = ["--no-sandbox", "--disable-gpu"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        expect.set_options(timeout=PATIENCE)
        yield browser
        browser.close()


class Quiet(SimpleHTTPRequestHandler):
    """A handler without a log."""

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def hosted(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Serve a folder; yield its address, and what stops the server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def stop() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    try:
        yield f"http://127.0.0.1:{server.server_port}/", stop
    finally:
        stop()


@contextmanager
def loading(browser: Browser, url: str) -> Iterator[tuple[Page, list[str]]]:
    """Open a page that has its own cache; yield it, and what it reports and requests elsewhere."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    faults: list[str] = []

    def note_request(request: Request) -> None:
        if not request.url.startswith((url, "data:")):
            faults.append(f"foreign request: {request.url}")

    page = context.new_page()
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    context.on("request", note_request)
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    yield page, faults
    context.close()


@contextmanager
def opened(browser: Browser, url: str) -> Iterator[Page]:
    """Open a page that must load, without faults."""
    with loading(browser, url) as (page, faults):
        page.get_by_role("button", name="Try an example").click()
        assert translated(page) == EXAMPLE
        yield page
        assert faults == []


@contextmanager
def offline(browser: Browser, folder: Path) -> Iterator[Page]:
    """Open the page of a folder, stop the server, and load the page again."""
    with hosted(folder) as (url, stop), opened(browser, url) as page:
        page.evaluate("async () => { await navigator.serviceWorker.ready; }")
        stop()
        with pytest.raises(URLError):
            urlopen(url)
        page.reload()
        assert translated(page) == EXAMPLE
        yield page


def translated(page: Page, text: str | None = None) -> str | None:
    """Type a text, if one is given, and return the translation."""
    if text is not None:
        page.locator("#text").fill(text)  # which marks the translation before as out of date
    expect(page.locator("#status")).to_contain_text("Translated")
    expect(page.locator("#translation")).to_have_class("translation")
    return page.locator("#translation").text_content()


def test_page_translates_as_python_does_without_its_server(browser: Browser, web: Path) -> None:
    """In Node.js, tests/test_static.py compares more sentences."""
    rows = (SAMPLE / "test.tsv").read_text(encoding="utf-8").splitlines()
    lines = [*HARD, *(row.split("\t")[0] for row in rows[:10])]
    assert len(lines) == 20
    texts = ["\n".join(lines[n : n + 10]) for n in range(0, 20, 10)]
    expected = [best.text for [best] in Translator.load("es-en").translate(texts)]
    assert [text.count("\n") for text in expected] == [9] * 2
    with offline(browser, web) as page:
        assert [translated(page, text) for text in texts] == expected


def test_alternatives_beginnings_and_the_tree_are_those_of_python(
    browser: Browser, web: Path
) -> None:
    translator = Translator.load("es-en")
    source = "No veo el perro. ¿Dónde está?"
    [[best]] = translator.translate([source], translator.options(keep_tree=True))
    alternatives = translator.alternatives(source, "I", 8)
    with offline(browser, web) as page:
        assert translated(page, source) == best.text
        page.locator("#translation .word").nth(1).click()
        offered = page.locator("#others li button")
        own = best.text.split()[1]
        alternatives = [each for each in alternatives if each.word.lower() not in ("", own)]
        least = alternatives[0].probability / 20
        alternatives = [each for each in alternatives if each.probability > least][:5]
        expect(offered).to_have_count(len(alternatives))
        words = [each.inner_text() for each in offered.locator("strong").all()]
        assert words == [each.word for each in alternatives]
        texts = [each.inner_text() for each in offered.locator(".soft").all()]
        assert texts == [each.translation.parts[0].text for each in alternatives]

        offered.first.click()
        prefix = f"I {alternatives[0].word} "
        [[begun]] = translator.translate([source], prefixes=[prefix])
        assert translated(page) == begun.text
        expect(page.locator(".prefix")).to_have_value(prefix)

        page.locator("#free").click()
        assert translated(page) == best.text
        page.locator("#inside > summary").click()
        page.locator("details.tree summary").click()
        tree = best.parts[0].tree
        assert tree is not None
        expect(page.locator(".drawing .node")).to_have_count(len(tree))
        finished = page.locator("details.tree tbody tr")
        expect(finished).to_have_count(sum(node.status == "finished" for node in tree))
        expect(finished.first).to_contain_text(best.parts[0].text)
        expect(page.locator("details.steps, details.force, .shown").first).to_be_hidden()


def test_page_responds_while_it_translates(browser: Browser, web: Path) -> None:
    with hosted(web) as (url, _), opened(browser, url) as page:
        page.locator("#text").fill("El perro duerme en la cocina. " * 100)
        line = page.locator("#translation.waiting")
        expect(line).to_contain_text("The dog sleeps in the kitchen. The dog")
        # A new text takes the place of the one that is being translated.
        assert translated(page, "Hola.") == "Hello."


def test_page_works_in_a_subfolder_and_in_int8(
    browser: Browser, libraries: Path, tmp_path: Path
) -> None:
    folder = export_web("es-en", tmp_path / "some/folder", libraries=str(libraries))
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    with hosted(tmp_path) as (url, _), opened(browser, f"{url}some/folder/") as page:
        assert translated(page, "Hola. ¿Dónde está el perro?") == "Hello. Where is the dog?"
        page.evaluate("async () => { await navigator.serviceWorker.ready; }")


def test_changed_module_of_the_page_is_refused(browser: Browser, web: Path, tmp_path: Path) -> None:
    folder = changed(web, tmp_path, "page/tree.js")
    with hosted(folder) as (url, _), loading(browser, url) as (page, faults):
        # Chromium reports it before the page has loaded.
        assert "tree.js" in faults[0]
        assert "integrity" in faults[0]
        expect(page.locator("#ask.loading")).to_have_count(1)


def test_changed_graph_is_refused(browser: Browser, web: Path, tmp_path: Path) -> None:
    folder = changed(web, tmp_path, "model/graph/step.fp32.onnx")
    with hosted(folder) as (url, _), loading(browser, url) as (page, _):
        reason = "model/graph/step.fp32.onnx is missing, or not the file that was exported"
        expect(page.locator("#fault")).to_have_text(f"The page cannot start: {reason}")
        expect(page.locator("#ask.loading")).to_have_count(1)


def changed(folder: Path, place: Path, name: str) -> Path:
    """Return a copy of an export in which a file ends with another byte."""
    copy = shutil.copytree(folder, place / "web")
    with (copy / name).open("ab") as file:
        file.write(b"\n")
    return copy
