"""Bits, arithmetic that hardware rounds correctly, and time."""

from __future__ import annotations

from kdsl.lang.intrinsics.row import ToBinary, ToBitcast, ToClock, ToFma, ToSleep, ToTernary, ToUnary, row

# fmt: off
# Bits of integers
popcount = row("popcount", "(x: I) -> I", ToUnary("popcount", integer=True), "How many bits are 1.", isa="popc")
leading_zeros = row("leading_zeros", "(x: I) -> I", ToUnary("leading_zeros", integer=True), "How many bits above the highest 1 are 0; the width of the type for 0.", isa="clz")
trailing_zeros = row("trailing_zeros", "(x: I) -> I", ToUnary("trailing_zeros", integer=True), "How many bits below the lowest 1 are 0; the width of the type for 0.", isa="brev, clz")
reverse_bits = row("reverse_bits", "(x: I) -> I", ToUnary("reverse_bits", integer=True), "The bits in reverse order.", isa="brev")
multiply_high = row("multiply_high", "(a: I, b: I) -> I", ToBinary("multiply_high", integer=True), "The upper half of the product, which has twice the width of the type.", isa="mul")
funnel_shift_left = row("funnel_shift_left", "(low: u32, high: u32, shift: u32) -> u32", ToTernary("funnel_left"), "The upper half of the 64 bits of `high` and `low`, shifted left by `shift % 32`; a rotation where both are the same.", isa="shf", example="y[t] = funnel_shift_left(v, w, 5)")
funnel_shift_right = row("funnel_shift_right", "(low: u32, high: u32, shift: u32) -> u32", ToTernary("funnel_right"), "The lower half of the 64 bits of `high` and `low`, shifted right by `shift % 32`.", isa="shf", example="y[t] = funnel_shift_right(v, w, v)")
permute_bytes = row("permute_bytes", "(a: u32, b: u32, selector: u32) -> u32", ToTernary("permute"), "Four bytes of the eight of `a` (0 to 3, from the lowest) and `b` (4 to 7): each nibble of the selector, from the lowest, names one with its low three bits; with its highest bit set, that byte's sign fills the place.", isa="prmt", example="y[t] = permute_bytes(v, w, 0x3210)")
dp4a = row("dp4a", "(a, b, c) -> i32 or u32", ToTernary("dot"), "c plus the four products of a byte of `a` with that of `b` in the same place, wrapping. `a` and `b` are i32 or u32, which says of each whether its bytes have signs; c and the result are u32 if both have none, else i32.", isa="dp4a", element="i32", example="y[t] = dp4a(v, u32(w), 7)")
# Time
clock = row("clock", "() -> i64", ToClock("clock64"), "Clock cycles of the multiprocessor, for differences within a thread.", targets=("gpu",), isa="%clock64")
global_timer = row("global_timer", "() -> i64", ToClock("globaltimer"), "Nanoseconds of the device's clock; it advances in steps of up to a microsecond or more.", targets=("gpu",), isa="%globaltimer")
nanosleep = row("nanosleep", "(nanoseconds: u32) -> None", ToSleep(), "Suspend the thread for 0 to twice as many nanoseconds, at most a millisecond.", targets=("gpu",), least_ptx=(6, 3), isa="nanosleep")
# Arithmetic that hardware rounds correctly
sqrt = row("sqrt", "(x: F) -> F", ToUnary("sqrt"), "Square root, correctly rounded.", isa="sqrt")
floor = row("floor", "(x: F) -> F", ToUnary("floor"), "Largest integral value not above x.", isa="cvt.rmi")
ceil = row("ceil", "(x: F) -> F", ToUnary("ceil"), "Smallest integral value not below x.", isa="cvt.rpi")
trunc = row("trunc", "(x: F) -> F", ToUnary("trunc"), "x without its fraction.", isa="cvt.rzi")
rint = row("rint", "(x: F) -> F", ToUnary("rint"), "Nearest integral value, ties to even.", isa="cvt.rni")
fma = row("fma", "(a: F, b: F, c: F) -> F", ToFma(), "a * b + c, rounded once.", isa="fma")
fmin = row("fmin", "(a: F, b: F) -> F", ToBinary("fmin"), "The smaller; a NaN is ignored; -0 is below 0.", isa="min")
fmax = row("fmax", "(a: F, b: F) -> F", ToBinary("fmax"), "The larger; a NaN is ignored; -0 is below 0.", isa="max")
float_bits = row("float_bits", "(x: f32) -> i32", ToBitcast("i32"), "The bits of an f32.", isa="mov")
bits_float = row("bits_float", "(x: i32) -> f32", ToBitcast("f32"), "The f32 with these bits.", isa="mov")
double_bits = row("double_bits", "(x: f64) -> i64", ToBitcast("i64"), "The bits of an f64.", isa="mov")
bits_double = row("bits_double", "(x: i64) -> f64", ToBitcast("f64"), "The f64 with these bits.", isa="mov")
f16_bits = row("f16_bits", "(x: f16) -> u16", ToBitcast("u16"), "The bits of an f16.", isa="mov", element="f16", example="y[t] = bits_f16(f16_bits(v) ^ 0x8000)")
bits_f16 = row("bits_f16", "(x: u16) -> f16", ToBitcast("f16"), "The f16 with these bits.", isa="mov", element="u16", example="y[t] = f16_bits(-bits_f16(v))")
bf16_bits = row("bf16_bits", "(x: bf16) -> u16", ToBitcast("u16"), "The bits of a bf16.", isa="mov", element="bf16", example="y[t] = bits_bf16(bf16_bits(v) ^ 0x8000)")
bits_bf16 = row("bits_bf16", "(x: u16) -> bf16", ToBitcast("bf16"), "The bf16 with these bits.", isa="mov", element="u16", example="y[t] = bf16_bits(-bits_bf16(v))")
# fmt: on
