"""The page of intrinsics, made from their table: `python -m kdsl.testing.reference > docs/intrinsics.md`. A test compares the two."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kdsl import collectives
from kdsl.lang.intrinsics import (
    INTRINSICS,
    Intrinsic,
    ToAtomic,
    ToBarrier,
    ToBitcast,
    ToClock,
    ToExchange,
    ToFence,
    ToFrontend,
    ToSleep,
    ToSpecial,
    ToTernary,
)

_INTRODUCTION: Final = """# Intrinsics

Made from the table in `kdsl/lang/intrinsics/` by `python -m kdsl.testing.reference`; do not edit. `T` is an element type, `I` an integer type, `F` a float
type. A row without a remark works on every target: the GPUs from `sm_80` on, and the CPU. Below its least PTX version or compute capability an intrinsic is
refused with both named; the sections are those of the PTX ISA.
"""

_NOTES: Final = {
    "Approximations": """`from kdsl import fast`. On a GPU these are the instructions of the hardware, on the CPU the accurate functions: an exception from
"the same bits". Subnormals are kept but for `exp2` of bf16; what else is promised: [mathematics](mathematics.md#approximations).
""",
    "Barriers in shared memory": "With examples, and how they belong together: [Hopper](hopper.md).\n",
    "Inline PTX": "What a text may hold, and what is assumed of it: [Hopper](hopper.md#inline-ptx).\n",
    "Exchange between lanes": """All lanes of the warp that have not returned reach it together. Lanes beyond the end of a partial warp, and lanes that have
returned, take no part. `width` is 2, 4, 8, 16 or 32, known to the compiler: the shuffle stays within segments of so many lanes.
Shuffles take numbers, `bool` and vectors; the numbers of a vector go one by one, those of 8 and 16 bits in words of 32.
With `mask` the lanes that it names come together, wherever the call stands; each is in its own mask. Reductions of 32-bit integers are one `redux.sync`.
""",
    "Atomic operations": """`array` is a `SliceMut` or a shared array; `index` is a number, or a tuple for an array of several dimensions; of elements that are
structs it goes on to a number in one, as in `(i, "count")` or `(i, "counts", k)`. It is
checked like any other: an operation outside is left out, gives 0, and is reported as a `BoundsError`. The access goes through no witness, so
a `DisjointSlice` is refused, and the view counts as written.

`scope` says among which threads the operation is indivisible: `"block"`, `"cluster"` (from `sm_90` on; on the CPU it is the device), `"device"` or
`"system"`. `order` is its memory order: `"relaxed"`,
`"acquire"`, `"release"`, `"acq_rel"` or `"seq_cst"` (a load does not release, a store does not acquire), as in the memory models of PTX and
C++. The instruction carries both as they are written.

An operation on a type that is not in its row is an error when the kernel is compiled. Sums of `bf16` are an instruction from `sm_90` on and a loop of
`atom.cas` below. Of vectors (`SliceMut[f32x4]`, or `as_vectors`) each number is changed indivisibly, not the vector as a whole; those of 128 bits that
`atomic_load`, `atomic_store`, `atomic_exchange` and `atomic_cas` move are one piece (PTX 8.4). `f16x2`, and loads and stores, work on every target, the
others from `sm_90` on; sums of more than 4 bytes, and the smaller and larger, are in device memory only (PTX 8.1). All others work on the shared arrays of
other blocks of a cluster, too: `atomic_add(remote(counts, 1), i, 1)`. Numbers of `f32` and `f64` have no smaller or larger on any
target; a loop does it:
```python
import numpy as np

import kdsl
from kdsl import Slice, SliceMut, atomic_cas, atomic_load, elements, f32, float_bits, kernel, thread_index


@kernel(grid=elements("x"))
def largest(x: Slice[f32], y: SliceMut[f32]) -> None:
    i = thread_index()
    if i in x:
        seen = atomic_load(y, 0)
        while x[i] > seen:
            found = atomic_cas(y, 0, seen, x[i])
            if float_bits(found) == float_bits(seen):  # so it was replaced
                break
            seen = found


device = kdsl.device()
y = device.array(np.zeros(1, np.float32))
largest(device.array(np.arange(1000, dtype=np.float32)), y)
assert y.numpy()[0] == 999
```

On the CPU the active lanes take turns and blocks run on several threads, so a kernel must not wait for what another thread has yet to do.
**Floats are added in the order of arrival**, which is the exception from "same bits"; and on a GPU `atomic_add` of f32 elements in device memory takes
subnormals for zero (PTX ISA, "atom").
""",
    "Time": "For measuring and waiting. A kernel that uses them cannot be compiled for the CPU; the error shows the call.\n",
    "Asynchronous copies": """How they are used, their checks and their alignment: [tensor cores](tensor-cores.md#copies). On the CPU a copy is done where it
is begun.
""",
    "Matrix products": """The forms of `mma`, the places of numbers in the lanes, and the meaning on the CPU: [tensor cores](tensor-cores.md). All 32 lanes of a
warp reach them together; a block is a multiple of 32 threads, and no lane has returned. Floats of 8 bits and most f64 forms need more than the row says;
below it they are refused by name.
""",
    "Block": """Written in the language (`kdsl.collectives`), for every block of up to 1024 threads, the last warp full or not. All threads of the block
call them together, as for `sync_threads()`, and none may have returned before. They take every number type. The order of combination is fixed,
so every target gives the same bits.
""",
}

_PLACES: Final = ("thread_", "row_", "block_", "tile_", "is_first_")
_Test = Callable[[Intrinsic], bool]
_GROUPS: Final[tuple[tuple[str, _Test], ...]] = (
    ("Where the thread stands", lambda r: isinstance(r.lowering, ToSpecial) or (isinstance(r.lowering, ToFrontend) and r.name.startswith(_PLACES))),
    ("Arrays, loops, compile time", lambda r: isinstance(r.lowering, ToFrontend)),
    ("Barrier and fences", lambda r: isinstance(r.lowering, ToBarrier | ToFence) or r.name.startswith("sync_threads_") or r.name == "sync_warp"),
    ("Exchange between lanes", lambda r: isinstance(r.lowering, ToExchange) or r.name == "active_mask"),
    ("Atomic operations", lambda r: isinstance(r.lowering, ToAtomic)),
    ("Time", lambda r: isinstance(r.lowering, ToClock | ToSleep)),
    ("Bits", lambda r: isinstance(r.lowering, ToBitcast | ToTernary) or ": I" in r.signature),
    ("Arithmetic", lambda r: True),
)  # fmt: skip


def intrinsics_page() -> str:
    """The whole page, in Markdown."""
    rest = list(INTRINSICS.values())
    parts = [_INTRODUCTION]
    topics = {row.topic: (lambda r, topic=row.topic: r.topic == topic) for row in rest if row.topic}
    for title, belongs in (*_GROUPS, *topics.items()):
        rows = [row for row in rest if row.topic in ("", title) and belongs(row)]
        rest = [row for row in rest if row not in rows]
        parts.append(f"## {title}\n{_note(title)}{_table(title, rows)}")
    parts.append(f"## Block\n{_note('Block')}{_functions(collectives.BLOCK, '(value: T) -> T')}")
    parts.append(f"## Fragments\n{_note('Fragments')}{_functions(collectives.FRAGMENTS)}")
    return "\n".join(parts)


def _note(title: str) -> str:
    return f"{_NOTES[title]}\n" if title in _NOTES else ""


def _table(title: str, rows: Iterable[Intrinsic]) -> str:
    atomic = title == "Atomic operations"
    lines = ["| | " + ("elements | " if atomic else "") + "meaning | section | |", "|---|" + ("---|" if atomic else "") + "---|---|---|"]
    for row in rows:
        types = f"{', '.join((*row.lowering.types, *row.lowering.vectors))} | " if isinstance(row.lowering, ToAtomic) else ""
        lines.append(f"| `{row.name}{row.signature}` | {types}{_cell(row.doc)} | {row.isa} | {_remarks(row)} |")
    return "\n".join(lines) + "\n"


def _remarks(row: Intrinsic) -> str:
    remarks = [] if "cpu" in row.targets else ["GPU only"]
    if row.least_ptx > (6, 0):
        remarks.append(f"PTX {row.least_ptx[0]}.{row.least_ptx[1]}")
    if row.only:
        remarks.append(f"only {' and '.join(row.only)}")
    elif row.least_capability > 70:
        remarks.append(f"compute capability {row.least_capability // 10}.{row.least_capability % 10}")
    if row.memory != "none":
        remarks.append(f"memory: {row.memory}")
    return ", ".join(remarks)


def _functions(functions: Mapping[str, Callable[..., Any]], signature: str = "") -> str:
    """A table of functions that are written in the language."""
    lines = ["| | meaning |", "|---|---|"]
    for name, of in functions.items():
        named = signature or f"({', '.join(inspect.signature(of).parameters)}) -> i64"
        lines.append(f"| `{name}{named}` | {_cell(' '.join((of.__doc__ or '').split()))} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(intrinsics_page(), end="")
