"""RMSNorm (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467): forward, gradient of the input, gradient of the weight.

Left out: layer normalization with mean and bias.
"""

from kdsl import Array, f32
from staleynet.kernels import normalization as kernels
from staleynet.ops.checks import check_length, check_size


def rms_norm(y: Array, inverse_rms: Array, x: Array, weight: Array, *, rows: int, columns: int, epsilon: float) -> None:
    """y = weight * x / sqrt(mean(x * x) + epsilon) along each row; the factor 1 / sqrt(...) is saved in `inverse_rms` for the gradients.

    `y` and `x` (rows, columns), `inverse_rms` (rows), `weight` (columns).

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("rms_norm", rows=rows)
    check_size("rms_norm", least=1, columns=columns)
    # Valid: a warp per row; the contract compares all four lengths with rows and columns.
    kernels.rms_norm(y, inverse_rms, x, weight, kernels.Normalization(rows=rows, columns=columns, epsilon=epsilon, accumulate=0))


def rms_norm_backward(
    dx: Array, dy: Array, x: Array, weight: Array, inverse_rms: Array, *, rows: int, columns: int, accumulate: bool = False
) -> None:
    """The gradient of the input; with `accumulate` it is added to `dx`, which then already holds the gradient that went around the block
    (the residual).

    `dx`, `dy`, `x` (rows, columns), `weight` (columns), `inverse_rms` (rows) as `rms_norm` saved it.

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit, `kdsl.LaunchError` if `dx` overlaps an input.
    """
    check_size("rms_norm_backward", rows=rows)
    check_size("rms_norm_backward", least=1, columns=columns)
    # Valid: a warp per row; the contract compares all five lengths with rows and columns.
    kernels.rms_norm_backward(
        dx, dy, x, weight, inverse_rms, kernels.Normalization(rows=rows, columns=columns, epsilon=0.0, accumulate=int(accumulate))
    )


def rms_norm_weight_gradient(
    d_weight: Array, dy: Array, x: Array, inverse_rms: Array, *, rows: int, columns: int, accumulate: bool = True
) -> None:
    """The gradient of the weight, the sum over rows of dy * x * inverse_rms; added to `d_weight`, or written over it without `accumulate`.

    `d_weight` (columns), `dy` and `x` (rows, columns), `inverse_rms` (rows). The rows are added in chunks of a fixed size, then the chunks,
    each in ascending order: no atomics, the same bits on every run.

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("rms_norm_weight_gradient", rows=rows)
    check_size("rms_norm_weight_gradient", least=1, columns=columns)
    check_length("rms_norm_weight_gradient", "d_weight", d_weight, columns, "columns")  # the first launch does not touch it
    chunks = -(-rows // kernels.ROWS_PER_CHUNK)
    partial = d_weight.device.empty(chunks * columns, f32)
    shape = kernels.ColumnSum(rows=rows, columns=columns, chunks=chunks, accumulate=int(accumulate))
    # Valid: a thread per chunk and column, then a thread per column; the contracts compare the lengths, and the only one that the first
    # of them does not know is checked above, so that a wrong one is refused before anything runs.
    kernels.rms_norm_weight_partial(partial, dy, x, inverse_rms, shape)
    kernels.add_chunks(d_weight, partial, shape)
