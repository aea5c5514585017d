"""The table of intrinsics: one row each, with all that the compiler, the documentation and the tests know of it.

A row says what the name lowers to (`lowering`), which threads must reach it together (`convergence`), and the least PTX version and compute
capability that its PTX needs. To add an intrinsic that lowers to an existing kind, add a row and export the name from `kdsl`.
What is not here: mathematics, which is written in the language itself (`kdsl.mathematics`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias


@dataclass(frozen=True)
class ToSpecial:
    """A `Special` of the IR."""

    name: str
    """Its name there."""


@dataclass(frozen=True)
class ToUnary:
    """A `Unary` of the IR."""

    op: str
    integer: bool = False
    """Whether its operand is an integer, else a float."""


@dataclass(frozen=True)
class ToBinary:
    """A `Binary` of the IR on two operands of one type."""

    op: str
    """Its operation."""
    integer: bool = False
    """Whether its operands are integers, else floats."""


@dataclass(frozen=True)
class ToFma:
    """An `Fma`."""


@dataclass(frozen=True)
class ToBitcast:
    """A `Bitcast`."""

    to: str
    """Name of the resulting element type."""


@dataclass(frozen=True)
class ToBarrier:
    """A `Barrier`."""


@dataclass(frozen=True)
class ToExchange:
    """An `Exchange`, a value formed from several lanes."""

    kind: Literal["shuffle", "reduce", "scan", "vote", "match"]
    """`shuffle`: another lane's value, or the lane's own where that lane does not take part. `reduce`: combines by a butterfly of xor 16, 8, 4, 2, 1,
    leaving out lanes that do not take part. `scan`: combines with the lanes below, by halves: in rounds of d = 1, 2, 4, 8, 16 a lane whose number has the
    bit d adds what the d lanes below its own d come to, as the left operand. `vote`: a predicate of all lanes that take part. `match`: which lanes hold the
    same bits."""
    mode: str
    """shuffle: `bfly`, `up`, `down`, `idx`; reduce: `add`, `max`, `min`, `and`, `or`, `xor`; scan: `add`; vote: `any`, `all`, `ballot`; match: `any`, `all`."""

    @property
    def uniform(self) -> bool:
        """Whether all lanes that take part get the same value, whatever the arguments."""
        return self.kind in ("reduce", "vote") or (self.kind == "match" and self.mode == "all")


@dataclass(frozen=True)
class ToAtomic:
    """An `Atomic`, an access to one element that no other thread can cut in two."""

    op: str
    """Name of the operation in the IR."""
    ptx: str
    """The instruction of PTX, without order, scope, space and type."""
    llvm: Mapping[str, str]
    """The operation of `atomicrmw`, by kind of element (`signed`, `unsigned`, `float`); empty for those that have an instruction of their own."""
    types: Mapping[str, str]
    """The element types that it takes, each with the type that PTX gives it."""
    orders: tuple[str, ...] = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
    """The memory orders that it takes."""


@dataclass(frozen=True)
class ToFence:
    """A `Fence`."""

    scope: Literal["block", "device", "system"]
    """Among which threads it orders."""


@dataclass(frozen=True)
class ToClock:
    """A `Clock`: a counter of the GPU."""

    register: str
    """The special register of PTX."""


@dataclass(frozen=True)
class ToSleep:
    """A `Sleep`."""


@dataclass(frozen=True)
class ToFrontend:
    """Something that the frontend itself builds: a derived index, an array, a loop marker."""

    handler: str
    """Name of what builds it."""


Lowering: TypeAlias = (
    ToSpecial | ToUnary | ToBinary | ToFma | ToBitcast | ToBarrier | ToExchange | ToAtomic | ToFence | ToClock | ToSleep | ToFrontend
)


@dataclass(frozen=True, eq=False)
class Intrinsic:
    """One row. Callable so that kernels type-check; on the host a call is an error."""

    name: str
    """Name in the language."""
    signature: str
    """Parameters and result, for the documentation."""
    lowering: Lowering
    """What it becomes."""
    doc: str
    """One line."""
    convergence: Literal["none", "warp", "block"] = "none"
    """Who must reach it together."""
    memory: Literal["none", "reads", "writes", "reads and writes", "orders"] = "none"
    """What it does to memory that other threads see; `orders`: makes writes before it visible before what follows."""
    targets: tuple[Literal["gpu", "cpu"], ...] = ("gpu", "cpu")
    """Where it has a meaning."""
    least_ptx: tuple[int, int] = (6, 0)
    """Least PTX version of its lowering."""
    least_capability: int = 70
    """Least compute capability, times ten."""
    isa: str = ""
    """Section of the PTX ISA that describes it."""

    @property
    def parameters(self) -> tuple[tuple[str, str | int | None], ...]:
        """Names of the parameters in order, each with its default (None: it has none)."""
        found: list[tuple[str, str | int | None]] = []
        for part in self.signature[1 : self.signature.index(")")].split(","):
            declared, _, default = part.partition("=")
            if declared.strip():
                value = default.strip()
                found.append((declared.split(":")[0].strip(), (int(value) if value.isdigit() else value.strip('"')) if value else None))
        return tuple(found)

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return f"{self.name}{self.signature}\n\n{self.doc}"

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise TypeError(f"{self.name}() works only inside a function marked @kernel or @function")


INTRINSICS: Final[dict[str, Intrinsic]] = {}


def _row(name: str, signature: str, lowering: Lowering, doc: str, **more: Any) -> Intrinsic:
    row = Intrinsic(name, signature, lowering, doc, **more)
    INTRINSICS[name] = row
    return row


@dataclass(frozen=True, eq=False)
class IndexTriple:
    """`thread_idx`, `block_idx`, `block_dim`, `grid_dim`: i64 values with the attributes x, y and z."""

    name: str
    """Name in the language."""

    @property
    def x(self) -> int:
        """Along the fastest dimension."""
        raise TypeError(f"{self.name} works only inside a function marked @kernel or @function")

    y = z = x


thread_idx: Final = IndexTriple("thread_idx")
block_idx: Final = IndexTriple("block_idx")
block_dim: Final = IndexTriple("block_dim")
grid_dim: Final = IndexTriple("grid_dim")

WARP_SIZE: Final = 32

SCOPES: Final[dict[str, str]] = {"block": "cta", "device": "gpu", "system": "sys"}
"""The scopes of atomic operations and fences, each with PTX's name for it."""

_WORDS: Final = {"i32": "b32", "u32": "b32", "i64": "b64", "u64": "b64"}
_BITS: Final = {**_WORDS, "f32": "b32", "f64": "b64"}
_SUMS: Final = {"i32": "s32", "u32": "u32", "i64": "u64", "u64": "u64", "f32": "f32", "f64": "f64"}
_ORDERED: Final = {"i32": "s32", "u32": "u32", "i64": "s64", "u64": "u64"}
_COUNTS: Final = {"u32": "u32"}

# fmt: off
# Where the thread stands
thread_index = _row("thread_index", "() -> i64", ToFrontend("thread_index"), "Number of the thread in the grid; a witness: unique to the thread.")
row_index = _row("row_index", "() -> i64", ToFrontend("row_index"), "Number of the warp in the grid; under `if is_first_lane():` a witness.")
block_index = _row("block_index", "() -> i64", ToFrontend("block_index"), "Number of the block in the grid; under `if is_first_thread():` a witness.")
tile_index = _row("tile_index", "() -> tile", ToFrontend("tile_index"), "First row, first column and batch (`.row`, `.column`, `.batch`) of the block's tile; the grid is `tiles`.")
lane_index = _row("lane_index", "() -> i64", ToSpecial("lane_index"), "Number of the thread in its warp, 0 to 31.")
warp_index = _row("warp_index", "() -> i64", ToSpecial("warp_index"), "Number of the warp in its block.")
is_first_lane = _row("is_first_lane", "() -> bool", ToFrontend("is_first_lane"), "Whether this is lane 0 of its warp.")
is_first_thread = _row("is_first_thread", "() -> bool", ToFrontend("is_first_thread"), "Whether this is thread 0 of its block.")
# Arrays and loops
shared_array = _row("shared_array", "(shape, dtype) -> array", ToFrontend("shared_array"), "An array that the threads of a block share; its elements start undefined.")
local_array = _row("local_array", "(shape, dtype) -> array", ToFrontend("local_array"), "An array of the thread's own; in registers where its indices are compile-time.")
unroll = _row("unroll", "(start, stop, step)", ToFrontend("unroll"), "Like `range` with compile-time arguments; the body is repeated for every value, which is a constant in it.")
# Barrier
sync_threads = _row("sync_threads", "() -> None", ToBarrier(), "Wait for all threads of the block that have not returned.", convergence="block", memory="orders", isa="bar{.cta}.sync")
# Exchange between lanes
warp_sum = _row("warp_sum", "(value: T) -> T", ToExchange("reduce", "add"), "Sum over the lanes of the warp, combined with xor 16, 8, 4, 2, 1.", convergence="warp", least_ptx=(7, 0), least_capability=80, isa="shfl.sync, redux.sync")
warp_max = _row("warp_max", "(value: T) -> T", ToExchange("reduce", "max"), "Largest value over the lanes of the warp; NaN if any is.", convergence="warp", least_ptx=(7, 0), least_capability=80, isa="shfl.sync, redux.sync")
warp_min = _row("warp_min", "(value: T) -> T", ToExchange("reduce", "min"), "Smallest value over the lanes of the warp; NaN if any is.", convergence="warp", least_ptx=(7, 0), least_capability=80, isa="shfl.sync, redux.sync")
warp_and = _row("warp_and", "(value: I) -> I", ToExchange("reduce", "and"), "Bitwise and over the lanes of the warp.", convergence="warp", least_ptx=(7, 0), least_capability=80, isa="redux.sync")
warp_or = _row("warp_or", "(value: I) -> I", ToExchange("reduce", "or"), "Bitwise or over the lanes of the warp.", convergence="warp", least_ptx=(7, 0), least_capability=80, isa="redux.sync")
warp_xor = _row("warp_xor", "(value: I) -> I", ToExchange("reduce", "xor"), "Bitwise exclusive or over the lanes of the warp.", convergence="warp", least_ptx=(7, 0), least_capability=80, isa="redux.sync")
warp_prefix_sum = _row("warp_prefix_sum", "(value: T) -> T", ToExchange("scan", "add"), "Sum over the lane itself and those below it, combined by halves: 1, 2, 4, 8, 16.", convergence="warp", isa="shfl.sync")
shuffle = _row("shuffle", "(value: T, lane: i64, width: int = 32) -> T", ToExchange("shuffle", "idx"), "The value of lane `lane % width` of the lane's segment of `width` lanes; the own value where that lane takes no part.", convergence="warp", isa="shfl.sync")
shuffle_xor = _row("shuffle_xor", "(value: T, mask: i64, width: int = 32) -> T", ToExchange("shuffle", "bfly"), "The value of lane `lane_index() ^ (mask % width)`; the own value where that lane takes no part.", convergence="warp", isa="shfl.sync")
shuffle_up = _row("shuffle_up", "(value: T, delta: i64, width: int = 32) -> T", ToExchange("shuffle", "up"), "The value of lane `lane_index() - delta % width`; the own value where the segment of `width` lanes has none.", convergence="warp", isa="shfl.sync")
shuffle_down = _row("shuffle_down", "(value: T, delta: i64, width: int = 32) -> T", ToExchange("shuffle", "down"), "The value of lane `lane_index() + delta % width`; the own value where the segment of `width` lanes has none.", convergence="warp", isa="shfl.sync")
warp_any = _row("warp_any", "(predicate: bool) -> bool", ToExchange("vote", "any"), "Whether it holds in some lane of the warp.", convergence="warp", isa="vote.sync")
warp_all = _row("warp_all", "(predicate: bool) -> bool", ToExchange("vote", "all"), "Whether it holds in all lanes of the warp.", convergence="warp", isa="vote.sync")
warp_ballot = _row("warp_ballot", "(predicate: bool) -> u32", ToExchange("vote", "ballot"), "Bit n says whether it holds in lane n.", convergence="warp", isa="vote.sync")
warp_match_any = _row("warp_match_any", "(value: T) -> u32", ToExchange("match", "any"), "Bit n says whether lane n holds the same bits as this lane.", convergence="warp", isa="match.sync")
warp_match_all = _row("warp_match_all", "(value: T) -> bool", ToExchange("match", "all"), "Whether all lanes of the warp hold the same bits.", convergence="warp", isa="match.sync")
# Atomic operations on elements of a SliceMut or of a shared array; `index` is a tuple for an array of several dimensions
_WHERE = 'scope: str = "device", order: str = "relaxed"'
_RMW: dict[str, Any] = {"memory": "reads and writes", "isa": "atom"}
atomic_add = _row("atomic_add", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("add", "atom.add", {"signed": "add", "unsigned": "add", "float": "fadd"}, _SUMS), "Add to an element; its old value. Integers wrap. Floats are added in the order of arrival, so the last bits can differ from run to run.", **_RMW)
atomic_sub = _row("atomic_sub", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("sub", "atom.add", {"signed": "sub", "unsigned": "sub", "float": "fsub"}, _SUMS), "Subtract from an element; its old value. As atomic_add of the negated value.", **_RMW)
atomic_min = _row("atomic_min", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("min", "atom.min", {"signed": "min", "unsigned": "umin"}, _ORDERED), "Make an element the smaller of itself and the value; its old value.", **_RMW)
atomic_max = _row("atomic_max", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("max", "atom.max", {"signed": "max", "unsigned": "umax"}, _ORDERED), "Make an element the larger of itself and the value; its old value.", **_RMW)
atomic_and = _row("atomic_and", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("and", "atom.and", {"signed": "and", "unsigned": "and"}, _WORDS), "Bitwise and into an element; its old value.", **_RMW)
atomic_or = _row("atomic_or", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("or", "atom.or", {"signed": "or", "unsigned": "or"}, _WORDS), "Bitwise or into an element; its old value.", **_RMW)
atomic_xor = _row("atomic_xor", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("xor", "atom.xor", {"signed": "xor", "unsigned": "xor"}, _WORDS), "Bitwise exclusive or into an element; its old value.", **_RMW)
atomic_exchange = _row("atomic_exchange", f"(array, index, value: T, {_WHERE}) -> T", ToAtomic("exchange", "atom.exch", {"signed": "xchg", "unsigned": "xchg", "float": "xchg"}, _BITS), "Replace an element; its old value.", **_RMW)
atomic_cas = _row("atomic_cas", f"(array, index, compare: T, value: T, {_WHERE}) -> T", ToAtomic("cas", "atom.cas", {}, _BITS), "Replace an element if it has the bits of `compare`; its old value.", **_RMW)
atomic_inc = _row("atomic_inc", f"(array, index, limit: u32, {_WHERE}) -> u32", ToAtomic("inc", "atom.inc", {"unsigned": "uinc_wrap"}, _COUNTS), "Add 1 to an element, or make it 0 if it is `limit` or more; its old value.", **_RMW)
atomic_dec = _row("atomic_dec", f"(array, index, limit: u32, {_WHERE}) -> u32", ToAtomic("dec", "atom.dec", {"unsigned": "udec_wrap"}, _COUNTS), "Subtract 1 from an element, or make it `limit` if it is 0 or above `limit`; its old value.", **_RMW)
atomic_load = _row("atomic_load", f"(array, index, {_WHERE}) -> T", ToAtomic("load", "ld", {}, _BITS, ("relaxed", "acquire", "seq_cst")), "Read an element that other threads may be changing.", memory="reads", isa="ld")
atomic_store = _row("atomic_store", f"(array, index, value: T, {_WHERE}) -> None", ToAtomic("store", "st", {}, _BITS, ("relaxed", "release", "seq_cst")), "Write an element that other threads may be reading.", memory="writes", isa="st")
# Fences
fence_block = _row("fence_block", "() -> None", ToFence("block"), "Accesses of this thread before it come before those after it, for all threads of the block; sequentially consistent.", memory="orders", isa="membar, fence")
fence_device = _row("fence_device", "() -> None", ToFence("device"), "The same for all threads of the device.", memory="orders", isa="membar, fence")
fence_system = _row("fence_system", "() -> None", ToFence("system"), "The same for all threads of all devices and of the host.", memory="orders", isa="membar, fence")
# Bits of integers
popcount = _row("popcount", "(x: I) -> I", ToUnary("popcount", integer=True), "How many bits are 1.", isa="popc")
leading_zeros = _row("leading_zeros", "(x: I) -> I", ToUnary("leading_zeros", integer=True), "How many bits above the highest 1 are 0; the width of the type for 0.", isa="clz")
trailing_zeros = _row("trailing_zeros", "(x: I) -> I", ToUnary("trailing_zeros", integer=True), "How many bits below the lowest 1 are 0; the width of the type for 0.", isa="brev, clz")
reverse_bits = _row("reverse_bits", "(x: I) -> I", ToUnary("reverse_bits", integer=True), "The bits in reverse order.", isa="brev")
multiply_high = _row("multiply_high", "(a: I, b: I) -> I", ToBinary("multiply_high", integer=True), "The upper half of the product, which has twice the width of the type.", isa="mul")
# Time
clock = _row("clock", "() -> i64", ToClock("clock64"), "Clock cycles of the multiprocessor, for differences within a thread.", targets=("gpu",), isa="%clock64")
global_timer = _row("global_timer", "() -> i64", ToClock("globaltimer"), "Nanoseconds of the device's clock; it advances in steps of up to a microsecond or more.", targets=("gpu",), isa="%globaltimer")
nanosleep = _row("nanosleep", "(nanoseconds: u32) -> None", ToSleep(), "Suspend the thread for 0 to twice as many nanoseconds, at most a millisecond.", targets=("gpu",), least_ptx=(6, 3), isa="nanosleep")
# Compile time
static_assert = _row("static_assert", "(condition: bool, message: str) -> None", ToFrontend("static_assert"), "An error with this message when the kernel is compiled, unless the condition is known to hold.")
# Arithmetic that hardware rounds correctly
sqrt = _row("sqrt", "(x: F) -> F", ToUnary("sqrt"), "Square root, correctly rounded.", isa="sqrt")
floor = _row("floor", "(x: F) -> F", ToUnary("floor"), "Largest integral value not above x.", isa="cvt.rmi")
ceil = _row("ceil", "(x: F) -> F", ToUnary("ceil"), "Smallest integral value not below x.", isa="cvt.rpi")
trunc = _row("trunc", "(x: F) -> F", ToUnary("trunc"), "x without its fraction.", isa="cvt.rzi")
rint = _row("rint", "(x: F) -> F", ToUnary("rint"), "Nearest integral value, ties to even.", isa="cvt.rni")
fma = _row("fma", "(a: F, b: F, c: F) -> F", ToFma(), "a * b + c, rounded once.", isa="fma")
fmin = _row("fmin", "(a: F, b: F) -> F", ToBinary("fmin"), "The smaller; a NaN is ignored; -0 is below 0.", isa="min")
fmax = _row("fmax", "(a: F, b: F) -> F", ToBinary("fmax"), "The larger; a NaN is ignored; -0 is below 0.", isa="max")
float_bits = _row("float_bits", "(x: f32) -> i32", ToBitcast("i32"), "The bits of an f32.", isa="mov")
bits_float = _row("bits_float", "(x: i32) -> f32", ToBitcast("f32"), "The f32 with these bits.", isa="mov")
double_bits = _row("double_bits", "(x: f64) -> i64", ToBitcast("i64"), "The bits of an f64.", isa="mov")
bits_double = _row("bits_double", "(x: i64) -> f64", ToBitcast("f64"), "The f64 with these bits.", isa="mov")
# fmt: on
