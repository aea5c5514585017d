"""Exchange between lanes: which instructions, and who takes part."""

import re
from typing import Any

import pytest

from kdsl.backend.nvptx import TARGETS
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, ToExchange
from kdsl.lang.types import BOOL, DTYPES, F32, F64, I32, I64, U32, DType
from kdsl.testing.ptx import assemble

EXCHANGES = [name for name, row in INTRINSICS.items() if isinstance(row.lowering, ToExchange)]
SHUFFLES = [name for name in EXCHANGES if name.startswith("shuffle")]


def takes(name: str, of: DType) -> bool:
    """Whether an exchange is of this type."""
    row = INTRINSICS[name].lowering
    assert isinstance(row, ToExchange)
    return of.is_integer if row.mode in ("and", "or", "xor") else not of.is_bool or row.kind not in ("reduce", "scan", "exclusive")


def exchange(build: Any, name: str, of: DType = F32, *, block: tuple[int, int, int] = (256, 1, 1), before: Any = None) -> Any:
    b = build(block=block)
    row = INTRINSICS[name].lowering
    assert isinstance(row, ToExchange)
    y, t = b.view("y", of), b.special("thread_rank")
    x = b.load(y, t)
    if before is not None:
        before(b, t)
    if row.kind == "vote":
        predicate = x if of is BOOL else b.add(nodes.Cast, type=BOOL, operand=x)
        value = b.exchange(name, predicate, of=U32 if row.mode == "ballot" else BOOL)
        value = value if value.type is of else b.add(nodes.Cast, type=of, operand=value)
    elif row.kind == "match":
        value = b.exchange(name, x, of=U32 if row.mode == "any" else BOOL)
        value = value if value.type is of else b.add(nodes.Cast, type=of, operand=value)
    elif row.kind in ("reduce", "scan", "exclusive"):
        value = b.exchange(name, x)
    else:
        value = b.exchange(name, x, b.load(b.view("n", I64, "Slice"), t))
    b.store(y, t, value)
    return b


def test_warp_sum_is_a_butterfly_of_16_8_4_2_1(build: Any, check: Any) -> None:
    """
    CHECK: ld.global.b32 %r[[V:[0-9]+]]
    CHECK-NEXT: .loc
    CHECK-NEXT: shfl.sync.bfly.b32 %r[[A:[0-9]+]], %r[[V]], 16, 31, -1;
    CHECK-NEXT: add.rn.f32 %r[[S:[0-9]+]], %r[[V]], %r[[A]];
    CHECK-NEXT: shfl.sync.bfly.b32 %r[[B:[0-9]+]], %r[[S]], 8, 31, -1;
    CHECK: shfl.sync.bfly.b32 {{.*}}, 4, 31, -1;
    CHECK: shfl.sync.bfly.b32 {{.*}}, 2, 31, -1;
    CHECK: shfl.sync.bfly.b32 {{.*}}, 1, 31, -1;
    CHECK-NEXT: add.rn.f32
    CHECK-NOT: ballot
    """
    check(exchange(build, "warp_sum").ptx())


def test_warp_max_keeps_nan(build: Any, check: Any) -> None:
    """
    CHECK-COUNT-5: max.NaN.f32
    """
    check(exchange(build, "warp_max").ptx())


@pytest.mark.parametrize("name", SHUFFLES)
def test_a_shuffle_is_one_instruction_of_the_whole_warp(build: Any, name: str) -> None:
    ptx = exchange(build, name).ptx()
    row = INTRINSICS[name].lowering
    assert isinstance(row, ToExchange)
    clamp = 0 if row.mode == "up" else 31
    assert len(re.findall(rf"shfl\.sync\.{row.mode}\.b32 .*, {clamp}, -1;", ptx)) == 1
    assert "and.b32" in ptx  # the amount is taken modulo 32, in the range that the hardware defines
    assert "ballot" not in ptx


@pytest.mark.parametrize("of", [F64, I64])
def test_a_64_bit_value_is_shuffled_in_two_words(build: Any, of: DType) -> None:
    assert len(re.findall(r"shfl\.sync", exchange(build, "shuffle", of).ptx())) == 2


def test_votes(build: Any) -> None:
    for name, instruction in (("warp_any", "any.pred"), ("warp_all", "all.pred"), ("warp_ballot", "ballot.b32")):
        assert re.search(rf"vote\.sync\.{instruction} .*, -1;", exchange(build, name).ptx())


@pytest.mark.parametrize("name", EXCHANGES)
@pytest.mark.parametrize("block", [(256, 1, 1), (40, 1, 1)])
def test_every_exchange_of_every_type_assembles(build: Any, name: str, block: tuple[int, int, int]) -> None:
    for of in DTYPES.values():
        if not takes(name, of):
            continue
        for optimise in (0, 3):
            assemble(exchange(build, name, of, block=block).ptx(optimise=optimise), "sm_90")


@pytest.mark.parametrize("target", TARGETS)
def test_exchange_assembles_for_every_target(build: Any, target: str) -> None:
    for name in EXCHANGES:
        assemble(exchange(build, name, F32 if takes(name, F32) else I32).ptx(target), target)


def test_in_a_partial_warp_a_ballot_says_who_takes_part(build: Any, check: Any) -> None:
    """
    CHECK: vote.sync.ballot.b32 %r[[PRESENT:[0-9]+]]
    CHECK-COUNT-5: shfl.sync.idx.b32
    """
    check(exchange(build, "warp_sum", block=(48, 1, 1)).ptx())


@pytest.mark.parametrize("name", SHUFFLES)
def test_a_shuffle_from_a_lane_that_may_be_absent_is_selected(build: Any, name: str, check: Any) -> None:
    """
    CHECK: shfl.sync
    CHECK: vote.sync.ballot.b32 %r[[PRESENT:[0-9]+]]
    CHECK: shr.u32 %r{{[0-9]+}}, %r[[PRESENT]]
    CHECK: selp
    """
    check(exchange(build, name, block=(33, 1, 1)).ptx())


def test_votes_leave_absent_lanes_out_by_themselves(build: Any) -> None:
    ptx = exchange(build, "warp_all", block=(48, 1, 1)).ptx()
    assert "ballot" not in ptx


def returns(condition: Any) -> Any:
    def emit(b: Any, t: Any) -> None:
        with b.when(condition(b, t)):
            b.add(nodes.Return)

    return emit


def test_whole_warps_that_return_do_not_matter(build: Any) -> None:
    by_warp = returns(lambda b, t: b.compare("ge", b.special("warp_index"), b.scalar("rows")))
    assert "ballot" not in exchange(build, "warp_sum", before=by_warp).ptx()


def test_single_lanes_that_return_matter(build: Any) -> None:
    by_lane = returns(lambda b, t: b.compare("ge", t, b.scalar("n")))
    assert "ballot" in exchange(build, "warp_sum", before=by_lane).ptx()


def test_a_return_behind_the_exchange_does_not_matter(build: Any) -> None:
    b = exchange(build, "warp_sum")
    with b.when(b.compare("lt", b.special("thread_idx.x"), b.constant(3))):
        b.add(nodes.Return)
    b.store(b.kernel.parameters[0], b.special("thread_idx.x"), b.constant(1.0, F32))
    assert "ballot" not in b.ptx()


def test_a_return_behind_the_exchange_in_a_loop_matters(build: Any) -> None:
    b = build()
    y, t = b.view("y"), b.special("thread_idx.x")
    with b.loop(b.constant(0), b.scalar("n"), b.constant(1)):
        total = b.exchange("warp_sum", b.load(y, t))
        b.store(y, t, total)
        with b.when(b.compare("lt", t, b.load(b.view("last", I64, "Slice"), b.constant(0)))):
            b.add(nodes.Return)
    assert "ballot" in b.ptx()


def test_integer_sums_wrap(build: Any, check: Any) -> None:
    """
    CHECK: shfl.sync.idx.b32
    CHECK: add.s64
    CHECK-NOT: add.rn
    """
    check(exchange(build, "warp_sum", I64, block=(48, 1, 1)).ptx())


def test_a_whole_warp_reduces_32_bit_integers_in_one_instruction(build: Any, check: Any) -> None:
    """
    CHECK: redux.sync.add.s32
    CHECK-NOT: shfl
    """
    check(exchange(build, "warp_sum", I32).ptx())
