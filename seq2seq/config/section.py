"""What all sections of the configuration share."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, field_validator

# Every number has an upper limit too: beyond it is nothing but a slip of the hand, or a recipe
# that was made to exhaust the machine of who uses it.
LARGEST = 2**31 - 1
Rate = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=LARGEST)]
CountFrom0 = Annotated[int, Field(ge=0, le=LARGEST)]
Size = Annotated[int, Field(ge=1, le=65_536)]  # of a vector
Layers = Annotated[int, Field(ge=1, le=64)]


class Section(BaseModel):
    """A part of the configuration; unknown keys are errors and values never change."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, validate_default=True, allow_inf_nan=False
    )

    @field_validator("*")
    @classmethod
    def _without_nul(cls, value: Any) -> Any:
        if isinstance(value, str) and "\0" in value:
            raise ValueError("a NUL character, which no name of a file can hold; leave it out")
        return value


def section_of(annotation: Any) -> type[Section] | None:
    """Return the Section inside an optional or a tuple of one."""
    if get_origin(annotation) in (Union, types.UnionType, tuple, Annotated):
        found = (section_of(part) for part in get_args(annotation))
        return next((section for section in found if section is not None), None)
    is_section = isinstance(annotation, type) and issubclass(annotation, Section)
    return annotation if is_section else None


def type_name(annotation: Any) -> str:
    """Return the type of a key in the words of the reference page and of error messages."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(parts[0])
    if origin is Literal:
        return ", ".join(str(value) for value in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(type_name(part) for part in parts)
    if origin is tuple:
        items = [part for part in parts if part is not Ellipsis]
        number = "" if Ellipsis in parts else f"{len(items)} x "
        return f"list of {number}{type_name(items[0])}"
    names = {
        int: "integer",
        float: "number",
        str: "text",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(annotation, "keys and values")
