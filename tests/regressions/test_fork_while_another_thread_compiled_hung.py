"""A child that was forked while another thread compiled had inherited locks that nobody would release: its first launch hung."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import linecache, os, signal, sys, threading, time
os.environ["KDSL_CACHE"] = "0"
import kdsl
from kdsl.runtime.lock import compiling

device = kdsl.device("cpu")

def make(n):
    text = f"@kernel(grid=elements('y'))\\ndef k(y: SliceMut[f32]) -> None:\\n    i = thread_index()\\n    if i in y:\\n"
    text += f"        y[i] = y[i] * 2.0 + {n}.0\\n"
    file = f"<made {n}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space = {**vars(kdsl), "__name__": "made"}
    exec(compile(text, file, "exec"), space)
    return space["k"]

shared, stop, rounds = make(1000), False, [0, 0]

def work(number):
    while not stop:
        rounds[number] += 1
        make(rounds[number] * 2 + number)(device.zeros(3, kdsl.f32))
        shared._versions.clear()
        shared.ptx("sm_90")

threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(2)]
for thread in threads:
    thread.start()
while min(rounds) < 2:
    time.sleep(0.01)
statuses = []
for turn in range(5):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that hangs
        k, y = make(5000 + turn), device.zeros(3, kdsl.f32)
        k(y)
        shared.ptx("sm_90")
        os._exit(0 if (y.numpy() > 3).all() else 1)
    statuses.append(os.waitpid(child, 0)[1])
    time.sleep(0.07)
assert compiling.acquire(timeout=60)  # no fork has left it locked here either
compiling.release()
stop = True
for thread in threads:
    thread.join()
print(statuses)
"""


@pytest.mark.skipif(not hasattr(sys, "getdlopenflags"), reason="the system does not fork")
def test_children_compile_and_launch(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    ended = subprocess.run([sys.executable, "-W", "ignore", str(tmp_path / "program.py")], capture_output=True, text=True, timeout=500)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "[0, 0, 0, 0, 0]"
