"""Writes the launcher of a kernel: readable Python from its signature, geometry and contract, through the template `launcher.py.j2`.

Leaves out how the source becomes a function (`bind.py`) and what its failures say (`refuse.py`).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any, Final

import jinja2

from kdsl.lang.declaration import Declaration
from kdsl.lang.views import ConstAnnotation
from kdsl.launch.contract import Relation, quoted
from kdsl.launch.description import IMPORTS, ORIGINAL, Description, annotation_of, describe, grid_of, relations_of
from kdsl.launch.docstring import LINE_LENGTH, default_text, docstring, escaped
from kdsl.launch.refuse import BLOCKS_LIMIT
from kdsl.launch.short import changing, deciding, short_way

MOST_PAIRS: Final = 6
"""Of more pairs of arrays than this, those that overlap are looked for by their order in memory."""


def launcher_source(declaration: Declaration) -> str:
    """The launcher's module as Python source. Raises ContractError for an expression, ValueError for the rest."""
    return _render(describe(declaration))


def launcher_source_and_classes(declaration: Declaration) -> tuple[str, dict[str, Any]]:
    """The source, and the struct classes and types that have to be bound to its names; `plans` is bound beside them."""
    description = describe(declaration)
    return _render(description), {
        "plans": description.names["plans"],
        "stream": description.names["stream"],
        "changing": changing(description),
        "deciding": frozenset(deciding(description, relations_of(description), grid_of(description))),
        "classes": {**description.classes, **description.elements},
    }


def _render(description: Description) -> str:
    declaration, names = description.declaration, description.names
    found, grid = relations_of(description), grid_of(description)
    arguments: list[str] = [names["device"], *description.variables.values()]
    for parameter in declaration.parameters:
        if isinstance(parameter.type, ConstAnnotation):
            arguments.append(f"{parameter.name}.hex()" if parameter.type.python_type is float else parameter.name)
    map_bytes = {f"{view.map}.bytes" for view in description.views if view.map}
    body = _template().render(
        n=names,
        kernel=declaration.name,
        module=escaped(declaration.module),
        imports=["<imports>"],
        views=description.views,
        maps=[view for view in description.views if view.map],
        structs=description.structs,
        elements=list(description.elements),
        scalars=description.scalars,
        signature=_signature(description),
        docstring=docstring(description, grid),
        relations=[_rendered(relation) for relation in found],
        grid=grid,
        short=short_way(description, found, grid),
        most_pairs=MOST_PAIRS,
        blocks_limit=BLOCKS_LIMIT,
        incomplete=[
            f"{names[f'blocks_{axis}']} % {of}"
            for axis, of, blocks in zip("xyz", grid.multiples, grid.extents, strict=True)
            if of > 1 and not blocks.isdigit()  # a number was checked with the declaration
        ],
        cluster=str(declaration.attributes.cluster),
        key=", ".join(arguments) + ("," if len(arguments) == 1 else ""),
        pairs=[(a, b) for a, b in itertools.combinations(description.views, 2) if a.kind != "Slice" or b.kind != "Slice"],
        values=_tuple(description.values),
        unmapped=_tuple(["None" if value in map_bytes else value for value in description.values]),
        arguments=f"{{{', '.join(f'{quoted(p.name)}: {_given(description, p.name)}' for p in declaration.parameters)}}}",
        given_views=[view.name for view in description.views],
        given_tuple=_tuple([view.name for view in description.views]),
        annotations=_tuple([_tuple([quoted(view.name), quoted(view.annotation)]) for view in description.views]),
        by_name=f"{{{', '.join(f'{quoted(view.name)}: {view.name}' for view in description.views)}}}",
        call=_call,
    )
    return body.replace("<imports>", "\n".join(_imports(description, body)), 1)


def _given(description: Description, parameter: str) -> str:
    """The launcher's name of an argument as it was given."""
    return next((view.given for view in description.views if view.name == parameter and view.map), parameter)


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kdsl.launch", "."),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # Python, not HTML; every string goes through `quoted`
    )
    environment.filters["quoted"] = quoted
    return environment.get_template("launcher.py.j2")


def _tuple(sources: Sequence[str]) -> str:
    return f"({', '.join(sources)}{',' if len(sources) == 1 else ''})"


def _call(indent: int, function: str, arguments: Sequence[str]) -> str:
    """A call at that indentation, on one line if it fits, else with an argument per line."""
    line = f"{function}({', '.join(arguments)})"
    if indent + len(line) <= LINE_LENGTH - 16:  # room for an assignment in front
        return line
    inner = "".join(f"{' ' * (indent + 4)}{argument},\n" for argument in arguments)
    return f"{function}(\n{inner}{' ' * indent})"


def _rendered(relation: Relation) -> dict[str, str]:
    operands = ", ".join(f"{quoted(operand.text)}: {operand.source}" for operand in relation.operands)
    return {"source": relation.source, "text": relation.text, "part": relation.part, "operands": f"{{{operands}}}"}


def _imports(description: Description, body: str) -> list[str]:
    """The imports that the body needs, in the order of a formatter."""
    words = set(re.findall(r"\w+", body))
    types = sorted((of.name.upper(), local) for of, local in description.types.items() if local in words)
    lines = [f"from kdsl.lang.types import {', '.join(_import(*pair) for pair in types)}"] if types else []
    for module, names in IMPORTS:
        used = [name for name in names if description.names[name] in words]
        if used:
            lines.append(f"from {module} import {', '.join(_import(name, description.names[name]) for name in used)}")
    return sorted(lines)


def _import(name: str, local: str) -> str:
    original = ORIGINAL.get(name, name)
    return original if original == local else f"{original} as {local}"


def _signature(description: Description) -> list[str]:
    """One line per parameter, as the kernel declares them, then the stream."""
    lines: list[str] = []
    keyword_only = False
    for parameter in description.declaration.parameters:
        if parameter.keyword_only and not keyword_only:
            lines.append("*,")
            keyword_only = True
        annotation, comment = annotation_of(description, parameter)
        default = f" = {default_text(parameter.default)}" if parameter.default is not None else ""
        lines.append(f"{parameter.name}: {annotation}{default},{f'  # {comment}' if comment else ''}")
    if not keyword_only:
        lines.append("*,")
    lines.append(f"{description.names['stream']}: {description.names['Stream']} | None = None,  # chosen by on(stream)")
    return lines
