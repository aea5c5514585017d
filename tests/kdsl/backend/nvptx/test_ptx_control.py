"""Control flow: branches, loops of every direction, jumps, scopes, variables, barriers that stay single."""

import re
from typing import Any

import pytest

from kdsl.ir import nodes
from kdsl.lang.types import BOOL, F32, F64, I32, I64
from kdsl.testing.ptx import assemble


def test_variables_become_registers(build: Any, check: Any) -> None:
    """
    CHECK-NOT: .local
    CHECK: selp.f32
    CHECK-NOT: .local
    """
    b = build()
    y, t = b.view("y"), b.thread()
    v = b.variable("v", F32)
    x = b.load(y, t)
    b.set(v, x)
    with b.when(b.compare("lt", x, b.constant(0.0, F32))):
        b.set(v, b.binary("add", x, x))
    b.store(y, t, b.get(v))
    check(b.ptx())


@pytest.mark.parametrize("of", [BOOL, I32, I64, F64])
def test_variables_of_every_width_work_without_optimisation(build: Any, of: Any) -> None:
    b = build()
    y, t = b.view("y", of), b.thread()
    v = b.variable("v", of)
    b.set(v, b.load(y, t))
    b.store(y, t, b.get(v))
    assemble(b.ptx(optimise=0), "sm_90")


def total(build: Any, start: Any, stop: Any, step: Any, stop_range: tuple[int, int] | None = None) -> str:
    """The sum of x[i] over range(start, stop, step); None is a parameter."""
    b = build()
    y, x, v = b.view("y"), b.view("x", kind="Slice"), b.variable("v", F32)
    bounds = [b.scalar(n) if k is None else b.constant(k) for n, k in (("start", start), ("stop", stop), ("step", step))]
    bounds[1].range = stop_range
    b.set(v, b.constant(0.0, F32))
    with b.loop(*bounds) as loop:
        b.set(v, b.binary("add", b.get(v), b.load(x, loop.counter)))
    b.store(y, b.constant(0), b.get(v))
    ptx: str = b.ptx()
    assemble(ptx, "sm_90")
    return ptx


@pytest.mark.parametrize("step", [1, 7, 256, -1, -8, 3, None, 0])
@pytest.mark.parametrize(("start", "stop"), [(0, None), (None, None), (None, 0), (88, -1), (0, 16)])
def test_loops_of_every_direction_assemble(build: Any, start: Any, stop: Any, step: Any) -> None:
    total(build, start, stop, step)


def test_a_loop_whose_end_cannot_overflow_counts_plainly(build: Any, check: Any) -> None:
    """
    CHECK: [[LOOP:\\$L__BB0_[0-9]+]]:
    CHECK: add.rn.f32
    CHECK: setp
    CHECK-NEXT: @%p{{[0-9]+}} bra [[LOOP]];
    """
    check(total(build, 0, None, 1, (0, 1 << 32)))


def test_a_loop_that_never_runs_is_gone(build: Any) -> None:
    for start, stop, step in ((5, 5, 1), (3, 10, -1), (0, 10, 0), (10, 0, 3)):
        assert "ld.global" not in total(build, start, stop, step)


def test_a_loop_with_an_unknown_step_decides_the_direction_once(build: Any, check: Any) -> None:
    """
    CHECK: setp.{{(lt|gt)}}.s64 {{.*}}, 0;
    CHECK: bra
    """
    check(total(build, 0, None, None))


def test_break_continue_and_else(build: Any) -> None:
    b = build()
    y, x, v = b.view("y"), b.view("x", kind="Slice"), b.variable("v", F32)
    zero = b.constant(0.0, F32)
    b.set(v, zero)
    with b.loop(b.constant(0), b.scalar("n"), b.constant(1)) as outer:
        with b.loop(b.constant(0), outer.counter, b.constant(2)) as inner:
            value = b.load(x, inner.counter)
            with b.when(b.compare("lt", value, zero)):
                b.add(nodes.Continue)
            with b.when(b.compare("eq", value, zero)):
                b.add(nodes.Break)
            b.set(v, b.binary("add", b.get(v), value))
        with b.inside(inner.orelse):
            b.store(y, outer.counter, b.get(v))
    with b.inside(outer.orelse):
        b.store(y, b.constant(0), b.get(v))
    assemble(b.ptx(), "sm_90")


def test_while_evaluates_its_head_before_every_trip(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.nc.b32
    CHECK: setp
    CHECK: st.global.b32
    """
    b = build()
    y, x, n = b.view("y"), b.view("x", kind="Slice"), b.variable("n", I64)
    b.set(n, b.constant(0))
    op = nodes.While(location=b.place(), head=nodes.Block(), condition=None, body=nodes.Block(), orelse=nodes.Block())  # type: ignore[arg-type]
    with b.inside(op.head):
        value = b.load(x, b.get(n))
        op.condition = b.compare("gt", value, b.constant(0.0, F32))
    with b.inside(op.body):
        b.set(n, b.binary("add", b.get(n), b.constant(1)))
    b.blocks[-1].ops.append(op)
    b.store(y, b.constant(0), b.add(nodes.Cast, type=F32, operand=b.get(n)))
    ptx = b.ptx()
    check(ptx)
    assemble(ptx, "sm_90")


def test_an_endless_loop_stays(build: Any, check: Any) -> None:
    """LLVM may remove a loop without effect only where a function promises progress.
    CHECK: .entry
    CHECK: bra
    """
    b = build()
    b.view("y")
    true = b.constant(True, BOOL)
    b.add(nodes.While, head=nodes.Block(), condition=true, body=nodes.Block(), orelse=nodes.Block())
    ptx = b.ptx()
    check(ptx)
    assemble(ptx, "sm_90")


def test_leaving_a_scope_skips_its_rest(build: Any, check: Any) -> None:
    """
    CHECK: setp
    CHECK: selp.f32 %r[[V:[0-9]+]], 0f3F800000, 0f40000000,
    CHECK: st.global.b32 [%rd{{[0-9]+}}], %r[[V]];
    CHECK-NOT: st.global.b32
    """
    b = build()
    y, t, v = b.view("y"), b.thread(), b.variable("v", F32)
    x = b.load(y, t)
    scope = b.add(nodes.Scope, body=nodes.Block())
    with b.inside(scope.body):
        b.set(v, b.constant(1.0, F32))
        with b.when(b.compare("lt", x, b.constant(0.0, F32))):
            b.add(nodes.Leave, scope=scope)
        b.set(v, b.constant(2.0, F32))
    b.store(y, t, b.get(v))
    check(b.ptx())


def test_code_behind_two_returns_is_no_error(build: Any) -> None:
    b = build()
    y, t = b.view("y"), b.thread()
    op = b.add(nodes.If, condition=b.compare("lt", t, b.constant(5)), then=nodes.Block(), orelse=nodes.Block())
    for block in (op.then, op.orelse):
        with b.inside(block):
            b.add(nodes.Return)
    b.store(y, t, b.constant(1.0, F32))
    assert "st.global" not in b.ptx()


@pytest.mark.parametrize("optimise", [0, 3])
def test_a_barrier_in_a_loop_between_correlated_branches_stays_single(build: Any, optimise: int) -> None:
    """Threads that arrive from two copies of one barrier hang."""
    b = build()
    y, tile, n = b.view("y"), b.array("tile", F32, 256), b.scalar("n")
    t, which = b.special("thread_idx.x"), b.scalar("which", I32)
    odd = b.compare("eq", which, b.constant(1, I32))
    with b.loop(b.constant(0), n, b.constant(1)) as loop:
        op = b.add(nodes.If, condition=odd, then=nodes.Block(), orelse=nodes.Block())
        with b.inside(op.then):
            b.store(tile, t, b.load(y, loop.counter))
        with b.inside(op.orelse):
            b.store(tile, t, b.constant(1.0, F32))
        b.barrier()
        with b.when(odd):
            b.store(y, t, b.load(tile, b.constant(3)))
    ptx = b.ptx(optimise=optimise)
    assert len(re.findall(r"bar\.sync", ptx)) == 1
    assemble(ptx, "sm_90")


def test_the_indices_of_the_block_are_unfolded_from_a_linear_grid(build: Any, check: Any) -> None:
    """
    CHECK: .param .u32 k_param_[[GX:5]],
    CHECK: .param .u32 k_param_[[GY:6]],
    CHECK: mov.u32 %r[[LINEAR:[0-9]+]], %ctaid.x;
    CHECK-NOT: %ctaid.y
    CHECK: div.u32
    CHECK: div.u32
    """
    b = build(rank=3)
    y = b.view("y", I64)
    for number, axis in enumerate("xyz"):
        b.store(y, b.constant(number), b.special(f"block_idx.{axis}"))
    check(b.ptx())


def test_a_linear_grid_is_not_unfolded(build: Any) -> None:
    b = build(rank=1)
    y = b.view("y", I64)
    for number, axis in enumerate("xyz"):
        b.store(y, b.constant(number), b.special(f"block_idx.{axis}"))
    ptx = b.ptx()
    assert "div" not in ptx
    assert "rem" not in ptx


def test_the_extents_of_the_grid_are_hidden_parameters(build: Any, check: Any) -> None:
    """
    CHECK: ld.param.b32 {{.*}}, [k_param_5];
    CHECK: st.global.b64
    """
    b = build()
    b.store(b.view("y", I64), b.constant(0), b.special("grid_dim.x"))
    check(b.ptx())


def test_the_block_bounds_the_registers(build: Any, check: Any) -> None:
    """
    CHECK: .entry k(
    CHECK: .maxntid 16, 8, 2
    """
    b = build(block=(16, 8, 2))
    b.store(b.view("y", I64), b.constant(0), b.special("thread_rank"))
    check(b.ptx())


def test_an_axis_of_one_thread_is_zero(build: Any) -> None:
    b = build(block=(64, 1, 1))
    b.store(b.view("y", I64), b.special("thread_idx.y"), b.special("thread_rank"))
    ptx = b.ptx()
    assert "%tid.x" in ptx
    assert "%tid.y" not in ptx
