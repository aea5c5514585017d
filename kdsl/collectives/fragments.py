"""Where the numbers of a fragment lie: rows and columns, for this lane, in the matrices that a warp multiplies with `mma`.

`packed` is how many numbers a register of A or B holds: 1 of tf32 and f64, 2 of f16 and bf16, 4 of the types of 8 bits, side by side along k.
(PTX ISA, "Matrix Fragments for mma".)
"""

from typing import Any

from kdsl.frontend.function import function
from kdsl.lang.intrinsics import lane_index


@function
def mma_row(number: Any) -> Any:
    """The row of number `number` of an accumulator (C or D); 0 to 3, or 0 and 1 of an m8n8k4 product. Of f16, numbers 2 r and 2 r + 1 are in register r."""
    return lane_index() // 4 + number // 2 * 8


@function
def mma_column(number: Any) -> Any:
    """Its column. Numbers 2 r and 2 r + 1 are neighbours in a row."""
    return lane_index() % 4 * 2 + number % 2


@function
def mma_a_row(register: Any) -> Any:
    """The row of register `register` of A. (Of an m8n8k4 product there is register 0 only.)"""
    return lane_index() // 4 + register % 2 * 8


@function
def mma_a_column(register: Any, packed: Any) -> Any:
    """The column of the first number in register `register` of A; the others follow it."""
    return (lane_index() % 4 + register // 2 * 4) * packed


@function
def mma_b_row(register: Any, packed: Any) -> Any:
    """The row of the first number in register `register` of B; the others are below it."""
    return (lane_index() % 4 + register * 4) * packed


@function
def mma_b_column() -> Any:
    """The column of every register of B."""
    return lane_index() // 4
