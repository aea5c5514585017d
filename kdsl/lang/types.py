"""Element types of the language.

A `DType` says what one element is: kind, width, host (NumPy) twin, limits. Signedness lives here and never in a backend's integers.

Kernels write `f32`, `i64` …: at run time these are `DType`s, to a static type checker they are `float` and `int`, so that `f32(0)`, `Slice[f32]`
and ordinary arithmetic in kernel bodies type-check. The compiler itself uses the upper-case names.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import ml_dtypes
import numpy as np

Kind = Literal["bool", "signed", "unsigned", "float", "struct"]


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format with subnormals, infinities and NaNs (IEEE 754-2019, 3.3; bf16 is the upper half of an f32)."""

    precision: int
    """Bits of the significand, with the hidden one."""
    exponent_bits: int
    """Bits of the biased exponent."""

    @property
    def largest_exponent(self) -> int:
        """Exponent of the leading bit of the largest finite number."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def least_exponent(self) -> int:
        """Exponent of the smallest positive number, a subnormal: everything that the format holds is a multiple of it."""
        return 2 - self.largest_exponent - self.precision

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return math.ldexp(float((1 << self.precision) - 1), self.largest_exponent - self.precision + 1)


_FORMATS: Final = {"f16": FloatFormat(11, 5), "bf16": FloatFormat(8, 8), "f32": FloatFormat(24, 8), "f64": FloatFormat(53, 11)}


@dataclass(frozen=True, eq=False, repr=False)
class DType:
    """One element type. There is one instance per type; compare with `is`."""

    name: str
    """Its name in the language, such as `f32`."""
    kind: Kind
    """Boolean, signed integer, unsigned integer, float, or struct (`kdsl.lang.struct_type`)."""
    bits: int
    """Width of a value; a `bool` is one byte in memory."""
    numpy: np.dtype[Any]
    """The NumPy type with the same bytes."""

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_name, (self.name,))

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return self.numpy.itemsize

    @property
    def alignment(self) -> int:
        """Bytes that the address of an element is a multiple of."""
        return self.itemsize

    @property
    def canonical(self) -> DType:
        """The type that arrays of these elements carry: this one, except of a struct."""
        return self

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_signed(self) -> bool:
        return self.kind == "signed"

    @property
    def minimum(self) -> int:
        """Smallest integer that the type holds (0 for `bool`)."""
        return -(1 << (self.bits - 1)) if self.kind == "signed" else 0

    @property
    def maximum(self) -> int:
        """Largest integer that the type holds (1 for `bool`)."""
        return (1 << (self.bits - (self.kind == "signed"))) - 1

    @property
    def is_narrow_float(self) -> bool:
        """Whether it is f16 or bf16, in which no target computes as in f32."""
        return self.kind == "float" and self.bits == 16

    @property
    def format(self) -> FloatFormat:
        """The format of a float type."""
        return _FORMATS[self.name]

    @property
    def mantissa_bits(self) -> int:
        """Bits of precision of a float, with the hidden one: every integer of at most so many bits is exact."""
        return self.format.precision

    def __call__(self, value: Any) -> Any:
        """Convert on the host, by the rules of the language: out-of-range integers wrap, float to integer saturates, NaN gives 0."""
        return self.numpy.type(convert_constant(self, value))


BOOL: Final = DType("bool", "bool", 1, np.dtype(np.bool_))
I8: Final = DType("i8", "signed", 8, np.dtype(np.int8))
I16: Final = DType("i16", "signed", 16, np.dtype(np.int16))
I32: Final = DType("i32", "signed", 32, np.dtype(np.int32))
I64: Final = DType("i64", "signed", 64, np.dtype(np.int64))
U8: Final = DType("u8", "unsigned", 8, np.dtype(np.uint8))
U16: Final = DType("u16", "unsigned", 16, np.dtype(np.uint16))
U32: Final = DType("u32", "unsigned", 32, np.dtype(np.uint32))
U64: Final = DType("u64", "unsigned", 64, np.dtype(np.uint64))
F16: Final = DType("f16", "float", 16, np.dtype(np.float16))
BF16: Final = DType("bf16", "float", 16, np.dtype(ml_dtypes.bfloat16))
F32: Final = DType("f32", "float", 32, np.dtype(np.float32))
F64: Final = DType("f64", "float", 64, np.dtype(np.float64))

DTYPES: Final[dict[str, DType]] = {t.name: t for t in (BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64)}
_BY_NUMPY: Final[dict[np.dtype[Any], DType]] = {t.numpy: t for t in DTYPES.values()}


def _by_name(name: str) -> DType:
    return DTYPES[name]


if TYPE_CHECKING:
    # one by one: a chained assignment is no alias to a type checker
    i8: TypeAlias = int
    i16: TypeAlias = int
    i32: TypeAlias = int
    i64: TypeAlias = int
    u8: TypeAlias = int
    u16: TypeAlias = int
    u32: TypeAlias = int
    u64: TypeAlias = int
    f16: TypeAlias = float
    bf16: TypeAlias = float
    f32: TypeAlias = float
    f64: TypeAlias = float
    DTypeLike: TypeAlias = type[object] | DType  # a @struct is a class like any other to a type checker
else:
    i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64 = I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64
    DTypeLike = DType


def dtype(of: Any) -> DType:
    """The element type for a NumPy type, an array, a `DType`, `bool`, or a `@struct`.

    Raises TypeError if the language has no such type.
    """
    if isinstance(of, DType):
        return of
    if isinstance(of, str) and of in DTYPES:
        return DTYPES[of]
    struct_type = getattr(of, "__kdsl_struct__", None)
    if isinstance(struct_type, DType):
        return struct_type
    try:
        numpy_type = np.dtype(of if isinstance(of, type) else getattr(of, "dtype", of))
    except TypeError:
        raise TypeError(f"{of!r} is not an element type; use one of {', '.join(DTYPES)}") from None
    if numpy_type.names is not None:
        from kdsl.lang.struct_type import struct_of  # structs are made of element types

        return struct_of(numpy_type)
    found = _BY_NUMPY.get(numpy_type)
    if found is None:
        raise TypeError(f"there is no element type for NumPy's {numpy_type}; use one of {', '.join(DTYPES)}")
    return found


def wrap(to: DType, value: int) -> int:
    """`value` modulo 2 ** bits, in the range of the integer type `to`."""
    value &= (1 << to.bits) - 1
    return value - (1 << to.bits) if to.kind == "signed" and value > to.maximum else value


def convert_constant(to: DType, value: Any) -> bool | int | float:
    """The conversion `to(value)` of the language, on a host number (or the text of a float, such as "-inf").

    Integers wrap, float to integer truncates and saturates and NaN gives 0, number to bool is `!= 0`, floats round to nearest even.
    """
    if isinstance(value, str):
        value = float(value)
    if isinstance(value, np.generic):
        value = value.item()
    if to.is_bool:
        return bool(value != 0)
    if to.is_integer:
        if isinstance(value, float):
            if value != value:
                return 0
            limited = min(max(value, float(to.minimum)), float(to.maximum))
            return min(max(int(limited), to.minimum), to.maximum)
        return wrap(to, int(value))
    return round_float(to, value)


def round_float(to: DType, value: int | float) -> float:
    """`value` rounded once, to nearest even, to the float type `to`; too large a value gives infinity."""
    if isinstance(value, int):
        return _round_integer(to, value)
    if to.bits == 64 or value == 0 or not math.isfinite(value):
        return float(value)
    form = to.format
    exponent = math.frexp(value)[1]  # 2 ** (exponent - 1) <= abs(value)
    if exponent - 1 > form.largest_exponent:
        return math.copysign(math.inf, value)
    unit = max(exponent - form.precision, form.least_exponent)
    rounded = math.ldexp(float(round(math.ldexp(abs(value), -unit))), unit)  # both scalings are exact, and `round` goes to even
    return math.copysign(rounded if rounded <= form.largest else math.inf, value)


def _round_integer(to: DType, value: int) -> float:
    surplus = value.bit_length() - 52
    if surplus <= 0:
        return round_float(to, float(value))
    if to.bits < 64:  # what is cut off leaves a mark in the last of 52 bits, so that only the second rounding counts
        magnitude = abs(value)
        marked = (magnitude >> surplus | (magnitude & ((1 << surplus) - 1) != 0)) << surplus
        value = marked if value > 0 else -marked
    try:
        return round_float(to, float(value))
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def float_bits_of(of: DType, value: float) -> int:
    """The bits of an f16 or bf16, whose value must be exact for the type; every NaN gives the one quiet NaN."""
    if of.name == "f16":
        return int.from_bytes(struct.pack("<e", value), "little")
    return int.from_bytes(struct.pack("<f", value), "little") >> 16


def is_real(value: object) -> bool:
    """Whether a host value is a real number: Python's, NumPy's, a `bfloat16`, or a bool."""
    return isinstance(value, int | float | np.integer | np.floating | np.bool_ | ml_dtypes.bfloat16)


def can_convert_implicitly(source: DType, target: DType) -> bool:
    """Whether every value of `source` is a value of `target`: the only conversions that happen unasked."""
    if source is target:
        return True
    if source.is_bool or target.is_bool:
        return False
    if target.is_float:
        width = source.mantissa_bits if source.is_float else source.bits - (source.kind == "signed")
        return width <= target.mantissa_bits and (source.is_integer or source.bits < target.bits)
    return source.is_integer and target.minimum <= source.minimum and source.maximum <= target.maximum


def promote(a: DType, b: DType) -> DType | None:
    """The smallest type that holds every value of both, or None if there is none."""
    if a is b:
        return a
    fitting = [t for t in DTYPES.values() if can_convert_implicitly(a, t) and can_convert_implicitly(b, t)]
    if a.is_float != b.is_float:  # a float with an integer keeps its width: an f32 kernel never widens to f64 by itself
        fitting = [t for t in fitting if t is a or t is b]
    return min(fitting, key=lambda t: (t.bits, t.is_float, not t.is_signed)) if fitting else None
