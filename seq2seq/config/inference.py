"""The `inference` section of a recipe: all that translating needs of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from seq2seq.config.section import Count, Section


class InferenceConfig(Section):
    """Defaults for translation; the search options can be changed on the command line."""

    beam_size: Annotated[int, Field(ge=1, le=10_000)] = Field(
        5, description="beam size; 1: greedy search"
    )
    length_penalty: Annotated[float, Field(ge=0, le=10)] = Field(
        1.0, description="alpha of ((5 + length) / 6) ** alpha (Wu et al. 2016, eq. 14)"
    )
    coverage_penalty: Annotated[float, Field(ge=0, le=100)] = Field(
        0.0, description="beta of the coverage penalty (Wu et al. 2016, eq. 14)"
    )
    max_length_factor: Annotated[float, Field(gt=0, le=100)] = Field(
        2.0, description="maximum output length: this x source pieces + max_length_offset"
    )
    max_length_offset: Annotated[int, Field(ge=1, le=10_000)] = Field(
        10, description="added to the maximum output length, in pieces"
    )
    no_repeat_ngram: Annotated[int, Field(ge=0, le=10_000)] = Field(
        0, description="forbid repeated n-grams of this size; 0: off"
    )
    batch_tokens: Count = Field(4096, description="maximum batch size: source tokens x beam size")
    max_source_length: Annotated[int, Field(ge=8, le=100_000)] = Field(
        256, description="split longer source lines, in pieces, at punctuation"
    )
