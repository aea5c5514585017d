"""The ways of a matrix product through the kernels for tensor cores, and through those with large tiles for the ordinary cores.

Every way prepares the operands (`matmul_operands.py`), chooses a schedule (`schedules.py`), launches one product, and where there are parts along k, or a C
that the product cannot write, another kernel that combines them.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kdsl import Array, Kernel, bf16, f16, f32, tensor_map, u32
from staleynet.kernels import (
    matmul_3xtf32,
    matmul_border,
    matmul_held,
    matmul_hopper,
    matmul_mma,
    matmul_parts,
    matmul_pipelined,
    matmul_tf32,
    matmul_tf32_beside,
    matmul_wide,
)
from staleynet.kernels.convert import SPREAD, SPREAD_ELEMENTS, SPREAD_PARTS, Ending, Heads, combine, turn_heads
from staleynet.kernels.matmul_border import Border
from staleynet.kernels.matmul_hopper import Work
from staleynet.kernels.matmul_ring import ROW_BYTES
from staleynet.kernels.tf32_tiles import BOX
from staleynet.ops.matmul_operands import (
    STAGE_BYTES,
    Matrix,
    along_k,
    no_matrix,
    nothing,
    on_hopper,
    packed,
    partial_products,
    room_for_copy,
    steps_of_part,
    turn_into,
    turned_copy,
    turns_in_fours,
)
from staleynet.ops.schedules import SCHEDULES, choose, takes_mma_alone

ELEMENTS: dict[str, Any] = {"tf32": f32, "3xtf32": f32, "bf16": bf16, "f16": f16}
"""What the operands are on their way into the tensor cores."""
FEW = 16
"""So many columns of fp32 beyond whole tiles as are computed by themselves."""
LITTLE = 1024
"""So many elements of C for each multiprocessor, in rows beyond whole rounds of tiles, are computed likewise."""
PASSING = 40 << 20
"""Bytes from which on an array does not stay in the level-2 cache."""
PASSING_HELD = 25 << 20
"""The same for a C whose operands are small, which stay if C makes room first: half of the cache."""
MANY = 1 << 20
"""Elements of C from which on threads with four of them each are enough to occupy a large GPU."""


@dataclass(frozen=True)
class Epilogue:
    """What becomes of the product."""

    alpha: float
    """Its factor."""
    accumulate: bool
    """Whether, last of all, what is in C is added."""
    bias: Array | None
    """Added to each row."""
    gelu: bool
    """Whether GELU is applied to that, before what is in C is added."""

    @property
    def plain(self) -> bool:
        """Neither bias nor GELU."""
        return self.bias is None and not self.gelu


def tensor_product(c: Matrix, a: Matrix, b: Matrix, precision: str, parts: int, epilogue: Epilogue) -> None:
    """C <- alpha A B^T (+ C) and so on, with tensor cores; `b` is n x k."""
    if not on_hopper(c.base) or takes_mma_alone():
        _mma(c, a, b, precision, parts, epilogue)
    elif precision == "3xtf32":
        _three(c, a, b, parts, epilogue)
    elif precision == "tf32" and (_is_across(a, f32) or _is_across(b, f32)):
        _tf32(c, a, b, parts, epilogue)
    else:
        _wgmma(c, a, b, precision, parts, epilogue)


def fp32_product(c: Matrix, a: Matrix, b: Matrix, parts: int, each_part: int, epilogue: Epilogue) -> None:
    """The same in fp32 on the ordinary cores of a GPU, in parts of so many steps of k; the bits are those of the other fp32 kernels."""
    has_engine = on_hopper(c.base)
    (whole_a, a_across), (whole_b, b_across) = (_either_way(x, f32, across=True) if has_engine else _in_fours(x) for x in (a, b))

    def product(sums: Matrix, alpha: float, accumulate: int) -> None:
        for out, x, y in along_k(sums, _turned(whole_a, a_across), _turned(whole_b, b_across), parts, each_part):
            multiply(out, _turned(x, a_across), _turned(y, b_across), alpha, accumulate)

    def multiply(out: Matrix, left: Matrix, right: Matrix, alpha: float, accumulate: int) -> None:
        k = left.shape[2] if a_across else left.shape[3]
        if has_engine and b_across:
            right = _in_whole_fours(right)
        in_fours = left.in_vectors(4) and right.in_vectors(4)
        family = "pipelined" if not has_engine else "fp32" if in_fours else "wide"
        p, q, m, n = out.shape
        name = _schedule(family, out, k, (a_across, b_across))
        rows, columns = m, n
        if b_across and family == "fp32" and p == q == 1:
            rows, columns = _in_whole_rounds(m, n, SCHEDULES["fp32"][name], _multiprocessors(c.base))
        inner = out.rows(0, rows).columns(0, columns)
        upper = left if rows == m else left.columns(0, rows) if a_across else left.rows(0, rows)  # a copy has more, up to whole vectors
        each = next((each for each in (4, 2) if inner.in_vectors(each)), 1)
        # Valid: the contracts compare all extents, and each thread writes elements of its own tile of C.
        _fp32_kernel(name, a_across, b_across, each, k % SCHEDULES["fp32"][name].depth != 0, has_engine)(
            inner.array,
            upper.array,
            (right if columns == n else right.columns(0, columns)).array,
            Ending(alpha=alpha, accumulate=accumulate),
        )
        if (rows, columns) != (m, n):
            _border_kernel(a_across, k % matmul_border.DEPTH != 0)(
                out.array, left.array, right.array, Border(alpha=alpha, accumulate=accumulate, rows=rows, columns=columns)
            )

    direct = epilogue.plain and c.base.dtype == f32 and (c.strides[3] == 1 or c.shape[3] == 1)
    through(product, c, parts, epilogue, direct=direct)


def _in_whole_rounds(m: int, n: int, schedule: Any, blocks: int) -> tuple[int, int]:
    """The first rows and columns of C that whole tiles cover, as many at a time as there are multiprocessors, if few columns and rows are beyond; else all."""
    few = n % schedule.columns
    columns = n - few if few <= min(FEW, schedule.columns // 4) and n >= 4 * schedule.columns and m >= 8 * schedule.rows else n
    across = -(-columns // schedule.columns)
    whole = -(-m // schedule.rows) * across // blocks * blocks // across * schedule.rows
    cut = isinstance(schedule, matmul_wide.Schedule) and 0 < whole < m and (m - whole) * columns <= LITTLE * blocks
    return whole if cut else m, columns


def through(
    product: Callable[[Matrix, float, int], None], c: Matrix, parts: int, epilogue: Epilogue, *, direct: bool = False, spread: bool = False
) -> None:
    """Let a product, given where its result goes, its factor, and whether it is added to what is there, make C: at once where there are no parts and it can
    (`direct`), else by way of partial products in f32 that another kernel sums up, whose blocks may be `spread` where they are about as many as find room."""
    if direct and parts == 1:
        product(c, epilogue.alpha, int(epilogue.accumulate))
        return
    out, sums = partial_products(c.base, parts, *c.shape)
    product(out, 1.0, 0)
    offsets = epilogue.bias if epilogue.bias is not None else nothing(c.base.device)
    each, spread = _blocks_that_add(c, parts, spread)
    # Valid: a thread per element of C, or per four.
    _combine(c.base.dtype, parts, epilogue.bias is not None, epilogue.gelu, each, on_hopper(c.base), spread)(
        c.array, sums.array, offsets, Ending(alpha=epilogue.alpha, accumulate=int(epilogue.accumulate))
    )


def _blocks_that_add(c: Matrix, parts: int, spread: bool) -> tuple[int, bool]:
    """How `parts` parts are added to C, by its size: the neighbouring columns of a thread, 1 or 4, and whether blocks, if they may be `spread`, are."""
    in_fours, elements = c.in_vectors(4), math.prod(c.shape)
    shares = -(-elements // (SPREAD_ELEMENTS * _multiprocessors(c.base)))
    spread = spread and in_fours and 1 < parts <= SPREAD_PARTS and shares == SPREAD
    # ptxas lets four at a time be under way of few parts only; and threads that are too few to occupy the device gather on what is free first
    each = 4 if in_fours and (spread or parts == 1 or (parts < 8 and elements >= MANY)) else 1
    return each, spread


def _wgmma(c: Matrix, a: Matrix, b: Matrix, precision: str, parts: int, epilogue: Epilogue) -> None:
    element = ELEMENTS[precision]
    if precision == "tf32":
        (left, a_across), (right, b_across) = (_along(a, f32), False), (_along(b, f32), False)
    else:
        (left, a_across), (right, b_across) = _either_way(a, element), _either_way(b, element)
    p, q, m, n = c.shape
    k = a.shape[3]
    layout: dict[str, Any] = {"a_across": a_across, "b_across": b_across}

    def operands(schedule: Any) -> list[Any]:
        if precision == "tf32":
            return [_rounding(left, schedule.rows), _rounding(right, schedule.columns)]
        return [left.array, right.array]

    direct = c.in_rows or not epilogue.accumulate
    own = epilogue if parts > 1 or direct else replace(epilogue, bias=None, gelu=False)  # the kernel's; else `through` ends the sums
    ending: dict[str, Any] = {"bias": own.bias is not None, "gelu": own.gelu}
    offsets = own.bias if own.bias is not None else nothing(c.base.device)
    if parts > 1:
        name = _chosen("parts", c, (m, n, k // parts, parts), (a_across, b_across))
        schedule = SCHEDULES["parts"][name]
        tiles = -(-m // schedule.rows) * -(-n // schedule.columns)
        work = Work(blocks=parts * tiles, alpha=epilogue.alpha, accumulate=int(epilogue.accumulate))
        shape = (parts, tiles, schedule.slots, matmul_parts.NUMBERS)
        sums = c.base.device.empty(math.prod(shape), f32).reshape(*shape)
        # Valid: the contracts compare all extents, a block of the one writes the sums of its own part, a thread of the other its own elements of C.
        _sums_kernel(element, name, parts, **layout)(sums, *operands(schedule), work)
        _sum_kernel(c.base.dtype, name, parts, **ending, pairs=c.in_vectors(2))(c.array, sums, offsets, work)
        return

    def multiply(out: Matrix, alpha: float, accumulate: int) -> None:
        steps, mapped, nbytes = -(-k * element.itemsize // ROW_BYTES), out.in_rows, p * q * m * n * out.base.dtype.itemsize
        can_hold = element.itemsize == 2 and mapped and p * q == 1 and steps <= matmul_held.STEPS
        blocks = matmul_held.blocks_of(m, n, _multiprocessors(c.base)) if can_hold else 0
        name = _schedule("held" if blocks else "wgmma", out, k, (a_across, b_across))
        schedule = SCHEDULES["held"][name]
        if isinstance(schedule, matmul_held.Schedule):
            ways: dict[str, Any] = {"steps": steps, "c_passes": nbytes > PASSING_HELD}
            work = Work(blocks=blocks, alpha=alpha, accumulate=accumulate)
        else:
            if own.gelu:  # it is hidden where one warpgroup multiplies while the other one finishes its tile
                name = "128x128 in turn"
                schedule = SCHEDULES["held"][name]
            ways = {
                "mapped": mapped,
                "pairs": not mapped and out.in_vectors(2),
                "a_passes": n <= schedule.columns and p * q * m * k * element.itemsize > PASSING,
                "c_passes": nbytes > PASSING,
            }
            work = _work(out, schedule, alpha, accumulate)
        # Valid: the contract compares all extents, and a tile is written by one block.
        _wgmma_kernel(element, out.base.dtype, name, **layout, **ending, **ways)(out.array, *operands(schedule), offsets, work)

    through(multiply, c, 1, epilogue, direct=direct)


def _tf32(c: Matrix, a: Matrix, b: Matrix, parts: int, epilogue: Epilogue) -> None:
    """With k across the rows of A, or of both; where it is across those of B alone, C^T = B^T A^T is computed."""
    p, q, m, n = c.shape
    steps = steps_of_part("tf32", a.shape[3], parts)
    both = _is_across(a, f32) and _is_across(b, f32)
    name = _chosen("tf32", c, (m, n, steps, p * q * parts), (True, True)) if both else ""
    copies = both and SCHEDULES["tf32"][name].copies
    c_across = not _is_across(a, f32) or (copies and m < n)
    if c_across:
        a, b = b, a
    left, none = a.turned, no_matrix(c.base.device)

    def launch(out: Matrix, right: Matrix, b_across: bool, work: tuple[float, int], later: Array = none, source: Array = none) -> None:
        made = out.turned if c_across else out
        chosen = name or _schedule("tf32", made, steps, (True, b_across))
        # Valid: the contract compares all extents, a tile is written by one block, and a block of the copy by one warp.
        _tf32_kernel(chosen, b_across, c_across, parts, later is not none)(
            out.array, _rounding(left, BOX), _rounding(right, BOX), later, source, _work(made, SCHEDULES["tf32"][chosen], *work)
        )

    def beside(out: Matrix, made: Matrix, heads: int, work: tuple[float, int]) -> None:
        copy, schedule, stages = room_for_copy(b), SCHEDULES["tf32"][name], -(-steps // BOX)
        progress = c.base.device.empty(parts * -(-made.shape[3] // schedule.columns) * matmul_tf32_beside.LINE, u32)
        blocks = parts * heads * BOX // 64 * -(-b.shape[2] // 64)
        # Valid: the contract compares extents, a thread writes elements of its own, and there are more threads than counters.
        _heads_kernel()(copy.array, b.turned.array, progress, Heads(part=stages * BOX, head=heads * BOX, blocks=blocks))
        rounding, plain = (tensor_map(x.array, (1, 1, BOX, BOX), swizzle=128, tf32=x is not copy) for x in (b.turned, copy))
        # Valid: the contract compares extents, a tile is written by one block, a box of the copy by one warp, and it is read when it is counted.
        _beside_kernel(name, c_across, parts, heads)(
            out.array, _rounding(left, BOX), plain, rounding, progress, _work(made, schedule, *work)
        )

    def product(out: Matrix, alpha: float, accumulate: int) -> None:
        made, work = out.turned if c_across else out, (alpha, accumulate)
        heads = _copied_before(made, b, SCHEDULES["tf32"][name], -(-steps // BOX)) if copies else 0
        if heads:
            beside(out, made, heads, work)
            return
        first = _columns_copied_first(made, b, SCHEDULES["tf32"][name]) if copies else 0
        if first == 0:
            launch(out, *_either_way(turned_copy(b) if copies else b, f32), work)
            return
        # while the first columns are computed, B is copied for the rest
        copy, rest = room_for_copy(b), b.shape[2] - first
        turn_into(copy.rows(0, first), b.rows(0, first))
        one, two = (out.rows(0, first), out.rows(first, rest)) if c_across else (out.columns(0, first), out.columns(first, rest))
        launch(one, copy.rows(0, first), False, work, copy.rows(first, rest).array, b.rows(first, rest).turned.array)
        launch(two, copy.rows(first, rest), False, work)

    through(product, c, parts, epilogue, direct=c.in_rows and epilogue.plain and c.base.dtype == f32, spread=True)


def _copied_before(c: Matrix, b: Matrix, schedule: Any, stages: int) -> int:
    """The stages of each part along k, of so many, that are copied before a product that copies the rest of its B, given as its transpose (p, q, n, k), beside;
    0 where the schedule does not do that, blocks have more than one tile (C is parts x q, m x n), or the copy engine cannot read B as it lies."""
    parts, q, m, n = c.shape
    tiles = parts * -(-m // schedule.rows) * -(-n // schedule.columns)
    fits = q * b.shape[0] * b.shape[1] == 1 and tiles <= _multiprocessors(c.base) and turns_in_fours(b) and b.turned.in_rows
    return matmul_tf32_beside.heads_of(stages) if schedule.beside and fits else 0


def _columns_copied_first(c: Matrix, b: Matrix, schedule: Any) -> int:
    """The first columns of C (batch p x q, m x n) whose tiles are all computed at once, if a launch of their own takes no more rounds and copying B, which is
    given as its transpose (p, q, n, k), takes longer than a launch; else 0."""
    p, q, m, n = c.shape
    blocks, down, across = _multiprocessors(c.base), -(-m // schedule.rows), -(-n // schedule.columns)
    first = blocks // down
    is_long = turns_in_fours(b) and math.prod(b.shape) * b.base.dtype.itemsize > PASSING
    if p * q > 1 or not is_long or first == 0 or across < 3 * first:
        return 0
    rounds, rounds_of_rest = -(-down * across // blocks), -(-down * (across - first) // blocks)
    return int(first * schedule.columns) if rounds_of_rest < rounds else 0


def _three(c: Matrix, a: Matrix, b: Matrix, parts: int, epilogue: Epilogue) -> None:
    (left, a_across), (right, b_across) = _either_way(a, f32), _either_way(b, f32)

    def product(out: Matrix, alpha: float, accumulate: int) -> None:
        name = _schedule("3xtf32", out, steps_of_part("3xtf32", a.shape[3], parts), (a_across, b_across))
        # Valid: as above.
        _three_kernel(name, a_across, b_across, parts)(
            out.array, left.array, right.array, _work(out, SCHEDULES["3xtf32"][name], alpha, accumulate)
        )

    through(product, c, parts, epilogue, direct=c.in_rows and epilogue.plain and c.base.dtype == f32)


def _mma(c: Matrix, a: Matrix, b: Matrix, precision: str, parts: int, epilogue: Epilogue) -> None:
    element = ELEMENTS[precision]
    if precision == "tf32":
        (left, a_across), (right, b_across) = ((packed(x, f32, round_to_tf32=True), False) for x in (a, b))
    else:
        (left, a_across), (right, b_across) = _either_way(a, element), _either_way(b, element)
    k = a.shape[3]

    def product(out: Matrix, alpha: float, accumulate: int) -> None:
        name = _schedule("mma", out, steps_of_part(precision, k, parts), (a_across, b_across))
        schedule = SCHEDULES["mma"][name]
        whole = schedule.row_bytes if parts == 1 else parts * STAGE_BYTES
        cut = out.shape[2] % schedule.rows or out.shape[3] % schedule.columns or k * element.itemsize % whole
        on_cpu = out.base.device.target == "cpu"
        each = 1 if on_cpu else next(count for count in (16 // out.base.dtype.itemsize, 2, 1) if out.in_vectors(count))
        most = out.shape[0] * out.shape[1] * -(-out.shape[2] // schedule.rows) * -(-out.shape[3] // schedule.columns)
        blocks = most if on_cpu else min(most, schedule.resident * _multiprocessors(out.base))
        ways = {"edges": bool(cut), "batch": out.shape[0] * out.shape[1] > 1, "early": on_hopper(out.base)}
        # Valid: the contract compares all extents, copies read what `valid` leaves, and each thread writes elements of its own.
        _mma_kernel(element, out.base.dtype, name, a_across, b_across, each, parts, **ways)(
            out.array, left.array, right.array, Work(blocks=blocks, alpha=alpha, accumulate=accumulate)
        )

    through(product, c, parts, epilogue, direct=epilogue.plain)


# ---------------------------------------------------------------------------------------------------------------------------- operands


def _is_ready(x: Matrix, element: Any) -> bool:
    """Whether the copy engine reads rows of such elements as they lie."""
    return x.base.dtype == element and x.in_rows


def _is_across(x: Matrix, element: Any) -> bool:
    """Whether it does with k across the rows, and not along them."""
    return not _is_ready(x, element) and _is_ready(x.turned, element)


def _either_way(x: Matrix, element: Any, *, across: bool = False) -> tuple[Matrix, bool]:
    """Matrices that the copy engine reads, and whether they are given transposed, as copies are if they lie `across`."""
    if _is_ready(x, element):
        return x, False
    if _is_ready(x.turned, element):
        return x.turned, True
    return (packed(x.turned, element), True) if across else (packed(x, element), False)


def _in_fours(x: Matrix) -> tuple[Matrix, bool]:
    """Matrices whose rows are whole vectors of four, and whether they are given transposed."""
    if x.in_vectors(4):
        return x, False
    if x.turned.in_vectors(4):
        return x.turned, True
    copy = packed(x.turned, f32)
    # up to whole vectors there are more rows of x, which no element of C needs; more of k would be added
    return Matrix(copy.base, (*copy.shape[:3], copy.strides[2]), copy.strides), True


def _in_whole_fours(x: Matrix) -> Matrix:
    """Matrices with more columns than x up to whole vectors of four, if there is room behind its rows; what they hold is of no use."""
    p, q, rows, columns = x.shape
    more = -(-columns // 4) * 4
    reach = sum((extent - 1) * stride for extent, stride in zip((p, q, rows), x.strides[:3], strict=True)) + more
    return Matrix(x.base, (p, q, rows, more), x.strides) if x.strides[2] >= more and reach <= len(x.base) else x


def _along(x: Matrix, element: Any) -> Matrix:
    """Matrices that the copy engine reads, with rows along k."""
    return x if _is_ready(x, element) else packed(x, element)


def _turned(x: Matrix, across: bool) -> Matrix:
    """Matrices with k along their rows from those that may be given transposed, and the other way round."""
    return x.turned if across else x


def _rounding(x: Matrix, rows: int) -> Any:
    """A map with which the copy engine brings `rows` rows of f32, 128 bytes of each, and rounds them to tf32."""
    return tensor_map(x.array, (1, 1, rows, ROW_BYTES // 4), swizzle=ROW_BYTES, tf32=True)


def _work(c: Matrix, schedule: Any, alpha: float, accumulate: int) -> Work:
    """What a launch with blocks that go from tile to tile has to do."""
    p, q, m, n = c.shape
    tiles = p * q * -(-m // schedule.rows) * -(-n // schedule.columns)
    return Work(blocks=min(_multiprocessors(c.base), tiles), alpha=alpha, accumulate=accumulate)


# ---------------------------------------------------------------------------------------------------------------------------- kernels


def _multiprocessors(x: Array) -> int:
    return int(getattr(x.device, "multiprocessors", 1))


def _schedule(family: str, c: Matrix, k: int, across: tuple[bool, bool] = (False, False)) -> str:
    p, q, m, n = c.shape
    return _chosen(family, c, (m, n, k, p * q), across)


def _chosen(family: str, c: Matrix, shape: tuple[int, int, int, int], across: tuple[bool, bool]) -> str:
    return choose(family, c.base.device.target, _multiprocessors(c.base), c.base.device.shared_limit, shape, across)


@functools.cache
def _wgmma_kernel(element: Any, result: Any, name: str, **options: Any) -> Kernel:
    schedule = SCHEDULES["held"][name]
    if isinstance(schedule, matmul_held.Schedule):
        return matmul_held.product(element, result, **options)
    return matmul_hopper.product(element, result, schedule, **options)


@functools.cache
def _sums_kernel(element: Any, name: str, parts: int, **options: bool) -> Kernel:
    return matmul_parts.sums_of_parts(element, SCHEDULES["parts"][name], parts, **options)


@functools.cache
def _sum_kernel(result: Any, name: str, parts: int, **options: bool) -> Kernel:
    return matmul_parts.sum_of_parts(result, SCHEDULES["parts"][name], parts, **options)


@functools.cache
def _tf32_kernel(name: str, b_across: bool, c_across: bool, parts: int, ahead: bool) -> Kernel:
    return matmul_tf32.product(SCHEDULES["tf32"][name], b_across=b_across, c_across=c_across, parts=parts, ahead=ahead)


@functools.cache
def _heads_kernel() -> Kernel:
    return turn_heads()


@functools.cache
def _beside_kernel(name: str, c_across: bool, parts: int, heads: int) -> Kernel:
    return matmul_tf32_beside.product(SCHEDULES["tf32"][name], c_across=c_across, parts=parts, heads=heads)


@functools.cache
def _three_kernel(name: str, a_across: bool, b_across: bool, parts: int = 1) -> Kernel:
    return matmul_3xtf32.product(SCHEDULES["3xtf32"][name], a_across=a_across, b_across=b_across, parts=parts)


@functools.cache
def _fp32_kernel(name: str, a_across: bool, b_across: bool, each: int, rest: bool, early: bool) -> Kernel:
    schedule = SCHEDULES["fp32"][name]
    if isinstance(schedule, matmul_wide.Schedule):
        # ptxas spills some bytes where results leave four at a time from some tiles of 128 x 192
        if schedule.columns == 192 and rest and a_across and not b_across:
            each = min(each, 2)
        return matmul_wide.product(schedule, a_across=a_across, b_across=b_across, each=each, rest=rest)
    if rest or a_across or not b_across or not early:
        schedule = replace(schedule, resident=1)  # else ptxas spills
    return matmul_pipelined.product(schedule, a_across=a_across, b_across=b_across, each=each, rest=rest, early=early)


@functools.cache
def _border_kernel(a_across: bool, rest: bool) -> Kernel:
    return matmul_border.product_of_border(a_across=a_across, rest=rest, early=True)


@functools.cache
def _mma_kernel(element: Any, result: Any, name: str, a_across: bool, b_across: bool, each: int, parts: int, **options: bool) -> Kernel:
    return matmul_mma.product(
        element, result, SCHEDULES["mma"][name], a_across=a_across, b_across=b_across, each=each, parts=parts, **options
    )


@functools.cache
def _combine(result: Any, parts: int, bias: bool, gelu: bool, each: int, early: bool, spread: bool) -> Kernel:
    return combine(result, parts, bias=bias, gelu=gelu, each=each, early=early, spread=spread)
