"""The project's own routes, and the files of the page."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args
from unittest.mock import Mock
from urllib.parse import urlencode, urljoin

import pytest
from conftest import toy_pairs
from serving import Client, served, until
from starlette.requests import ClientDisconnect

from seq2seq.analysis import Method
from seq2seq.inference import arrival
from seq2seq.inference.required import Glossary
from seq2seq.inference.translator import Translator
from seq2seq.serving import Limits, interactive
from seq2seq.serving.batching import Batcher, RequestError
from seq2seq.serving.served_models import ServedModel, ServedModels

LINES = [source for source, _ in toy_pairs(6, seed=8)]
LONG = " ".join(LINES * 3)  # more than inference.max_source_length


@pytest.fixture(scope="module")
def translator(exported: Path) -> Translator:
    return Translator.load(exported)


@pytest.fixture(scope="module")
def client(translator: Translator) -> Iterator[Client]:
    models = ServedModels({"toy": ServedModel("toy", translator, "gone")})
    glossaries = {"zoo": Glossary({"gato": "lion"})}
    with served(models, Limits(characters=1000), glossaries=glossaries) as client:
        yield client


def ask(client: Client, path: str, **values: Any) -> Any:
    answer = client.post(path, **{"model": "toy", "q": LINES[0], **values})
    assert answer.status == 200, answer.body
    return answer.json


def events(client: Client, **values: Any) -> list[tuple[str, Any]]:
    answer = client.post("/api/stream", **{"model": "toy", **values})
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = answer.body.decode().split("\n\n")
    assert blocks.pop() == ""
    found = [re.fullmatch(r"event: (\w+)\ndata: (.*)", block) for block in blocks]
    return [(each[1], json.loads(each[2])) for each in found if each]


@pytest.mark.parametrize("line", [*LINES[:3], LONG])
@pytest.mark.parametrize("beam", [1, 4])
def test_stream_ends_with_the_translation(
    client: Client, translator: Translator, line: str, beam: int
) -> None:
    *steps, (last, found) = events(client, q=line, beam=beam)
    [[expected, *_]] = translator.translate([line], translator.options(beam_size=beam))
    assert last == "translation"
    assert found["translations"][0]["text"] == expected.text
    assert found == ask(client, "/api/translate", q=line, beam=beam)
    assert {name for name, _ in steps} == {"partial"}
    texts = [data["text"] for _, data in steps]
    if line != LONG:
        # One for each step of the search: a step writes a piece or more than one row ends.
        assert len(steps) >= len(expected.parts[0].target_pieces)
        assert texts[0] == ""
    if beam == 1:
        for text, longer in zip(texts, [*texts[1:], expected.text], strict=True):
            assert line == LONG or longer.startswith(text)


def test_stream_shows_all_sentences_of_a_batch_at_once(
    client: Client, translator: Translator
) -> None:
    *steps, (_, found) = events(client, q=" ".join(line.capitalize() + "." for line in LINES))
    parts = found["translations"][0]["parts"]
    assert len(parts) == len(LINES)
    longest = translator.options().max_length(max(len(p["source_tokens"]) for p in parts))
    assert len(steps) <= longest + 1


def test_empty_line_has_an_empty_translation(client: Client) -> None:
    [(name, found)] = events(client, q=" ")
    assert name == "translation"
    assert found["translations"] == [{"text": "", "score": 0.0, "parts": []}]


def test_parts_have_their_words_and_weights_for_the_best_translation_only(client: Client) -> None:
    text = f"{LINES[0]}\n\n {LINES[1]}"
    first, second = ask(client, "/api/translate", q=text, nbest=2)["translations"]
    assert [part["source"] for part in first["parts"]] == LINES[:2]
    assert first["text"] == "\n\n ".join(part["text"] for part in first["parts"])
    for line, part in zip(LINES, first["parts"], strict=False):
        [alone] = ask(client, "/api/translate", q=line)["translations"]
        assert part["words"] == alone["parts"][0]["words"]
        assert len(part["words"]["weights"]) == len(part["text"].split())
    assert all("attention" in part for part in first["parts"])
    assert not any("attention" in part or part["words"] for part in second["parts"])


def test_each_part_has_the_tree_of_its_search(client: Client) -> None:
    [best] = ask(client, "/api/translate", q="\n".join(LINES[:2]), tree=True)["translations"]
    for part in best["parts"]:
        finished = [node for node in part["tree"] if node["status"] == "finished"]
        assert max(node["score"] for node in finished) == pytest.approx(part["score"])


def test_alternatives_in_a_later_sentence_keep_those_before(client: Client) -> None:
    text = "\n".join(LINES[:2])
    [best] = ask(client, "/api/translate", q=text)["translations"]
    first, second = best["text"].split("\n")
    for each in ask(client, "/api/alternatives", q=text, prefix=f"{first}\n{second.split()[0]}"):
        assert each["text"].startswith(f"{first}\n{second.split()[0]}")


def test_alternatives_and_what_follows_them(client: Client) -> None:
    [best] = ask(client, "/api/translate")["translations"]
    first, *_ = best["text"].split()
    found = ask(client, "/api/alternatives", prefix=first, number=3)
    assert len(found) == 3
    for each in found:
        begun = ask(client, "/api/translate", prefix=f"{first} {each['word']} ")
        expected = each["text"] if each["word"] else begun["translations"][0]["text"]
        assert begun["translations"][0]["text"] == expected
        assert expected.split()[0] == first


def test_best_hypothesis_of_the_tree_is_the_translation(client: Client) -> None:
    [best] = ask(client, "/api/translate", tree=True, beam=3)["translations"]
    [part] = best["parts"]
    tree = part["tree"]
    node = max((n for n in tree if n["status"] == "finished"), key=lambda node: node["score"])
    pieces = []
    while node["parent"] is not None:
        pieces.insert(0, node["piece"])
        node = tree[node["parent"]]
    assert pieces == part["tokens"]


def test_explanation_is_that_of_explain(trained: Path) -> None:
    from seq2seq.analysis.explain import explain

    model = ServedModel("toy", Translator.load(trained), str(trained))
    check = Mock(return_value=None)
    explained = partial(interactive.explain, model, LINES[0], beam=3, attribution=None, check=check)
    expected = explain(model.explainer, LINES[0]).as_json()
    found = explained(target=None, look={})
    steps = check.call_count
    assert found["words"] == expected["words"]
    assert found["steps"] == expected["steps"]
    assert found["memory"]["keys"] == {"shape": expected["memory"]["keys"]["shape"]}
    same = explained(target=found["translation"], look={})
    assert not same["forced"]
    forced = explained(target="dog", look={})
    assert (forced["forced"], forced["translation"]) == (True, "dog")
    looked = explained(target=None, look={1: 1})
    assert looked["steps"][0]["weights"]["data"][0] == 1
    before, after = (
        {each["id"]: each["probability"] for each in record["steps"][0]["candidates"]}
        for record in (found, looked)
    )
    pieces = {each["id"]: each for each in looked["next_pieces"]}
    assert pieces.keys() == before.keys() | after.keys()
    for key, listed in (("before", before), ("after", after)):
        shown = {id: pieces[id][key] for id in listed}
        assert shown == pytest.approx(listed)
        assert sum(each[key] for each in pieces.values()) <= 1 + 1e-6
    assert "next_pieces" not in found
    # Also between the gradients of an attribution, which take longest.
    check.reset_mock()
    explained(target=None, look={}, attribution="integrated")
    forward = 2 * steps + len(found["steps"])
    assert check.call_count > forward + len(found["steps"])
    check.side_effect = [None] * (forward + 1) + [InterruptedError]
    with pytest.raises(InterruptedError):
        explained(target=None, look={}, attribution="integrated")


def test_integrated_gradients_of_long_sentences_are_refused(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactive, "_MOST_INTEGRATED", 1)
    model = ServedModel("toy", Translator.load(trained), str(trained))
    with served(ServedModels({"toy": model})) as client:
        answer = client.post("/api/explain", model="toy", q=LINES[0], attribution="integrated")
        assert answer.status == 400
        assert "take too long here (at most 1 pairs of them); use occlusion" in answer.json["error"]
        assert ask(client, "/api/explain", attribution="occlusion")["attribution"]


def test_alternatives_of_a_client_that_has_gone_are_not_looked_for(
    translator: Translator,
) -> None:
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        translator.alternatives(LINES[0], check=check)
    assert calls == 4


def test_long_text_holds_up_no_short_one(translator: Translator) -> None:
    models = ServedModels({"toy": ServedModel("toy", translator)})
    batcher, options = Batcher(models, Limits(characters=10**6)), translator.options()
    assert batcher.kind("toy", LINES[0], options) == "short"
    assert batcher.kind("toy", LINES[0], options, "dog " * 70) == "long"
    assert batcher.kind("toy", f"{LINES[0]} " * 1000, options) == "long"
    assert batcher.kind("toy", "", options) == "short"
    done = threading.Event()

    async def run() -> None:
        batcher.start()
        first = asyncio.create_task(batcher.call(lambda _: done.wait(60), "long", seconds=60))
        assert await batcher.call(lambda _: 2, "short", seconds=60) == 2
        done.set()
        assert await first
        await batcher.stop()

    asyncio.run(run())


@pytest.mark.parametrize("target", [None, "dog"])
@pytest.mark.parametrize("method", get_args(Method))
def test_attribution_is_that_of_explain(trained: Path, method: Method, target: str | None) -> None:
    from seq2seq.analysis.explain import explain

    model = ServedModel("toy", Translator.load(trained), str(trained))
    expected = explain(model.explainer, LINES[0], target=target, attribution=method).as_json()
    with served(ServedModels({"toy": model})) as client:
        found = ask(client, "/api/explain", target=target, attribution=method)
        answer = client.post("/api/explain", model="toy", q=LINES[0], attribution=method, step=1)
    for key in ("attribution", "attributed_words", "steps"):
        assert found[key] == expected[key]
    assert answer.status == 400
    assert "attribution: it needs the model's own weights" in answer.json["error"]


@pytest.mark.parametrize(
    ("path", "values", "words"),
    [
        ("translate", {"model": "none"}, "model: there is no 'none'; use one of toy"),
        ("stream", {"model": "none"}, "model: there is no"),
        ("translate", {"prefix": "a" * 1001}, "prefix: 1001 characters"),
        ("explain", {"target": "a" * 1001}, "target: 1001 characters"),
        ("stream", {"q": "a" * 1001}, "q: 1001 characters"),
        ("alternatives", {"number": 0}, "number: "),
        ("alternatives", {"q": ""}, "the source is empty"),
        ("explain", {"step": 0}, "step: "),
        ("explain", {"attribution": "lime"}, "attribution: "),
        ("explain", {"attribution": "occlusion"}, "gone: not a run"),
        ("explain", {"target": "€" * 900}, "target: "),
        ("explain", {}, "gone: not a run"),
    ],
)
def test_what_cannot_be_used_is_refused(
    client: Client, path: str, values: dict[str, Any], words: str
) -> None:
    answer = client.post(f"/api/{path}", **{"model": "toy", "q": LINES[0], **values})
    assert answer.status == 400
    assert words in answer.json["error"]


def test_without_pytorch_an_explanation_says_what_to_install(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(interactive, "explain", fail)
    answer = client.post("/api/explain", model="toy", q=LINES[0])
    assert answer.status == 501
    assert "on the server, this needs PyTorch" in answer.json["error"]


def test_what_a_search_shows_to_can_end_it(translator: Translator) -> None:
    def stop(text: str) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        interactive.translate(translator, LINES[0], translator.options(), show=stop)


def test_translation_that_takes_too_long_is_ended(
    exported: Path, translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[BaseException] = []
    search = interactive.translate

    def slow(*arguments: Any, show: Callable[[str], None], **options: Any) -> Any:
        def watch(text: str) -> None:
            time.sleep(0.02)  # of each of some 50 steps
            show(text)

        try:
            return search(*arguments, show=watch, **options)
        except ClientDisconnect as error:
            ended.append(error)
            raise

    monkeypatch.setattr(interactive, "translate", slow)
    models = ServedModels({"toy": ServedModel("toy", translator, str(exported))})
    with served(models, Limits(seconds=0.1)) as client:
        for number, path in enumerate(("translate", "stream"), 1):
            answer = client.post(f"/api/{path}", model="toy", q=" ".join(["gato"] * 20))
            assert answer.status == 504 or "took too long" in answer.body.decode()
            until(lambda number=number: len(ended) == number)


def test_fault_within_a_stream_is_its_last_event(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise IndexError("of some bug")

    monkeypatch.setattr(interactive, "translations_json", fail)
    *steps, last = events(client, q=LINES[0])
    assert steps
    assert last == ("error", {"error": "internal error; the server's log has the details"})
    assert "IndexError: of some bug" in caplog.text


def test_calls_wait_in_the_queue(translator: Translator) -> None:
    models = ServedModels({"toy": ServedModel("toy", translator)})
    done = threading.Event()

    async def run() -> None:
        batcher = Batcher(models, Limits(queue=2))
        batcher.start()
        first = asyncio.create_task(batcher.call(lambda _: done.wait(60), "short", seconds=60))
        await asyncio.sleep(0)
        # Batches do not wait for them.
        found = await batcher.translate("toy", LINES[:1], translator.options(), seconds=60)
        assert found == translator.translate(LINES[:1])
        with pytest.raises(RequestError, match="the translation took too long"):
            await batcher.call(lambda _: 1, "short", seconds=0.01)
        second = asyncio.create_task(batcher.call(lambda _: 2, "short", seconds=60))
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="too many requests are waiting"):
            await batcher.call(lambda _: 3, "short", seconds=60)
        done.set()
        assert await asyncio.gather(first, second) == [True, 2]
        assert batcher.queue_length == 0
        assert await batcher.call(lambda _: 4, "short", seconds=60) == 4
        await batcher.stop()

    asyncio.run(run())


def test_page_loads_only_files_that_the_server_has(client: Client) -> None:
    seen, left = set(), ["/"]
    while left:
        path = left.pop()
        seen.add(path)
        answer = client.get(path)
        assert answer.status == 200, path
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
        assert "unsafe" not in policy
        text = answer.body.decode()
        named = re.findall(r'(?:href|src)="([^":]+)"|from "(\./[^"]+)"', text)
        left += {urljoin(path, file or module) for file, module in named} - seen - set(left)
    assert {"/page/page.js", "/page/drawing.js", "/page/explanation.css"} < seen


# --- Glossaries


@pytest.mark.parametrize("glossary", ["zoo", {"gato": "lion"}])
def test_request_has_a_glossary(client: Client, glossary: Any) -> None:
    [found] = ask(client, "/api/translate", q="gato come {a}", glossary=glossary)["translations"]
    assert "lion" in found["text"]
    assert "{a}" in found["text"]
    assert found["parts"][0]["missing"] == []
    answer = client.post(
        "/translate", q=["gato", "pan"], source="es", target="en", glossary=glossary
    )
    assert answer.json["translatedText"][0].startswith("lion")
    assert "missing" not in answer.json
    page = client.post(
        "/translate", q="<p>El <b>gato</b></p>", source="es", target="en", format="html",
        glossary=glossary,
    )  # fmt: skip
    assert "<b>lion</b>" in page.json["translatedText"]


def test_partial_translations_have_tokens(client: Client) -> None:
    shown = [data["text"] for kind, data in events(client, q="gato {a} pan") if kind == "partial"]
    assert "{a}" in "".join(shown)
    assert not re.search(r"\d{3}", "".join(shown))


def test_names_of_glossaries_are_listed(client: Client) -> None:
    assert client.get("/frontend/settings").json["glossaries"] == ["zoo"]


@pytest.mark.parametrize(
    ("glossary", "error"),
    [
        ("zo", "glossary: there is no 'zo'; use one of zoo"),
        ({"a": " "}, "glossary: 'a': ' ': expected a term and its translation, as texts"),
        ({"a": 3}, "glossary: 'a': 3: expected a term and its translation, as texts"),
        ({"a": None}, "glossary: 'a': None: expected a term and its translation, as texts"),
        (
            dict.fromkeys(map(str, range(1001)), "x"),
            "glossary: 1001 terms, a request may have 1000; start the "
            "server with larger glossaries",
        ),
        *(
            (wrong, "glossary: expected a name or a JSON object of terms")
            for wrong in (3, [], True)
        ),
    ],
)
@pytest.mark.parametrize("path", ["/translate", "/api/translate"])
def test_unusable_glossary_of_a_request(
    client: Client, path: str, glossary: Any, error: str
) -> None:
    answer = client.post(path, q="gato", source="es", target="en", model="toy", glossary=glossary)
    assert (answer.status, answer.json) == (400, {"error": error})


@pytest.mark.parametrize("prefix", ["", "cat. the", "<i"])
def test_tokens_next_to_letters_and_prefixes(
    client: Client, translator: Translator, prefix: str
) -> None:
    q, glossary = "gato. pre{a}fijo <i>pan</i>. perro {b}", Glossary({"perro": "lion"})
    wanted = {"q": q, "prefix": prefix, "glossary": glossary.terms, "model": "toy"}
    answer = client.post("/api/translate", **wanted)
    [[expected, *_]] = translator.translate([q], prefixes=[prefix], glossary=glossary)
    *_, (_, streamed) = events(client, **wanted)
    for found in (answer.json, streamed):
        assert found["translations"][0]["text"] == expected.text
        assert "lion" in expected.text
        missing = [part["missing"] for part in found["translations"][0]["parts"]]
        assert missing == [part.missing for part in expected.parts]


def test_terms_in_a_form(client: Client) -> None:
    form = urlencode({"q": "gato", "source": "es", "target": "en", "glossary": '{"a": "b"}'})
    answer = client.send("POST", "/translate", form.encode())
    assert answer.status == 400
    assert (
        "terms have to be a JSON object in a request of type application/json"
        in answer.json["error"]
    )


def test_what_is_missing_is_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival, "_beginning", lambda *_: "")
    wanted = {"source": "es", "target": "en", "glossary": "zoo"}
    answer = client.post("/translate", q=["gato", "pan"], **wanted).json
    assert "missing" in answer["warnings"][0]
    assert answer["missing"] == [["lion"], []]
    assert client.post("/translate", q="gato", **wanted).json["missing"] == ["lion"]
