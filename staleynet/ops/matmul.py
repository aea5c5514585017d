"""The matrix product C <- act(alpha A B + bias) (+ C) of strided operands, in batches along two axes, in fp32 or with tensor cores.

Left out: how operands are prepared for tensor cores (`matmul_operands.py`), and the ways through their kernels (`matmul_paths.py`).
"""

import operator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from kdsl import Array, Kernel, LaunchError, bf16, f16, f32, threads
from staleynet.kernels.matmul import Product, matmul_naive, matmul_register_blocked, matmul_tiled
from staleynet.kernels.matmul_cached import Schedule, cache_blocked
from staleynet.ops.checks import check_length, check_size
from staleynet.ops.matmul_operands import Matrix, along_k, nothing, on_hopper, packed, parts_along_k, steps_of_part
from staleynet.ops.matmul_paths import Epilogue, fp32_product, tensor_product, through

Version: TypeAlias = Literal["naive", "tiled", "register_blocked"]
"""The names of the kernels, from the simplest to the fastest."""

Precision: TypeAlias = Literal["fp32", "3xtf32", "tf32", "bf16", "f16"]
"""How a product is computed."""

_LARGE = 1 << 21
"""Products of numbers from which on large tiles are worth their while on a GPU."""
_KERNELS = {"naive": matmul_naive, "tiled": matmul_tiled, "register_blocked": matmul_register_blocked}
"""All of them give the same bits."""
_DEPTH = 128
"""Columns of a tile of A on a CPU: so many rows of a panel of B take a third of a level-1 cache."""
_BLOCKED_ON_CPU = tuple(
    (rows, columns, cost, cache_blocked(Schedule(rows, columns, _DEPTH)))
    for rows, columns, cost in ((256, 512, 1.0), (256, 256, 1.02), (128, 128, 1.06), (64, 64, 1.15), (32, 32, 1.3))
)
"""The register-blocked version for a CPU with tiles of several sizes, which change no bit: their rows and columns, what an element of C costs with the copying
of tiles (as measured, with the largest ones 1), and the kernel.
"""
_ADDED_ON_CPU = cache_blocked(Schedule(128, 128, _DEPTH), sums_apart=True)
"""The same for sums that are added to C and do not come about in one step."""


def _blocked_on_cpu(batch: int, m: int, n: int, k: int, *, is_added: bool) -> Kernel:
    """The register-blocked kernel with the schedule that suits a CPU and the sizes; `is_added` says whether C is one to which the product is added."""
    if is_added and k > _DEPTH:
        return _ADDED_ON_CPU
    workers = threads()

    def cost(entry: tuple[int, int, float, Kernel]) -> float:
        """What an element costs if all threads take the same number of tiles, and some may wait for the others' last ones."""
        rows, columns, factor, _ = entry
        blocks = max(batch * -(-m // rows) * -(-n // columns), 1)
        return factor * -(-blocks // workers) / blocks

    return min(_BLOCKED_ON_CPU, key=cost)[3]


@dataclass(frozen=True)
class Operand:
    """How a batch of matrices lies in an array: element (i, j) of the pair (sequence s, head h) is `array[s * sequence + h * head + i * row
    + j * column]`.
    """

    array: Array
    """The memory, of one dimension: f32, bf16 or f16."""
    row: int
    """Distance between neighbouring rows, in elements, not negative."""
    column: int
    """Distance between neighbouring columns, in elements, not negative."""
    sequence: int = 0
    """Distance between neighbouring matrices along the first batch axis, in elements; 0 reads the same matrix for all."""
    head: int = 0
    """Distance between neighbouring matrices along the second batch axis, in elements; 0 reads the same matrix for all."""


def row_major(array: Array, columns: int, *, sequence: int = 0, head: int = 0) -> Operand:
    """The matrix that lies row by row in `array`, `columns` elements from one row to the next."""
    return Operand(array, columns, 1, sequence, head)


def transposed(operand: Operand) -> Operand:
    """The same memory with rows and columns exchanged; nothing is copied."""
    return replace(operand, row=operand.column, column=operand.row)


def matmul(
    c: Operand,
    a: Operand,
    b: Operand,
    *,
    m: int,
    n: int,
    k: int,
    sequences: int = 1,
    heads: int = 1,
    alpha: float = 1.0,
    accumulate: bool = False,
    bias: Array | None = None,
    activation: Literal["gelu"] | None = None,
    precision: Precision = "fp32",
    version: Version | None = None,
) -> None:
    """C <- act(alpha A B + bias) (+ C) for each of `sequences` * `heads` pairs of matrices; `bias` has n elements of f32, one per column of C.

    A is m x k, B is k x n, C is m x n. Elements of `c.array` that C does not contain are left alone. With k = 0 the product is 0, and C becomes
    act(bias) (+ C).

    The order is that of a layer with a residual connection: the factor, then the bias, then the activation (GELU in its tanh form, or none), and with
    `accumulate` last of all what is in C (the residual) is added. A C of bf16 or f16 is rounded at the end; in some ways through the kernels of `wgmma` what is
    added to it is rounded before, too.

    `precision` says how:
    - "fp32": all arrays are f32, and every element is summed along k in ascending order with fused multiply-adds, whatever the device, so the bits depend on
      the operands only.
    - "3xtf32": on tensor cores from tf32 parts, with errors like those of fp32. Where there is no `wgmma` sums are computed as in fp32.
    - "tf32", "bf16", "f16": operands are rounded to that type (to nearest even), unless their arrays hold it, and multiplied on tensor cores with sums in
      f32.
    Where C is small and k is long, the sums of a few parts along k are computed so, and added in ascending order; how many is a function of the shape and the
    precision alone (`parts_along_k`). For all but fp32 A, B and C may each be f32, bf16 or f16. They give the same bits in each run, not on each device.

    `version` names one of the kernels for fp32 that the model began with; without it the fastest is taken.

    Raises `ValueError` for a negative size or stride, for a C that reaches one element on two ways, for an unknown version, precision or activation, and for
    arrays of more dimensions than one or of element types that do not suit the precision; `kdsl.LaunchError` if an operand does not fit its array, or if C
    overlaps A or B.
    """
    if version is not None and version not in _KERNELS:
        raise ValueError(f"matmul: there is no version {version!r}; choose one of {', '.join(get_args(Version))}")
    if precision not in get_args(Precision):
        raise ValueError(f"matmul: there is no precision {precision!r}; choose one of {', '.join(get_args(Precision))}")
    if version is not None and precision != "fp32":
        raise ValueError(f"matmul: version {version!r} is one of fp32; leave it out for {precision}")
    if activation not in (None, "gelu"):
        raise ValueError(f"matmul: there is no activation {activation!r}; it is 'gelu' or None")
    check_size("matmul", m=m, n=n, k=k, sequences=sequences, heads=heads)
    if bias is not None:
        check_length("matmul", "bias", bias, n, "n")
    for name, operand in (("c", c), ("a", a), ("b", b)):
        for axis in ("row", "column", "sequence", "head"):
            stride = operator.index(getattr(operand, axis))
            if not 0 <= stride < 2**63:
                raise ValueError(f"matmul: the {axis} stride of {name} must not be negative, got {stride}")
        if operand.array.dtype not in ((f32,) if precision == "fp32" else (f32, bf16, f16)):
            kinds = "f32" if precision == "fp32" else "f32, bf16 and f16"
            raise ValueError(f"matmul: {name} is an array of {operand.array.dtype}; {precision} takes {kinds}")
    _check_distinct(c, m=m, n=n, sequences=sequences, heads=heads)
    left, right = (_matrices(x, rows, k, sequences, heads) for x, rows in ((a, m), (transposed(b), n)))
    out = _matrices(c, m, n, sequences, heads)
    for name, matrix in (("c", out), ("a", left), ("b", right)):
        _check_inside(name, matrix)
    batch = sequences * heads
    if 0 in (batch, m, n):
        return
    parts = parts_along_k(precision, m, n, k, batch) if version is None else 1
    each = steps_of_part(precision, k, parts)
    if k == 0:  # empty sums, 0 in every precision
        precision, left, right = "fp32", *(replace(x, base=nothing(c.array.device)) for x in (left, right))
    elif precision == "3xtf32" and not on_hopper(c.array):
        precision, left, right = "fp32", *(x if x.base.dtype == f32 else packed(x, f32) for x in (left, right))
    epilogue = Epilogue(alpha, accumulate, bias, activation is not None)
    large = c.array.device.target != "cpu" and batch * m * n * k >= _LARGE and version is None
    if precision != "fp32" or large:
        if out.strides[3] != 1 and out.strides[2] == 1 and bias is None:
            out, left, right = out.turned, right, left
        if precision != "fp32":
            tensor_product(out, left, right, precision, parts, epilogue)
        else:
            fp32_product(out, left, right, parts, each, epilogue)
        return

    def product(sums: Matrix, factor: float, add: int) -> None:
        for made, x, y in along_k(sums, left, right, parts, each):
            _ladder(version, made, x, y, factor, add)

    through(product, out, parts, epilogue, direct=epilogue.plain and c.array.dtype == f32)


def _matrices(x: Operand, rows: int, columns: int, sequences: int, heads: int) -> Matrix:
    return Matrix(x.array, (sequences, heads, rows, columns), (x.sequence, x.head, x.row, x.column))


def _check_inside(name: str, x: Matrix) -> None:
    """Raise unless an operand's elements lie in its array."""
    if not x.base.flat:
        raise ValueError(f"matmul: {name} is an array of shape {x.base.shape}; it takes one dimension, elements side by side")
    if x.span > len(x.base):
        raise LaunchError(f"matmul: {name} spans {x.span} elements, and its array has {len(x.base)}")


def _ladder(version: Version | None, c: Matrix, a: Matrix, b: Matrix, alpha: float, accumulate: int) -> None:
    """Launch one of the kernels of the ladder for C <- alpha A B^T (+ C)."""
    sequences, heads, m, n = c.shape
    k = a.shape[3]
    if version in ("naive", "tiled") or c.base.device.target != "cpu":
        kernel = _KERNELS[version or "register_blocked"]
    else:
        kernel = _blocked_on_cpu(sequences * heads, m, n, k, is_added=accumulate != 0)
    # Valid: the contract says that each operand's last element lies inside its array, the strides are not negative (so its first does,
    # too), and no two threads write the same element of C.
    kernel(
        c.base,
        a.base,
        b.base,
        Product(
            sequences=sequences,
            heads=heads,
            m=m,
            n=n,
            k=k,
            accumulate=accumulate,
            c_sequence=c.strides[0],
            c_head=c.strides[1],
            c_row=c.strides[2],
            c_column=c.strides[3],
            a_sequence=a.strides[0],
            a_head=a.strides[1],
            a_row=a.strides[2],
            a_column=a.strides[3],
            b_sequence=b.strides[0],
            b_head=b.strides[1],
            b_row=b.strides[3],
            b_column=b.strides[2],
            alpha=alpha,
        ),
    )


def _check_distinct(c: Operand, *, m: int, n: int, sequences: int, heads: int) -> None:
    """Raise `ValueError` unless each stride steps over all that the smaller ones reach; then no element of C has two places, and no place
    two elements.
    """
    axes = (("sequence", sequences, c.sequence), ("head", heads, c.head), ("row", m, c.row), ("column", n, c.column))
    if any(count == 0 for _, count, _ in axes):
        return
    reach = 1
    for axis, count, stride in sorted((axis for axis in axes if axis[1] > 1), key=lambda axis: axis[2]):
        if stride < reach:
            raise ValueError(
                f"matmul: elements of c coincide: {axis} stride {stride} is less than the {reach} elements that the smaller strides reach; "
                f"every element of c needs a place of its own"
            )
        reach += (count - 1) * stride
