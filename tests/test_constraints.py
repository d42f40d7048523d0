"""constraints.txt pins what pyproject.toml asks for, directly or not, and nothing else."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires
from itertools import chain
from pathlib import Path

import pytest
import tomllib
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINES = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


def applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def pins() -> dict[str, str]:
    """Return the versions that this Python gets, by name."""
    found: dict[str, str] = {}
    for line in LINES:
        requirement = Requirement(line) if line and not line.startswith("#") else None
        if requirement and applies(requirement):
            name = canonicalize_name(requirement.name)
            assert name not in found, f"{name}: two pins"
            [found[name]] = [each.version for each in requirement.specifier]
    return found


def closure() -> list[Requirement]:
    """Return what the project requires with all extras, and what that requires, as installed."""
    own = chain(PROJECT["dependencies"], *PROJECT["optional-dependencies"].values())
    waiting = [Requirement(line) for line in own]
    found: list[Requirement] = []
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name == PROJECT["name"]:
            continue
        found.append(requirement)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            try:
                needed = [Requirement(line) for line in requires(name) or []]
            except PackageNotFoundError:
                pytest.fail(f"{name} is not installed; run make test")
            waiting += [each for each in needed if applies(each, extra)]
    return found


def test_every_dependency_has_a_pin_in_its_range() -> None:
    pinned = pins()
    for requirement in closure():
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"constraints.txt lacks {name}"
        assert requirement.specifier.contains(pinned[name], prereleases=True), (
            f"{name}=={pinned[name]} is not {requirement}"
        )


def test_every_pin_is_of_a_dependency() -> None:
    used = {canonicalize_name(requirement.name) for requirement in closure()}
    assert set(pins()) - used == {"wheel"}  # which builds the package (Makefile)
