"""PTX written out, for instructions that have no name here."""

from __future__ import annotations

from typing import Final

from kdsl.lang.intrinsics.row import ToInstruction, row

_TOPIC: Final = "Inline PTX"

# fmt: off
inline_ptx = row("inline_ptx", '(template: str, results, operands, volatile: bool = True, memory: bool = True, together: str = "none", target: str = "sm_80", ptx: str = "7.0", cpu = "") -> results', ToInstruction("inline_ptx"), "The instructions of `template`, in which `{0}`, `{1}` … are the results and then the operands. `results` is a type, a tuple of types, or None.", topic=_TOPIC, element="u32", least_ptx=(7, 0), least_capability=80, targets=("gpu",), assembled=True, example='z = inline_ptx("lop3.b32 {0}, {1}, {2}, {1}, 0x96;", u32, (v, w), volatile=False, memory=False)\ny[t] = z', isa="all")
shared_address = row("shared_address", "(array, index) -> u32", ToInstruction("shared_address"), "Where an element of a shared array (or a barrier) lies in shared memory, for inline PTX. The array counts as read and written.", topic=_TOPIC, element="u32", targets=("gpu",), example="s = shared_array((4, 8), u32)\ns[1, t % 8] = v\ny[t] = shared_address(s, (1, 2))", isa="mov")
global_address = row("global_address", "(view, index) -> u64", ToInstruction("global_address"), "Where an element of a view lies in device memory, for inline PTX. A view that may be written counts as written.", topic=_TOPIC, element="u32", targets=("gpu",), example="y[t] = u32(global_address(x, t) % 16)", isa="mov")
# fmt: on
