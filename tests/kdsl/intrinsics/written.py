"""Kernels from text, so that one test can run over all rows of the table and all types; and the block sizes that are awkward."""

from __future__ import annotations

import functools
import itertools
import linecache
from typing import Any

import numpy as np
import numpy.typing as npt

import kdsl

BLOCKS = (17, 33, 48, 96, 1024)
"""Less than a warp, a warp and a lane, a warp and a half, whole warps, the most."""
_NUMBERS = itertools.count()


@functools.cache
def written(parameters: str, body: str, block: int | tuple[int, ...] = 32, grid: str = "1", options: str = "") -> Any:
    """A kernel with these parameters, these lines in its body, and these further arguments of `@kernel`."""
    file = f"<intrinsics {next(_NUMBERS)}>"
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"@kernel(grid={grid}, block={block}, {options})\ndef tested({parameters}) -> None:\n{lines}"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space: dict[str, Any] = {**{name: getattr(kdsl, name) for name in dir(kdsl) if not name.startswith("_")}, "__name__": "written"}
    exec(compile(text, file, "exec"), space)
    return space["tested"]


def poison(count: int, of: kdsl.DType) -> npt.NDArray[Any]:
    """An array that no result looks like: whatever is not written shows."""
    return np.frombuffer(bytes([0xA5]) * (count * of.itemsize), of.numpy).copy()


def numbers(count: int, of: kdsl.DType, seed: int) -> npt.NDArray[Any]:
    """Random values over the whole range of an integer type, or of moderate size with zeros of both signs and subnormals."""
    random = np.random.default_rng(seed)
    if of.is_integer:
        return np.frombuffer(random.bytes(count * of.itemsize), of.numpy).copy()
    values = random.standard_normal(count)
    values[:: max(count // 5, 1)] = 0.0
    values[1 :: max(count // 4, 1)] = -0.0
    return values.astype(of.numpy)
