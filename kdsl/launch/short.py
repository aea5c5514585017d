"""The short way through a launcher: what decides its checks, and what is only packed.

The arrays (which do not change), the stream, compile-time constants, and the numbers and structs of which the contract or the grid speaks decide all that a
launcher finds out. Of an array of another library, which may change, its state stands for it (`foreign.py`). A launch with the same of all of these as an
earlier one has passed all checks; only the other numbers and structs are packed anew. What can change behind that, memory that is freed and streams that
have to join it, is noticed through `kdsl.runtime.memory.uses`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kdsl.lang.declaration import Parameter
from kdsl.lang.struct_type import StructType
from kdsl.lang.types import DType
from kdsl.lang.views import ConstAnnotation, ViewAnnotation
from kdsl.launch.contract import Relation, quoted
from kdsl.launch.description import Description, grid_of, relations_of
from kdsl.launch.grid import GridPlan


@dataclass
class ShortWay:
    """For the template."""

    key: str
    """Source of the tuple by which launches are remembered."""
    given: str
    """Source of the tuple of arrays and tensor maps, as they were given."""
    first: str | None
    """An array that tells whether the launch has arrays of other libraries, usually; None if a tensor map may stand for each."""
    foreign: str
    """Source of the key of such a launch."""
    runs: list[str] = field(default_factory=list)
    """Sources of the values of each run of neighbouring parameters that are packed anew."""


def deciding(description: Description, found: Sequence[Relation], grid: GridPlan) -> set[str]:
    """The number and struct parameters of which the contract or the grid speaks."""
    sources = [relation.source for relation in found] + [size.source for size in grid.sizes] + [*grid.extents]
    words = set(re.findall(r"\w+", " ".join(sources)))
    chosen = {scalar.name for scalar in description.scalars if scalar.name in words}
    chosen |= {s.parameter for s in description.structs if s.parameter in words or any(f.local in words for f in s.fields)}
    return chosen


def changing(description: Description) -> list[list[str]]:
    """The parameters that decide nothing, in runs of neighbours: what lies between two of a run changes, too."""
    return _runs(description, deciding(description, relations_of(description), grid_of(description)))


def _runs(description: Description, fixed: set[str]) -> list[list[str]]:
    found: list[list[str]] = []
    together = False
    for parameter in description.declaration.parameters:
        if isinstance(parameter.type, ConstAnnotation):
            continue  # it is not packed
        if isinstance(parameter.type, ViewAnnotation) or parameter.name in fixed:
            together = False
            continue
        if not together:
            found.append([])
        found[-1].append(parameter.name)
        together = True
    return found


def short_way(description: Description, found: Sequence[Relation], grid: GridPlan) -> ShortWay | None:
    """The short way, None where the type of a number depends on that of an array."""
    declaration, names = description.declaration, description.names
    if any(scalar.variable for scalar in description.scalars):
        return None
    stream = names["stream"]
    arrays = [f"{view.name}.token" for view in description.views]
    rest: list[str] = []
    fixed = deciding(description, found, grid)
    for parameter in declaration.parameters:
        if isinstance(parameter.type, ConstAnnotation):
            rest.append(f"{parameter.name}.hex()" if parameter.type.python_type is float else parameter.name)
        elif parameter.name in fixed:
            rest.append(_value(description, parameter))
    by_name = {parameter.name: parameter for parameter in declaration.parameters}
    runs = [", ".join(_value(description, by_name[name]) for name in run) for run in _runs(description, fixed)]
    key = [f"{stream} and {stream}.token" if description.views else f"{stream}.token", *arrays, *rest]
    given = [view.name for view in description.views]
    first = next((view.name for view in description.views if not view.map), None)
    foreign = _tuple([f"{names['foreign']}.state({', '.join([stream, *given])})", *rest])
    return ShortWay(_tuple(key), _tuple(given), first, foreign, runs)


def _value(description: Description, parameter: Parameter) -> str:
    """What is packed of a parameter: a number, or the bytes of a struct."""
    if isinstance(parameter.type, StructType):
        names, name = description.names, parameter.name
        return f"{name}.__kdsl_bytes__ or {names['struct_bytes']}({names['KERNEL']}, {quoted(name)}, {name})"
    assert isinstance(parameter.type, DType)
    return parameter.name


def _tuple(sources: Sequence[str]) -> str:
    return f"({', '.join(sources)}{',' if len(sources) == 1 else ''})"
