"""LLVM's code generator turns the minimum of a constant and `fptoui` into a saturating conversion of fewer bits; for the constant 0 that is an integer of no
bits, and an assertion ends the process. Seen without optimisation, which removes such a minimum before; vectors of lanes only."""

import subprocess
import sys

import pytest

PROGRAM = """
from kdsl import Slice, SliceMut, {source}, {target}, kernel, thread_index
from kdsl.backend.cpu import HostCpu, compile_object

@kernel(grid=1, block=8)
def least(y: SliceMut[{target}], x: Slice[{source}]) -> None:
    i = thread_index()
    y[i] = {expression}

for level in (0, 3):
    compile_object(least.ir(), HostCpu.detect(), optimise=level)
print("alive")
"""


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", ["u8", "u16", "u32", "u64"])
def test_all_forms_compile(tmp_path, source: str, target: str) -> None:  # type: ignore[no-untyped-def]
    expression = f"min(0, {target}(x[i])) + (0 if 0 < {target}(x[i]) else {target}(x[i]))"
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(source=source, target=target, expression=expression))
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout.strip()) == (0, "alive"), run.stderr
