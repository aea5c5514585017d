"""What a failed check does on the GPU: the first one fills the record that the host reads, and the thread goes on.

One small function per module, never expanded in place, so that a check costs its branch and nothing else. All that it needs is handed over: what it made of
constants ptxas would keep in registers of the warp, and take those that lanes on the other side of the branch still read. The layout of the record and the
protocol (claim, fill, fence of system scope, state) stand in `kdsl.ir.abi`. What is not here: the checks.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.nvptx.entry import GLOBAL, Entry, attribute, pointer
from kdsl.backend.nvptx.places import Cluster, block_indices, linear_block, thread_index
from kdsl.backend.nvptx.ptxas import RECORDING
from kdsl.ir.abi import RECORD

_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_HIDDEN: Final = ("claim", "record", "kernel", "grid_x", "grid_y")


class Failures:
    """Calls of the recording function of one module, which all its kernels share that number blocks alike; it is made with the first call."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._functions: dict[Cluster, Any] = {}

    def record(self, builder: ir.IRBuilder, entry: Entry, site: int, dimension: Any, index: Any, extent: Any) -> None:
        """Record that check `site` failed: `index` (i64) is outside of `extent` (i64) along `dimension` (i32)."""
        cluster: Cluster = entry.cluster if entry.cluster[1:] != (1, 1) else (1, 1, 1)
        if cluster not in self._functions:
            self._functions[cluster] = self._make(cluster)
        hidden = {name: entry.hidden(name) for name in _HIDDEN}
        first, done = builder.append_basic_block("claimed"), builder.append_basic_block("recorded")
        claimed = builder.cmpxchg(hidden.pop("claim"), _I32(0), _I32(1), "monotonic", "monotonic")
        builder.cbranch(builder.extract_value(claimed, 1), first, done)
        builder.position_at_end(first)
        builder.call(self._functions[cluster], [*hidden.values(), _I32(site), dimension, index, extent])
        builder.branch(done)
        builder.position_at_end(done)

    def _make(self, cluster: Cluster) -> Any:
        address = pointer(GLOBAL)
        types = [address, _I32, _I32, _I32, _I32, _I32, _I64, _I64]
        symbol = "_".join(map(str, (RECORDING, *cluster))) if cluster != (1, 1, 1) else RECORDING  # blocks are numbered by their cluster
        function = ir.Function(self._module, ir.FunctionType(ir.VoidType(), types), symbol)
        function.linkage = "internal"
        for known in ("noinline", "cold", "nounwind"):
            function.attributes.add(known)
        # It touches the claim and the record only, so values that the caller holds stay valid across the call
        for more in ("willreturn", "memory(argmem: readwrite)"):
            attribute(function.attributes, more)
        record, kernel, grid_x, grid_y, site, dimension, index, extent = function.args
        for name, argument in zip((*_HIDDEN[1:], "site", "dimension", "index", "extent"), function.args, strict=True):
            argument.name = name
        record.add_attribute("noalias")
        record.attributes.align = 8

        builder = ir.IRBuilder(function.append_basic_block("entry"))
        plain = {"kernel": kernel, "site": site, "dimension": dimension, "index": index, "extent": extent}
        for name, value in plain.items():
            builder.store(value, self._field(builder, record, name), align=value.type.width // 8)
        builder.fence("seq_cst")  # so that the assembler takes no registers for what follows before those are free
        block = block_indices(builder, linear_block(builder), grid_x, grid_y, 3, cluster)
        thread = [thread_index(builder, axis) for axis in "xyz"]
        places = dict(zip(("block_x", "block_y", "block_z", "thread_x", "thread_y", "thread_z"), (*block, *thread), strict=True))
        for name, value in places.items():
            builder.store(value, self._field(builder, record, name), align=value.type.width // 8)
        builder.fence("seq_cst")
        # The host looks only after a synchronisation, so a plain store behind the fence is enough
        builder.store(_I32(1), self._field(builder, record, "state"), align=4)
        builder.ret_void()
        return function

    @staticmethod
    def _field(builder: ir.IRBuilder, record: Any, name: str) -> Any:
        return builder.gep(record, [_I64(RECORD[name])], inbounds=True, source_etype=ir.IntType(8))
