"""Elsewhere another release of LLVM laid the branches of a product's loop out differently, ptxas unrolled it no more (4 multiply-adds in place of 18, 26
registers in place of 38), and it ran 26 % slower with every test passing.

What ptxas makes of such loops is counted in its machine code, so no GPU is needed: an instruction has 16 bytes, the low 9 bits of which are the operation.
"""

from __future__ import annotations

import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from from_text import kernel_of

import kdsl
from kdsl.testing.ptx import assemble, find_ptxas
from staleynet.kernels.matmul import matmul_naive, matmul_register_blocked, matmul_tiled

MULTIPLY_ADD, GLOBAL_LOAD, SHARED_LOAD = 0x023, 0x181, 0x184
"""FFMA, LDG and LDS of compute capability 8.0 to 12.0, as nvdisasm names them."""
DOT = "i = thread_index()\ns = f32(0)\nfor k in range(n):\n    s += x[i * n + k] * w[k]\ny[i] = s"


def operations(ptx: str, target: str, folder: Path) -> Counter[int]:
    """How often each operation stands in the machine code of a module: what the sections of the ELF file hold whose names begin with `.text.`."""
    source, made = folder / "module.ptx", folder / "module.cubin"
    source.write_text(ptx)
    subprocess.run([find_ptxas(), f"-arch={target}", source, "-o", made], check=True)
    elf = made.read_bytes()
    (table,), (size, count, names) = struct.unpack_from("<Q", elf, 40), struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<II4Q", elf, table + size * number) for number in range(count)]
    found: Counter[int] = Counter()
    for name, _, _, _, begin, length in headers:
        if elf.startswith(b".text.", headers[names][4] + name):
            found.update(struct.unpack_from("<H", elf, place)[0] & 0x1FF for place in range(begin, begin + length, 16))
    return found


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_a_loop_of_unknown_length_is_unrolled(target: str, tmp_path: Path) -> None:
    ptx = kernel_of("y: SliceMut[f32], x: Slice[f32], w: Slice[f32], n: i64", DOT, "grid=8").ptx(target)
    found = operations(ptx, target, tmp_path)
    assert found[MULTIPLY_ADD] >= 16
    assert found[GLOBAL_LOAD] == 2 * found[MULTIPLY_ADD]
    assert assemble(ptx, target).registers >= 32  # many loads are under way at a time


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize(
    ("product", "multiply_adds", "shared_loads"),
    [(matmul_naive, 16, None), (matmul_tiled, 16, 20), (matmul_register_blocked, 128, 40)],
    ids=lambda value: value.name if isinstance(value, kdsl.Kernel) else "",
)
def test_the_loops_of_products(product: kdsl.Kernel, multiply_adds: int, shared_loads: int | None, target: str, tmp_path: Path) -> None:
    """The multiply-adds stand side by side, and their operands come from shared memory in fours where rows lie along k."""
    ptx = product.ptx(target)
    found, report = operations(ptx, target, tmp_path), assemble(ptx, target)
    assert found[MULTIPLY_ADD] >= multiply_adds
    assert shared_loads is None or found[SHARED_LOAD] <= shared_loads * found[MULTIPLY_ADD] // multiply_adds
    assert report.spills == 0
    assert report.registers <= 128  # two blocks of 256 threads on a multiprocessor
