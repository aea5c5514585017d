"""The matrix product C <- alpha A B (+ C) of strided operands, in batches along two axes.

Left out: bias and activation in the same launch, and any split along k.
"""

import operator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from kdsl import Array, Kernel
from staleynet.kernels.matmul import Product, matmul_naive, matmul_register_blocked, matmul_tiled
from staleynet.kernels.matmul_cached import Schedule, cache_blocked
from staleynet.ops.checks import check_size

Version: TypeAlias = Literal["naive", "tiled", "register_blocked"]
"""The names of the kernels, from the simplest to the fastest."""

_KERNELS = {"naive": matmul_naive, "tiled": matmul_tiled, "register_blocked": matmul_register_blocked}
"""All of them give the same bits."""
_BLOCKED_ON_CPU = tuple(
    (schedule, cost, cache_blocked(schedule))
    for schedule, cost in (
        (Schedule(128, 128, 128), 1.1),
        (Schedule(96, 96, 96), 1.13),
        (Schedule(64, 64, 64), 1.17),
        (Schedule(128, 32, 64), 1.2),
        (Schedule(32, 32, 64), 1.35),
    )
)
"""The register-blocked version for a CPU with tiles of several sizes, which change no bit: what an element of C costs with the copying of tiles (as measured,
without it 1), and the kernel.
"""
_UNHIDDEN = 1.2
"""How much more it costs if there is no next tile that could be fetched while the first one is multiplied."""


def _kernel(version: Version, target: str, m: int, n: int, k: int) -> Kernel:
    """The kernel of a version with the schedule that suits a target and the sizes."""
    if version != "register_blocked" or target != "cpu":
        return _KERNELS[version]

    def cost(entry: tuple[Schedule, float, Kernel]) -> float:
        schedule, factor, _ = entry
        elements = -(-m // schedule.rows) * -(-n // schedule.columns) * schedule.rows * schedule.columns
        return elements * factor * (_UNHIDDEN if k < schedule.depth else 1.0)

    return min(_BLOCKED_ON_CPU, key=cost)[2]


@dataclass(frozen=True)
class Operand:
    """How a batch of matrices lies in an array: element (i, j) of the pair (sequence s, head h) is `array[s * sequence + h * head + i * row
    + j * column]`.
    """

    array: Array
    """The memory, float32."""
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
    version: Version = "register_blocked",
) -> None:
    """C <- alpha A B, or with `accumulate` C <- C + alpha A B, for each of `sequences` * `heads` pairs of matrices.

    A is m x k, B is k x n, C is m x n. Every element is summed along k in ascending order with fused multiply-adds, whatever the version,
    so the bits depend on the operands only. Elements of `c.array` that C does not contain are left alone.

    Raises `ValueError` for a negative size or stride, for a C that reaches one element on two ways, and for an unknown version;
    `kdsl.LaunchError` if an operand does not fit its array, or if C overlaps A or B.
    """
    if version not in _KERNELS:
        raise ValueError(f"matmul: there is no version {version!r}; choose one of {', '.join(get_args(Version))}")
    check_size("matmul", m=m, n=n, k=k, sequences=sequences, heads=heads)
    for name, operand in (("c", c), ("a", a), ("b", b)):
        for axis in ("row", "column", "sequence", "head"):
            stride = operator.index(getattr(operand, axis))
            if not 0 <= stride < 2**63:
                raise ValueError(f"matmul: the {axis} stride of {name} must not be negative, got {stride}")
    _check_distinct(c, m=m, n=n, sequences=sequences, heads=heads)
    # Valid: the contract says that each operand's last element lies inside its array, the strides are not negative (so its first does,
    # too), and no two threads write the same element of C.
    _kernel(version, c.array.device.target, m, n, k)(
        c.array,
        a.array,
        b.array,
        Product(
            sequences=sequences,
            heads=heads,
            m=m,
            n=n,
            k=k,
            accumulate=int(accumulate),
            c_sequence=c.sequence,
            c_head=c.head,
            c_row=c.row,
            c_column=c.column,
            a_sequence=a.sequence,
            a_head=a.head,
            a_row=a.row,
            a_column=a.column,
            b_sequence=b.sequence,
            b_head=b.head,
            b_row=b.row,
            b_column=b.column,
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
