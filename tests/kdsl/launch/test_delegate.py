"""Kernels and prepared launches are called as functions are, and are no methods."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import kdsl
from kdsl import DisjointSlice, elements, f32, kernel, thread_index

CPU = kdsl.device("cpu")


@kernel(grid=elements("y"))
def add(y: DisjointSlice[f32], a: f32 = 1.0, *, b: f32 = 0.0) -> None:
    """y += a + b."""
    i = thread_index()
    if i in y:
        y[i] += a + b


class Holder:
    """What holds them."""

    add = add
    prepared: Any = None


def test_as_attributes_of_a_class_they_are_no_methods() -> None:
    y = CPU.zeros(3, f32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Holder.prepared = add.prepare(y)
        assert Holder().add is Holder.add is add
        Holder().add(y, 2.0)
        Holder().prepared(b=1.0)
    np.testing.assert_array_equal(y.numpy(), [4.0] * 3)


def test_they_are_what_they_were_declared_as() -> None:
    assert (add.__name__, add.__module__, repr(add)) == ("add", __name__, f"<kernel {__name__}.add>")
    assert list(inspect.signature(add).parameters) == ["y", "a", "b"]
    assert add.__doc__ is not None
    assert add.__doc__.startswith("y += a + b.")
    assert pickle.loads(pickle.dumps(add)) is copy.copy(add) is copy.deepcopy(add) is add
    assert callable(add)
    assert callable(add.prepare(CPU.zeros(1, f32)))


def test_wrong_calls() -> None:
    y = CPU.zeros(3, f32)
    for call in (lambda: add(), lambda: add(y, 1.0, 2.0), lambda: add(y, c=1.0), lambda: add.prepare(y)(c=1.0), lambda: add.prepare(y)(y)):
        with pytest.raises(TypeError):
            call()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes of Python do not inherit it")
def test_calls_are_handed_on_as_they_are() -> None:
    """The flag that says so (`Py_TPFLAGS_HAVE_VECTORCALL`)."""
    for of in (functools.partial, type(add), type(add.prepare(CPU.zeros(1, f32)))):
        assert of.__flags__ & 1 << 11
