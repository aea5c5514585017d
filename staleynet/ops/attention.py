"""The causal softmax of attention and its gradient; both products around it are `matmul`.

Left out: attention that never stores its scores (a fused kernel), and masks other than the causal one.
"""

from kdsl import Array
from staleynet.kernels import attention as kernels
from staleynet.ops.checks import check_alike, check_length, check_size


def causal_softmax(
    probabilities: Array, scores: Array, *, sequences: int, heads: int, length: int, scale: float, queries: int | None = None
) -> None:
    """softmax(scale * scores) along each row, over the keys up to the query's own position; the entries behind it become 0.

    Both arrays are (sequences, heads, queries, length); the queries are the last ones of their sequence, all of them (a square matrix) if
    `queries` is None. In place, and without a copy, if both are the same object.

    Raises `ValueError` for more queries than keys, or if an array does not have that many elements.
    """
    queries = length if queries is None else queries
    rows = _check("causal_softmax", probabilities, "probabilities", scores, "scores", sequences, heads, queries, length)
    if probabilities is not scores:
        probabilities.copy_from(scores)
    # Valid: a warp per row, and the array holds `rows` rows of `length` elements (checked above, and again by the contract).
    kernels.causal_softmax(probabilities, kernels.ScoreRows(rows=rows, queries=queries, length=length, scale=scale))


def causal_softmax_backward(
    d_scores: Array, probabilities: Array, d_probabilities: Array, *, sequences: int, heads: int, length: int, scale: float
) -> None:
    """The gradient of the scores from that of the probabilities: scale * P * (dP - sum(P * dP)) along each row; 0 above the diagonal.

    All arrays are (sequences, heads, length, length). In place, and without a copy, if `d_scores` is `d_probabilities`.

    Raises `ValueError` if an array does not have that many elements, or if `d_scores` is `probabilities`.
    """
    name = "causal_softmax_backward"
    rows = _check(name, d_scores, "d_scores", d_probabilities, "d_probabilities", sequences, heads, length, length)
    check_length(name, "probabilities", probabilities, rows * length, "sequences * heads * length * length")
    check_alike(name, "d_scores", d_scores, "probabilities", probabilities)
    if d_scores is probabilities:
        raise ValueError(f"{name}: d_scores must not be probabilities, which are read while d_scores is written")
    if d_scores is not d_probabilities:
        d_scores.copy_from(d_probabilities)
    # Valid: a warp per row, and both arrays hold `rows` rows of `length` elements (checked above, and again by the contract).
    kernels.causal_softmax_backward(d_scores, probabilities, kernels.ScoreRows(rows=rows, queries=length, length=length, scale=scale))


def _check(operation: str, out: Array, out_name: str, x: Array, x_name: str, sequences: int, heads: int, queries: int, length: int) -> int:
    """Check all that a copy and a launch depend on, so that nothing is written when one of them is wrong; the number of rows."""
    check_size(operation, sequences=sequences, heads=heads, queries=queries, length=length)
    rows = sequences * heads * queries
    check_size(operation, rows=rows)
    if queries > length:
        raise ValueError(f"{operation}: there are more queries ({queries}) than keys ({length})")
    for array, name in ((out, out_name), (x, x_name)):
        check_length(operation, name, array, rows * length, "sequences * heads * queries * length")
    check_alike(operation, out_name, out, x_name, x)
    return rows
