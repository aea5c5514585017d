"""Failed checks: what the record means, who raises it, and the end of the program."""

from __future__ import annotations

import ctypes
import os
import pickle
import struct
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest

from kdsl.errors import BoundsError
from kdsl.ir.abi import RECORD_FORMAT
from kdsl.ir.nodes import Location, Site
from kdsl.lang.types import f32
from kdsl.runtime.device import device
from kdsl.runtime.record import Failure, bounds_error, register_sites

PLACE = Location("/home/somebody/mistakes.py", 31, 8, 31, 19, "scatter")
SITES = (
    Site("store", "y", PLACE, None),
    Site("load", "tile", Location("/home/somebody/helper.py", 3, 0, 3, 5, "f", PLACE), (4, 16)),
    Site("assert", "index is sorted", PLACE, None),
    Site("assert", "", PLACE, None),
)
NUMBER = register_sites("scatter", SITES)
CPU = device("cpu")


def fail(site: int = 0, *, kernel: int = NUMBER, dimension: int = 0, index: int = 7, extent: int = 4) -> None:
    """Do what a failing thread does."""
    ctypes.c_uint32.from_address(CPU.failures.claim).value = 1
    record = struct.pack(RECORD_FORMAT, 1, kernel, site, dimension, index, extent, 1, 2, 3, 33, 0, 0)
    ctypes.memmove(CPU.failures.record, record, len(record))


def caught(action: Any) -> BoundsError:
    with pytest.raises(BoundsError) as found:
        action()
    assert ctypes.c_uint32.from_address(CPU.failures.claim).value == 0
    CPU.synchronize()  # nothing is left
    return found.value


def test_the_message() -> None:
    fail()
    error = caught(CPU.synchronize)
    text = str(error)
    for words in (
        "scatter",
        "mistakes.py:31",
        "array y",
        "index 7",
        "4 elements",
        "block (1, 2, 3)",
        "thread (33, 0, 0)",
        "write",
        "left out",
    ):
        assert words in text
    assert (error.kernel, error.array, error.index, error.extent) == ("scatter", "y", 7, 4)
    assert (error.block, error.thread, error.location) == ((1, 2, 3), (33, 0, 0), "/home/somebody/mistakes.py:31:9")
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


def test_other_messages() -> None:
    fail(1, dimension=1, index=-1, extent=16)
    text = str(caught(CPU.synchronize))
    for words in (
        "read outside array tile",
        "index -1 of dimension 1",
        "16 elements",
        "gave 0",
        "helper.py:3",
        "called from /home/somebody/mistakes.py:31:9",
    ):
        assert words in text
    fail(2)
    error = caught(CPU.synchronize)
    assert "assertion failed: index is sorted" in str(error)
    assert (error.array, error.index, error.extent, error.kernel) == (None, None, None, "scatter")
    fail(3)
    assert "assertion failed, in block" in str(caught(CPU.synchronize))
    fail(kernel=10**6)
    assert "unknown kernel" in str(caught(CPU.synchronize))


@pytest.mark.parametrize("how", ["device", "stream", "default stream", "event", "numpy"])
def test_every_synchronisation_raises(how: str) -> None:
    array, event, stream = CPU.zeros(2, f32), CPU.event(), CPU.stream()
    actions = {
        "device": CPU.synchronize, "stream": stream.synchronize, "default stream": CPU.default_stream.synchronize,
        "event": event.synchronize, "numpy": array.numpy,
    }  # fmt: skip
    fail()
    caught(actions[how])
    np.testing.assert_array_equal(array.numpy(), [0, 0])


def test_making_and_filling_arrays_does_not_raise() -> None:
    fail()
    CPU.array(np.zeros(3, np.float32)).fill(1)
    caught(CPU.synchronize)


def test_one_thread_gets_the_failure() -> None:
    fail()
    errors: list[BoundsError] = []

    def synchronize() -> None:
        try:
            CPU.synchronize()
        except BoundsError as error:
            errors.append(error)

    threads = [threading.Thread(target=synchronize) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 1


def test_a_record_is_read_as_it_is_laid_out() -> None:
    data = struct.pack(RECORD_FORMAT, 1, 2, 3, 4, -5, 6, 7, 8, 9, 10, 11, 12)
    assert Failure.unpack(data.ljust(64, b"\0")) == Failure(1, 2, 3, 4, -5, 6, (7, 8, 9), (10, 11, 12))
    assert bounds_error(Failure(1, 0, 0, 0, 0, 0, (0, 0, 0), (0, 0, 0))).kernel == ""


# ---------------------------------------------------------------------------------------------------------------------- end of the program

PROGRAM = """
import atexit, ctypes, os, struct, sys
atexit.register(print, "earlier handler")
from kdsl.ir.abi import RECORD_FORMAT
from kdsl.ir.nodes import Location, Site
from kdsl.runtime.device import device
from kdsl.runtime.record import register_sites
number = register_sites("scatter", [Site("store", "y", Location("mistakes.py", 31, 8, 31, 19), None)])
cpu = device("cpu")
def fail():
    record = struct.pack(RECORD_FORMAT, 1, number, 0, 0, 7, 4, 0, 0, 0, 0, 0, 0)
    ctypes.memmove(cpu.failures.record, record, len(record))
atexit.register(print, "later handler")
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    code = PROGRAM + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_the_end_of_the_program_reports_a_failure() -> None:
    ended = run("fail()\nprint('done')")
    assert ended.returncode == 1
    assert "kdsl.errors.BoundsError: kernel scatter, mistakes.py:31" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert sorted(ended.stdout.split("\n")) == ["", "done", "earlier handler", "later handler"]


def test_the_end_of_a_program_without_failures() -> None:
    ended = run("print('done')")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert run("sys.exit(3)").returncode == 3


def test_a_failure_that_was_seen_is_not_reported_again() -> None:
    ended = run("fail()\ntry: cpu.synchronize()\nexcept Exception as e: print(type(e).__name__)")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "BoundsError" in ended.stdout


def test_a_forked_child_does_not_report_its_parents_failure() -> None:
    ended = run("""
        fail()
        child = os.fork()
        if child == 0:
            cpu.synchronize()
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """)
    assert ended.returncode == 1
    assert ended.stderr.count("BoundsError") == 1
