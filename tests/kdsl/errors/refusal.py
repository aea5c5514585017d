"""`refused`: a wrong kernel gets a KernelError that says what, where (to the character), and what to do."""

from __future__ import annotations

from typing import Any

import pytest

import kdsl
from kdsl.frontend.errors import source_line
from kdsl.ir.nodes import Location


def refused(kernel: Any, *words: str, at: str, hint: str, also: str | None = None, **settings: Any) -> str:
    """Compile `kernel` (or call it, if it is a function that declares one); the text of its error.

    `words` occur in the message, the caret marks exactly `at`, and `also` is the text of a second place that is shown.
    """
    with pytest.raises(kdsl.KernelError) as caught:
        kernel.ir(**settings) if hasattr(kernel, "ir") else kernel()
    error = caught.value
    for word in words:
        assert word in error.message, f"{word!r} is missing from: {error.message}"
    assert marked(error.location) == at
    assert hint in error.hint, f"{hint!r} is missing from: {error.hint}"
    assert error.hint
    if also is not None:
        assert also in [marked(place) for _, place in error.notes]
    text = str(error)
    assert "^" in text
    assert f"{error.location.file}:{error.location.line}:" in text
    return text


def marked(place: Location) -> str:
    """The source text of a place, up to the end of its first line."""
    line = source_line(place)
    return line[place.column : place.end_column if place.end_line == place.line else len(line)]
