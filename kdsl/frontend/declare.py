"""What a kernel declares, read from its signature and the arguments of `@kernel`: parameters, geometry, block, contract.

Sizes and relations stay text here; the launcher's own language (`kdsl.launch.contract`) gives them their meaning.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar

from kdsl.frontend.annotations import evaluated_annotations
from kdsl.frontend.attributes import attributes
from kdsl.frontend.captures import is_number
from kdsl.frontend.errors import KernelError
from kdsl.frontend.source import Source, parse
from kdsl.ir.nodes import Location
from kdsl.lang.declaration import Declaration, Parameter, ParameterType, StructType
from kdsl.lang.geometry import DEFAULT_BLOCK, Elements, Geometry, Grid, Rows, Sweep, Tiles
from kdsl.lang.numbers import host_number
from kdsl.lang.types import BOOL, DType
from kdsl.lang.vectors import VectorType
from kdsl.lang.views import ConstAnnotation, ViewAnnotation

_MOST_THREADS: Final = 1024
_MOST_ALONG: Final = (1024, 1024, 64)
"""Limits of a block, the same for every compute capability (CUDA programming guide, technical specifications)."""


_MOST_RESIDENT: Final = 32
"""Blocks that a multiprocessor holds at most (same place)."""
_MOST_BLOCKS: Final = 2**31 - 1
"""Blocks along x (same place); the grid is one-dimensional."""


def declare(
    function: Source | Callable[..., Any],
    grid: Any,
    block: Any = None,
    requires: Any = (),
    contract: bool = True,
    spills: bool = True,
    resident: Any = 1,
    **more: Any,
) -> Declaration:
    """The declaration of a kernel; `more` are the arguments of `attributes`.

    Raises KernelError for a signature, geometry, contract or attribute that makes no sense.
    """
    source = function if isinstance(function, Source) else parse(function)
    parameters = _parameters(source)
    geometry = _geometry(source, grid, {p.name: p for p in parameters})
    variables: dict[TypeVar, None] = {}
    for parameter in parameters:
        of = parameter.type.element if isinstance(parameter.type, ViewAnnotation) else parameter.type
        if isinstance(of, TypeVar):
            variables[of] = None
    return Declaration(
        name=source.name,
        module=source.function.__module__ or "__main__",  # code that is run in a bare namespace has none
        doc=inspect.cleandoc(source.function.__doc__ or ""),
        parameters=parameters,
        geometry=geometry,
        block_dim=_block(source, block, geometry),
        requires=_requires(source, requires),
        contract_fma=bool(contract),
        type_variables=tuple(variables),
        attributes=attributes(source, geometry, **more),
        spills=bool(spills),
        resident=_resident(source, resident),
    )


def _resident(source: Source, count: Any) -> int:
    if not _is_whole(count) or not 1 <= count <= _MOST_RESIDENT:
        hint = "resident= is the number of blocks that shall fit on a multiprocessor at a time"
        raise KernelError(f"resident={count!r}: expected an integer from 1 to {_MOST_RESIDENT}", source.definition(), hint)
    return int(count)


def _parameters(source: Source) -> tuple[Parameter, ...]:
    annotations = evaluated_annotations(source)
    if annotations.get("return") is not None:
        raise KernelError("a kernel returns nothing", source.definition(), "annotate it `-> None`, and write results to an array")
    arguments = source.tree.args
    places = {a.arg: source.locate(a) for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    found: list[Parameter] = []
    for name, parameter in inspect.signature(source.function).parameters.items():
        place = places[name]
        if name not in annotations:
            hint = f"annotate it, such as `{name}: Slice[f32]` or `{name}: f32`"
            if name in ("self", "cls") and not found:
                hint = f"a kernel is no method: leave `{name}` out, also if it stands in a class"
            raise KernelError(f"parameter `{name}` has no type", place, hint)
        of, python_class = _parameter_type(name, annotations[name], place)
        default = _default(name, parameter.default, of, place)
        found.append(Parameter(name, of, parameter.kind is inspect.Parameter.KEYWORD_ONLY, python_class, default))
    return tuple(found)


def _parameter_type(name: str, annotation: Any, place: Location) -> tuple[ParameterType, type | None]:
    if annotation is bool:
        return BOOL, None
    if isinstance(annotation, ViewAnnotation) and annotation.kind == "DisjointSlice" and annotation.rank > 1:
        hint = f"use {dataclasses.replace(annotation, kind='SliceMut')}, or a DisjointSlice of one dimension"
        raise KernelError(
            f"`{name}` is {annotation}: no witness says that an element of several dimensions is the thread's own", place, hint
        )
    if isinstance(annotation, VectorType):
        hint = f"pass its numbers one by one, or in an array: Slice[{annotation}]"
        raise KernelError(f"`{name}` is {annotation}, and a kernel takes vectors in arrays only", place, hint)
    constraints = _constraints(annotation)
    if any(isinstance(constraint, VectorType) for constraint in constraints):
        hint = "declare the vectors, as in Slice[f32x4], or read them through as_vectors(); a @function may take any type"
        raise KernelError(
            f"`{name}`: a type variable of a kernel stands for numbers, because an array does not say that it holds vectors", place, hint
        )
    if isinstance(annotation, DType | ViewAnnotation | ConstAnnotation | TypeVar):
        return annotation, None
    struct = getattr(annotation, "__kdsl_struct__", None)
    if isinstance(struct, StructType):
        return struct, annotation
    hint = f"use a view (`Slice[f32]`), a number (`f32`), a @struct, `Const[int]`, or a TypeVar for `{name}`"
    if annotation in (int, float):
        hint = "say how wide it is: " + ("i32 or i64" if annotation is int else "f32 or f64")
    written = annotation.__name__ if isinstance(annotation, type) else repr(annotation)
    if getattr(annotation, "__name__", "") in ("Slice", "SliceMut", "DisjointSlice", "TensorMap"):
        hint = f"say of what: {written}[f32]"
    raise KernelError(f"a kernel cannot take a {written}", place, hint)


def _constraints(annotation: Any) -> tuple[Any, ...]:
    """What a type variable in an annotation may be."""
    variable = annotation.element if isinstance(annotation, ViewAnnotation) else annotation
    return variable.__constraints__ if isinstance(variable, TypeVar) else ()


def _default(name: str, default: Any, of: ParameterType, place: Location) -> object:
    if default is inspect.Parameter.empty:
        return None
    if isinstance(of, ViewAnnotation | StructType):
        raise KernelError(f"`{name}` cannot have a default", place, "numbers can; arrays and structs are given at each launch")
    if not is_number(default):
        raise KernelError(f"the default of `{name}` is no number", place, "give it a number, or none")
    if isinstance(of, DType):
        try:
            host_number(of, default)
        except (TypeError, OverflowError) as error:
            raise KernelError(
                f"the default of `{name}` does not fit its type: {error}", place, f"give it a number that {of} holds"
            ) from None
    return default


def _block(source: Source, block: Any, geometry: Geometry) -> tuple[int, int, int]:
    place = source.definition()
    if block is None:
        if isinstance(geometry, Tiles) and geometry.tile[0] * geometry.tile[1] <= _MOST_THREADS:
            block = (geometry.tile[1], geometry.tile[0])
        else:
            block = DEFAULT_BLOCK
    extents = tuple(block) if isinstance(block, tuple | list) else (block,)
    if not 1 <= len(extents) <= 3 or not all(_is_whole(extent) for extent in extents):
        raise KernelError(
            f"block={block!r} is no size of a block", place, "write block=256, or block=(x, y) or (x, y, z), in whole numbers"
        )
    x, y, z = (*(int(extent) for extent in extents), 1, 1)[:3]
    for axis, extent, most in zip("xyz", (x, y, z), _MOST_ALONG, strict=True):
        if not 1 <= extent <= most:
            raise KernelError(f"block={block!r}: {extent} threads along {axis}", place, f"a block has 1 to {most} threads along {axis}")
    if x * y * z > _MOST_THREADS:
        raise KernelError(f"block={block!r} has {x * y * z} threads", place, f"a block has at most {_MOST_THREADS}")
    return x, y, z


def _is_whole(value: Any) -> bool:
    return is_number(value) and not isinstance(value, bool) and value == int(value) and not isinstance(value, float)


def _geometry(source: Source, grid: Any, parameters: dict[str, Parameter]) -> Geometry:
    place = source.definition()
    if isinstance(grid, Elements):
        named = parameters.get(grid.view)
        if named is None or not isinstance(named.type, ViewAnnotation):
            views = ", ".join(name for name, p in parameters.items() if isinstance(p.type, ViewAnnotation)) or "none"
            raise KernelError(
                f"grid=elements({grid.view!r}): there is no array parameter `{grid.view}`", place, f"its array parameters are: {views}"
            )
        if named.type.rank > 1:
            raise KernelError(
                f"grid=elements({grid.view!r}): `{grid.view}` is {named.type}, and a thread per element is for one dimension",
                place,
                f'use tiles(rows="{grid.view}.shape[0]", columns="{grid.view}.shape[1]", tile=(16, 16)), rows(...) or sweep(...)',
            )
        return grid
    if isinstance(grid, Rows | Sweep | Tiles):
        fixed: tuple[Any, ...] = ()
        sizes: tuple[Any, ...] = ()
        if isinstance(grid, Sweep):
            fixed = (grid.blocks,)
        elif isinstance(grid, Rows):
            sizes = (grid.rows,)
        else:
            if not isinstance(grid.tile, tuple | list) or len(grid.tile) != 2:
                raise KernelError(f"grid={grid!r}: {grid.tile!r} is no tile", place, "write tile=(rows, columns)")
            fixed, sizes = tuple(grid.tile), (grid.rows, grid.columns, grid.batch)
        for number in fixed:
            if not _is_whole(number) or not 1 <= number <= _MOST_BLOCKS:
                raise KernelError(
                    f"grid={grid!r}: {number!r} is no positive whole number",
                    place,
                    f"sizes of tiles and numbers of blocks are fixed, at least 1 and at most {_MOST_BLOCKS}",
                )
        for size in sizes:
            if not isinstance(size, str) and (not _is_whole(size) or size < 0):
                raise KernelError(f"grid={grid!r}: {size!r} is no size", place, "write a whole number, or an expression in quotes")
        return grid
    if isinstance(grid, Grid):
        return grid
    extents = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
    if 1 <= len(extents) <= 3 and all(isinstance(e, str) or (_is_whole(e) and e >= 0) for e in extents):
        return Grid(*(e if isinstance(e, str) else int(e) for e in extents))
    raise KernelError(
        f"grid={grid!r} says nothing about the blocks", place,
        'use elements("y"), rows("p.rows"), tiles(…), sweep(blocks=…), or numbers of blocks such as grid=(x, y), which may be expressions in quotes',
    )  # fmt: skip


def _requires(source: Source, requires: Any) -> tuple[str, ...]:
    relations = (requires,) if isinstance(requires, str) else tuple(requires) if isinstance(requires, tuple | list) else None
    if relations is None or not all(isinstance(relation, str) and relation.strip() for relation in relations):
        raise KernelError(f"requires={requires!r} is no list of relations", source.definition(), 'write requires=("len(x) >= len(y)",)')
    return relations
