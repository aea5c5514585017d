"""Inline PTX of kernels, and addresses for it. The frontend has seen to it that the text can do no harm to what stands around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from kdsl.backend.llvm.module import value_type
from kdsl.backend.nvptx import assembly

if TYPE_CHECKING:
    from kdsl.backend.nvptx.instructions import Emission

_OPERAND: Final = re.compile(r"\{(\d{1,3})\}")


def _inline_ptx(e: Emission) -> Sequence[Any]:
    op, options = e.op, e.op.options
    kinds = [value_type(of) for of in op.results]
    result = ir.VoidType() if not kinds else kinds[0] if len(kinds) == 1 else ir.LiteralStructType(kinds)
    constraints = [*("=" + assembly.letter(kind) for kind in kinds), *(assembly.letter(a.type) for a in e.arguments)]
    together = options["together"] != "none"
    made = assembly.call(
        e.builder, _for_llvm(str(options["text"])), result, constraints, e.arguments,
        effects=bool(options["volatile"]), memory=bool(options["memory"]), convergent=together or bool(options["volatile"]),
    )  # fmt: skip
    return [made] if len(kinds) == 1 else [e.builder.extract_value(made, number) for number in range(len(kinds))]


def _for_llvm(text: str) -> str:
    """The text as LLVM takes it, in the quotes of its own text form: `${0}` for `{0}`, and what is special to it escaped."""
    parts = _OPERAND.split(text.replace("$", "$$"))
    numbered = "".join(f"${{{part}}}" if number % 2 else part for number, part in enumerate(parts))
    return "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\{ord(c):02X}" for c in numbered)


def _shared_address(e: Emission) -> Sequence[Any]:
    return (assembly.shared_address(e.builder, e.addresses[0]),)


def _global_address(e: Emission) -> Sequence[Any]:
    return (assembly.global_address(e.builder, e.addresses[0]),)


EMITTERS: Final[dict[str, Callable[[Emission], Sequence[Any]]]] = {
    "inline_ptx": _inline_ptx,
    "shared_address": _shared_address,
    "global_address": _global_address,
}
"""By the name of the row."""
