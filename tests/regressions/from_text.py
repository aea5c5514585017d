"""Kernels from text, so that one test can run over many types and operators."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import kdsl
from kdsl.lang.types import DTYPES
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
INTEGERS = [of for of in DTYPES.values() if of.is_integer]
FLOATS = [of for of in DTYPES.values() if of.is_float]
_NUMBERS = itertools.count()


def module(text: str, **names: Any) -> dict[str, Any]:
    """Run the text of a module, with everything of kdsl in its globals; the globals."""
    file = f"<regression {next(_NUMBERS)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space: dict[str, Any] = {name: getattr(kdsl, name) for name in dir(kdsl) if not name.startswith("_")}
    space |= {"__name__": "regression", **names}
    exec(compile(text, file, "exec"), space)
    return space


def kernel_of(parameters: str, body: str, options: str = "grid=1, block=32", **names: Any) -> Any:
    """A kernel with these parameters and these lines in its body."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return module(f"@kernel({options})\ndef tested({parameters}) -> None:\n{lines}", **names)["tested"]


def column(expressions: list[str], result: str, parameters: str, options: str = "grid=1, block=1", **names: Any) -> Any:
    """A kernel whose one thread writes each expression to its own element of `y`."""
    body = "\n".join(f"y[{number}] = {expression}" for number, expression in enumerate(expressions))
    return kernel_of(f"y: SliceMut[{result}], {parameters}", body, options, **names)


def mapped(expressions: list[str], result: str, parameters: str, options: str = "", **names: Any) -> Any:
    """A kernel that writes expression k of element i of `x` (and `i`, the thread) to `y[k * len(x) + i]`."""
    body = "i = thread_index()\nif i in x:\n" + "\n".join(
        f"    y[{number} * len(x) + i] = {expression}" for number, expression in enumerate(expressions)
    )
    return kernel_of(f"y: SliceMut[{result}], {parameters}", body, f"grid=elements('x'), block=32{options}", **names)


def poison(count: int, of: kdsl.DType) -> npt.NDArray[Any]:
    """An array that no result looks like: whatever is not written shows."""
    return np.frombuffer(bytes([0xA5]) * (count * of.itemsize), of.numpy).copy()


def result_of(device: Any, kernel: Any, count: int, of: kdsl.DType, *arguments: Any, **keywords: Any) -> npt.NDArray[Any]:
    """What a kernel leaves in its first array, of `count` elements; NumPy's arrays among the arguments are copied to the device."""
    y = device.array(poison(count, of))
    kernel(y, *(device.array(a) if isinstance(a, np.ndarray) else a for a in arguments), **keywords)
    return y.numpy()  # type: ignore[no-any-return]
