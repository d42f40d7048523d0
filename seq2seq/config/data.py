"""The `data` section of a recipe: corpora, cleaning, subwords and batches."""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2seq.config.section import Count, Rate, Section
from seq2seq.languages import UNDETERMINED

Column = Annotated[int, Field(ge=0)] | str | None


class CorpusConfig(Section):
    """A corpus of sentence pairs; files may be compressed (.gz, .bz2, .xz)."""

    format: Literal["tsv", "manythings", "csv", "aligned", "jsonl", "huggingface"] = Field(
        "tsv",
        description="tsv: tab-separated columns of one file; manythings: "
        "English<TAB>Spanish[<TAB>attribution]; csv: columns separated by commas, with quotes and "
        "a header; aligned: two files whose lines correspond; jsonl: one JSON object per line; "
        "huggingface: a dataset by name",
    )
    path: str | None = Field(None, description="file to read (tsv, manythings, csv, jsonl)")
    source_path: str | None = Field(None, description="file of source sentences (aligned)")
    target_path: str | None = Field(None, description="file of target sentences (aligned)")
    source: Column = Field(
        None,
        description="source sentence: a column number from 0 (default: tsv 0, manythings 1), a "
        "column of the header or its number (csv; default: source), or a field such as "
        "translation.es (jsonl, huggingface)",
    )
    target: Column = Field(
        None, description="target sentence, likewise (default: tsv 1, manythings 0, csv target)"
    )
    alignment: Column = Field(
        None, description="gold word alignments (i-j), likewise, if the corpus has them"
    )
    references: bool = Field(
        False, description="tsv: treat every column after the target as another reference"
    )
    weight: Annotated[float, Field(gt=0, le=1000)] = Field(
        1.0,
        description="training corpora: how often each pair is seen in an epoch; 0.5: in every "
        "other epoch, by chance",
    )
    name: str | None = Field(None, description="huggingface: the dataset, or a local folder")
    subset: str | None = Field(None, description="huggingface: the dataset's configuration")
    split: str | None = Field(None, description="huggingface: the split, such as train[:10%]")

    @model_validator(mode="after")
    def _complete(self) -> CorpusConfig:
        needed = {
            "jsonl": ("path", "source", "target"),
            "aligned": ("source_path", "target_path"),
            "huggingface": ("name", "split", "source", "target"),
        }.get(self.format, ("path",))
        for key in needed:
            if getattr(self, key) is None:
                raise ValueError(f"format {self.format} requires the key '{key}'")
        usable = (*needed, {"huggingface": "subset", "tsv": "references"}.get(self.format))
        for key in ("path", "source_path", "target_path", "name", "subset", "split", "references"):
            if getattr(self, key) not in (None, False) and key not in usable:
                raise ValueError(f"format {self.format} does not use '{key}'; remove it")
        if self.format in ("tsv", "manythings"):
            for key in ("source", "target", "alignment"):
                if isinstance(getattr(self, key), str):
                    raise ValueError(f"format {self.format} requires a column number for '{key}'")
        source, target = self.columns
        columns = {"source": source, "target": target, "alignment": self.alignment}
        for one, other in combinations(columns, 2):
            if columns[one] == columns[other]:
                raise ValueError(f"{one} and {other} are both {columns[one]!r}; name two columns")
        if self.references and self.alignment is not None:
            raise ValueError("references cannot be combined with alignment; remove one of them")
        return self

    @property
    def columns(self) -> tuple[int | str, int | str]:
        """The columns of source and target: the given ones, or else those of the format."""
        usual: tuple[int | str, int | str] = (0, 1)
        if self.format in ("manythings", "csv"):
            usual = (1, 0) if self.format == "manythings" else ("source", "target")
        source, target = self.source, self.target
        return usual[0] if source is None else source, usual[1] if target is None else target


class CleaningConfig(Section):
    """Filters for training pairs; dropped pairs are counted by reason."""

    max_chars: Count = Field(1000, description="maximum length of a side, in characters")
    max_ratio: Annotated[float, Field(gt=1)] = Field(
        4.0,
        description="maximum ratio of the lengths of both sides, in words plus three; where no "
        "spaces separate words, two characters count as one (four in Thai, Lao, Khmer, Burmese)",
    )
    drop_duplicates: bool = Field(True, description="keep only one of identical pairs")
    drop_overlap: bool = Field(
        False, description="drop training pairs that share a side with valid or test (else: warn)"
    )


class TokenizerConfig(Section):
    """SentencePiece subword models, trained on the training pairs."""

    type: Literal["unigram", "bpe"] = Field("unigram", description="SentencePiece model type")
    joint: bool = Field(False, description="share one vocabulary between both languages")
    source_vocab_size: Annotated[int, Field(ge=16, le=1_000_000)] = Field(
        8000, description="source vocabulary size, or that of the joint vocabulary"
    )
    target_vocab_size: Annotated[int, Field(ge=16, le=1_000_000)] = Field(
        8000, description="target vocabulary size; unused if joint"
    )
    lower_vocab_size: bool = Field(
        True, description="reduce a vocabulary size that the data cannot fill, with a warning"
    )
    byte_fallback: bool = Field(True, description="encode unseen characters as bytes, not <unk>")
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = Field(
        1.0, description="share of characters in the data that the vocabulary covers"
    )
    case_marks: bool = Field(
        False,
        description="write texts in lower case with marks for capitals, so that HOLA, Hola and "
        "hola share their pieces",
    )
    split_digits: bool = Field(False, description="make each digit a piece of its own")
    max_sentences: Count = Field(
        1_000_000,
        description="train the subword model on at most this many sentences and 40 million "
        "characters, a random sample",
    )


class BatchingConfig(Section):
    """Batches of pairs of similar length; each pair appears once per epoch."""

    unit: Literal["tokens", "sentences"] = Field("tokens", description="unit of size")
    size: Count = Field(
        2048, description="maximum batch size: tokens of the longer side with padding, or sentences"
    )
    max_length: Count = Field(
        256, description="maximum length of a side, in pieces; longer training pairs are dropped"
    )
    window: Count = Field(
        100_000, description="number of pairs shuffled and sorted by length at a time"
    )


class AugmentationConfig(Section):
    """Shares of the training pairs to change, so that they look like text as people type it.

    Each epoch changes other pairs. The kinds are independent of each other, so that a pair may be
    changed by several. Kinds that the languages do not have, such as capitals, are left out
    (docs/languages.md).
    """

    joined: Rate = Field(0.04, description="two to four pairs on a line")
    names: Rate = Field(
        0.15,
        description="made-up names, addresses or identifiers in place of the capitalized words "
        "that both sides share; pairs that share none are not changed",
    )
    digits: Rate = Field(0.3, description="other digits in the numbers that both sides share")
    copied_tokens: Rate = Field(
        0.1,
        description="a number, emoji, address, identifier or name at the same place of both sides",
    )
    final_punctuation: Rate = Field(
        0.06, description="final . ! ? … left out or repeated, both sides"
    )
    accents: Rate = Field(
        0.08, description="no accents, no ¿ and ¡, as people leave them out, source only"
    )
    typos: Rate = Field(0.12, description="a typing error, two in long texts, source only")
    careless: Rate = Field(
        0.08,
        description="lower case, no accents, other final punctuation and perhaps words as in chats "
        "(q, xq, u, thx, only in Spanish and English; soooo, NO) and a typing error, all at once",
    )
    lower_case: Rate = Field(0.06, description="lower case, source only")
    title_case: Rate = Field(0.05, description="A Capital On Each Word, both sides")
    upper_case: Rate = Field(0.05, description="CAPITALS, both sides")


class DataConfig(Section):
    """Corpora and how they are prepared."""

    source_language: str = Field(
        UNDETERMINED,
        description="ISO 639 code of the source language, such as es, pt-br or zh-Hant; training "
        "requires it, except from another run, whose languages are the default (docs/languages.md)",
    )
    target_language: str = Field(
        UNDETERMINED, description="ISO 639 code of the target language, likewise"
    )
    # The number of a pair's corpus is a byte.
    train: Annotated[tuple[CorpusConfig, ...], Field(min_length=1, max_length=256)] = Field(
        description="corpora of training pairs"
    )
    valid: CorpusConfig = Field(description="pairs on which checkpoints are compared")
    test: CorpusConfig | None = Field(
        None,
        description="pairs for testing only; overlap of the training pairs with them is detected",
    )
    cleaning: CleaningConfig = Field(default_factory=CleaningConfig)
    cache: str | None = Field(
        "auto",
        description="folder for clean pairs, tokenizers and token ids, safe to delete; auto: "
        "$XDG_CACHE_HOME/seq2seq or ~/.cache/seq2seq; null: a temporary folder",
    )
    processes: Count | None = Field(
        None,
        description="number of processes that prepare data, and that augment it for a GPU during "
        "training; null: one, on Linux one per core, and up to four for a GPU",
    )
    tokenizer: TokenizerConfig = Field(default_factory=TokenizerConfig)
    batching: BatchingConfig = Field(default_factory=BatchingConfig)
    augmentation: AugmentationConfig | None = Field(
        None,
        description="change a share of the training pairs as people type text; {}: with these "
        "shares; null: off",
    )
    word_dropout: Rate = Field(
        0.0, description="probability of replacing an input piece by <unk> in training, both sides"
    )

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""
        return self.source_language, self.target_language

    @model_validator(mode="after")
    def _weights_training_only(self) -> DataConfig:
        for name, corpus in (("valid", self.valid), ("test", self.test)):
            if corpus is not None and corpus.weight != 1:
                raise ValueError(f"{name}.weight: only training corpora have weights; remove it")
        return self
