"""A function whose source is nowhere to be found is refused with the way out."""

import pytest
from refusal import refused

import kdsl
from kdsl import SliceMut, f32, kernel


def test_exec() -> None:
    # a file name of its own: Python 3.13 has a source for "<string>" where the interpreter was started with -c
    code = compile("@kernel(grid=1)\ndef wrong(y: SliceMut[f32]) -> None:\n    y[0] = 1.0\n", "<nowhere>", "exec")
    with pytest.raises(kdsl.KernelError) as caught:
        exec(code, {"kernel": kernel, "SliceMut": SliceMut, "f32": f32})
    assert "`wrong`" in str(caught.value)
    assert "<nowhere>:1" in str(caught.value)
    assert "linecache.cache" in caught.value.hint


def test_lambda() -> None:
    refused(lambda: kernel(grid=1)(lambda y: None), "lambda", at=" ", hint="def")


def test_not_a_function() -> None:
    with pytest.raises(TypeError, match="plain Python functions"):
        kernel(grid=1)(print)
