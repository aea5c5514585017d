"""What a failed check does on the GPU: the first one fills the record that the host reads, and the thread goes on.

It stands where the check is, away from the way of those that hold, and is no function: ptxas sees a call on that side of the branch only which makes it, and
takes registers of the warp that lanes on the other side still read. The layout of the record and the protocol (claim, fill, fence of system scope, state)
stand in `kdsl.ir.abi`. What is not here: the checks.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.nvptx.assembly import letter
from kdsl.backend.nvptx.entry import Entry, attribute
from kdsl.backend.nvptx.places import Cluster, block_indices, linear_block
from kdsl.ir.abi import RECORD

RECORDING: Final = "// kdsl_record_failure"
"""A comment where a failure is recorded."""

_I32: Final = ir.IntType(32)


def record(builder: ir.IRBuilder, entry: Entry, site: int, dimension: Any, index: Any, extent: Any) -> None:
    """Record that check `site` failed: `index` (i64) is outside of `extent` (i64) along `dimension` (i32)."""
    first, done = builder.append_basic_block("claimed"), builder.append_basic_block("recorded")
    claimed = builder.cmpxchg(entry.hidden("claim"), _I32(0), _I32(1), "monotonic", "monotonic")
    builder.cbranch(builder.extract_value(claimed, 1), first, done)
    builder.position_at_end(first)
    cluster: Cluster = entry.cluster if entry.cluster[1:] != (1, 1) else (1, 1, 1)
    block = block_indices(builder, linear_block(builder), entry.hidden("grid_x"), entry.hidden("grid_y"), entry.grid_rank, cluster)
    fields = {"kernel": entry.hidden("kernel"), "site": _I32(site), "dimension": dimension, "index": index, "extent": extent}
    fields |= dict(zip(("block_x", "block_y", "block_z"), block, strict=True))
    # One statement, of which LLVM knows that it touches nothing that the kernel reads: values that were read before stay valid. It takes few registers.
    operands, stores = [entry.hidden("record")], []
    for name, value in fields.items():
        if not isinstance(value, ir.Constant):
            operands.append(value)
        written = value.constant if isinstance(value, ir.Constant) else f"${len(operands) - 1}"
        stores.append(f"st.global.b{value.type.width} [$0+{RECORD[name]}], {written};")
    stores += [f"mov.u32 %t, %tid.{axis}; st.global.b32 [$0+{RECORD[f'thread_{axis}']}], %t;" for axis in "xyz"]
    # The host looks only after a synchronisation, so a plain store behind the fence is enough
    text = "\n\t".join((RECORDING, "{ .reg .b32 %t;", *stores, "fence.sc.sys;", f"st.global.b32 [$0+{RECORD['state']}], 1; }}"))
    letters = ["l", *(letter(value.type) for value in operands[1:])]
    call = builder.asm(ir.FunctionType(ir.VoidType(), [value.type for value in operands]), text, ",".join(letters), operands, True)
    attribute(call.attributes, "memory(inaccessiblemem: readwrite)")
    builder.branch(done)
    builder.position_at_end(done)
