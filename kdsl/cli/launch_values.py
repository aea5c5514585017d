"""`--set` for what only a launch knows: the values on which the sizes of shared arrays depend, by the names that contracts have for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kdsl.cli.settings import WrongSetting
from kdsl.compiler import Kernel
from kdsl.ir import nodes
from kdsl.ir.shared import shared_layout
from kdsl.lang.declaration import StructType
from kdsl.lang.limits import ALIGNMENT
from kdsl.lang.types import DType
from kdsl.lang.views import ViewAnnotation
from kdsl.launch.contract import Names, quotient, size
from kdsl.launch.shared import placed

_NAMES: Final = re.compile(r"len\(\w+\)|\w+\.shape\[\d+\]|[A-Za-z_]\w*\.\w+|[A-Za-z_]\w*")


def launch_names(kernel: Kernel) -> list[str]:
    """The names that values of a launch have: integer parameters and fields, lengths and shapes."""
    found: list[str] = []
    for parameter in kernel.declaration.parameters:
        match parameter.type:
            case ViewAnnotation(rank=rank):
                found += [f"len({parameter.name})", *(f"{parameter.name}.shape[{dimension}]" for dimension in range(rank))]
            case StructType(fields=fields):
                found += [f"{parameter.name}.{field.name}" for field in fields if isinstance(field.type, DType) and field.type.is_integer]
            case DType() as of if of.is_integer:
                found.append(parameter.name)
    return found


def launch_values(kernel: Kernel, texts: Mapping[str, str]) -> dict[str, int]:
    """The values of a launch that are given. Raises WrongSetting for one that is no integer."""
    values = {}
    for name in launch_names(kernel):
        if name in texts:
            try:
                values[name] = int(texts[name], 0)
            except ValueError:
                raise WrongSetting(f"{name} is an integer, not {texts[name]!r}") from None
    return values


def launch_bytes(kernel: nodes.Kernel, values: Mapping[str, int]) -> int | None:
    """Bytes of the shared arrays whose extents a launch with these values decides, None if it takes others, too."""
    given = dict(values)
    for name, value in values.items():
        if name.startswith("len("):
            given[f"{name[4:-1]}.shape[0]"] = value
        elif name.endswith(".shape[0]"):
            given[f"len({name.removesuffix('.shape[0]')})"] = value
    needed = {n for view in kernel.shared_views for e in view.extents if isinstance(e, str) for n in _NAMES.findall(e)}
    if not needed <= set(given):
        return None
    names = Names(
        {n[4:-1]: str(v) for n, v in given.items() if n.startswith("len(")},
        {n: f"({v})" for n, v in given.items() if not n.startswith("len(") and ".shape[" not in n},
        {},
        {
            p.name: [str(given.get(f"{p.name}.shape[{d}]", 0)) for d in range(p.rank)]
            for p in kernel.parameters
            if isinstance(p, nodes.View)
        },
    )
    start = end = shared_layout(kernel.arrays, kernel.shared_views).size
    for view in kernel.shared_views:
        sources = [size(e, names, f"the shape of {view.name}") if isinstance(e, str) else str(e) for e in view.extents]
        shape = [eval(source, {"quotient": quotient, "KERNEL": kernel.name}) for source in sources]
        if min(shape) < 0:
            raise WrongSetting(f"with these values the shared array {view.name} has a negative extent: {shape}")
        end = placed(view, shape, end, ALIGNMENT)[1]
    return end - start
