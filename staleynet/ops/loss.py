"""Softmax cross-entropy of logits against token targets, and its gradient.

Left out: the mean over rows (the caller knows how many rows count) and label smoothing.
"""

from kdsl import Array
from staleynet.kernels import loss as kernels
from staleynet.ops.checks import check_alike, check_length, check_size


def cross_entropy(losses: Array, logits: Array, targets: Array, *, rows: int, classes: int) -> None:
    """One loss per row, -log softmax(logits)[target] in nats; 0 for a row whose target is negative (-1: ignored).

    `losses` (rows), `logits` (rows, classes), `targets` (rows) int32. A target of `classes` or more is reported as `kdsl.BoundsError` by
    the next synchronisation.

    Raises `kdsl.LaunchError` or `ValueError` if a size does not fit.
    """
    check_size("cross_entropy", rows=rows)
    check_size("cross_entropy", least=1, classes=classes)
    # Valid: a warp per row; the contract compares all three lengths with rows and classes.
    kernels.cross_entropy(losses, logits, targets, kernels.Logits(rows=rows, classes=classes, scale=1.0))


def cross_entropy_backward(d_logits: Array, logits: Array, targets: Array, *, rows: int, classes: int, scale: float) -> None:
    """The gradient of `scale` times the sum of the losses: scale * (softmax(logits) - onehot(target)); 0 for ignored rows.

    Shapes as in `cross_entropy`. In place, and without a copy, if `d_logits` is `logits`.

    Raises `ValueError` if a size does not fit.
    """
    name = "cross_entropy_backward"
    check_size(name, rows=rows)
    check_size(name, least=1, classes=classes)
    check_length(name, "d_logits", d_logits, rows * classes, "rows * classes")
    check_length(name, "logits", logits, rows * classes, "rows * classes")
    check_length(name, "targets", targets, rows, "rows")
    check_alike(name, "d_logits", d_logits, "logits", logits)
    if d_logits is not logits:
        d_logits.copy_from(logits)
    # Valid: a warp per row; all three lengths are checked above (before the copy, which already writes), and again by the contract.
    kernels.cross_entropy_backward(d_logits, targets, kernels.Logits(rows=rows, classes=classes, scale=scale))
