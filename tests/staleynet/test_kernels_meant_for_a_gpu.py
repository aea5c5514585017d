"""Kernels that the operations launch on a GPU only, though a CPU could run them: their results there, with every access watched."""

import numpy as np

import kdsl
from kdsl.testing import sanitized
from staleynet.kernels.matmul import Product, matmul_register_blocked


def test_register_blocked_with_the_schedule_of_a_gpu() -> None:
    """Sizes beside those of tiles; C has a row more than is written, which stays NaN."""
    device, rng = kdsl.device("cpu"), np.random.default_rng(4)
    m, n, k = 70, 66, 33
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    with sanitized() as found:
        c = device.array(np.full((m + 1) * n, np.nan, np.float32))
        p = Product(
            sequences=1, heads=1, m=m, n=n, k=k, a_sequence=0, a_head=0, a_row=k, a_column=1, b_sequence=0, b_head=0, b_row=n, b_column=1,
            c_sequence=0, c_head=0, c_row=n, c_column=1, alpha=1.0, accumulate=0,
        )  # fmt: skip
        matmul_register_blocked(c, device.array(a.ravel()), device.array(b.ravel()), p)
        made = c.numpy().reshape(m + 1, n)
    assert not found
    assert np.isnan(made[m]).all()
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(made[:m] - exact).max() <= 1e-4 * (np.abs(a).astype(np.float64) @ np.abs(b)).max()
