"""The page of `seq2seq serve` in Chromium.

With SCREENSHOT=DIR, the pictures for docs/serving.md are made, page.png and page-inside.png:

    SCREENSHOT=docs/images pytest tests/system/test_page.py -k screenshots
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import get_args
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    Route,
    expect,
    sync_playwright,
)
from serving import Client, served

from seq2seq.analysis import Method
from seq2seq.cli import main
from seq2seq.inference.required import Glossary
from seq2seq.inference.translator import Translator
from seq2seq.serving.served_models import ServedModel, ServedModels

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions",
    # One process for all tabs, and none in advance for another site or the browser's own pages.
    "--renderer-process-limit=1", "--process-per-site", "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process,SpareRendererForSitePerProcess,TabSearch,"
    "WebUIReloadButton,InitialWebUI,WebUIOmniboxPopup,Translate,OptimizationHints,MediaRouter",
)  # fmt: skip
PATIENCE = 60_000  # milliseconds, on a busy machine
SENTENCE = "el gato come pan rojo"
SISTER = "El coche rojo de mi hermana no funciona."
LETTER = """Querido Tom:

Te escribo desde la casa de mi hermana, que está en un pueblo cerca del mar. Ayer fuimos a la \
playa con los niños. Aquí hace mucho calor, así que nadamos todos los días. Mañana vamos a visitar \
a mi abuela. ¿Cuándo vas a venir a vernos?"""
SPANISH, ENGLISH = "El perro duerme en la cocina.", "The dog sleeps in the kitchen."

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained)


@pytest.fixture(scope="module")
def client(trained: Path, other: Path, translator: Translator) -> Iterator[Client]:
    first = ServedModel("first", translator, str(trained))
    second = ServedModel("second", Translator.load(other), str(other))
    with served(ServedModels({"first": first, "second": second})) as client:
        yield client


@pytest.fixture(scope="module")
def packaged() -> dict[str, ServedModel]:
    """The models that come with the program, from Spanish and into it."""
    return {name: ServedModel(name, Translator.load(name), name) for name in ("es-en", "en-es")}


@pytest.fixture(scope="module")
def both(packaged: dict[str, ServedModel]) -> Iterator[Client]:
    """A server with the models that come with the program."""
    glossaries = {"shop": Glossary({"perro": "hound"})}
    with served(ServedModels(packaged), glossaries=glossaries) as both:
        yield both


@pytest.fixture(scope="module")
def three(packaged: dict[str, ServedModel]) -> Iterator[Client]:
    """A server that has the model from Spanish by a second name as well."""
    again = ServedModel("again", packaged["es-en"].translator, "es-en")
    with served(ServedModels({**packaged, "again": again})) as three:
        yield three


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        expect.set_options(timeout=PATIENCE)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, client: Client) -> Iterator[Page]:
    """A page that nothing has been typed on; it fails on errors and on requests elsewhere."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    faults: list[str] = []

    def note_message(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            faults.append(message.text)

    def note_request(request: Request) -> None:
        if not request.url.startswith((f"{client.url}/", "data:")):
            faults.append(f"foreign request: {request.url}")

    page.on("console", note_message)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", note_request)
    page.set_default_timeout(PATIENCE)
    page.goto(client.url)
    expect(page.locator("#ask.loading")).to_have_count(0)
    yield page
    page.close()
    assert faults == []


@pytest.fixture
def page(browser: Browser, client: Client) -> Iterator[Page]:
    with opened(browser, client) as page:
        yield page


@pytest.fixture
def page_of_both(browser: Browser, both: Client) -> Iterator[Page]:
    with opened(browser, both) as page:
        yield page


def typed(page: Page, text: str = SENTENCE) -> str:
    """Type a text, and return its translation."""
    page.locator("#text").press_sequentially(text)
    return shown(page)


def shown(page: Page) -> str:
    """Return the translation when it is complete."""
    expect(page.locator("#translation.waiting")).to_have_count(0)
    expect(page.locator("#status")).to_have_text(re.compile("^(Translated|Traducido) "))
    return " ".join(page.locator("#translation .word").all_inner_texts())


def compared(page: Page) -> str:
    """Return the translation of the second model when it is complete."""
    expect(page.locator(".pane").nth(1).locator(".state")).to_contain_text("log p")
    return " ".join(page.locator(".pane").nth(1).locator(".word").all_inner_texts())


def inside(page: Page) -> None:
    """Open what shows more of the model."""
    page.locator("#inside > summary").click()


def languages(page: Page) -> tuple[str, str]:
    """Return the languages that the bar names."""
    source, target = (page.locator(f"{side} option:checked") for side in ("#from", "#to"))
    return source.inner_text(), target.inner_text()


def test_typing_shows_the_translation_of_translate(page: Page, translator: Translator) -> None:
    [[expected, *_]] = translator.translate([SENTENCE])
    assert typed(page) == expected.text
    page.locator("#text").fill("")
    expect(page.locator(".word")).to_have_count(0)


def test_page_opens_for_a_text_and_has_an_example(page_of_both: Page) -> None:
    page = page_of_both
    expect(page.locator("#text")).to_be_focused()
    assert languages(page) == ("Detect language", "English")
    page.get_by_role("button", name="Try an example").click()
    assert shown(page) == "White houses are very small."
    expect(page.locator("#try")).to_be_hidden()


def test_direction_follows_the_language_that_is_typed(page_of_both: Page) -> None:
    page, text = page_of_both, page_of_both.locator("#text")
    assert typed(page, ENGLISH) == SPANISH
    assert languages(page) == ("English (detected)", "Spanish")
    expect(page.locator("#status")).to_have_text("Translated from English into Spanish.")
    text.fill(SPANISH)
    expect(page.locator("#status")).to_have_text("Translated from Spanish into English.")
    assert languages(page) == ("Spanish (detected)", "English")
    # What is chosen by hand stays, also when the page is loaded again.
    page.locator("#from").select_option("en")
    assert languages(page) == ("English", "Spanish")
    for again in (False, True):
        if again:
            page.reload()
        shown(page)
        with page.expect_response("**/api/stream"):
            text.press_sequentially(" sí")
        assert languages(page) == ("English", "Spanish")
    # The page offers the other language, and detects again when it is asked to.
    page.get_by_role("button", name="Translate from Spanish").click()
    shown(page)
    assert languages(page) == ("Spanish", "English")
    text.fill(ENGLISH)
    expect(page.locator("#hint")).to_be_visible()
    page.locator("#from").select_option("auto")
    expect(page.locator("#status")).to_have_text("Translated from English into Spanish.")
    page.locator("#to").select_option("English")
    assert languages(page) == ("Spanish", "English")


def test_language_that_no_model_has_is_named(page_of_both: Page) -> None:
    page = page_of_both
    typed(page, SPANISH)
    page.fill("#text", "Où est la gare ?")
    notice = page.locator("#notice p")
    expect(notice).to_have_text("This seems to be French, which no model here reads.")
    expect(page.locator(".word")).to_have_count(0)
    expect(page.locator("#copy")).to_be_disabled()
    page.fill("#text", SPANISH)
    assert shown(page) == ENGLISH
    expect(notice).to_be_hidden()
    page.fill("#text", "Où est la gare ?")
    page.get_by_role("button", name="Translate from Spanish").click()
    assert shown(page)
    assert languages(page) == ("Spanish", "English")


def test_languages_are_swapped(page_of_both: Page) -> None:
    page = page_of_both
    typed(page, SPANISH)
    page.get_by_role("button", name="Swap languages").press("Enter")
    expect(page.locator("#text")).to_have_value(ENGLISH)
    assert shown(page) == SPANISH
    assert languages(page) == ("English", "Spanish")
    page.go_back()
    expect(page.locator("#text")).to_have_value(SPANISH)
    assert shown(page) == ENGLISH
    assert languages(page) == ("Spanish (detected)", "English")


def test_languages_that_no_model_swaps(page: Page) -> None:
    expect(page.get_by_role("button", name="Swap languages")).to_be_disabled()


def test_link_to_a_model_that_the_server_lacks_says_so(page: Page, client: Client) -> None:
    page.goto(f"{client.url}/#{urlencode({'text': SENTENCE, 'model': 'none', 'with': 'other'})}")
    fault = page.locator("#fault")
    expect(fault).to_have_text(
        "There is no model “none” here; this is first. “other” cannot be compared with first."
    )
    assert shown(page)
    page.locator("#text").press_sequentially("x")
    expect(fault).to_have_text("")


def test_an_emptied_box_keeps_the_model(page: Page) -> None:
    inside(page)
    typed(page)
    page.locator("#model").select_option("second")
    shown(page)
    page.get_by_role("button", name="Clear the text").click()
    page.wait_for_url("**/#from=auto&model=second")
    page.reload()
    expect(page.locator("#model")).to_have_value("second")
    expect(page.locator("#text")).to_have_value("")


def test_back_undoes_a_chosen_word(page: Page) -> None:
    own = typed(page)
    choose_another_word(page)
    assert shown(page) != own
    inside(page)
    page.locator(".prefix").press_sequentially(" dog")  # typing is not a step of its own
    expect(page.locator(".word.given").last).to_have_text("dog")
    page.go_back()
    expect(page.locator(".word.given")).to_have_count(0)
    assert shown(page) == own
    assert page.locator("#text").input_value() == SENTENCE
    page.go_forward()
    page.get_by_role("button", name="Undo my choice of words").click()
    assert shown(page) == own


def test_back_from_another_page_returns_to_what_was_chosen(page: Page) -> None:
    typed(page)
    choose_another_word(page)
    found, address = shown(page), page.url
    assert "begin1=" in address
    for again in (page.reload, page.go_back):
        if again == page.go_back:
            page.goto("about:blank")
        again()
        assert shown(page) == found
        assert page.url == address
        expect(page.locator(".word.given")).to_have_count(2)


def test_back_from_another_page_keeps_the_model_of_a_link(page_of_both: Page, both: Client) -> None:
    page = page_of_both
    page.goto("about:blank")
    page.goto(f"{both.url}/#{urlencode({'text': SPANISH, 'model': 'en-es'})}")
    found = shown(page)
    page.goto("about:blank")
    page.go_back()
    assert shown(page) == found
    assert languages(page) == ("English", "Spanish")


def test_a_restored_text_is_not_taken_as_typed(page_of_both: Page, both: Client) -> None:
    """Some browsers restore a form whatever the form says."""
    page = page_of_both
    page.add_init_script(
        f"""document.addEventListener("readystatechange", () => {{
            const box = document.getElementById("text");
            if (box && document.readyState === "interactive") box.value = {json.dumps(SPANISH)};
        }});"""
    )
    page.goto("about:blank")
    address = f"{both.url}/#{urlencode({'text': SPANISH, 'model': 'en-es', 'begin1': 'El'})}"
    page.goto(address)
    shown(page)
    expect(page.locator(".word.given")).to_have_text(["El"])
    assert languages(page) == ("English", "Spanish")


def test_what_is_entered_while_the_language_is_detected_stays(page_of_both: Page) -> None:
    page, prefix = page_of_both, page_of_both.locator(".prefix")
    typed(page, SPANISH)
    inside(page)
    held: list[Route] = []
    page.route("**/detect", lambda route: held.append(route))
    with page.expect_request("**/detect"):
        page.locator("#text").fill(ENGLISH)
    prefix.fill("The big ")
    with page.expect_response("**/detect"):
        held.pop().continue_()
    shown(page)
    expect(page.locator(".word.given")).to_have_text(["The", "big"])
    expect(page.locator("#model")).to_have_value("es-en")
    page.unroute("**/detect")
    prefix.press_sequentially("dog")
    expect(page.locator(".word.given")).to_have_count(3)
    expect(prefix).to_have_value("The big dog")
    expect(page.locator("#model")).to_have_value("es-en")


def test_comparison_of_a_link_stays(browser: Browser, three: Client) -> None:
    with opened(browser, three) as page:
        state = {"text": SPANISH, "model": "es-en", "with": "again"}
        page.goto(f"{three.url}/#{urlencode(state)}")
        compared(page)
        page.locator("#text").fill(ENGLISH)
        expect(page.locator(".translation.waiting")).to_have_count(0)
        expect(page.locator(".pane h2")).to_have_text(["es-en", "again"])


def test_lines_and_heat_map_are_side_by_side_where_both_fit(page: Page) -> None:
    typed(page)
    inside(page)
    for width, beside in ((1280, True), (380, False)):
        page.set_viewport_size({"width": width, "height": 900})
        lines, weights = (
            page.locator(part).bounding_box() for part in (".links", ".views .scroll")
        )
        assert lines
        assert weights
        assert (lines["x"] + lines["width"] < weights["x"]) == beside
        assert (lines["y"] + lines["height"] < weights["y"]) != beside


def test_what_is_typed_while_the_page_loads_is_translated(page: Page) -> None:
    held: list[Route] = []
    page.route("**/api/models", lambda route: held.append(route))
    with page.expect_request("**/api/models"):
        page.reload()
    page.locator("#text").press_sequentially(SENTENCE)
    held.pop().continue_()
    assert shown(page)
    assert page.locator("#text").input_value() == SENTENCE


def test_heat_map_has_the_weights_of_explain(
    page: Page, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(page)
    inside(page)
    expect(page.locator(".map tbody tr").first).to_be_visible()
    rows = page.locator(".map tbody tr").all()
    cells = [
        [float(cell.get_attribute("data-weight") or "") for cell in row.locator("td").all()]
        for row in rows
    ]
    capsys.readouterr()
    assert main(["explain", str(trained), SENTENCE, "--json"]) == 0
    words = json.loads(capsys.readouterr().out)["words"]
    assert page.locator(".map tbody th").all_inner_texts() == words["target"]
    assert page.locator(".map thead th").all_inner_texts() == [*words["source"][:-1], "(end)"]
    assert SENTENCE.split() == words["source"][:-1]
    assert len(cells) == len(words["weights"])
    for found, expected in zip(cells, words["weights"], strict=True):
        assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("method", get_args(Method))
def test_links_are_those_of_an_attribution(
    page: Page, trained: Path, capsys: pytest.CaptureFixture[str], method: Method
) -> None:
    typed(page)
    inside(page)
    choice = page.get_by_label("Show")
    values = choice.locator("option").evaluate_all("all => all.map(option => option.value)")
    assert values == ["", *get_args(Method)]
    choice.select_option(method)
    expect(page.locator(".rule")).to_contain_text("Dashed lines are negative.")
    capsys.readouterr()
    assert main(["explain", str(trained), SENTENCE, "--attribution", method, "--json"]) == 0
    matrix = np.array(json.loads(capsys.readouterr().out)["attributed_words"]["weights"])
    matrix /= np.abs(matrix).sum(1, keepdims=True)
    cells = page.locator(".map td[data-weight]")
    shown_weights = cells.evaluate_all("all => all.map(cell => Number(cell.dataset.weight))")
    assert shown_weights == pytest.approx(matrix.flatten().tolist(), abs=1e-4)
    expect(page.locator(".lines path.negative")).to_have_count(int((matrix <= -0.05).sum()))
    expect(page.locator(".lines path")).to_have_count(int((abs(matrix) >= 0.05).sum()))
    page.locator(".targets button").first.hover()
    expect(page.locator(".description")).to_contain_text(f"By {method}, ")
    page.reload()
    shown(page)
    inside(page)
    expect(choice).to_have_value(method)
    expect(page.locator(".rule")).to_contain_text("Shown is")
    choice.select_option("")
    expect(page.locator(".rule")).to_contain_text("Each row sums to 1.")
    assert "show1" not in page.url


def test_attribution_without_attention(page: Page) -> None:
    def without(route: Route) -> None:
        models = route.fetch().json()
        route.fulfill(json=[{**model, "score": "none"} for model in models])

    def translated(route: Route) -> None:
        body = re.sub(r'"words": {.*?}', '"words": null', route.fetch().text())
        route.fulfill(content_type="text/event-stream", body=body)

    page.route("**/api/models", without)
    page.route("**/api/stream", translated)
    page.reload()
    typed(page)
    inside(page)
    choice = page.get_by_label("Show")
    expect(choice.locator("option").first).to_have_text("nothing: the model has no attention")
    expect(page.locator(".views")).to_be_hidden()
    choice.select_option("gradient")
    expect(page.locator(".map tbody tr").first).to_be_visible()


def test_an_attribution_that_the_server_cannot_compute(page: Page) -> None:
    typed(page)
    inside(page)
    refusal = "on the server, this needs torch"
    # Chromium would log the status of a real response as an error.
    page.evaluate(
        """error => {
            window.fetch = async () => new Response(JSON.stringify({error}), {status: 501});
        }""",
        refusal,
    )
    page.get_by_label("Show").select_option("occlusion")
    expect(page.locator(".rule.wrong")).to_have_text(refusal)
    expect(page.locator(".views")).to_be_hidden()
    page.get_by_label("Show").select_option("")
    expect(page.locator(".views")).to_be_visible()
    expect(page.locator(".rule.wrong")).to_have_count(0)


def choose_another_word(page: Page) -> tuple[str, str]:
    """Choose another second word; return it, and the translation that the page promises with it."""
    second = page.locator(".word").nth(1)
    own = second.inner_text()
    second.click()
    choices = page.locator("#others li button")
    expect(choices.first).to_be_visible()
    words = choices.locator("strong").all_inner_texts()
    assert own not in words
    promised = choices.first.locator(".soft").inner_text()
    choices.first.press("Enter")
    expect(page.locator("#others")).to_be_hidden()
    return words[0], promised


def test_an_alternative_keeps_the_words_before_it(page: Page, client: Client) -> None:
    first, *_ = typed(page).split()
    other, promised = choose_another_word(page)
    found = shown(page)
    assert found == promised
    assert found.split()[:2] == [first, other]
    # The address leads to the same state.
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    assert shown(page) == found


def test_the_best_leaf_of_the_tree_is_the_translation(page: Page) -> None:
    translation = typed(page)
    inside(page)
    page.locator(".tree summary").click()
    expect(page.locator(".tree tbody tr").first).to_contain_text("the translation")
    assert page.locator(".tree tbody td").first.inner_text() == translation
    best = page.locator(".tree g.best.finished")
    expect(best).to_have_count(1)
    assert (best.locator("title").text_content() or "").startswith(f"{translation}: ")


def test_the_tree_shows_capitals_in_place_of_their_marks(page: Page) -> None:
    pieces = ["▁ↃↃ", "▁no", "▁va", "s", "▁ya,", "▁ↄↄ", "▁ↄ", "ana", "▁Ↄ", "▁eé", ".", "</s>"]
    root = {"parent": None, "piece": "", "log_prob": 0, "score": 0, "status": "kept"}
    tree = [root, *({**root, "parent": n, "piece": piece} for n, piece in enumerate(pieces))]
    tree[-1]["status"] = "finished"
    drawn = page.evaluate(
        """async tree => {
            const {drawTree} = await import("./page/tree.js");
            return drawTree(tree, "es").map(element => element.textContent).join(" ");
        }""",
        tree,
    )
    assert "NO VAS YA, Ana EÉ." in drawn
    assert "▁⇪⇪" in drawn
    assert not set("ↄↃ") & set(drawn)


def test_the_tree_has_one_row_for_each_hypothesis_of_a_step(page: Page) -> None:
    typed(page)
    inside(page)
    page.locator(".tree summary").click()
    circles = page.locator(".tree g circle")
    expect(circles.first).to_be_visible()
    places = circles.evaluate_all(
        "all => all.map(circle => [circle.cx, circle.cy].map(length => length.baseVal.value))"
    )
    rows: dict[float, list[float]] = {}
    for x, y in places:
        rows.setdefault(x, []).append(y)
    distances = {b - a for ys in rows.values() for a, b in pairwise(sorted(ys))}
    assert len(distances) == 1
    assert min(distances) > 0
    assert len({min(ys) for ys in rows.values()}) == 1
    best = page.locator(".tree g.best circle").evaluate_all(
        "all => all.map(circle => circle.cy.baseVal.value)"
    )
    assert {*best} == {min(y for _, y in places)}


def last_column(details: Locator) -> list[str]:
    """Return the last cells of the rows of the first table, when it is drawn."""
    cells = details.locator("table").first.locator("tbody td:last-child")
    expect(cells.first).to_be_visible()
    return cells.all_inner_texts()


def test_steps_and_another_weight(page: Page) -> None:
    typed(page)
    inside(page)
    page.locator(".steps summary").first.click()
    steps = page.locator(".steps details:not(.vector)")
    expect(steps.first).to_contain_text("reads (start), writes")
    steps.first.locator("summary").first.click()
    weights = last_column(steps.first)
    assert sum(map(float, weights)) == pytest.approx(1, abs=1e-3)
    page.locator(".force summary").first.click()
    last = page.locator(".force select").last
    expect(last.locator("option").last).to_be_attached()
    place = last.locator("option").count() - 1
    last.select_option(index=place)
    page.locator(".force").get_by_role("button", name="Compute").click()
    changes = page.locator(".force table").first.locator("tbody td.number")
    expect(changes.first).to_be_visible()
    assert changes.count() >= 2 * 5
    assert all(0 <= float(cell) <= 1 for cell in changes.all_inner_texts())
    looked = page.locator(".force details:not(.vector)")
    looked.locator("summary").first.click()
    weights = last_column(looked)
    assert [n for n, weight in enumerate(weights) if float(weight)] == [place]


@pytest.mark.parametrize("by_touch", [False, True])
def test_a_target_word_is_dragged_onto_a_source_word(page: Page, by_touch: bool) -> None:
    typed(page)
    inside(page)
    word, onto = page.locator(".targets button").nth(1), page.locator(".sources button").nth(3)
    onto.scroll_into_view_if_needed()
    path = []
    for chip in (word, onto):
        box = chip.bounding_box()
        assert box
        path.append((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2))
    (x, y), (to_x, to_y) = path
    steps = [(x - 40, y), ((x + to_x) / 2, (y + to_y) / 2), (to_x, to_y)]
    if by_touch:
        touches = page.context.new_cdp_session(page)

        def touch(kind: str, *points: tuple[float, float]) -> None:
            named = [{"x": x, "y": y} for x, y in points]
            touches.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": named})

        touch("touchStart", (x, y))
        for point in steps:
            touch("touchMove", point)
        expect(onto).to_have_class(re.compile("over"))
        touch("touchEnd")
    else:
        page.mouse.move(x, y)
        page.mouse.down()
        for point in steps:
            page.mouse.move(*point)
        expect(onto).to_have_class(re.compile("over"))
        page.mouse.up()
    expect(page.locator(".force .instead")).to_be_visible()
    chosen = page.locator(".force select option:checked").all_inner_texts()
    assert chosen[0].endswith(f"▁{word.evaluate('chip => chip.firstChild.data')}")
    assert chosen[1].endswith(f"▁{onto.evaluate('chip => chip.firstChild.data')}")
    expect(word).to_have_attribute("aria-pressed", "false")


def test_line_breaks_stay_and_each_sentence_can_be_looked_into(page: Page) -> None:
    first, second = typed(page), ""
    page.locator("#text").fill("la casa")
    second = shown(page)
    inside(page)
    page.locator("#text").fill(f"{SENTENCE}\n\nla casa")
    expect(page.locator(".sentence option")).to_have_count(2)
    assert shown(page).split() == [*first.split(), *second.split()]
    assert page.locator("#translation").evaluate("box => box.textContent") == f"{first}\n\n{second}"
    assert page.locator(".sources button").count() == len(SENTENCE.split()) + 1
    page.locator(".tree summary").click()
    expect(page.locator(".tree tbody td").first).to_have_text(first)
    page.locator(".sentence").select_option("1")
    expect(page.locator(".sources button")).to_have_count(3)
    expect(page.locator(".tree tbody td").first).to_have_text(second)
    page.locator(".steps summary").click()
    expect(page.locator(".steps details").first).to_be_visible()
    # A choice in the second sentence keeps the first one.
    words = page.locator(".word")
    words.nth(len(first.split())).click()
    chosen = page.locator("#others li button").last
    assert chosen.locator(".soft").inner_text().split()[0] == chosen.locator("strong").inner_text()
    chosen.click()
    expect(page.locator("#others")).to_be_hidden()
    shown(page)
    found = page.locator("#translation").evaluate("box => box.textContent")
    assert found.startswith(f"{first}\n\n")
    assert page.locator(".word.given").count() == len(first.split()) + 1


def test_unlikely_translation_is_marked(page_of_both: Page) -> None:
    page = page_of_both
    page.fill("#text", f"{SPANISH}\nSin que nadie mesa pues cuyo la ayer quien de.")
    expect(page.locator(".sentence option")).to_have_count(2)
    shown(page)
    expect(page.locator("#doubts")).to_have_text(
        "Sentence 2: the model itself finds this translation unlikely; it may be wrong."
    )
    words = len(ENGLISH.split())
    assert page.locator(".word.doubtful").count() == page.locator(".word").count() - words
    uncertain = page.locator(".word.uncertain")
    assert 0 < uncertain.count() < page.locator(".word.doubtful").count()
    expect(uncertain.first).to_have_attribute("title", "The model is unsure of this word")
    expect(page.locator("#unsure")).to_be_visible()
    for other in ("", SPANISH):
        page.fill("#text", other)
        expect(page.locator("#doubts")).to_be_hidden()
        expect(page.locator("#unsure")).to_be_hidden()


def test_uncertain_words_are_marked_in_likely_translations(page_of_both: Page) -> None:
    """A word that the user has chosen is no longer uncertain."""
    page = page_of_both
    page.fill("#text", "Mi abuela compró azafrán y un colador en el mercado.")
    uncertain = page.locator(".word.uncertain")
    expect(uncertain).to_have_text(["apples"])
    expect(page.locator("#doubts")).to_be_hidden()
    uncertain.first.click()
    page.locator("#others li button").first.click()
    expect(page.locator(".word.given")).to_have_count(4)  # up to the chosen one
    chosen = page.locator(".word.given").last
    assert "uncertain" not in (chosen.get_attribute("class") or "").split()


def test_a_changed_text_is_marked_at_once(page: Page) -> None:
    """What is still shown is not the translation of what is typed."""
    typed(page)
    marked = page.locator("#text").evaluate("""box => {
        box.value = "el perro";
        box.dispatchEvent(new Event("input"));
        return document.querySelector("#translation").classList.contains("waiting");
    }""")
    assert marked
    changed = shown(page)
    page.reload()
    assert shown(page) == changed


def test_another_model_translates_freely(page: Page) -> None:
    typed(page)
    inside(page)
    page.locator(".prefix").fill("a dog ")
    expect(page.locator(".word.given")).to_have_count(2)
    page.locator("#model").select_option("second")
    expect(page.locator(".pane h2")).to_have_text("second")
    shown(page)
    expect(page.locator(".word.given")).to_have_count(0)
    assert "begin" not in page.url


def test_a_server_with_a_large_beam_has_a_tree(page: Page) -> None:
    def widened(route: Route) -> None:
        models = route.fetch().json()
        route.fulfill(json=[{**model, "beam": 25} for model in models])

    page.route("**/api/models", widened)
    page.reload()
    typed(page)
    inside(page)
    page.locator(".tree summary").click()
    expect(page.locator(".tree tbody tr").first).to_contain_text("the translation")
    assert page.locator(".tree input[type=number]").input_value() == "25"


def test_two_models_side_by_side(page: Page) -> None:
    first = typed(page)
    inside(page)
    page.locator("#other").select_option("second")
    assert shown(page) == first
    second = compared(page)
    expect(page.locator(".pane .translation")).to_have_text([first, second])
    expect(page.locator(".pane h2")).to_have_text(["first", "second"])
    boxes = [pane.bounding_box() for pane in page.locator(".pane").all()]
    assert boxes[0]["y"] == boxes[1]["y"]


def test_an_error_is_shown(page: Page) -> None:
    typed(page)
    page.route("**/api/stream", lambda route: route.fulfill(
        status=200, content_type="text/event-stream", body='event: error\ndata: {"error": "no"}\n\n'
    ))  # fmt: skip
    page.locator("#text").press_sequentially(" pan")
    expect(page.locator("#notice p")).to_have_text("no")


# --- The text and its translation


def test_translation_is_text_that_can_be_selected_and_copied(page_of_both: Page) -> None:
    page = page_of_both
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.fill("#text", f"{SPANISH}\n\nHola.")
    shown(page)
    selected = page.evaluate("""() => {
        getSelection().selectAllChildren(document.getElementById("translation"));
        return getSelection().toString();
    }""")
    assert selected == f"{ENGLISH}\n\nHello."
    # A click that ends a selection is none on a word.
    page.locator(".word").first.dispatch_event("click")
    expect(page.locator("#others")).to_be_hidden()
    page.get_by_role("button", name="Copy the translation").click()
    expect(page.locator("#copy")).to_have_attribute("data-said", "Copied")
    assert page.evaluate("navigator.clipboard.readText()") == selected
    # As where the page comes over HTTP from another machine.
    page.evaluate("""() => {
        window.kept = navigator.clipboard;
        Object.defineProperty(navigator, "clipboard", {value: undefined});
    }""")
    page.get_by_role("button", name="Copy a link").click()
    expect(page.locator("#share")).to_have_attribute("data-said", "Copied")
    assert page.evaluate("kept.readText()") == page.url
    page.get_by_role("button", name="Clear the text").click()
    expect(page.locator("#text")).to_have_value("")
    expect(page.locator("#text")).to_be_focused()
    expect(page.locator(".word")).to_have_count(0)
    expect(page.locator("#clear")).to_be_hidden()


def test_text_over_the_limit_is_counted_and_not_cut(page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.fill("#text", "😀" + "palabra " * 824 + "palabra")  # the server counts an emoji as one
    expect(page.locator("#count.wrong")).to_have_text("6,600 / 5,000")
    expect(page.locator("#notice p")).to_have_text(
        "The text is too long: 6,600 characters, of at most 5,000 at a time."
    )
    page.get_by_role("button", name="Select what is too much").click()
    page.keyboard.press("Delete")
    expect(page.locator("#count:not(.wrong)")).to_have_text("5,000 / 5,000")
    assert [url for url in asked if url.endswith(("/detect", "/stream"))] == []


def test_word_shows_what_it_translates(page_of_both: Page) -> None:
    page = page_of_both
    page.fill("#text", f"Hola.\n{SPANISH}")
    shown(page)
    linked = page.locator(".mirror mark.linked")
    page.locator(".word", has_text="kitchen").hover()
    expect(linked).to_have_text("cocina")
    assert page.locator(".mirror").text_content() == f"Hola.\n{SPANISH}\u200b"
    page.mouse.move(0, 0)
    expect(linked).to_have_count(0)
    boxes = [page.locator(part).bounding_box() for part in (".mirror", "#text")]
    assert boxes[0] == boxes[1]


def test_words_are_one_tab_stop_with_arrow_keys(page_of_both: Page) -> None:
    page = page_of_both
    page.set_viewport_size({"width": 390, "height": 844})
    page.fill("#text", f"{SPANISH} {SPANISH} {SPANISH}")
    shown(page)
    words, stop = page.locator(".word"), page.locator("#translation [tabindex='0']")
    last = words.count() - 1
    expect(stop).to_have_count(1)
    stop.focus()

    def at(number: int, *keys: str) -> None:
        for key in keys:
            page.keyboard.press(key)
        expect(words.nth(number)).to_be_focused()
        expect(stop).to_have_count(1)

    at(2, "ArrowRight", "ArrowRight")
    at(1, "ArrowLeft")
    at(last, "End", "ArrowRight")
    at(0, "Home", "ArrowUp")
    page.keyboard.press("ArrowDown")
    below = page.locator(".word:focus")
    first_box, below_box = words.first.bounding_box(), below.bounding_box()
    assert first_box
    assert below_box
    assert below_box["y"] > first_box["y"]
    assert below_box["x"] == pytest.approx(first_box["x"], abs=60)
    at(0, "ArrowUp")
    at(1, "ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#others li button").first).to_be_focused()
    page.keyboard.press("Escape")
    at(1)
    page.keyboard.press("Tab")
    expect(page.locator("#share")).to_be_focused()
    # What was chosen keeps the place.
    words.nth(1).press(" ")
    page.locator("#others li button").first.press("Enter")
    shown(page)
    at(1)


def test_other_words_come_with_the_sentence_that_changes(page_of_both: Page) -> None:
    page = page_of_both
    page.fill("#text", f"Hola. {SPANISH} Hola.")
    shown(page)
    page.locator(".word", has_text="dog").click()
    popover, word = page.locator("#others"), page.locator(".word.open")
    expect(popover.locator("li button").first).to_be_visible()
    box, of_word = popover.bounding_box(), word.bounding_box()
    assert box
    assert of_word
    assert 0 < box["y"] - of_word["y"] - of_word["height"] < 10
    for choice in popover.locator("li button").all():
        changed = choice.locator(".soft").inner_text()
        assert changed.split()[:2] == ["The", choice.locator("strong").inner_text()]
        assert "Hi" not in changed
        assert choice.locator("b").inner_text().split()[0] == changed.split()[1]
        expect(choice.locator(".share")).to_be_hidden()
    page.keyboard.press("Escape")
    inside(page)
    word = page.locator(".word", has_text="dog")
    word.click()
    expect(popover.locator("li .share").first).to_have_text(re.compile(r"^(\d+|<0)\.\d %$"))


def test_model_is_shown_on_request(page: Page) -> None:
    typed(page)
    expect(page.locator("#inside > div")).to_be_hidden()
    assert page.locator(".map td").count() == 0
    inside(page)
    expect(page.locator(".map td").first).to_be_visible()
    expect(page.locator(".pane .state")).to_contain_text("log p = ")


def test_phone_has_large_targets_and_nothing_is_clipped(page_of_both: Page) -> None:
    page = page_of_both
    page.set_viewport_size({"width": 390, "height": 844})
    text = "Cuando llegamos a la estación, el tren ya se había ido, así que esperamos dos horas."
    typed(page, f"{text} {SPANISH}")
    boxes = [page.locator(part).bounding_box() for part in (".bar", "#source", "#target")]
    for above, below in pairwise(boxes):
        assert above
        assert below
        assert above["y"] + above["height"] == pytest.approx(below["y"], abs=1)
    inside(page)
    expect(page.locator(".map td").first).to_be_visible()
    targets = page.locator("button, select, input, summary, textarea")
    for target in targets.all():
        if box := target.bounding_box():
            assert box["height"] >= 40, target.evaluate("each => each.outerHTML")
            assert box["width"] >= 40
            assert box["x"] + box["width"] <= 390
    assert page.locator(".map th").count() > 35
    for part in ("document.documentElement", "document.querySelector('.views .scroll')"):
        assert page.evaluate(f"{part}.scrollWidth <= {part}.clientWidth")


def test_other_words_and_their_form_are_within_a_phone(page_of_both: Page) -> None:
    page = page_of_both
    page.set_viewport_size({"width": 375, "height": 667})
    typed(page, "Cuando llegamos a la estación, el tren ya se había ido.")
    page.locator(".word").nth(1).click()
    choices = page.locator("#others li button")
    expect(choices).to_have_count(5)
    choices.last.scroll_into_view_if_needed()
    expect(choices.last).to_be_in_viewport(ratio=0.9)
    page.locator("#others summary").click()
    expect(page.locator("#others input").last).to_be_focused()
    for part in ("h2", "form"):
        expect(page.locator(f"#others {part}")).to_be_in_viewport(ratio=1)


def test_buttons_of_the_translation_are_in_one_row_on_a_phone(
    browser: Browser, both: Client
) -> None:
    context = browser.new_context(locale="es-MX", viewport={"width": 375, "height": 667})
    page = context.new_page()
    page.goto(both.url)
    typed(page, SPANISH)
    expect(page.locator("#tip")).to_be_visible()
    boxes = [page.locator(button).bounding_box() for button in ("#share", "#copy")]
    assert boxes[0]
    assert boxes[1]
    assert boxes[0]["y"] == boxes[1]["y"]
    context.close()


def test_server_that_is_gone_is_named_until_it_is_back(browser: Browser, client: Client) -> None:
    page = browser.new_page()
    page.clock.install()
    page.goto(client.url)
    page.locator("#text").fill(SENTENCE)
    page.clock.run_for(300)
    found = shown(page)
    page.context.set_offline(True)
    page.locator("#text").press_sequentially(".")
    page.clock.run_for(300)
    notice = page.locator("#notice p")
    expect(notice).to_have_text("The server does not answer. Your text stays here.")
    expect(page.locator(".word")).to_have_count(0)
    page.clock.run_for(3100)
    expect(notice).to_be_visible()
    page.context.set_offline(False)
    page.locator("#text").press("Backspace")
    page.clock.run_for(300)
    assert shown(page) == found
    # Without a key, it asks again by itself.
    page.route("**/api/stream", lambda route: route.abort())
    page.locator("#text").press_sequentially(".")
    page.clock.run_for(300)
    expect(notice).to_be_visible()
    page.unroute("**/api/stream")
    page.clock.run_for(3100)
    shown(page)
    expect(notice).to_be_hidden()
    page.close()


@pytest.mark.parametrize(
    ("status", "body", "said", "is_gone"),
    [
        (500, '{"error": "internal error"}', "internal error", False),
        (504, '{"error": "it took too long"}', "it took too long", False),
        (502, "<p>Bad gateway", "The server does not answer. Your text stays here.", True),
    ],
)
def test_only_a_server_that_is_gone_is_asked_again(
    browser: Browser, client: Client, status: int, body: str, said: str, is_gone: bool
) -> None:
    page = browser.new_page()
    page.clock.install()
    page.goto(client.url)
    page.route("**/api/stream", lambda route: route.fulfill(status=status, body=body))
    page.locator("#text").fill(SENTENCE)
    page.clock.run_for(300)
    expect(page.locator("#notice p")).to_have_text(said)
    page.unroute("**/api/stream")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(3100)
    if not is_gone:
        assert asked == []
        page.get_by_role("button", name="Try again").click()
    assert shown(page)
    page.close()


def test_terms_are_kept_and_translated_as_the_list_says(page_of_both: Page) -> None:
    page = page_of_both
    typed(page, SPANISH)
    # From a word of the translation, which attention links to one of the text.
    page.locator(".word", has_text="kitchen").click()
    page.locator("#others summary").click()
    term, translation = page.locator("#others input").all()
    expect(term).to_have_value("cocina")
    expect(translation).to_have_value("kitchen")
    expect(translation).to_be_focused()
    page.keyboard.type("galley")
    page.keyboard.press("Enter")
    expect(page.locator("#others")).to_be_hidden()
    expect(page.locator(".word:focus")).to_have_text("galley.")
    page.reload()
    assert "galley" in shown(page)
    # From the list, which is another one for the other direction.
    page.locator("#glossary > summary").click()
    expect(page.locator("#terms li")).to_have_text("cocina → galley×")
    page.get_by_label("Translate", exact=True).fill("perro")
    page.get_by_label("as", exact=True).fill("puppy")
    page.get_by_role("button", name="Add").click()
    expect(page.locator("#translation")).to_contain_text("puppy")
    expect(page.locator("#terms-count")).to_have_text("2")
    page.locator("#from").select_option("en")
    expect(page.locator("#terms li")).to_have_count(0)
    page.locator("#from").select_option("es")
    page.get_by_role("button", name="Remove “cocina”").click()
    expect(page.locator("#translation")).to_contain_text("kitchen")
    # One of the server's takes the place of the list.
    page.get_by_label("Use").select_option("shop")
    expect(page.locator("#translation")).to_contain_text("hound")
    expect(page.locator("#add-term")).to_be_hidden()
    about = page.locator("#glossary p.small:visible")
    expect(about).to_contain_text(["translated as the server's list says."])
    page.get_by_label("Use").select_option("the words below")
    expect(page.locator("#translation")).to_contain_text("puppy")
    expect(about).to_contain_text(["How a word or a phrase is always translated."])


def test_text_that_does_not_arrive_is_marked(page_of_both: Page) -> None:
    page = page_of_both

    def without(route: Route) -> None:
        missing = '"missing": ["DOG-1", "x@y.es"]'
        route.fulfill(
            content_type="text/event-stream",
            body=re.sub(r'"missing": \[.*?\]', missing, route.fetch().text()),
        )

    page.evaluate("""localStorage.setItem("glossary es en", '{"perro": "DOG-1"}')""")
    page.reload()
    page.route("**/api/stream", without)
    page.fill("#text", f"{SPANISH[:-1]} x@y.es.")
    shown(page)
    expect(page.locator("#doubts li").last).to_have_text("Not in the translation: DOG-1, x@y.es")
    expect(page.locator(".mirror mark.missing")).to_have_text(["perro", "x@y.es"])
    page.locator(".word").first.hover()
    page.mouse.move(0, 0)
    expect(page.locator(".mirror mark.missing")).to_have_count(2)
    page.unroute("**/api/stream")
    page.fill("#text", "Hola.")
    shown(page)
    expect(page.locator(".mirror mark")).to_have_count(0)
    expect(page.locator("#doubts")).to_be_hidden()


def test_page_speaks_spanish(browser: Browser, both: Client) -> None:
    context = browser.new_context(locale="es-MX")
    page = context.new_page()
    page.goto(both.url)
    assert typed(page, SPANISH) == ENGLISH
    assert page.locator("html").get_attribute("lang") == "es"
    assert languages(page) == ("Español (detectado)", "Inglés")
    expect(page.locator("#status")).to_have_text("Traducido del español al inglés.")
    inside(page)
    page.locator(".targets button").first.hover()
    expect(page.locator(".description")).to_contain_text("Al escribir «The», el modelo atiende a")
    page.get_by_role("button", name="English").click()
    assert shown(page) == ENGLISH
    expect(page.locator("#inside > summary")).to_contain_text("Inside the model")
    page.reload()
    expect(page.get_by_role("button", name="Español")).to_be_visible()
    context.close()


# --- Layout and accessibility


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (390, "light")])
def test_axe_finds_nothing(page: Page, width: int, scheme: str) -> None:
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    typed(page)
    inside(page)
    for part in ("tree", "steps", "force"):
        page.locator(f".{part} summary").first.click()
    expect(page.locator(".tree tbody tr").first).to_be_visible()
    page.locator(".steps details summary").first.click()
    page.locator(".word").first.click()
    expect(page.locator("#others li button").first).to_be_visible()
    # The shade of a weight of 1, which the model need not reach.
    page.evaluate("""document.querySelectorAll("[style*=--light]").forEach(
        element => element.style.setProperty("--light", 1))""")
    page.evaluate(axe)
    found = page.evaluate("axe.run()")
    faults = [
        (fault["id"], [node["html"] for node in fault["nodes"]]) for fault in found["violations"]
    ]
    assert faults == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.skipif("SCREENSHOT" not in os.environ, reason="makes pictures for docs when asked to")
def test_screenshots(browser: Browser, both: Client) -> None:
    folder = Path(os.environ["SCREENSHOT"])
    page = browser.new_page(viewport={"width": 1280, "height": 660})
    page.goto(f"{both.url}/#{urlencode({'text': LETTER, 'from': 'auto', 'model': 'es-en'})}")
    assert shown(page)
    page.locator(".word", has_text="near").click()
    expect(page.locator("#others li button").first).to_be_visible()
    page.screenshot(path=folder / "page.png")
    page.goto(f"{both.url}/#{urlencode({'text': SISTER, 'from': 'auto', 'model': 'es-en'})}")
    inside(page)
    expect(page.locator(".targets button").nth(2)).to_have_text("red")
    page.locator(".targets button").nth(2).hover()
    page.screenshot(path=folder / "page-inside.png", full_page=True)
    page.close()
