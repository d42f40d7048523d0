"""The modules of `seq2seq export --web` in Node.js, against the Python code that they follow."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seq2seq.data.casing import mark_case, mark_prefix, restore_case
from seq2seq.data.tokenizer import EOS, Tokenizer, normalize_line
from seq2seq.inference import sentences
from seq2seq.inference.protocol import Floats, Ints, SearchOptions, Step
from seq2seq.inference.search import beam_search
from seq2seq.inference.text import UNCERTAIN, UNLIKELY, Part, split_text
from seq2seq.inference.words import source_words, target_words, uncertain_words, word_attention
from seq2seq.languages import language

ROOT = Path(__file__).parents[1]
PIECES, STEPS = 7, 40
LETTERS = [
    *"aáeñzAÁEÑZ ΣσςİıßéﬁǅⒶ  .,;:!?…«»“”'\"()-_3٣Ⅷ½¿¡▁ↃↄↃↄ", "\u0301", "\u200b", "\u200d", "\ufeff",
    "\xad", "\xa0", "\u3000", "\x1c", "\x85", "\t", "\n", "\r\n", "\x00", "😀", "❤️", "👨‍👩‍👧", "🇪🇸",
    "日", "。", "、", "」と", "\u2028", "Sr. ", "EE. UU. ", "no. ", "2. ", "J. ",
    "\u1161", "\u0e33", "🇪", "-\u200d😀",
]  # fmt: skip
LINES = [
    "El Sr. García vive en EE.UU. Tiene 3 gatos.", "«¿Vienes?» No. Sí… ¡Quizá! ok.",
    "1. Uno. 2. Dos. A. M. Pérez llegó. Etc. y más.", "no sé. creo que sí. ¿y tú?",
    "Primera línea.\n  \n Segunda. Tercera.\r\nCuarta.",
    "日本語。これは文です。はい！「うん。」と言った。",
    "I saw Dr. Smith at 5 p.m. He left. Mr. Fox, too.", "HOLA. NO PUEDO IR HOY. ADIÓS.",
]  # fmt: skip


def random_texts(number: int) -> list[str]:
    generator = random.Random(0)
    sizes = [generator.randint(0, 30) for _ in range(number)]
    return [*LINES, "", *("".join(generator.choices(LETTERS, k=size)) for size in sizes)]


class Letters(Tokenizer):
    """A tokenizer whose pieces are characters."""

    def __init__(self) -> None:
        pass

    def encode_normalized(self, text: str) -> list[int]:
        return list(map(ord, text))


@dataclass
class TableModel:
    """A decoding whose numbers depend on the length and the last piece, for each of its rows."""

    log_probs: Floats  # [steps, last piece, piece]
    weights: Floats | None  # [steps, last piece, source piece]
    source_length: int
    length: int = 0

    @property
    def source_lengths_B(self) -> Ints:
        return np.array([self.source_length])

    def start(self) -> TableModel:
        return self

    def select(self, _: Ints) -> TableModel:
        return self

    def step(
        self, tokens_R: Ints, state: TableModel, *, count: int | None = None, weights: bool = False
    ) -> Step:
        here = state.length
        after = TableModel(self.log_probs, self.weights, self.source_length, here + 1)
        found = self.weights[here, tokens_R] if weights and self.weights is not None else None
        return Step(self.log_probs[here, tokens_R].copy(), after, found)

    def as_json(self) -> dict[str, Any]:
        return {
            "log_probs": self.log_probs.tolist(),
            "weights": None if self.weights is None else self.weights.tolist(),
            "source_length": self.source_length,
        }


def search_cases() -> list[Any]:
    """Return searches; with one decimal, many candidates are equally likely."""
    generator, found = np.random.default_rng(0), []
    for number in range(200):
        attends = bool(number % 2)
        logits = generator.normal(size=(STEPS, PIECES, PIECES)) * 2
        logits[..., EOS] -= number % 5
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        log_probs = np.round(log_probs, number % 3 or 6).astype(np.float32)
        length = int(generator.integers(1, 9))
        weights = generator.dirichlet(np.ones(length), (STEPS, PIECES)).astype(np.float32)
        model = TableModel(log_probs, weights if attends else None, length)
        options = SearchOptions(
            beam_size=int(generator.integers(1, 9)),
            length_penalty=float(generator.choice([0, 0.6, 1])),
            coverage_penalty=float(generator.choice([0, 0.3])) if attends else 0.0,
            max_length_factor=float(generator.choice([0.29, 1, 2])),
            max_length_offset=int(generator.integers(1, 10)),
            no_repeat_ngram=int(generator.integers(0, 4)),
            keep_tree=True,
        )
        [[best, *_]] = beam_search(model, options)
        found.append([[model.as_json(), asdict(options)], asdict(best)])
    assert {each["finished"] for _, each in found} == {True, False}
    return found


def word_cases() -> list[Any]:
    """Return parts whose pieces cut words, marks, emoji and bytes in many ways."""
    generator, found = random.Random(0), []
    chosen = np.random.default_rng(0)
    unmarked = str.maketrans("\u2183\u2184", "Cc")  # in pieces, these are marks for capitals
    for text in map(normalize_line, (text.translate(unmarked) for text in random_texts(150))):
        if not text:
            continue
        sides = []
        for _ in range(2):
            pieces, spelled = [], "▁" + text.replace(" ", "▁")
            while spelled:
                size = generator.randint(1, 4)
                piece, spelled = spelled[:size], spelled[size:]
                as_bytes = generator.random() < 0.1
                raw = piece.replace("▁", " ").encode()
                pieces += [f"<0x{byte:02X}>" for byte in raw] if as_bytes else [piece]
            sides.append([*pieces, "</s>"])
        source, target = sides
        weights = chosen.dirichlet(np.ones(len(source)), len(target)).astype(np.float32)
        log_probs = (-2 * chosen.exponential(size=len(target))).tolist()
        part = Part(
            text, source, target, text, 0.0, sum(log_probs), True, weights, log_probs,
            target=language(generator.choice(["en", "ja", "th"])),
        )  # fmt: skip
        about = {"unlikely": UNLIKELY, "uncertain": UNCERTAIN}
        about["target"] = {"joiners": part.target.joiners}
        found.append([part.as_json(attention=True), about, {
            "unlikely": part.unlikely, "uncertain": uncertain_words(part),
            **asdict(word_attention(part)), "weights": word_attention(part).weights.tolist(),
            "source_words": source_words(part).of_pieces,
            "target_words": target_words(part).of_pieces,
        }])  # fmt: skip
    return found


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_modules_do_what_python_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = random_texts(1000)
    normal = list(map(normalize_line, texts))
    segments: dict[str, dict[str, list[str]]] = {}

    def segment(language: str, text: str) -> list[str]:
        found = sentences_segment(language, text)
        segments.setdefault(language, {})[text] = found
        return found

    sentences_segment = sentences.segment
    monkeypatch.setattr(sentences, "segment", segment)
    rules = {code: sentences.rules_json(code) for code in ("es", "en", "fr", "ja")}
    split = [
        [[text, rules[code]], sentences.split_sentences(text, code)]
        for text in texts
        for code in rules
    ]
    assert sum(len(found) > 1 for _, found in split) > 500
    cut = [
        [
            [text, rules["es"], most, language(target).joiners],
            [[[part.text, part.space] for part in parts] for parts in found],
        ]
        for text in texts
        for most, target in ((1, "en"), (4, "ja"), (20, "th"), (20, "en"))
        for found in [split_text(text, Letters(), most, language="es", target=language(target))]
    ]
    cases = {
        "normalizeLine": [[[text], normalize_line(text)] for text in texts],
        "markCase": [[[text], mark_case(text)] for text in normal],
        "restoreCase": [
            [[text], restore_case(text)] for text in [*normal, *map(mark_case, normal)]
        ],
        "markPrefix": [
            [[text, complete], mark_prefix(text, complete=complete)]
            for text in filter(None, normal)
            for complete in (True, False)
        ],
        "sentences": split,
        "splitText": cut,
        "segments": segments,
        "words": word_cases(),
        "search": search_cases(),
    }
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    folder = shutil.copytree(ROOT / "seq2seq/serving/web", tmp_path / "web")
    found = subprocess.run(
        ["node", "--test", str(ROOT / "tests/web/units.test.mjs")],
        env=os.environ | {"CASES": str(tmp_path / "cases.json"), "FOLDER": str(folder)},
        capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-5000:]
    assert "# fail 0" in found.stdout
    assert "# pass 9" in found.stdout
