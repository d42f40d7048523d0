"""The models that a server has, their languages, and the language of a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from threading import Lock

from py3langid.langid import MODEL_FILE, LanguageIdentifier
from pydantic import BaseModel, Field

from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import UserError
from seq2seq.inference.translator import Translator
from seq2seq.languages import language
from seq2seq.packaged import model_names

_FIRST = "es-en"  # of the models that come with the program, the one that README shows
_MOST_DETECTED = 500  # characters that are enough to detect a language
_MOST_COPIED = 100  # characters of a text that the models try to copy; py3langid knows longer ones
_PRIOR = 10  # how many times as likely as others are expected languages, and those with a name
_LEAST_CONFIDENCE = 25  # percent; less likely languages that no model has are not reported
_LOADING = Lock()  # several first requests load py3langid's model once
_NO_LANGUAGE = "zxx"  # py3langid's class of identifiers, markup and the like


class LanguageName(BaseModel):
    """A language of the models."""

    code: str
    name: str


class Language(LanguageName):
    """A language of the models, and what it can be translated into."""

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
        """The run with its weights, as seq2seq.analysis.explain needs it, in PyTorch."""
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
            Language(code=code, name=language(code).name, targets=self.targets(code))
            for code in sorted(self.tokenizers)
        ]

    def detect(self, text: str, expected: Collection[str] | None = None) -> list[DetectedLanguage]:
        """Return the languages that a text may be in, the most likely first.

        These are the languages of the models, and others with a confidence of at least 25 %. All
        confidences are 0 for a text without letters, or in no language. A priori the text is
        more likely to be in one of the `expected` languages; default: those of the models.
        """
        codes, text = sorted(self.tokenizers), text.strip()[:_MOST_DETECTED]
        odds = {}
        if any(map(str.isalpha, text)):
            odds = self._odds(text, codes if expected is None else expected)
        language = max(odds, key=odds.__getitem__, default=_NO_LANGUAGE)
        if language == _NO_LANGUAGE:
            return [DetectedLanguage(language=code, confidence=0) for code in codes]
        percent = 100 / sum(odds.values())
        found = [
            DetectedLanguage(language=code, confidence=round(percent * each, 1))
            for code, each in sorted(odds.items(), key=lambda item: (-item[1], item[0]))
        ]
        least = _LEAST_CONFIDENCE
        return [each for each in found if each.language in codes or each.confidence >= least]

    def _odds(self, text: str, expected: Collection[str]) -> dict[str, float]:
        """Return the odds of all languages.

        These are py3langid's probabilities times a prior. Between the languages of the models,
        the models' own evidence counts as well.
        """
        lower = text.lower()
        with _LOADING:
            identifier = _identifier()
        # Spaces around it, since the beginnings and ends of words say most of a short text.
        found = dict(identifier.rank(f" {lower} "))
        highest = max(found.values())  # for languages that it does not know
        odds = {
            code: odds if language(code).script else odds / _PRIOR for code, odds in found.items()
        }
        prior = {
            code: found.get(code, highest) * (_PRIOR if code in expected else 1)
            for code in self.tokenizers
        }
        log_probs = self._log_probs(text)
        best, root = max(log_probs.values()), math.sqrt(len(text.encode()))  # as py3langid does
        own = {code: p * math.exp((log_probs[code] - best) / root) for code, p in prior.items()}
        scale = sum(prior.values()) / (sum(own.values()) or 1)
        return odds | {code: scale * each for code, each in own.items()}

    def _log_probs(self, text: str) -> dict[str, float]:
        """Return the log likelihood of a text for each language, up to a common constant.

        A model translates text in its source language and copies text in its target language. So
        a language gets the log probability of a copy relative to the translation, from the model
        into it that finds the copy least likely. For long texts, and where no model translates into
        one of the languages, as with a single model, the tokenizers decide: the tokenizer of the
        right language splits the text into fewer and more frequent pieces.
        """
        into: dict[str, list[float]] = {code: [] for code in self.tokenizers}
        models = self.by_name.values()
        if len(text) <= _MOST_COPIED and into.keys() == {model.target for model in models}:
            for model in models:
                into[model.target].append(_copying(model.translator, text))
            return {code: min(found) for code, found in into.items()}
        # A vocabulary has few words with a capital, so that "Hola" is also read as "hola".
        return {
            code: max(each.log_likelihood(s) for each in tokenizers for s in (text, text.lower()))
            for code, tokenizers in self.tokenizers.items()
        }


def _copying(translator: Translator, text: str) -> float:
    """Return log p of a copy of a text minus log p of its translation, at most 0."""
    options = translator.options(beam_size=1, split_sentences=False)
    [[translation]] = translator.translate([text], options)
    [copy] = translator.force_decode([text], [text])
    return min(0, copy.log_prob - sum(part.log_prob for part in translation.parts))


@cache
def _identifier() -> LanguageIdentifier:
    """Return py3langid's model, loaded at first use: that takes 0.6 s and 77 MB."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


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
    names = [Path(run).resolve().name for run in runs]
    models: dict[str, ServedModel] = {}
    for run, short in zip(runs, names, strict=True):
        name = short if names.count(short) == 1 else str(Path(run))
        if name in models:
            raise UserError(f"{run}: named twice; name each run once")
        models[name] = ServedModel(name, load(run), run)
    return ServedModels(models)
