"""Asynchronous copies by the copy engine (PTX ISA, "Data Movement and Conversion Instructions: Bulk and Tensor copy").

Coordinates stand innermost dimension first in PTX; the IR has them in the order of the array. A place in shared memory of the block is also one of the
cluster, which is what loads name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.nvptx import assembly
from kdsl.lang.intrinsics.bulk import EVICT

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I64: Final = ir.IntType(64)
_NOTHING: Final = ()


def _box(first: int, rank: int) -> str:
    """Operands `first` (the map) and those behind it (the coordinates) as PTX writes them."""
    places = ", ".join(f"${first + number}" for number in reversed(range(1, rank + 1)))
    return f"[${first}, {{{places}}}]"


def _policy(e: Emission) -> tuple[str, list[Any]]:
    """The suffix of an instruction with a hint for the cache, and the operand that goes with it."""
    policy = EVICT[str(e.op.options.get("evict", ""))]
    return ("", []) if policy is None else (".L2::cache_hint", [_I64(policy)])


def _tma_load(e: Emission) -> Sequence[Any]:
    """Elements: destination, map, barrier. Arguments: the coordinates, then the mask of a multicast."""
    b, rank = e.builder, int(e.op.options["rank"])  # type: ignore[arg-type]
    destination, descriptor, barrier = e.addresses
    place, bar = assembly.shared_address(b, destination), assembly.shared_address(b, barrier)
    suffix, policy = _policy(e)
    mask = list(e.arguments[rank:])
    multicast = ".multicast::cluster" if mask else ""
    operands = [place, bar, assembly.global_address(e.builder, descriptor), *e.arguments[:rank], *mask, *policy]
    more = "".join(f", ${3 + rank + number}" for number in range(len(mask) + len(policy)))
    name = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{multicast}{suffix}"
    assembly.statement(b, f"{name} [$0], {_box(2, rank)}, [$1]{more};", *operands)
    return _NOTHING


def _out(name: str, reduction: str = "") -> Callable[[Emission], Sequence[Any]]:
    """A copy out of shared memory. Elements: source, map. Arguments: the coordinates."""

    def emit(e: Emission) -> Sequence[Any]:
        rank = int(e.op.options["rank"])  # type: ignore[arg-type]
        source, descriptor = e.addresses
        suffix, policy = _policy(e)
        kind = f".{e.op.options['op']}" if reduction else ""
        whole = f"{name}.{rank}d.global.shared::cta{kind}.tile.bulk_group{suffix}"
        more = f", ${2 + rank}" if policy else ""
        operands = [assembly.shared_address(e.builder, source), assembly.global_address(e.builder, descriptor), *e.arguments, *policy]
        assembly.statement(e.builder, f"{whole} {_box(1, rank)}, [$0]{more};", *operands)
        return _NOTHING

    return emit


def _tma_prefetch(e: Emission) -> Sequence[Any]:
    rank = len(e.arguments)
    text = f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global.tile {_box(0, rank)};"
    assembly.statement(e.builder, text, assembly.global_address(e.builder, e.addresses[0]), *e.arguments)
    return _NOTHING


def _prefetch_map(e: Emission) -> Sequence[Any]:
    assembly.statement(e.builder, "prefetch.tensormap [$0];", assembly.global_address(e.builder, e.addresses[0]))
    return _NOTHING


def _bulk_load(e: Emission) -> Sequence[Any]:
    """Elements: destination, source, barrier. Argument: bytes."""
    b = e.builder
    destination, source, barrier = e.addresses
    assembly.statement(
        b,
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];",
        assembly.shared_address(b, destination), assembly.global_address(b, source), e.arguments[0], assembly.shared_address(b, barrier),
    )  # fmt: skip
    return _NOTHING


def _bulk_store(e: Emission) -> Sequence[Any]:
    """Elements: destination, source. Argument: bytes."""
    b = e.builder
    destination, source = e.addresses
    operands = [assembly.global_address(b, destination), assembly.shared_address(b, source), e.arguments[0]]
    assembly.statement(b, "cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;", *operands)
    return _NOTHING


def _commit_stores(e: Emission) -> Sequence[Any]:
    assembly.statement(e.builder, "cp.async.bulk.commit_group;")
    return _NOTHING


def _wait_stores(e: Emission) -> Sequence[Any]:
    read = ".read" if e.op.options["read"] else ""
    assembly.statement(e.builder, f"cp.async.bulk.wait_group{read} {e.op.options['pending']};")
    return _NOTHING


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {
    "tma_load": _tma_load,
    "tma_load_multicast": _tma_load,
    "tma_store": _out("cp.async.bulk.tensor"),
    "tma_reduce": _out("cp.reduce.async.bulk.tensor", "op"),
    "tma_prefetch": _tma_prefetch,
    "prefetch_map": _prefetch_map,
    "bulk_load": _bulk_load,
    "bulk_store": _bulk_store,
    "commit_stores": _commit_stores,
    "wait_stores": _wait_stores,
}
"""By the name of the row."""
