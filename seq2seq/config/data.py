"""Where pairs come from, how they are cleaned, cut into subwords and put into batches."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from seq2seq.config.section import Count, Rate, Section

Column = Annotated[int, Field(ge=0)] | str | None


class CorpusConfig(Section):
    """Where sentence pairs are read from; a path may end in .gz, .bz2 or .xz."""

    format: Literal["tsv", "manythings", "aligned", "jsonl", "huggingface"] = Field(
        "tsv",
        description="tsv: columns of one file; manythings: English<TAB>Spanish[<TAB>attribution]; "
        "aligned: two files, line by line; jsonl: one object a line; huggingface: a named dataset",
    )
    path: str | None = Field(None, description="the file (tsv, manythings, jsonl)")
    source_path: str | None = Field(None, description="the source side (aligned)")
    target_path: str | None = Field(None, description="the target side (aligned)")
    source: Column = Field(
        None,
        description="column number from 0 (tsv: 0; manythings: 1) or field name, dots for nesting "
        "(jsonl, huggingface: translation.es)",
    )
    target: Column = Field(None, description="the same for the target (tsv: 1; manythings: 0)")
    alignment: Column = Field(
        None, description="column or field of gold word alignments (i-j), where there are any"
    )
    references: bool = Field(
        False, description="tsv: every column after the target is one more reference"
    )
    name: str | None = Field(None, description="huggingface: the dataset's name or a local folder")
    subset: str | None = Field(None, description="huggingface: the dataset's configuration")
    split: str | None = Field(None, description="huggingface: the split, for example train[:10%]")
    streaming: bool = Field(
        False,
        description="in train: read, clean and encode pairs while training, with no pass over all "
        "before; duplicates are found within a window only, and the order is that of the corpus, "
        "shuffled within windows. For all corpora of train or none",
    )

    @model_validator(mode="after")
    def _complete(self) -> CorpusConfig:
        needed = {
            "tsv": ("path",),
            "manythings": ("path",),
            "jsonl": ("path", "source", "target"),
            "aligned": ("source_path", "target_path"),
            "huggingface": ("name", "split", "source", "target"),
        }[self.format]
        for key in needed:
            if getattr(self, key) is None:
                raise ValueError(f"format {self.format} needs the key '{key}'")
        usable = (*needed, "subset") if self.format == "huggingface" else needed
        for key in ("path", "source_path", "target_path", "name", "subset", "split"):
            if getattr(self, key) is not None and key not in usable:
                raise ValueError(f"format {self.format} does not use '{key}'; leave it out")
        if self.format in ("tsv", "manythings"):
            for key in ("source", "target", "alignment"):
                if isinstance(getattr(self, key), str):
                    raise ValueError(f"'{key}' is a column number in format {self.format}")
        if self.references and self.alignment is not None:
            raise ValueError("a corpus has further references or an alignment column, not both")
        return self


class CleaningConfig(Section):
    """Which pairs are dropped from the training data; every drop is counted by its reason."""

    max_chars: Count = Field(1000, description="longest side, in characters")
    max_ratio: Annotated[float, Field(gt=1)] = Field(
        4.0, description="longest side over shortest, in words plus three"
    )
    drop_duplicates: bool = Field(True, description="keep one of each exact pair")
    drop_overlap: bool = Field(
        False, description="drop train pairs that share a side with valid or test (else: warn)"
    )


class TokenizerConfig(Section):
    """SentencePiece subwords, trained from the train side of the corpus."""

    type: Literal["unigram", "bpe"] = Field("unigram", description="SentencePiece model type")
    joint: bool = Field(False, description="one vocabulary for both languages")
    source_vocab_size: Annotated[int, Field(ge=16, le=1_000_000)] = Field(
        8000, description="pieces of the source (of both, when joint)"
    )
    target_vocab_size: Annotated[int, Field(ge=16, le=1_000_000)] = Field(
        8000, description="pieces of the target (not used when joint)"
    )
    lower_vocab_size: bool = Field(
        True, description="lower a vocabulary that the data cannot fill, with a warning"
    )
    byte_fallback: bool = Field(True, description="spell unseen characters as bytes, never <unk>")
    character_coverage: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="share of characters that get pieces of their own"
    )
    max_sentences: Count = Field(
        1_000_000,
        description="sentences that training looks at, and 40 million characters at most: a "
        "random sample of the corpus, of a streamed one the first pairs",
    )
    sampling_alpha: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0,
        description=(
            "subword sampling in training; 0 is off. For unigram 0.2-0.5: the less, the more it "
            "varies (0.1 makes texts 1.9 times as long, 0.2 1.3, 0.3 1.1); for bpe 0.1"
        ),
    )


class BatchingConfig(Section):
    """How pairs are put together: buckets of similar length, every pair once an epoch."""

    unit: Literal["tokens", "sentences"] = Field("tokens", description="what size counts")
    size: Count = Field(
        2048, description="budget of a batch: padded tokens of its longer side, or sentences"
    )
    max_length: Count = Field(
        256, description="longest side in pieces; longer train pairs are dropped and counted"
    )
    window: Count = Field(
        100_000, description="pairs that are shuffled and sorted by length together"
    )


class DataConfig(Section):
    """Corpora, cleaning, subwords and batches."""

    source_language: str = Field("es", description="name of the source language, for labels")
    target_language: str = Field("en", description="name of the target language, for labels")
    train: Annotated[tuple[CorpusConfig, ...], Field(min_length=1)] = Field(
        description="one or several sources of training pairs"
    )
    valid: CorpusConfig = Field(description="pairs that choose the best checkpoint")
    test: CorpusConfig | None = Field(
        None, description="pairs that are only scored; named here to watch for leaks"
    )
    cleaning: CleaningConfig = CleaningConfig()
    cache: str | None = Field(
        "auto",
        description="folder of prepared data, by content: clean pairs, tokenizers, ids; auto: "
        "$XDG_CACHE_HOME/seq2seq or ~/.cache/seq2seq; null: a temporary one. It may be deleted",
    )
    processes: Count | None = Field(
        None, description="processes that prepare data; null: as many as there are cores"
    )
    tokenizer: TokenizerConfig = TokenizerConfig()
    batching: BatchingConfig = BatchingConfig()
    word_dropout: Rate = Field(
        0.0, description="share of input pieces replaced by <unk> in training, on both sides"
    )

    @model_validator(mode="after")
    def _streamed(self) -> DataConfig:
        if any(corpus is not None and corpus.streaming for corpus in (self.valid, self.test)):
            raise ValueError("valid and test are read whole; leave out their key 'streaming'")
        if len({corpus.streaming for corpus in self.train}) > 1:
            raise ValueError("train: set 'streaming' for all corpora or for none")
        return self
