"""Reads and writes of device memory with a hint for the caches (PTX ISA, "ld", "ld.global.nc", "st"), as inline PTX: LLVM has no such accesses.

A read of an array that nobody writes goes by the way of memory that stays as it is (`.nc`), and LLVM may move it like any value. All others stay where they
are among other accesses.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir

from kdsl.backend.nvptx import assembly
from kdsl.lang.caching import HOW, CacheHint

_WORD: Final = 8
"""Bytes of the widest register."""


def load(builder: ir.IRBuilder, address: Any, of: ir.Type, size: int, hint: CacheHint, *, constant: bool) -> Any:
    """What lies at an address, of an LLVM type of `size` bytes; `constant`: nobody writes it while the kernel runs."""
    how, words = HOW[hint.how], _words(size)
    # An operator of PTX stands before `.nc`, a priority of eviction behind it
    way = f"{how}.nc" if constant and not how.startswith(".L1") else f"{'.nc' if constant else ''}{how}"
    ahead = f".L2::{hint.prefetch}B" if hint.prefetch else ""
    number = len(words)
    text = f"ld.global{way}{ahead}{_form(size, number)} {_operand(0, number)}, [${number}];"
    loaded = assembly.values(builder, text, words, assembly.global_address(builder, address), memory=not constant)
    if number > 1:
        whole = ir.Constant(ir.VectorType(words[0], number), ir.Undefined)
        for lane, word in enumerate(loaded):
            whole = builder.insert_element(whole, word, ir.IntType(32)(lane))
        return builder.bitcast(whole, of)
    return builder.bitcast(builder.trunc(loaded[0], ir.IntType(8 * size)), of)


def store(builder: ir.IRBuilder, value: Any, address: Any, size: int, hint: CacheHint) -> None:
    """Write a value of `size` bytes to an address."""
    words = _words(size)
    number = len(words)
    if number > 1:
        whole = builder.bitcast(value, ir.VectorType(words[0], number))
        given = [builder.extract_element(whole, ir.IntType(32)(lane)) for lane in range(number)]
    else:
        given = [builder.zext(builder.bitcast(value, ir.IntType(8 * size)), words[0])]
    text = f"st.global{HOW[hint.how]}{_form(size, number)} [$0], {_operand(1, number)};"
    assembly.statement(builder, text, assembly.global_address(builder, address), *given)


def _words(size: int) -> list[ir.Type]:
    """The registers that hold so many bytes; the smallest one has 16 bits."""
    return [ir.IntType(8 * _WORD)] * (size // _WORD) if size > _WORD else [ir.IntType(max(8 * size, 16))]


def _form(size: int, words: int) -> str:
    return f".v{words}.b{8 * size // words}" if words > 1 else f".b{8 * size}"


def _operand(first: int, words: int) -> str:
    return assembly.vector(first, words) if words > 1 else f"${first}"
