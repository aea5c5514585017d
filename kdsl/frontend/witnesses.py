"""Witnesses: the indices that are unique to their thread, through which the elements of a `DisjointSlice` are accessed."""

from __future__ import annotations

import ast
from typing import Final

from kdsl.frontend.context import Context
from kdsl.frontend.proofs import holds
from kdsl.frontend.values import ViewRef
from kdsl.ir import nodes
from kdsl.lang.views import view_text

WITNESSES: Final = {"thread_index": (), "block_index": ("first_thread",), "row_index": ("first_thread", "first_lane")}
"""For each witness, what must be known of the thread for it to be unique (one of them)."""
_GUARDS: Final = {"block_index": "if is_first_thread():", "row_index": "if is_first_lane():"}


def mutable(view: nodes.View) -> str:
    """The annotation with which a view of the same rank may be written anywhere."""
    return view_text("SliceMut", view.element.name, view.rank, view.strided)


def unique_witness(ctx: Context, place: nodes.ValueOp) -> str | None:
    """The witness that an index is, if it is unique to the thread here."""
    kind = ctx.witnesses.get(place)
    if kind is None:
        return None
    needs = WITNESSES[kind]
    return kind if not needs or holds(ctx, *needs) else None


def note_access(ctx: Context, base: ViewRef, places: tuple[nodes.ValueOp, ...], node: ast.Subscript, *, writes: bool) -> None:
    """Note through which witness a view is accessed; a DisjointSlice demands one, and always the same."""
    view = base.view
    place = places[0]
    witness = unique_witness(ctx, place) if view.rank == 1 else None  # a witness is unique along one dimension only
    if witness is not None and base.vector is not None:
        witness += f" as {base.vector}"  # the same index names other memory than without
    seen = ctx.accesses.setdefault(view, [])
    if view.kind == "DisjointSlice":
        if witness is None:
            raise _no_witness(ctx, view, place, node, writes=writes)
        for other, where in seen:
            if other != witness:
                raise ctx.error(
                    f"`{view.name}` is accessed through {_written(witness)} here and through {_written(other)} elsewhere: two threads could meet",
                    node, f"use one kind of witness for it, or declare it as {mutable(view)}", [(f"through {_written(other)} here", where)],
                )  # fmt: skip
    seen.append((witness, ctx.locate(node)))


def _written(witness: str | None) -> str:
    """A witness as a call, such as `thread_index() as f32x4`."""
    kind, _, rest = str(witness).partition(" ")
    return f"{kind}() {rest}".strip()


def _no_witness(ctx: Context, view: nodes.View, place: nodes.ValueOp, node: ast.Subscript, *, writes: bool) -> Exception:
    kind = ctx.witnesses.get(place)
    verb = "written" if writes else "read"
    if kind is not None:
        return ctx.error(
            f"{kind}() alone is not unique to the thread: every thread of the {'block' if kind == 'block_index' else 'warp'} has the same",
            node, f"access `{view.name}` under `{_GUARDS[kind]}`, or declare it as {mutable(view)}",
        )  # fmt: skip
    return ctx.error(
        f"`{view.name}` is a DisjointSlice: it is {verb} only at the thread's own element, and `{ctx.text(node.slice)}` is not a witness of that",
        node,
        f"index it with the value of thread_index() itself, not changed or assigned again, or declare it as {mutable(view)} to access any element",
    )


def settle_witnesses(ctx: Context) -> None:
    """After the whole kernel: the witness of each view through which every access goes."""
    for view, seen in ctx.accesses.items():
        kinds = {witness for witness, _ in seen}
        view.witness = kinds.pop() if len(kinds) == 1 else None
