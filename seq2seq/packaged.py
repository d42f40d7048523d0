"""What comes with the package: trained models, recipes and the sample corpus.

Commands take a model or a recipe by its name, where no such path exists.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from seq2seq.errors import CheckpointError, ConfigError

MODELS, RECIPES, SAMPLE = (Path(__file__).parent / name for name in ("models", "recipes", "sample"))
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
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f" ({', '.join(names) or 'there are none'}){hint}"
