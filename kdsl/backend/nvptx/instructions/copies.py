"""Asynchronous copies as `cp.async` (PTX ISA, "cp.async"). Copies of 16 bytes go past the L1 cache, which tiles do not need; shorter ones cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.nvptx import assembly
from kdsl.backend.nvptx.assembly import global_address, shared_address

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I32: Final = ir.IntType(32)


def _copy(e: Emission) -> Sequence[Any]:
    b, itemsize = e.builder, e.op.elements[0].memory.type.itemsize
    count = e.op.options["count"]
    assert isinstance(count, int)
    size = count * itemsize
    text = f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global [$0], [$1], {size}"
    arguments = [shared_address(b, e.addresses[0]), global_address(b, e.addresses[1])]
    if e.arguments:  # so many bytes are read, the others become 0
        text += ", $2"
        arguments.append(b.mul(b.trunc(e.arguments[0], _I32), _I32(itemsize)))
    return assembly.values(b, f"{text};", [], *arguments)


def _commit(e: Emission) -> Sequence[Any]:
    return assembly.values(e.builder, "cp.async.commit_group;", [])


def _wait(e: Emission) -> Sequence[Any]:
    return assembly.values(e.builder, f"cp.async.wait_group {e.op.options['newest']};", [])


def _wait_all(e: Emission) -> Sequence[Any]:
    return assembly.values(e.builder, "cp.async.wait_all;", [])


def _prefetch(e: Emission) -> Sequence[Any]:
    text = "{ .reg .pred p; setp.lt.u64 p, $1, $2; @p prefetch.global.L2 [$0]; }"  # a negative index is a large number
    return assembly.values(e.builder, text, [], global_address(e.builder, e.addresses[0]), *e.arguments, memory=False)


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {
    "copy_async": _copy,
    "commit_copies": _commit,
    "wait_copies": _wait,
    "wait_all_copies": _wait_all,
    "prefetch": _prefetch,
}
