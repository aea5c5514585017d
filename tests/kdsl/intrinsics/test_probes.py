"""Every row of the table: a kernel that uses it, assembled for the least target that has it, and refused by the one below."""

from __future__ import annotations

from typing import Any

import pytest
from written import written

import kdsl
from kdsl.backend.nvptx import TARGETS, Target, TargetError, compile_ptx
from kdsl.backend.nvptx.targets import version_for
from kdsl.ir import nodes
from kdsl.ir.rows import rows_of
from kdsl.lang.intrinsics import INTRINSICS, Intrinsic, ToAtomic, ToFrontend, ToUnary
from kdsl.testing.ptx import assemble

_ARGUMENTS = {
    "value": "v", "predicate": "v != 0", "x": "v", "a": "v", "b": "w", "c": "x[2]", "lane": "t", "lane_mask": "3", "delta": "t", "width": "8",
    "array": "y", "index": "t", "compare": "v", "limit": "v", "nanoseconds": "u32(20)", "condition": "True", "message": '"never"',
}  # fmt: skip
_LOOPS_AND_ARRAYS = {
    "unroll": "for k in unroll(0, 4, 2):\n    y[k] = v",
    "shared_array": "s = shared_array(4, i32)\ns[t % 4] = 1",
    "local_array": "s = local_array(4, i32)\ns[t % 4] = 1",
    "tile_index": "y[t] = v if tile_index().row < 3 else w",
}


def probe(row: Intrinsic) -> Any:
    """A kernel that uses the row, made from its signature and lowering."""
    if row.example:
        more = f", {row.example_parameters}" if row.example_parameters else ""
        body = f"t = thread_index()\nv = x[t]\nw = x[t + 1]\n{row.example}"
        parameters = f"x: Slice[{element(row)}], y: SliceMut[{element(row)}]{more}"
        return written(parameters, body, row.example_block, "8", row.example_options)
    grid = 'tiles(rows="len(x)", columns=1, tile=(32, 1))' if row.name == "tile_index" else "1"
    return written(
        f"x: Slice[{element(row)}], y: SliceMut[{element(row)}]", f"t = thread_index()\nv = x[t]\nw = x[t + 1]\n{use(row)}", grid=grid
    )


def element(row: Intrinsic) -> str:
    """An element type that the row takes."""
    if row.element:
        return row.element
    lowering = row.lowering
    if isinstance(lowering, ToAtomic):
        return next(iter(lowering.types))
    takes = row.signature.partition(":")[2].strip()[:3].strip(",) ")
    return takes if takes in ("f32", "f64", "i32", "i64") else "f32" if takes == "F" else "u32"


def use(row: Intrinsic) -> str:
    """A statement with a call of it."""
    if row.name in _LOOPS_AND_ARRAYS:
        return _LOOPS_AND_ARRAYS[row.name]
    given = ", ".join(_ARGUMENTS[name] for name, default in row.parameters if default is None or name == "width")
    call = f"{row.name}({given})"
    return call if "-> None" in row.signature else f"z = {call}\ny[t] = x.dtype(z)"


def first_target(row: Intrinsic) -> str:
    return row.only[0] if row.only else next(target.name for target in TARGETS.values() if target.capability >= row.least_capability)


ROWS = sorted(INTRINSICS)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_assembles_for_its_least_target(name: str) -> None:
    row = INTRINSICS[name]
    target = first_target(row)
    # without optimisation the accumulators of matrix products would not lie in registers
    for optimise in (0, 3) if row.convergence != "warpgroup" else (3,):
        ptx = compile_ptx(probe(row).ir(), target, optimise=optimise)
        version = ptx.split(".version ")[1].split("\n")[0]
        assert tuple(map(int, version.split("."))) >= row.least_ptx
        assemble(ptx, target)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_refused_one_below_with_both_named(name: str) -> None:
    row = INTRINSICS[name]
    older = Target("sm_older", row.least_capability - 1, (6, 0), "an older GPU")
    needed = f"{row.least_capability // 10}.{row.least_capability % 10}"
    with pytest.raises(TargetError, match=rf"{name}\(\) cannot be compiled for sm_older .*it needs compute capability {needed}"):
        version_for(older, [name])
    if row.only:
        with pytest.raises(TargetError, match=rf"{name}\(\) cannot be compiled for sm_90 .*only {' and '.join(row.only)} has it"):
            version_for(TARGETS["sm_90"], [name])
        assert version_for(TARGETS[row.only[0]], [name]) == max(row.least_ptx, TARGETS[row.only[0]].least_ptx)
        return
    enough = Target("sm_enough", row.least_capability, (6, 0), "a GPU")
    assert version_for(enough, [name]) == row.least_ptx


@pytest.mark.parametrize("name", ROWS)
def test_a_row_compiles_for_the_cpu_or_says_that_it_is_gpu_only(name: str) -> None:
    row = INTRINSICS[name]
    if "cpu" in row.targets:
        assert probe(row).compile("cpu").code
        return
    # an example may need others of the kind before
    first = name if not row.example else r"\w+"
    assert name in {used for op in nodes.walk(probe(row).ir().body) for used in rows_of(op)}
    with pytest.raises(kdsl.KernelError, match=rf"{first}\(\) is GPU only") as caught:
        probe(row).compile("cpu")
    assert caught.value.location.line > 1
    assert caught.value.hint


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_exported_and_complete(name: str) -> None:
    row = INTRINSICS[name]
    namespace, _, short = name.rpartition(".")
    module = kdsl if not namespace else getattr(kdsl, namespace)
    assert getattr(module, short) is row
    assert short in module.__all__
    assert row.doc.endswith(".")
    assert row.isa or isinstance(row.lowering, ToFrontend) or name in ("lane_index", "warp_index")
    assert row.memory != "none" or not name.startswith(("atomic", "fence", "sync"))
    assert not isinstance(row.lowering, ToUnary) or row.convergence == "none"


def test_a_row_on_the_host_says_where_it_works() -> None:
    with pytest.raises(TypeError, match=r"popcount\(\) works only inside a function marked @kernel or @function"):
        kdsl.popcount(3)
