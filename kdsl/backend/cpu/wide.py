"""Wide groups: several groups of lanes run as one where nothing stands out of line.

Lanes that share an operand load it once, and what is the same for all of them (addresses, bounds, the loop itself) is done once for more of them. A wide group
has no mask: where threads could differ in their way, or an index could be outside, scalars are compared, and if they do not say that all is well, the
wide group gives up, and its lanes run from the start of the region in groups of the usual width, which know masks and record failures. So all that comes
before such a test must bear to be done again; a region in which it does not is not run in wide groups (`Unfit`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kdsl.backend.cpu.host import HostCpu
from kdsl.backend.cpu.plan import Region
from kdsl.backend.cpu.split import PURE
from kdsl.ir import nodes
from kdsl.ir.uniformity import Level, Uniformity

if TYPE_CHECKING:
    from kdsl.backend.cpu.addresses import Anchors
    from kdsl.backend.cpu.emission import Emission
    from kdsl.backend.cpu.packed import Packed

_VECTORS_OF_SUMS: Final = 8
"""Vectors of 32-bit lanes in a wide group of a kernel with reduction loops, at least: each is a sum, and together they hide the time an addition takes."""
_VECTORS: Final = 4
"""The same without reduction loops, where operands are rarely shared and more would not stay in registers."""
_VECTORS_OF_WIDE: Final = 2
"""In a kernel of wide accesses, each of which fills up to four times as many registers."""
_FIT: Final = (
    *PURE, nodes.OnGpu, nodes.LoadVector, nodes.Result, nodes.Store, nodes.StoreVector, nodes.If, nodes.ForRange, nodes.Scope, nodes.Return,
)  # fmt: skip
"""What a region may hold: nothing that lanes do together or in turn, that must not be done twice, or that takes single lanes out."""


class Unfit(Exception):
    """A region cannot run in wide groups."""


def wide_width(kernel: nodes.Kernel, host: HostCpu, width: int) -> int | None:
    """Lanes of a wide group, None if the kernel has none. `width` are those of a usual one."""
    ops = list(nodes.walk(kernel.body))
    if any(isinstance(op, nodes.Exchange | nodes.Agreed | nodes.Instruction) and not _is_hint(op) for op in ops) or any(
        array.space == "local" for array in kernel.arrays
    ):
        return None
    if any(isinstance(op, nodes.LoadVector | nodes.StoreVector) for op in ops):  # which fill as many registers as a wide group
        return None
    returns = any(isinstance(op, nodes.Return) for op in ops)
    if returns and any(isinstance(op, nodes.Barrier) for op in ops):
        return None
    uniformity = Uniformity(kernel, width)
    sums = max((_sums(op, uniformity) for op in ops), default=0)
    vectors = max(_VECTORS_OF_SUMS, host.accumulators // sums) if sums else _VECTORS
    if any(isinstance(op, nodes.LoadVector | nodes.StoreVector) for op in ops):
        vectors = _VECTORS_OF_WIDE
    wide = host.lanes * vectors
    while wide > width and kernel.threads % wide:
        wide //= 2
    return wide if wide > width else None


def _is_hint(op: nodes.Op) -> bool:
    """Whether an operation does nothing that could be seen."""
    return isinstance(op, nodes.Instruction) and op.name == "prefetch"


def _sums(op: nodes.Op, uniformity: Uniformity) -> int:
    """How many variables that differ between lanes an innermost loop carries from one trip to the next; 0 for any other operation."""
    if not isinstance(op, nodes.ForRange) or any(nodes.children(inner) for inner in op.body):
        return 0
    carried: set[nodes.Variable] = set()
    assigned: set[nodes.Variable] = set()
    for inner in op.body:
        if isinstance(inner, nodes.Get) and inner.variable not in assigned:
            carried.add(inner.variable)
        elif isinstance(inner, nodes.Set):
            assigned.add(inner.variable)
    return sum(uniformity.variable(variable) is Level.LANE for variable in carried & assigned)


class Attempt:
    """A region that is being emitted for a wide group."""

    def __init__(self, emission: Emission, region: Region) -> None:
        """Raises Unfit if the region is of no kind that can run so."""
        self.e = emission
        self.otherwise = emission.append("narrow")
        """LLVM block where the lanes run in groups of the usual width."""
        self.tests = 0
        """Tests so far."""
        self._is_final = False
        """Whether something has been done that must not be done again."""
        self._loops: list[int] = []
        """For each loop around the present operation, the tests before it."""
        self.proved: set[nodes.Op] = set()
        """Loads whose indices are known to be inside in all trips of the loop around the present operation (`hoist`)."""
        self.packed: dict[nodes.Load, Packed] = {}
        """Copies of what loads read in all trips of the loop around the present operation."""
        self.anchors: Anchors | None = None
        """From where loads read in the trips of the loop around the present operation, if those run together."""
        self.hinted: set[tuple[nodes.Memory, tuple[nodes.ValueOp, ...]]] = set()
        """Elements that later groups access, for which a hint has been given."""
        self.units: set[int] = set()
        """Strides, by the identity of their LLVM values, that are known to be 1."""
        self._loaded = set()
        for op in region.walk():
            if not (isinstance(op, _FIT) or _is_hint(op)) or (isinstance(op, nodes.ForRange) and emission.plan.has_jumps(op)):
                raise Unfit
            if isinstance(op, nodes.Load | nodes.LoadVector):
                self._loaded.add(emission.storage.scope_of(op.memory))

    def require(self, *conditions: Any) -> None:
        """Go on only if all conditions (i1) hold for the whole wide group."""
        b = self.e.builder
        together = conditions[0]
        for condition in conditions[1:]:
            together = b.and_(together, condition)
        self.count()
        rest = self.e.append("asexpected")
        b.cbranch(together, rest, self.otherwise).set_weights([1 << 10, 1])
        b.position_at_end(rest)

    def count(self) -> None:
        """There is a test here."""
        if self._is_final:
            raise Unfit
        self.tests += 1

    def stores(self, memory: nodes.Memory) -> None:
        """There is a store here: it may be done twice, unless the region also reads what it writes."""
        if self.e.storage.scope_of(memory) in self._loaded:
            self.commit()

    def commit(self) -> None:
        """From here on the region cannot start again, so there must be no more tests, nor any in another trip of a loop around this place."""
        if any(self.tests > before for before in self._loops):
            raise Unfit
        self._is_final = True

    def enter_loop(self) -> None:
        """A loop begins here."""
        self._loops.append(self.tests)

    def leave_loop(self) -> None:
        """It ends here."""
        self._loops.pop()
        self.anchors = None

    def state(self) -> bool:
        """What `resume` takes, to emit the other branch."""
        return self._is_final

    def resume(self, state: bool) -> bool:
        """Go back to the state at a branch; the state until now."""
        now, self._is_final = self._is_final, state
        return now
