"""What comes with the package: trained models and their cards, recipes and the sample corpus.

Commands take a model or a recipe by its name, where no such path exists.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from seq2seq.config.section import Section
from seq2seq.errors import CheckpointError, ConfigError, did_you_mean

MODELS, RECIPES, SAMPLE = (Path(__file__).parent / name for name in ("models", "recipes", "sample"))
CARD = "README.md"  # of a model
_SAMPLE_PATH = Path("data/sample")  # in recipes and in the documentation


def model_names() -> list[str]:
    """Return the names of the models."""
    return sorted(path.parent.name for path in MODELS.glob("*/config.yaml"))


def find_run(run: str | Path) -> Path:
    """Return the path of a run, or that of the model that has this name.

    Raises CheckpointError for a word that is neither.
    """
    path = Path(run)
    if path.exists() or len(path.parts) != 1 or path.suffix:
        return path
    if path.name in model_names():
        return MODELS / path
    raise CheckpointError(
        f"{run}: not a run directory, nor the name of a model{_known(path.name, model_names())}; "
        f"train a run with 'seq2seq train CONFIG run_dir={run}'"
    )


def is_packaged(run: Path) -> bool:
    """Return whether a run is one of the models that come with the package."""
    return run.resolve().parent == MODELS.resolve()


class Card(Section):
    """The card of a model: README.md in its directory, which begins with these keys.

    They are YAML between two lines of three hyphens, as on the Hugging Face hub.
    """

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
    from seq2seq.config.loading import parse_section, read_yaml_file

    path = run / CARD
    try:
        before, _, rest = read_yaml_file(path).partition("---\n")
        head, end, _ = rest.partition("\n---\n")
        if before or not end:
            raise ConfigError(f"{path}: no lines of YAML between two lines of --- at its beginning")
        return parse_section(head, Card, origin=str(path))
    except ConfigError as error:
        raise CheckpointError(f"{error}; docs/models.md describes cards") from None


def find_recipe(recipe: str) -> Path:
    """Return the path of a recipe, or that of the recipe that has this name.

    Raises ConfigError for a word that is neither.
    """
    path = Path(recipe)
    if path.exists() or len(path.parts) != 1 or path.suffix:
        return path
    known = sorted(found.stem for found in RECIPES.glob("*.yaml"))
    if path.name in known:
        return RECIPES / f"{path}.yaml"
    raise ConfigError(f"{recipe}: no such file, nor the name of a recipe{_known(path.name, known)}")


def find_data(path: str | Path) -> Path:
    """Return the path of a data file; where data/sample is not here, that of the packaged one."""
    path = Path(path)
    if path.parent == _SAMPLE_PATH and not _SAMPLE_PATH.exists():
        return SAMPLE / path.name
    return path


def _known(name: str, names: list[str]) -> str:
    return f" ({', '.join(names) or 'there are none'}){did_you_mean(name, names)}"
