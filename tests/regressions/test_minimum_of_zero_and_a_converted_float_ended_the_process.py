"""LLVM's code generator turns the minimum of a constant and `fptoui` into a saturating conversion of fewer bits; for the constant 0 that is an integer of no
bits, and an assertion ends the process. Seen without optimisation, which removes such a minimum before; vectors of lanes only."""

import itertools
import subprocess
import sys
from pathlib import Path

FORMS = [f"{source} to {target}" for source, target in itertools.product(("f32", "f64"), ("u8", "u16", "u32", "u64"))]
START = """
from kdsl import Slice, SliceMut, f32, f64, kernel, thread_index, u8, u16, u32, u64
from kdsl.backend.cpu import HostCpu, compile_object
"""
KERNEL = """
@kernel(grid=1, block=8)
def least(y: SliceMut[{target}], x: Slice[{source}]) -> None:
    i = thread_index()
    y[i] = min(0, {target}(x[i])) + (0 if 0 < {target}(x[i]) else {target}(x[i]))

for level in (0, 3):
    compile_object(least.ir(), HostCpu.detect(), optimise=level)
print("{source} to {target}", flush=True)
"""


def test_all_forms_compile(tmp_path: Path) -> None:
    """In one process, which ends behind the last form that compiles."""
    program = tmp_path / "program.py"
    forms = (form.split(" to ") for form in FORMS)
    program.write_text(START + "".join(KERNEL.format(source=source, target=target) for source, target in forms))
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout.splitlines()) == (0, FORMS), run.stderr
