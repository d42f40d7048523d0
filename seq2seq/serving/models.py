"""The models that a server has, their languages, and the language of a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, Field

from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import UserError
from seq2seq.inference.translator import Translator
from seq2seq.packaged import find_run, model_names

LANGUAGE_NAMES = {  # in English
    "ar": "Arabic", "ca": "Catalan", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "eo": "Esperanto", "es": "Spanish", "eu": "Basque", "fi": "Finnish",
    "fr": "French", "gl": "Galician", "he": "Hebrew", "hi": "Hindi", "hu": "Hungarian",
    "it": "Italian", "ja": "Japanese", "ko": "Korean", "nb": "Norwegian", "nl": "Dutch",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish",
    "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
_FIRST = "es-en"  # of the models that come with the program, the one that README shows
_MOST_DETECTED = 500  # characters that are enough to detect a language


class Language(BaseModel):
    """A language of the models, and what it can be translated into."""

    code: str
    name: str
    targets: list[str]


class DetectedLanguage(BaseModel):
    """A language that a text may be in."""

    language: str
    confidence: float = Field(ge=0, le=100, description="in percent")


@dataclass(frozen=True)
class ServedModel:
    """A run that a server translates with."""

    name: str
    translator: Translator
    run: str = ""  # its path or name

    @cached_property
    def explainer(self) -> Translator:
        """The run with its weights, for seq2seq.analysis.explain, which needs PyTorch."""
        return Translator.load(self.run, device="cpu", backend="torch", threads=1)

    @property
    def source(self) -> str:
        """The code of the language that it translates."""
        return self.translator.config.data.source_language

    @property
    def target(self) -> str:
        """The code of the language that it translates into."""
        return self.translator.config.data.target_language


@dataclass(frozen=True)
class ServedModels:
    """The models of a server by name. For a pair of languages the first one translates."""

    by_name: dict[str, ServedModel]

    @cached_property
    def tokenizers(self) -> dict[str, list[Tokenizer]]:
        """The tokenizers of each language."""
        found: dict[str, list[Tokenizer]] = {}
        for model in self.by_name.values():
            found.setdefault(model.source, []).append(model.translator.source)
            found.setdefault(model.target, []).append(model.translator.target)
        return found

    def of(self, source: str, target: str) -> ServedModel | None:
        """Return the model that translates from one language into the other."""
        models = self.by_name.values()
        return next((m for m in models if (m.source, m.target) == (source, target)), None)

    def targets(self, source: str) -> list[str]:
        """Return the languages that a language can be translated into."""
        return sorted({model.target for model in self.by_name.values() if model.source == source})

    @property
    def languages(self) -> list[Language]:
        """The languages on either side of the models, sorted by code."""
        return [
            Language(code=code, name=LANGUAGE_NAMES.get(code, code), targets=self.targets(code))
            for code in sorted(self.tokenizers)
        ]

    def detect(self, text: str, among: Collection[str] | None = None) -> list[DetectedLanguage]:
        """Return the languages that a text may be in, the likeliest first.

        By the tokenizers of the models: a language's own spells it in fewer and more frequent
        pieces. The confidences are the probabilities of the languages, all equally frequent, times
        the share of the text that the likeliest one's tokenizer can spell. They are 0 for a text
        without letters. `among` are the languages to choose from (default: all).
        """
        codes = sorted(self.tokenizers if among is None else among)
        text = text[:_MOST_DETECTED]
        if not any(map(str.isalpha, text)):
            return [DetectedLanguage(language=code, confidence=0) for code in codes]
        # By the tokenizer of a language to which the text is likeliest. A vocabulary has few words
        # with a capital, so that "Hola" is also read as "hola".
        spellings = {text, text.lower()}
        likelihoods = {
            code: max(each.log_likelihood(s) for each in self.tokenizers[code] for s in spellings)
            for code in codes
        }
        best = max(log_prob for log_prob, _ in likelihoods.values())
        odds = {code: math.exp(log_prob - best) for code, (log_prob, _) in likelihoods.items()}
        percent = 100 / sum(odds.values())
        found = [
            DetectedLanguage(language=code, confidence=round(percent * odds[code] * share, 1))
            for code, (_, share) in likelihoods.items()
        ]
        return sorted(found, key=lambda each: (-odds[each.language], each.language))


def load_models(runs: Sequence[str], load: Callable[[str], Translator]) -> ServedModels:
    """Return the models of runs, or those that come with the program if there are no runs.

    A model has the name of its directory, or its path where two directories share a name. Raises
    UserError if there is none, for a run that is named twice, and as `load` does.
    """
    runs = list(runs) or sorted(model_names(), key=lambda name: name != _FIRST)
    if not runs:
        raise UserError(
            "no models come with this installation; name a run: seq2seq serve runs/quickstart"
        )
    names = [find_run(run).resolve().name for run in runs]
    models: dict[str, ServedModel] = {}
    for run, short in zip(runs, names, strict=True):
        name = short if names.count(short) == 1 else str(Path(run))
        if name in models:
            raise UserError(f"{run}: named twice; name each run once")
        models[name] = ServedModel(name, load(run), run)
    return ServedModels(models)
