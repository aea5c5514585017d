"""A projection without bias, y = x W, forward and backward. A matrix has a row per input and a column per output."""

import kdsl
from staleynet.ops.matmul import matmul, row_major, transposed


def linear(y: kdsl.Array, x: kdsl.Array, weight: kdsl.Array, *, rows: int, inputs: int, outputs: int) -> None:
    """y <- x W: `x` is (rows, inputs), `weight` (inputs, outputs), `y` (rows, outputs)."""
    matmul(row_major(y, outputs), row_major(x, inputs), row_major(weight, outputs), m=rows, n=outputs, k=inputs)


def linear_backward(
    dx: kdsl.Array, d_weight: kdsl.Array, dy: kdsl.Array, x: kdsl.Array, weight: kdsl.Array, *, rows: int, inputs: int, outputs: int
) -> None:
    """dx <- dy W^T and d_weight <- x^T dy; shapes as in `linear`. `dx` may be `x` itself: `x` is read first."""
    matmul(row_major(d_weight, outputs), transposed(row_major(x, inputs)), row_major(dy, outputs), m=inputs, n=outputs, k=rows)
    matmul(row_major(dx, inputs), row_major(dy, outputs), transposed(row_major(weight, outputs)), m=rows, n=inputs, k=outputs)
