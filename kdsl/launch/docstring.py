"""The docstring of a launcher: every parameter, field and relation of its kernel in words."""

from __future__ import annotations

import math
from typing import Final

from kdsl.lang.declaration import Parameter
from kdsl.lang.struct_type import ArrayType, StructType
from kdsl.lang.vectors import VectorType
from kdsl.lang.views import ConstAnnotation, ViewAnnotation
from kdsl.launch.description import Description, annotation_of
from kdsl.launch.grid import GridPlan

LINE_LENGTH: Final = 140


def default_text(value: object) -> str:
    """A default as source."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


_VIEWS: Final = {
    "Slice": "Array that the kernel reads.",
    "DisjointSlice": "Array of which every element belongs to one thread.",
    "SliceMut": "Array that the kernel reads and writes anywhere.",
    "TensorMap": "Array on a GPU that the kernel copies in boxes, or a tensor map of one.",
}


def docstring(description: Description, grid: GridPlan) -> str:
    """The kernel's docstring, every parameter and field, the contract and the grid; indented, ready to stand between triple quotes."""
    declaration = description.declaration
    lines = [*(declaration.doc.splitlines() or [f"Launch the kernel {declaration.name}."]), "", "Parameters", "----------"]
    for parameter in declaration.parameters:
        lines += _documented(description, parameter)
    if declaration.requires:
        lines += ["", "Contract", "--------", *(f"`{text}`" for text in declaration.requires)]
    x, y, z = declaration.block_dim
    threads = f"{x} x {y} x {z}" if z > 1 else f"{x} x {y}" if y > 1 else str(x)
    lines += ["", "Grid", "----", f"{grid.description[0].upper()}{grid.description[1:]}; blocks of {threads} threads."]
    lines += ["", "Raises", "------", "LaunchError", "    An argument, the contract, overlap or the grid is wrong; nothing has run."]
    text = "\n".join(f"    {line}".rstrip() for line in lines).strip()
    return escaped(text)


def escaped(text: str) -> str:
    """Text that may stand between triple quotes, if a line follows it."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _documented(description: Description, parameter: Parameter) -> list[str]:
    annotation, comment = annotation_of(description, parameter)
    default = f", default {default_text(parameter.default)}" if parameter.default is not None else ""
    lines = [f"{parameter.name} : {comment or annotation}{default}"]
    if isinstance(parameter.type, ViewAnnotation):
        lines.append(f"    {_VIEWS[parameter.type.kind]}")
        if parameter.type.kind == "TensorMap":
            lines.append(
                f"    It has {parameter.type.rank} dimension{'s' if parameter.type.rank > 1 else ''}, the last of elements side by side."
            )
        elif parameter.type.has_strides:
            dimensions = f"{parameter.type.rank} dimensions" if parameter.type.rank > 1 else "one dimension"
            wide = isinstance(parameter.type.element, VectorType)
            lines.append(f"    It has {dimensions}, {'the last one without gaps' if wide else 'with any strides'}.")
        if isinstance(parameter.type.element, VectorType):
            of = parameter.type.element
            lines.append(f"    An array of {of.element}: rows of multiples of {of.lanes}, aligned to {of.itemsize} bytes.")
    if isinstance(parameter.type, ConstAnnotation):
        lines.append("    Compile-time constant: each value has its own compiled version.")
    if isinstance(parameter.type, StructType):
        lines += [f"    {line}".rstrip() for line in parameter.type.doc.splitlines()]
        lines.append("")
        lines += _documented_fields(parameter.type, "")
    return lines


def _documented_fields(struct: StructType, path: str) -> list[str]:
    """The fields of a struct, those of structs in it by their full names behind it."""
    lines: list[str] = []
    for declared in struct.fields:
        lines.append(f"    {path}{declared.name} : {declared.type}")
        lines += [f"        {line}".rstrip() for line in declared.doc.splitlines()]
        inner = declared.type.element if isinstance(declared.type, ArrayType) else declared.type
        if isinstance(inner, StructType):
            several = f"[{', '.join('.' * len(declared.type.shape))}]".replace(".", "…") if isinstance(declared.type, ArrayType) else ""
            lines += _documented_fields(inner, f"{path}{declared.name}{several}.")
    return lines
