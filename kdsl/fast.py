"""The hardware's approximations of functions: `from kdsl import fast`, then `fast.exp(x)` in a kernel.

They are there for f32 (`exp2` and `tanh` for f16 and bf16, too), and take fewer instructions than the functions of the same names in `kdsl`. Their errors
stand with each, and in `docs/mathematics.md`. They are an exception from "the same bits": a GPU approximates, each kind in its own way, and the CPU computes
the accurate function.
"""

from kdsl.lang.intrinsics.fast import cos, divide, exp, exp2, log, log2, log10, pow, reciprocal, rsqrt, sin, sqrt, tanh

__all__ = ["cos", "divide", "exp", "exp2", "log", "log2", "log10", "pow", "reciprocal", "rsqrt", "sin", "sqrt", "tanh"]
