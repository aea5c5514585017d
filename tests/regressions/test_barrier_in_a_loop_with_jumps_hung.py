"""Elsewhere a barrier in a loop that ends early, or that some threads skip, hung or let threads run ahead: it was duplicated, moved, or met by some only.

Loops around barriers whose jumps the whole block decides give what a model of the block gives, run after run; jumps that a thread decides are refused.
Each program runs in a process of its own, so that a hang is a failure.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest
from from_text import DEVICES, kernel_of

import kdsl
from kdsl.testing.ptx import assemble

PROGRAM = """
import sys
import numpy as np
import kdsl
from kdsl import *

BLOCK = 96

@kernel(grid=8, block=BLOCK)
def scan_until(y: SliceMut[i64], limit: Slice[i64]) -> None:
    '''A running maximum by doubling distances, which ends when the block's limit is reached; `continue` and `else` on the way.'''
    s = shared_array((2, BLOCK), i64)
    t, b = thread_idx.x, block_idx.x
    s[0, t] = (t * 37 + b * 11) % 101
    sync_threads()
    distance, side, rounds = 1, 0, 0
    while distance < BLOCK:
        rounds += 1
        if rounds == 3:
            distance *= 2
            continue
        v = s[side, t]
        if t >= distance:
            v = max(v, s[side, t - distance])
        s[1 - side, t] = v
        side = 1 - side
        sync_threads()
        if s[side, BLOCK - 1] > limit[b]:
            break
        distance *= 2
    else:
        sync_threads()
        rounds += 100
    y[b * BLOCK + t] = s[side, t] * 1000 + rounds

@kernel(grid=4, block=BLOCK)
def leader(y: SliceMut[i64]) -> None:
    '''One thread decides for all, again and again; the flag is read by all before it is changed.'''
    flag = shared_array(1, i64)
    t = thread_idx.x
    total = 0
    while True:
        if is_first_thread():
            flag[0] = (total * 7 + block_idx.x) % 13
        sync_threads()
        f = flag[0]
        sync_threads()
        if f == 5:
            break
        for k in range(f):
            if k == 4:
                break
            sync_threads()
            if f % 2 == 0:
                continue
            total += 1
        total += 1
        if total > 50:
            break
    y[block_idx.x * BLOCK + t] = total

@kernel(grid=2, block=BLOCK)
def votes(y: SliceMut[i64]) -> None:
    '''Every thread counts down from its own number; the block goes on while any thread has some left.'''
    left = (thread_idx.x * 5) % 17 + block_idx.x
    rounds = 0
    while block_max(left) > 0:
        if left > 0:
            left -= 1
        rounds += 1
    y[block_idx.x * BLOCK + thread_idx.x] = rounds

def model_scan(limit):
    out = []
    for b in range(8):
        s = [[(t * 37 + b * 11) % 101 for t in range(BLOCK)], [0] * BLOCK]
        distance, side, rounds, broken = 1, 0, 0, False
        while distance < BLOCK:
            rounds += 1
            if rounds == 3:
                distance *= 2
                continue
            s[1 - side] = [max(s[side][t], s[side][t - distance]) if t >= distance else s[side][t] for t in range(BLOCK)]
            side = 1 - side
            if s[side][BLOCK - 1] > limit[b]:
                broken = True
                break
            distance *= 2
        if not broken:
            rounds += 100
        out += [v * 1000 + rounds for v in s[side]]
    return out

def model_leader():
    out = []
    for b in range(4):
        total = 0
        while True:
            f = (total * 7 + b) % 13
            if f == 5:
                break
            for k in range(f):
                if k == 4:
                    break
                if f % 2 == 0:
                    continue
                total += 1
            total += 1
            if total > 50:
                break
        out += [total] * BLOCK
    return out

device = kdsl.device(sys.argv[1])
limit = np.array([0, 50, 90, 95, 98, 99, 100, 200])
where = device.array(limit)
for turn in range(200):
    y = device.full(8 * BLOCK, -1, i64)
    scan_until(y, where)
    assert y.numpy().tolist() == model_scan(limit.tolist()) if turn % 50 == 0 else True
    z = device.full(4 * BLOCK, -1, i64)
    leader(z)
    assert z.numpy().tolist() == model_leader(), turn
    w = device.full(2 * BLOCK, -1, i64)
    votes(w)
    assert w.numpy().tolist() == [16] * BLOCK + [17] * BLOCK, turn
print("done")
"""


@DEVICES
def test_the_block_stays_together(device: Any, tmp_path: Any) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, str(tmp_path / "program.py"), device.name]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert (ended.returncode, ended.stdout.strip()) == (0, "done"), ended.stderr


_LOOP = (
    "s = shared_array(64, f32)\nt = thread_idx.x\nwhile {head}:\n    {before}\n    "
    "s[t] = y[t]\n    sync_threads()\n    {after}\n    n -= 1\ny[t] = s[63 - t]"
)


@pytest.mark.parametrize(
    ("head", "before", "after"),
    [
        ("n > t", "pass", "pass"),
        ("n > 0", "if y[t] > 0:\n        break", "pass"),
        ("n > 0", "pass", "if s[t] > 0:\n        break"),
        ("n > 0", "if t == n:\n        n -= 1\n        continue", "pass"),
        ("n > 0", "n -= i32(t % 2)", "pass"),
        ("n > 0 and y[t] < 1", "pass", "pass"),
        ("n > 0", "for k in range(t):\n        if k > 3:\n            sync_threads()", "pass"),
        ("n > 0", "if t < 32 or n > 3:\n        sync_threads()", "pass"),
        ("n > 0", "m = 3 if t > 5 else 4\n    if m == 3:\n        sync_threads()", "pass"),
        ("n > 0", "if atomic_add(y, 0, 1.0) > 2:\n        sync_threads()", "pass"),
    ],
)
def test_control_that_a_thread_decides_is_refused(head: str, before: str, after: str) -> None:
    with pytest.raises(kdsl.KernelError, match=r"not all threads of the block reach sync_threads\(\) together") as caught:
        kernel_of("y: SliceMut[f32], n: i32", _LOOP.format(head=head, before=before, after=after), "grid=1, block=64").ir()
    assert caught.value.notes  # the control that differs is shown, too


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("after", ["pass", "if n == 7:\n        break", "if n % 2 == 0:\n        n -= 2\n        continue"])
def test_no_barrier_is_doubled_in_ptx(after: str, level: int) -> None:
    """Threads that wait in two copies of one barrier wait for each other for ever."""
    from kdsl.backend.nvptx import compile_ptx

    kernel = kernel_of("y: SliceMut[f32], n: i32", _LOOP.format(head="n > 0", before="pass", after=after), "grid=1, block=64")
    ptx = compile_ptx(kernel.ir(), "sm_90", optimise=level)
    assert len(re.findall(r"bar\.sync|barrier\.sync", ptx)) == 1
    assemble(ptx, "sm_90")


def test_a_barrier_in_a_function_is_not_repeated() -> None:
    """Between two sections of one thread: elsewhere the optimiser joined those, and made two barriers of the one between them."""
    body = """
if is_first_thread():
    y[0] = 1.0
    y[1] = x[0]
meet()
if is_first_thread():
    y[2] = y[0] + 1.0
    y[3] = x[1]
""".strip()
    meet = kdsl.function(_meet)
    made = kernel_of("y: SliceMut[f32], x: Slice[f32]", body, "grid=1, block=64", meet=meet)
    for target in ("sm_80", "sm_90"):
        ptx = made.ptx(target)
        assert len([line for line in ptx.splitlines() if "bar.sync" in line or "barrier.sync" in line]) == 1
        assemble(ptx, target)


def _meet() -> None:
    kdsl.sync_threads()
