"""Instructions that touch memory in instrumented code: asynchronous copies, whose writes are done when they are waited for, matrices of a warp,
atomic operations on vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.cpu.lanes import I64, Lanes, Uniform
from kdsl.backend.cpu.sanitizer import layout
from kdsl.backend.cpu.sanitizer.accesses import copy_entry
from kdsl.backend.cpu.sanitizer.code import POINTER, WORD, Code, word
from kdsl.backend.cpu.sanitizer.granules import Touch
from kdsl.ir import nodes
from kdsl.lang.vectors import VECTORS

if TYPE_CHECKING:
    from kdsl.backend.cpu.sanitizer.emission import SanitizedEmission

_ROW: Final = 16
"""Bytes of a row of a matrix that `ldmatrix` and `stmatrix` move."""
_EVERYTHING: Final = (1 << 64) - 1
_TOUCHES: Final[dict[str, Touch]] = {"atomic_load": "look", "atomic_store": "replace", "atomic_exchange": "replace"}
"""How atomic operations touch memory, where not as "atomic"."""


@contextmanager
def looked_at(e: SanitizedEmission, op: nodes.Instruction) -> Iterator[None]:
    """Look at an instruction; what is emitted inside does it."""
    match op.name:
        case "copy_async":
            allowed = _copy(e, op)
        case "ldmatrix" | "stmatrix":
            allowed = _matrices(e, op)
        case name if name.startswith("atomic_"):
            allowed = _atomic(e, op)
        case _:
            allowed = None
    if allowed is None:
        yield
    else:
        with e.only_lanes(allowed):
            yield
    match op.name:
        case "commit_copies":
            _for_lanes(e, "sanitizer.commit", _define_commit, word(0))
        case "wait_copies":
            _for_lanes(e, "sanitizer.wait", _define_wait, word(int(str(op.options["newest"]))))
        case "wait_all_copies":
            _for_lanes(e, "sanitizer.wait", _define_wait, word(_EVERYTHING))


def _copy(e: SanitizedEmission, op: nodes.Instruction) -> Any:
    to, source = op.elements
    count = op.options["count"]
    assert isinstance(count, int)
    every = Uniform(e.i64(count))
    read = e.value(op.arguments[0]) if op.arguments else every
    size = count * to.memory.type.itemsize
    indices = [[e.value(i) for i in element.indices] for element in op.elements]
    allowed = e.arrays.look("read", e.sites.element(op, 1), source.memory, indices[1], counts=read, alignment=size, mask=e.mask)
    # a copy that is left out counts as one: what it lacks is no further fault
    return e.builder.and_(
        allowed, e.arrays.look("copy", e.sites.element(op, 0), to.memory, indices[0], counts=every, alignment=size, mask=e.mask)
    )


def _atomic(e: SanitizedEmission, op: nodes.Instruction) -> Any:
    """An atomic operation on a vector."""
    (element,), of = op.elements, VECTORS[str(op.options["vector"])]
    count: Lanes = Uniform(e.i64(of.lanes))
    alignment = of.itemsize if isinstance(element.memory, nodes.View) else 1
    indices = [e.value(i) for i in element.indices]
    touch = _TOUCHES.get(op.name, "atomic")
    return e.arrays.look(touch, e.sites.element(op, 0), element.memory, indices, counts=count, alignment=alignment, mask=e.mask)


def _matrices(e: SanitizedEmission, op: nodes.Instruction) -> Any:
    """The rows that lanes name: 8 of each matrix, those of the first one by the lanes 0 to 7."""
    b = e.builder
    element = op.elements[0]
    matrices = len(op.results) if op.name == "ldmatrix" else len(op.arguments)
    names = ir.Constant(e.masks.type, [int(lane < 8 * matrices) for lane in range(e.width)])
    touch = "read" if op.name == "ldmatrix" else "write"
    indices = [e.value(i) for i in element.indices]
    count: Lanes = Uniform(ir.Constant(I64, _ROW // element.memory.type.itemsize))
    site = e.sites.element(op, 0)
    mask = e.masks.both(e.mask, names)
    allowed = e.arrays.look("read" if touch == "read" else "write", site, element.memory, indices, counts=count, alignment=_ROW, mask=mask)
    # the whole warp leaves it out if one row is wrong
    whole = b.icmp_unsigned("==", allowed, e.bits(mask))
    return b.select(whole, e.bits(e.mask), word(0))


# --------------------------------------------------------------------------------------------------------------------------- groups


def reset(e: SanitizedEmission) -> None:
    """No thread of the block has copies under way."""
    code = e.code
    queues = code.load_pointer(e.state, layout.COPIES)

    def one(thread: Any) -> None:
        queue = code.at(queues, e.builder.mul(thread, word(layout.QUEUE_WORDS)))
        for place in (layout.COMMITTED, layout.FIRST, layout.LAST):
            code.store(word(0), queue, place)

    code.repeat(word(e.kernel.threads), one)


def _for_lanes(e: SanitizedEmission, name: str, define: Callable[[Any], None], argument: Any) -> None:
    """Call a function of the active lanes' queues."""
    if not e.has_copies:
        return
    module = e.module
    if name not in module.globals:
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), (POINTER, WORD, WORD, WORD)), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        define(function)
    at_block_level = e.regions.at_block_level
    assert not at_block_level
    call = e.builder.call(module.globals[name], [e.state, e.specials.first_thread, e.bits(e.mask), argument])
    e.storage.touches_no_array(call)


def _queues(function: Any, body: Callable[[Code, Any], None]) -> None:
    """Run `body` for the queue of each lane."""
    state, first, bits, _ = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    code = Code(b)
    queues = code.load_pointer(state, layout.COPIES)
    code.lanes(bits, lambda lane, _: body(code, code.at(queues, b.mul(b.add(first, lane), word(layout.QUEUE_WORDS)))))
    b.ret_void()


def _define_commit(function: Any) -> None:
    def commit(code: Code, queue: Any) -> None:
        code.store(code.b.add(code.load(queue, layout.COMMITTED), word(1)), queue, layout.COMMITTED)

    _queues(function, commit)


def _define_wait(function: Any) -> None:
    """Finish the copies of all groups but the newest ones, in order."""
    state, _, _, newest = function.args

    def wait(code: Code, queue: Any) -> None:
        b = code.b
        closed = code.load(queue, layout.COMMITTED)
        everything = code.same(newest, word(_EVERYTHING))
        done = b.select(everything, word(_EVERYTHING), b.select(code.less(newest, closed), b.sub(closed, newest), word(0)))
        first, last = code.load(queue, layout.FIRST), code.load(queue, layout.LAST)

        def one(number: Any) -> None:
            entry = copy_entry(code, queue, b.add(first, number))
            with b.if_then(b.icmp_unsigned("<=", code.load(entry, 3), done)):
                _finish(code, state, entry)
                code.store(b.add(b.add(first, number), word(1)), queue, layout.FIRST)

        code.repeat(b.sub(last, first), one)

    _queues(function, wait)


def _finish(code: Code, state: Any, entry: Any) -> None:
    """The write of a copy happens now, where nothing has been written over it."""
    b = code.b
    place, granules, me = code.load_pointer(entry, 0), code.load(entry, 1), code.load(entry, 2)
    pending = b.or_(me, word(layout.PENDING))
    written = b.or_(b.and_(me, word(layout.STEP - 1)), code.load(state, layout.NOW))

    def one(number: Any) -> None:
        shadow = code.at(place, b.mul(number, word(layout.WORDS)))
        with b.if_then(code.same(code.load(shadow, layout.WRITTEN), pending)):
            code.store(written, shadow, layout.WRITTEN)

    code.repeat(granules, one)
