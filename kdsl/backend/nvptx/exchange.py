"""Exchange between the lanes of a warp (`nodes.Exchange`): shuffles, reductions by butterfly, prefix sums, votes, matches.

The frontend has proved that all lanes of the warp that have not returned arrive together. `shfl.sync` and `vote.sync` wait for the lanes of their mask
that have not exited, so the mask is full unless the kernel gives one. Votes leave exited lanes out by themselves. A shuffle from an exited lane (or from one
that a partial warp never had, or that the mask does not name) is undefined, so where there can be such lanes a ballot says who takes part.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.llvm.arithmetic import Arithmetic
from kdsl.backend.llvm.identities import identity
from kdsl.backend.llvm.module import call_intrinsic
from kdsl.ir import nodes
from kdsl.lang.intrinsics import INTRINSICS, ToExchange
from kdsl.lang.types import DType

_I1: Final = ir.IntType(1)
_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_FULL: Final = _I32(0xFFFFFFFF)
_CLAMP: Final = {"bfly": 31, "idx": 31, "down": 31, "up": 0}
_BUTTERFLY: Final = (16, 8, 4, 2, 1)


class Exchanges:
    """Emits exchanges with a builder."""

    def __init__(self, builder: ir.IRBuilder, arithmetic: Arithmetic, lane: Any) -> None:
        self._builder = builder
        self._arithmetic = arithmetic
        self._lane = lane
        self._named: Any = _FULL

    def emit(self, op: nodes.Exchange, arguments: list[Any], mask: Any | None, *, whole: bool) -> Any:
        """The value of an exchange among the lanes of `mask` (None: all). `whole` says that all 32 lanes are known to take part."""
        self._named = _FULL if mask is None else mask
        lowering = INTRINSICS[op.name].lowering
        assert isinstance(lowering, ToExchange)
        of = op.arguments[0].type
        match lowering.kind:
            case "vote":
                result = _I32 if lowering.mode == "ballot" else _I1
                return call_intrinsic(self._builder, f"llvm.nvvm.vote.{lowering.mode}.sync", result, self._named, arguments[0])
            case "reduce" if whole:
                return self._reduce(lowering.mode, of, arguments[0])
            case "scan":
                return self._scan(lowering.mode, of, arguments[0], whole=whole)
            case "exclusive":
                return self._exclusive(lowering.mode, of, arguments[0], whole=whole)
            case "match":
                return self._match(lowering.mode, of, arguments[0], whole=whole)
            case "reduce":
                return self._reduce_some(lowering.mode, of, arguments[0])
            case "shuffle":
                amount = self._builder.and_(self._builder.trunc(arguments[1], _I32), _I32(op.width - 1))
                got = self._shuffle(lowering.mode, of, arguments[0], amount, op.width)
                return got if whole else self._own_if_absent(lowering.mode, arguments[0], got, amount, op.width)

    # ---------------------------------------------------------------------------------------------------------------- shuffle

    def _shuffle(self, mode: str, of: DType, value: Any, amount: Any, width: int = 32) -> Any:
        """`shfl.sync` of any element type: in words of 32 bits."""
        b, kind = self._builder, value.type
        if of.is_float:
            value = b.bitcast(value, ir.IntType(of.bits))
        if of.bits == 64:
            low = self._shuffle_word(mode, b.trunc(value, _I32), amount, width)
            high = self._shuffle_word(mode, b.trunc(b.lshr(value, _I64(32)), _I32), amount, width)
            got = b.or_(b.zext(low, _I64), b.shl(b.zext(high, _I64), _I64(32)))
        elif of.bits == 32:
            got = self._shuffle_word(mode, value, amount, width)
        else:
            got = b.trunc(self._shuffle_word(mode, b.zext(value, _I32), amount, width), kind)
        return b.bitcast(got, kind) if of.is_float else got

    def _shuffle_word(self, mode: str, word: Any, amount: Any, width: int) -> Any:
        # The bits from 8 on say which of the lane's number are the segment's (PTX ISA, "shfl.sync")
        clamp = _I32(_CLAMP[mode] | (32 - width) << 8)
        return call_intrinsic(self._builder, f"llvm.nvvm.shfl.sync.{mode}.i32", _I32, self._named, word, amount, clamp)

    def _own_if_absent(self, mode: str, own: Any, got: Any, amount: Any, width: int) -> Any:
        b = self._builder
        # Up and down beyond the segment give the own value already, so there any bit of the ballot serves
        match mode:
            case "idx":
                source = b.or_(b.and_(self._lane, _I32(32 - width)), amount)
            case "bfly":
                source = b.xor(self._lane, amount)
            case _:
                source = b.sub(self._lane, amount) if mode == "up" else b.add(self._lane, amount)
        present = b.trunc(b.lshr(self._present(), b.and_(source, _I32(31))), _I1)
        return b.select(present, got, own)

    def _present(self) -> Any:
        """A bit for every lane that takes part."""
        return call_intrinsic(self._builder, "llvm.nvvm.vote.ballot.sync", _I32, self._named, _I1(1))

    # -------------------------------------------------------------------------------------------------------------- reduction

    def _reduce(self, mode: str, of: DType, value: Any) -> Any:
        if of.is_integer and of.bits == 32:
            return self._in_one(mode, of, value, _FULL)
        for distance in _BUTTERFLY:
            value = self._arithmetic.combine(mode, of, value, self._shuffle("bfly", of, value, _I32(distance)))
        return value

    def _in_one(self, mode: str, of: DType, value: Any, present: Any) -> Any:
        """One instruction: of integers the order of combination does not show."""
        unsigned = "u" if mode in ("min", "max") and not of.is_signed else ""
        return call_intrinsic(self._builder, f"llvm.nvvm.redux.sync.{unsigned}{mode}", _I32, value, present)

    def _reduce_some(self, mode: str, of: DType, value: Any) -> Any:
        """The same tree with the absent lanes left out.

        After the rounds down to some distance, all lanes whose numbers agree below that distance hold the same partial result. A lane whose partner is absent
        takes it from the first such lane that is there; if there is none, that branch of the tree is empty.
        """
        b = self._builder
        present = self._present()
        if of.is_integer and of.bits == 32:
            return self._in_one(mode, of, value, present)
        for distance in _BUTTERFLY:
            alike = sum(1 << lane for lane in range(0, 32, 2 * distance))
            partner = b.and_(b.xor(self._lane, _I32(distance)), _I32(2 * distance - 1))
            holders = b.and_(present, b.shl(_I32(alike), partner))
            # With the highest bit there is always a first one; which lane it names does not matter where there are no holders
            first = call_intrinsic(b, "llvm.cttz.i32", _I32, b.or_(holders, _I32(1 << 31)), _I1(1))
            other = self._shuffle("idx", of, value, first)
            value = b.select(b.icmp_unsigned("!=", holders, _I32(0)), self._arithmetic.combine(mode, of, value, other), value)
        return value

    # ------------------------------------------------------------------------------------------------------------ scan, match

    def _scan(self, mode: str, of: DType, value: Any, *, whole: bool) -> Any:
        """In the round of d, a lane with the bit d adds what the last lane of the d lanes below its own d lanes has: all of theirs together.

        Where lanes may be absent, the last one that is there has it; if there is none, nothing is added.
        """
        b = self._builder
        present = None if whole else self._present()
        for distance in reversed(_BUTTERFLY):
            first = b.and_(self._lane, _I32(32 - 2 * distance))
            takes = b.icmp_unsigned("!=", b.and_(self._lane, _I32(distance)), _I32(0))
            if present is None:
                source = b.or_(first, _I32(distance - 1))
            else:
                holders = b.and_(present, b.shl(_I32((1 << distance) - 1), first))
                takes = b.and_(takes, b.icmp_unsigned("!=", holders, _I32(0)))
                # With the lowest bit there is always a last one; which lane it names does not matter where there are no holders
                highest = call_intrinsic(b, "llvm.ctlz.i32", _I32, b.or_(holders, _I32(1)), _I1(1))
                source = b.sub(_I32(31), highest)
            below = self._shuffle("idx", of, value, source)
            value = b.select(takes, self._arithmetic.combine(mode, of, below, value), value)
        return value

    def _exclusive(self, mode: str, of: DType, value: Any, *, whole: bool) -> Any:
        """What the scan gives the next lane below that is there."""
        b = self._builder
        scanned = self._scan(mode, of, value, whole=whole)
        if whole:
            first = b.icmp_unsigned("==", self._lane, _I32(0))
            below = self._shuffle("up", of, scanned, _I32(1))
        else:
            lower = b.and_(self._present(), b.sub(b.shl(_I32(1), self._lane), _I32(1)))
            first = b.icmp_unsigned("==", lower, _I32(0))
            # with the lowest bit there is always one; which lane it names does not matter in the first one
            highest = call_intrinsic(b, "llvm.ctlz.i32", _I32, b.or_(lower, _I32(1)), _I1(1))
            below = self._shuffle("idx", of, scanned, b.sub(_I32(31), highest))
        return b.select(first, self._arithmetic.constant(of, identity(mode, of)), below)

    def _match(self, mode: str, of: DType, value: Any, *, whole: bool) -> Any:
        """`match.sync` compares words of 32 or 64 bits, of the lanes that its mask names."""
        b = self._builder
        if of.is_float:
            value = b.bitcast(value, ir.IntType(of.bits))
        if of.bits < 32:
            value = b.zext(value, _I32)
        mask, kind = _FULL if whole else self._present(), f"i{value.type.width}"
        if mode == "any":
            return call_intrinsic(b, f"llvm.nvvm.match.any.sync.{kind}", _I32, mask, value)
        pair = ir.LiteralStructType([_I32, _I1])
        return b.extract_value(call_intrinsic(b, f"llvm.nvvm.match.all.sync.{kind}p", pair, mask, value), 1)
