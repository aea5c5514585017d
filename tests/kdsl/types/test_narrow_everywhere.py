"""f16 and bf16 wherever a type can stand: arrays, parameters, structs, literals, promotion, exchange between lanes, the host side."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, TypeVar

import ml_dtypes
import numpy as np
import pytest
from rounding import BOTH, EVERY, F16, Narrow, assert_same, specials, tricky

import kdsl
from kdsl import DisjointSlice, Slice, SliceMut, bf16, elements, f16, f32, f64, floor, i8, kernel, struct, thread_index, u8
from kdsl.backend.cpu import HostCpu, compile_assembly
from kdsl.frontend import folding
from kdsl.lang.numbers import host_number
from kdsl.lang.types import BF16 as BF16_TYPE
from kdsl.lang.types import DTYPES, dtype, promote
from kdsl.lang.types import F16 as F16_TYPE
from kdsl.testing import devices
from kdsl.testing.ptx import assemble

T = TypeVar("T", f16, bf16)
U = TypeVar("U")
every_device = pytest.mark.parametrize("device", devices(), ids=str)
narrow = pytest.mark.parametrize("of", BOTH, ids=lambda of: of.type.name)

# ------------------------------------------------------------------------------------------------------------------------- arguments


@kernel(grid=elements("y"))
def first(y: DisjointSlice[f64], h: f16, b: bf16, n: i8, d: f64) -> None:
    """The 16-bit ones in front of wider ones."""
    i = thread_index()
    if i in y:
        y[i] = f64(h) if i == 0 else f64(b) if i == 1 else f64(n) if i == 2 else d


@kernel(grid=elements("y"))
def last(d: f64, n: i8, y: DisjointSlice[f64], b: bf16, h: f16) -> None:
    """The same behind them."""
    i = thread_index()
    if i in y:
        y[i] = f64(h) if i == 0 else f64(b) if i == 1 else f64(n) if i == 2 else d


@every_device
@pytest.mark.parametrize(
    "value", [0, 1, 42, 65500, 1e-7, -0.0, 65519.99, math.inf, -math.inf, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8 + 2.0**-40]
)
def test_scalars_in_any_order(device: Any, value: float) -> None:
    wanted = [of.rounded(np.array([float(value)]))[0] for of in BOTH]
    y = device.zeros(4, f64)
    first(y, value, value, -3, 0.1)
    assert_same(y.numpy(), np.array([*wanted, -3.0, 0.1]))
    y.fill(0)
    last(0.1, -3, y, value, value)
    assert_same(y.numpy(), np.array([*wanted, -3.0, 0.1]))


@every_device
def test_scalars_of_numpy_and_nan(device: Any) -> None:
    y = device.zeros(4, f64)
    first(y, np.float16(1.5), ml_dtypes.bfloat16(2.5), np.int8(7), np.float32(0.5))
    assert y.numpy().tolist() == [1.5, 2.5, 7.0, 0.5]
    first(y, ml_dtypes.bfloat16(1.5), np.float16(2.5), 7, math.nan)
    assert y.numpy()[:2].tolist() == [1.5, 2.5]
    first(y, math.nan, math.nan, 7, 0)
    assert np.isnan(y.numpy()[:2]).all()


@pytest.mark.parametrize(("arguments", "name"), [((65520.0, 0.0), "h"), ((70000, 0), "h"), ((0.0, 3.4e38), "b"), ((0, 10**40), "b")])
def test_a_finite_number_does_not_become_infinite(arguments: tuple[float, float], name: str) -> None:
    y = kdsl.device("cpu").zeros(4, f64)
    with pytest.raises(OverflowError, match=f"first: parameter {name} is of type b?f16: .*it would become infinite"):
        first(y, *arguments, 0, 0.0)


@struct
class Halves:
    """Fields of every size, so that the narrow ones stand at odd places."""

    flag: i8
    """One byte."""
    h: f16
    """Two bytes behind one."""
    wide: f64
    """Eight bytes."""
    b: bf16
    """Two bytes behind eight."""


@kernel(grid=elements("y"))
def fields(y: DisjointSlice[f64], p: Halves) -> None:
    """The fields, as f64."""
    i = thread_index()
    if i in y:
        y[i] = f64(p.h) if i == 0 else f64(p.b) if i == 1 else f64(p.flag) if i == 2 else p.wide


@every_device
def test_fields_of_structs(device: Any) -> None:
    y = device.zeros(4, f64)
    given = Halves(flag=-1, h=0.1, wide=0.1, b=0.1)
    fields(y, given)
    assert y.numpy().tolist() == [float(np.float16(0.1)), 0.10009765625, -1.0, 0.1]
    assert (given.h, given.b) == (float(np.float16(0.1)), 0.10009765625)
    with pytest.raises(OverflowError, match="field h of Halves"):
        Halves(flag=0, h=1e6, wide=0, b=0)


@kernel(grid=elements("y"))
def scaled(y: DisjointSlice[T], x: Slice[T], by: T) -> None:
    """The type variable decides the scalar's type."""
    i = thread_index()
    if i in y:
        y[i] = x[i] * by


@every_device
@narrow
def test_a_scalar_of_a_type_variable(device: Any, of: Narrow) -> None:
    bits = tricky(of, 1000, 40)
    y = device.zeros(1000, of.type)
    scaled(y, device.array(bits.view(of.numpy)), 0.1)
    with np.errstate(invalid="ignore"):
        wanted = of.rounded(of.values(bits) * of.rounded(np.array([0.1]))[0])
    assert_same(of.values(y.numpy().view(np.uint16)), wanted)


# ---------------------------------------------------------------------------------------------------------------------------- arrays


@kernel(grid=elements("x"), block=64)
def through_arrays(y: SliceMut[T], x: Slice[T]) -> None:
    """Reverse each block through shared memory, and through local arrays in registers and in memory."""
    held = kdsl.shared_array(64, x.dtype)
    own = kdsl.local_array(4, x.dtype)
    i = thread_index()
    at = kdsl.thread_idx.x
    held[at] = x[i] if i < len(x) else x.dtype(0)
    kdsl.sync_threads()
    for k in range(4):
        own[k] = held[(63 - at + k) % 64]
    if i < len(x):
        total = own[at % 4]
        for k in range(1, 4):
            total = max(total, own[(at + k) % 4])
        y[i] = total


@every_device
@narrow
def test_shared_and_local_arrays(device: Any, of: Narrow) -> None:
    values = of.rounded(np.random.default_rng(41).standard_normal(256))
    y = device.zeros(256, of.type)
    through_arrays(y, device.array(of.of(values).view(of.numpy)))
    blocks = values.reshape(-1, 64)
    places = (63 - np.arange(64)[:, None] + np.arange(4)) % 64
    np.testing.assert_array_equal(of.values(y.numpy().view(np.uint16)), blocks[:, places].max(axis=2).ravel())


@every_device
@narrow
def test_host_arrays(device: Any, of: Narrow) -> None:
    x = device.array(EVERY.view(of.numpy))
    assert x.dtype is of.type
    assert x.numpy().dtype == of.numpy
    assert x.numpy().tobytes() == EVERY.tobytes()
    y = device.full(5, 0.1, of.type)
    assert of.values(y.numpy().view(np.uint16)).tolist() == [of.rounded(np.array([0.1]))[0]] * 5
    y.fill(-0.0)
    assert np.signbit(of.values(y.numpy().view(np.uint16))).all()
    assert device.zeros(3, of.type).numpy().view(np.uint16).tolist() == [0, 0, 0]
    with pytest.raises(OverflowError, match="would become infinite"):
        device.full(1, 1e39, of.type)


# ------------------------------------------------------------------------------------------------------------------------- exchange


@kernel(grid=elements("x"), block=64)
def exchanged(y: SliceMut[T], x: Slice[T]) -> None:
    """Sum, largest and smallest over a warp, what a neighbour has, the sum of the lanes up to one's own, and how many have the same."""
    i = thread_index()
    value = x[i]
    total, most, least = kdsl.warp_sum(value), kdsl.warp_max(value), kdsl.warp_min(value)
    other = kdsl.shuffle_xor(value, 3)
    y[i] = total
    y[i + len(x)] = most
    y[i + 2 * len(x)] = least
    y[i + 3 * len(x)] = other
    y[i + 4 * len(x)] = kdsl.warp_prefix_sum(value)
    y[i + 5 * len(x)] = y.dtype(kdsl.popcount(kdsl.warp_match_any(floor(value))))


@every_device
@narrow
def test_exchange_between_lanes(device: Any, of: Narrow) -> None:
    values = of.rounded(np.random.default_rng(42).standard_normal(256))
    y = device.zeros(6 * 256, of.type)
    exchanged(y, device.array(of.of(values).view(of.numpy)))
    found = of.values(y.numpy().view(np.uint16)).reshape(6, 8, 32)
    warps = values.reshape(8, 32)
    total = warps
    for distance in (16, 8, 4, 2, 1):
        total = of.rounded(total + total[:, np.arange(32) ^ distance])
    assert_same(found[0], total)
    np.testing.assert_array_equal(found[1], np.repeat(warps.max(axis=1), 32).reshape(8, 32))
    np.testing.assert_array_equal(found[2], np.repeat(warps.min(axis=1), 32).reshape(8, 32))
    np.testing.assert_array_equal(found[3], warps[:, np.arange(32) ^ 3])
    prefix = warps.copy()
    for distance in (1, 2, 4, 8, 16):
        takes = np.arange(32) & distance != 0
        below = prefix[:, np.arange(32) & -(2 * distance) | (distance - 1)]
        prefix = np.where(takes, of.rounded(below + prefix), prefix)
    assert_same(found[4], prefix)
    bits = np.floor(warps).view(np.uint64)
    np.testing.assert_array_equal(found[5], (bits[:, :, None] == bits[:, None, :]).sum(axis=2))


@kernel(grid=(3,), block=96)
def over_a_block(y: SliceMut[T], x: Slice[T]) -> None:
    """Sum and largest over a block, whose partial results lie in shared memory."""
    i = thread_index()
    total, most = kdsl.block_sum(x[i]), kdsl.block_max(x[i])
    y[i] = total
    y[i + len(x)] = most


@every_device
@narrow
def test_reductions_over_a_block(device: Any, of: Narrow) -> None:
    values = of.rounded(np.random.default_rng(44).integers(-20, 20, 288).astype(np.float64) / 8)
    y = device.zeros(2 * 288, of.type)
    over_a_block(y, device.array(of.of(values).view(of.numpy)))
    found = of.values(y.numpy().view(np.uint16)).reshape(2, 3, 96)
    blocks = values.reshape(3, 96)
    sums = blocks.reshape(3, 3, 32)
    for distance in (16, 8, 4, 2, 1):
        sums = of.rounded(sums + sums[:, :, np.arange(32) ^ distance])
    partial = np.concatenate([sums[:, :, 0], np.full((3, 29), -0.0)], axis=1)
    for distance in (16, 8, 4, 2, 1):
        partial = of.rounded(partial + partial[:, np.arange(32) ^ distance])
    assert_same(found[0], np.repeat(partial[:, :1], 96, axis=1))
    np.testing.assert_array_equal(found[1], np.repeat(blocks.max(axis=1), 96).reshape(3, 96))


# ----------------------------------------------------------------------------------------------------------------- types, literals


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ("f16", "f32", "f32"), ("bf16", "f32", "f32"), ("f16", "bf16", "f32"), ("f16", "f64", "f64"), ("i8", "f16", "f16"), ("u8", "f16", "f16"),
        ("i8", "bf16", "bf16"), ("u8", "bf16", "bf16"), ("i16", "f16", None), ("u16", "bf16", None), ("i32", "f16", None), ("bool", "f16", None),
        ("i8", "u8", "i16"), ("i16", "u16", "i32"),
    ],
)  # fmt: skip
def test_promotion(a: str, b: str, wanted: str | None) -> None:
    for pair in itertools.permutations((DTYPES[a], DTYPES[b])):
        found = promote(*pair)
        assert (found.name if found else None) == wanted


@kernel(grid=elements("y"))
def mixed(y: DisjointSlice[f32], h: Slice[f16], b: Slice[bf16], n: Slice[i8], m: Slice[u8]) -> None:
    """Operands of several types: sums in the type that holds both."""
    i = thread_index()
    if i in y:
        narrow_sum = h[i] + n[i]
        y[i] = h[i] + b[i] if i % 3 == 0 else narrow_sum if i % 3 == 1 else b[i] + m[i]


@every_device
def test_operands_of_several_types(device: Any) -> None:
    h, b = (of.rounded(np.random.default_rng(43).standard_normal(300) * 100) for of in BOTH)
    n, m = np.arange(300).astype(np.int8), np.arange(300).astype(np.uint8)
    y = device.zeros(300, f32)
    mixed(y, device.array(h.astype(np.float16)), device.array(b.astype(ml_dtypes.bfloat16)), device.array(n), device.array(m))
    i = np.arange(300) % 3
    bfloat = BOTH[1].rounded(b + m)
    wanted = np.where(i == 0, (h + b).astype(np.float32), np.where(i == 1, F16.rounded(h + n), bfloat))
    np.testing.assert_array_equal(y.numpy(), wanted.astype(np.float32))


@kernel(grid=elements("y"))
def literals(y: DisjointSlice[T], z: DisjointSlice[T]) -> None:
    """Literals of the type, and names that start as literals."""
    i = thread_index()
    total = 0.0
    for _ in range(3):
        total += y.dtype(0.1)
    if i in y:
        y[i] = total
        z[i] = y.dtype("-inf") if i == 0 else y.dtype(1) / 3 if i == 1 else y.dtype(1e-7)


@every_device
@narrow
def test_literals(device: Any, of: Narrow) -> None:
    y, z = device.zeros(3, of.type), device.zeros(3, of.type)
    literals(y, z)
    tenth, third, small = of.rounded(np.array([0.1, 1 / 3, 1e-7]))
    total = 0.0
    for _ in range(3):
        total = of.rounded(np.array([total + tenth]))[0]
    assert of.values(y.numpy().view(np.uint16)).tolist() == [total] * 3
    assert of.values(z.numpy().view(np.uint16)).tolist() == [-math.inf, third, small]


@kernel(grid=elements("y"))
def inexact_literal(y: DisjointSlice[f16], x: Slice[f16]) -> None:
    """2049 is no f16."""
    i = thread_index()
    if i in y:
        y[i] = x[i] + 2049


@kernel(grid=elements("y"))
def too_wide(y: DisjointSlice[f16], x: Slice[f16], n: Slice[kdsl.i16]) -> None:
    """Not every i16 is an f16."""
    i = thread_index()
    if i in y:
        y[i] = x[i] + n[i]


@kernel(grid=elements("y"))
def implicit_narrowing(y: DisjointSlice[f16], x: Slice[bf16]) -> None:
    """Neither of the two holds the other's values."""
    i = thread_index()
    if i in y:
        y[i] = x[i]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (inexact_literal, "no f16 is exactly 2049.*write it as a float, 2049.0, to have it rounded"),
        (too_wide, r"`\+` of an f16 and an i16: not every i16 is an f16.*write f16\(n\[i\]\)"),
        (implicit_narrowing, r"a bf16 does not become an f16 by itself.*write f16\(x\[i\]\)"),
    ],
)
def test_errors(wrong: Any, message: str) -> None:
    with pytest.raises(kdsl.KernelError) as caught:
        wrong.compile("cpu")
    flat = " ".join(str(caught.value).split())
    assert re.search(message, flat), flat


def test_constants_fold_as_at_run_time() -> None:
    """Folding has its own arithmetic; on all pairs of specials it agrees with exact rounding wherever it folds at all."""
    for of, to in ((BOTH[0], F16_TYPE), (BOTH[1], BF16_TYPE)):
        ends = of.values(specials(of)).tolist()
        for a, b in itertools.product(ends, ends):
            for op, exact in (("add", a + b), ("sub", a - b), ("mul", a * b)):
                folded = folding.binary(op, to, a, b)
                if folded is not None:
                    assert_same(np.array([folded]), of.rounded(np.array([exact])), (op,), (a,), (b,))
            if all(map(math.isfinite, (a, b))):
                folded = folding.fma(to, a, b, 1.0)
                if folded is not None and of is F16:  # in f64 that sum is exact
                    assert_same(np.array([folded]), of.rounded(np.array([a * b + 1.0])), (a,), (b,))
    assert dtype(np.float16) is F16_TYPE
    assert dtype(ml_dtypes.bfloat16) is BF16_TYPE
    assert host_number(F16_TYPE, 1 + 2.0**-11 + 2.0**-40) == 1 + 2.0**-10
    assert f16(0.1).dtype == np.float16
    assert float(bf16(1 + 2.0**-8 + 2.0**-40)) == 1 + 2.0**-7


# ----------------------------------------------------------------------------------------------------------- code for other targets


@kernel(grid=elements("x"))
def everything(y: SliceMut[T], x: Slice[T], u: SliceMut[U], h: T) -> None:
    """Every operation once, for targets that are not here."""
    i = thread_index()
    total = kdsl.warp_sum(x[i % len(x)])
    if i in x:
        a = x[i]
        c = kdsl.fma(a, h, total) + kdsl.sqrt(a) / h - kdsl.floor(a) * kdsl.rint(h)
        y[i] = min(c, a) if abs(c) < 1 else -max(c, kdsl.trunc(a)) % h
        u[i] = u.dtype(c)
        y[i + len(x)] = y.dtype(u[i + len(x)])


@pytest.mark.parametrize("of", [f16, bf16], ids=str)
@pytest.mark.parametrize("other", ["bool", "i32", "u64", "f64"])
@pytest.mark.parametrize("target", ["sm_80", "sm_87", "sm_90", "sm_110"])
def test_ptx_assembles(of: Any, other: str, target: str) -> None:
    assemble(everything.ptx(target, T=of, U=DTYPES[other]), target)


@pytest.mark.parametrize("of", [f16, bf16], ids=str)
@pytest.mark.parametrize("host", ["x86-64-v3", "x86-64-v4", "x86-64-v4 sapphirerapids", "aarch64", "aarch64 neoverse-v2"])
@pytest.mark.parametrize("level", [0, 3])
def test_no_library_functions_on_any_cpu(of: Any, host: str, level: int) -> None:
    """LLVM would call conversions that no library has; a call that the object does not define ends the process at run time."""
    for other in ("i64", "f64"):
        text = compile_assembly(everything.ir(T=of, U=DTYPES[other]), HostCpu(*host.split()), optimise=level)
        assert "__trunc" not in text
        assert "__extend" not in text
        assert "__gnu" not in text
