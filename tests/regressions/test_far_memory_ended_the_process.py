"""Loading code for the CPU aborted the interpreter when the memory near the first section was taken (seen in a process with a CUDA context)."""

import subprocess
import sys

PROGRAM = """
import mmap
from kdsl import DisjointSlice, elements, exp, f32, kernel, thread_index
from kdsl.backend.cpu import HostCpu, compile_object, load

@kernel(grid=elements("y"))
def scale(y: DisjointSlice[f32]) -> None:
    i = thread_index()
    if i in y:
        y[i] = exp(y[i])

code = compile_object(scale.ir(), HostCpu.detect())
kept = []
for _ in range(150):
    kept.append(load(code))
    kept += [mmap.mmap(-1, size) for size in (4096, 65536, 1 << 20, 1 << 28)]
print("alive")
"""


def test_code_loads_wherever_memory_is_free(tmp_path) -> None:  # type: ignore[no-untyped-def]
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout.strip()) == (0, "alive"), run.stderr
