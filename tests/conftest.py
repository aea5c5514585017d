"""How many cases of a parametrised test run by default, and the comparison of devices.

All of them take a quarter of an hour on two cores. So a run without a GPU takes at most `MOST` cases of each test, spread evenly over its list, the first and
the last among them; `KDSL_ALL_TESTS=1` takes all, as a machine with a GPU does, and as a run does that names a file or a folder of tests.

Python's collector looks less often for cycles: it went through all tests and kernels again and again, a twelfth of the time.

Where there is a GPU, what tests read from it must be what they read from the CPU, byte for byte, but for `same_bits_exceptions.toml`.
"""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from kdsl.runtime.device import gpu_count
from kdsl.testing import same_bits

pytest_plugins = ["pytester"]
MOST = 10


def pytest_configure(config: pytest.Config) -> None:
    """Compare devices."""
    if gpu_count():
        same_bits.start(config)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start a test module's `RANDOM` anew for each test, so that a test has the same data on every device, whatever ran before it in the same process."""
    random = getattr(getattr(item, "module", None), "RANDOM", None)
    if isinstance(random, np.random.Generator):
        random.bit_generator.state = item.config.stash.setdefault(_STATES, {}).setdefault(item.module.__name__, random.bit_generator.state)  # type: ignore[attr-defined]


_STATES: pytest.StashKey[dict[str, Any]] = pytest.StashKey()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases between."""
    if os.environ.get("KDSL_ALL_TESTS", "0") not in ("", "0") or config.args != config.getini("testpaths") or gpu_count():
        return
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    chosen: set[pytest.Item] = set()
    for alike in cases.values():
        if len(alike) <= MOST:
            chosen.update(alike)
        else:
            chosen.update(alike[number * (len(alike) - 1) // (MOST - 1)] for number in range(MOST))
    left_out = [item for item in items if item not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in chosen]


def pytest_collection_finish() -> None:
    """What is there by now stays to the end."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
