"""The barrier of the grid, and the instructions of dependent launches (PTX ISA, "griddepcontrol").

The barrier is a word in global memory that belongs to the launch or to its stream. Its top bit flips when all blocks have arrived: block 0 adds what is missing
to 2**31 when the other blocks add 1 each. So between two barriers the other bits are 0, whatever the top bit is, and nobody has to reset it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import intrinsic

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_FLIPPED: Final = 1 << 31


def _sync_grid(e: Emission) -> Sequence[Any]:
    """Thread 0 arrives and waits for its block. The barriers of the block on both sides hand on what release and acquire order."""
    b = e.builder
    thread, block, blocks = e.arguments
    _sync_block(b)
    arrive, wait, done = (b.append_basic_block(f"grid.{name}") for name in ("arrive", "wait", "done"))
    b.cbranch(b.icmp_unsigned("==", thread, _I64(0)), arrive, done)
    b.position_at_end(arrive)
    place = b.ptrtoint(e.entry.hidden("barrier"), _I64)
    others = b.sub(b.trunc(blocks, _I32), _I32(1))
    share = b.select(b.icmp_unsigned("==", block, _I64(0)), b.sub(_I32(_FLIPPED), others), _I32(1))
    before = _asm(b, "atom.release.gpu.global.add.u32 $0, [$1], $2;", "=r,l,r", place, share)
    b.branch(wait)
    b.position_at_end(wait)
    now = _asm(b, "ld.acquire.gpu.global.u32 $0, [$1];", "=r,l", place)
    b.cbranch(b.icmp_signed("<", b.xor(before, now), _I32(0)), done, wait)
    b.position_at_end(done)
    _sync_block(b)
    return ()


def _sync_block(builder: ir.IRBuilder) -> None:
    name = "llvm.nvvm.barrier.cta.sync.aligned.all"
    builder.call(intrinsic(builder.module, name, ir.VoidType(), [_I32], convergent=True), [_I32(0)])


def _asm(builder: ir.IRBuilder, text: str, constraints: str, *arguments: Any) -> Any:
    kind = ir.FunctionType(_I32, [a.type for a in arguments])
    return builder.asm(kind, text, f"{constraints},~{{memory}}", list(arguments), True)


def _dependent(name: str) -> Any:
    def emit(e: Emission) -> Sequence[Any]:
        e.builder.call(intrinsic(e.builder.module, f"llvm.nvvm.griddepcontrol.{name}", ir.VoidType(), []), [])
        return ()

    return emit


EMITTERS: Final = {
    "sync_grid": _sync_grid,
    "wait_for_dependencies": _dependent("wait"),
    "launch_dependents": _dependent("launch.dependents"),
}
