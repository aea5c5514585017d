"""`//` and `%` of floats are Python's, to the last bit and to the sign of zero."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from ir_evaluator import run
from text import kernel_of

NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.1, -0.3, 2.5, 7.0, -7.0, 1e10, -1e-10, 1e-40, 3e-45, -3e38, 1e38, 0.7, math.inf, -math.inf)


@pytest.mark.parametrize("of", ["f32", "f64"])
def test_same_as_python(of: str) -> None:
    kernel = kernel_of("y[0] = a // b\ny[1] = a % b", f"y: SliceMut[{of}], a: {of}, b: {of}", "grid=1, block=1")
    numpy_type = np.float32 if of == "f32" else np.float64
    for a, b in itertools.product([numpy_type(v) for v in NUMBERS], repeat=2):
        y = np.full(2, 123, numpy_type)
        run(kernel, y=y, a=a, b=b)
        if b == 0 or math.isinf(a):
            assert np.isnan(y[1])
            continue
        with np.errstate(all="ignore"):
            expected = (float(a) // float(b), float(a) % float(b)) if of == "f64" else (a // b, a % b)
        assert y[1].tobytes() == numpy_type(expected[1]).tobytes(), (a, b)
        assert y[0].tobytes() == numpy_type(expected[0]).tobytes(), (a, b)
