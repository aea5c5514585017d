"""Atomic operations and fences."""

from __future__ import annotations

from typing import Any, Final

from kdsl.lang.intrinsics.row import AtomicVector, Intrinsic, ToAtomic, ToFence, row

SCOPES: Final[dict[str, str]] = {"block": "cta", "cluster": "cluster", "device": "gpu", "system": "sys"}
"""The scopes of atomic operations and fences, each with PTX's name for it."""

_WORDS: Final = {"i32": "b32", "u32": "b32", "i64": "b64", "u64": "b64"}
_BITS: Final = {**_WORDS, "f32": "b32", "f64": "b64"}
_HALVES: Final = {"i16": "b16", "u16": "b16", "f16": "b16", "bf16": "b16"}
_SUMS: Final = {
    "i32": "s32",
    "u32": "u32",
    "i64": "u64",
    "u64": "u64",
    "f32": "f32",
    "f64": "f64",
    "f16": "noftz.f16",
    "bf16": "noftz.bf16",
}
_ORDERED: Final = {"i32": "s32", "u32": "u32", "i64": "s64", "u64": "u64"}
_COUNTS: Final = {"u32": "u32"}
_BYTES: Final = {"i8": "b8", "u8": "b8"}
_ACCESSED: Final = {**_BITS, **_HALVES, **_BYTES}

_VECTOR_SUMS: Final = {
    "f16x2": AtomicVector("noftz.f16x2", True, (6, 2), 70),
    "bf16x2": AtomicVector("noftz.bf16x2", True, (7, 8), 90),
    **{
        f"{of}x{lanes}": AtomicVector(f"{kind}v{lanes}.{of}", False, (8, 1), 90)
        for of, kind, widths in (("f16", "noftz.", (4, 8)), ("bf16", "noftz.", (4, 8)), ("f32", "", (2, 4)))
        for lanes in widths
    },
}
_VECTOR_EXTREMES: Final = {
    f"{of}x{lanes}": AtomicVector(f"noftz.v{lanes}.{of}", False, (8, 1), 90) for of in ("f16", "bf16") for lanes in (2, 4, 8)
}
_OF_128_BITS: Final = ("i32x4", "u32x4", "i64x2", "u64x2", "f32x4", "f64x2")
_MOVED: Final = {name: AtomicVector("b128", True, (8, 4), 90) for name in _OF_128_BITS}
_READ_OR_WRITTEN: Final = {name: AtomicVector("b128", True, (8, 4), 70) for name in _OF_128_BITS}


def _atomic(name: str, signature: str, lowering: ToAtomic, doc: str, **more: Any) -> Intrinsic:
    """A row of an atomic operation, with what its forms need."""
    return row(name, signature, lowering, doc, variants=lowering.forms, **more)


# fmt: off
# Atomic operations on elements of a SliceMut or of a shared array; `index` is a tuple for an array of several dimensions
_WHERE = 'scope: str = "device", order: str = "relaxed"'
_RMW: dict[str, Any] = {"memory": "reads and writes", "isa": "atom"}
_FENCE: dict[str, Any] = {"memory": "orders", "isa": "membar, fence"}
atomic_add = _atomic("atomic_add", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("add", "atom.add", {"signed": "add", "unsigned": "add", "float": "fadd"}, _SUMS, vectors=_VECTOR_SUMS), "Add to an element; its old value. Integers wrap. Floats are added in the order of arrival, so the last bits can differ from run to run.", **_RMW)
atomic_sub = _atomic("atomic_sub", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("sub", "atom.add", {"signed": "sub", "unsigned": "sub", "float": "fsub"}, _SUMS, vectors=_VECTOR_SUMS), "Subtract from an element; its old value. As atomic_add of the negated value.", **_RMW)
atomic_min = _atomic("atomic_min", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("min", "atom.min", {"signed": "min", "unsigned": "umin"}, _ORDERED, vectors=_VECTOR_EXTREMES), "Make an element the smaller of itself and the value; its old value. Of floats the order of zeros, and what comes of a NaN, are the hardware's.", **_RMW)
atomic_max = _atomic("atomic_max", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("max", "atom.max", {"signed": "max", "unsigned": "umax"}, _ORDERED, vectors=_VECTOR_EXTREMES), "Make an element the larger of itself and the value; its old value. Of floats likewise.", **_RMW)
atomic_and = _atomic("atomic_and", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("and", "atom.and", {"signed": "and", "unsigned": "and"}, _WORDS), "Bitwise and into an element; its old value.", **_RMW)
atomic_or = _atomic("atomic_or", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("or", "atom.or", {"signed": "or", "unsigned": "or"}, _WORDS), "Bitwise or into an element; its old value.", **_RMW)
atomic_xor = _atomic("atomic_xor", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("xor", "atom.xor", {"signed": "xor", "unsigned": "xor"}, _WORDS), "Bitwise exclusive or into an element; its old value.", **_RMW)
atomic_exchange = _atomic("atomic_exchange", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("exchange", "atom.exch", {"signed": "xchg", "unsigned": "xchg", "float": "xchg"}, _BITS, vectors=_MOVED), "Replace an element; its old value.", **_RMW)
atomic_cas = _atomic("atomic_cas", f"(array, index, compare: T, value: T, {_WHERE}) -> T", ToAtomic("cas", "atom.cas", {}, {**_BITS, **_HALVES}, vectors=_MOVED), "Replace an element if it has the bits of `compare`; its old value.", **_RMW)
atomic_inc = _atomic("atomic_inc", f"(array, index, limit: u32, {_WHERE}) -> u32", ToAtomic("inc", "atom.inc", {"unsigned": "uinc_wrap"}, _COUNTS), "Add 1 to an element, or make it 0 if it is `limit` or more; its old value.", **_RMW)
atomic_dec = _atomic("atomic_dec", f"(array, index, limit: u32, {_WHERE}) -> u32", ToAtomic("dec", "atom.dec", {"unsigned": "udec_wrap"}, _COUNTS), "Subtract 1 from an element, or make it `limit` if it is 0 or above `limit`; its old value.", **_RMW)
atomic_load = _atomic("atomic_load", f"(array, index, {_WHERE}) -> T", ToAtomic("load", "ld", {}, _ACCESSED, ("relaxed", "acquire", "seq_cst"), _READ_OR_WRITTEN), "Read an element that other threads may be changing.", memory="reads", isa="ld")
atomic_store = _atomic("atomic_store", f"(array, index, value: T, {_WHERE}) -> None", ToAtomic("store", "st", {}, _ACCESSED, ("relaxed", "release", "seq_cst"), _READ_OR_WRITTEN), "Write an element that other threads may be reading.", memory="writes", isa="st")
# Fences
fence_block = row("fence_block", '(order: str = "seq_cst") -> None', ToFence("block"), 'Accesses of this thread before it come before those after it, for all threads of the block. Sequentially consistent, or with `order="acq_rel"` an acquire and a release only, which costs less.', **_FENCE)
fence_cluster = row("fence_cluster", '(order: str = "seq_cst") -> None', ToFence("cluster"), "The same for all threads of the cluster; on the CPU for all threads of the device.", least_ptx=(7, 8), least_capability=90, **_FENCE)
fence_device = row("fence_device", '(order: str = "seq_cst") -> None', ToFence("device"), "The same for all threads of the device.", **_FENCE)
fence_system = row("fence_system", '(order: str = "seq_cst") -> None', ToFence("system"), "The same for all threads of all devices and of the host.", **_FENCE)
# fmt: on
