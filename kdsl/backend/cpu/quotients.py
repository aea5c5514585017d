"""Quotients of many lanes by one divisor, as a mean or a correction makes them, without the divider, which takes one vector in ten or more cycles.

With r the correctly rounded 1 / y, q = x r is near the quotient, x - q y is exact, and q + r (x - q y) is the quotient rounded correctly (Markstein 1990,
"Computation of elementary functions on the IBM RISC System/6000 processor"; Brisebarre, Muller and Raina 2004, "Accelerating correctly rounded floating-point
division when the divisor is known in advance"; tried for 12,000 divisors with all dividends), as long as nothing on the way is subnormal or infinite. So the
divisor has to be near 1, and all lanes neither too small nor too large, or 0; else the group divides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import I32, Lanes, Uniform, Vector
from kdsl.backend.llvm.module import call_intrinsic, mangled
from kdsl.ir import nodes
from kdsl.lang.types import F32

if TYPE_CHECKING:
    from kdsl.backend.cpu.emission import Emission

_DIVISORS: Final = (2.0**-32, 2.0**32)
"""The divisors that are near 1."""
_LEAST: Final = 37
"""Exponent, as it stands in the bits, of the smallest dividend: 2**-90, so that the remainder of a quotient by it is a multiple of 2**-149."""
_MOST: Final = 221
"""The largest, so that quotients are finite."""


def by_uniform(e: Emission, op: nodes.ValueOp, operands: list[Lanes]) -> Lanes | None:
    """The quotient of lanes by a value that they share; None for every other operation, and where the divider is as good."""
    if not isinstance(op, nodes.Binary) or op.op != "div" or op.type is not F32 or not e.host.is_x86 or e.is_fallback:
        return None
    dividend, divisor = operands
    if not isinstance(divisor, Uniform) or not isinstance(dividend, Vector) or _is_power_of_two(divisor.scalar):
        return None
    b, x, y = e.builder, dividend.vector, divisor.scalar
    inverse = b.fdiv(ir.Constant(y.type, 1.0), y)
    near = b.and_(b.fcmp_ordered(">=", y, ir.Constant(y.type, _DIVISORS[0])), b.fcmp_ordered("<=", y, ir.Constant(y.type, _DIVISORS[1])))

    def of(product: Any, factor: Any, rest: Any) -> Any:
        return call_intrinsic(b, f"llvm.fma.{mangled(x.type)}", x.type, product, factor, rest)

    inverses, divisors = e.lanes.splat(inverse), e.lanes.splat(y)
    rough = b.fmul(x, inverses)
    excess = of(rough, divisors, b.fneg(x))  # this way round, a zero keeps its sign
    quotient = of(b.fneg(excess), inverses, rough)

    first = b.block
    again, divide, done = e.append("zeros"), e.append("divide"), e.append("divided")
    integers = ir.VectorType(I32, e.width)

    def constant(value: int) -> Any:
        return ir.Constant(integers, [value] * e.width)

    bits = b.and_(b.bitcast(x, integers), constant(0x7FFFFFFF))
    # below the least or above the most, in one signed comparison, which all processors have
    shift = -(1 << 31) - (_LEAST << 23)
    unfit = b.icmp_signed(">", b.add(bits, constant(shift & 0xFFFFFFFF)), constant((_MOST << 23) + shift))
    fits = b.and_(near, _none(b, unfit))
    b.cbranch(fits, done, again).set_weights([1 << 10, 1])
    b.position_at_end(again)
    zeros = b.and_(near, _none(b, b.and_(unfit, b.icmp_signed("!=", bits, constant(0)))))
    b.cbranch(zeros, done, divide)
    b.position_at_end(divide)
    exact = b.fdiv(x, divisors)
    b.branch(done)
    b.position_at_end(done)
    result = b.phi(x.type, "quotient")
    for value, block in ((quotient, first), (quotient, again), (exact, divide)):
        result.add_incoming(value, block)
    return Vector(result)


def _none(b: ir.IRBuilder, lanes: Any) -> Any:
    """Whether no lane is set."""
    bits = ir.IntType(lanes.type.count)
    return b.icmp_unsigned("==", b.bitcast(lanes, bits), ir.Constant(bits, 0))


def _is_power_of_two(scalar: Any) -> bool:
    """Whether a divisor is known to be one of those of which LLVM multiplies by the inverse."""
    return (
        isinstance(scalar, ir.Constant)
        and isinstance(scalar.constant, float)
        and abs(scalar.constant).hex().startswith("0x1.0000000000000p")
    )
