"""Kernels that the operations launch on a GPU only, though a CPU could run them: their results there, with every access watched."""

import numpy as np

import kdsl
from kdsl.testing import sanitized
from staleynet.kernels.convert import Ending
from staleynet.kernels.matmul import Product, matmul_register_blocked
from staleynet.kernels.matmul_border import Border, product_of_border
from staleynet.kernels.matmul_pipelined import Schedule, product


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


def test_the_border_of_a_product() -> None:
    """No extent is a multiple of a tile's, and the last stage is not whole."""
    device, rng = kdsl.device("cpu"), np.random.default_rng(7)
    a, b = rng.standard_normal((1, 1, 150, 36), np.float32), rng.standard_normal((1, 1, 36, 40), np.float32)
    with sanitized() as found:
        c = device.array(np.zeros((1, 1, 150, 37), np.float32))
        product_of_border(a_across=False)(c, device.array(a), device.array(b), Border(alpha=1.0, accumulate=0, rows=128, columns=32))
        made = c.numpy()[0, 0]
    assert not found
    exact = a[0, 0].astype(np.float64) @ b[0, 0, :, :37]
    exact[:128, :32] = 0
    assert np.abs(made - exact).max() <= 1e-4


def test_pipelined_at_the_edges_of_its_operands() -> None:
    """Neither extent is a multiple of a tile's; what is read without checks stays inside, and all of C is written."""
    device, rng = kdsl.device("cpu"), np.random.default_rng(6)
    a, b = rng.standard_normal((1, 2, 36, 12), np.float32), rng.standard_normal((1, 2, 12, 68), np.float32)
    with sanitized() as found:
        c = device.array(np.full((1, 2, 36, 68), np.nan, np.float32))
        kernel = product(Schedule(32, 32, 1, 2, depth=8), a_across=False, b_across=True)
        kernel(c, device.array(a), device.array(b), Ending(alpha=1.0, accumulate=0))
        made = c.numpy()
    assert not found
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(made - exact).max() <= 1e-5 * (np.abs(a).astype(np.float64) @ np.abs(b)).max()
