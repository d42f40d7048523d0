"""How many random cases a property test tries.

The usual run tries few and always the same. `python -m pytest tests -m fuzz` runs the property
tests alone, with many more cases, that are others each time.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("usual", deadline=None, derandomize=True, max_examples=100)
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=3000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def fuzzing() -> bool:
    """Return whether many cases are asked for, which is known once tests are collected."""
    return settings.default.max_examples == settings.get_profile("fuzz").max_examples


def examples(count: int) -> settings:
    """Return the settings of a test of so many cases; in fuzzing of as many times more as there."""
    return settings(max_examples=count * settings.default.max_examples // 100)
