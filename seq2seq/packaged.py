"""Files that come with the package: trained models and their cards, recipes, the sample corpus.

Commands take a model or a recipe by its name, unless a path of that name exists, and a run on the
Hugging Face hub as `hf:user/name[@revision]`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from seq2seq import hub
from seq2seq.config.section import Section
from seq2seq.errors import CheckpointError, ConfigError, did_you_mean
from seq2seq.languages import language

MODELS, RECIPES, SAMPLE = (Path(__file__).parent / name for name in ("models", "recipes", "sample"))
CARD = "README.md"  # of a model
_SAMPLE_PATH = Path("data/sample")  # in recipes and in the documentation


def model_names() -> list[str]:
    """Return the names of the models."""
    return sorted(path.parent.name for path in MODELS.glob("*/config.yaml"))


def find_run(run: str | Path) -> Path:
    """Return the path of a run or of the packaged model with this name; download a run on the hub.

    Raises CheckpointError for a word that is neither, and as `hub.download` does.
    """
    path = Path(run)
    if str(run).startswith(hub.PREFIX):
        return hub.download(str(run))
    if path.exists() or len(path.parts) != 1 or path.suffix:
        return path
    if path.name in model_names():
        return MODELS / path
    next_step = f"train a run with 'seq2seq train CONFIG run_dir={run}'"
    if " " in path.name:  # a sentence
        next_step = "'seq2seq translate RUN' reads texts from standard input or --input FILE"
    raise CheckpointError(
        f"{run}: not a run directory, nor the name of a model{_known(path.name, model_names())}; "
        f"{next_step}"
    )


def is_read_only(run: Path) -> bool:
    """Return whether a run must not be changed: a packaged model, or a download from the hub."""
    return run.resolve().parent == MODELS.resolve() or hub.cache_of(run) is not None


class Card(Section):
    """The card of a model: the keys at the beginning of README.md in its directory.

    They are YAML between two lines of three hyphens, as the Hugging Face hub defines them, except
    for the last two.
    """

    language: tuple[str, str] = Field(description="codes of source and target language")
    license: str | None = Field(None, description="licence of the model, by the hub's name")
    library_name: str = "seq2seq"
    pipeline_tag: str = "translation"
    datasets: tuple[str, ...] | None = Field(None, description="training data on the hub")
    metrics: tuple[str, ...] = ("bleu", "chrf")
    index: tuple[dict[str, Any], ...] = Field((), alias="model-index", description="scores")
    data: str = Field(description="training data")
    data_license: str | None = Field(None, description="its licence")

    @property
    def languages(self) -> str:
        """The direction in words."""
        return " to ".join(language(code).name for code in self.language)


def read_card(run: Path) -> Card:
    """Return the card of a model. Raises CheckpointError if it is missing or cannot be read."""
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
    """Return the path of a recipe or of the packaged recipe with this name.

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
    """Return the path of a data file: a packaged one if there is no data/sample here."""
    path = Path(path)
    if path.parent == _SAMPLE_PATH and not _SAMPLE_PATH.exists():
        return SAMPLE / path.name
    return path


def _known(name: str, names: list[str]) -> str:
    return f" ({', '.join(names) or 'there are none'}){did_you_mean(name, names)}"
