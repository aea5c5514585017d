"""The state of one pass over a kernel: blocks under construction, facts that hold, the frames of expanded functions.

`Context` also makes the pure operations: it folds constants, gives equal operations one value (where the first dominates), and attaches ranges.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar

from kdsl.frontend import folding
from kdsl.frontend.decisions import Decisions, Key, NameType
from kdsl.frontend.errors import KernelError
from kdsl.frontend.frames import Frame
from kdsl.frontend.relations import Relation
from kdsl.frontend.source import Source
from kdsl.frontend.values import ArrayRef
from kdsl.ir import nodes, ranges
from kdsl.lang.constants import ConstantArray
from kdsl.lang.declaration import Declaration
from kdsl.lang.geometry import Geometry, Grid, Sweep, Tiles
from kdsl.lang.limits import SHARED_BYTES
from kdsl.lang.types import BOOL, I64, DType

V = TypeVar("V", bound=nodes.ValueOp)
Number = bool | int | float
_MOST_OPERATIONS: Final = 200_000
"""A kernel of more operations would take LLVM minutes; only nested unrolled loops come so far."""


@dataclass(frozen=True, eq=False)
class Fact:
    """Something that holds where the program is."""

    kind: Literal["lt", "le", "first_thread", "first_lane"]
    """A relation of two integers, or which thread this is."""
    left: nodes.ValueOp | None = None
    """Left side."""
    right: nodes.ValueOp | None = None
    """Right side."""


def grid_rank(geometry: Geometry) -> int:
    """Dimensions of the grid that are not always 1."""
    if isinstance(geometry, Tiles):
        return 2 if geometry.batch == 1 else 3
    if isinstance(geometry, Grid):
        return 3 if geometry.z != 1 else 2 if geometry.y != 1 else 1
    return 1


def grid_extent(geometry: Geometry, dimension: int) -> int | None:
    """Blocks along a dimension of the grid, if the geometry says how many."""
    if dimension >= grid_rank(geometry):
        return 1
    extent: object = None
    if isinstance(geometry, Grid):
        extent = (geometry.x, geometry.y, geometry.z)[dimension]
    elif isinstance(geometry, Sweep):
        extent = geometry.blocks
    return extent if isinstance(extent, int) and extent >= 1 else None


Checks: TypeAlias = Literal["all", "needed", "none"]
"""Which accesses are checked: all of them, also those that are proved or written `.unchecked`; those that are neither; or none at all."""


@dataclass(frozen=True)
class Lengths:
    """What the contract says of the lengths of views, and of numbers."""

    at_least_view: Mapping[str, set[str]]
    """For each view, the views that are at most as long."""
    at_least: Mapping[str, int]
    """For each view, the least length."""
    multiples: Mapping[str, int] = field(default_factory=dict)
    """For parameters, fields and extents, a power of two of which they are multiples."""
    numbers: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    """For parameters and fields, the least and the largest value that it names."""
    relations: tuple[Relation, ...] = ()
    """What it says of all of these, as inequalities."""


class Context:
    """One pass over a kernel."""

    def __init__(
        self,
        source: Source,
        declaration: Declaration,
        types: Mapping[TypeVar, DType],
        decisions: Decisions,
        *,
        checks: Checks,
        asserts: bool,
    ) -> None:
        self.declaration = declaration
        self.decisions = decisions
        self.checks = checks
        """Which accesses are checked."""
        self.asserts = asserts
        """Whether what is no access is: divisions, shifts, masks of lanes, that threads agree."""
        self.contract_fma = declaration.contract_fma
        self.block_dim = declaration.block_dim
        self.parameters: list[nodes.ScalarParameter | nodes.View | nodes.Array] = []
        self.arrays: list[nodes.Array] = []
        self.shared_views: list[nodes.SharedView] = []
        self.tables: dict[ConstantArray, ArrayRef] = {}
        self.exact_extents: dict[tuple[nodes.View, int], nodes.ValueOp] = {}
        self.extent_multiples: dict[tuple[nodes.View, int], int] = {}
        self.variables: list[nodes.Variable] = []
        self.sites: dict[nodes.Site, int] = {}
        self.prologue = nodes.Block()
        self.body = nodes.Block()
        self.location = source.definition()
        self.frames = [Frame(source, (), None, types)]
        self.facts: list[Fact] = []
        self.known: dict[nodes.Variable, nodes.ValueOp] = {}
        self.set_log: list[nodes.Variable] = []
        self.registers: set[nodes.Variable] = set()
        self.weak: set[nodes.ValueOp] = set()
        self.weak_names: dict[Key, NameType] = {}
        self._of_a_type = False
        self.connectives: dict[nodes.ValueOp, tuple[Literal["and", "or"], nodes.ValueOp, nodes.ValueOp]] = {}
        self.witnesses: dict[nodes.ValueOp, str] = {}
        self.accesses: dict[nodes.View, list[tuple[str | None, nodes.Location]]] = {}
        self.contract = Lengths({}, {})
        self.sizes: Any = None
        """What was worked out of sizes so far (`kdsl.frontend.symbolic`)."""
        self._blocks = [self.body]
        self._emitted = 0
        self._ends: dict[nodes.Block, tuple[dict[tuple[object, ...], nodes.ValueOp], dict[nodes.Variable, nodes.ValueOp]]] = {}
        self._numbering: list[dict[tuple[object, ...], nodes.ValueOp]] = [{}, {}]

    @property
    def checked(self) -> bool:
        """Whether every access is checked."""
        return self.checks == "all"

    def trusts(self, unchecked: bool) -> bool:
        """Whether an access is taken to be inside, whatever is known of it; `unchecked` says that it is written so."""
        return self.checks == "none" or (unchecked and not self.checked)

    # ------------------------------------------------------------------------------------------------------------------ places

    @property
    def frame(self) -> Frame:
        """The function that is being built."""
        return self.frames[-1]

    def locate(self, node: ast.AST) -> nodes.Location:
        """The place of a node of the present function, with the calls that led there."""
        frame = self.frame
        found = frame.places.get(node)
        if found is None:
            found = frame.places[node] = frame.source.locate(node, frame.caller)
        return found

    def text(self, node: ast.AST) -> str:
        """The source of an expression."""
        return self.frame.source.text(node)

    def error(
        self, message: str, node: ast.AST | nodes.Location, hint: str, notes: Sequence[tuple[str, nodes.Location]] = ()
    ) -> KernelError:
        """An error at a node of the present function; every error says what to do."""
        place = node if isinstance(node, nodes.Location) else self.locate(node)
        return KernelError(message, place, hint, notes)

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Operations made inside stand at this node."""
        outer, self.location = self.location, self.locate(node)
        yield
        self.location = outer  # after an error nobody asks any more

    @contextmanager
    def of_a_type(self, operands: Sequence[object]) -> Iterator[None]:
        """What is made inside, of these operands, has a type of its own where one of them is a constant that has, say f32(3), and the others come from
        literals. It has nodes of its own then: `s * f32(3)` is no literal, although `s * 3.0`, which computes the same, still is.
        """
        numbers = [o for o in operands if isinstance(o, nodes.ValueOp)]
        constants = [o for o in numbers if isinstance(o, nodes.Constant)]
        outer, self._of_a_type = (
            self._of_a_type,
            0 < len(constants) < len(numbers) and all(o in self.weak or o in constants for o in numbers),
        )
        yield
        self._of_a_type = outer

    # ------------------------------------------------------------------------------------------------------------------ blocks

    def emit(self, op: nodes.Op) -> None:
        """Append an operation to the present block."""
        self._blocks[-1].ops.append(op)
        self._emitted += 1
        if self._emitted > _MOST_OPERATIONS:
            raise self.error(
                f"the kernel has grown to more than {_MOST_OPERATIONS} operations",
                op.location,
                "use range() in place of unroll(), or fewer trips",
            )

    def splice(self, block: nodes.Block) -> None:
        """Append the operations of a block that was built apart, and know what was known at its end."""
        self._blocks[-1].ops.extend(block.ops)
        numbering, self.known = self._ends.pop(block)
        self._numbering[-1].update(numbering)

    @contextmanager
    def nested(self, block: nodes.Block) -> Iterator[None]:
        """Build inside `block`. What is known inside is forgotten afterwards, unless the block is spliced."""
        self._blocks.append(block)
        self._numbering.append({})
        facts, known = len(self.facts), dict(self.known)
        yield
        self._blocks.pop()
        self._ends[block] = (self._numbering.pop(), self.known)
        del self.facts[facts:]
        self.known = known

    def forget_since(self, mark: int) -> None:
        """Forget the values of variables that were set since `len(set_log)` was `mark`."""
        for variable in self.set_log[mark:]:
            self.known.pop(variable, None)

    def forget(self, variables: Iterable[nodes.Variable]) -> None:
        """Forget the values of these variables, and of all elements of local arrays: a loop begins."""
        for variable in (*variables, *self.registers):
            self.known.pop(variable, None)

    def new_variable(self, name: str, type: DType) -> nodes.Variable:
        """A variable of the kernel."""
        variable = nodes.Variable(name, type)
        self.variables.append(variable)
        return variable

    def get(self, variable: nodes.Variable) -> nodes.ValueOp:
        """The value of a variable: the one that was just assigned, if it is known."""
        known = self.known.get(variable)
        if known is not None:
            return known
        value = nodes.Get(location=self.location, type=variable.type, variable=variable, hint=variable.name)
        self.emit(value)
        self.known[variable] = value
        return value

    def set(self, variable: nodes.Variable, value: nodes.ValueOp) -> None:
        """Assign to a variable."""
        self.emit(nodes.Set(location=self.location, variable=variable, value=value))
        self.set_log.append(variable)
        if isinstance(value, nodes.Constant):
            self.known.pop(variable, None)  # a variable is no compile-time constant, even where its value is evident
        else:
            self.known[variable] = value

    def new_site(
        self,
        kind: Literal["load", "store", "atomic", "copy", "assert", "mask"],
        name: str,
        memory: nodes.Memory | None,
        within: tuple[int, ...] = (),
        lanes: int = 1,
    ) -> int:
        """Number of a check at the present place, of an access to so many numbers; the trips of an unrolled loop share theirs. `within` are extents of arrays
        in the element."""
        extents = (*memory.shape[:-1], memory.shape[-1] // lanes, *within) if isinstance(memory, nodes.Array) else None
        rank = memory.rank + len(within) if isinstance(memory, nodes.View) else 1
        return self.sites.setdefault(nodes.Site(kind, name, self.location, extents, rank), len(self.sites))

    # --------------------------------------------------------------------------------------------------------- pure operations

    def _number(self, key: tuple[object, ...], make: V) -> V:
        key = (*key, "of a type") if self._of_a_type else key
        for table in reversed(self._numbering):
            found = table.get(key)
            if found is not None:
                return found  # type: ignore[return-value]  # the class of the operation is part of the key
        self._numbering[-1][key] = make
        self.emit(make)
        return make

    def at_entry(self, key: tuple[object, ...], value: V) -> V:
        """A value that is computed once, before everything else: parameters, lengths, where the thread stands."""
        found = self._numbering[0].get(key)
        if found is None:
            self._numbering[0][key] = found = value
            self.prologue.ops.append(value)
        return found  # type: ignore[return-value]  # the class of the operation is part of the key

    def constant(self, type: DType, value: Number) -> nodes.Constant:
        """A constant; the value must be exact for the type."""
        value = bool(value) if type.is_bool else int(value) if type.is_integer else float(value)
        made = nodes.Constant(location=self.location, type=type, value=value)
        if type.is_integer:
            made.range = (int(value), int(value))
        return self._number((nodes.Constant, type, repr(value)), made)

    def unary(self, op: Any, a: nodes.ValueOp) -> nodes.ValueOp:
        """A `Unary`."""
        if isinstance(a, nodes.Constant) and (value := folding.unary(op, a.type, a.value)) is not None:
            return self.constant(a.type, value)
        known = ranges.unary(op, a.type, ranges.of(a)) if a.type.is_integer else None
        return self._weakly(self._number((op, a), nodes.Unary(location=self.location, type=a.type, range=known, op=op, operand=a)), a)

    def binary(self, op: Any, a: nodes.ValueOp, b: nodes.ValueOp) -> nodes.ValueOp:
        """A `Binary` of two operands of one type."""
        if (
            isinstance(a, nodes.Constant)
            and isinstance(b, nodes.Constant)
            and (value := folding.binary(op, a.type, a.value, b.value)) is not None
        ):
            return self.constant(a.type, value)
        known = ranges.binary(op, a.type, ranges.of(a), ranges.of(b)) if a.type.is_integer else None
        made = nodes.Binary(location=self.location, type=a.type, range=known, op=op, left=a, right=b)
        return self._weakly(self._number((op, a, b), made), a, b)

    def fma(self, a: nodes.ValueOp, b: nodes.ValueOp, c: nodes.ValueOp) -> nodes.ValueOp:
        """An `Fma`."""
        if isinstance(a, nodes.Constant) and isinstance(b, nodes.Constant) and isinstance(c, nodes.Constant):
            value = folding.fma(a.type, a.value, b.value, c.value)
            if value is not None:
                return self.constant(a.type, value)
        return self._weakly(self._number(("fma", a, b, c), nodes.Fma(location=self.location, type=a.type, a=a, b=b, c=c)), a, b, c)

    def ternary(self, op: Any, a: nodes.ValueOp, b: nodes.ValueOp, c: nodes.ValueOp) -> nodes.ValueOp:
        """A `Ternary`."""
        return self._number((op, a, b, c), nodes.Ternary(location=self.location, type=c.type, op=op, a=a, b=b, c=c))

    def scale(self, value: nodes.ValueOp, exponent: nodes.ValueOp) -> nodes.ValueOp:
        """A `Scale`."""
        made = nodes.Scale(location=self.location, type=value.type, value=value, exponent=exponent)
        return self._weakly(self._number(("scale", value, exponent), made), value, exponent)

    def compare(self, op: nodes.CompareName, a: nodes.ValueOp, b: nodes.ValueOp) -> nodes.ValueOp:
        """A `Compare`."""
        if isinstance(a, nodes.Constant) and isinstance(b, nodes.Constant):
            return self.constant(BOOL, folding.compare(op, a.value, b.value))
        return self._number((op, a, b), nodes.Compare(location=self.location, type=BOOL, op=op, left=a, right=b))

    def select(self, condition: nodes.ValueOp, then: nodes.ValueOp, orelse: nodes.ValueOp) -> nodes.ValueOp:
        """A `Select`."""
        if isinstance(condition, nodes.Constant):
            return then if condition.value else orelse
        known = ranges.select(then.type, ranges.of(then), ranges.of(orelse)) if then.type.is_integer else None
        made = nodes.Select(location=self.location, type=then.type, range=known, condition=condition, then=then, orelse=orelse)
        return self._weakly(self._number(("select", condition, then, orelse), made), then, orelse)

    def cast(self, to: DType, value: nodes.ValueOp) -> nodes.ValueOp:
        """A `Cast`, or the value itself if it has the type."""
        if value.type is to:
            return value
        if isinstance(value, nodes.Constant):
            return self.constant(to, folding.cast(to, value.value))
        return self._number(("cast", to, value), nodes.Cast(location=self.location, type=to, range=ranges.cast(to, value), operand=value))

    def bitcast(self, to: DType, value: nodes.ValueOp) -> nodes.ValueOp:
        """A `Bitcast`."""
        return self._number(("bitcast", to, value), nodes.Bitcast(location=self.location, type=to, operand=value))

    def _weakly(self, made: V, *operands: nodes.ValueOp) -> V:
        """Mark a value as weak if all that it is computed from is weak or constant."""
        if (
            not self._of_a_type
            and any(o in self.weak for o in operands)
            and all(o in self.weak or isinstance(o, nodes.Constant) for o in operands)
        ):
            self.weak.add(made)
        return made

    def parameter(self, parameter: nodes.ScalarParameter) -> nodes.ValueOp:
        """The value of a scalar parameter, in the range that the contract gives it."""
        of, known = parameter.type, None
        if of.is_integer and parameter.name in self.contract.numbers:
            low, high = self.contract.numbers[parameter.name]
            known = max(of.minimum, of.minimum if low is None else low), min(of.maximum, of.maximum if high is None else high)
            known = known if known[0] <= known[1] else None  # no launch keeps the contract
        made = nodes.ParameterValue(location=self.location, type=of, range=known, parameter=parameter, hint=parameter.name)
        return self.at_entry((nodes.ParameterValue, parameter), made)

    def length(self, view: nodes.View, dimension: int = 0) -> nodes.ValueOp:
        """The extent of a view along a dimension."""
        known = ranges.LENGTH
        if isinstance(view, nodes.SharedView):
            extent, known = view.extents[dimension], (0, SHARED_BYTES)
            if isinstance(extent, int):
                return self.constant(I64, extent)
        made = nodes.Length(location=self.location, type=I64, range=known, view=view, dimension=dimension)
        return self.at_entry((nodes.Length, view, dimension), made)

    def special(self, name: nodes.SpecialName) -> nodes.ValueOp:
        """Where the thread stands; a constant if the geometry says so."""
        known = self._special_range(name)
        if known[0] == known[1]:
            return self.constant(I64, known[0])
        return self.at_entry((nodes.Special, name), nodes.Special(location=self.location, type=I64, range=known, name=name))

    def _special_range(self, name: nodes.SpecialName) -> ranges.Range:
        x, y, z = self.block_dim
        threads = x * y * z
        extents: dict[str, int] = {
            "thread_idx.x": x, "thread_idx.y": y, "thread_idx.z": z,
            "thread_rank": threads, "lane_index": min(threads, nodes.WARP_SIZE), "warp_index": -(-threads // nodes.WARP_SIZE),
            "warp_group_index": -(-threads // nodes.WARP_GROUP_SIZE),
        }  # fmt: skip
        if name == "cluster_rank":
            extents[name] = self.declaration.attributes.cluster_size
        if name in extents:
            return (0, extents[name] - 1)
        extent = grid_extent(self.declaration.geometry, "xyz".index(name[-1]))
        if extent is not None:
            return (0, extent - 1) if name.startswith("block_idx") else (extent, extent)
        return ranges.GRID if name.startswith("block_idx") else ranges.GRID_EXTENT
