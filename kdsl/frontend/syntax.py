"""Which syntax the language has: everything else is refused before anything is compiled, also in code that is never reached."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from kdsl.frontend.errors import KernelError

if TYPE_CHECKING:
    from kdsl.frontend.source import Source

_SUPPORTED: Final = (
    ast.If, ast.While, ast.For, ast.Break, ast.Continue, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Assert, ast.Pass,
    ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Name, ast.Tuple,
    ast.IfExp, ast.keyword, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip

_REFUSED: Final[dict[str, tuple[str, str]]] = {
    "Delete": ("`del`", "names go out of use by themselves"),
    "Global": ("`global`", "pass the value as an argument; numbers from outside can be read without it"),
    "Nonlocal": ("`nonlocal`", "pass the value as an argument; numbers from outside can be read without it"),
    "With": ("`with`", "there are no context managers inside a kernel"),
    "Try": ("`try`", "there are no exceptions inside a kernel; test the condition with `if`"),
    "TryStar": ("`try`", "there are no exceptions inside a kernel; test the condition with `if`"),
    "Raise": ("`raise`", "use `assert`, which is reported at the next synchronisation"),
    "Lambda": ("`lambda`", "write a @function"),
    "FunctionDef": ("a nested function", "define it outside and mark it @function"),
    "AsyncFunctionDef": ("an async function", "write a @function"),
    "ClassDef": ("a class", "define it outside, with @struct"),
    "ListComp": ("a list comprehension", "write a loop over a local_array"),
    "SetComp": ("a set comprehension", "write a loop"),
    "DictComp": ("a dict comprehension", "write a loop"),
    "GeneratorExp": ("a generator expression", "write a loop"),
    "List": ("a list", "use local_array(shape, dtype), or a tuple"),
    "Dict": ("a dict", "use a struct or separate names"),
    "Set": ("a set", "use separate names"),
    "JoinedStr": ("an f-string", "only print() takes one; a message is a plain string"),
    "TemplateStr": ("a t-string", "a message must be a plain string"),
    "Match": ("`match`", "write `if` and `elif`"),
    "NamedExpr": ("`:=`", "assign in a statement of its own"),
    "Import": ("`import`", "import at the top of the file"),
    "ImportFrom": ("`import`", "import at the top of the file"),
    "Await": ("`await`", "kernels are not async; see streams"),
    "AsyncFor": ("`async for`", "write `for`"),
    "AsyncWith": ("`async with`", "there are no context managers inside a kernel"),
    "Yield": ("`yield`", "write to an array instead"),
    "YieldFrom": ("`yield from`", "write to an array instead"),
    "Starred": ("`*` unpacking", "write the values one by one"),
    "TypeAlias": ("a type alias", "define it outside"),
    "MatMult": ("`@`", "write the product as a loop"),
}

_CONSTANTS: Final = {complex: "a complex number", bytes: "a bytes literal", type(...): "`...`"}


def refuse_unsupported(source: Source) -> None:
    """Raise KernelError at the first construct of the body that the language does not have."""
    arguments = source.tree.args
    for starred, written in ((arguments.vararg, "*"), (arguments.kwarg, "**")):
        if starred is not None:
            raise KernelError(f"`{written}{starred.arg}` cannot be a parameter here", source.locate(starred), "name each parameter")
    pending: list[ast.AST] = list(reversed(source.body))
    while pending:
        node = pending.pop()
        _check(source, node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            pending += _printed(node)
            continue
        children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.operator)]
        if isinstance(node, ast.AnnAssign):
            children.remove(node.annotation)
        pending += reversed(children)


def _printed(node: ast.Call) -> list[ast.AST]:
    """What stands in a call of `print`, the only place of f-strings: the expressions in them."""
    found: list[ast.AST] = [keyword.value for keyword in node.keywords]
    for argument in node.args:
        if isinstance(argument, ast.JoinedStr):
            found += [part.value for part in argument.values if isinstance(part, ast.FormattedValue)]
        else:
            found.append(argument)
    return found[::-1]


def _check(source: Source, node: ast.AST) -> None:
    if isinstance(node, ast.Constant):
        for kind, name in _CONSTANTS.items():
            if isinstance(node.value, kind):
                raise KernelError(f"{name} has no meaning in a kernel", source.locate(node), "kernels compute with numbers")
    elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
        raise KernelError("`@` is not part of the language", source.locate(node), _REFUSED["MatMult"][1])
    elif not isinstance(node, _SUPPORTED):
        name, hint = _REFUSED.get(
            type(node).__name__, (f"this construct ({type(node).__name__})", "see the language reference for what there is")
        )
        raise KernelError(f"{name} is not part of the language", source.locate(node), hint)
