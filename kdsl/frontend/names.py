"""Which names a function binds, and which of them can be values rather than variables.

The analysis is purely syntactic. Every statement block (a branch, a loop body) has a path; a name is *direct* if the blocks that bind it do not contain
one another, each binds it once, and every use lies in one of them, behind its binding: then each use sees exactly one binding, and the name stands for the
value itself.
All other names become variables of the IR.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kdsl.frontend.source import Source

Path: TypeAlias = tuple[int, ...]


@dataclass
class NameTable:
    """What is known of a function's own names."""

    local: set[str] = field(default_factory=set)
    """Names that it binds, parameters included."""
    direct: set[str] = field(default_factory=set)
    """Those that stand for one value wherever they are used."""
    assigned_in: dict[ast.stmt, set[str]] = field(default_factory=dict)
    """Names bound anywhere inside a loop, target included."""
    places: dict[str, list[ast.AST]] = field(default_factory=dict)
    """Where each name is bound."""
    arrays: list[tuple[str, ast.Call]] = field(default_factory=list)
    """Calls whose results get a name, for the names of arrays."""


def analyse(source: Source) -> NameTable:
    """Analyse the body of a function."""
    scan = _Scan()
    arguments = source.tree.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        scan.bind(argument.arg, (), argument)
    scan.block(source.body, ())
    table = NameTable(set(scan.bound), assigned_in=scan.assigned_in, places=scan.places, arrays=scan.arrays)
    for name, blocks in scan.bound.items():
        if all(_apart(a.path, b.path) for index, a in enumerate(blocks) for b in blocks[:index]) and all(
            any(use.path[: len(block.path)] == block.path and use.order > block.order for block in blocks)
            for use in scan.used.get(name, ())
        ):
            table.direct.add(name)
    return table


def _apart(a: Path, b: Path) -> bool:
    """Whether neither block contains the other."""
    shorter = min(len(a), len(b))
    return a[:shorter] != b[:shorter]


@dataclass(frozen=True)
class _Place:
    """Where a name is bound or used."""

    path: Path
    """The block."""
    order: int
    """Position in the order of the text."""


class _Scan:
    def __init__(self) -> None:
        self.bound: dict[str, list[_Place]] = {}
        self.used: dict[str, list[_Place]] = {}
        self.places: dict[str, list[ast.AST]] = {}
        self.assigned_in: dict[ast.stmt, set[str]] = {}
        self.loops: list[set[str]] = []
        self.blocks = 0
        self.order = 0
        self.arrays: list[tuple[str, ast.Call]] = []

    def _name_arrays(self, target: ast.expr, value: ast.expr) -> None:
        """Note calls that are assigned to a name, also side by side: `a, b = shared_array(…), shared_array(…)`."""
        if isinstance(value, ast.Call) and isinstance(target, ast.Name):
            self.arrays.append((target.id, value))
        elif isinstance(value, ast.Tuple) and isinstance(target, ast.Tuple) and len(value.elts) == len(target.elts):
            for part, given in zip(target.elts, value.elts, strict=True):
                self._name_arrays(part, given)

    def bind(self, name: str, path: Path, node: ast.AST) -> None:
        self.bound.setdefault(name, []).append(self.place(path))
        self.places.setdefault(name, []).append(node)
        for names in self.loops:
            names.add(name)

    def use(self, name: str, path: Path) -> None:
        self.used.setdefault(name, []).append(self.place(path))

    def place(self, path: Path) -> _Place:
        self.order += 1
        return _Place(path, self.order)

    def nested(self, path: Path) -> Path:
        self.blocks += 1
        return (*path, self.blocks)

    def block(self, statements: list[ast.stmt], path: Path) -> None:
        for statement in statements:
            self.statement(statement, path)

    def statement(self, node: ast.stmt, path: Path) -> None:
        match node:
            case ast.If():
                self.expression(node.test, path)
                self.block(node.body, self.nested(path))
                self.block(node.orelse, self.nested(path))
            case ast.While():
                self.loops.append(set())
                # the condition is evaluated in a block of its own, before every trip
                self.expression(node.test, self.nested(path))
                self.block(node.body, self.nested(path))
                self.assigned_in[node] = self.loops.pop()
                self.block(node.orelse, self.nested(path))
            case ast.For():
                self.expression(node.iter, path)
                self.loops.append(set())
                body = self.nested(path)
                self.target(node.target, body)
                self.block(node.body, body)
                self.assigned_in[node] = self.loops.pop()
                self.block(node.orelse, self.nested(path))
            case ast.Assign():
                self.expression(node.value, path)
                self._name_arrays(node.targets[0], node.value)
                for target in node.targets:
                    self.target(target, path)
            case ast.AugAssign():
                self.expression(node.value, path)
                if isinstance(node.target, ast.Name):
                    self.use(node.target.id, path)
                self.target(node.target, path)
            case ast.AnnAssign():
                if node.value is not None:
                    self._name_arrays(node.target, node.value)
                    self.expression(node.value, path)
                self.target(node.target, path)
                self.target(node.target, path)  # counts twice, because a name with a declared type always is a variable
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child, path)

    def target(self, node: ast.expr, path: Path) -> None:
        if isinstance(node, ast.Name):
            self.bind(node.id, path, node)
        elif isinstance(node, ast.Tuple | ast.List):
            for item in node.elts:
                self.target(item, path)
        else:
            self.expression(node, path)

    def expression(self, node: ast.expr, path: Path) -> None:
        for child in ast.walk(node):
            if isinstance(child, ast.Name):
                self.use(child.id, path)
