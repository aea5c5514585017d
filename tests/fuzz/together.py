"""What threads do together: exchanges between lanes, reductions of blocks, atomic operations whose order does not show."""

from __future__ import annotations

from tests.fuzz.arithmetic import FLOATS, INTEGERS
from tests.fuzz.scope import Scope
from tests.fuzz.writer import ExpressionWriter

ATOMIC = ("i32", "u32", "i64", "u64")
"""Types of elements that have atomic operations whose order does not show."""
_ALIKE = {"add": ("add", "sub"), "min": ("min",), "max": ("max",), "and": ("and",), "or": ("or",), "xor": ("xor",), "inc": ("inc",)}
"""Operations that may meet in one element, by kind."""


class TogetherWriter(ExpressionWriter):
    """Writes expressions and statements about several threads."""

    collectives = False
    """Whether reductions of blocks may be called: then no thread returns before the end."""

    def exchange(self, scope: Scope, of: str, depth: int) -> str | None:
        """An exchange between lanes; only where all of the warp come."""
        rng = self.rng
        quiet = scope.inner(convergent=False)
        if of == "bool":
            if rng.random() < 0.3:
                return f"warp_match_all({self.definite(quiet, depth)})"
            return f"{rng.choice(('warp_any', 'warp_all'))}({self.condition(quiet, depth)})"
        if of == "u32" and rng.random() < 0.4:
            if rng.random() < 0.4:
                return f"warp_match_any({self.definite(quiet, depth)})"
            return f"warp_ballot({self.condition(quiet, depth)})"
        value = self.expression(quiet, of, depth)
        if rng.random() < 0.5:
            bits = ("warp_and", "warp_or", "warp_xor") if of in INTEGERS else ()
            return f"{rng.choice(('warp_sum', 'warp_sum', 'warp_max', 'warp_min', 'warp_prefix_sum', *bits))}({value})"
        amount = str(rng.randrange(33)) if rng.random() < 0.5 else self.expression(quiet, self.integer_type(index=True), min(depth, 1))
        width = f", width={rng.choice((2, 4, 8, 16, 32))}" if rng.random() < 0.3 else ""
        return f"{rng.choice(('shuffle', 'shuffle_xor', 'shuffle_up', 'shuffle_down'))}({value}, {amount}{width})"

    def definite(self, scope: Scope, depth: int) -> str:
        """A value whose bits are known: no NaN, few different ones."""
        of = self.type()
        if of in FLOATS:
            return f"{of}(i8({self.expression(scope, of, min(depth, 1))}) & 3)"
        if of in INTEGERS:
            return f"({self.expression(scope, of, depth)} & {self.rng.choice((1, 3))})"
        return self.condition(scope, depth)

    def collective(self, scope: Scope, of: str, depth: int) -> str:
        """A reduction or a prefix sum over the block."""
        name = self.rng.choice(("block_sum", "block_max", "block_min", "block_prefix_sum"))
        return f"{name}({self.expression(scope.inner(convergent=False), of, depth)})"

    def kind_of_atomic(self, of: str) -> str:
        """What is done to all elements of an array."""
        return self.rng.choice([kind for kind in _ALIKE if of == "u32" or kind != "inc"])

    def atomic(self, scope: Scope, array: str, of: str, kind: str, extent: int = 0) -> str:
        """An atomic operation on some element."""
        rng = self.rng
        value = "7" if kind == "inc" else self.given(scope, of, 1)  # elements that meet several limits would depend on the order
        more = f', scope="{rng.choice(("device", "system"))}"' if rng.random() < 0.2 else ""
        more += f', order="{rng.choice(("acquire", "release", "acq_rel", "seq_cst"))}"' if rng.random() < 0.2 else ""
        return f"atomic_{rng.choice(_ALIKE[kind])}({array}, {self.index(scope, extent)}, {value}{more})"
