"""Shared arrays of other blocks: `remote`, and the barriers of the cluster between which they may be touched.

A block's shared memory is there from when it begins until it ends, which other blocks know only after a barrier of the cluster. So one has to come before the
first access of another block's array, and one behind the last.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, TypeAlias

from kdsl.frontend.context import Context
from kdsl.frontend.errors import KernelError
from kdsl.frontend.values import Literal, Value
from kdsl.ir import nodes
from kdsl.lang.intrinsics.clusters import ASYNCHRONOUS

_BARRIER: Final = "sync_cluster"
_Path: TypeAlias = tuple[tuple[nodes.Op, int], ...]


def cluster_rank(ctx: Context, node: ast.AST) -> Value:
    """`cluster_rank()`."""
    require(ctx, "cluster_rank", node)
    return ctx.special("cluster_rank")


def cluster_size(ctx: Context, node: ast.AST) -> Value:
    """`cluster_size()`."""
    require(ctx, "cluster_size", node)
    return Literal(ctx.declaration.attributes.cluster_size)


def require(ctx: Context, name: str, node: ast.AST) -> None:
    """An error unless the kernel has clusters."""
    if ctx.declaration.attributes.cluster is None:
        raise ctx.error(f"{name}() needs a kernel with clusters", node, "declare the kernel with @kernel(…, cluster=2)")


def check(kernel: nodes.Kernel) -> None:
    """Raise KernelError at an access of another block's array that no barrier of the cluster precedes, or none follows, on every way."""
    walk = list(_paths(kernel.body, ()))
    barriers = [(n, path) for n, (op, path) in enumerate(walk) if isinstance(op, nodes.Instruction) and op.name == _BARRIER]
    for number, (op, path) in enumerate(walk):
        array = _array_of_another(op)
        if array is None:
            continue
        around = [n for n, at in barriers if path[: len(at)] == at]
        if not any(n < number for n in around):
            raise KernelError(
                f"`{array.name}` of another block is touched, and no {_BARRIER}() comes before on every way: that block may not have begun",
                op.location,
                f"call {_BARRIER}() before, where all threads come by",
            )
        if not any(n > number for n in around):
            raise KernelError(
                f"`{array.name}` of another block is touched, and no {_BARRIER}() follows on every way: that block may have ended by then",
                op.location,
                f"call {_BARRIER}() after the last access: a block that has ended takes its shared memory with it",
            )


def _array_of_another(op: nodes.Op) -> nodes.Memory | None:
    """The array of another block that an operation touches."""
    if isinstance(op, nodes.Instruction) and op.name in ASYNCHRONOUS:
        return op.elements[-1].memory
    return next((place.memory for place in nodes.touched(op) if place.remote is not None), None)


def _paths(block: nodes.Block, path: _Path) -> Iterator[tuple[nodes.Op, _Path]]:
    """Every operation in order, with the branches and loops around it."""
    for op in block:
        yield op, path
        for number, child in enumerate(nodes.children(op)):
            # a scope is always run
            yield from _paths(child, path if isinstance(op, nodes.Scope) else (*path, (op, number)))
