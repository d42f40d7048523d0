"""Load a run as a translator of text, sentence by sentence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from seq2seq.data.ragged import source_batches
from seq2seq.data.tokenizer import EOS, EOS_PIECE, Tokenizer, normalize_line
from seq2seq.device import is_cpu
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.inference.alternatives import Alternative, next_words
from seq2seq.inference.arrival import let_arrive
from seq2seq.inference.prefix import NO_PREFIX, Prefix, Spelling
from seq2seq.inference.protocol import (
    SEARCH_KEYS,
    Backend,
    Decoding,
    Ensemble,
    Hypothesis,
    Ints,
    SearchOptions,
)
from seq2seq.inference.required import Glossary
from seq2seq.inference.sampling import Metric, Sampling, minimum_bayes_risk, sample
from seq2seq.inference.search import StepCallback, force_decode, search
from seq2seq.inference.sentences import language_rules, split_sentences
from seq2seq.inference.text import Part, Sentence, Translation, join_parts, split_text
from seq2seq.languages import language
from seq2seq.packaged import find_run
from seq2seq.runs.directory import check_files, run_of

if TYPE_CHECKING:
    from seq2seq.config import Config
    from seq2seq.model.translation_model import TranslationModel

T = TypeVar("T")
log = logging.getLogger(__name__)

_MAX_FORCED = 9_999  # pieces; with EOS they are the largest inference.max_length_offset
Begun = tuple[Sentence, Prefix]  # a part, and the prefix of its translation


class Translator:
    """The model of a run, or the models of several (an ensemble), with their tokenizers.

    The translation of a sentence does not depend on the sentences around it.
    """

    def __init__(
        self, backends: Sequence[Backend], source: Tokenizer, target: Tokenizer, config: Config
    ) -> None:
        """Take a backend for each model (onnx_backend.py, torch_backend.py)."""
        self.backends = list(backends)
        self.source, self.target, self.config = source, target, config

    @classmethod
    def load(
        cls,
        *runs: str | Path,
        device: str = "auto",
        precision: str = "fp32",
        backend: Literal["auto", "onnx", "torch"] = "auto",
        threads: int | None = None,
    ) -> Translator:
        """Load the best checkpoint of each run, or the checkpoint that a path names.

        A run may also be the name of a model that comes with the package, or hf:user/name, a run
        on the Hugging Face hub.

        On CPUs ONNX Runtime translates with graphs, which are built at the first use and kept in
        the user's cache; PyTorch does with `backend="torch"`, on GPUs, and in bf16.

        Raises CheckpointError if a run is missing, damaged, unsafe (check_files), or has
        other tokenizers than the first, and ConfigError for a device, a precision or a backend
        that is not available.
        """
        if not runs:
            raise ConfigError("a translator needs a run directory or a checkpoint")
        for name, value, legal in (
            ("backend", backend, ("auto", "onnx", "torch")),
            ("precision", precision, ("auto", "fp32", "bf16", "int8")),
        ):
            if value not in legal:
                raise ConfigError(f"unknown {name} '{value}'; use one of {', '.join(legal)}")
        if threads is not None and threads < 1:
            raise ConfigError(f"threads: expected 1 or more, found {threads}")
        if backend == "onnx" and (precision == "bf16" or device.startswith("cuda")):
            found = "in bf16" if precision == "bf16" else f"on {device}"
            raise ConfigError(
                f"backend onnx computes on the CPU in fp32 or int8, not {found}; use backend torch"
            )
        paths = [find_run(run) for run in runs]
        first = run_of(paths[0])
        check_files(first.path)
        config, (source, target) = first.config(), first.tokenizers()
        for run in map(run_of, paths[1:]):
            check_files(run.path)
            are_same = run.config().data.languages == config.data.languages
            if not are_same or not run.shares_tokenizers(first):
                raise CheckpointError(
                    f"{run.path}: its {'tokenizers' if are_same else 'languages'} are not those of "
                    f"{first.path}; the runs of an ensemble must share them"
                )
        if backend == "auto":
            backend = "onnx" if precision != "bf16" and is_cpu(device) else "torch"
        elif backend == "onnx" and device != "auto":
            is_cpu(device)  # raises for an unknown one
        sizes = source.vocab_size, target.vocab_size
        backends: list[Backend]
        if backend == "torch":
            from seq2seq.inference.torch_backend import load_model

            backends = [load_model(path, *sizes, device, precision, threads) for path in paths]
        else:
            from seq2seq.inference.onnx_backend import load_graphs

            backends = [load_graphs(path, *sizes, precision, threads or 1) for path in paths]
        return cls(backends, source, target, config)

    @property
    def models(self) -> list[TranslationModel]:
        """The PyTorch models. Raises ConfigError for another backend."""
        models = [backend.model for backend in self.backends if hasattr(backend, "model")]
        if len(models) < len(self.backends):
            raise ConfigError("the weights are needed; load the run with backend='torch'")
        return models

    @property
    def on_gpu(self) -> bool:
        """Whether the models are on a GPU, which processes cannot share."""
        return self.backends[0].on_gpu

    @property
    def batch_scale(self) -> int:
        """How many times as large as on a CPU batches should be."""
        return self.backends[0].batch_scale

    def batch_tokens(self, rows: int, *, all_pieces: bool = False) -> int:
        """Return the largest number of source pieces in a batch with this many rows a sentence.

        On a GPU it is larger, unless the log probabilities of all pieces reach NumPy, as they
        always do with an ensemble.
        """
        scale = 1 if all_pieces or len(self.backends) > 1 else self.batch_scale
        return max(1, self.config.inference.batch_tokens * scale // rows)

    @property
    def worker_memory(self) -> int | None:
        """The most bytes that a forked worker takes, besides the shared weights.

        Most of them are log probabilities and their copies. None with PyTorch: it divides the work
        among threads, or is on a GPU.
        """
        if any(hasattr(backend, "model") for backend in self.backends):
            return None
        rows = self.config.inference.batch_tokens * len(self.backends)
        return (100 << 20) + 4 * rows * self.target.vocab_size

    def options(
        self, **changes: int | float | bool | Glossary | Mapping[str, str] | None
    ) -> SearchOptions:
        """Return the run's search options with these changes; None changes nothing.

        The beam is at least `nbest`. Raises ConfigError for values out of range.
        """
        values: dict[str, Any] = self.config.inference.model_dump(include=set(SEARCH_KEYS))
        values |= {name: value for name, value in changes.items() if value is not None}
        if values["beam_size"] >= 1:
            values["beam_size"] = max(values["beam_size"], values.get("nbest", 1))
        if "glossary" in values:
            values["glossary"] = _as_glossary(values["glossary"])
        if values["split_sentences"]:
            language_rules(self.config.data.source_language)  # logs once if there are none
        return SearchOptions(**values)

    def translate(
        self,
        lines: Iterable[str],
        options: SearchOptions | None = None,
        *,
        sampling: Sampling | None = None,
        mbr: Metric | None = None,
        prefixes: Iterable[str] | None = None,
        glossary: Glossary | Mapping[str, str] | None = None,
        first_number: int = 1,
        on_step: StepCallback | None = None,
    ) -> list[list[Translation]]:
        """Return for each line its translations, best first (`options.nbest` at most).

        A line is translated sentence by sentence (seq2seq.inference.sentences) unless
        `options.split_sentences` is false; the white space between its sentences stays. It may also
        be a text of several lines, whose line breaks stay. With `sampling` translations are
        samples, in the order of drawing. With `mbr` the one with the highest expected utility comes
        first (seq2seq.inference.sampling). A sentence longer than `inference.max_source_length`
        pieces is cut (seq2seq.inference.text). `first_number` is that of the first line, on which
        error messages and samples depend. `on_step` is called before each step of a search with the
        parts of all lines that are being translated, by their numbers from 0, and the pieces of the
        most likely unfinished hypothesis of each.

        Translations have the terms of the `glossary`, or of a mapping of terms to translations
        (default: the glossary of the options), and the tokens that nobody translates
        (seq2seq.inference.required); `Part.missing` lists those that they lack. Samples are left to
        the model.

        With `prefixes`, one text for each line, every translation begins with exactly the
        characters of its normalized prefix (seq2seq.inference.prefix), but with the white space of
        the source between sentences. A prefix may end within a word; white space at its end
        completes the last word. Where both have several sentences, each but the last one of the
        prefix is the whole translation of the sentence in its place. If a sentence is cut, its
        first part begins with the rest of the prefix. In the sentences of the prefix, the model
        reads tokens themselves in place of stand-ins. Terms and tokens arrive after the prefix,
        unless it has other words for them. Raises DataError if there is not one prefix for each
        line, for a sentence of 10,000 pieces or more in one, and for what is not lines.
        """
        lines = _listed("lines", lines)
        texts = [""] * len(lines) if prefixes is None else _listed("prefixes", prefixes)
        if len(texts) != len(lines):
            raise DataError(f"{len(texts)} prefixes for {len(lines)} lines; give one for each line")
        chosen = options or self.options()
        if glossary is not None:
            chosen = replace(chosen, glossary=_as_glossary(glossary))
        rows: list[list[Begun]] = []
        keys: list[int] = []
        for number, (line, text) in enumerate(zip(lines, texts, strict=True), first_number):
            rows.append(self.begin(line, text, chosen, number, protect=not sampling))
            # The samples of a sentence depend only on its place in the input.
            keys += range(number << 32, (number << 32) + len(rows[-1]))
        return self._translate(rows, chosen, sampling, mbr, keys, on_step)

    def translate_sentences(
        self,
        sentences: Sequence[Sentence],
        options: SearchOptions,
        *,
        on_step: StepCallback | None = None,
    ) -> list[list[Part]]:
        """Return for each part of a text (`split`) its translations, best first."""
        return self._parts(
            [(sentence, NO_PREFIX) for sentence in sentences], options, on_step=on_step
        )

    def split(
        self, text: str, options: SearchOptions, *, protect: bool = True, stand_ins: bool = True
    ) -> list[list[Sentence]]:
        """Return the sentences of a text, each as the parts that are translated (split_text).

        Unless `protect` is false, they have the texts that are required in their translations,
        and with `stand_ins` numbers in place of tokens.
        """
        source, target = self.config.data.languages
        return split_text(
            text, self.source, self.config.inference.max_source_length,
            language=source if options.split_sentences else None, target=language(target),
            protect=(options.glossary or Glossary(), source, target) if protect else None,
            stand_ins=stand_ins,
        )  # fmt: skip

    def begin(
        self, source: str, text: str, options: SearchOptions, number: int = 1, *,
        protect: bool = True,
    ) -> list[Begun]:  # fmt: skip
        """Return the parts of a source, each with the prefix of its translation.

        A sentence with a prefix has no stand-ins: the prefix can have or begin tokens. `protect` is
        as in `split`.
        """
        with_stand_ins = self.split(source, options, protect=protect)
        if not normalize_line(text):
            return [(part, NO_PREFIX) for sentence in with_stand_ins for part in sentence]
        split = self.split(source, options, protect=protect, stand_ins=False)
        split = split or [[Sentence("", [])]]
        begins = [text]
        if len(split) > 1:
            # White space after a sentence completes it, so that a letter begins the next one.
            letter = "x" if text.islower() else "X"
            rules = self.config.data.target_language if options.split_sentences else None
            *begins, last = split_sentences(text + letter, rules)
            begins = [*filter(normalize_line, begins), last.removesuffix(letter)]
        found: list[Begun] = []
        for place, sentence in enumerate(split):
            is_all = len(begins) > 1 and len(sentence) == 1 and place < len(split) - 1
            begin = begins.pop(0) if is_all else "".join(begins)
            begins = begins if is_all else []
            prefix = self.spelling.prefix(begin, is_all=is_all)
            if prefix.longest > _MAX_FORCED:
                raise DataError(
                    f"prefix {number}: {prefix.longest} pieces are too many to force; give at "
                    f"most {_MAX_FORCED}"
                )
            parts = with_stand_ins[place] if prefix is NO_PREFIX else sentence
            found += zip(parts, [prefix, *repeat(NO_PREFIX, len(parts) - 1)], strict=True)
        return found

    def _translate(
        self,
        rows: Sequence[Sequence[Begun]],
        options: SearchOptions,
        sampling: Sampling | None = None,
        mbr: Metric | None = None,
        keys: Sequence[int] = (),
        on_step: StepCallback | None = None,
    ) -> list[list[Translation]]:
        """Return the translations of texts in parts."""
        begun = [each for row in rows for each in row]
        parts = iter(self._parts(begun, options, sampling, mbr, keys, on_step))
        return [join_parts(list(islice(parts, len(row)))) for row in rows]

    def _parts(
        self,
        begun: Sequence[Begun],
        options: SearchOptions,
        sampling: Sampling | None = None,
        mbr: Metric | None = None,
        keys: Sequence[int] = (),
        on_step: StepCallback | None = None,
    ) -> list[list[Part]]:
        """Return the translations of each part; samples depend on its key."""
        required = [sentence.required for sentence, _ in begun]
        parts = self._search(begun, options, sampling, keys, on_step)
        if any(required):
            spaced = language(self.config.data.target_language).is_spaced

            def search_again(tried: Sequence[tuple[int, str]]) -> list[list[Part]]:
                numbers = np.array([number for number, _ in tried])
                again = [(begun[n][0], self.spelling.words(text, ends=spaced)) for n, text in tried]
                stepped = on_step and (lambda ids_B, ids_BT: on_step(numbers[ids_B], ids_BT))
                return self._search(again, options, on_step=stepped)

            given = [len(prefix.text) for _, prefix in begun]
            parts = let_arrive(parts, required, search_again, given=given, spaced=spaced)
            if not options.keep_weights:
                parts = [[replace(part, weights=None) for part in each] for each in parts]
        if mbr:
            for candidates in parts:
                log_probs = [] if sampling else [part.log_prob for part in candidates]
                texts = [part.text for part in candidates]
                target = self.config.data.target_language
                best = minimum_bayes_risk(texts, mbr, target, log_probs)
                candidates.insert(0, candidates.pop(best))
        return parts

    def _search(
        self,
        begun: Sequence[Begun],
        options: SearchOptions,
        sampling: Sampling | None = None,
        keys: Sequence[int] = (),
        on_step: StepCallback | None = None,
    ) -> list[list[Part]]:
        """Return the results of one search for each part."""
        sentences = [sentence for sentence, _ in begun]
        size = sampling.num_samples if sampling else options.beam_size
        all_pieces = bool(sampling) or any(prefix is not NO_PREFIX for _, prefix in begun)
        budget = self.batch_tokens(size, all_pieces=all_pieces)

        def decode(decoding: Decoding, indices: Ints) -> list[list[Hypothesis]]:
            following = [begun[i][1] for i in indices]
            if sampling:
                drawn = [keys[i] for i in indices]
                return sample(decoding, options, sampling, keys=drawn, prefixes=following)
            # Attention shows where a missing text belongs.
            keeps = options.keep_weights or any(begun[i][0].required for i in indices)
            watched = on_step and (lambda ids_B, pieces_BT: on_step(indices[ids_B], pieces_BT))
            return search(decoding, replace(options, keep_weights=keeps), following, watched)

        found = self._in_batches(sentences, budget, decode)
        parts = list(map(self.parts, sentences, found, (prefix for _, prefix in begun)))
        if not sampling:  # an empty text is no alternative
            parts = [[part for part in each if part.text or part is each[0]] for each in parts]
        return parts

    @cached_property
    def spelling(self) -> Spelling:
        """The pieces of the target tokenizer, by what they spell."""
        return Spelling(self.target)

    def force_decode(
        self, sources: Iterable[str], targets: Iterable[str], options: SearchOptions | None = None
    ) -> list[Part]:
        """Return each given translation with the model's probabilities and attention.

        Each target piece is predicted from the true pieces before it. Lines are normalized and
        never split; either may be empty. Of the options only the penalties matter. Raises DataError
        if there is not one target for each source, for a target of 10,000 pieces or more, and for
        what is not lines of text.
        """
        sources, targets = _listed("sources", sources), _listed("targets", targets)
        if len(sources) != len(targets):
            raise DataError(
                f"{len(sources)} sources for {len(targets)} targets; give one for each source"
            )
        options = replace(options or self.options(), keep_weights=True)
        texts = [normalize_line(line) for line in sources]
        sentences = [Sentence(text, self.source.encode_normalized(text)) for text in texts]
        forced = self.target.encode_batch(targets)
        for number, tokens in enumerate(forced, 1):
            if len(tokens) > _MAX_FORCED:
                raise DataError(
                    f"target {number} of {len(forced)}: {len(tokens)} pieces are too many to force "
                    f"at once; give sentences of at most {_MAX_FORCED} pieces"
                )

        def decode(decoding: Decoding, indices: Ints) -> list[Hypothesis]:
            return force_decode(decoding, [forced[index] for index in indices], options)

        found = self._in_batches(sentences, self.batch_tokens(1, all_pieces=True), decode)
        parts = (self.parts(*each)[0] for each in zip(sentences, ([f] for f in found), strict=True))
        # The given text may have characters that its pieces cannot reproduce.
        return [replace(p, text=normalize_line(t)) for p, t in zip(parts, targets, strict=True)]

    def alternatives(
        self,
        source: str,
        prefix: str = "",
        number: int = 5,
        options: SearchOptions | None = None,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> list[Alternative]:
        """Return the most likely next words after a prefix of a translation, best first.

        The prefix is taken as complete words. Each word comes with its probability
        (seq2seq.inference.alternatives) and with the best translation that begins with the prefix
        and the word; the word "" is the end of the translation. In a source of several sentences,
        the words are those of the sentence that the prefix ends in (see `translate`), and after
        complete sentences those of the next one. `check` is called before each step of the model;
        what it raises ends the search. Raises DataError for an empty source, and if that
        sentence is longer than inference.max_source_length (which would be cut), ConfigError for a
        number below 1.
        """
        if number < 1:
            raise ConfigError(f"number: expected 1 or more, found {number}")
        chosen = options or self.options()
        split = self.split(source, chosen, protect=False)
        begun = self.begin(source, f"{prefix} ", chosen, protect=False)
        if not split:
            raise DataError("the source is empty; give a text to find alternatives in")
        place = next(n for n, (_, begin) in enumerate(begun) if not begin.is_all)
        limit = self.config.inference.max_source_length
        if [len(parts) for parts in split for _ in parts][place] > 1:
            raise DataError(
                f"the source has a sentence of more than {limit} pieces; give shorter sentences "
                "to find alternatives in"
            )
        sentence, given = begun[place]
        decoding = self.decoding(np.array([[*sentence.ids, EOS]]))

        def on_step(*_: object) -> None:
            check()

        with _checkpoint_errors():
            words = next_words(decoding, given, self.spelling, chosen, number, on_step)
        longer = [self.spelling.prefix(f"{given.text} {word} ") for word, *_ in words if word]
        # The other sentences are the same in all translations.
        [rest], *continued = self._translate(
            [begun[:place] + begun[place + 1 :], *([(sentence, begin)] for begin in longer)],
            replace(chosen, nbest=1),
            on_step=on_step,
        )
        found = []
        for word, log_prob, ended in words:
            best = continued.pop(0)[0].parts if word else self.parts(sentence, [ended], given)
            parts = [*rest.parts[:place], *best, *rest.parts[place:]]
            found.append(Alternative(word, log_prob, Translation(parts)))
        return found

    def decoding(self, source_BS: Ints) -> Decoding:
        """Return the models bound to a batch of sources, padded with PAD."""
        members = [backend.decoding(source_BS) for backend in self.backends]
        return members[0] if len(members) == 1 else Ensemble(members)

    def _in_batches(
        self,
        sentences: Sequence[Sentence],
        budget: int,
        decode: Callable[[Decoding, Ints], list[T]],
    ) -> list[T]:
        """Return the result of `decode` for each sentence, in batches of similar length."""
        found: dict[int, T] = {}
        with _checkpoint_errors(), self.backends[0].computing():
            for source_BS, indices in source_batches([s.ids for s in sentences], budget):
                results = decode(self.decoding(source_BS), indices)
                found |= zip(indices.tolist(), results, strict=True)
        return [found[number] for number in range(len(sentences))]

    def parts(
        self, sentence: Sentence, hypotheses: list[Hypothesis], prefix: Prefix = NO_PREFIX
    ) -> list[Part]:
        """Return the hypotheses of a sentence as text, which begin with this prefix."""
        # The hypotheses of a sentence have one tree.
        nodes = (hypotheses[0].tree if hypotheses else None) or []
        names = self.target.pieces([node.token for node in nodes])
        tree = [replace(node, piece=name) for node, name in zip(nodes, names, strict=True)]
        source_pieces = [*self.source.pieces(sentence.ids), EOS_PIECE]
        target = language(self.config.data.target_language)
        return [
            Part(
                source=sentence.text,
                source_pieces=source_pieces,
                target_pieces=[*self.target.pieces(hypothesis.tokens), EOS_PIECE],
                text=prefix.decode(hypothesis.tokens, self.target),
                score=hypothesis.score,
                log_prob=hypothesis.log_prob,
                finished=hypothesis.finished,
                weights=hypothesis.weights,
                space=sentence.space,
                log_probs=hypothesis.log_probs,
                tree=tree or None,
                target=target,
            )
            for hypothesis in hypotheses
        ]


def _as_glossary(terms: Glossary | Mapping[str, str]) -> Glossary:
    return terms if isinstance(terms, Glossary) else Glossary(terms)


def _listed(name: str, given: Iterable[str]) -> list[str]:
    """Return lines of text as a list. Raises DataError for anything else."""
    if isinstance(given, str):
        raise DataError(f"{name}: expected a list of lines, found one text; pass [text]")
    if not isinstance(given, Iterable):
        raise DataError(f"{name}: expected lines of text, found {given!r}; pass a list of texts")
    texts = list(given)
    for number, text in enumerate(texts, 1):
        if not isinstance(text, str):
            raise DataError(
                f"{name}: number {number} is of type {type(text).__name__}, not a text; pass str"
            )
    return texts


@contextmanager
def _checkpoint_errors() -> Iterator[None]:
    """Raise a CheckpointError in place of the error for logits that are not finite."""
    try:
        yield
    except FloatingPointError as error:
        raise CheckpointError(f"{error}; use another checkpoint") from None
