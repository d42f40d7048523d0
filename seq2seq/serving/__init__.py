"""Translate over HTTP, with the interface of LibreTranslate, until SIGTERM or Ctrl-C.

examples:
  seq2seq serve                                   (the models that come with the program)
  seq2seq serve runs/quickstart --port 8000
  seq2seq serve runs/tatoeba runs/tatoeba-en-es   (two directions)
  seq2seq serve --workers 4 --api-keys keys.txt --host 0.0.0.0
  curl -d q='Hola.' -d source=es -d target=en localhost:5000/translate
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType

from seq2seq.commands import options
from seq2seq.errors import UserError
from seq2seq.wings import offer

_LOCAL = ("127.0.0.1", "localhost", "::1")
_BYTES_PER_CHARACTER = 12  # as %-escapes of four bytes, or as two \uXXXX
_OTHER_BYTES = 65536  # of a body, for everything but the texts


@dataclass(frozen=True)
class Limits:
    """The limits of a server."""

    characters: int = 5000  # of all texts of a request
    texts: int = 100  # of a request
    alternatives: int = 10
    queue: int = 256  # requests that wait
    seconds: float = 30  # from a request to its response
    read_seconds: float = 10  # for the head of a request, and for its body

    @property
    def body_bytes(self) -> int:
        """The largest body."""
        return self.characters * _BYTES_PER_CHARACTER + _OTHER_BYTES


@offer
def _static() -> ModuleType:
    from seq2seq.serving import static

    return static


def add(commands: options.Commands) -> None:
    parser = options.add_command(commands, "serve", _serve, __doc__)
    parser.add_argument(
        "runs", nargs="*", metavar="RUN",
        help="run directory, exported directory, model name or hf:user/name; default: all models "
        "that come with the program. For a pair of languages the first one translates",
    )  # fmt: skip
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="address to listen on; default: %(default)s, which only this machine can reach",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=_port, default=5000, metavar="N",
        help="port to listen on; 0: any free one; default: %(default)s",
    )  # fmt: skip
    parser.add_argument(
        "--workers", type=options.positive, default=1, metavar="N",
        help="translate in N processes; default: in threads of this one",
    )  # fmt: skip
    parser.add_argument(
        "--api-keys", metavar="FILE", help="accept only requests with a key from this file (a line)"
    )
    parser.add_argument(
        "--glossary", nargs="+", default=[], metavar="FILE", dest="glossaries",
        help="glossaries that a request can name, each by its file's name without the suffix",
    )  # fmt: skip
    parser.add_argument(
        "--no-access-log", action="store_true", help="do not log a line for each request"
    )
    group = parser.add_argument_group("limits")
    for option, field, unit, text in (
        ("max-chars", "characters", "N", "maximum number of characters of a request, in all texts"),
        ("max-texts", "texts", "N", "maximum number of texts of a request"),
        ("max-alternatives", "alternatives", "N", "maximum number of alternatives of a request"),
        ("max-queue", "queue", "N", "maximum number of requests that wait; others get status 429"),
        ("timeout", "seconds", "SECONDS", "a request gets status 504 after this time"),
        ("read-timeout", "read_seconds", "SECONDS",
         "a client must send the head and then the body of a request in it"),
    ):  # fmt: skip
        group.add_argument(
            f"--{option}", type=options.positive, default=getattr(Limits, field), dest=field,
            metavar=unit, help=f"{text}; default: %(default)s",
        )  # fmt: skip
    options.add_search(parser)


def _port(text: str) -> int:
    number = options.from_zero(text)
    if number > 65535:
        raise argparse.ArgumentTypeError(f"expected 0 to 65535, found '{text}'")
    return number


def _serve(arguments: argparse.Namespace) -> int:
    import logging
    from functools import partial

    from seq2seq.inference.required import Glossary
    from seq2seq.serving.batching import Batcher
    from seq2seq.serving.served_models import load_models
    from seq2seq.serving.server import access_log, listen, run
    from seq2seq.serving.service import Service

    log = logging.getLogger(__name__)
    limits = Limits(**{field.name: getattr(arguments, field.name) for field in fields(Limits)})
    keys = _read_keys(arguments.api_keys) if arguments.api_keys else []
    glossaries = {Path(path).stem: Glossary.read(path) for path in arguments.glossaries}
    if len(glossaries) < len(arguments.glossaries):
        raise UserError("--glossary: two files have the same name; rename one")
    listening = listen(arguments.host, arguments.port)
    names = ("device", "precision", "backend", "threads", "workers")  # what a process can be sent
    chosen = argparse.Namespace(**{name: getattr(arguments, name) for name in names})
    load = partial(load_models, arguments.runs, partial(options.load_translator, chosen))
    models = load()
    search = options.search_options(arguments)
    for model in models.by_name.values():
        model.translator.options(**search)  # raises ConfigError
        if arguments.workers > 1 and model.translator.on_gpu:
            raise UserError(f"{arguments.workers} workers cannot share a GPU; use --device cpu")
    access_log.disabled = arguments.no_access_log
    batcher = Batcher(models, limits, processes=arguments.workers, load=load)
    for model in models.by_name.values():
        log.info("%s translates %s into %s", model.name, model.source, model.target)
    host, port = listening.getsockname()[:2]
    reach = "only this machine can reach it" if host in _LOCAL else "other machines can reach it"
    log.info("listening on http://%s:%d (%s)", f"[{host}]" if ":" in host else host, port, reach)
    return run(Service(batcher, search, keys, glossaries), listening)


def _read_keys(path: str) -> list[str]:
    """Return the keys of a file; raise UserError if there are none."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8; write one key per line") from None
    keys = [line.strip() for line in text.splitlines() if line.strip()]
    if not keys:
        raise UserError(f"{path}: no keys; write one key per line")
    return keys
