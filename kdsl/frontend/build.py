"""`build`: a parsed kernel, its declaration, types for its type variables and values for its constants → the typed IR.

A pass over the kernel may learn better types for names that start as literals (`kdsl.frontend.decisions`); then it is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from kdsl.frontend import cleanup, clusters, convergence, grid, tables
from kdsl.frontend.context import Checks, Context, grid_rank
from kdsl.frontend.decisions import Decisions
from kdsl.frontend.errors import KernelError
from kdsl.frontend.multiples import contract_multiples
from kdsl.frontend.proofs import contract_lengths
from kdsl.frontend.relations import contract_relations
from kdsl.frontend.source import Source
from kdsl.frontend.statements import run_body
from kdsl.frontend.values import ArrayRef, Literal, MapRef, Record, Value, ViewRef
from kdsl.frontend.variables import assign
from kdsl.frontend.witnesses import settle_witnesses
from kdsl.ir import checked, nodes
from kdsl.lang.declaration import Declaration, Parameter
from kdsl.lang.struct_type import ArrayType, StructType
from kdsl.lang.types import DType
from kdsl.lang.vectors import VectorType
from kdsl.lang.views import ConstAnnotation, ViewAnnotation

_MOST_PASSES: Final = 1000
"""Far more than the types of any function could need; guards against a mistake of the compiler."""


def build(
    source: Source,
    declaration: Declaration,
    types: Mapping[TypeVar, DType],
    constants: Mapping[str, Any],
    *,
    checks: Checks = "needed",
    instrumented: bool = False,
) -> nodes.Kernel:
    """The IR of a kernel for one choice of types and constants. `checks` says which accesses are checked; where all are, what is no access is asserted, too
    (`kdsl.ir.checked`). `instrumented` builds only assert: the sanitizer looks at accesses by itself.

    Raises KernelError if the kernel breaks a rule of the language.
    """
    decisions = Decisions()
    while True:
        decisions.changed = decisions.adapted = False
        decisions.passes += 1
        if decisions.passes > _MOST_PASSES:
            raise AssertionError(f"the types of {source.name} do not settle")
        ctx = Context(source, declaration, types, decisions, checks=checks, asserts=checks == "all" or instrumented)
        try:
            _run(ctx, types, constants)
        except RecursionError:
            raise KernelError("this is nested too deeply to be compiled", ctx.location, "split it into several statements") from None
        except KernelError:
            if decisions.changed:  # with what has been learned the error may disappear
                continue
            if ctx.weak_names:
                decisions.settle(
                    ctx.weak_names
                )  # with the types that these names have alone, too, or become one that says what the types really are
                continue
            raise
        if decisions.changed:
            continue
        if decisions.adapted and ctx.weak_names:
            decisions.settle(ctx.weak_names)
            continue
        return _finish(ctx)


def _run(ctx: Context, types: Mapping[TypeVar, DType], constants: Mapping[str, Any]) -> None:
    source = ctx.frame.source
    requires = ctx.declaration.requires
    ctx.contract = replace(contract_lengths(requires), multiples=contract_multiples(requires), relations=contract_relations(requires))
    for parameter in ctx.declaration.parameters:
        place = source.names.places[parameter.name][0]
        with ctx.at(place):
            assign(ctx, parameter.name, _parameter(ctx, parameter, constants, types), place, place)
    run_body(ctx, source.body)


def _parameter(ctx: Context, parameter: Parameter, constants: Mapping[str, Any], types: Mapping[TypeVar, DType]) -> Value:
    of, name = parameter.type, parameter.name
    if isinstance(of, ConstAnnotation):
        return Literal(of.python_type(constants[name]))
    if isinstance(of, ViewAnnotation):
        element = types[of.element] if isinstance(of.element, TypeVar) else of.element
        numbers = element.element if isinstance(element, VectorType) else element
        if of.kind == "TensorMap":
            if isinstance(element, StructType):
                hint = "copy the elements by hand, or keep their numbers in arrays of their own"
                raise ctx.error(
                    f"`{name}` is a TensorMap, which is of numbers, and {of.element} is the struct {element}", ctx.location, hint
                )
            described = nodes.TensorMap(name, numbers, of.kind, rank=of.rank)
            ctx.parameters.append(described)
            return MapRef(described)
        vector = element if isinstance(element, VectorType) else None
        view = nodes.View(name, numbers, of.kind, rank=of.rank, strided=of.strided, vector=vector)
        ctx.parameters.append(view)
        return ViewRef(view, vector=view.vector)
    if isinstance(of, StructType):
        return _struct(ctx, nodes.StructParameter(name, of), of, name, 0)
    scalar = types[of] if isinstance(of, TypeVar) else of
    if isinstance(scalar, StructType):
        raise ctx.error(
            f"`{name}` is a number of type {parameter.type}, and {parameter.type} is the struct {scalar} here",
            ctx.location, "annotate the parameter with the struct itself; a type variable of arrays can be a struct",
        )  # fmt: skip
    return _number(ctx, nodes.ScalarParameter(name, scalar))


def _struct(ctx: Context, owner: nodes.StructParameter, of: StructType, name: str, offset: int) -> Record:
    """A struct parameter, or a struct in one, which is flattened to its numbers and arrays."""
    fields: dict[str, Value] = {}
    for field in of.fields:
        full, member = f"{name}.{field.name}", nodes.Member(owner, offset + field.offset)
        if isinstance(field.type, StructType):
            fields[field.name] = _struct(ctx, owner, field.type, full, member.offset)
        elif isinstance(field.type, ArrayType):
            array = nodes.Array(full, field.type.element, field.type.shape, "parameter", member=member)
            ctx.parameters.append(array)
            fields[field.name] = ArrayRef(array, member=True)
        else:
            fields[field.name] = _number(ctx, nodes.ScalarParameter(full, field.type, member))
    return Record(of.name, fields, of)


def _number(ctx: Context, scalar: nodes.ScalarParameter) -> Value:
    ctx.parameters.append(scalar)
    return ctx.parameter(scalar)


def _finish(ctx: Context) -> nodes.Kernel:
    settle_witnesses(ctx)
    body = nodes.Block([*ctx.prologue.ops, *ctx.body.ops])
    variables = cleanup.clean(body, ctx.variables)
    kernel = nodes.Kernel(
        name=ctx.declaration.name,
        parameters=ctx.parameters,
        arrays=tables.used(ctx.arrays, body),
        variables=variables,
        block_dim=ctx.block_dim,
        sites=list(ctx.sites),
        body=body,
        location=ctx.frames[0].source.definition(),
        grid_rank=grid_rank(ctx.declaration.geometry),
        shared_views=ctx.shared_views,
        attributes=ctx.declaration.attributes,
        spills=ctx.declaration.spills or ctx.checked,  # checks need registers, too
        resident=ctx.declaration.resident,
    )
    convergence.check(kernel)
    clusters.check(kernel)
    grid.check(kernel)
    if ctx.asserts:
        checked.check(kernel)
    return kernel
