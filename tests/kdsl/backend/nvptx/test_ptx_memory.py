"""Accesses: address spaces, the read-only path, aliasing, bool in memory, shared and local arrays."""

import re
from typing import Any

import pytest

from kdsl.ir import nodes
from kdsl.lang.types import BOOL, F32, F64, I32, I64, U64, DType
from kdsl.testing.ptx import assemble


def copy(build: Any, *, x: dict[str, Any], y: dict[str, Any], of: DType = F32, barrier: bool = False) -> str:
    b = build()
    target, source, t = b.view("y", of, **y), b.view("x", of, "Slice", **x), b.thread()
    value = b.load(source, t)
    if barrier:
        b.barrier()
    b.store(target, t, value)
    return b.ptx()


def test_a_view_that_is_only_read_takes_the_read_only_path(build: Any, check: Any) -> None:
    """
    CHECK: .param .u64 .ptr .global .align 4 k_param_0,
    CHECK: ld.global.nc.b32
    CHECK: st.global.b32
    """
    check(copy(build, x={}, y={}))


def test_views_with_one_witness_may_be_one_array(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.b32
    CHECK: st.global.b32
    """
    same = {"witness": "thread_index"}
    check(copy(build, x=same, y={"kind": "DisjointSlice", **same}))


def test_views_with_different_witnesses_may_not(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.nc.b32
    """
    check(copy(build, x={"witness": "row_index"}, y={"kind": "DisjointSlice", "witness": "thread_index"}))


def test_the_order_of_accesses_to_what_may_be_one_array_is_kept(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.b32 %r[[FIRST:[0-9]+]], [%rd[[X:[0-9]+]]];
    CHECK: st.global.b32
    CHECK: ld.global.b32 %r[[SECOND:[0-9]+]], [%rd[[X]]];
    """
    b = build()
    same = {"witness": "thread_index"}
    y, x, t = b.view("y", kind="DisjointSlice", **same), b.view("x", kind="Slice", **same), b.thread()
    first = b.load(x, t)
    b.store(y, t, b.binary("add", first, first))
    second = b.load(x, t)
    b.store(y, t, b.binary("mul", second, first))
    check(b.ptx())


def test_what_other_threads_write_is_read_again_after_a_barrier(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.b32
    CHECK: st.global.b32
    CHECK: bar.sync
    CHECK: ld.global.b32
    """
    b = build()
    y, z = b.view("y"), b.view("z")
    t, zero = b.thread(), b.constant(0)
    b.store(z, t, b.load(y, zero))
    with b.when(b.compare("eq", t, zero)):
        b.store(y, zero, b.constant(2.0, F32))
    b.barrier()
    b.store(z, t, b.binary("add", b.load(y, zero), b.load(z, t)))
    check(b.ptx())


def test_the_read_only_path_crosses_barriers(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.nc.b32
    CHECK: bar.sync
    """
    check(copy(build, x={}, y={}, barrier=True))


@pytest.mark.parametrize("of", [F64, I64, U64])
def test_a_64_bit_element_is_one_access(build: Any, of: DType) -> None:
    ptx = copy(build, x={}, y={}, of=of)
    assert len(re.findall(r"ld\.global\.nc\.b64", ptx)) == 1
    assert len(re.findall(r"st\.global\.b64", ptx)) == 1


def test_the_address_is_computed_in_64_bits(build: Any, check: Any) -> None:
    """
    CHECK: mul.wide.u32
    CHECK: add.s64
    """
    check(copy(build, x={}, y={}))


def test_any_byte_but_zero_is_true(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.nc.b8 %rs[[BYTE:[0-9]+]]
    CHECK: setp.ne.b16 %p[[TRUE:[0-9]+]], %rs[[BYTE]], 0;
    CHECK: selp.b16 {{.*}}, 1, 0, %p[[TRUE]];
    CHECK: st.global.b8
    """
    check(copy(build, x={}, y={}, of=BOOL))


def test_a_bool_parameter_is_a_byte(build: Any, check: Any) -> None:
    """
    CHECK: .param .u8 k_param_2
    CHECK: ld.param.b8
    CHECK: setp.ne.b16
    """
    b = build()
    y, flag = b.view("y", BOOL), b.scalar("flag", BOOL)
    b.store(y, b.thread(), flag)
    check(b.ptx())


def test_parameters_may_be_called_like_hidden_ones(build: Any) -> None:
    b = build()
    y = b.view("record", I32)
    value = b.binary("add", b.scalar("claim", I32), b.binary("add", b.scalar("kernel", I32), b.scalar("grid_x", I32)))
    b.store(y, b.thread(), value, checked=True)
    ptx = b.ptx()
    for number in (2, 3, 4):
        assert re.search(rf"ld\.param\.b32 .*\[k_param_{number}\]", ptx)


def test_a_shared_array_is_read_after_the_barrier(build: Any, check: Any) -> None:
    """
    CHECK: .shared .align 16 .b8 kdsl_shared0_tile[1024];
    CHECK: st.shared.b32
    CHECK: bar.sync 0;
    CHECK: ld.shared.b32
    """
    b = build()
    y, tile = b.view("y"), b.array("tile", F32, 256)
    t, rank = b.thread(), b.special("thread_rank")
    b.store(tile, rank, b.load(y, t))
    b.barrier()
    b.store(y, t, b.load(tile, b.binary("sub", b.constant(255), rank)))
    ptx = b.ptx()
    check(ptx)
    assert assemble(ptx, "sm_90").shared == 1024


def test_shared_arrays_are_apart_and_aligned(build: Any) -> None:
    b = build()
    y, t = b.view("y", F64), b.special("thread_idx.x")
    for number, (name, of, size) in enumerate((("s", F32, 33), ("s", BOOL, 5), ("é d", F64, 4))):
        array = b.array(name, of, size)
        b.store(array, t, b.add(nodes.Cast, type=of, operand=t))
        b.barrier()
        value = b.load(array, b.constant(number))
        b.store(y, b.constant(number), b.add(nodes.Cast, type=F64, operand=value))
    ptx = b.ptx()
    assert re.findall(r"\.shared \.align 16 \.b8 (\w+)\[(\d+)\]", ptx) == [
        ("kdsl_shared0_s", "132"), ("kdsl_shared1_s", "5"), ("kdsl_shared2_d", "32"),
    ]  # fmt: skip
    assert assemble(ptx, "sm_90").shared == 144 + 16 + 32


def test_a_choice_among_shared_arrays_makes_no_table_of_addresses(build: Any) -> None:
    """LLVM builds `.global table = {a, b, c, d}` from such a chain, which ptxas refuses."""
    b = build()
    y, t, which = b.view("y"), b.special("thread_idx.x"), b.scalar("which", I32)
    arrays = [b.array(name, F32, 256) for name in "abcd"]
    for array in arrays:
        b.store(array, t, b.load(y, t))
    b.barrier()

    def chain(number: int) -> None:
        op = b.add(nodes.If, condition=b.compare("eq", which, b.constant(number, I32)), then=nodes.Block(), orelse=nodes.Block())
        with b.inside(op.then):
            b.store(y, t, b.load(arrays[number], b.constant(3)))
        if number + 1 < len(arrays):
            with b.inside(op.orelse):
                chain(number + 1)

    chain(0)
    ptx = b.ptx()
    assert ".global ." not in ptx.split(".visible")[0]
    assemble(ptx, "sm_90")


def test_a_choice_among_constants_makes_no_table(build: Any) -> None:
    b = build()
    y, which = b.view("y"), b.scalar("which", I32)
    v = b.variable("v", F32)
    b.set(v, b.constant(0.0, F32))
    for number in range(8):
        with b.when(b.compare("eq", which, b.constant(number, I32))):
            b.set(v, b.constant(float(number * number), F32))
    b.store(y, b.thread(), b.get(v))
    ptx = b.ptx()
    assert "switch.table" not in ptx
    assemble(ptx, "sm_90")


def test_a_local_array_with_run_time_indices_lies_in_local_memory(build: Any, check: Any) -> None:
    """
    CHECK: .local .align 16 .b8 {{.*}}[64];
    CHECK: st.local.b32
    CHECK: ld.local.b32
    """
    b = build()
    y, t = b.view("y"), b.special("thread_idx.x")
    array = b.array("a", F32, 16, space="local")
    sixteen = b.constant(16)
    for number in range(4):
        b.store(array, b.binary("mod", b.binary("add", t, b.constant(3 * number)), sixteen), b.load(y, b.constant(number)))
    b.store(y, t, b.load(array, b.binary("mod", b.load(b.view("i", I64, "Slice"), t), sixteen)))
    check(b.ptx())


def test_a_local_array_with_constant_indices_is_in_registers(build: Any) -> None:
    b = build()
    y, t = b.view("y"), b.special("thread_idx.x")
    array = b.array("a", F32, 4, space="local")
    for number in range(4):
        b.store(array, b.constant(number), b.load(y, b.constant(number)))
    for number in range(4):
        b.store(y, t, b.binary("add", b.load(y, t), b.load(array, b.constant(3 - number))))
    assert ".local" not in b.ptx()


def test_two_dimensions_are_row_major(build: Any, check: Any) -> None:
    """
    CHECK: .shared .align 16 .b8 kdsl_shared0_tile[1088];
    CHECK: {{(mul|mad).*}}, 68
    """
    b = build(block=(16, 16, 1))
    y, tile = b.view("y"), b.array("tile", F32, 16, 17)
    column, row = b.special("thread_idx.x"), b.special("thread_idx.y")
    b.store(tile, row, column, b.load(y, b.special("thread_rank")))
    b.barrier()
    b.store(y, b.special("thread_rank"), b.load(tile, column, row))
    check(b.ptx())


@pytest.mark.parametrize("space", ["shared", "local"])
def test_an_element_that_was_never_written_is_some_value(build: Any, space: str, check: Any) -> None:
    """
    CHECK: setp
    CHECK: // kdsl_record_failure
    CHECK: st.global
    """
    b = build()
    y, t = b.view("y"), b.special("thread_idx.x")
    index = b.load(b.array("a", I64, 4, space=space), b.binary("mod", t, b.constant(4)))
    b.store(y, index, b.constant(1.0, F32), checked=True)
    check(b.ptx())
