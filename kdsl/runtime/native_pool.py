"""The part of the thread pool that is machine code: blocks are handed out, and a worker waits for the next launch, without the interpreter.

The blocks of a launch are taken in ascending order, a part of what is left at a time, so that the last parts are short and all threads end together. A worker
that has run blocks looks for more for a while (`SPINS`) before it goes back to Python to sleep: waking a sleeping thread takes longer than many a launch,
and on a virtual machine longer still. It looks at a slot of its own:

| state of a slot | the worker |
|---|---|
| `AWAY` | is in Python |
| `WAITING` | may be given blocks by whoever changes the state |
| the address of a `Blocks` | runs blocks of that launch, and then makes it `WAITING` again |

Leaves out which threads there are, and when they sleep (`pool.py`).
"""

from __future__ import annotations

import ctypes
import functools
import platform
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kdsl.runtime.native import native
from kdsl.runtime.scratch import scratch

SPINS: Final = 2000
"""Times that a waiting thread looks at its slot before it gives up, 20 to 100 microseconds on present processors."""
SLOT_BYTES: Final = 64
"""A cache line, of which the first word is the state, and the second the bytes of scratch memory that the worker has."""
AWAY: Final = 0
"""State of a slot whose worker is in Python."""
WAITING: Final = 1
"""State of a slot whose worker looks for blocks."""


class Blocks(ctypes.Structure):
    """The blocks of a launch, as the machine code finds them."""

    _fields_ = (
        ("entry", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("end", ctypes.c_int64),
        ("least", ctypes.c_int64),
        ("divisor", ctypes.c_int64),
        ("scratch_bytes", ctypes.c_int64),
        ("give_way", ctypes.c_void_p),
        ("padding", ctypes.c_int64 * 9),
        ("next", ctypes.c_int64),
        ("tail", ctypes.c_int64 * 15),
    )
    """The code of the kernel and its arguments; the block after the last; a part has at least `least` blocks, and a `divisor`-th of what is left; the scratch
    memory that a thread needs; C's `sched_yield`; and, on cache lines of its own, the next block that nobody has taken."""


_RUN: Final = """
%blocks = type { ptr, ptr, i64, i64, i64, i64, ptr, [9 x i64], i64 }

define internal i64 @run(ptr %job, ptr %scratch) {
start:
  %entry = load ptr, ptr %job
  %arguments.at = getelementptr %blocks, ptr %job, i64 0, i32 1
  %arguments = load ptr, ptr %arguments.at
  %end.at = getelementptr %blocks, ptr %job, i64 0, i32 2
  %end = load i64, ptr %end.at
  %least.at = getelementptr %blocks, ptr %job, i64 0, i32 3
  %least = load i64, ptr %least.at
  %divisor.at = getelementptr %blocks, ptr %job, i64 0, i32 4
  %divisor = load i64, ptr %divisor.at
  %next.at = getelementptr %blocks, ptr %job, i64 0, i32 8
  br label %take
take:
  %done = phi i64 [ 0, %start ], [ %done, %choose ], [ %more, %taken ]
  %first = load atomic i64, ptr %next.at monotonic, align 8
  %left = sub i64 %end, %first
  %any = icmp sgt i64 %left, 0
  br i1 %any, label %choose, label %finished
choose:
  %part = udiv i64 %left, %divisor
  %short = icmp slt i64 %part, %least
  %enough = select i1 %short, i64 %least, i64 %part
  %last = icmp slt i64 %left, %enough
  %count = select i1 %last, i64 %left, i64 %enough
  %after = add i64 %first, %count
  %exchange = cmpxchg ptr %next.at, i64 %first, i64 %after monotonic monotonic, align 8
  %mine = extractvalue { i64, i1 } %exchange, 1
  br i1 %mine, label %taken, label %take
taken:
  call void %entry(ptr %arguments, i64 %first, i64 %after, ptr %scratch)
  %more = add i64 %done, %count
  br label %take
finished:
  ret i64 %done
}
"""

_SHARE: Final = (
    _RUN
    + """
define i64 @kdsl_share(ptr %job, ptr %scratch, ptr %slots, i64 %count, i64 %wanted) {
start:
  %needed.at = getelementptr %blocks, ptr %job, i64 0, i32 5
  %needed = load i64, ptr %needed.at
  %number = ptrtoint ptr %job to i64
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %i.next, %skip ], [ %i.next, %post ]
  %missing = phi i64 [ %wanted, %start ], [ %missing, %skip ], [ %still, %post ]
  %is.slot = icmp slt i64 %i, %count
  %is.wanted = icmp sgt i64 %missing, 0
  %look = and i1 %is.slot, %is.wanted
  br i1 %look, label %slot, label %own
slot:
  %i.next = add i64 %i, 1
  %offset = mul i64 %i, SLOT_BYTES
  %state.at = getelementptr i8, ptr %slots, i64 %offset
  %state = load atomic i64, ptr %state.at acquire, align 8
  %size.at = getelementptr i64, ptr %state.at, i64 1
  %size = load i64, ptr %size.at
  %waits = icmp eq i64 %state, 1
  %suffices = icmp sge i64 %size, %needed
  %can = and i1 %waits, %suffices
  br i1 %can, label %post, label %skip
skip:
  br label %next
post:
  %exchange = cmpxchg ptr %state.at, i64 1, i64 %number acq_rel monotonic, align 8
  %posted = extractvalue { i64, i1 } %exchange, 1
  %one = zext i1 %posted to i64
  %still = sub i64 %missing, %one
  br label %next
own:
  %done = call i64 @run(ptr %job, ptr %scratch)
  ret i64 %done
}
"""
)

_HELP: Final = (
    _RUN
    + """
define i64 @kdsl_help(ptr %job, ptr %scratch) {
  %done = call i64 @run(ptr %job, ptr %scratch)
  ret i64 %done
}
"""
)

_FINISH: Final = """
declare void @PAUSE()

define void @kdsl_finish(ptr %job, ptr %slots, i64 %count) {
start:
  %give.way.at = getelementptr ptr, ptr %job, i64 6
  %give.way = load ptr, ptr %give.way.at
  %number = ptrtoint ptr %job to i64
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %i.next, %look ]
  %is.slot = icmp slt i64 %i, %count
  br i1 %is.slot, label %slot, label %finished
slot:
  %i.next = add i64 %i, 1
  %offset = mul i64 %i, SLOT_BYTES
  %state.at = getelementptr i8, ptr %slots, i64 %offset
  br label %look
look:
  %looked = phi i64 [ 0, %slot ], [ %again, %pause ], [ %again, %yield ]
  %state = load atomic i64, ptr %state.at acquire, align 8
  %runs = icmp eq i64 %state, %number
  br i1 %runs, label %wait, label %next
wait:
  %again = add i64 %looked, 1
  %patient = icmp slt i64 %again, SPINS
  br i1 %patient, label %pause, label %yield
pause:
  call void @PAUSE()
  br label %look
yield:
  %status = call i32 %give.way()
  br label %look
finished:
  ret void
}
"""

_WAIT: Final = (
    _RUN
    + """
declare void @PAUSE()

define void @kdsl_wait(ptr %slot, ptr %scratch) {
start:
  store atomic i64 1, ptr %slot release, align 8
  br label %look
look:
  %looked = phi i64 [ 0, %start ], [ 0, %work ], [ %again, %pause ], [ %looked, %leave ]
  %state = load atomic i64, ptr %slot acquire, align 8
  %idle = icmp eq i64 %state, 1
  br i1 %idle, label %wait, label %work
work:
  %job = inttoptr i64 %state to ptr
  %done = call i64 @run(ptr %job, ptr %scratch)
  store atomic i64 1, ptr %slot release, align 8
  br label %look
wait:
  %again = add i64 %looked, 1
  %patient = icmp slt i64 %again, SPINS
  br i1 %patient, label %pause, label %leave
pause:
  call void @PAUSE()
  br label %look
leave:
  %exchange = cmpxchg ptr %slot, i64 1, i64 0 acq_rel monotonic, align 8
  %left = extractvalue { i64, i1 } %exchange, 1
  br i1 %left, label %away, label %look
away:
  ret void
}
"""
)


@dataclass(frozen=True)
class NativePool:
    """The functions of machine code; calling one lets other threads of Python run meanwhile."""

    share: Any
    """`share(blocks, scratch, slots, count, wanted)`: let up to `wanted` waiting workers among `count` slots help, and run blocks until none is left; the
    number of blocks that this thread has run. Others may still be running theirs."""
    help: Any
    """`help(blocks, scratch)`: run blocks until none is left; their number."""
    finish: Any
    """`finish(blocks, slots, count)`: wait until no worker runs blocks of this launch."""
    wait: Any
    """`wait(slot, scratch)`: for a worker: run what is put into its slot, until nothing has come for a while."""
    give_way: int
    """Address of C's `sched_yield`."""
    code: tuple[Any, ...]
    """Keeps all this in memory."""


@functools.cache
def native_pool() -> NativePool:
    """The functions, compiled when they are first asked for."""
    pause = "llvm.x86.sse2.pause" if platform.machine().lower() in ("x86_64", "amd64") else "llvm.donothing"

    def compiled(source: str, entry: str, result: Any, *arguments: Any) -> tuple[Any, Any]:
        for name, value in (("PAUSE", pause), ("SLOT_BYTES", str(SLOT_BYTES)), ("SPINS", str(SPINS))):
            source = source.replace(name, value)
        code = native(source, entry)
        return ctypes.CFUNCTYPE(result, *arguments)(code.address), code

    address, number = ctypes.c_void_p, ctypes.c_int64
    made = (
        compiled(_SHARE, "kdsl_share", number, address, address, address, number, number),
        compiled(_HELP, "kdsl_help", number, address, address),
        compiled(_FINISH, "kdsl_finish", None, address, address, number),
        compiled(_WAIT, "kdsl_wait", None, address, address),
    )
    give_way = ctypes.cast(ctypes.CDLL(None).sched_yield, ctypes.c_void_p).value or 0
    share, help_, finish, wait = (function for function, _ in made)
    return NativePool(share, help_, finish, wait, give_way, tuple(code for _, code in made))


class Slots:
    """The slots of the workers of a pool."""

    def __init__(self, count: int) -> None:
        """`count` slots; a worker beyond them sleeps at once."""
        self.count = count
        """Their number."""
        words = SLOT_BYTES // 8
        whole = np.zeros((count + 1) * words, np.int64)
        first = -whole.ctypes.data % SLOT_BYTES // 8
        self._words = whole[first : first + count * words].reshape(count, words)
        self.address = self._words.ctypes.data
        """Address of the first."""
        self._inside = [False] * count
        self._closed = False

    def waiting(self, scratch_bytes: int) -> int:
        """How many workers wait at present with so much scratch memory."""
        return sum(state == WAITING and size >= scratch_bytes for state, size in self._words[:, :2].tolist())

    def wait(self, number: int) -> None:
        """For a worker: run blocks that are put into slot `number`, until none have come for a while. Nothing if there is no such slot."""
        if number >= self.count:
            return
        self._inside[number] = True  # before the question: who closes looks at it afterwards
        if not self._closed:
            self._words[number, 1] = scratch.size
            native_pool().wait(self.address + number * SLOT_BYTES, scratch.address)
        self._inside[number] = False

    def close(self) -> None:
        """Let no worker wait any more; return when none does, or after a second."""
        self._closed = True
        for _ in range(1000):
            if not any(self._inside):
                return
            time.sleep(0.001)
