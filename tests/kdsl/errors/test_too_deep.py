"""An expression that is nested too deeply is refused, not a crash of the compiler."""

import linecache

import pytest

import kdsl
from kdsl import SliceMut, f32, kernel


def test_sum_of_thousands_of_terms() -> None:
    terms = " + ".join(["y[0]"] * 5000)
    text = f"@kernel(grid=1)\ndef wrong(y: SliceMut[f32]) -> None:\n    y[0] = {terms}\n"
    name = "<many terms>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"kernel": kernel, "SliceMut": SliceMut, "f32": f32}
    try:
        exec(compile(text, name, "exec"), space)
    except RecursionError:
        return  # some versions of Python do not even compile it
    with pytest.raises(kdsl.KernelError, match="nested too deeply"):
        space["wrong"].ir()
