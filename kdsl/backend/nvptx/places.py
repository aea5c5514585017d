"""Where a thread stands: its indices, rank, lane and warp, and its block in the grid.

The hardware's grid is linear (its y and z are limited to 65,535); the block's indices are unfolded from it with the hidden parameters `grid_x` and `grid_y`.
All values are computed as 32-bit integers with known ranges.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from llvmlite import ir

from kdsl.backend.llvm.module import call_intrinsic, intrinsic
from kdsl.backend.nvptx import assembly
from kdsl.ir import nodes

_I32: Final = ir.IntType(32)
_MOST_BLOCKS: Final = (1 << 31) - 1
_MOST_THREADS: Final = 1024


class Places:
    """Emits the indices of a thread with a builder."""

    def __init__(self, kernel: nodes.Kernel, builder: ir.IRBuilder) -> None:
        self._kernel = kernel
        self._builder = builder

    def thread(self, axis: str) -> Any:
        """thread_idx.x, y or z, i32."""
        return thread_index(self._builder, axis, self._kernel.block_dim["xyz".index(axis)])

    def rank(self) -> Any:
        """thread_rank, i32."""
        b = self._builder
        x, y, _ = self._kernel.block_dim
        row = b.add(self.thread("y"), b.mul(self.thread("z"), _I32(y), flags=("nuw", "nsw")), flags=("nuw", "nsw"))
        return b.add(self.thread("x"), b.mul(row, _I32(x), flags=("nuw", "nsw")), flags=("nuw", "nsw"))

    def lane(self) -> Any:
        """lane_index, i32."""
        return self._builder.and_(self.rank(), _I32(nodes.WARP_SIZE - 1))

    def warp(self) -> Any:
        """warp_index, i32."""
        return self._builder.lshr(self.rank(), _I32(5))

    def warp_group(self) -> Any:
        """warp_group_index, i32, taken from the first lane of the warp: so the assembler knows that all have the same, and keeps what follows from it in
        registers of the warp. Here, in front of the body, all lanes are together."""
        group = self._builder.lshr(self.rank(), _I32(7))
        full, first, clamp = _I32(0xFFFFFFFF), _I32(0), _I32(31)
        return call_intrinsic(self._builder, "llvm.nvvm.shfl.sync.idx.i32", _I32, full, group, first, clamp)


def thread_index(builder: ir.IRBuilder, axis: str, extent: int = _MOST_THREADS) -> Any:
    """thread_idx.x, y or z (i32) in a block of that extent."""
    return _I32(0) if extent == 1 else _register(builder, f"tid.{axis}", extent)


def linear_block(builder: ir.IRBuilder) -> Any:
    """Number of the block in the hardware's grid, i32."""
    return _register(builder, "ctaid.x", _MOST_BLOCKS)


class Fresh(ir.IRBuilder):  # type: ignore[misc]
    """Code that reads registers of the hardware once more: LLVM does not know that it is what has been read before, and keeps nothing that comes from it."""


def _register(builder: ir.IRBuilder, name: str, extent: int) -> Any:
    if isinstance(builder, Fresh):
        return assembly.values(builder, f"mov.u32 $0, %{name.replace('cluster.ctarank', 'cluster_ctarank')};", [_I32])[0]
    value = builder.call(intrinsic(builder.module, f"llvm.nvvm.read.ptx.sreg.{name}", _I32, []), [])
    value.set_metadata("range", builder.module.add_metadata([_I32(0), _I32(extent)]))
    return value


def cluster_rank(builder: ir.IRBuilder, size: int) -> Any:
    """Number of the block in its cluster of `size` blocks, i32."""
    return _I32(0) if size == 1 else _register(builder, "cluster.ctarank", size)


Cluster: TypeAlias = tuple[int, int, int]
"""Blocks of a cluster along x, y and z; one without clusters."""


def block_indices(
    builder: ir.IRBuilder, linear: Any, grid_x: Any, grid_y: Any, rank: int, cluster: Cluster = (1, 1, 1)
) -> tuple[Any, Any, Any]:
    """block_idx.x, y and z (i32) from the linear number of a block, in a grid of 1 to 3 dimensions whose extents are multiples of the cluster's."""
    along_x, along_y, along_z = cluster
    if along_y * along_z > 1:  # else the blocks of a cluster are neighbours along x, as they are in the hardware's grid
        inside = builder.urem(linear, _I32(along_x * along_y * along_z))
        number = builder.udiv(linear, _I32(along_x * along_y * along_z))
        clusters_x, clusters_y = builder.udiv(grid_x, _I32(along_x)), builder.udiv(grid_y, _I32(along_y))
        first = block_indices(builder, number, clusters_x, clusters_y, rank)
        row = builder.udiv(inside, _I32(along_x))
        own = builder.urem(inside, _I32(along_x)), builder.urem(row, _I32(along_y)), builder.udiv(row, _I32(along_y))
        x, y, z = (builder.add(builder.mul(f, _I32(extent)), o) for f, extent, o in zip(first, cluster, own, strict=True))
        return x, y, z
    zero = _I32(0)
    if rank == 1:
        return linear, zero, zero
    rows = builder.udiv(linear, grid_x)
    x = builder.sub(linear, builder.mul(rows, grid_x))
    if rank == 2:
        return x, rows, zero
    z = builder.udiv(rows, grid_y)
    return x, builder.sub(rows, builder.mul(z, grid_y)), z
