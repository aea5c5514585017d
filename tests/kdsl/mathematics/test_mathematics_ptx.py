"""The PTX of the mathematics library: nothing of f64 in an f32 function, no approximate instruction, nothing in local memory."""

import re

import mathematics_reference as reference
import pytest

import kdsl
from kdsl import f32, f64
from kdsl.testing.ptx import assemble

APPROXIMATE = re.compile(r"\.approx|\.ftz|\bdiv\.full")


def ptx_of(name: str, of: str) -> str:
    apply = (reference.kernel_of_one if name in reference.ONE else reference.kernel_of_two)(getattr(kdsl, name))
    text: str = apply.ptx("sm_90", F=f32 if of == "f32" else f64)
    return text


@pytest.mark.parametrize("name", [*reference.ONE, *reference.TWO])
def test_f32_stays_f32_and_in_registers(name: str) -> None:
    ptx = ptx_of(name, "f32")
    assert ".f64" not in ptx
    assert APPROXIMATE.search(ptx) is None
    report = assemble(ptx, "sm_90")
    assert (report.spills, report.stack) == (0, 0), report.log


@pytest.mark.parametrize("name", [*reference.ONE, *reference.TWO])
def test_f64_is_exact_and_in_registers(name: str) -> None:
    ptx = ptx_of(name, "f64")
    assert ".f32" not in ptx
    assert APPROXIMATE.search(ptx) is None
    report = assemble(ptx, "sm_90")
    assert (report.spills, report.stack) == (0, 0), report.log
