"""An explanation as one page to explore: no network, no library, the numbers inside."""

from __future__ import annotations

import html
import json
import re
from importlib.resources import files
from pathlib import Path

from seq2seq.errors import DataError
from seq2seq.explaining.explanation import Explanation
from seq2seq.files import write_atomic


def write_page(explanation: Explanation, path: Path, *, words: bool = False) -> None:
    """Write the page; with `words` it begins with words instead of pieces.

    Raises DataError for a model without attention and for a path that cannot be written.
    """
    page = render_page(explanation, words=words)
    try:
        write_atomic(path, page)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None


def render_page(explanation: Explanation, *, words: bool = False) -> str:
    """Return the page: the template with the same data that `as_json` gives."""
    if explanation.part.weights is None:
        raise DataError("no attention weights to show: the model has attention.score none")
    data = json.dumps(explanation.as_json(), ensure_ascii=False, allow_nan=False)
    values = {
        "title": html.escape(f"Attention: {explanation.part.source}"),
        "view": "words" if words else "pieces",
        # Within a script nothing is markup but what begins with `<`, as `</script>` does.
        "data": data.replace("<", "\\u003c"),
    }
    template = files("seq2seq.explaining").joinpath("page.html").read_text(encoding="utf-8")
    # In one pass, so that a sentence that looks like a placeholder stays one.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)
