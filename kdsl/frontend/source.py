"""From a Python function to its syntax tree, with the true position of every node in its file.

The whole file is parsed (once per text), so that indentation, tabs, line continuations and stacked decorators need no repair, and the function is
found by its first line. A function whose source cannot be found (`exec`, some interactive prompts) is refused with an explanation.
"""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import operator
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, Final

from kdsl.frontend.captures import Captures, freeze
from kdsl.frontend.errors import KernelError, remember_source
from kdsl.frontend.names import NameTable, analyse
from kdsl.frontend.syntax import refuse_unsupported
from kdsl.ir.nodes import Location

_STARTED: Final = time.time()
"""When this program began, nearly."""
_FUTURE: Final = functools.reduce(operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
"""The flags of `from __future__ import …`, which text that is run by `exec` has from there."""


@dataclass(eq=False)
class Source:
    """A parsed Python function."""

    function: FunctionType
    """The Python function."""
    tree: ast.FunctionDef
    """Its definition."""
    file: str
    """File name as Python reports it."""
    lines: list[str]
    """All lines of the file."""
    captures: Captures = field(init=False)
    """What its body names from outside, frozen."""
    names: NameTable = field(init=False)
    """Where its own names are bound and used."""

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.tree.name

    @property
    def body(self) -> list[ast.stmt]:
        """Its statements without the docstring."""
        first = self.tree.body[0]
        documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
        return self.tree.body[1:] if documented else self.tree.body

    def locate(self, node: ast.AST, caller: Location | None = None) -> Location:
        """The place of a node, in characters."""
        line, end_line = getattr(node, "lineno", self.tree.lineno), getattr(node, "end_lineno", None)
        column, end_column = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None)
        end_line = line if end_line is None else end_line
        end_column = column + 1 if end_column is None else end_column
        return Location(
            self.file, line, self._characters(line, column), end_line, self._characters(end_line, end_column), self.name, caller
        )

    def text(self, node: ast.AST) -> str:
        """The source of an expression on one line."""
        place = self.locate(node)
        if place.line == place.end_line:
            return self.lines[place.line - 1][place.column : place.end_column]
        return ast.unparse(node)

    def definition(self, caller: Location | None = None) -> Location:
        """The place of the name behind `def`."""
        line = self.lines[self.tree.lineno - 1]
        start = self._characters(self.tree.lineno, self.tree.col_offset)
        found = re.compile(r"(?:async\s+)?def\s+(\w+)").match(
            line, start
        )  # the name as written, which need not be the one that Python makes of it
        first, end = found.span(1) if found else (start, start + 3)
        return Location(self.file, self.tree.lineno, first, self.tree.lineno, end, self.name, caller)

    def _characters(self, line: int, byte: int) -> int:
        """Column in characters for a column in bytes of UTF-8, which is how Python counts."""
        text = self.lines[line - 1] if 1 <= line <= len(self.lines) else ""
        return byte if text.isascii() else len(text.encode()[:byte].decode(errors="replace"))


def parse(python_function: Callable[..., Any]) -> Source:
    """Parse a Python function and freeze what it captures.

    Raises KernelError if its source is not available or uses syntax that the language does not have, TypeError if it is not a plain Python function.
    """
    # `functools.wraps` leaves the way to the function that was written
    plain = inspect.unwrap(python_function) if callable(python_function) else python_function
    if not isinstance(plain, FunctionType):
        raise TypeError(f"@kernel and @function mark plain Python functions, not {python_function!r}")
    code = plain.__code__
    here = Location(code.co_filename, code.co_firstlineno, 0, code.co_firstlineno, 1, code.co_name)
    if code.co_name == "<lambda>":
        raise KernelError("a lambda cannot be a kernel or a @function", here, "write it with `def`")
    try:
        lines, _ = inspect.findsource(plain)
    except (OSError, TypeError, IndexError):
        raise KernelError(
            f"the source of `{code.co_name}` is not available, so it cannot be compiled",
            here,
            "define it in a file or a notebook cell; for text given to exec, register it first: "
            "linecache.cache[filename] = (len(text), None, text.splitlines(True), filename), with that filename given to compile()",
        ) from None
    try:
        module = _parse_file("".join(lines))
    except (SyntaxError, ValueError):
        raise KernelError(f"the source of `{code.co_name}` no longer parses", here, "the file has changed since it was imported") from None
    tree = _find(module, code.co_name, code.co_firstlineno)
    moved = tree is None or [argument.arg for argument in _arguments(tree)] != list(code.co_varnames[: len(_arguments(tree))])
    if tree is None or moved or not _is_compiled_from(code, "".join(lines)):
        raise KernelError(
            f"the definition of `{code.co_name}` is not where Python says it is",
            here,
            "the file has changed since it was imported: import it again",
        )
    remember_source(code.co_filename, lines)
    source = Source(plain, tree, code.co_filename, lines)
    if isinstance(tree, ast.AsyncFunctionDef):
        raise KernelError("a kernel or @function cannot be async", source.definition(), "remove `async`")
    refuse_unsupported(source)
    source.names = analyse(source)
    source.captures = freeze(plain, tree, source.names.local)
    return source


def _is_compiled_from(code: CodeType, text: str) -> bool:
    """Whether Python compiled `code` from this text, which may have been edited while the program runs. Only files that are younger than it are compared."""
    try:
        status = os.stat(code.co_filename)
    except OSError:  # the text never was a file
        return True
    if max(status.st_mtime, status.st_ctime) < _STARTED:
        return True
    if any(
        not name.isidentifier() for name in (*code.co_names, *code.co_varnames)
    ):  # rewritten after it was read, as pytest does with assertions
        return True
    waiting = [compile(text, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)]
    while waiting:
        found = waiting.pop()
        if found == code:
            return True
        waiting += [constant for constant in found.co_consts if isinstance(constant, CodeType)]
    return False


@functools.lru_cache(maxsize=64)
def _parse_file(text: str) -> ast.Module:
    return ast.parse(text)


def _find(module: ast.Module, name: str, first_line: int) -> ast.FunctionDef | None:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            lines = [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]
            if min(lines) == first_line:
                return node  # type: ignore[return-value]  # an async function is refused by the caller, with its place
    return None


def _arguments(tree: ast.FunctionDef) -> list[ast.arg]:
    return [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
