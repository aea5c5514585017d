"""Every function of the mathematics library against NumPy with more bits, in units of the last place: all magnitudes, special values, hard cases.

`benchmarks/mathematics_sweep.py` does it for all f32 arguments.
"""

from typing import Any

import mathematics_reference as reference
import numpy as np
import pytest

import kdsl.testing

# where longdouble has no more bits than float64, the reference itself is off by up to 1
LIMITS = {"f32": 2.0, "f64": 2.0 if np.finfo(np.longdouble).nmant > 52 else 3.0}
COUNT = {"f32": 6000, "f64": 2000}


def check(device: Any, name: str, operands: tuple[Any, ...], exact: Any, limit: float) -> None:
    result = reference.run(device, name, operands)
    error = reference.ulps(result, exact)
    worst = int(np.argmax(error))
    shown = ", ".join(repr(operand[worst].item()) for operand in operands)
    assert error[worst] <= limit, f"{name}({shown}) is {result[worst]!r}, exactly {exact[worst]!r}: {error[worst]:.2f} ulp"


@pytest.mark.parametrize("of", reference.FLOATS)
@pytest.mark.parametrize("name", reference.ONE)
@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_one_argument(name: str, of: str, device: Any) -> None:
    operands = (reference.arguments(of, COUNT[of], 7),)
    check(device, name, operands, reference.expected(name, operands), LIMITS[of])


@pytest.mark.parametrize("of", reference.FLOATS)
@pytest.mark.parametrize("name", reference.TWO)
@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_two_arguments(name: str, of: str, device: Any) -> None:
    operands = reference.pairs(name, of, COUNT[of] // 2, 11)
    check(device, name, operands, reference.expected(name, operands), 0.0 if name in ("fmod", "remainder") else LIMITS[of])


# nearest to a multiple of pi/2 among all f32 and all f64 (Muller, Elementary Functions, 11.3); values by mpmath with 2000 bits
ANGLES: dict[str, tuple[list[float], dict[str, list[float]]]] = {
    "f32": (
        [16367173 * 2.0**72, 3.4028234663852886e38],
        {
            "sin": [1.0, -0.52187652333365854],
            "cos": [-1.6147697982476211876e-9, 0.85302103984030416],
            "tan": [-619283318.95061386812, -0.61179794983424806],
        },
    ),
    "f64": (
        [6381956970095103 * 2.0**797, 536870912.0, 1e300, 1.7976931348623157e308],
        {
            "sin": [1.0, 0.32656766301856333704, -0.81788191211590859705, 0.0049619547891840617905],
            "cos": [-4.6871659242546276111e-19, -0.94517382606089662062, -0.57538611195754904669, -0.99998768942655993746],
            "tan": [-2133485385753703843.7, -0.34551069233430391617, 1.4214488238747244124, -0.0049620158744448949005],
        },
    ),
}


@pytest.mark.parametrize("of", ANGLES)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("device", kdsl.testing.devices(), ids=str)
def test_angles_that_are_hard_to_reduce(name: str, of: str, device: Any) -> None:
    angles, values = ANGLES[of]
    x = np.array(angles, reference.FLOATS[of][0])
    check(device, name, (x,), np.array(values[name]), 1.5)


# mpmath, 22 digits: x, erf(x), erfc(x)
ERROR_FUNCTION = [
    (0.3, 0.3286267594591274161896, 0.6713732405408725838104),
    (0.8, 0.7421009647076605125898, 0.2578990352923394874102),
    (1.0, 0.8427007929497148693412, 0.1572992070502851306588),
    (1.5, 0.966105146475310727067, 0.03389485352468927293302),
    (2.5, 0.9995930479825550410604, 0.0004069520174449589395642),
    (5.0, 0.9999999999984625402056, 1.537459794428034850188e-12),
    (10.0, 1.0, 2.088487583762544757001e-45),
    (26.0, 1.0, 5.663192408856142846476e-296),
    (-0.7, -0.6778011938374184422769, 1.677801193837418442277),
    (-3.0, -0.9999779095030014145586, 1.999977909503001414559),
]


def test_the_reference_of_the_error_function() -> None:
    x, erf, erfc = (np.array(column) for column in zip(*ERROR_FUNCTION, strict=True))
    for wide, tolerance in ((np.float64, 1e-13), (np.longdouble, 2e-16)):
        np.testing.assert_allclose(reference.erf(x.astype(wide)).astype(float), erf, rtol=tolerance)
        np.testing.assert_allclose(reference.erfc(x.astype(wide)).astype(float), erfc, rtol=tolerance)
