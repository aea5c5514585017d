"""Products of small matrices by a warp, what brings their operands to its lanes, and numbers of 8 and 16 bits packed in registers."""

from __future__ import annotations

from typing import Any, Final

from kdsl.lang.intrinsics.fragments import FORMS
from kdsl.lang.intrinsics.row import ToInstruction, ToUnary, row

_MATRIX: Final[dict[str, Any]] = {"topic": "Matrix products", "least_ptx": (7, 0), "least_capability": 80}
_PAIRS: Final[dict[str, Any]] = {"topic": "Packed numbers", "least_ptx": (7, 0), "least_capability": 80, "isa": "cvt"}
_EIGHTS: Final[dict[str, Any]] = {"topic": "Packed numbers", "least_ptx": (8, 1), "least_capability": 89, "isa": "cvt"}
_TILE: Final = "s = shared_array((16, 16), bf16)\ns[t // 2, t % 2 * 8] = v\nsync_threads()\nr = ldmatrix(s, (t % 16, t // 16 * 8))\n"

# fmt: off
ldmatrix = row("ldmatrix", "(array, index, count: int = 4, transpose: bool = False) -> tuple of u32", ToInstruction("ldmatrix"), "Load `count` (1, 2 or 4) matrices of 8 rows of 16 bytes from a shared array. Lane 8 i + j names the first element of row j of matrix i; register i holds of matrix i the 4 bytes lane % 4 of row lane // 4, or of its transpose.", convergence="warp", whole_warps=True, memory="reads", isa="ldmatrix", element="bf16", example=_TILE + "y[t] = bf16(r[0] + r[3])", **_MATRIX)
stmatrix = row("stmatrix", "(array, index, registers, transpose: bool = False) -> None", ToInstruction("stmatrix"), "Store 1, 2 or 4 such matrices to a shared array: the inverse of ldmatrix.", convergence="warp", whole_warps=True, memory="writes", isa="stmatrix", element="bf16", example=_TILE + "stmatrix(s, (t % 16, t // 16 * 8), r)\nsync_threads()\ny[t] = s[t % 16, 0]", **{**_MATRIX, "least_ptx": (7, 8), "least_capability": 90})
mma = row("mma", "(a, b, c, shape: str, type, saturate: bool = False) -> tuple", ToInstruction("mma"), "The fragments of A B + C, from those of A, B and C (tuples of registers). `saturate` clamps sums of integers to i32; otherwise they wrap.", convergence="warp", whole_warps=True, isa="mma", element="f32", example='d = mma((1, 2), (3,), (v, v, v, w), "m16n8k8", bf16)\ny[t] = d[0] + d[3]', variants={form.variant: (form.least_ptx, form.least_capability) for form in FORMS}, **_MATRIX)
to_tf32 = row("to_tf32", "(x: f32) -> f32", ToUnary("tf32", only="f32"), "The number rounded to tf32, which has 10 bits behind the binary point: to nearest, ties away from 0. The low 13 bits of the result are 0.", isa="cvt", **_MATRIX)

f16x2_bits = row("f16x2_bits", "(low: f32, high: f32) -> u32", ToInstruction("pack"), "Two numbers rounded to f16, `low` in the lower half of the bits.", element="f32", example="y[t] = f32(f16x2_bits(v, w))", **_PAIRS)
bf16x2_bits = row("bf16x2_bits", "(low: f32, high: f32) -> u32", ToInstruction("pack"), "Two numbers rounded to bf16, `low` in the lower half of the bits.", element="f32", example="y[t] = f32(bf16x2_bits(v, w))", **_PAIRS)
e4m3x2_bits = row("e4m3x2_bits", "(low: f32, high: f32) -> u16", ToInstruction("pack"), "Two numbers rounded to the 8 bits of e4m3 (OCP: no infinities), `low` in the lower byte. What is too large, infinities included, becomes ±448.", element="f32", example="y[t] = f32(e4m3x2_bits(v, w))", **_EIGHTS)
e5m2x2_bits = row("e5m2x2_bits", "(low: f32, high: f32) -> u16", ToInstruction("pack"), "Two numbers rounded to the 8 bits of e5m2, `low` in the lower byte. What is too large, infinities included, becomes ±57344.", element="f32", example="y[t] = f32(e5m2x2_bits(v, w))", **_EIGHTS)
bits_f16x2 = row("bits_f16x2", "(bits: u32) -> (f32, f32)", ToInstruction("unpack"), "The two f16 of 32 bits, the lower first.", element="u32", example="low, high = bits_f16x2(v)\ny[t] = u32(low + high)", **_PAIRS)
bits_bf16x2 = row("bits_bf16x2", "(bits: u32) -> (f32, f32)", ToInstruction("unpack"), "The two bf16 of 32 bits, the lower first.", element="u32", example="low, high = bits_bf16x2(v)\ny[t] = u32(low + high)", **_PAIRS)
bits_e4m3x2 = row("bits_e4m3x2", "(bits: u16) -> (f32, f32)", ToInstruction("unpack"), "The two e4m3 of 16 bits, the lower first.", element="u16", example="low, high = bits_e4m3x2(v)\ny[t] = u16(low + high)", **_EIGHTS)
bits_e5m2x2 = row("bits_e5m2x2", "(bits: u16) -> (f32, f32)", ToInstruction("unpack"), "The two e5m2 of 16 bits, the lower first.", element="u16", example="low, high = bits_e5m2x2(v)\ny[t] = u16(low + high)", **_EIGHTS)
# fmt: on
