"""Operations that treat every element alike: sums, scaling, GELU, bias, rotary positions.

Each may be in place: the output may be the same array as an input (but not overlap it in part).
"""

from kdsl import Array
from staleynet.kernels import elementwise as kernels
from staleynet.ops.checks import check_size


def add(y: Array, a: Array, b: Array) -> None:
    """y = a + b, all of the same length. Raises `kdsl.LaunchError` if they differ."""
    # Valid: a thread per element, which touches only its own; the contract compares the lengths.
    kernels.add(y, a, b)


def accumulate(y: Array, x: Array) -> None:
    """y = y + x, the residual; both of the same length. Raises `kdsl.LaunchError` if they differ."""
    # Valid: a thread per element, which touches only its own; the contract compares the lengths.
    kernels.accumulate(y, x)


def scale(y: Array, x: Array, factor: float) -> None:
    """y = factor * x, both of the same length. Raises `kdsl.LaunchError` if they differ."""
    # Valid: a thread per element, which touches only its own; the contract compares the lengths.
    kernels.scale(y, x, factor)


def gelu(y: Array, x: Array) -> None:
    """y = GELU(x) in its tanh form (Hendrycks and Gimpel 2016, https://arxiv.org/abs/1606.08415). Raises `kdsl.LaunchError` if the lengths
    differ.
    """
    # Valid: a thread per element, which touches only its own; the contract compares the lengths.
    kernels.gelu(y, x)


def gelu_backward(dx: Array, x: Array, dy: Array) -> None:
    """dx = GELU'(x) * dy, all of the same length; `dx` may be `dy` or `x`. Raises `kdsl.LaunchError` if they differ."""
    # Valid: a thread per element, which touches only its own; the contract compares the lengths.
    kernels.gelu_backward(dx, x, dy)


def add_bias(y: Array, x: Array, bias: Array, *, rows: int, columns: int) -> None:
    """y = x + bias, the same bias for every row; `y` and `x` (rows, columns), `bias` (columns). Raises `kdsl.LaunchError` or `ValueError`
    if a size does not fit.
    """
    check_size("add_bias", rows=rows, columns=columns)
    # Valid: a thread per element; its column is less than `columns`, the length of the bias by contract.
    kernels.add_bias(y, x, bias, kernels.Matrix(rows=rows, columns=columns))


def rotary(
    x: Array, cosines: Array, sines: Array, *, rows: int, length: int, width: int, heads: int, head_width: int, backward: bool = False
) -> None:
    """Rotate the first `heads * head_width` columns of every row of `x` in place by the angles of the row's position (Su et al. 2021,
    https://arxiv.org/abs/2104.09864).

    `x` (rows, width); row r has position r % length. Within a head, column j is paired with column j + head_width / 2; `cosines` and
    `sines` (length, head_width / 2) hold the angles, position by position. `backward` turns by the opposite angles, which is the gradient.
    In a packed query-key-value array of `n` heads, heads = 2 * n rotates queries and keys and leaves the values alone.

    Raises `ValueError` for an odd `head_width`, `kdsl.LaunchError` if a size does not fit.
    """
    check_size("rotary", rows=rows, length=length, width=width, heads=heads, head_width=head_width)
    if head_width % 2:
        raise ValueError(f"rotary: head_width must be even, got {head_width}")
    # Valid: a warp per row, each pair of columns belongs to one lane; by contract the columns lie inside the row and the tables hold
    # `length` positions.
    kernels.rotary(
        x,
        cosines,
        sines,
        kernels.Rotation(rows=rows, length=length, width=width, heads=heads, half=head_width // 2, direction=-1.0 if backward else 1.0),
    )
