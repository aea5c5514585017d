"""What a kernel declares, before any of its body is compiled: parameters, geometry, contract. Read by the frontend and by the launcher."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from kdsl.lang.attributes import PLAIN, Attributes
from kdsl.lang.geometry import Geometry
from kdsl.lang.struct_type import StructType as StructType
from kdsl.lang.types import DType
from kdsl.lang.views import ConstAnnotation, ViewAnnotation

TypeVariable: TypeAlias = TypeVar


ParameterType: TypeAlias = "ViewAnnotation | ConstAnnotation | StructType | DType | TypeVariable"


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    """Its name."""
    type: ParameterType
    """A view, a constant, a struct, a scalar, or a type variable (a scalar of that type)."""
    keyword_only: bool
    """Whether it stands behind `*`."""
    python_class: builtins.type | None = None
    """The class of a struct."""
    default: object = None
    """Default of a constant or scalar, None if it has none."""


@dataclass(frozen=True)
class Declaration:
    """One kernel, as declared."""

    name: str
    """Name of the function."""
    module: str
    """Module that defines it."""
    doc: str
    """Its docstring."""
    parameters: tuple[Parameter, ...]
    """In order."""
    geometry: Geometry
    """How the grid follows from the arguments."""
    block_dim: tuple[int, int, int]
    """Threads per block."""
    requires: tuple[str, ...]
    """Relations that must hold at a launch."""
    contract_fma: bool
    """Whether `a * b + c` fuses."""
    type_variables: tuple[TypeVariable, ...] = field(default=())
    """Type variables that occur in the parameters, in order."""
    attributes: Attributes = PLAIN
    """What it asks of its launches beyond a grid of blocks."""
    spills: bool = True
    """Whether registers may be spilled to memory on a GPU."""
    resident: int = 1
    """Blocks for which a GPU's multiprocessor shall have registers at a time."""
