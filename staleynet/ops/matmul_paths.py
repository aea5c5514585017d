"""The ways of a matrix product through the kernels for tensor cores, and for the ordinary cores of Hopper.

Every way prepares the operands (`matmul_operands.py`), chooses a schedule (`schedules.py`), launches one product, and where there are parts along k, or a C
that the product cannot write, another kernel that combines them.
"""

import functools
from dataclasses import dataclass
from typing import Any

from kdsl import Array, Kernel, bf16, f16, f32, tensor_map
from staleynet.kernels import matmul_3xtf32, matmul_hopper, matmul_mma, matmul_wide
from staleynet.kernels.convert import Ending, combine, low_parts
from staleynet.kernels.matmul_hopper import Work
from staleynet.ops.matmul_operands import Matrix, on_hopper, packed, packed_with_low_parts, partial_products
from staleynet.ops.schedules import SCHEDULES, choose, chosen_way

ELEMENTS = {"tf32": f32, "3xtf32": f32, "bf16": bf16, "f16": f16}
"""What the operands are on their way into the tensor cores."""


@dataclass(frozen=True)
class Epilogue:
    """What becomes of the product."""

    alpha: float
    """Its factor."""
    accumulate: bool
    """Whether it is added to C."""
    bias: Array | None
    """Added to each row."""
    gelu: bool
    """Whether GELU is applied last."""

    @property
    def plain(self) -> bool:
        """Neither bias nor GELU."""
        return self.bias is None and not self.gelu


def tensor_product(c: Matrix, a: Matrix, b: Matrix, precision: str, parts: int, epilogue: Epilogue) -> None:
    """C <- alpha A B^T (+ C) and so on, with tensor cores; `b` is n x k."""
    if not on_hopper(c.base) or chosen_way() == "mma":
        _mma(c, a, b, precision, parts, epilogue)
    elif precision == "3xtf32":
        _three(c, a, b, parts, epilogue)
    else:
        _wgmma(c, a, b, precision, parts, epilogue)


def wide_product(c: Matrix, a: Matrix, b: Matrix, parts: int, epilogue: Epilogue) -> None:
    """The same in fp32 on the ordinary cores of Hopper; the bits are those of the other fp32 kernels."""
    left, a_across = _either_way(a, f32)
    right, b_across = _either_way(b, f32)
    direct = parts == 1 and epilogue.plain and c.base.dtype == f32 and (c.strides[3] == 1 or c.shape[3] == 1)
    out, sums = (c, None) if direct else partial_products(c.base, parts, *c.shape)
    if parts > 1:
        left, right = _split(left, a_across, parts), _split(right, b_across, parts)
    k = left.shape[2] if a_across else left.shape[3]
    name = _schedule("fp32", out, k, (a_across, b_across))
    rest = k % SCHEDULES["fp32"][name].depth != 0
    # Valid: the contract compares all extents, and each thread writes elements of its own tile of C.
    _wide_kernel(name, a_across, b_across, out.in_rows and out.shape[3] % 4 == 0, rest)(
        out.array,
        left.array,
        right.array,
        matmul_wide.Scale(alpha=epilogue.alpha if direct else 1.0, accumulate=int(direct and epilogue.accumulate)),
    )
    if sums is not None:
        finish(c, sums, epilogue)


def finish(c: Matrix, sums: Matrix, epilogue: Epilogue) -> None:
    """C <- the sum of the parts, and what else becomes of it."""
    offsets = epilogue.bias if epilogue.bias is not None else sums.base[:0]
    fours = c.strides[3] == 1 and c.shape[3] % 4 == 0 and all(stride % 4 == 0 for stride in c.strides[:3]) and c.base.address % 16 == 0
    # With one part several rows per thread keep more reads under way; with several the parts do, and C is small.
    # Valid: a thread per element of C.
    _combine(c.base.dtype, epilogue.bias is not None, epilogue.gelu, fours, 4 if sums.shape[0] == 1 else 1, on_hopper(c.base))(
        c.array, sums.array, offsets, Ending(alpha=epilogue.alpha, accumulate=int(epilogue.accumulate))
    )


def _wgmma(c: Matrix, a: Matrix, b: Matrix, precision: str, parts: int, epilogue: Epilogue) -> None:
    element = ELEMENTS[precision]
    if precision == "tf32":
        (left, a_across), (right, b_across) = (_along(a, f32), False), (_along(b, f32), False)
    else:
        (left, a_across), (right, b_across) = _either_way(a, element), _either_way(b, element)
    direct = parts == 1 and c.in_rows and (epilogue.plain or not epilogue.accumulate)
    out, sums = (c, None) if direct else partial_products(c.base, parts, *c.shape)
    if parts > 1:
        left, right = (_split(x, across, parts) for x, across in ((left, a_across), (right, b_across)))
    bias, gelu = direct and epilogue.bias is not None, direct and epilogue.gelu
    k = left.shape[2] if a_across else left.shape[3]
    # GELU is hidden where one warpgroup multiplies while the other one finishes its tile
    name = "128x128 in turn" if gelu else _schedule("wgmma", out, k, (a_across, b_across))
    schedule = SCHEDULES["wgmma"][name]
    arrays: list[Any] = [left.array, right.array]
    if precision == "tf32":  # the copy engine rounds
        depth = matmul_hopper.ROW_BYTES // 4
        arrays = [
            tensor_map(x, (1, 1, rows, depth), swizzle=matmul_hopper.ROW_BYTES, tf32=True)
            for x, rows in zip(arrays, (schedule.rows, schedule.columns), strict=True)
        ]
    offsets = epilogue.bias if bias and epilogue.bias is not None else _nothing(c)
    # Valid: the contract compares all extents, and a tile is written by one block.
    _wgmma_kernel(element, out.base.dtype, name, a_across, b_across, bias, gelu)(
        out.array,
        *arrays,
        offsets,
        Work(
            blocks=min(_multiprocessors(c.base), _tiles(out, schedule.rows, schedule.columns)),
            alpha=epilogue.alpha if direct else 1.0,
            accumulate=int(direct and epilogue.accumulate),
        ),
    )
    if sums is not None:
        finish(c, sums, epilogue)


def _three(c: Matrix, a: Matrix, b: Matrix, parts: int, epilogue: Epilogue) -> None:
    ready = a.shape[3] % 4 == 0  # else both are filled up with zeros, so that their extents agree
    (left, left_low), (right, right_low) = (
        (x, _low(x)) if ready and x.base.dtype == f32 and x.in_rows else packed_with_low_parts(x) for x in (a, b)
    )
    lows = [left_low, right_low]
    direct = parts == 1 and c.in_rows and epilogue.plain and c.base.dtype == f32
    out, sums = (c, None) if direct else partial_products(c.base, parts, *c.shape)
    if parts > 1:
        left, right, *lows = (_split(x, False, parts) for x in (left, right, *lows))
    name = _schedule("3xtf32", out, left.shape[3])
    schedule = SCHEDULES["3xtf32"][name]
    boxes = (matmul_3xtf32.ROWS, schedule.columns)
    high = [
        tensor_map(x.array, (1, 1, rows, matmul_3xtf32.DEPTH), swizzle=128, tf32=True) for x, rows in zip((left, right), boxes, strict=True)
    ]
    # Valid: as above.
    _three_kernel(name)(
        out.array,
        high[0],
        lows[0].array,
        high[1],
        lows[1].array,
        Work(
            blocks=min(_multiprocessors(c.base), _tiles(out, matmul_3xtf32.ROWS, schedule.columns)),
            alpha=epilogue.alpha if direct else 1.0,
            accumulate=int(direct and epilogue.accumulate),
        ),
    )
    if sums is not None:
        finish(c, sums, epilogue)


def _mma(c: Matrix, a: Matrix, b: Matrix, precision: str, parts: int, epilogue: Epilogue) -> None:
    element = ELEMENTS[precision]
    rounds = precision == "tf32"
    left, right = (x if x.base.dtype == element and x.in_rows and not rounds else packed(x, element, round_to_tf32=rounds) for x in (a, b))
    direct = parts == 1 and epilogue.plain
    out, sums = (c, None) if direct else partial_products(c.base, parts, *c.shape)
    if parts > 1:
        left, right = left.split(parts), right.split(parts)
    name = _schedule("mma", out, left.shape[3])
    strides = out.strides[:3] if out.strides[3] == 1 else (1,)
    pairs = (
        c.base.device.target != "cpu" and out.shape[3] % 2 == 0 and all(stride % 2 == 0 for stride in strides) and out.base.address % 8 == 0
    )
    # Valid: the contract compares all extents, copies read what `valid` leaves, and each thread writes elements of its own.
    _mma_kernel(element, out.base.dtype, name, pairs)(
        out.array,
        left.array,
        right.array,
        Ending(alpha=epilogue.alpha if direct else 1.0, accumulate=int(direct and epilogue.accumulate)),
    )
    if sums is not None:
        finish(c, sums, epilogue)


# ---------------------------------------------------------------------------------------------------------------------------- operands


def _either_way(x: Matrix, element: Any) -> tuple[Matrix, bool]:
    """Matrices that the copy engine reads, and whether they are given transposed."""
    if x.base.dtype == element:
        if x.in_rows:
            return x, False
        if x.turned.in_rows:
            return x.turned, True
    return packed(x, element), False


def _along(x: Matrix, element: Any) -> Matrix:
    """Matrices that the copy engine reads, with rows along k."""
    return x if x.base.dtype == element and x.in_rows else packed(x, element)


def _split(x: Matrix, across: bool, parts: int) -> Matrix:
    return x.turned.split(parts).turned if across else x.split(parts)


def _low(x: Matrix) -> Matrix:
    """What is left of x beside its rounding to tf32."""
    p, q, rows, columns = x.shape
    flat = x.base.device.empty(max(p * q * rows * columns, 1), f32)
    made = Matrix(flat, x.shape, (q * rows * columns, rows * columns, columns, 1))
    # Valid: a thread writes elements of its own.
    _low_kernel()(made.array, x.array)
    return made


def _nothing(c: Matrix) -> Array:
    """An array of f32 without elements."""
    return _empty(c.base.device)


@functools.cache
def _empty(device: Any) -> Array:
    made: Array = device.empty(0, f32)
    return made


# ---------------------------------------------------------------------------------------------------------------------------- kernels


def _multiprocessors(x: Array) -> int:
    return int(getattr(x.device, "multiprocessors", 1))


def _tiles(c: Matrix, rows: int, columns: int) -> int:
    p, q, m, n = c.shape
    return p * q * -(-m // rows) * -(-n // columns)


def _schedule(family: str, c: Matrix, k: int, across: tuple[bool, bool] = (False, False)) -> str:
    p, q, m, n = c.shape
    return choose(family, c.base.device.target, _multiprocessors(c.base), c.base.device.shared_limit, (m, n, k, p * q), across)


@functools.cache
def _wgmma_kernel(element: Any, result: Any, name: str, a_across: bool, b_across: bool, bias: bool, gelu: bool) -> Kernel:
    schedule = SCHEDULES["wgmma"][name]
    return matmul_hopper.product(element, result, schedule, a_across=a_across, b_across=b_across, bias=bias, gelu=gelu)


@functools.cache
def _low_kernel() -> Kernel:
    return low_parts()


@functools.cache
def _three_kernel(name: str) -> Kernel:
    return matmul_3xtf32.product(SCHEDULES["3xtf32"][name])


@functools.cache
def _wide_kernel(name: str, a_across: bool, b_across: bool, vectors: bool, rest: bool) -> Kernel:
    return matmul_wide.product(SCHEDULES["fp32"][name], a_across=a_across, b_across=b_across, vectors=vectors, rest=rest)


@functools.cache
def _mma_kernel(element: Any, result: Any, name: str, vectors: bool) -> Kernel:
    return matmul_mma.product(element, result, SCHEDULES["mma"][name], vectors=vectors)


@functools.cache
def _combine(result: Any, bias: bool, gelu: bool, fours: bool, down: int, early: bool) -> Kernel:
    return combine(result, bias=bias, gelu=gelu, each=4 if fours else 1, down=down, early=early)
