"""The card of a model: README.md in its directory, which begins with what programs read.

Its first lines are YAML between two lines of three hyphens, as on the Hugging Face hub.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from seq2seq.config.loading import parse_section, read_yaml_file
from seq2seq.config.section import Section
from seq2seq.errors import CheckpointError, ConfigError

CARD = "README.md"


class Card(Section):
    """What can be said of a model in one line."""

    source_language: str = Field(description="source language")
    target_language: str = Field(description="target language")
    test_set: str = Field(description="what the scores were measured on")
    bleu: float = Field(description="BLEU on it, by sacreBLEU")
    chrf: float = Field(description="chrF on it")
    bleu_signature: str = Field(description="how sacreBLEU computed it")
    chrf_signature: str = Field(description="likewise")
    data: str = Field(description="training data")
    data_license: str = Field(description="its licence")


def read_card(run: Path) -> Card:
    """Return the card of a model. Raises CheckpointError if there is none that can be read."""
    path = run / CARD
    try:
        before, _, rest = read_yaml_file(path).partition("---\n")
        head, end, _ = rest.partition("\n---\n")
        if before or not end:
            raise ConfigError(f"{path}: no lines of YAML between two lines of --- at its beginning")
        return parse_section(head, Card, origin=str(path))
    except ConfigError as error:
        raise CheckpointError(f"{error}; docs/models.md describes cards") from None
