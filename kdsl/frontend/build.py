"""`build`: a parsed kernel, its declaration, types for its type variables and values for its constants → the typed IR.

A pass over the kernel may learn better types for names that start as literals (`kdsl.frontend.decisions`); then it is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from kdsl.frontend import cleanup, clusters, convergence, grid
from kdsl.frontend.context import Context, grid_rank
from kdsl.frontend.decisions import Decisions
from kdsl.frontend.errors import KernelError
from kdsl.frontend.memory import settle_witnesses
from kdsl.frontend.multiples import contract_multiples
from kdsl.frontend.proofs import contract_lengths
from kdsl.frontend.source import Source
from kdsl.frontend.statements import run_body
from kdsl.frontend.values import Literal, MapRef, Record, Value, ViewRef
from kdsl.frontend.variables import assign
from kdsl.ir import checked as checks
from kdsl.ir import nodes
from kdsl.lang.declaration import Declaration, Parameter, StructType
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
    checked: bool = False,
) -> nodes.Kernel:
    """The IR of a kernel for one choice of types and constants. `checked` builds check also accesses through `.unchecked`, and those that are proved.

    Raises KernelError if the kernel breaks a rule of the language.
    """
    decisions = Decisions()
    while True:
        decisions.changed = decisions.adapted = False
        decisions.passes += 1
        if decisions.passes > _MOST_PASSES:
            raise AssertionError(f"the types of {source.name} do not settle")
        ctx = Context(source, declaration, types, decisions, checked=checked)
        try:
            _run(ctx, types, constants)
        except RecursionError:
            raise KernelError("this is nested too deeply to be compiled", ctx.location, "split it into several statements") from None
        except KernelError:
            if decisions.changed:  # with what has been learned the error may disappear
                continue
            if ctx.weak_names and decisions.adapted:
                decisions.settle(ctx.weak_names)  # or become one that says what the types really are
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
    ctx.contract = replace(contract_lengths(requires), multiples=contract_multiples(requires))
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
            described = nodes.TensorMap(name, numbers, of.kind, rank=of.rank)
            ctx.parameters.append(described)
            return MapRef(described)
        vector = element if isinstance(element, VectorType) else None
        view = nodes.View(name, numbers, of.kind, rank=of.rank, strided=of.strided, vector=vector)
        ctx.parameters.append(view)
        return ViewRef(view, vector=view.vector)
    if isinstance(of, StructType):
        return Record(of.name, {field.name: _scalar(ctx, f"{name}.{field.name}", field.type) for field in of.fields}, of)
    return _scalar(ctx, name, types[of] if isinstance(of, TypeVar) else of)


def _scalar(ctx: Context, name: str, of: DType) -> Value:
    scalar = nodes.ScalarParameter(name, of)
    ctx.parameters.append(scalar)
    return ctx.parameter(scalar)


def _finish(ctx: Context) -> nodes.Kernel:
    settle_witnesses(ctx)
    body = nodes.Block([*ctx.prologue.ops, *ctx.body.ops])
    variables = cleanup.clean(body, ctx.variables)
    kernel = nodes.Kernel(
        name=ctx.declaration.name,
        parameters=ctx.parameters,
        arrays=ctx.arrays,
        variables=variables,
        block_dim=ctx.block_dim,
        sites=list(ctx.sites),
        body=body,
        location=ctx.frames[0].source.definition(),
        grid_rank=grid_rank(ctx.declaration.geometry),
        shared_views=ctx.shared_views,
        attributes=ctx.declaration.attributes,
        spills=ctx.declaration.spills or ctx.checked,  # checks need registers, too
    )
    convergence.check(kernel)
    clusters.check(kernel)
    grid.check(kernel)
    if ctx.checked:
        checks.check(kernel)
    return kernel
