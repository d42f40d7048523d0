"""What a check finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """What was found, with its number, in words; `passed` is None for a check not made."""

    passed: bool | None
    found: str

    def line(self, name: str, width: int) -> str:
        """Return a line for a person."""
        word = {True: "pass", False: "FAIL", None: "skip"}[self.passed]
        return f"{word}  {name:{width}}  {self.found}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return asdict(self)


def skipped(why: str) -> Finding:
    """Return that a check could not be made."""
    return Finding(None, why)
