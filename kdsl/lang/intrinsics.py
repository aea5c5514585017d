"""The table of intrinsics: one row each, with all that the compiler, the documentation and the tests know of it.

A row says what the name lowers to (`lowering`), which threads must reach it together (`convergence`), and the least PTX version and compute
capability that its PTX needs. To add an intrinsic that lowers to an existing kind, add a row and export the name from `kdsl`.
What is not here: mathematics, which is written in the language itself (`kdsl.lang.mathematics`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias


@dataclass(frozen=True)
class ToSpecial:
    """A `Special` of the IR."""

    name: str


@dataclass(frozen=True)
class ToUnary:
    """A `Unary` of the IR on a float."""

    op: str


@dataclass(frozen=True)
class ToBinary:
    """A `Binary` of the IR on two operands of one type."""

    op: str


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

    kind: Literal["shuffle", "reduce", "vote"]
    """`shuffle`: another lane's value, or the lane's own where that lane does not take part. `reduce`: combines by a butterfly of xor 16, 8, 4, 2, 1,
    leaving out lanes that do not take part. `vote`: a predicate of all lanes that take part."""
    mode: str
    """shuffle: `bfly`, `up`, `down`, `idx`; reduce: `add`, `max`, `min`; vote: `any`, `all`, `ballot`."""

    @property
    def uniform(self) -> bool:
        """Whether all lanes that take part get the same value, whatever the arguments."""
        return self.kind != "shuffle"


@dataclass(frozen=True)
class ToFrontend:
    """Something that the frontend itself builds: a derived index, an array, a loop marker."""

    handler: str


Lowering: TypeAlias = ToSpecial | ToUnary | ToBinary | ToFma | ToBitcast | ToBarrier | ToExchange | ToFrontend


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
    least_ptx: tuple[int, int] = (6, 0)
    """Least PTX version of its lowering."""
    least_capability: int = 70
    """Least compute capability, times ten."""
    isa: str = ""
    """Section of the PTX ISA that describes it."""

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
sync_threads = _row("sync_threads", "() -> None", ToBarrier(), "Wait for all threads of the block that have not returned.", convergence="block", isa="bar{.cta}.sync")
# Exchange between lanes
warp_sum = _row("warp_sum", "(value: T) -> T", ToExchange("reduce", "add"), "Sum over the lanes of the warp, combined with xor 16, 8, 4, 2, 1.", convergence="warp", isa="shfl.sync")
warp_max = _row("warp_max", "(value: T) -> T", ToExchange("reduce", "max"), "Largest value over the lanes of the warp; NaN if any is.", convergence="warp", isa="shfl.sync")
warp_min = _row("warp_min", "(value: T) -> T", ToExchange("reduce", "min"), "Smallest value over the lanes of the warp; NaN if any is.", convergence="warp", isa="shfl.sync")
shuffle = _row("shuffle", "(value: T, lane: i64) -> T", ToExchange("shuffle", "idx"), "The value of lane `lane` (modulo 32); the own value where that lane takes no part.", convergence="warp", isa="shfl.sync")
shuffle_xor = _row("shuffle_xor", "(value: T, mask: i64) -> T", ToExchange("shuffle", "bfly"), "The value of lane `lane_index() ^ (mask % 32)`; the own value where that lane takes no part.", convergence="warp", isa="shfl.sync")
shuffle_up = _row("shuffle_up", "(value: T, delta: i64) -> T", ToExchange("shuffle", "up"), "The value of lane `lane_index() - delta % 32`; the own value where there is none.", convergence="warp", isa="shfl.sync")
shuffle_down = _row("shuffle_down", "(value: T, delta: i64) -> T", ToExchange("shuffle", "down"), "The value of lane `lane_index() + delta % 32`; the own value where there is none.", convergence="warp", isa="shfl.sync")
warp_any = _row("warp_any", "(predicate: bool) -> bool", ToExchange("vote", "any"), "Whether it holds in some lane of the warp.", convergence="warp", isa="vote.sync")
warp_all = _row("warp_all", "(predicate: bool) -> bool", ToExchange("vote", "all"), "Whether it holds in all lanes of the warp.", convergence="warp", isa="vote.sync")
warp_ballot = _row("warp_ballot", "(predicate: bool) -> u32", ToExchange("vote", "ballot"), "Bit n says whether it holds in lane n.", convergence="warp", isa="vote.sync")
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
