"""The functions of instrumented code that enter a finding into the table: out of the way of all that is fast."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.cpu.sanitizer import layout
from kdsl.backend.cpu.sanitizer.code import POINTER, WORD, Code, word

NAME: Final = "sanitizer.report"
PARAMETERS: Final = (POINTER, WORD, WORD, WORD, WORD, WORD, WORD, POINTER, WORD, WORD)
"""State; kind and site (`layout.KIND_SHIFT`, `layout.SITE_SHIFT`); word of the other access; thread; offset; dimension; extent; indices, a row of `step` words
per dimension; which of a row; `step` and, above its lowest 32 bits, the number of rows."""


def reporter(module: ir.Module) -> Any:
    """The function that enters a finding."""
    if NAME in module.globals:
        return module.globals[NAME]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), PARAMETERS), NAME)
    function.linkage = "internal"
    for attribute in ("noinline", "cold", "optsize"):
        function.attributes.add(attribute)
    _define(function)
    return function


def kind_and_site(kind: str, site: int) -> ir.Constant:
    """What a report begins with."""
    return word(layout.kind(kind) << layout.KIND_SHIFT | site << layout.SITE_SHIFT)


def _define(function: Any) -> None:
    """Find the entry of the same key, or a free one: open addressing, one entry after the other."""
    state, what, other, thread, offset, dimension, extent, indices, lane, rows = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    code = Code(b)
    site = b.and_(other, word(layout.MOST_SITES - 1 << layout.SITE_SHIFT))
    key = b.or_(what, b.lshr(site, word(layout.SITE_SHIFT)))
    table = code.load_pointer(state, layout.TABLE)
    first = b.lshr(b.mul(key, word(0x9E3779B97F4A7C15)), word(64 - (layout.ENTRIES - 1).bit_length()))
    head, used, mine, free, following, lost = (
        function.append_basic_block(n) for n in ("head", "used", "mine", "free", "following", "lost")
    )
    entry_block = b.block
    b.branch(head)
    b.position_at_end(head)
    number = b.phi(WORD)
    number.add_incoming(word(0), entry_block)
    place = b.and_(b.add(first, number), word(layout.ENTRIES - 1))
    entry = code.at(table, b.mul(place, word(layout.ENTRY)))
    known = code.load(entry, layout.KEY)
    b.cbranch(code.same(known, word(0)), free, used)
    b.position_at_end(used)
    b.cbranch(code.same(known, key), mine, following)
    b.position_at_end(mine)
    code.store(b.add(code.load(entry, layout.COUNT), word(1)), entry, layout.COUNT)
    b.ret_void()
    b.position_at_end(following)
    further = b.add(number, word(1))
    number.add_incoming(further, following)
    b.cbranch(code.less(further, word(layout.ENTRIES)), head, lost)
    b.position_at_end(lost)
    code.store(b.add(code.load(state, layout.LOST), word(1)), state, layout.LOST)
    b.ret_void()
    b.position_at_end(free)
    values = {
        layout.KEY: key, layout.COUNT: word(1), layout.AT_BLOCK: code.load(state, layout.BLOCK_NUMBER), layout.AT_THREAD: thread,
        layout.OTHER: other, layout.OFFSET: offset, layout.DIMENSION: dimension, layout.EXTENT: extent,
    }  # fmt: skip
    for position, value in values.items():
        code.store(value, entry, position)
    step, count = b.and_(rows, word((1 << 32) - 1)), b.lshr(rows, word(32))

    def keep(row: Any) -> None:
        index = code.load(indices, b.add(b.mul(row, step), lane))
        code.store(index, entry, b.add(row, word(layout.INDICES)))

    code.repeat(count, keep)
    code.store(b.add(code.load(state, layout.FOUND), word(1)), state, layout.FOUND)
    b.ret_void()
