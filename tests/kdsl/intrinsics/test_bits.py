"""Operations on the bits of integers, at run time and at compile time, against Python."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from written import BLOCKS, numbers, poison, written

from kdsl.backend.cpu import HostCpu, compile_assembly
from kdsl.lang.types import DTYPES, DType, wrap
from kdsl.testing import devices

DEVICES = pytest.mark.parametrize("device", devices(), ids=str)
INTEGERS = [of for of in DTYPES.values() if of.is_integer]


def pattern(of: DType, value: int) -> str:
    return f"{value & ((1 << of.bits) - 1):0{of.bits}b}"


MODELS: dict[str, Any] = {
    "popcount": lambda of, x: pattern(of, x).count("1"),
    "leading_zeros": lambda of, x: of.bits - len(pattern(of, x).lstrip("0")),
    "trailing_zeros": lambda of, x: of.bits - len(pattern(of, x).rstrip("0")),
    "reverse_bits": lambda of, x: wrap(of, int(pattern(of, x)[::-1], 2)),
}


def values(of: DType, count: int, seed: int) -> Any:
    """Every value of a narrow type, else random ones with few bits, with many, and the edges."""
    if of.bits <= 8:
        return np.arange(of.minimum, of.maximum + 1).astype(of.numpy)
    found = numbers(count, of, seed)
    found[::2] >>= found[::2].dtype.type(3) * (np.arange(len(found[::2])) % (of.bits // 3)).astype(of.numpy)
    found[:5] = [0, 1, of.minimum, of.maximum, of.maximum - 1]
    return found


@DEVICES
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_counts_and_reversal(device: Any, of: DType) -> None:
    body = "i = thread_index()\nif i in x:\n" + "".join(f"    y[{n} * len(x) + i] = {name}(x[i])\n" for n, name in enumerate(MODELS))
    kernel = written(f"x: Slice[{of}], y: SliceMut[{of}]", body, BLOCKS[2], 'elements("x")')
    x = values(of, 300, of.bits)
    y = device.array(poison(4 * len(x), of))
    kernel(device.array(x), y)
    for model, part in zip(MODELS.values(), np.split(y.numpy(), 4), strict=True):
        assert [int(v) for v in part] == [model(of, int(v)) for v in x]


@DEVICES
@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_the_upper_half_of_a_product(device: Any, of: DType) -> None:
    body = "i = thread_index()\nif i in x:\n    y[i] = multiply_high(x[i], z[i])\n    y[len(x) + i] = multiply_high(x[i], 3)"
    kernel = written(f"x: Slice[{of}], z: Slice[{of}], y: SliceMut[{of}]", body, BLOCKS[1], 'elements("x")')
    x = values(of, 300, 1)
    z = np.roll(values(of, 300, 2), 1)
    y = device.array(poison(2 * len(x), of))
    kernel(device.array(x), device.array(z), y)
    expected = [wrap(of, int(a) * int(b) >> of.bits) for a, b in zip(x, z, strict=True)]
    expected += [wrap(of, int(a) * 3 >> of.bits) for a in x]
    assert [int(v) for v in y.numpy()] == expected


@pytest.mark.parametrize("of", INTEGERS, ids=str)
def test_constants_fold_to_the_same(of: DType) -> None:
    for value in (0, 1, 5, of.maximum, of.minimum):
        for name, model in MODELS.items():
            assert written("", f'static_assert({name}({of}({value})) == {model(of, value)}, "{name}")').ir()
        assert written("", f'static_assert(multiply_high({of}({value}), {of}(77)) == {value * 77 >> of.bits}, "product")').ir()


@pytest.mark.parametrize(
    ("name", "instruction"),
    [("popcount", "popc.b64"), ("leading_zeros", "clz.b64"), ("reverse_bits", "brev.b64"), ("multiply_high", "mul.hi.u64")],
)
def test_one_instruction(name: str, instruction: str) -> None:
    arguments = "x, z" if name == "multiply_high" else "x"
    assert instruction in written("x: u64, z: u64, y: SliceMut[u64]", f"y[0] = {name}({arguments})").ptx("sm_80")


@pytest.mark.parametrize("generation", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_no_processor_needs_a_library(generation: str) -> None:
    """Vectors of lanes, optimised or not, are computed by instructions alone."""
    calls = [
        *(f"{name}(v)" for name in MODELS),
        "multiply_high(v, x[0])",
        "warp_xor(v)",
        "warp_prefix_sum(v)",
        "x.dtype(warp_match_any(v))",
    ]
    body = "t = thread_index()\nv = x[t]\n" + "".join(f"y[t + {n}] = {call}\n" for n, call in enumerate(calls))
    for of in ("u8", "i32", "u64"):
        for optimise in (0, 3):
            text = compile_assembly(written(f"x: Slice[{of}], y: SliceMut[{of}]", body, 96).ir(), HostCpu(generation), optimise=optimise)
            assert not re.findall(r"^\s*(?:callq?|bl)\s+(?!.*(?:kdsl|check|record)).*", text, re.MULTILINE)
