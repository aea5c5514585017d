"""The order of blocks on the CPU: ascending, or for tests a pseudo-random one, so that a kernel that depends on the order shows.

Leaves out how blocks are run (`cpu.py`).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kdsl.errors import DeviceError


def _from_environment() -> int | None:
    text = os.environ.get("KDSL_SHUFFLE_BLOCKS", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise DeviceError(f"KDSL_SHUFFLE_BLOCKS is a seed, a whole number from 0 on, not {text!r}")
    return int(text)


class _Shuffle:
    """Whether blocks are shuffled, and how."""

    def __init__(self) -> None:
        self.seed: int | None = None
        self.is_known = False
        self.launches: Iterator[int] = itertools.count()


_shuffle: Final = _Shuffle()


def shuffle_seed() -> int | None:
    """The seed of the shuffled order: of `shuffled`, else of KDSL_SHUFFLE_BLOCKS; None for the ascending one."""
    if not _shuffle.is_known:
        _shuffle.seed, _shuffle.is_known = _from_environment(), True
    return _shuffle.seed


def shuffled_order(blocks: int) -> npt.NDArray[Any]:
    """The blocks of a launch in an order of its own, which depends on the seed, the number of blocks and how many launches came before."""
    return np.random.default_rng([shuffle_seed() or 0, next(_shuffle.launches)]).permutation(blocks)


@contextmanager
def shuffled(seed: int | None) -> Iterator[None]:
    """Run the blocks of all launches on the CPU inside in a pseudo-random order, one by one; None for the ascending one."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise ValueError(f"the seed of the order of blocks is an int from 0 on, or None, not {seed!r}")
    before, counter = shuffle_seed(), _shuffle.launches
    _shuffle.seed, _shuffle.launches = seed, itertools.count()
    try:
        yield
    finally:
        _shuffle.seed, _shuffle.launches = before, counter
