"""Matrix products of a warpgroup (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").

The accumulators go through each instruction as operands that are read and written in place: LLVM keeps them in the same registers, so that products stand back
to back. A descriptor says where a tile lies in shared memory; its second word, which holds the layout, is known when code is made.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.nvptx import assembly
from kdsl.lang.intrinsics.warpgroups import FRAGMENT, IN_ARGUMENTS, PRODUCTS

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_NOTHING: Final = ()
_LAYOUTS: Final = {0: 0, 128: 1, 64: 2, 32: 3}
"""The code of a swizzle span, bits 62 and 63 of a descriptor ("Matrix Descriptor Format")."""
_ADDRESS: Final = 0x3FFFF


def _descriptor(e: Emission, side: str, address: Any, values: Iterator[Any]) -> Any:
    """The descriptor of a tile that begins at `address`. `values` yields the bytes from there into its rows, then the offsets that are no options.

    Bits 0 to 13 are the address, 16 to 29 the leading offset, 32 to 45 the stride, all in units of 16 bytes. The offset is added at the end: so the products of
    one tile share what comes before.
    """
    b, options = e.builder, e.op.options
    offset = next(values)
    place = b.lshr(b.and_(assembly.shared_address(b, address), _I32(_ADDRESS)), _I32(4))
    layout = _LAYOUTS[int(options[f"{side}_swizzle"])] << 62  # type: ignore[arg-type]
    launched = []
    for what, bit in (("leading", 16), ("stride", 32)):
        known = int(options[f"{side}_{what}"])  # type: ignore[arg-type]
        if known == IN_ARGUMENTS:
            launched.append(b.shl(b.zext(b.lshr(next(values), _I32(4)), _I64), _I64(bit)))
        else:
            layout |= known >> 4 << bit
    whole = b.or_(b.zext(place, _I64), ir.Constant(_I64, layout - (1 << 64) if layout >> 63 else layout))
    whole = functools.reduce(b.or_, launched, whole)
    return b.add(whole, b.zext(b.lshr(offset, _I32(4)), _I64))


def _wgmma(e: Emission) -> Sequence[Any]:
    """Elements: A if it lies in shared memory, B. Arguments: whether to accumulate; bytes into A's rows, or the registers of its fragment; bytes into B's rows;
    the accumulators. Behind the bytes into rows stand the offsets of the tile that are no options."""
    b, options = e.builder, e.op.options
    product, n = PRODUCTS[str(options["a"])], int(options["n"])  # type: ignore[arg-type]
    count = len(e.op.results)
    accumulate, *rest = e.arguments
    accumulators = rest[-count:]
    values = iter(rest[:-count])
    if options["a_registers"]:
        left = list(itertools.islice(values, FRAGMENT))
    else:
        left = [_descriptor(e, "a", e.addresses[0], values)]
    right = _descriptor(e, "b", e.addresses[-1], values)
    fresh = isinstance(accumulate, ir.Constant) and not accumulate.constant
    tied = [] if fresh else accumulators
    operands = [*tied, *left, right, *([] if fresh else [b.zext(accumulate, _I32)])]
    first = count + len(tied)
    shown = f"${first}" if len(left) == 1 else assembly.vector(first, len(left))
    flag = "setp.ne.b32 p, 0, 0;" if fresh else f"setp.ne.b32 p, ${first + len(left) + 1}, 0;"
    # what follows the predicate: signs of A and B, and whether each lies across; integers, tf32 and floats of 8 bits have fewer
    more = "" if product.accumulator != "f32" else ", 1, 1"
    if product.transposes:
        more += "" if options["a_registers"] else f", {int(bool(options['transpose_a']))}"
        more += f", {int(bool(options['transpose_b']))}"
    sums = "s32" if product.accumulator == "i32" else "f32" if count == n // 2 else "f16"
    kinds = f"{sums}.{options['a']}.{options['b']}"
    name = f"wgmma.mma_async.sync.aligned.m64n{n}k{product.k}.{kinds}"
    text = f"{{ .reg .pred p; {flag} {name} {assembly.vector(0, count)}, {shown}, ${first + len(left)}, p{more}; }}"
    letter = assembly.letter(accumulators[0].type)
    constraints = (
        ["=" + letter] * count + [str(number) for number in range(len(tied))] + [assembly.letter(o.type) for o in operands[len(tied) :]]
    )
    kind = ir.LiteralStructType([a.type for a in accumulators])
    whole = assembly.call(b, text, kind, constraints, operands, convergent=True)
    return [b.extract_value(whole, number) for number in range(count)]


def _plain(text: str) -> Callable[[Emission], Sequence[Any]]:
    def emit(e: Emission) -> Sequence[Any]:
        assembly.statement(e.builder, text.format(**e.op.options), convergent=True)
        return _NOTHING

    return emit


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {
    "wgmma_fence": _plain("wgmma.fence.sync.aligned;"),
    "wgmma": _wgmma,
    "wgmma_commit": _plain("wgmma.commit_group.sync.aligned;"),
    "wgmma_wait": _plain("wgmma.wait_group.sync.aligned {pending};"),
}
"""By the name of the row."""
