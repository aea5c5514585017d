"""Writes the launcher of a kernel: readable Python from its signature, geometry and contract, through the template `launcher.py.j2`.

Leaves out how the source becomes a function (`bind.py`) and what its failures say (`refuse.py`).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jinja2

from kdsl.lang.declaration import Declaration, Parameter, TypeVariable
from kdsl.lang.struct_type import ArrayType, StructType
from kdsl.lang.types import DTYPES, I64, U64, DType
from kdsl.lang.vectors import VectorType
from kdsl.lang.views import ConstAnnotation, ViewAnnotation
from kdsl.launch.contract import Names, Relation, quoted, relations
from kdsl.launch.grid import GridPlan, grid_plan
from kdsl.launch.refuse import BLOCKS_LIMIT

LINE_LENGTH: Final = 140

_IMPORTS: Final = (
    ("kdsl.lang.struct_type", ("StructType",)),
    ("kdsl.launch", ("refuse",)),
    ("kdsl.launch.arguments", ("constant", "large_float", "scalar", "vectors")),
    ("kdsl.launch.contract", ("extent", "quotient")),
    ("kdsl.launch.plan", ("Plans",)),
    ("kdsl.runtime.array", ("Array",)),
    ("kdsl.runtime.capture", ("Node", "captures", "launch_recorder")),
    ("kdsl.runtime.device", ("default_device",)),
    ("kdsl.runtime.stream", ("Stream",)),
    ("kdsl.runtime.tensor_map", ("DeviceTensorMap",)),
)
_LOCALS: Final = ("KERNEL", "plans", "stream", "device", "grid", "blocks_x", "blocks_y", "blocks_z", "plan", "recorder")
_ORIGINAL: Final = {"default_device": "device"}
"""Names that are imported under another one."""
_BUILTINS: Final = frozenset({"int", "float", "bool", "type"})
"""Names that launchers use, and that a parameter therefore cannot have."""


@dataclass
class _View:
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
class _Field:
    """A field of a struct, for the template."""

    source: str
    """Where its value is found, such as `p.shape.rows`."""
    local: str
    """The launcher's name of its value."""


@dataclass
class _Struct:
    """A struct parameter, for the template."""

    parameter: str
    """Name of the parameter."""
    class_name: str
    """The launcher's name of the class."""
    fields: list[_Field]
    """Its fields in order."""


@dataclass
class _Scalar:
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
class _Description:
    """All that the template needs."""

    declaration: Declaration
    """The kernel."""
    names: dict[str, str]
    """The launcher's own names."""
    views: list[_View] = field(default_factory=list)
    """Its array parameters."""
    structs: list[_Struct] = field(default_factory=list)
    """Its struct parameters."""
    classes: dict[str, type] = field(default_factory=dict)
    """Struct classes by the launcher's names."""
    elements: dict[str, StructType] = field(default_factory=dict)
    """Struct types that are elements of arrays, by the launcher's names."""
    scalars: list[_Scalar] = field(default_factory=list)
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


def launcher_source(declaration: Declaration) -> str:
    """The launcher's module as Python source. Raises ContractError for an expression, ValueError for the rest."""
    return _render(_describe(declaration))


def launcher_source_and_classes(declaration: Declaration) -> tuple[str, dict[str, Any]]:
    """The source, and the struct classes and types that have to be bound to its names; `plans` is bound beside them."""
    description = _describe(declaration)
    return _render(description), {
        "plans": description.names["plans"],
        "stream": description.names["stream"],
        "classes": {**description.classes, **description.elements},
    }


# ------------------------------------------------------------------------------------------------------------------------------ reading


def _describe(declaration: Declaration) -> _Description:
    own = [parameter.name for parameter in declaration.parameters]
    for name in own:
        if name in _BUILTINS:
            raise ValueError(f"kernel {declaration.name}: a parameter cannot be called {name}")
    namer = _Namer([*own, declaration.name, *_BUILTINS])
    every = (*_LOCALS, *(name for _, names in _IMPORTS for name in names))
    description = _Description(declaration, {name: namer.name(name) for name in every})
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


def _add(description: _Description, parameter: Parameter, namer: _Namer) -> None:
    name = parameter.name
    match parameter.type:
        case ViewAnnotation() as annotation:
            _add_view(description, name, annotation, namer)
        case ConstAnnotation(python_type=kind):
            limits = (I64.minimum, U64.maximum) if kind is int else None  # what an integer literal can be
            description.scalars.append(_Scalar(name, kind.__name__, constant=True, limits=limits))
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
            allowed = _allowed(variable)
            description.scalars.append(_Scalar(name, variable=description.variables[variable]))
            description.values.append(name)
            if allowed and all(of.is_integer for of in allowed):
                description.integers[name] = name
            else:
                description.others[name] = f"of the type variable {variable.__name__}"


def _add_view(description: _Description, name: str, annotation: ViewAnnotation, namer: _Namer) -> None:
    element = annotation.element
    view = _View(name, str(annotation), namer.name(f"{name}_address"), "", annotation.kind, annotation.rank)
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
        allowed = [description.types[choice] for choice in _allowed(element)]
        if allowed and view.defines:
            view.allowed = f"({', '.join(allowed)}{',' if len(allowed) == 1 else ''})"
    description.views.append(view)
    description.values += [f"{view.map}.bytes" if view.map else view.address, *view.shape, *view.strides]
    description.lengths[name] = view.length
    description.shapes[name] = counted
    description.natural += counted


def _add_struct(description: _Description, parameter: Parameter, struct: StructType, namer: _Namer) -> None:
    assert parameter.python_class is not None, "a struct parameter comes with its class"
    known = [local for local, cls in description.classes.items() if cls is parameter.python_class]
    class_name = known[0] if known else namer.name(struct.name)
    description.classes[class_name] = parameter.python_class
    description.members[parameter.name] = struct
    described = _Struct(parameter.name, class_name, [])
    description.structs.append(described)
    for member in struct.members:
        full = f"{parameter.name}.{member.name}"
        local = namer.name(full.replace(".", "_"))
        description.values.append(local)
        if isinstance(member.type, ArrayType):
            owner, _, name = full.rpartition(".")
            described.fields.append(_Field(f"{owner}.__kdsl_arrays__[{quoted(name)}]", local))
        else:
            described.fields.append(_Field(full, local))
            _add_number(description, full, local, member.type)


def _add_number(description: _Description, name: str, local: str, of: DType) -> None:
    if of.is_float:
        description.others[name] = f"a float ({of})"
        return
    description.integers[name] = local
    if not of.is_signed:
        description.natural.append(local)


def _scalar(name: str, of: DType, imported: str) -> _Scalar:
    if of.is_integer:
        return _Scalar(name, "int", imported, limits=(of.minimum, of.maximum))
    if of.is_bool:
        return _Scalar(name, "bool", imported)
    largest = "" if of.bits == 64 else repr(of.format.largest).replace("e+", "e")
    return _Scalar(name, "float", imported, largest=largest)


def _allowed(variable: TypeVariable) -> list[DType]:
    return [choice for choice in variable.__constraints__ if isinstance(choice, DType)]


def _names(description: _Description) -> Names:
    names = description.names
    return Names(
        description.lengths, description.integers, description.others, description.shapes, description.members,
        names["extent"], names["quotient"], names["KERNEL"],
    )  # fmt: skip


def _relations(description: _Description) -> list[Relation]:
    declaration = description.declaration
    names = _names(description)
    found: list[Relation] = []
    for index, text in enumerate(declaration.requires):
        found += relations(text, names, f"requires[{index}] of kernel {declaration.name}")
    return found


def _grid(description: _Description) -> GridPlan:
    return grid_plan(description.declaration, _names(description), description.natural)


# ------------------------------------------------------------------------------------------------------------------------------ writing


def _render(description: _Description) -> str:
    declaration, names = description.declaration, description.names
    found, grid = _relations(description), _grid(description)
    arguments: list[str] = [names["device"], *description.variables.values()]
    for parameter in declaration.parameters:
        if isinstance(parameter.type, ConstAnnotation):
            arguments.append(f"{parameter.name}.hex()" if parameter.type.python_type is float else parameter.name)
    body = _template().render(
        n=names,
        kernel=declaration.name,
        module=_escaped(declaration.module),
        imports=["<imports>"],
        views=description.views,
        maps=[view for view in description.views if view.map],
        structs=description.structs,
        elements=list(description.elements),
        scalars=description.scalars,
        signature=_signature(description),
        docstring=_docstring(description, grid),
        relations=[_rendered(relation) for relation in found],
        grid=grid,
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
        arguments=f"{{{', '.join(f'{quoted(p.name)}: {_given(description, p.name)}' for p in declaration.parameters)}}}",
        by_name=f"{{{', '.join(f'{quoted(view.name)}: {view.name}' for view in description.views)}}}",
        call=_call,
    )
    return body.replace("<imports>", "\n".join(_imports(description, body)), 1)


def _given(description: _Description, parameter: str) -> str:
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


def _imports(description: _Description, body: str) -> list[str]:
    """The imports that the body needs, in the order of a formatter."""
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in body).split())
    types = sorted((of.name.upper(), local) for of, local in description.types.items() if local in words)
    lines = [f"from kdsl.lang.types import {', '.join(_import(*pair) for pair in types)}"] if types else []
    for module, names in _IMPORTS:
        used = [name for name in names if description.names[name] in words]
        if used:
            lines.append(f"from {module} import {', '.join(_import(name, description.names[name]) for name in used)}")
    return sorted(lines)


def _import(name: str, local: str) -> str:
    original = _ORIGINAL.get(name, name)
    return original if original == local else f"{original} as {local}"


def _signature(description: _Description) -> list[str]:
    """One line per parameter, as the kernel declares them, then the stream."""
    lines: list[str] = []
    keyword_only = False
    for parameter in description.declaration.parameters:
        if parameter.keyword_only and not keyword_only:
            lines.append("*,")
            keyword_only = True
        annotation, comment = _annotation(description, parameter)
        default = f" = {_default(parameter.default)}" if parameter.default is not None else ""
        lines.append(f"{parameter.name}: {annotation}{default},{f'  # {comment}' if comment else ''}")
    if not keyword_only:
        lines.append("*,")
    lines.append(f"{description.names['stream']}: {description.names['Stream']} | None = None,  # chosen by on(stream)")
    return lines


def _annotation(description: _Description, parameter: Parameter) -> tuple[str, str]:
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


def _default(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


# ---------------------------------------------------------------------------------------------------------------------------- docstring

_VIEWS: Final = {
    "Slice": "Array that the kernel reads.",
    "DisjointSlice": "Array of which every element belongs to one thread.",
    "SliceMut": "Array that the kernel reads and writes anywhere.",
    "TensorMap": "Array on a GPU that the kernel copies in boxes, or a tensor map of one.",
}


def _docstring(description: _Description, grid: GridPlan) -> str:
    """The kernel's docstring, every parameter and field, the contract and the grid; indented, ready to stand between triple quotes."""
    declaration = description.declaration
    lines = [*(declaration.doc.splitlines() or [f"Launch the kernel {declaration.name}."]), "", "Parameters", "----------"]
    for parameter in declaration.parameters:
        lines += _documented(description, parameter)
    if declaration.requires:
        lines += ["", "Contract", "--------", *(f"`{text}`" for text in declaration.requires)]
    x, y, z = declaration.block_dim
    threads = f"{x} x {y} x {z}" if z > 1 else f"{x} x {y}" if y > 1 else str(x)
    lines += ["", "Grid", "----", f"{grid.description[0].upper()}{grid.description[1:]}; blocks of {threads} threads."]
    lines += ["", "Raises", "------", "LaunchError", "    An argument, the contract, overlap or the grid is wrong; nothing has run."]
    text = "\n".join(f"    {line}".rstrip() for line in lines).strip()
    return _escaped(text)


def _escaped(text: str) -> str:
    """Text that may stand between triple quotes, if a line follows it."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _documented(description: _Description, parameter: Parameter) -> list[str]:
    annotation, comment = _annotation(description, parameter)
    default = f", default {_default(parameter.default)}" if parameter.default is not None else ""
    lines = [f"{parameter.name} : {comment or annotation}{default}"]
    if isinstance(parameter.type, ViewAnnotation):
        lines.append(f"    {_VIEWS[parameter.type.kind]}")
        if parameter.type.kind == "TensorMap":
            lines.append(
                f"    It has {parameter.type.rank} dimension{'s' if parameter.type.rank > 1 else ''}, the last of elements side by side."
            )
        elif parameter.type.has_strides:
            dimensions = f"{parameter.type.rank} dimensions" if parameter.type.rank > 1 else "one dimension"
            wide = isinstance(parameter.type.element, VectorType)
            lines.append(f"    It has {dimensions}, {'the last one without gaps' if wide else 'with any strides'}.")
        if isinstance(parameter.type.element, VectorType):
            of = parameter.type.element
            lines.append(f"    An array of {of.element}: rows of multiples of {of.lanes}, aligned to {of.itemsize} bytes.")
    if isinstance(parameter.type, ConstAnnotation):
        lines.append("    Compile-time constant: each value has its own compiled version.")
    if isinstance(parameter.type, StructType):
        lines += [f"    {line}".rstrip() for line in parameter.type.doc.splitlines()]
        lines.append("")
        lines += _documented_fields(parameter.type, "")
    return lines


def _documented_fields(struct: StructType, path: str) -> list[str]:
    """The fields of a struct, those of structs in it by their full names behind it."""
    lines: list[str] = []
    for declared in struct.fields:
        lines.append(f"    {path}{declared.name} : {declared.type}")
        lines += [f"        {line}".rstrip() for line in declared.doc.splitlines()]
        inner = declared.type.element if isinstance(declared.type, ArrayType) else declared.type
        if isinstance(inner, StructType):
            several = f"[{', '.join('.' * len(declared.type.shape))}]".replace(".", "…") if isinstance(declared.type, ArrayType) else ""
            lines += _documented_fields(inner, f"{path}{declared.name}{several}.")
    return lines
