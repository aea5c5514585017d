"""How the operands of a product reach the kernels: matrices as arrays of four dimensions, copies of those that a kernel cannot read as they lie, and parts
along k.

Left out: which kernel multiplies them (`matmul_paths.py`).
"""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kdsl import Array, Device, Kernel, f32
from staleynet.kernels.convert import pack, turn, turn_small

ALIGNMENT = 16
"""Bytes at whose multiples the copy engine's rows begin."""
SMALL = 1 << 20
"""Elements of matrices that are turned in small blocks, as large ones would be too few for a large GPU."""
STAGE_BYTES = 128
"""Bytes of a row of an operand that kernels for tensor cores multiply at a time; parts along k are whole multiples of it."""
PARTS = {
    "fp32": (128, 256, 512, 16),
    "3xtf32": (128, 128, 256, 32),
    "tf32": (256, 128, 512, 16),
    "bf16": (64, 128, 512, 16),
    "f16": (64, 128, 512, 16),
}
"""By precision, for parts along k: rows and columns of a usual tile of C, the steps of k that a part has at least, and the most parts."""
FEW = 8
"""Tiles of C of tf32 up to which a part may have half as many steps."""


@dataclass(frozen=True)
class Matrix:
    """A batch of matrices: element (p, q, i, j) is `base[offsets]` with strides in elements."""

    base: Array
    """The memory, an array of one dimension."""
    shape: tuple[int, int, int, int]
    """Two extents of the batch, rows, columns."""
    strides: tuple[int, int, int, int]
    """Elements from one index of each dimension to the next."""

    @property
    def array(self) -> Array:
        """The matrices as an array of four dimensions."""
        return self.base.strided(self.shape, self.strides)

    @property
    def span(self) -> int:
        """Elements of the memory from its first one to behind the last one of the matrices, 0 if they have none."""
        reach = sum((extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True))
        return 0 if 0 in self.shape else reach + 1

    @property
    def turned(self) -> "Matrix":
        """The transposes."""
        p, q, rows, columns = self.shape
        a, b, row, column = self.strides
        return Matrix(self.base, (p, q, columns, rows), (a, b, column, row))

    @property
    def in_rows(self) -> bool:
        """Whether rows are such as the copy engine reads: contiguous, and beginning at multiples of 16 bytes, as all matrices do."""
        each = ALIGNMENT // self.base.dtype.itemsize
        outer = zip(self.shape[:3], self.strides[:3], strict=True)
        return (
            self.base.address % ALIGNMENT == 0
            and (self.strides[3] == 1 or self.shape[3] == 1)
            and all(extent == 1 or (stride > 0 and stride % each == 0) for extent, stride in outer)
        )

    def in_vectors(self, count: int) -> bool:
        """Whether rows consist of whole vectors of `count` elements, each at a multiple of its size."""
        return (
            self.base.address % (count * self.base.dtype.itemsize) == 0
            and self.strides[3] == 1
            and all(number % count == 0 for number in (*self.strides[:3], self.shape[3]))
        )

    def columns(self, first: int, count: int) -> "Matrix":
        """Some neighbouring columns."""
        return Matrix(self.base[first * self.strides[3] :], (*self.shape[:3], count), self.strides)

    def rows(self, first: int, count: int) -> "Matrix":
        """Some neighbouring rows."""
        return self.turned.columns(first, count).turned

    def split(self, parts: int, each: int) -> "Matrix":
        """The first columns of a single matrix in parts of `each`, a matrix each."""
        _, _, rows, _ = self.shape
        _, _, row, column = self.strides
        return Matrix(self.base, (parts, 1, rows, each), (each * column, each * column, row, column))

    def matrices(self, first: int, count: int) -> "Matrix":
        """Some of the matrices along the first axis of the batch."""
        return Matrix(self.base[first * self.strides[0] :], (count, *self.shape[1:]), self.strides)


def on_hopper(x: Array) -> bool:
    """Whether the array is on a GPU that has `wgmma`."""
    return x.device.target == "sm_90"


def packed(x: Matrix, element: Any, *, round_to_tf32: bool = False) -> Matrix:
    """A copy whose rows the copy engine reads, converted to `element`."""
    each = ALIGNMENT // element.itemsize
    p, q, rows, columns = x.shape
    wide = -(-columns // each) * each
    flat = x.base.device.empty(max(p * q * rows * wide, 1), element)
    made = Matrix(flat, (p, q, rows, columns), (q * rows * wide, rows * wide, wide, 1))
    # Valid: a thread writes one element of the copy, reads stay inside of x by their guards.
    _pack(x.base.dtype, element, x.strides[2] < x.strides[3], round_to_tf32, on_hopper(x.base))(made.array, x.array)
    return made


def turned_copy(x: Matrix) -> Matrix:
    """A copy of matrices of f32 whose transposes the copy engine reads, such that it reads the copy."""
    if not turns_in_fours(x):
        return packed(x, f32)
    made = room_for_copy(x)
    turn_into(made, x)
    return made


def turns_in_fours(x: Matrix) -> bool:
    """Whether a copy of matrices, which are given as their transposes, can be made of vectors of four."""
    return x.turned.in_vectors(4) and x.shape[3] % 4 == 0


def room_for_copy(x: Matrix) -> Matrix:
    """Memory for a copy of matrices of f32, row after row."""
    p, q, rows, columns = x.shape
    flat = x.base.device.empty(max(p * q * rows * columns, 1), f32)
    return Matrix(flat, x.shape, (q * rows * columns, rows * columns, columns, 1))


def turn_into(made: Matrix, x: Matrix) -> None:
    """Copy matrices of which `turns_in_fours` is true."""
    # Valid: the contract compares all extents, and a thread writes elements of its own.
    _turn(math.prod(x.shape) <= SMALL, on_hopper(x.base))(made.array, x.turned.array)


@functools.cache
def nothing(device: Device) -> Array:
    """An array of f32 without elements, for parameters that a kernel does not read."""
    return device.empty(0, f32)


@functools.cache
def no_matrix(device: Device) -> Array:
    """An array of f32 of four dimensions without elements, likewise."""
    return device.empty(0, f32).reshape(1, 1, 0, 0)


@functools.cache
def _turn(small: bool, early: bool) -> Kernel:
    return turn_small(early=early) if small else turn(early=early)


@functools.cache
def _pack(source: Any, element: Any, turned: bool, round_to_tf32: bool, early: bool) -> Kernel:
    return pack(source, element, turned=turned, round_to_tf32=round_to_tf32, early=early)


def partial_products(like: Array, parts: int, p: int, q: int, rows: int, columns: int) -> tuple[Matrix, Matrix]:
    """Memory for `parts` products of f32 of each of p x q matrices, seen as the batch of the products (parts x 1 or p x q), and as (parts, p * q)."""
    wide = -(-columns // 4) * 4
    flat = like.device.empty(max(parts * p * q * rows * wide, 1), f32)
    size = rows * wide
    outer = (parts, 1) if parts > 1 else (p, q)
    made = Matrix(flat, (*outer, rows, columns), (outer[1] * size, size, wide, 1))
    return made, Matrix(flat, (parts, p * q, rows, columns), (p * q * size, size, wide, 1))


def parts_along_k(precision: str, m: int, n: int, k: int, batch: int) -> int:
    """In how many parts the sums along k are computed, to be added in ascending order: where C has too few tiles to occupy a large GPU and k is long.

    A function of the shape and the precision alone, so that it is the same on all devices and for all layouts. The last part may be shorter than the others
    (`steps_of_part`), but for those of fp32.
    """
    rows, columns, depth, most = PARTS[precision]
    tiles = -(-m // rows) * -(-n // columns)
    if precision == "tf32" and tiles <= FEW:
        depth //= 2
    if batch != 1 or k < 4 * depth:
        return 1
    wanted = min(most, k // depth, 132 // tiles if tiles <= 66 else 1)
    while wanted > 1 and (k % (32 * wanted) if precision == "fp32" else (wanted - 1) * steps_of_part(precision, k, wanted) >= k):
        wanted -= 1
    return wanted


def steps_of_part(precision: str, k: int, parts: int) -> int:
    """Steps of k of all parts but the last one, whole stages; of a single part all."""
    stage = STAGE_BYTES // (2 if precision in ("bf16", "f16") else 4)
    return k if parts == 1 else -(-k // (stage * parts)) * stage


def along_k(sums: Matrix, a: Matrix, b: Matrix, parts: int, each: int) -> Iterator[tuple[Matrix, Matrix, Matrix]]:
    """The products that make up the `parts` sums (parts x 1, m x n) of one A (m x k) and one B^T (n x k), for kernels that know of no parts: those of parts of
    `each` steps of k as a batch, and that of the last part if it is shorter."""
    if parts == 1:
        yield sums, a, b
        return
    whole = a.shape[3] // each
    yield sums.matrices(0, whole), a.split(whole, each), b.split(whole, each)
    if whole < parts:
        first, rest = whole * each, a.shape[3] - whole * each
        yield sums.matrices(whole, 1), a.columns(first, rest), b.columns(first, rest)
