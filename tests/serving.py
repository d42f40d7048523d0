"""A server of the HTTP interface in this process, and a plain client of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import numpy as np

from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.required import Glossary
from seq2seq.inference.search import StepCallback
from seq2seq.inference.text import Part, Sentence
from seq2seq.inference.translator import Translator
from seq2seq.serving import Limits
from seq2seq.serving.batching import AbandonedError, Batcher
from seq2seq.serving.served_models import ServedModel, ServedModels
from seq2seq.serving.server import listen, make_server
from seq2seq.serving.service import Service


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """Send requests to a port of this machine, each on a connection of its own."""

    port: int
    service: Service | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, dict(headers or {}))
            found = connection.getresponse()
            return Answer(found.status, found.headers, found.read())

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def post(self, path: str, **values: Any) -> Answer:
        """Send JSON."""
        body = json.dumps(values).encode()
        return self.send("POST", path, body, {"Content-Type": "application/json"})

    def post_form(self, path: str, values: Sequence[tuple[str, str]]) -> Answer:
        body = urlencode(values).encode()
        kind = "application/x-www-form-urlencoded"
        return self.send("POST", path, body, {"Content-Type": kind})

    def post_file(
        self, name: str, content: bytes, headers: Mapping[str, str] | None = None, **values: str
    ) -> Answer:
        """Send a file to translate, from es into en unless `values` say otherwise."""
        fields = {"source": "es", "target": "en", **values}
        heads = {f'name="{field}"': value.encode() for field, value in fields.items()}
        heads[f'name="file"; filename="{name}"'] = content
        body = b"".join(
            f"--x\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + value + b"\r\n"
            for head, value in heads.items()
        )
        kind = {"Content-Type": "multipart/form-data; boundary=x", **(headers or {})}
        return self.send("POST", "/translate_file", body + b"--x--\r\n", kind)

    def translate(self, text: Any, **values: Any) -> Any:
        """Return what POST /translate answers to a text from es into en."""
        answer = self.post("/translate", **{"q": text, "source": "es", "target": "en", **values})
        assert answer.status == 200, answer.body
        return answer.json


def both_directions(translator: Translator, run: str = "") -> ServedModels:
    """Return a model of each direction; the reverse one only looks like one."""
    languages = {"source_language": "en", "target_language": "es"}
    data = translator.config.data.model_copy(update=languages)
    config = translator.config.model_copy(update={"data": data})
    back = Translator(translator.backends, translator.source, translator.target, config)
    return ServedModels(
        {"there": ServedModel("there", translator, run), "back": ServedModel("back", back, run)}
    )


@contextlib.contextmanager
def served(
    models: ServedModels, limits: Limits | None = None, keys: Sequence[str] = (),
    search: Mapping[str, Any] | None = None, glossaries: Mapping[str, Glossary] | None = None,
) -> Iterator[Client]:  # fmt: skip
    """Serve models from a thread."""
    service = Service(Batcher(models, limits), search or {}, keys, glossaries or {})
    server = make_server(service)
    listening = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        until(lambda: server.started)
        yield Client(listening.getsockname()[1], service)
    finally:
        server.should_exit = True
        thread.join()


@dataclass
class Gate:
    """A translator that waits until its gate is open, and records its batches."""

    translator: Translator
    is_open: threading.Event = field(default_factory=threading.Event)
    batches: list[list[str]] = field(default_factory=list)
    abandoned: list[list[str]] = field(default_factory=list)
    stops: Callable[[Sentence], bool] = lambda _: True  # whether it waits for such a sentence

    def __getattr__(self, name: str) -> Any:
        return getattr(self.translator, name)

    def translate_sentences(
        self, sentences: Sequence[Sentence], options: SearchOptions, *, on_step: StepCallback
    ) -> list[list[Part]]:
        texts = [sentence.text for sentence in sentences]
        self.batches.append(texts)
        try:
            while any(map(self.stops, sentences)) and not self.is_open.wait(0.01):
                on_step(np.arange(0), np.arange(0))
        except AbandonedError:
            self.abandoned.append(texts)
            raise
        return self.translator.translate_sentences(sentences, options, on_step=on_step)


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)
