"""What the launcher of a kernel consists of, read from the kernel's signature, geometry and contract. `generate.py` writes it down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kdsl.lang.declaration import Declaration, Parameter, TypeVariable
from kdsl.lang.struct_type import ArrayType, StructType
from kdsl.lang.types import DTYPES, I64, U64, DType
from kdsl.lang.vectors import VectorType
from kdsl.lang.views import ConstAnnotation, ViewAnnotation
from kdsl.launch.contract import Names, Relation, quoted, relations
from kdsl.launch.grid import GridPlan, grid_plan

IMPORTS: Final = (
    ("kdsl.frontend.errors", ("KernelError",)),
    ("kdsl.lang.struct_type", ("StructType",)),
    ("kdsl.launch", ("foreign", "refuse")),
    ("kdsl.launch.arguments", ("constant", "large_float", "scalar", "vectors")),
    ("kdsl.launch.contract", ("extent", "quotient")),
    ("kdsl.launch.packing", ("struct_bytes",)),
    ("kdsl.launch.plan", ("Plans",)),
    ("kdsl.runtime.array", ("Array",)),
    ("kdsl.runtime.capture", ("Node", "captures", "launch_recorder")),
    ("kdsl.runtime.device", ("default_device",)),
    ("kdsl.runtime.memory", ("uses",)),
    ("kdsl.runtime.stream", ("Stream",)),
    ("kdsl.runtime.tensor_map", ("DeviceTensorMap",)),
)
_LOCALS: Final = (
    "KERNEL", "plans", "stream", "device", "grid", "blocks_x", "blocks_y", "blocks_z", "plan", "recorder", "ready", "key", "launch",
    "generation", "error",
)  # fmt: skip
ORIGINAL: Final = {"default_device": "device"}
"""Names that are imported under another one."""
_BUILTINS: Final = frozenset({"int", "float", "bool", "type"})
"""Names that launchers use, and that a parameter therefore cannot have."""


@dataclass
class ViewPart:
    """An array parameter, for the template."""

    name: str
    """Name of the parameter."""
    annotation: str
    """As it is written in the kernel, such as `Slice[f32]`."""
    address: str
    """The launcher's name of the address."""
    length: str
    """The launcher's name of the length."""
    kind: str
    """`Slice`, `DisjointSlice` or `SliceMut`."""
    rank: int = 1
    """Number of dimensions."""
    shape: list[str] = field(default_factory=list)
    """The launcher's names of the extents."""
    strides: list[str] = field(default_factory=list)
    """The launcher's names of the strides, if it has some."""
    lanes: int = 1
    """Numbers of an element."""
    vectors: str = ""
    """The launcher's name of the last extent in vectors."""
    alignment: int = 1
    """Bytes of an element that is a vector."""
    element: str = ""
    """Name of the element type, empty if a type variable decides."""
    variable: str = ""
    """The launcher's name of the type variable."""
    variable_name: str = ""
    """Its own name."""
    defines: bool = False
    """Whether it is the first array with that variable."""
    like: str = ""
    """The first array with that variable."""
    allowed: str = ""
    """A tuple of the types that the variable allows, empty for any."""
    given: str = ""
    """The launcher's name of what was given for a tensor map: a map or an array."""
    map: str = ""
    """The launcher's name of the tensor map."""

    @property
    def first(self) -> str:
        """Source of the lowest address of its elements."""
        return self.address if self.rank == 1 and not self.strides and self.kind != "TensorMap" else f"{self.name}.start"


@dataclass
class FieldPart:
    """A field of a struct, for the template."""

    source: str
    """Where its value is found, such as `p.shape.rows`."""
    local: str
    """The launcher's name of its value."""


@dataclass
class StructPart:
    """A struct parameter, for the template."""

    parameter: str
    """Name of the parameter."""
    class_name: str
    """The launcher's name of the class."""
    fields: list[FieldPart]
    """Its fields in order."""


@dataclass
class ScalarPart:
    """A number, for the template."""

    name: str
    """Name of the parameter."""
    python: str = ""
    """Python's type of its values."""
    type: str = ""
    """The launcher's name of the element type."""
    constant: bool = False
    """Whether it is a compile-time constant."""
    variable: str = ""
    """The launcher's name of the type variable, if one decides the type."""
    limits: tuple[int, int] | None = None
    """Smallest and largest integer."""
    largest: str = ""
    """Largest finite float, empty where every Python float fits."""


class _Namer:
    """Names that collide neither with parameters nor with each other."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def name(self, wanted: str) -> str:
        """`wanted`, with underscores behind it as long as it is taken."""
        while wanted in self._taken:
            wanted += "_"
        self._taken.add(wanted)
        return wanted


@dataclass
class Description:
    """All that the template needs."""

    declaration: Declaration
    """The kernel."""
    names: dict[str, str]
    """The launcher's own names."""
    views: list[ViewPart] = field(default_factory=list)
    """Its array parameters."""
    structs: list[StructPart] = field(default_factory=list)
    """Its struct parameters."""
    classes: dict[str, type] = field(default_factory=dict)
    """Struct classes by the launcher's names."""
    elements: dict[str, StructType] = field(default_factory=dict)
    """Struct types that are elements of arrays, by the launcher's names."""
    scalars: list[ScalarPart] = field(default_factory=list)
    """Its numbers."""
    types: dict[DType, str] = field(default_factory=dict)
    """The launcher's names of the element types that it may import."""
    variables: dict[TypeVariable, str] = field(default_factory=dict)
    """The launcher's names of the type variables."""
    values: list[str] = field(default_factory=list)
    """Sources of the packed values, in order."""
    lengths: dict[str, str] = field(default_factory=dict)
    """Array parameter to the launcher's name of its length."""
    shapes: dict[str, list[str]] = field(default_factory=dict)
    """Array parameter to the launcher's names of its extents."""
    integers: dict[str, str] = field(default_factory=dict)
    """Integer parameter or field to the launcher's name of its value."""
    others: dict[str, str] = field(default_factory=dict)
    """Any other parameter or field to what it is."""
    members: dict[str, StructType] = field(default_factory=dict)
    """Struct parameters to what they are."""
    natural: list[str] = field(default_factory=list)
    """Sources that cannot be negative."""


def describe(declaration: Declaration) -> Description:
    """What the launcher of a kernel consists of. Raises ContractError for an expression, ValueError for the rest."""
    own = [parameter.name for parameter in declaration.parameters]
    for name in own:
        if name in _BUILTINS:
            raise ValueError(f"kernel {declaration.name}: a parameter cannot be called {name}")
    namer = _Namer([*own, declaration.name, *_BUILTINS])
    every = (*_LOCALS, *(name for _, names in IMPORTS for name in names))
    description = Description(declaration, {name: namer.name(name) for name in every})
    description.types = {of: namer.name(of.name.upper()) for of in DTYPES.values()}
    for variable in declaration.type_variables:
        description.variables[variable] = namer.name(variable.__name__)
    for parameter in declaration.parameters:
        _add(description, parameter, namer)
    undecided = [v.__name__ for v in declaration.type_variables if v not in _defined(declaration)]
    if undecided:
        raise ValueError(f"kernel {declaration.name}: no array parameter decides the type variable {', '.join(undecided)}")
    return description


def _defined(declaration: Declaration) -> dict[TypeVariable, str]:
    """The first array parameter with each type variable."""
    found: dict[TypeVariable, str] = {}
    for parameter in declaration.parameters:
        if isinstance(parameter.type, ViewAnnotation) and not isinstance(parameter.type.element, DType | VectorType):
            found.setdefault(parameter.type.element, parameter.name)
    return found


def _add(description: Description, parameter: Parameter, namer: _Namer) -> None:
    name = parameter.name
    match parameter.type:
        case ViewAnnotation() as annotation:
            _add_view(description, name, annotation, namer)
        case ConstAnnotation(python_type=kind):
            limits = (I64.minimum, U64.maximum) if kind is int else None  # what an integer literal can be
            description.scalars.append(ScalarPart(name, kind.__name__, constant=True, limits=limits))
            if kind is float:
                description.others[name] = "a float constant"
            else:
                description.integers[name] = name
        case StructType() as struct:
            _add_struct(description, parameter, struct, namer)
        case DType() as of:
            description.scalars.append(_scalar(name, of, description.types[of]))
            description.values.append(name)
            _add_number(description, name, name, of)
        case variable:
            allowed = allowed_types(variable)
            description.scalars.append(ScalarPart(name, variable=description.variables[variable]))
            description.values.append(name)
            if allowed and all(of.is_integer for of in allowed):
                description.integers[name] = name
            else:
                description.others[name] = f"of the type variable {variable.__name__}"


def _add_view(description: Description, name: str, annotation: ViewAnnotation, namer: _Namer) -> None:
    element = annotation.element
    view = ViewPart(name, str(annotation), namer.name(f"{name}_address"), "", annotation.kind, annotation.rank)
    if annotation.kind == "TensorMap":
        view.given, view.map = namer.name(f"{name}_given"), namer.name(f"{name}_map")
    if annotation.rank == 1:
        view.shape = [namer.name(f"{name}_length")]
    else:
        view.shape = [namer.name(f"{name}_shape_{dimension}") for dimension in range(annotation.rank)]
    if annotation.has_strides and annotation.kind != "TensorMap":
        view.strides = [namer.name(f"{name}_stride_{dimension}") for dimension in range(annotation.rank)]
    counted = list(view.shape)  # in elements, which may be vectors
    if isinstance(element, VectorType):
        view.lanes, view.alignment = element.lanes, element.itemsize
        view.vectors = counted[-1] = namer.name(f"{name}_vectors")
        element = element.element
    view.length = counted[0]
    if isinstance(element, StructType):
        known = [local for local, of in description.elements.items() if of is element.canonical]
        view.element = known[0] if known else namer.name(element.name.upper())
        description.elements[view.element] = element.canonical
    elif isinstance(element, DType):
        view.element = description.types[element]
    else:
        view.variable, view.variable_name = description.variables[element], element.__name__
        view.like = _defined(description.declaration)[element]
        view.defines = view.like == name
        allowed = [description.types[choice] for choice in allowed_types(element)]
        if allowed and view.defines:
            view.allowed = f"({', '.join(allowed)}{',' if len(allowed) == 1 else ''})"
    description.views.append(view)
    description.values += [f"{view.map}.bytes" if view.map else view.address, *view.shape, *view.strides]
    description.lengths[name] = view.length
    description.shapes[name] = counted
    description.natural += counted


def _add_struct(description: Description, parameter: Parameter, struct: StructType, namer: _Namer) -> None:
    assert parameter.python_class is not None, "a struct parameter comes with its class"
    known = [local for local, cls in description.classes.items() if cls is parameter.python_class]
    class_name = known[0] if known else namer.name(struct.name)
    description.classes[class_name] = parameter.python_class
    description.members[parameter.name] = struct
    described = StructPart(parameter.name, class_name, [])
    description.structs.append(described)
    for member in struct.members:
        full = f"{parameter.name}.{member.name}"
        local = namer.name(full.replace(".", "_"))
        description.values.append(local)
        if isinstance(member.type, ArrayType):
            owner, _, name = full.rpartition(".")
            described.fields.append(FieldPart(f"{owner}.__kdsl_arrays__[{quoted(name)}]", local))
        else:
            described.fields.append(FieldPart(full, local))
            _add_number(description, full, local, member.type)


def _add_number(description: Description, name: str, local: str, of: DType) -> None:
    if of.is_float:
        description.others[name] = f"a float ({of})"
        return
    description.integers[name] = local
    if not of.is_signed:
        description.natural.append(local)


def _scalar(name: str, of: DType, imported: str) -> ScalarPart:
    if of.is_integer:
        return ScalarPart(name, "int", imported, limits=(of.minimum, of.maximum))
    if of.is_bool:
        return ScalarPart(name, "bool", imported)
    largest = "" if of.bits == 64 else repr(of.format.largest).replace("e+", "e")
    return ScalarPart(name, "float", imported, largest=largest)


def allowed_types(variable: TypeVariable) -> list[DType]:
    """The element types that a type variable may stand for."""
    return [choice for choice in variable.__constraints__ if isinstance(choice, DType)]


def names_of(description: Description) -> Names:
    """The launcher's names, as the parser of expressions wants them."""
    names = description.names
    return Names(
        description.lengths, description.integers, description.others, description.shapes, description.members,
        names["extent"], names["quotient"], names["KERNEL"],
    )  # fmt: skip


def relations_of(description: Description) -> list[Relation]:
    """The relations of the contract."""
    declaration = description.declaration
    names = names_of(description)
    found: list[Relation] = []
    for index, text in enumerate(declaration.requires):
        found += relations(text, names, f"requires[{index}] of kernel {declaration.name}")
    return found


def grid_of(description: Description) -> GridPlan:
    """How the launcher computes the grid."""
    return grid_plan(description.declaration, names_of(description), description.natural)


def annotation_of(description: Description, parameter: Parameter) -> tuple[str, str]:
    """The annotation of a parameter in the launcher, and what it is in the kernel."""
    match parameter.type:
        case ViewAnnotation():
            view = next(view for view in description.views if view.name == parameter.name)
            array = description.names["Array"]
            return f"{array} | {description.names['DeviceTensorMap']}" if view.map else array, view.annotation
        case ConstAnnotation(python_type=kind):
            return kind.__name__, f"Const[{kind.__name__}]"
        case StructType():
            return next(struct.class_name for struct in description.structs if struct.parameter == parameter.name), ""
        case DType() as of:
            return "float" if of.is_float else "bool" if of.is_bool else "int", of.name
        case variable:
            return "float", variable.__name__
