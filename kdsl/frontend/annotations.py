"""Annotations of a function, evaluated: also those that `from __future__ import annotations` leaves as text."""

from __future__ import annotations

import builtins
from typing import Any

from kdsl.frontend.errors import KernelError
from kdsl.frontend.source import Source


def evaluated_annotations(source: Source) -> dict[str, Any]:
    """Name of the parameter (or "return") to the object that its annotation stands for. Raises KernelError if one cannot be evaluated."""
    function = source.function
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    outer = {name: _content(cell) for name, cell in cells}
    arguments = source.tree.args
    places = {a.arg: source.locate(a) for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    found: dict[str, Any] = {}
    for name, annotation in function.__annotations__.items():
        while isinstance(annotation, str):  # quotes inside of text that a future import has made: twice
            try:
                annotation = eval(annotation, {**vars(builtins), **function.__globals__}, outer)
            except Exception as failure:
                hint = "use a view (`Slice[f32]`), a number (`f32`), a @struct, `Const[int]`, or a TypeVar"
                if isinstance(failure, NameError):
                    hint = "with `from __future__ import annotations` a type must be a global name, or one that the body also uses"
                message = f"the annotation {annotation!r} cannot be evaluated: {failure}"
                raise KernelError(message, places.get(name, source.definition()), hint) from None
        found[name] = annotation
    return found


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return None
