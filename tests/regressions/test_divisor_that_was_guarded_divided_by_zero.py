"""With AVX-512, `x // (u16(65534) >> n)` ended the process for n of 16 and more: LLVM takes a shifted number whose upper bit is set for "never 0", which
it is but where the amount is too large and the result undefined, and moves the division out of the choice that puts 1 in place of 0."""

import numpy as np
import pytest

import kdsl
from kdsl import SliceMut, kernel, thread_idx, u16, u32
from kdsl.backend.cpu import HostCpu
from kdsl.backend.cpu.compile import build_module
from kdsl.backend.llvm.module import optimise, parse


@kernel(grid=1, block=8)
def divided(y: SliceMut[u16], n: u32) -> None:
    t = thread_idx.x
    y[t] = u16(n + 60000) // (u16(65534) >> u16(t + n))


def test_the_divisor_stays_guarded() -> None:
    """In the code for AVX-512, which need not run here: something is put in by a mask before the first division."""
    host = HostCpu("x86-64-v4")
    module, _, _ = build_module(divided.ir(), host)
    parsed = parse(module)
    optimise(parsed, host.machine(3), 3)
    before, division, _ = host.machine(3).emit_assembly(parsed).partition("\tdivw\t")
    assert division
    assert "{%k" in before


@pytest.mark.parametrize("n", [0, 9, 15, 16, 70000])
def test_values(n: int) -> None:
    y = kdsl.device("cpu").array(np.full(8, 77, np.uint16))
    divided(y, n)
    shifted = [65534 >> amount if (amount := (t + n) % 65536) < 16 else 0 for t in range(8)]
    assert y.numpy().tolist() == [(n + 60000) % 65536 // z if z else 0 for z in shifted]
