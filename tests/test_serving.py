"""The HTTP interface, in this process: what each request gets."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit

import numpy as np
import pytest
import uvicorn
from conftest import toy_pairs
from deep_translator import LibreTranslator
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from libretranslatepy import LibreTranslateAPI
from openapi_spec_validator import OpenAPIV31SpecValidator
from properties import examples
from py3langid.langid import LanguageIdentifier
from serving import Answer, Client, Gate, both_directions, served, until

from seq2seq import processes
from seq2seq.errors import UserError, WorkerError
from seq2seq.inference import text as inference_text
from seq2seq.inference.text import Sentence
from seq2seq.inference.translator import Translator
from seq2seq.languages import language
from seq2seq.packaged import SAMPLE, model_names
from seq2seq.serving import Limits, batching, interactive, libretranslate, served_models, server
from seq2seq.serving.batching import Batcher
from seq2seq.serving.documents import read_subtitles, write_subtitles
from seq2seq.serving.served_models import ServedModel, ServedModels, load_models
from seq2seq.serving.server import listen, run
from seq2seq.serving.service import Service

LINES = [source for source, _ in toy_pairs(20, seed=7)]
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def translator(exported: Path) -> Translator:
    return Translator.load(exported)


@pytest.fixture(scope="module")
def models(translator: Translator) -> ServedModels:
    return both_directions(translator)


@pytest.fixture(scope="module")
def client(models: ServedModels) -> Iterator[Client]:
    with served(models, Limits(characters=1000, texts=30, alternatives=3)) as client:
        yield client


@pytest.fixture(scope="module")
def trained_client() -> Iterator[Client]:
    with served(load_models(["es-en"], Translator.load)) as client:
        yield client


def texts(translator: Translator, lines: list[str]) -> list[str]:
    return [best.text for best, *_ in translator.translate(lines)]


# --- Requests that are answered


def test_a_text_and_a_list_are_translated_like_lines(
    client: Client, translator: Translator
) -> None:
    expected = texts(translator, LINES)
    assert client.translate(LINES) == {"translatedText": expected}
    assert client.translate(LINES[0]) == {"translatedText": expected[0]}
    assert client.translate("\n".join(LINES[:3]))["translatedText"] == "\n".join(expected[:3])
    assert client.translate(f"{LINES[0]}\n\n{LINES[1]}")["translatedText"].split("\n") == [
        expected[0], "", expected[1]
    ]  # fmt: skip
    mixed = f"{LINES[0]}\r\n\r\n{LINES[1]}\n{LINES[2]}\r"
    assert client.translate(mixed)["translatedText"] == (
        f"{expected[0]}\r\n\r\n{expected[1]}\n{expected[2]}\r"
    )
    assert client.translate("") == {"translatedText": ""}
    assert client.translate([]) == {"translatedText": []}


def test_json_forms_and_query_strings_are_equal(client: Client) -> None:
    values = [("q", LINES[0]), ("source", "es"), ("target", "en")]
    expected = client.translate(LINES[0])
    query = "/translate?" + "&".join(f"{name}={value}" for name, value in values)
    query = query.replace(" ", "%20").replace("ñ", "%C3%B1").replace("é", "%C3%A9")
    parts = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in values
    )
    answers = [
        client.post_form("/translate", values),
        client.send("POST", query),
        client.send(
            "POST", "/translate", f"{parts}--x--\r\n".encode(),
            {"Content-Type": "multipart/form-data; boundary=x"},
        ),
        # JSON without its type, as from fetch() or from curl
        client.send("POST", "/translate", json.dumps(dict(values)).encode()),
        client.send(
            "POST", "/translate", json.dumps(dict(values)).encode(), {"Content-Type": FORM}
        ),
    ]  # fmt: skip
    assert [answer.json for answer in answers] == [expected] * len(answers)
    repeated = client.post_form("/translate", [*values, ("q", LINES[1])]).json
    assert repeated == client.translate(LINES[:2])


def test_forms_and_queries_may_be_raw_utf8(client: Client) -> None:
    expected = client.translate("niño")
    assert expected != client.translate("niÃ±o")
    form = "q=niño&source=es&target=en"
    assert client.send("POST", "/translate", form.encode(), {"Content-Type": FORM}).json == expected
    refused = client.send("POST", "/translate", form.encode("latin-1"), {"Content-Type": FORM})
    assert refused.status == 400
    assert refused.json["error"].endswith("is not UTF-8; encode it as UTF-8")
    many = client.send("POST", "/translate", b"a=b&" * 1000, {"Content-Type": FORM})
    assert many.json["error"] == "more than 130 parameters; send fewer"


@pytest.mark.parametrize("code", ["es", "ES", "es-ES", "es_MX", "Es-419", "es-Latn-ES"])
def test_case_and_region_of_a_language_are_ignored(client: Client, code: str) -> None:
    expected = client.translate(LINES[0])
    assert client.translate(LINES[0], source=code, target="EN_us") == expected
    back = client.translate("dog", source="en-GB", target=code)
    assert back == client.translate("dog", source="en", target="es")
    assert client.translate("gato", source=code, target=code) == {"translatedText": "gato"}


def test_alternatives_are_the_next_best_and_differ(client: Client, translator: Translator) -> None:
    options = translator.options(nbest=4)
    for line in LINES[:5]:
        found = [each.text for each in translator.translate([line], options)[0]]
        answer = client.translate(line, alternatives=3)
        assert answer["translatedText"] == found[0]
        assert answer["alternatives"] == list(dict.fromkeys(found))[1:]
    answer = client.translate(LINES[:2], alternatives="1")
    assert [len(each) for each in answer["alternatives"]] == [1, 1]
    assert "alternatives" not in client.translate(LINES[0])


def test_auto_detects_the_language_of_each_text(client: Client) -> None:
    answer = client.translate([LINES[0], "the dog eats bread", "12"], source="auto")
    assert answer["translatedText"][0] == client.translate(LINES[0])["translatedText"]
    assert answer["translatedText"][1:] == ["the dog eats bread", "12"]  # already in English
    assert [each["language"] for each in answer["detectedLanguage"]] == ["es", "en", "en"]
    assert answer["detectedLanguage"][2]["confidence"] == 0
    single = client.translate(LINES[0], source="auto")
    assert single["detectedLanguage"] == answer["detectedLanguage"][0]


def test_language_of_a_text_is_detected(models: ServedModels) -> None:
    models = ServedModels({"there": models.by_name["there"]})  # the other one is not real
    pairs = toy_pairs(100, seed=9)
    for side, code in enumerate(("es", "en")):
        found = [models.detect(pair[side])[0] for pair in pairs]
        assert sum(each.language == code for each in found) > 95
        assert all(0 <= each.confidence <= 100 for each in found)
    both = models.detect("gato come pan")
    assert both[0].language == "es"
    assert {each.language for each in both} >= {"es", "en"}
    assert sum(each.confidence for each in both) <= 100.1
    assert models.detect("ok")[0].confidence < 50


FOREIGN = {
    "fr": "Je ne peux pas venir à la fête ce soir.", "pt": "Onde fica a estação?",
    "it": "Dov'è la stazione?", "de": "Wo ist der Bahnhof?", "zh": "我今晚不能去参加聚会。",
    "ca": "On és l'estació?", "ru": "Мой брат работает в банке.", "ja": "猫がパンを食べる",
    "is": "Ég veit ekki hvað þetta er.",
}  # fmt: skip


@pytest.mark.parametrize(("code", "text"), FOREIGN.items())
def test_language_that_no_model_has_is_detected_and_refused(
    client: Client, code: str, text: str
) -> None:
    best, *others = client.post("/detect", q=text).json
    assert best["language"] == code
    assert best["confidence"] > 50
    assert {each["language"] for each in others} == {"es", "en"}
    answer = client.post("/translate", q=["gato", text], source="auto", target="en")
    assert answer.status == 400
    assert f"a text seems to be {language(code).name} (confidence " in answer.json["error"]
    assert answer.json["error"].endswith(
        "no model translates that into en; if it is not, use its language instead of auto: es"
    )
    assert client.translate(text)["translatedText"]  # with the language that the client gives


@pytest.mark.parametrize("text", ["😀", "12.5 %", "", "¿?", "xq_17b zzkw qpv"])
def test_text_without_words_is_kept(client: Client, text: str) -> None:
    answer = client.translate(text, source="auto")
    assert answer["translatedText"] == text
    assert answer["detectedLanguage"] == {"language": "en", "confidence": 0}


def test_first_detections_load_the_model_once(
    models: ServedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, loaded = LanguageIdentifier.from_model_file, []

    def count(*arguments: Any, **options: Any) -> LanguageIdentifier:
        loaded.append(arguments)
        return load(*arguments, **options)

    monkeypatch.setattr(LanguageIdentifier, "from_model_file", count)
    served_models._identifier.cache_clear()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(models.detect, ["gato come pan"] * 4))
    assert found == found[:1] * 4
    assert len(loaded) == 1


def test_tokenizers_decide_for_a_language_that_py3langid_does_not_know(
    translator: Translator,
) -> None:
    data = translator.config.data.model_copy(update={"target_language": "x-new"})
    config = translator.config.model_copy(update={"data": data})
    new = Translator(translator.backends, translator.source, translator.target, config)
    models = ServedModels({"new": ServedModel("new", new)})
    assert models.detect("the dog eats bread")[0].language == "x-new"
    assert models.detect("el perro come pan")[0].language == "es"


def test_the_model_that_leaves_a_text_as_it_is_decides(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = both_directions(translator)
    same = Mock(rank=lambda _: [("en", 0.5), ("es", 0.5)])
    monkeypatch.setattr(served_models, "_identifier", lambda: same)
    for kept, code in (("there", "en"), ("back", "es")):
        of_kept = models.by_name[kept].translator
        monkeypatch.setattr(served_models, "_copying", lambda t, _, kept=of_kept: -5 * (t != kept))
        assert models.detect("gato")[0].language == code


def test_models_translate_their_source_language_and_leave_the_other() -> None:
    for name, theirs, others in (("es-en", "perro", "dog"), ("en-es", "dog", "perro")):
        translator = Translator.load(name)
        assert served_models._copying(translator, theirs) < -5
        assert -2 < served_models._copying(translator, others) <= 0


def test_languages_of_sentences_are_detected() -> None:
    models = load_models([], Translator.load)
    rows = (SAMPLE / "test.tsv").read_text(encoding="utf-8").splitlines()[:30]
    for side, code in enumerate(("es", "en")):
        found = [models.detect(row.split("\t")[side])[0].language for row in rows]
        assert found == [code] * len(rows)


def test_languages_of_several_texts_are_detected(client: Client) -> None:
    lines = ["gato come pan", "", "Wo ist der Bahnhof?"]
    alone = [client.post("/detect", q=line).json for line in lines]
    assert client.post("/detect", q=lines).json == alone
    assert client.post_form("/detect", [("q", line) for line in lines]).json == alone
    assert client.post("/detect", q=[]).json == []
    many = client.post("/detect", q=["a"] * 31)
    assert many.json == {"error": "q: 31 texts; send at most 30 at once"}
    assert client.post("/detect", q=[["a"]]).status == 400


@pytest.mark.parametrize("path", ["/detect", "/translate"])
def test_detection_ends_when_the_client_has_gone(
    models: ServedModels, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    seen: list[str] = []
    held, detect = threading.Event(), ServedModels.detect

    def hold(models: ServedModels, text: str, *expected: Any) -> Any:
        seen.append(text)
        assert held.wait(60)
        return detect(models, text, *expected)

    monkeypatch.setattr(ServedModels, "detect", hold)
    with served(models) as client:
        with socket.create_connection(("127.0.0.1", client.port)) as raw:
            query = "q=gato&q=perro&q=pan&source=auto&target=en"
            raw.sendall(f"POST {path}?{query} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            until(lambda: seen)
        until(lambda: f'path="{path}",status="499"}} 1' in client.get("/metrics").body.decode())
        held.set()
        assert client.post("/detect", q="dog").status == 200
    assert seen == ["gato", "dog"]


# --- Files


FILM = """1
00:00:01,000 --> 00:00:04,000
No puedo ir a la escuela
porque estoy <i>cansado</i>.

2
00:00:05,500 --> 00:00:07,000 X1:40 X2:600
- ¿Tienes hambre?
- Sí, quiero comer.

3
00:00:08,000 --> 00:00:09,000

4
00:00:10,000 --> 00:00:12,000
{\\an8}<font color="#ffff00">R&D & "5 < 6"
es mi trabajo</font>
"""
TRANSLATED_FILM = """1
00:00:01,000 --> 00:00:04,000
I can't go to school
because I'm <i>tired</i>.

2
00:00:05,500 --> 00:00:07,000 X1:40 X2:600
- Are you hungry?
- Yes, I want to eat.

3
00:00:08,000 --> 00:00:09,000

4
00:00:10,000 --> 00:00:12,000
{\\an8}<font color="#ffff00">R&D & "5 < 6"
is my job</font>
"""


def downloaded(client: Client, answer: Answer) -> Answer:
    """Return the translated file of a response."""
    assert answer.status == 200, answer.body
    address = urlsplit(answer.json["translatedFileUrl"])
    assert address.netloc == f"127.0.0.1:{client.port}"
    return client.get(f"{address.path}?{address.query}")


@pytest.mark.parametrize("text", [FILM, FILM.replace("\n", "\r\n"), FILM.rstrip(), "", "no time"])
def test_subtitles_are_html_without_a_loss(text: str) -> None:
    assert write_subtitles(read_subtitles(text)) == text


def test_subtitles_keep_times_tags_and_lines(trained_client: Client) -> None:
    sent = trained_client.post_file("una película.SRT", FILM.encode("utf-8-sig"))
    film = downloaded(trained_client, sent)
    assert film.body.decode() == TRANSLATED_FILM
    name = "filename*=UTF-8''una%20pel%C3%ADcula.en.srt"
    assert film.headers["content-disposition"] == f"attachment; {name}"


def test_a_file_is_translated_as_its_text(client: Client) -> None:
    text = f"{LINES[0]}\r\n\r\n  {LINES[1]}"
    found = downloaded(client, client.post_file("a.txt", text.encode(), source="auto"))
    assert found.body.decode() == client.translate(text)["translatedText"]
    page = "<p>perro <b>grande</b></p><script>evil()</script>"
    found = downloaded(client, client.post_file("../a.html", page.encode()))
    assert found.body.decode() == client.translate(page, format="html")["translatedText"]
    # It is no page of the server.
    assert found.headers["content-type"] == "text/plain; charset=utf-8"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["content-disposition"].startswith("attachment; ")
    proxied = {"X-Forwarded-Proto": "https", "Host": "example.org"}
    address = client.post_file("a.txt", b"gato", proxied).json["translatedFileUrl"]
    assert address.startswith("https://example.org/download_file/translation.txt?key=")


@pytest.mark.parametrize(
    ("name", "content", "values", "words"),
    [
        ("a.md", b"gato", {}, "file: unknown format '.md'; use one of .txt, .html, .srt"),
        ("", b"gato", {}, "file: unknown format ''"),
        ("a.txt", b"ni\xf1o", {}, "file: not UTF-8; save it as UTF-8"),
        ("a.srt", b"gato", {}, "file: found no times of subtitles with an arrow (-->); use .txt"),
        ("a.srt", b"a" * 1001, {}, "file: 1001 characters; send at most 1000"),
        ("a.txt", b"gato", {"source": "xx"}, "source: unknown language 'xx'"),
        ("a.txt", b"gato", {"file": "gato"}, "file: "),
    ],
)
def test_files_that_cannot_be_translated_get_400(
    client: Client, name: str, content: bytes, values: dict[str, str], words: str
) -> None:
    answer = client.post_file(name, content, **values)
    assert answer.status == 400
    assert answer.json["error"].startswith(words)


def test_a_file_that_is_no_file_gets_400(client: Client) -> None:
    answer = client.post("/translate_file", file="gato", source="es", target="en")
    assert answer.json == {"error": "file: expected a file; send multipart/form-data"}


def test_translated_files_are_kept_for_a_time_and_not_without_end(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = client.post_file("a.txt", b"gato")
    assert downloaded(client, first).status == 200
    monkeypatch.setattr(libretranslate, "_KEPT_BYTES", 5)
    second = client.post_file("a.txt", b"perro")
    assert [downloaded(client, each).status for each in (first, second)] == [404, 200]
    assert client.get("/download_file/translation.txt?key=guess").status == 404
    monkeypatch.setattr(libretranslate, "_KEPT_SECONDS", 0)
    third = client.post_file("a.txt", b"gato")
    until(lambda: downloaded(client, third).status == 404)


def test_html_keeps_tags(client: Client) -> None:
    plain = client.translate("perro grande")["translatedText"].split()
    answer = client.translate("<p>perro <b>grande</b></p>", format="html")["translatedText"]
    assert answer == f"<p>{plain[0]} <b>{plain[1]}</b></p>"
    both = client.translate(["<br>", "<p>gato</p>"], format="html", alternatives=1)
    assert both["translatedText"][0] == "<br>"
    assert re.fullmatch("<p>.*</p>", both["alternatives"][1][0])


def test_white_space_around_lines_stays(client: Client) -> None:
    first, second = (client.translate(line)["translatedText"] for line in LINES[:2])
    answer = client.translate(f"\n  {LINES[0]} \n\t\n\n{LINES[1]}\r\n ")
    assert answer["translatedText"] == f"\n  {first} \n\t\n\n{second}\r\n "


def test_sentences_of_a_block_keep_its_tags(trained_client: Client) -> None:
    translate = trained_client.translate
    first, second = (
        translate(text)["translatedText"] for text in ("El perro duerme.", "Ella come.")
    )
    both = translate("<p><i>El perro duerme.</i>  Ella <b>come</b>.</p>", format="html")
    assert both["translatedText"] == (
        f"<p><i>{first}</i> {second.replace('eats', '<b>eats</b>')}</p>"
    )


def test_translations_that_may_be_wrong_are_marked(
    client: Client, translator: Translator, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    assert "warnings" not in client.translate(LINES[:2])
    assert caplog.messages == []
    [[found]] = translator.translate([LINES[0]])
    least = found.parts[0].log_prob / (len(found.text.split()) + 1)
    monkeypatch.setattr(inference_text, "UNLIKELY", least + 1e-6)
    assert client.translate(LINES[0])["warnings"] == ["unlikely"]
    assert caplog.messages == [
        "there: of 1 sentences, the translations of 1 are unlikely and of 0 ended by the length "
        "limit"
    ]
    several = client.translate([LINES[0], " "], alternatives=2)
    assert several["warnings"] == [["unlikely"], []]
    [best] = client.post("/api/translate", model="there", q=LINES[0]).json["translations"]
    assert best["parts"][0]["unlikely"]
    monkeypatch.setattr(inference_text, "UNLIKELY", least - 1e-6)
    assert "warnings" not in client.translate(LINES[0])


def test_translation_that_ended_by_the_length_limit_is_marked(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    limits = {"max_length_factor": 0.01, "max_length_offset": 1}
    with served(both_directions(translator), search=limits) as client:
        assert "unfinished" in client.translate(LINES[0])["warnings"]
    assert caplog.messages[0].endswith("of 1 ended by the length limit")


def test_languages_settings_and_states(client: Client) -> None:
    assert client.get("/languages").json == [
        {"code": "en", "name": "English", "targets": ["es"]},
        {"code": "es", "name": "Spanish", "targets": ["en"]},
    ]
    settings = client.get("/frontend/settings").json
    assert (settings["filesTranslation"], settings["suggestions"]) == (True, False)
    assert settings["supportedFilesFormat"] == [".txt", ".html", ".srt"]
    assert (settings["charLimit"], settings["keyRequired"]) == (1000, False)
    assert settings["language"]["source"] == {"code": "es", "name": "Spanish"}
    assert client.get("/health").json == {"status": "ok"}
    assert client.get("/ready").json == {"status": "ready"}
    assert client.post("/detect", q="gato").json[0]["language"] == "es"


@pytest.mark.parametrize("path", ["/", "/health", "/api/models", "/page/page.js"])
def test_head_gets_the_head_of_get(client: Client, path: str) -> None:
    head, full = client.send("HEAD", path), client.get(path)
    assert (head.status, head.body) == (200, b"")
    for name in ("content-type", "content-length"):
        assert head.headers[name] == full.headers[name]


def test_no_page_loads_from_another_host(client: Client) -> None:
    for path in ("/redoc", "/openapi.json"):
        assert client.get(path).status == 404
    assert client.get("/docs").json == client.get("/spec").json


def test_what_browsers_and_other_clients_ask_for(client: Client) -> None:
    assert (client.get("/favicon.ico").status, client.get("/favicon.ico").body) == (204, b"")
    answer = client.send("POST", "/suggest", b"q=gato&s=cat&source=es&target=en")
    assert answer.status == 404
    assert answer.json == {"error": "no such path; GET /spec describes all paths"}
    answer = client.get("/translate")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.json == {
        "error": "this path has no such method; the header Allow names those it has"
    }


@pytest.mark.parametrize("path", ["/health/", "//health", "/health%2F"])
def test_paths_with_more_slashes_are_the_same(client: Client, path: str) -> None:
    answer = client.send("GET", path, headers={"Host": "example.org"})
    assert (answer.status, answer.json) == (200, {"status": "ok"})
    assert client.send("POST", "/translate/", b"q=gato&source=es&target=en").status == 200
    missing = client.send("GET", "/none/", headers={"Host": "example.org"})
    assert (missing.status, missing.headers["location"]) == (404, None)


def test_browsers_of_other_sites_may_ask(client: Client) -> None:
    origin = {"Origin": "https://example.org"}
    answer = client.send("GET", "/languages", headers=origin)
    assert answer.headers["access-control-allow-origin"] == "*"
    asked = {"Access-Control-Request-Method": "POST"}
    asked |= {"Access-Control-Request-Headers": "content-type"}
    answer = client.send("OPTIONS", "/translate", headers={**origin, **asked})
    assert answer.status == 200
    assert "POST" in answer.headers["access-control-allow-methods"]
    failed = client.send("POST", "/translate", headers=origin)
    assert (failed.status, failed.headers["access-control-allow-origin"]) == (400, "*")


def test_own_routes_name_a_model_and_return_attention(
    client: Client, translator: Translator
) -> None:
    there, back = client.get("/api/models").json
    assert (there["name"], there["source"], there["target"]) == ("there", "es", "en")
    assert (back["name"], back["score"]) == ("back", "additive")
    answer = client.post("/api/translate", q=LINES[0], model="there", beam=2, nbest=3)
    options = translator.options(beam_size=2, nbest=3, keep_weights=True)
    expected = [
        each.as_json(attention=True) for each in translator.translate(LINES[:1], options)[0]
    ]
    found = answer.json["translations"]
    assert [each["text"] for each in found] == [each["text"] for each in expected]
    [part], [same] = found[0]["parts"], expected[0]["parts"]
    assert np.allclose(part["attention"], same["attention"], atol=1e-4)
    for values, words in (
        ({"model": "none"}, "model: there is no 'none'; use one of there, back"),
        ({"beam": 21}, "beam: "),
        ({"nbest": 0}, "nbest: "),
        ({"q": "a" * 1001}, "q: 1001 characters"),
    ):
        refused = client.post("/api/translate", **{"q": "gato", "model": "there", **values})
        assert refused.status == 400
        assert refused.json["error"].startswith(words)


# --- Clients of LibreTranslate


def test_libretranslatepy(client: Client, translator: Translator) -> None:
    api = LibreTranslateAPI(client.url)
    assert api.translate(LINES[0], "es", "en") == texts(translator, LINES[:1])[0]
    assert api.detect("gato come pan")[0]["language"] == "es"
    assert [each["code"] for each in api.languages()] == ["en", "es"]


def test_deep_translator(client: Client, translator: Translator) -> None:
    api = LibreTranslator("es", "en", api_key="none", custom_url=f"{client.url}/")
    assert api.translate(LINES[0]) == texts(translator, LINES[:1])[0]
    assert api.translate_batch(LINES[:2]) == texts(translator, LINES[:2])


NPM = Path(os.environ.get("SEQ2SEQ_NPM", "/none"))
NPM_CLIENTS = """
import { libreTranslate } from "libretranslate-ts";
import { translate as second } from "libretranslate";
import third from "translate";
const [url, text] = process.argv.slice(2);
libreTranslate.setApiEndpoint(url);
libreTranslate.setApiKey("");
const found = [(await libreTranslate.translate(text, "es", "en")).translatedText];
found.push(await second({ query: text, source: "es", target: "en", apiurl: url }));
third.engine = "libre";
third.url = `${url}/translate`;
found.push(await third(text, { from: "es", to: "en" }));
const detected = await libreTranslate.detect(text);
console.log(JSON.stringify({ found, detected }));
"""


@pytest.mark.skipif(not (NPM / "node_modules/translate").exists(), reason="SEQ2SEQ_NPM has none")
def test_npm_clients(client: Client, translator: Translator, tmp_path: Path) -> None:
    """The clients are libretranslate-ts 0.5.12, libretranslate 1.0.1 and translate 3.1.0."""
    (tmp_path / "node_modules").symlink_to(NPM / "node_modules")
    (tmp_path / "clients.mjs").write_text(NPM_CLIENTS)
    command = ["node", "clients.mjs", client.url, LINES[0]]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["found"] == texts(translator, LINES[:1]) * 3
    assert "es" in json.dumps(found["detected"])


# --- Requests that are refused


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"q": None}, "q: "),
        ({"source": None}, "source: "),
        ({"target": None}, "target: "),
        ({"source": "e"}, "source: unknown language 'e'"),
        ({"source": "est"}, "source: unknown language 'est'"),
        ({"source": "xx"}, "source: unknown language 'xx'; use one of en, es"),
        ({"target": "auto"}, "target: unknown language 'auto'"),
        ({"source": "auto", "target": "xx"}, "target: unknown language 'xx'"),
        ({"format": "pdf"}, "format: "),
        ({"alternatives": 4}, "alternatives: 4; ask for at most 3"),
        ({"alternatives": -1}, "alternatives: "),
        ({"alternatives": True}, "alternatives: expected a number"),
        ({"alternatives": 1.5}, "alternatives: "),
        ({"alternatives": 10**30}, "alternatives: "),
        ({"alternatives": "x"}, "alternatives: "),
        ({"q": "a" * 1001}, "q: 1001 characters; send at most 1000"),
        ({"q": ["a" * 501] * 2}, "q: 1002 characters"),
        ({"q": ["a"] * 31}, "q: 31 texts; send at most 30"),
        ({"q": 5}, "q: "),
        ({"q": [["a"]]}, "q: "),
        ({"q": {"a": "b"}}, "q: "),
        ({"api_key": 5}, "api_key: "),
    ],
)
def test_bad_parameters_get_400(client: Client, values: dict[str, Any], words: str) -> None:
    given = {"q": "gato", "source": "es", "target": "en", **values}
    answer = client.post("/translate", **given)
    assert answer.status == 400
    assert answer.json["error"].startswith(words)
    missing = {name: value for name, value in given.items() if value is not None}
    if len(missing) < len(given):
        assert client.post("/translate", **missing).json["error"].endswith("missing parameter")


@pytest.mark.parametrize(
    "body", [b"{", b'{"q": 1', b"[1]", b'"x"', b"null", b"\xff{}", b'{"q": "\\ud800"}', b"{]}"]
)
def test_bad_json_gets_400(client: Client, body: bytes) -> None:
    answer = client.send("POST", "/translate", body, {"Content-Type": "application/json"})
    assert answer.status == 400
    assert answer.json["error"]


@pytest.mark.parametrize(
    "request_",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\r\n\r\n",  # TLS
        b"GET /health HTTP/1.1\r\n\r\n",  # without Host
        b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET /" + b"a" * 70_000,
        b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZ\r\n",
    ],
)
def test_malformed_http_gets_json(client: Client, request_: bytes) -> None:
    with socket.create_connection(("127.0.0.1", client.port)) as raw:
        raw.sendall(request_)
        response = http.client.HTTPResponse(raw)
        response.begin()
        assert (response.status, response.headers["content-type"]) == (400, "application/json")
        assert json.loads(response.read())["error"].startswith("not valid HTTP/1.1; ")
        assert raw.recv(1) == b""


def test_what_is_malformed_after_the_response_only_ends_the_connection(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_connection(("127.0.0.1", client.port)) as raw:
        raw.sendall(b"POST /none HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        response = http.client.HTTPResponse(raw)
        response.begin()
        assert (response.status, {*json.loads(response.read())}) == (404, {"error"})
        raw.sendall(b"Z\r\n")
        assert raw.recv(1) == b""
    assert caplog.text == ""


def test_null_is_a_parameter_that_is_not_given(client: Client) -> None:
    expected = client.translate("gato")
    assert client.translate("gato", format=None, alternatives=None, api_key=None) == expected
    answer = client.post("/translate", q=None, source="es", target="en")
    assert answer.json == {"error": "q: missing parameter"}


def test_other_errors(client: Client) -> None:
    assert client.get("/none").status == 404
    large = client.send("POST", "/translate", b"a" * 200_000, {"Content-Type": FORM})
    assert large.status == 413
    for answer in (large, client.get("/translate"), client.get("/none")):
        assert set(answer.json) == {"error"}
    chunks = "".join("10000\r\n" + "a" * 65536 + "\r\n" for _ in range(4))
    with socket.create_connection(("127.0.0.1", client.port)) as raw:  # of unknown length
        raw.sendall(b"POST /translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        raw.sendall(chunks.encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 413")


def test_pairs_without_a_model(models: ServedModels) -> None:
    with served(ServedModels({"there": models.by_name["there"]})) as client:
        answer = client.post("/translate", q="dog", source="en", target="es")
        assert answer.status == 400
        assert "no model translates en into es" in answer.json["error"]
        assert client.translate("a dog", source="en") == {"translatedText": "a dog"}


def test_keys(models: ServedModels) -> None:
    with served(models, keys=["one", "zwöi", "voilà"]) as client:
        assert client.post("/translate", q="gato", source="es", target="en").status == 403
        assert client.post("/detect", q="gato", api_key="two").status == 403
        assert client.post("/detect", q="gato", api_key="zwöi").status == 200
        assert client.translate("gato", api_key="one")["translatedText"]
        for given, status in (
            ("Bearer one", 200), ("bearer zwöi", 200), ("Bearer  voilà ", 200), ("Bearer two", 403),
            ("Bearer", 403), ("Bearer ", 403), ("Basic one", 403), ("one", 403),
        ):  # fmt: skip
            header = {"Authorization": given.encode().decode("latin-1")}
            assert client.send("POST", "/detect?q=gato", headers=header).status == status, given
        assert client.get("/frontend/settings").json["keyRequired"]
        metrics = client.get("/metrics").body.decode()
        assert 'status="403"} 1' in metrics
        assert "zw" not in metrics


def test_stream_of_a_client_that_has_gone_leaves_no_warning(
    models: ServedModels, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gone, shown, held = threading.Event(), threading.Event(), threading.Event()

    def search(*_: Any, show: Any, **__: Any) -> Any:
        show("")
        gone.wait(60)
        for number in range(50):
            show(str(number))
        shown.set()
        raise UserError("the search has ended")

    monkeypatch.setattr(interactive, "translate", search)
    with served(models) as client:
        assert client.service is not None
        with socket.create_connection(("127.0.0.1", client.port)) as raw:
            raw.sendall(b"POST /api/stream?q=gato&model=there HTTP/1.1\r\nHost: x\r\n\r\n")
            found = b""
            while b"event: partial" not in found:
                found += raw.recv(1000)
            # The server gets all that follows at once: the reset of the connection, and 50 events.
            client.service.batcher._task.get_loop().call_soon_threadsafe(held.wait, 60)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.set()
        assert shown.wait(60)
        held.set()
        until(lambda: 'path="/api/stream"' in client.get("/metrics").body.decode())
    assert caplog.text == ""


# --- Defects of the server


def break_batching(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("defect")

    monkeypatch.setattr(Batcher, "_take", fail)


def test_server_whose_batching_failed_is_not_ready(
    models: ServedModels, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    break_batching(monkeypatch)
    stays = uvicorn.Server.on_tick
    monkeypatch.setattr(server._Server, "on_tick", stays)
    with served(models) as client:
        assert client.get("/ready").status == 200
        for _ in range(2):
            answer = client.post("/translate", q="gato", source="es", target="en")
            assert (answer.status, {*answer.json}) == (500, {"error"})
        answer = client.get("/ready")
        assert answer.status == 503
        assert answer.json["status"].startswith("batching failed (test_serving.py:")
    assert "Traceback" not in caplog.text


@contextlib.contextmanager
def kept_signals() -> Iterator[None]:
    """Restore the handlers of signals that `run` replaces."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_server_whose_batching_failed_ends(
    models: ServedModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_batching(monkeypatch)
    batcher = Batcher(models)
    listening = listen("127.0.0.1", 0)
    client = Client(listening.getsockname()[1])
    with ThreadPoolExecutor(2) as pool:
        asked = [
            pool.submit(client.post, "/translate", q="gato", source="es", target="en")
            for _ in range(2)
        ]
        with (
            kept_signals(),
            pytest.raises(WorkerError, match=r"batching failed .*KeyError: 'defect'") as raised,
        ):
            run(Service(batcher), listening)
        assert [each.result().status for each in asked] == [500, 500]
    assert raised.value.exit_code == 1


def test_server_whose_workers_are_always_killed_is_not_ready(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the first workers end with a batch, and those that replace them while they start."""
    monkeypatch.setattr(gate, "stops", lambda _: os._exit(1))
    monkeypatch.setattr(batching, "_MOST_KILLED", 2)

    async def ask() -> None:
        batcher = Batcher(gated(gate), processes=2, load=partial(os._exit, 1))
        batcher.start()
        for _ in range(2):
            with pytest.raises(WorkerError, match=r"a worker process was killed.*lower --workers"):
                await batcher.translate("gated", ["gato"], gate.options(), seconds=60)
            assert batcher.failure is not None
        await batcher.stop()

    asyncio.run(ask())


def test_batch_that_kills_its_workers_fails_alone(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops(sentence: Sentence) -> bool:
        time.sleep(0.2)
        if sentence.text == "perro":
            os._exit(1)
        time.sleep(0.2)
        return False

    monkeypatch.setattr(gate, "stops", stops)
    # Spawned workers would have another translator.
    forked = processes.worker_pool
    monkeypatch.setattr(batching, "worker_pool", lambda make, number, **_: forked(make, number))

    async def ask() -> None:
        batcher = Batcher(gated(gate), processes=2, load=lambda: gated(gate))
        batcher.start()
        options = gate.options(), gate.options(beam_size=2)  # so that they share no batch
        asked = [
            batcher.translate("gated", [text], chosen, seconds=60)
            for text, chosen in zip(("perro", "gato"), options, strict=True)
        ]
        failed, answered = await asyncio.gather(*asked, return_exceptions=True)
        await batcher.stop()
        assert isinstance(failed, WorkerError)
        assert isinstance(answered, list)
        assert batcher.failure is None

    asyncio.run(ask())


# --- The queue


@pytest.fixture
def gate(translator: Translator) -> Iterator[Gate]:
    gate = Gate(translator)
    yield gate
    gate.is_open.set()


def gated(gate: Gate) -> ServedModels:
    return ServedModels({"gated": ServedModel("gated", gate)})  # type: ignore[arg-type]


def test_full_queue_gets_429(gate: Gate) -> None:
    with served(gated(gate), Limits(queue=1)) as client, ThreadPoolExecutor(3) as pool:
        assert client.service is not None
        batcher = client.service.batcher
        first = pool.submit(client.translate, "gato")
        until(lambda: gate.batches == [["gato"]])
        second = pool.submit(client.translate, "perro")
        until(lambda: batcher.queue_length == 1)
        answer = client.post("/translate", q="pan", source="es", target="en")
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert "seq2seq_queue_length 1.0\n" in client.get("/metrics").body.decode()
        gate.is_open.set()
        assert {*first.result(), *second.result()} == {"translatedText"}


def test_deadline_gets_504_and_ends_the_batch(gate: Gate) -> None:
    with served(gated(gate), Limits(seconds=0.2)) as client:
        assert client.post("/translate", q="gato", source="es", target="en").status == 504
        until(lambda: gate.abandoned)
        gate.is_open.set()
        client.translate("pan")
        assert gate.batches == [["gato"], ["pan"]]
        assert gate.abandoned == [["gato"]]


@contextlib.contextmanager
def asking(client: Client, text: str) -> Iterator[None]:
    """Ask for a translation; at the end the client has gone."""
    with socket.create_connection(("127.0.0.1", client.port)) as raw:
        head = f"POST /translate?q={text}&source=es&target=en HTTP/1.1\r\nHost: x\r\n\r\n"
        raw.sendall(head.encode())
        yield


def test_work_of_a_client_that_has_gone_is_dropped(gate: Gate) -> None:
    with served(gated(gate)) as client:
        assert client.service is not None
        batcher = client.service.batcher
        with asking(client, "gato"):
            until(lambda: gate.batches)
            with asking(client, "perro"):
                until(lambda: batcher.queue_length == 1)
            until(lambda: batcher.queue_length == 0)
            assert not gate.abandoned
        until(lambda: gate.abandoned == [["gato"]])
        gate.is_open.set()
        client.translate("pan")
        assert gate.batches == [["gato"], ["pan"]]
        gone = 'path="/translate",status="499"} 2'
        until(lambda: gone in client.get("/metrics").body.decode())


def test_batch_goes_on_while_a_client_waits_for_it(gate: Gate) -> None:
    with served(gated(gate)) as client, ThreadPoolExecutor(2) as pool:
        assert client.service is not None
        batcher = client.service.batcher
        first = pool.submit(client.translate, "gato")
        until(lambda: gate.batches)
        with asking(client, "perro"):
            until(lambda: batcher.queue_length == 1)
            second = pool.submit(client.translate, "pan")
            until(lambda: batcher.queue_length == 2)
            gate.is_open.set()
            first.result()
            until(lambda: len(gate.batches) == 2)
        assert {*second.result()} == {"translatedText"}
        assert not gate.abandoned


def test_long_sentence_lets_others_pass(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "_LONG", 10)
    gate.stops = lambda sentence: len(sentence.ids) > 10
    long = "gato " * 19 + "gato"
    with served(gated(gate)) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.translate, [long, "gato"])
        until(lambda: [long] in gate.batches)
        assert {*client.translate("perro")} == {"translatedText"}
        assert not first.done()
        gate.is_open.set()
        assert len(first.result()["translatedText"]) == 2
    assert sorted(map(sorted, gate.batches)) == [["gato"], [long], ["perro"]]


def test_shorter_requests_come_first(gate: Gate) -> None:
    """The batch budget of the toy recipe is 4,096 tokens for 3 hypotheses."""
    long = [LINES[n % 20] for n in range(1500)]
    with (
        served(gated(gate), Limits(characters=200_000, texts=3000)) as client,
        ThreadPoolExecutor(4) as pool,
    ):
        assert client.service is not None
        batcher = client.service.batcher
        requests = [pool.submit(client.translate, long)]
        until(lambda: gate.batches)
        for texts in (long[:700], "short"):
            requests.append(pool.submit(client.translate, texts))
            until(lambda: batcher.queue_length == len(requests))
        gate.is_open.set()
        for request in requests:
            request.result()
    assert "short" in gate.batches[1]
    assert len(gate.batches) > 4
    budget = gate.translator.config.inference.batch_tokens // 3
    encode = gate.translator.source.encode
    for batch in gate.batches:
        assert sum(len(encode(line)) + 1 for line in batch) <= budget


def test_costly_request_is_refused(client: Client, translator: Translator) -> None:
    """The client's server has a limit of 1,000 characters, and its model a beam of 3."""
    emoji = "😀" * 300  # bytes are pieces
    pieces = len(translator.source.encode(emoji))
    assert pieces > 1000
    for path, values in (
        ("/translate", {"source": "es", "target": "en"}),
        ("/translate", {"source": "es", "target": "en", "format": "html"}),
        *((f"/api/{path}", {"model": "there"}) for path in ("translate", "stream", "alternatives")),
    ):
        answer = client.post(path, q=emoji, **values)
        assert answer.status == 413, (path, answer.body)
        assert "with 3 hypotheses send at most 1000: less text" in answer.json["error"]
    word = "gato " * 200
    assert client.post("/translate", q=word, source="es", target="en").status == 200
    refused = client.post("/api/translate", model="there", q=word, beam=20)
    assert refused.status == 413
    assert "with 20 hypotheses send at most 150" in refused.json["error"]


def test_requests_with_equal_options_share_batches(gate: Gate) -> None:
    """The batch budget of the toy recipe is 4,096 tokens for 3 hypotheses."""
    with served(gated(gate)) as client, ThreadPoolExecutor(12) as pool:
        assert client.service is not None
        batcher = client.service.batcher
        requests = [pool.submit(client.translate, "gato")]
        until(lambda: gate.batches)
        for line in LINES[:8]:
            requests.append(pool.submit(client.translate, line))
        requests.append(pool.submit(client.translate, LINES[8], alternatives=1))
        until(lambda: batcher.queue_length == 9)
        gate.is_open.set()
        for request in requests:
            request.result()
        assert [sorted(batch) for batch in gate.batches[1:]] in (
            [sorted(LINES[:8]), [LINES[8]]], [[LINES[8]], sorted(LINES[:8])]
        )  # fmt: skip


def test_errors_of_a_model_get_500_without_their_details(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("secret path")

    monkeypatch.setattr(gate, "translate_sentences", fail)
    with served(gated(gate)) as client:
        answer = client.post("/translate", q="gato", source="es", target="en")
        assert answer.status == 500
        assert set(answer.json) == {"error"}
        assert "secret" not in answer.json["error"]
        assert client.get("/ready").status == 200


# --- What describes the server


def test_spec_is_valid_and_responses_fit_it(client: Client) -> None:
    spec = client.get("/spec").json
    assert [*OpenAPIV31SpecValidator(spec).iter_errors()] == []

    def fits(path: str, answer: Any, method: str = "post", status: str = "200") -> None:
        response = spec["paths"][path][method]["responses"][status]
        schema = response["content"]["application/json"]["schema"]
        Draft202012Validator({**schema, "components": spec["components"]}).validate(answer)

    fits("/translate", client.translate(LINES[0], source="auto", alternatives=2))
    fits("/translate", client.translate(LINES[:2], source="auto", alternatives=2))
    fits("/translate", client.translate(LINES[0]))
    fits("/translate", client.post("/translate").json, status="default")
    fits("/detect", client.post("/detect", q="gato").json)
    fits("/detect", client.post("/detect", q=["gato", "12"]).json)
    fits("/translate_file", client.post_file("a.txt", b"gato").json)
    body = spec["paths"]["/translate_file"]["post"]["requestBody"]["content"]
    assert [*body] == ["multipart/form-data"]
    for path in ("/languages", "/frontend/settings", "/health", "/ready", "/spec"):
        fits(path, client.get(path).json, "get")
    body = spec["components"]["schemas"]["TranslateRequest"]["properties"]
    assert body["alternatives"]["maximum"] == 3
    assert body["source"]["enum"] == ["auto", "en", "es"]
    line = spec["components"]["schemas"]["LineRequest"]["properties"]
    assert line["model"]["enum"] == ["there", "back"]
    operations = [each for path in spec["paths"].values() for each in path.values()]
    assert sorted(each["operationId"] for each in operations) == [  # the methods of clients
        "alternatives", "detect", "explain", "health", "languages", "metrics", "models", "ready",
        "settings", "spec", "stream", "translate", "translateLine", "translate_file",
    ]  # fmt: skip


def test_metrics_are_in_the_format_of_prometheus_and_bounded(client: Client) -> None:
    for number in range(5):
        client.get(f"/secret{number}")
        client.send(f"SECRET{number}", "/translate")
    text = client.get("/metrics").body.decode()
    label = r'[a-z]+="[^"\\\n]*"'
    line = rf"# (HELP|TYPE) .*|[a-z0-9_]+(\{{{label}(,{label})*\}})? [0-9.]+"
    assert all(re.fullmatch(line, each) for each in text.splitlines())
    assert "secret" not in text.lower()
    assert "127.0.0.1" not in text
    values = dict(each.rsplit(" ", 1) for each in text.splitlines() if not each.startswith("#"))
    counted = sum(float(n) for name, n in values.items() if name.startswith("seq2seq_requests_t"))
    assert counted == float(values["seq2seq_request_seconds_count"])
    assert float(values['seq2seq_batch_sentences_bucket{le="+Inf"}']) > 0


def test_each_server_has_metrics_of_its_own(models: ServedModels) -> None:
    for _ in range(2):
        with served(models) as client:
            client.translate("gato")
            text = client.get("/metrics").body.decode()
            assert 'path="/translate",status="200"} 1.0\n' in text
            assert "seq2seq_characters_total 4.0\n" in text


def test_access_log_has_no_texts(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="seq2seq.access"):
        client.send("POST", "/translate?q=gato&source=es&target=en&api_key=geheim")
        client.get("/%0a%1b[31m")

        def lines(what: str) -> list[str]:
            # The line of a request before, of another test, may still come.
            return [line for record in caplog.records if what in (line := record.getMessage())]

        until(lambda: lines("/translate") and lines(" 404 "))
    assert re.fullmatch(r'127.0.0.1 "POST /translate" 200 \d+ ms', lines("/translate")[-1])
    assert lines(" 404 ")[-1].isprintable()
    assert "gato" not in caplog.text
    assert "geheim" not in caplog.text


# --- Any text


@examples(50)
@given(
    text=st.text(max_size=60),
    kind=st.sampled_from(["text", "html"]),
    source=st.sampled_from(["es", "auto"]),
    alternatives=st.integers(0, 3),
)
def test_any_text_is_translated(
    client: Client, text: str, kind: str, source: str, alternatives: int
) -> None:
    text = text.encode(errors="replace").decode()
    wanted = {"q": text, "format": kind, "source": source, "alternatives": alternatives}
    found = client.post("/translate", **wanted, target="en")
    if found.status == 400 and source == "auto":
        assert "and no model translates that into en" in found.json["error"]
        return
    assert found.status == 200, found.body
    answer = found.json
    assert len(answer["alternatives"] if alternatives else []) <= alternatives
    if kind == "text" and source == "es":
        assert answer["translatedText"].count("\n") == text.count("\n")


# --- Starting


def test_names_of_models(exported: Path, tmp_path: Path, translator: Translator) -> None:
    def load(_: str) -> Translator:
        return translator

    (tmp_path / "a/x").mkdir(parents=True)
    (tmp_path / "b/x").mkdir(parents=True)
    runs = [str(tmp_path / "a/x"), str(tmp_path / "b/x"), str(exported)]
    assert [*load_models(runs, load).by_name] == [*runs[:2], exported.name]
    with pytest.raises(UserError, match="named twice"):
        load_models([str(exported), str(exported)], load)


def test_the_model_of_the_readme_is_the_first(translator: Translator) -> None:
    assert "es-en" in model_names()[1:]  # their order is that of the alphabet
    assert next(iter(load_models([], lambda _: translator).by_name)) == "es-en"


def test_without_models_a_run_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, translator: Translator, tmp_path: Path
) -> None:
    monkeypatch.setattr("seq2seq.packaged.MODELS", tmp_path)
    with pytest.raises(UserError, match="no models come with this installation; name a run"):
        load_models([], lambda _: translator)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").touch()
    assert [*load_models([], lambda _: translator).by_name] == ["one", "two"]


def test_port_in_use_is_a_user_error() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"127.0.0.1:{port}: cannot listen there"):
            listen("127.0.0.1", port)
    with pytest.raises(UserError, match="cannot listen"):
        listen("no.such.host.invalid", 0)


def test_threads_of_a_server_end(models: ServedModels) -> None:
    before = threading.active_count()
    with served(models) as client:
        client.translate("gato")
    until(lambda: threading.active_count() <= before)


def test_a_kept_connection_is_answered_at_once(client: Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
    times = []
    with contextlib.closing(connection):
        for _ in range(15):
            began = time.perf_counter()
            connection.request("GET", "/health")
            assert connection.getresponse().read()
            times.append(time.perf_counter() - began)
    # 40 ms where the body of a response waits until the client has acknowledged its head
    assert sorted(times)[len(times) // 3] < 0.03
