"""Shrinking: the smallest program found by deleting statements and replacing expressions that still shows a difference."""

from __future__ import annotations

import ast
import copy
import os
from collections.abc import Iterator

from kdsl.frontend.errors import KernelError
from tests.fuzz.batch import expected_refusal, refusal
from tests.fuzz.check import Difference, prepare
from tests.fuzz.values import IllTyped

_MOST_TRIALS = 3000


def failing(source: str, seed: int, device: str | None = None) -> str | None:
    """The difference that a program shows, None if it shows none (or is no program). It is tried in a child process, which it may end."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        try:
            os.write(sending, (_failing(source, seed, device) or "").encode()[:60000])
        finally:
            os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as stream:
        found = stream.read().decode()
    status = os.waitpid(child, 0)[1]
    return f"the process ended with status {status}" if status else found or None


def _failing(source: str, seed: int, device: str | None) -> str | None:
    try:
        case = prepare(source, seed)
        case.check_cpu()
        if device is not None:
            from tests.fuzz.on_gpu import check_gpu

            for _, what in check_gpu([(seed, case)], device):
                return what
    except Difference as difference:
        return str(difference)
    except KernelError as error:
        return None if expected_refusal(error, source) is not None else f"{refusal(source)}: {error.message}"
    except IllTyped:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def shrink(source: str, seed: int, device: str | None = None) -> str:
    """The smallest program found, with its arguments and the difference."""
    what = failing(source, seed, device)
    if what is None:
        return f"{source}\n# seed {seed}: no difference"
    kind = _kind(what)
    tree, trials = ast.parse(source), 0
    progress = True
    while progress and trials < _MOST_TRIALS:
        progress = False
        for candidate in _smaller(tree):
            trials += 1
            if trials > _MOST_TRIALS:
                break
            try:
                text = ast.unparse(candidate)
                tree_again = ast.parse(text)
            except (ValueError, SyntaxError, RecursionError):
                continue
            found = failing(text, seed, device)
            if found is not None and _kind(found) == kind:
                tree, what, progress = tree_again, found, True
                break
    text = ast.unparse(tree)
    try:
        case = prepare(text, seed)
        given = "".join(
            f"#   {name} = {value.tolist() if hasattr(value, 'tolist') else value}\n"
            for expected in case.expected[:1]
            for name, value in (*expected.arguments.arrays.items(), *expected.arguments.numbers.items())
        )
    except (KernelError, IllTyped) as error:
        given = f"#   (refused: {error})\n"
    except Exception as error:
        given = f"#   ({type(error).__name__}: {error})\n"
    return f"{text}\n# seed {seed}: {what}\n# first arguments:\n{given}"


def _kind(what: str) -> str:
    """Differences of another kind are no progress."""
    if what.startswith("kdsl refuses it"):
        return what
    return "overrun" if "beside" in what else "check" if "failed check" in what else "value" if "interpreter has" in what else what[:30]


def _smaller(tree: ast.Module) -> Iterator[ast.Module]:
    """Programs with something left out, the largest pieces first."""
    for number in range(len(list(_bodies(tree)))):
        body = list(_bodies(tree))[number]
        length = len(body)
        size = length
        while size:
            for start in range(length - size, -1, -size):
                made = copy.deepcopy(tree)
                changed = list(_bodies(made))[number]
                del changed[start : start + size]
                if changed or isinstance(body, list):
                    if not changed:
                        changed.append(ast.Pass())
                        if length == 1 and isinstance(body[0], ast.Pass):
                            continue
                    yield made
            size //= 2
    for number, function in enumerate(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
        for position in range(len(function.args.args)):
            made = copy.deepcopy(tree)
            del [n for n in ast.walk(made) if isinstance(n, ast.FunctionDef)][number].args.args[position]
            yield made
    for number in range(len(_compound(tree))):
        made = copy.deepcopy(tree)
        for owner, position, inner in _places(made, number):
            owner[position : position + 1] = inner
            yield made
    count = sum(1 for _ in _expressions(tree))
    for number in range(count):
        parent, name, index, node = next(x for n, x in enumerate(_expressions(tree)) if n == number)
        for replacement in (*_children(node), *_simple(node)):
            made = copy.deepcopy(tree)
            parent, name, index, _ = next(x for n, x in enumerate(_expressions(made)) if n == number)
            if index is None:
                setattr(parent, name, copy.deepcopy(replacement))
            else:
                getattr(parent, name)[index] = copy.deepcopy(replacement)
            yield made


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            found = getattr(node, name, None)
            if isinstance(found, list) and found:
                yield found


def _compound(tree: ast.AST) -> list[ast.stmt]:
    return [s for body in _bodies(tree) for s in body if isinstance(s, ast.If | ast.For | ast.While)]


def _places(tree: ast.AST, number: int) -> Iterator[tuple[list[ast.stmt], int, list[ast.stmt]]]:
    seen = 0
    for body in _bodies(tree):
        for position, statement in enumerate(body):
            if isinstance(statement, ast.If | ast.For | ast.While):
                if seen == number:
                    yield body, position, statement.body
                    return
                seen += 1


def _expressions(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr]]:
    """Expressions that can be replaced: not those of declarations."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.arguments | ast.arg | ast.AnnAssign):
            continue
        for name, value in ast.iter_fields(node):
            if name in ("targets", "target", "func", "ctx", "annotation", "op", "ops"):
                continue
            for index, item in enumerate(value) if isinstance(value, list) else ((None, value),):
                if isinstance(item, ast.expr) and not isinstance(item, ast.Constant | ast.Name):
                    yield node, name, index, item


def _children(node: ast.expr) -> list[ast.expr]:
    found = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return found if not isinstance(node, ast.Call) else list(node.args)


def _simple(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Compare | ast.BoolOp):
        return [ast.Constant(True), ast.Constant(False)]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and len(node.args) == 1
        and not isinstance(node.args[0], ast.Constant)
    ):
        return [ast.Call(node.func, [ast.Constant(1)], [])]
    return []
