"""Where a thread stands: thread, block, lane and warp indices of the lanes of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, I64, Lanes, Linear, Term, Uniform, Vector
from kdsl.ir import nodes

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission


_TOGETHER: Final = {"warp_index": nodes.WARP_SIZE, "warp_group_index": nodes.WARP_GROUP_SIZE}
"""Threads for which an index is the same."""


_BAND: Final = 4
"""Rows of blocks that run column by column, each block to its end."""
_ORDERED: Final = (nodes.Atomic, nodes.Print, nodes.Fence, nodes.Instruction)
"""With these the order of blocks may show, or the kernel has hints for the order that it knows."""


def gains_by_order(kernel: nodes.Kernel) -> bool:
    """Whether a grid of several rows has blocks that are tiles, and read along both of their sides."""
    ops = list(nodes.walk(kernel.body))
    return kernel.block_dim[1] > 1 and any(isinstance(op, nodes.ForRange) for op in ops) and not any(isinstance(op, _ORDERED) for op in ops)


class Specials:
    """Emits `Special` values. Threads are numbered x fastest; group g holds the threads g * W and up."""

    def __init__(self, emission: Emission) -> None:
        self.e = emission
        self.band = _BAND
        """Rows of blocks that run column by column."""
        self.block: dict[str, Any] = {}
        """LLVM scalars of the block's indices."""
        self.block_number: Any = None
        """Linear number of the block, i64."""
        self.in_column: tuple[Any, Any] = ir.Constant(I64, 0), ir.Constant(I64, 1)
        """Which of the blocks that run one after the other in a column it is, and how many they are, i64."""
        self.first_thread: Any = ir.Constant(I64, 0)
        """Number of lane 0 of the group in the block, i64."""
        self.group: Any = ir.Constant(I64, 0)
        """Number of the group in the block, i64."""

    def enter_block(self, number: Any) -> None:
        """Take the block with this linear number apart, by the extents of the grid."""
        b = self.e.builder
        self.block_number = number
        zero = ir.Constant(I64, 0)
        if self.e.kernel.grid_rank == 1:
            self.block = {"block_idx.x": number, "block_idx.y": zero, "block_idx.z": zero}
            return
        x, y = (self._extent(f".grid_{axis}") for axis in "xy")
        if not self.e.keeps_order and gains_by_order(self.e.kernel):
            self._in_bands(number, x, y)
            return
        row = b.udiv(number, x)
        if self.e.kernel.grid_rank == 2:
            self.block = {"block_idx.x": b.urem(number, x), "block_idx.y": row, "block_idx.z": zero}
        else:
            self.block = {"block_idx.x": b.urem(number, x), "block_idx.y": b.urem(row, y), "block_idx.z": b.udiv(row, y)}

    def where(self) -> list[Any]:
        """What `enter_block` has found out by dividing: i64s that fit into 31 bits. The block's number, which failures are recorded with, is not among them."""
        return [*self.block.values(), *self.in_column]

    def return_to(self, where: list[Any]) -> None:
        """Take up a block again, of a kernel that cannot fail, by what `where` said of it."""
        x, y, z, *in_column = where
        self.block, self.block_number = {"block_idx.x": x, "block_idx.y": y, "block_idx.z": z}, None
        self.in_column = in_column[0], in_column[1]

    def _in_bands(self, place: Any, x: Any, y: Any) -> None:
        """Take the block that comes at a place: a few rows of blocks run column by column, so that what the blocks of a column read stays in a near cache
        until the last of them has read it.
        """
        b, band = self.e.builder, self.e.i64(self.band)
        plane = b.mul(x, y)
        number = b.udiv(place, plane)
        among = b.sub(place, b.mul(number, plane))
        first = b.mul(b.udiv(among, b.mul(x, band)), band)
        left = b.sub(y, first)
        height = b.select(b.icmp_unsigned("<", left, band), left, band)
        inside = b.sub(among, b.mul(first, x))
        # a place beyond the grid never comes, but LLVM may divide before it looks
        column = b.udiv(inside, b.select(b.icmp_unsigned("==", height, self.e.i64(0)), band, height))
        down = b.sub(inside, b.mul(column, height))
        self.in_column = down, height
        row = b.add(first, down)
        self.block_number = b.add(b.mul(b.add(b.mul(number, y), row), x), column)
        self.block = {"block_idx.x": column, "block_idx.y": row, "block_idx.z": number}

    def _extent(self, name: str) -> Any:
        # where a block runs no extent is 0; dividing by it must be defined all the same, since LLVM may divide before it looks
        extent = self.e.arguments[name]
        is_zero = self.e.builder.icmp_signed("==", extent, ir.Constant(I32, 0))
        return self.e.builder.zext(self.e.builder.select(is_zero, ir.Constant(I32, 1), extent), I64)

    def leave_group(self) -> None:
        """Go back to block level, where only what the whole block shares has a meaning."""
        self.first_thread = self.group = ir.Constant(I64, 0)

    def value(self, name: nodes.SpecialName) -> Lanes:
        """The value of one special."""
        e = self.e
        b, width = e.builder, e.width
        kernel = e.kernel
        if name.startswith("block_idx"):
            return Uniform(self.block[name])
        if name.startswith("grid_dim"):
            return Uniform(b.sext(e.arguments[f".grid_{name[-1]}"], I64))
        if kernel.threads == 1 or kernel.threads <= _TOGETHER.get(name, 0):
            return Uniform(e.i64(0), 0)
        match name:
            case "thread_rank":
                return Linear(self.first_thread, (Term(e.lanes.iota),), width if e.groups > 1 else 0)
            case "lane_index" if width > nodes.WARP_SIZE:
                return self._constant([lane % nodes.WARP_SIZE for lane in range(width)])
            case "lane_index":
                first = e.i64(0) if width == nodes.WARP_SIZE else b.and_(self.first_thread, e.i64(nodes.WARP_SIZE - 1))
                return Linear(first, (Term(e.lanes.iota),), 0 if width == nodes.WARP_SIZE or e.groups == 1 else width)
            case "warp_index" if width > nodes.WARP_SIZE:
                warps = tuple(lane // nodes.WARP_SIZE for lane in range(width))
                return Linear(b.lshr(self.first_thread, e.i64(5)), (Term(warps),), width // nodes.WARP_SIZE if e.groups > 1 else 0)
            case "warp_group_index":
                return Uniform(b.lshr(self.first_thread, e.i64(7)))
            case "warp_index":
                return Uniform(b.lshr(self.first_thread, e.i64(5)))
            case _:
                return self._thread("xyz".index(name[-1]))

    def _thread(self, axis: int) -> Lanes:
        """thread_idx along one axis: (rank // stride) % extent."""
        e = self.e
        b, width = e.builder, e.width
        extent = e.kernel.block_dim[axis]
        stride = 1
        for below in e.kernel.block_dim[:axis]:
            stride *= below
        if extent == 1:
            return Uniform(e.i64(0), 0)
        if e.groups == 1:
            return self._constant([(t // stride) % extent for t in range(width)])
        last = stride * extent == e.kernel.threads  # no threads beyond, so no remainder to take
        if stride % width == 0:  # the same in the whole group
            quotient = b.udiv(self.first_thread, e.i64(stride))
            return Uniform(quotient if last else b.urem(quotient, e.i64(extent)))
        if stride == 1 and (last or extent % width == 0):
            return Linear(self.first_thread if last else b.urem(self.first_thread, e.i64(extent)), (Term(e.lanes.iota),), width)
        if width % stride == 0:  # the group holds whole rows along the axes below
            rows = width // stride
            offsets = tuple(lane // stride for lane in range(width))
            if rows % extent == 0:
                return self._constant([o % extent for o in offsets])
            if last or extent % rows == 0:
                first = b.mul(self.group, e.i64(rows))
                return Linear(first if last else b.urem(first, e.i64(extent)), (Term(offsets),), rows)
        return self._table(stride, extent)

    def _constant(self, offsets: list[int]) -> Lanes:
        if len(set(offsets)) == 1:
            return Uniform(self.e.i64(offsets[0]), offsets[0])
        return Linear(self.e.i64(0), (Term(tuple(offsets)),), 0)

    def _table(self, stride: int, extent: int) -> Lanes:
        """Read the indices of the group's lanes from a table: the block's shape does not fit the group's."""
        e = self.e
        b = e.builder
        name = f"thread_index.{e.width}.{stride}.{extent}"
        kind = ir.VectorType(I32, e.width)
        if name not in e.module.globals:
            rows = [[((g * e.width + lane) // stride) % extent for lane in range(e.width)] for g in range(e.groups)]
            table = ir.GlobalVariable(e.module, ir.ArrayType(kind, e.groups), name)
            table.global_constant = True
            table.linkage = "internal"
            table.align = 64
            table.initializer = ir.Constant(table.value_type, [ir.Constant(kind, row) for row in rows])
        row = b.load(b.gep(e.module.globals[name], [self.group], source_etype=kind), align=4 * e.width if e.width <= 16 else 64, typ=kind)
        return Vector(b.sext(row, ir.VectorType(I64, e.width)))
