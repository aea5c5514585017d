"""The hardware's approximations, `kdsl.fast`: one or two instructions on a GPU, and on the CPU the accurate function (`kdsl.mathematics.accurate`).

Errors are those of the PTX ISA; of what is made of two instructions, which has a product that is rounded, they follow from them. A ulp is the distance
between neighbouring floats at the exact value. Subnormals are kept wherever there is an instruction that keeps them. What is not here: f64, of which hardware
approximates a reciprocal and a root of 20 bits only.
"""

from __future__ import annotations

from typing import Any, Final

from kdsl.lang.intrinsics.row import Intrinsic, ToApproximation, row

_LOG2_E: Final = "0f3FB8AA3B"
_LN_2: Final = "0f3F317218"
_LOG10_2: Final = "0f3E9A209B"


def _row(name: str, signature: str, ptx: str, doc: str, *, more: dict[str, str] | None = None, **rest: Any) -> Intrinsic:
    """A row of the namespace; `more` are the instructions of types other than f32."""
    return row(f"fast.{name}", signature, ToApproximation({"f32": ptx, **(more or {})}), doc, topic="Approximations", element="f32", **rest)


def _use(name: str) -> str:
    """The example of a function of two numbers."""
    return f"y[t] = fast.{name}(v, w)"


# fmt: off
exp = _row("exp", "(x: f32) -> f32", f"{{ .reg .f32 t; mul.rn.f32 t, $1, {_LOG2_E}; ex2.approx.f32 $0, t; }}", "e to the power of x: within 2.5 + 1.3 |x| ulp.", isa="ex2")
exp2 = _row("exp2", "(x: F) -> F", "ex2.approx.f32 $0, $1;", "2 to the power of x, f32, f16 or bf16: within 2 ulp of the rounded result; of f16 2⁻⁹·⁹ and of bf16 2⁻⁷ relative. bf16 takes subnormals for zero, and needs compute capability 9.0 and PTX 7.8.", isa="ex2", more={"f16": "ex2.approx.f16 $0, $1;", "bf16": "ex2.approx.ftz.bf16 $0, $1;"}, variants={"f16": ((7, 0), 75), "bf16": ((7, 8), 90)})
log = _row("log", "(x: f32) -> f32", f"{{ .reg .f32 t; lg2.approx.f32 t, $1; mul.rn.f32 $0, t, {_LN_2}; }}", "Natural logarithm: within 2⁻²² for x in (1/2, 2), and 2⁻²¹·⁶ relative elsewhere.", isa="lg2")
log2 = _row("log2", "(x: f32) -> f32", "lg2.approx.f32 $0, $1;", "Logarithm to base 2: within 2⁻²² for x in (1/2, 2), and 2⁻²² relative elsewhere.", isa="lg2")
log10 = _row("log10", "(x: f32) -> f32", f"{{ .reg .f32 t; lg2.approx.f32 t, $1; mul.rn.f32 $0, t, {_LOG10_2}; }}", "Logarithm to base 10: within 2⁻²³ for x in (1/2, 2), and 2⁻²¹·⁴ relative elsewhere.", isa="lg2")
sin = _row("sin", "(x: f32) -> f32", "sin.approx.f32 $0, $1;", "Sine of an angle in radians: within 2⁻²⁰·⁵ up to 2 π, 2⁻¹⁴·⁷ up to 100 π; of larger angles nothing is promised.", isa="sin")
cos = _row("cos", "(x: f32) -> f32", "cos.approx.f32 $0, $1;", "Cosine of an angle in radians: within 2⁻²⁰·⁵ up to 2 π, 2⁻¹⁴·⁷ up to 100 π; of larger angles nothing is promised.", isa="cos")
tanh = _row("tanh", "(x: F) -> F", "tanh.approx.f32 $0, $1;", "Hyperbolic tangent, f32, f16 or bf16: within 2⁻¹¹ relative; of f16 2⁻¹⁰·⁹⁸⁷ and of bf16 2⁻⁸ absolute. bf16 needs compute capability 9.0 and PTX 7.8.", isa="tanh", least_ptx=(7, 0), least_capability=75, more={"f16": "tanh.approx.f16 $0, $1;", "bf16": "tanh.approx.bf16 $0, $1;"}, variants={"bf16": ((7, 8), 90)})
sqrt = _row("sqrt", "(x: f32) -> f32", "sqrt.approx.f32 $0, $1;", "Square root: within 2⁻²³ relative.", isa="sqrt")
rsqrt = _row("rsqrt", "(x: f32) -> f32", "rsqrt.approx.f32 $0, $1;", "1 / sqrt(x): within 2⁻²²·⁹ relative.", isa="rsqrt")
reciprocal = _row("reciprocal", "(x: f32) -> f32", "rcp.approx.f32 $0, $1;", "1 / x: within 1 ulp.", isa="rcp")
divide = _row("divide", "(x: f32, y: f32) -> f32", "div.approx.f32 $0, $1, $2;", "x / y: within 2 ulp for |y| from 2⁻¹²⁶ to 2¹²⁶. Of a larger y it is 0, and NaN where x is infinite.", isa="div", example=_use("divide"))
pow = _row("pow", "(x: f32, y: f32) -> f32", "{ .reg .f32 t; lg2.approx.f32 t, $1; mul.rn.f32 t, t, $2; ex2.approx.f32 $0, t; }", "x to the power of y as 2 to the power of y log₂ x, NaN for a negative x: within 2.5 + 5.1 |y ln x| ulp, and for x in (1/2, 2) within 2.5 + 2.8 |y| + 1.1 |y ln x| ulp.", isa="ex2, lg2", example=_use("pow"))
# fmt: on
