"""Instructions that touch several elements: where they are surely inside and aligned, and the checks where that is not known.

A failed check is recorded like that of a single access, and the instruction is left out. What is not here: the instructions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Literal, TypeGuard

from kdsl.frontend import vectors
from kdsl.frontend.context import Context
from kdsl.frontend.multiples import multiple_of
from kdsl.frontend.proofs import bounds, run_inside_view
from kdsl.frontend.values import ArrayRef, BarrierRef, Value, ViewRef
from kdsl.ir import nodes
from kdsl.lang.types import BOOL, I64, DType


def memory_of(ref: ViewRef | ArrayRef | BarrierRef) -> nodes.Memory:
    """The array behind a name."""
    return ref.view if isinstance(ref, ViewRef) else ref.array


def shared_memory(ref: ArrayRef | ViewRef) -> nodes.Array | nodes.SharedView:
    """The array behind the name of a shared array."""
    memory = memory_of(ref)
    assert not isinstance(memory, nodes.View) or isinstance(memory, nodes.SharedView)
    return memory


def is_shared(value: Value) -> TypeGuard[ArrayRef | ViewRef]:
    """Whether it is a shared array of this block, of fixed shape or of one that the launch decides."""
    return (
        isinstance(value.view, nodes.SharedView)
        if isinstance(value, ViewRef)
        else isinstance(value, ArrayRef) and value.array.space == "shared"
    )


def extents_of(ctx: Context, ref: ViewRef | ArrayRef | BarrierRef) -> list[nodes.ValueOp]:
    """Numbers along each dimension, i64."""
    if isinstance(ref, ViewRef):
        return [ctx.length(ref.view, dimension) for dimension in range(ref.view.rank)]
    return [ctx.constant(I64, extent) for extent in ref.array.shape]


def written_extents(memory: nodes.Array | nodes.SharedView) -> tuple[int | str, ...]:
    """Elements of a shared array along each dimension; what the launch decides as an expression."""
    return memory.extents if isinstance(memory, nodes.SharedView) else memory.shape


def known_extents(memory: nodes.Memory) -> list[int | None]:
    """Elements along each dimension, None for what the compiler does not know."""
    if isinstance(memory, nodes.Array):
        return list(memory.shape)
    if isinstance(memory, nodes.SharedView):
        return [extent if isinstance(extent, int) else None for extent in memory.extents]
    return [None] * memory.rank


def begin_at(memory: nodes.Array | nodes.SharedView, alignment: int) -> None:
    """Have a shared array begin at a multiple of so many bytes, a power of two."""
    if isinstance(memory, nodes.SharedView):
        memory.begins_at = max(memory.begins_at, alignment)
    else:
        memory.alignment = max(memory.alignment, alignment)


class Guard:
    """What must hold at run time for an instruction to be done."""

    def __init__(self, ctx: Context, name: str, kind: Literal["load", "store", "copy", "atomic"]) -> None:
        self.ctx = ctx
        self.name = name
        """The instruction, for people."""
        self.kind = kind
        """What is recorded as left out."""
        self.conditions: list[nodes.ValueOp] = []

    # ------------------------------------------------------------------------------------------------------------------ inside

    def inside(
        self,
        ref: ViewRef | ArrayRef,
        places: tuple[nodes.ValueOp, ...],
        count: int,
        node: ast.AST,
        *,
        touched: nodes.ValueOp | None = None,
        idle: nodes.ValueOp | None = None,
    ) -> None:
        """`count` elements from `places` on, along the last dimension, are inside.

        `touched` (i64, 0 to `count`) says how many are touched at run time, if not all; where `idle` (bool) holds, none is.
        """
        ctx = self.ctx
        self._refuse_outside(memory_of(ref), places[-1], count, node)
        if self._is_trusted(ref) or self._is_proved(ref, places, count):
            return
        extents = extents_of(ctx, ref)
        spans = [*(ctx.constant(I64, 1) for _ in places[1:]), ctx.constant(I64, count) if touched is None else touched]
        self._require_inside(memory_of(ref), places, spans, extents, touched=touched, idle=idle)

    def vector_inside(self, ref: ViewRef | ArrayRef, places: tuple[nodes.ValueOp, ...], rank: nodes.ValueOp | None = None) -> None:
        """The vector at `places`, of which the last one counts in vectors, is inside; so is the rank of the block of the cluster whose array it is, if that is
        another one."""
        ctx = self.ctx
        assert ref.vector is not None
        if isinstance(ref, ViewRef):
            extents = [vectors.extent(ctx, ref, dimension) for dimension in range(ref.view.rank)]
        else:
            extents = [ctx.constant(I64, extent) for extent in ref.shape]
        if rank is not None:
            places, extents = (*places, rank), [*extents, ctx.constant(I64, ctx.declaration.attributes.cluster_size)]
        self._require_inside(memory_of(ref), places, [ctx.constant(I64, 1)] * len(places), extents, lanes=ref.vector.lanes)

    def _require_inside(
        self,
        memory: nodes.Memory,
        places: tuple[nodes.ValueOp, ...],
        spans: Sequence[nodes.ValueOp],
        extents: Sequence[nodes.ValueOp],
        *,
        lanes: int = 1,
        touched: nodes.ValueOp | None = None,
        idle: nodes.ValueOp | None = None,
    ) -> None:
        ctx = self.ctx
        insides = [self._fits(place, span, extent) for place, span, extent in zip(places, spans, extents, strict=True)]
        holds = insides[0]
        for inside in insides[1:]:
            holds = ctx.binary("and", holds, inside)
        # the first dimension that fails is recorded, and there the last element that would be touched
        last = len(places) - 1
        dimension: nodes.ValueOp = ctx.constant(I64, last)
        index, extent = self._end(places[last], spans[last]), extents[last]
        for number in reversed(range(last)):
            dimension = ctx.select(insides[number], dimension, ctx.constant(I64, number))
            index = ctx.select(insides[number], index, places[number])
            extent = ctx.select(insides[number], extent, extents[number])
        nothing = idle
        if touched is not None:
            none = ctx.compare("le", touched, ctx.constant(I64, 0))
            nothing = none if nothing is None else ctx.binary("or", nothing, none)
        if nothing is not None:
            holds = ctx.binary("or", nothing, holds)
        self._require(holds, ctx.new_site(self.kind, memory.name, memory, lanes=lanes), (dimension, index, extent))

    def _refuse_outside(self, memory: nodes.Memory, place: nodes.ValueOp, count: int, node: ast.AST) -> None:
        extent = known_extents(memory)[-1]
        if extent is not None and isinstance(place, nodes.Constant) and int(place.value) + count > extent:
            raise self.ctx.error(
                f"{self.name}() of {count} elements from element {place.value} on leaves `{memory.name}`, whose last extent is {extent}",
                node, f"begin at {extent - count} at most" if count <= extent else "make the array wider",
            )  # fmt: skip

    def _is_trusted(self, ref: ViewRef | ArrayRef) -> bool:
        return self.ctx.trusts(ref.unchecked)

    def _is_proved(self, ref: ViewRef | ArrayRef, places: tuple[nodes.ValueOp, ...], count: int) -> bool:
        ctx, last = self.ctx, len(places) - 1
        if isinstance(ref, ViewRef):
            spans = [count if d == last else 1 for d in range(len(places))]
            return not ctx.checked and all(run_inside_view(ctx, ref.view, place, spans[d], d) for d, place in enumerate(places))
        for d, (place, extent) in enumerate(zip(places, ref.array.shape, strict=True)):
            low, high = bounds(ctx, place)
            if low < 0 or high + (count if d == last else 1) > extent:
                return False
        return True

    def _fits(self, place: nodes.ValueOp, span: nodes.ValueOp, extent: nodes.ValueOp) -> nodes.ValueOp:
        """0 <= place and place + span <= extent, where nothing wraps: spans are small and extents no more than 2 ** 47."""
        ctx = self.ctx
        below = ctx.compare("le", place, ctx.binary("sub", extent, span))
        if bounds(ctx, place)[0] >= 0:
            return below
        return ctx.binary("and", ctx.compare("ge", place, ctx.constant(I64, 0)), below)

    def _end(self, place: nodes.ValueOp, span: nodes.ValueOp) -> nodes.ValueOp:
        """The index to report: the last one, or the first if that is negative."""
        ctx = self.ctx
        end = ctx.binary("add", place, ctx.binary("sub", span, ctx.constant(I64, 1)))
        if bounds(ctx, place)[0] >= 0:
            return end
        return ctx.select(ctx.compare("lt", place, ctx.constant(I64, 0)), place, end)

    # ----------------------------------------------------------------------------------------------------------------- aligned

    def aligned(
        self, ref: ViewRef | ArrayRef, places: tuple[nodes.ValueOp, ...], size: int, node: ast.AST, *, idle: nodes.ValueOp | None = None
    ) -> None:
        """The element at `places` lies at a multiple of `size` bytes (a power of two). Where `idle` holds it need not. The rows of a view do, as the launch
        checks; those of a shared array whose shape it decides are checked here."""
        ctx, memory = self.ctx, memory_of(ref)
        count = size // memory.type.itemsize
        if count <= 1 or self._is_trusted(ref):
            return
        self._refuse_odd_rows(memory, size, node)
        if isinstance(memory, nodes.SharedView) and memory.rank > 1:
            message = f"{self.name}() of {size} bytes on `{memory.name}`, whose rows have a multiple of {count} elements"
            self._multiple(ctx.length(memory, memory.rank - 1), count, message, idle)
        index = places[-1]
        if isinstance(index, nodes.Constant) and int(index.value) % count:
            raise ctx.error(
                f"{self.name}() of {size} bytes begins at element {index.value} of `{memory.name}`, {int(index.value) * memory.type.itemsize} bytes "
                f"from its start",
                node, f"begin at a multiple of {count} elements",
            )  # fmt: skip
        self._multiple(index, count, f"{self.name}() of {size} bytes begins at a multiple of {count} elements of `{memory.name}`", idle)

    def _multiple(self, value: nodes.ValueOp, count: int, message: str, idle: nodes.ValueOp | None) -> None:
        """The value is a multiple of `count`, a power of two."""
        ctx = self.ctx
        if multiple_of(ctx, value) % count == 0:
            return
        rest = ctx.binary("and", value, ctx.constant(I64, count - 1))
        holds = ctx.compare("eq", rest, ctx.constant(I64, 0))
        if idle is not None:
            holds = ctx.binary("or", idle, holds)
        self._require(holds, ctx.new_site("assert", message, None), None)

    def _refuse_odd_rows(self, memory: nodes.Memory, size: int, node: ast.AST) -> None:
        *outer, extent = known_extents(memory)
        if extent is None or not outer:
            return
        row = extent * memory.type.itemsize
        if row % size:
            raise self.ctx.error(
                f"{self.name}() of {size} bytes on `{memory.name}`, whose rows have {row} bytes, so that not all of them begin at a multiple of {size}",
                node, f"make its last extent a multiple of {size // memory.type.itemsize} elements",
            )  # fmt: skip

    # -------------------------------------------------------------------------------------------------------------------- doing

    def _require(self, holds: nodes.ValueOp, site: int, about: tuple[nodes.ValueOp, nodes.ValueOp, nodes.ValueOp] | None) -> None:
        self.ctx.emit(nodes.Assertion(location=self.ctx.location, condition=holds, site=site, about=about))
        self.conditions.append(holds)

    def _condition(self) -> nodes.ValueOp:
        together = self.conditions[0]
        for holds in self.conditions[1:]:
            together = self.ctx.binary("and", together, holds)
        return together

    def do(self, action: Callable[[], None]) -> None:
        """Do something of the thread's own, if all that is required holds."""
        if not self.conditions:
            action()
            return
        self._if(self._condition(), action)

    def do_for_results(self, action: Callable[[], tuple[nodes.ValueOp, ...]], types: Sequence[DType]) -> tuple[nodes.ValueOp, ...]:
        """Do something of the thread's own, if all that is required holds; its results, of these types, are 0 if not."""
        if not self.conditions:
            return action()
        return self._kept(self._condition(), action, tuple(self.ctx.new_variable(self.name, of) for of in types))

    def do_by_warp(
        self, action: Callable[[], tuple[nodes.ValueOp, ...]], results: tuple[nodes.Variable, ...] = ()
    ) -> tuple[nodes.ValueOp, ...]:
        """Do something that whole warps do, if all that is required holds in every lane; else its results, which have `results` for their keeping, are 0."""
        if not self.conditions:
            return action()
        ctx = self.ctx
        holds = nodes.Exchange(location=ctx.location, type=BOOL, name="warp_all", arguments=(self._condition(),))
        ctx.emit(holds)
        return self._kept(holds, action, results)

    def _kept(
        self, holds: nodes.ValueOp, action: Callable[[], tuple[nodes.ValueOp, ...]], results: tuple[nodes.Variable, ...]
    ) -> tuple[nodes.ValueOp, ...]:
        """The results of something that is done if a condition holds, through variables."""
        ctx = self.ctx
        for variable in results:
            ctx.set(variable, ctx.constant(variable.type, 0))

        def keep() -> None:
            for variable, value in zip(results, action(), strict=True):
                ctx.set(variable, value)

        self._if(holds, keep)
        for variable in results:
            ctx.known.pop(variable, None)
        return tuple(ctx.get(variable) for variable in results)

    def _if(self, condition: nodes.ValueOp, action: Callable[[], None]) -> None:
        then = nodes.Block()
        with self.ctx.nested(then):
            action()
        self.ctx.emit(nodes.If(location=self.ctx.location, condition=condition, then=then, orelse=nodes.Block()))
