"""Products of small matrices: which forms there are, what their operands are, and what `ldmatrix` and `stmatrix` may touch."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from kdsl.frontend import memory
from kdsl.frontend.context import Context
from kdsl.frontend.conversions import coerce, scalar, type_of
from kdsl.frontend.guards import Guard, is_shared, memory_of
from kdsl.frontend.instructions.copies import subscript
from kdsl.frontend.instructions.emit import emit
from kdsl.frontend.values import ArrayRef, Group, Literal, Nothing, Text, Value, ViewRef, as_type, describe, known_number
from kdsl.ir import nodes
from kdsl.ir.instruction import Option
from kdsl.lang.intrinsics import Intrinsic
from kdsl.lang.intrinsics.fragments import FORMS, Form
from kdsl.lang.types import BF16, F16, F32, F64, I8, I64, U8, U16, U32, DType

_ROW_BYTES: Final = 16
_COUNTS: Final = (1, 2, 4)
_TYPES: Final[dict[DType, str]] = {F16: "f16", BF16: "bf16", F64: "f64", I8: "s8", U8: "u8"}
_NAMED: Final = ("tf32", "e4m3", "e5m2")
"""PTX types that are no element types of the language."""


# ------------------------------------------------------------------------------------------------------------- matrices in shared memory


def _ldmatrix(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    array = _array(ctx, row, given["array"], places["array"])
    count = _count(ctx, row, given["count"], places["count"])
    transpose = _transpose(ctx, row, given["transpose"], memory_of(array), places["transpose"])
    element, guard = _rows(ctx, row, array, given, places, count, "load", node)
    variables = tuple(ctx.new_variable(f"{row.name}.{i}", U32) for i in range(count)) if guard.conditions else ()
    results = guard.do_by_warp(
        lambda: emit(ctx, row, elements=(element,), options={"count": count, "transpose": transpose}, results=(U32,) * count), variables
    )
    return Group(results)


def _stmatrix(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    array = _array(ctx, row, given["array"], places["array"])
    if array.read_only:
        raise ctx.error(
            f"{row.name}() to `{memory_of(array).name}`, which came here as a Slice and is only read",
            places["array"],
            f"annotate it as SliceMut[{memory_of(array).type}]",
        )
    transpose = _transpose(ctx, row, given["transpose"], memory_of(array), places["transpose"])
    what = f"`registers` of {row.name}()"
    registers = _items(ctx, given["registers"], what, places["registers"])
    if len(registers) not in _COUNTS:
        raise ctx.error(
            f"{what} are 1, 2 or 4 in a tuple, one per matrix; these are {len(registers)}", places["registers"], "store others apart"
        )
    values = tuple(coerce(ctx, item, U32, places["registers"], f"one of the registers of {row.name}()") for item in registers)
    element, guard = _rows(ctx, row, array, given, places, len(values), "store", node)
    guard.do_by_warp(lambda: emit(ctx, row, arguments=values, elements=(element,), options={"count": len(values), "transpose": transpose}))
    return Nothing()


def _array(ctx: Context, row: Intrinsic, value: Value, place: ast.AST) -> ArrayRef | ViewRef:
    if not is_shared(value):
        raise ctx.error(f"{row.name}() is on a shared array, not on {describe(value)}", place, f"its form is {row.name}{row.signature}")
    of = memory_of(value).type
    if of.itemsize > 4 or of.is_bool:
        raise ctx.error(
            f"{row.name}() moves 4 bytes per lane and row, which hold no {of}",
            place,
            "take an array of elements of 1, 2 or 4 bytes, or load them one by one",
        )
    return value


def _count(ctx: Context, row: Intrinsic, value: Value, place: ast.AST) -> int:
    count = known_number(value)
    if isinstance(count, int) and not isinstance(count, bool) and count in _COUNTS:
        return count
    what = describe(value) if count is None else str(count)
    raise ctx.error(
        f"the count of {row.name}() is 1, 2 or 4, known to the compiler; this is {what}", place, "load other numbers of matrices apart"
    )


def _transpose(ctx: Context, row: Intrinsic, value: Value, array: nodes.Memory, place: ast.AST) -> bool:
    transpose = _flag(ctx, row, "transpose", value, place)
    if transpose and array.type.itemsize != 2:
        raise ctx.error(
            f"{row.name}() transposes elements of 16 bits only, and `{array.name}` has {array.type}",
            place,
            "keep the array transposed, or move its elements one by one",
        )
    return transpose


def _flag(ctx: Context, row: Intrinsic, name: str, value: Value, place: ast.AST) -> bool:
    flag = known_number(value)
    if not isinstance(flag, bool):
        raise ctx.error(
            f"`{name}` of {row.name}() is True or False, known to the compiler, not {describe(value)}", place, f"write {name}=True"
        )
    return flag


def _rows(
    ctx: Context,
    row: Intrinsic,
    array: ArrayRef | ViewRef,
    given: Mapping[str, Value],
    places: Mapping[str, ast.AST],
    count: int,
    kind: Any,
    node: ast.Call,
) -> tuple[nodes.Element, Guard]:
    """The row that a lane names, and what must hold for it; a lane beyond those that name one may say anything."""
    indices = memory.shared_array_place(ctx, array, given["index"], subscript(places["array"], places["index"], node))[0]
    guard = Guard(ctx, row.name, kind)
    lanes = 8 * count
    idle = None if lanes == nodes.WARP_SIZE else ctx.compare("ge", ctx.special("lane_index"), ctx.constant(I64, lanes))
    guard.inside(array, indices, _ROW_BYTES // memory_of(array).type.itemsize, places["index"], idle=idle)
    guard.aligned(array, indices, _ROW_BYTES, places["index"], idle=idle)
    return nodes.Element(memory_of(array), indices), guard


# ---------------------------------------------------------------------------------------------------------------------------- products


def _mma(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    a_type, b_type = operand_types(ctx, row, given["type"], places["type"])
    a, b, c = (_items(ctx, given[name], f"`{name}` of {row.name}()", places[name]) for name in ("a", "b", "c"))
    form = _form(ctx, row, given["shape"], a_type, b_type, c, places)
    saturate = _flag(ctx, row, "saturate", given["saturate"], places["saturate"])
    if saturate and form.c != "s32":
        raise ctx.error(f"{row.name}() saturates sums of integers only, not of {form.c}", places["saturate"], "leave `saturate` out")
    arguments: list[nodes.ValueOp] = []
    for name, items, count in zip("abc", (a, b, c), form.registers, strict=True):
        of = form.accumulator if name == "c" else form.operand
        what = f"`{name}` of {row.name}() {form.shape} of {a_type}"
        if len(items) != count:
            some = f"{count} registers ({of})" if count > 1 else f"1 register ({of}), in a tuple"
            raise ctx.error(f"{what} is {some} per lane; this is {len(items)}", places[name], 'see "Fragments" in docs/tensor-cores.md')
        arguments += [_register(ctx, item, of, form.a == "tf32" and name != "c", places[name], f"a register of {what}") for item in items]
    options: dict[str, Option] = {"shape": form.shape, "a": form.a, "b": form.b, "c": form.c, "saturate": saturate}
    results = (form.accumulator,) * form.registers[2]
    return Group(emit(ctx, row, arguments=tuple(arguments), options=options, results=results, variant=form.variant))


def _register(ctx: Context, item: Value, of: DType, floats: bool, place: ast.AST, what: str) -> nodes.ValueOp:
    """One register. That of a tf32 may be given as the f32 that it is."""
    if floats and not (isinstance(item, Literal) and isinstance(item.value, int)):
        number = scalar(ctx, item, place, what)
        if type_of(number).is_float:
            return ctx.bitcast(U32, coerce(ctx, number, F32, place, what))
    return coerce(ctx, item, of, place, what)


def _items(ctx: Context, value: Value, what: str, place: ast.AST) -> tuple[Value, ...]:
    if not isinstance(value, Group):
        raise ctx.error(
            f"{what} is a tuple of registers, not {describe(value)}",
            place,
            "such as the result of ldmatrix(), or part of a local_array: a[0:4]",
        )
    return value.items


def operand_types(ctx: Context, row: Intrinsic, value: Value, place: ast.AST) -> tuple[str, str]:
    """The PTX types of A and B, from the argument `type`."""
    names = []
    for item in value.items if isinstance(value, Group) and len(value.items) == 2 else (value, value):
        of = as_type(item)
        if isinstance(of, DType) and of in _TYPES:
            names.append(_TYPES[of])
        elif isinstance(of, Text) and of.value in _NAMED:
            names.append(of.value)
        else:
            known = ", ".join([*(t.name for t in _TYPES), *(f'"{name}"' for name in _NAMED)])
            hint = 'f32 numbers are multiplied as "tf32"' if of is F32 else "a pair says that those of A and B differ, as in (u8, i8)"
            raise ctx.error(f"the type of {row.name}() is one of {known}; this is {describe(of)}", place, hint)
    return names[0], names[1]


def _form(
    ctx: Context, row: Intrinsic, value: Value, a_type: str, b_type: str, c: tuple[Value, ...], places: Mapping[str, ast.AST]
) -> Form:
    """The form for a shape and types; accumulators that are u32 are pairs of f16."""
    of_types = [form for form in FORMS if (form.a, form.b) == (a_type, b_type)]
    if not of_types:
        raise ctx.error(
            f"{row.name}() does not multiply {a_type} by {b_type}",
            places["type"],
            "both are of one type, or integers of 8 bits, or floats of 8",
        )
    shapes = list(dict.fromkeys(form.shape for form in of_types))
    if not isinstance(value, Text) or value.value not in shapes:
        named = ", ".join(f'"{shape}"' for shape in shapes)
        what = f'"{value.value}"' if isinstance(value, Text) else describe(value)
        raise ctx.error(
            f"the shape of {row.name}() of {a_type} is one of {named}; this is {what}", places["shape"], f'such as shape="{shapes[0]}"'
        )
    forms = [form for form in of_types if form.shape == value.value]
    packed = any(isinstance(item, nodes.ValueOp) and item.type is U32 for item in c)
    return next((form for form in forms if (form.accumulator is U32) == packed), forms[0])


# ------------------------------------------------------------------------------------------------------------------- packed numbers


def _pack(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    low, high = (coerce(ctx, given[name], F32, places[name], f"`{name}` of {row.name}()") for name in ("low", "high"))
    return emit(ctx, row, arguments=(low, high), results=(_packed(row),))[0]


def _unpack(ctx: Context, row: Intrinsic, given: Mapping[str, Value], places: Mapping[str, ast.AST], node: ast.Call) -> Value:
    bits = coerce(ctx, given["bits"], _packed(row), places["bits"], f"the argument of {row.name}()")
    return Group(emit(ctx, row, arguments=(bits,), results=(F32, F32)))


def _packed(row: Intrinsic) -> DType:
    """The type of the bits of two numbers."""
    return U32 if "u32" in row.signature else U16


HANDLERS: Final[dict[str, Any]] = {"ldmatrix": _ldmatrix, "stmatrix": _stmatrix, "mma": _mma, "pack": _pack, "unpack": _unpack}
