"""The barrier of a cluster, and addresses in another block's shared memory (PTX ISA, "barrier.cluster", "mapa")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import intrinsic
from kdsl.backend.nvptx.entry import pointer

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I32: Final = ir.IntType(32)
_CLUSTER: Final = 7
"""LLVM's number of the space of all shared memory of a cluster."""


def _sync(e: Emission) -> Sequence[Any]:
    """Arrives with release, waits with acquire: what nothing else is named for."""
    for step in ("arrive", "wait"):
        name = f"llvm.nvvm.barrier.cluster.{step}.aligned"
        e.builder.call(intrinsic(e.builder.module, name, ir.VoidType(), [], convergent=True), [])
    return ()


def remote_address(builder: ir.IRBuilder, address: Any, rank: Any) -> Any:
    """The place in the shared memory of block `rank` (i64) of the cluster that corresponds to an address in this block's.

    It goes through an integer, so that LLVM takes it for a place that anybody may know: that of one's own block is an array that it knows, too.
    """
    assembly = ir.InlineAsm(ir.FunctionType(_I32, [_I32, _I32]), "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r")
    mapped = builder.call(assembly, [builder.ptrtoint(address, _I32), builder.trunc(rank, _I32)])
    return builder.inttoptr(mapped, pointer(_CLUSTER))


EMITTERS: Final = {"sync_cluster": _sync}
