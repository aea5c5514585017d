"""The arrays of a kernel, and the places in its source where something can be found, by number. Code carries the numbers, the runtime the words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from kdsl.backend.cpu.sanitizer.layout import MOST_SITES
from kdsl.backend.cpu.sanitizer.library import Mathematics, call_of
from kdsl.ir import nodes
from kdsl.lang.intrinsics.fragments import form_of
from kdsl.lang.struct_type import StructType
from kdsl.lang.types import DType

FOUND_ONLY: Final = ("divide", "shift", "mask", "agree")
"""Kinds of checks that only instrumented and checked builds make: they are findings here, and no failures of the program."""

What: TypeAlias = Literal["read", "write", "atomic", "copy to", "value"]


@dataclass(frozen=True)
class Place:
    """A place in the source where a kernel touches an array or computes a value."""

    what: What
    """What it does."""
    array: int | None
    """Number of the array, None for a value."""
    location: nodes.Location
    """Where."""
    lanes: int = 1
    """Numbers that one access takes."""
    text: str = ""
    """Of a value, what was meant."""
    field: str = ""
    """Of an element that is a struct, the path to the number."""
    checked: bool = False
    """Whether the kernel checks it by itself, so that the program gets a BoundsError."""


def memories(kernel: nodes.Kernel) -> list[nodes.Memory]:
    """The arrays of a kernel: its views, its arrays in struct parameters, those that the launch sizes, shared, local and constant ones."""
    parameters = [parameter for parameter in kernel.parameters if isinstance(parameter, nodes.View | nodes.Array)]
    return [*parameters, *kernel.shared_views, *kernel.arrays]


def is_global(memory: nodes.Memory) -> bool:
    """Whether an array lies in an allocation of the device."""
    return isinstance(memory, nodes.View) and not isinstance(memory, nodes.SharedView)


def granule(of: DType) -> int:
    """Bytes of the smallest number in an element: a power of two at whose multiples all numbers lie."""
    return min(field.type.itemsize for field in of.numbers) if isinstance(of, StructType) else of.itemsize


def is_conversion(op: nodes.Op) -> bool:
    """Whether an operation makes an integer of a float."""
    return isinstance(op, nodes.Cast) and op.type.is_integer and op.operand.type.is_float


def is_sum(op: nodes.Op) -> bool:
    """Whether an operation that is not for its value alone adds floats: to one in memory, or products of matrices."""
    match op:
        case nodes.Atomic():
            return op.type.is_float and op.op in ("add", "sub")
        case nodes.Instruction(name="mma"):
            return form_of(op.options).c != "s32"
        case _:
            return False


def _text(op: nodes.Op) -> str:
    match op:
        case nodes.Cast():
            return f"{op.operand.type} to {op.type}"
        case nodes.Exchange() | nodes.Atomic() | nodes.Instruction():
            return op.name
        case _:
            return str(getattr(op, "op", "fma"))


class Sites:
    """The places of a kernel. Operations at one place that do the same (copies of an unrolled loop, say) are one."""

    def __init__(self, kernel: nodes.Kernel) -> None:
        self.places: list[Place] = [Place("value", None, kernel.location)]
        """By number; number 0 is no place."""
        self._numbers: dict[Place, int] = {}
        self.arrays = {memory: number for number, memory in enumerate(memories(kernel))}
        """Numbers of the arrays."""
        self.numbers: list[int] = []
        """Of each operation that has one, as the kernel is walked: what code depends on."""
        self._kernel = kernel
        self._mathematics = Mathematics(kernel)
        for op in nodes.walk(kernel.body):
            self._add(op)

    def access(self, op: nodes.Access | nodes.Check) -> int:
        """The number of an access."""
        match op:
            case nodes.Load() | nodes.LoadVector() | nodes.Check():
                what: What = "read"
            case nodes.Store() | nodes.StoreVector():
                what = "write"
            case _:
                what = "atomic"
        lanes = op.lanes if isinstance(op, nodes.LoadVector | nodes.StoreVector) else 1
        field = op.field.path if isinstance(op, nodes.Load | nodes.Store | nodes.Atomic) and op.field is not None else ""
        checked = isinstance(op, nodes.Check) or op.checked
        return self._number(Place(what, self.arrays[op.memory], op.location, lanes, field=field, checked=checked))

    def element(self, op: nodes.Instruction, position: int) -> int:
        """The number of an element that an instruction touches."""
        what: What = "write" if op.name == "stmatrix" else "read"
        if op.name == "copy_async" and position == 0:
            what = "copy to"
        return self._number(Place(what, self.arrays[op.elements[position].memory], op.location))

    def value(self, op: nodes.Op) -> int:
        """The number of an operation whose value is looked at. What a function of the library does is done where it is called."""
        if isinstance(op, nodes.Assertion):
            site = self._kernel.sites[op.site]
            return self._number(Place("value", None, op.location, text=site.name, checked=site.kind not in FOUND_ONLY))
        call = call_of(op)
        location, text = (op.location, _text(op)) if call is None else (call.location, call.name)
        return self._number(Place("value", None, location, text=text))

    def sources(self, op: nodes.ValueOp) -> tuple[nodes.ValueOp, ...] | None:
        """The floats from which an operation makes another float, or, of what leaves a mathematical function, those that the function was given; None if an
        operation makes none, or stands inside such a function."""
        if op in self._mathematics:
            return self._mathematics.results.get(op)
        if op.type.is_float and isinstance(op, nodes.Cast | nodes.Binary | nodes.Unary | nodes.Fma | nodes.Scale):
            return tuple(source for source in nodes.operands(op) if source.type.is_float)
        return None

    def _add(self, op: nodes.Op) -> None:
        """Number an operation, in the order in which the kernel is walked: the same whenever it is compiled."""
        match op:
            case nodes.Load() | nodes.Store() | nodes.LoadVector() | nodes.StoreVector() | nodes.Atomic() | nodes.Check():
                self.numbers.append(self.access(op))
            case nodes.Instruction():
                self.numbers += [self.element(op, position) for position in range(len(op.elements))]
            case nodes.Assertion() | nodes.Exchange():
                self.numbers.append(self.value(op))
            case nodes.ValueOp() if self.sources(op) is not None or is_conversion(op):
                self.numbers.append(self.value(op))
        if is_sum(op):
            self.numbers.append(self.value(op))

    def deciding(self) -> frozenset[int]:
        """The numbers of the reads by which threads decide whether they come to a barrier or a lane exchange."""
        read: dict[object, set[int]] = {}
        while self._spread(read):
            pass
        found: set[int] = set()
        for op in nodes.walk(self._kernel.body):
            if isinstance(op, nodes.Agreed):
                found |= read.get(op.value, set())
        return frozenset(found)

    def _spread(self, read: dict[object, set[int]]) -> bool:
        """For each value and variable the reads that it comes from; whether any was new."""
        changed = False
        for op in nodes.walk(self._kernel.body):
            own = {self.access(op)} if isinstance(op, nodes.Load) else set()
            sources: tuple[object, ...] = nodes.operands(op) if not isinstance(op, nodes.Get) else (op.variable,)
            own |= {number for source in sources for number in read.get(source, ())}
            key: object = op.variable if isinstance(op, nodes.Set) else op.counter if isinstance(op, nodes.ForRange) else op
            if own - read.setdefault(key, set()):
                read[key] |= own
                changed = True
        return changed

    def _number(self, place: Place) -> int:
        if place not in self._numbers:
            if len(self.places) < MOST_SITES:
                self.places.append(place)
            self._numbers[place] = len(self.places) - 1
        return self._numbers[place]
