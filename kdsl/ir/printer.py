"""The IR as text: for people, for tests, and as the content by which compiled code is cached (so it shows everything that a backend reads)."""

from __future__ import annotations

import hashlib

from kdsl.ir import nodes
from kdsl.ir.nodes import Access
from kdsl.lang.limits import ALIGNMENT
from kdsl.lang.types import DType


def print_kernel(kernel: nodes.Kernel, *, locations: bool = False) -> str:
    """The whole kernel. With `locations`, each operation ends with its place in the source."""
    return _Printer(kernel, locations).text()


class _Printer:
    def __init__(self, kernel: nodes.Kernel, locations: bool) -> None:
        self.kernel = kernel
        self.locations = locations
        self.lines: list[str] = []
        self.names: dict[nodes.ValueOp, str] = {}
        self.variables: dict[nodes.Variable, str] = {v: f"${v.name}.{n}" for n, v in enumerate(kernel.variables)}
        self.arrays: dict[nodes.Array, str] = {a: f"@{a.name}.{n}" for n, a in enumerate(kernel.arrays)}
        self.scopes: dict[nodes.Scope, str] = {}

    def text(self) -> str:
        kernel = self.kernel
        parameters = ", ".join(map(_parameter, kernel.parameters))
        self.lines.append(
            f"kernel {kernel.name}({parameters}) block {kernel.block_dim} grid of rank {kernel.grid_rank}{self._place(kernel.location)}"
        )
        if str(kernel.attributes):
            self.lines.append(f"  {kernel.attributes}")
        if kernel.resident > 1:
            self.lines.append(f"  resident {kernel.resident}")
        for array, name in self.arrays.items():
            aligned = f" align {array.alignment}" if array.alignment != ALIGNMENT else ""
            swizzle = f" swizzle {array.swizzle}" if array.swizzle else ""
            content = f" {hashlib.sha256(array.content).hexdigest()}" if array.space == "constant" else ""
            self.lines.append(f"  {array.space} {name}: {_element(array.type)}{list(array.shape)}{aligned}{swizzle}{content}")
        for view in kernel.shared_views:
            aligned = f" align {view.begins_at}" if view.begins_at != ALIGNMENT else ""
            swizzle = f" swizzle {view.swizzle}" if view.swizzle else ""
            self.lines.append(f"  shared {view.name}: {_element(view.type)}[{', '.join(map(str, view.extents))}]{aligned}{swizzle}")
        for variable, name in self.variables.items():
            self.lines.append(f"  var {name}: {variable.type}")
        self.block(kernel.body, "  ")
        for number, site in enumerate(kernel.sites):
            shape = "" if site.extents is None else f" {list(site.extents)}"
            self.lines.append(f"  site {number}: {site.kind} {site.name!r}{shape}{self._place(site.location)}")
        return "\n".join(self.lines) + "\n"

    def _place(self, location: nodes.Location) -> str:
        if not self.locations:
            return ""
        text, caller = f"  # {location}", location.caller
        while caller is not None:
            text, caller = f"{text} from {caller}", caller.caller
        return text

    def line(self, indent: str, text: str, op: nodes.Op) -> None:
        self.lines.append(f"{indent}{text}{self._place(op.location)}")

    def use(self, value: nodes.ValueOp) -> str:
        return self.names.get(value, "%?")

    def block(self, block: nodes.Block, indent: str) -> None:
        for op in block:
            self.op(op, indent)

    def nested(self, block: nodes.Block, indent: str, title: str = "") -> None:
        if title:
            self.lines.append(f"{indent}{title}")
        self.block(block, indent + "  ")

    def op(self, op: nodes.Op, indent: str) -> None:
        if isinstance(op, nodes.ValueOp):
            self.names[op] = f"%{len(self.names)}"
            limits = f" in [{op.range[0]}, {op.range[1]}]" if op.range is not None else ""
            self.line(indent, f"{self.names[op]}: {op.type} = {self.value(op)}{limits}", op)
            return
        use = self.use
        match op:
            case nodes.Set():
                self.line(indent, f"{self.variables[op.variable]} = {use(op.value)}", op)
            case nodes.Store():
                self.line(indent, f"store {self.element(op)} = {use(op.value)}{_check(op)}", op)
            case nodes.Clear():
                self.line(indent, f"clear {self.arrays[op.array]}", op)
            case nodes.LoadVector():
                self.line(indent, f"load {op.lanes} of {self.element(op)}{_check(op)}", op)
            case nodes.StoreVector():
                values = ", ".join(use(value) for value in op.values)
                self.line(indent, f"store {op.lanes} of {self.element(op)} = ({values}){_check(op)}", op)
            case nodes.Fence():
                self.line(indent, f"fence {op.scope}{'' if op.order == 'seq_cst' else f' {op.order}'}", op)
            case nodes.Instruction():
                parts = [self.element(element) for element in op.elements] + [use(a) for a in op.arguments]
                parts += [f"{name}={value}" for name, value in op.options.items()]
                self.line(indent, f"{op.name}({', '.join(parts)})", op)
            case nodes.Print():
                self.line(indent, f"print({', '.join(use(v) for v in op.values)}) site {op.site}", op)
            case nodes.Sleep():
                self.line(indent, f"sleep {use(op.nanoseconds)}", op)
            case nodes.Assertion():
                about = f" about {', '.join(map(use, op.about))}" if op.about is not None else ""
                self.line(indent, f"assert {use(op.condition)} site {op.site}{about}", op)
            case nodes.If():
                self.line(indent, f"if {use(op.condition)}:", op)
                self.nested(op.then, indent)
                if op.orelse.ops:
                    self.nested(op.orelse, indent, "else:")
            case nodes.While():
                self.line(indent, "while:", op)
                self.nested(op.head, indent)
                self.nested(op.body, indent, f"do {use(op.condition)}:")
                if op.orelse.ops:
                    self.nested(op.orelse, indent, "else:")
            case nodes.ForRange():
                self.names[op.counter] = f"%{len(self.names)}"
                limits = f" in [{op.counter.range[0]}, {op.counter.range[1]}]" if op.counter.range is not None else ""
                self.line(indent, f"for {use(op.counter)}{limits} in range({use(op.start)}, {use(op.stop)}, {use(op.step)}):", op)
                self.nested(op.body, indent)
                if op.orelse.ops:
                    self.nested(op.orelse, indent, "else:")
            case nodes.Scope():
                self.scopes[op] = f"scope.{len(self.scopes)}"
                self.line(indent, f"{self.scopes[op]}:", op)
                self.nested(op.body, indent)
            case nodes.Leave():
                self.line(indent, f"leave {self.scopes.get(op.scope, 'scope.?')}", op)
            case _:
                self.line(indent, type(op).__name__.lower(), op)

    def value(self, op: nodes.ValueOp) -> str:
        arguments = ", ".join(self.use(o) for o in nodes.operands(op))
        match op:
            case nodes.Constant():
                return repr(op.value)
            case nodes.ParameterValue():
                return op.parameter.name
            case nodes.Length():
                return f"len({op.view.name})" if op.view.rank == 1 else f"{op.view.name}.shape[{op.dimension}]"
            case nodes.Special():
                return op.name
            case nodes.Unary() | nodes.Binary() | nodes.Ternary() | nodes.Compare():
                return f"{op.op}({arguments})"
            case nodes.Get():
                return self.variables[op.variable]
            case nodes.Load():
                return f"load {self.element(op)}{_check(op)}{self.rows(op.row_check)}"
            case nodes.Check():
                within = f" within {list(op.shape)}" if op.shape else ""
                return f"check {self.element(op)}{within} site {op.site}"
            case nodes.Exchange():
                given = ", ".join(self.use(a) for a in op.arguments)
                width = f" width {op.width}" if op.width != nodes.WARP_SIZE else ""
                return f"{op.name}({given}){width}{f' mask {self.use(op.mask)}' if op.mask is not None else ''}"
            case nodes.Atomic():
                given = ", ".join(self.use(a) for a in op.arguments)
                return f"atomic {op.op} {self.element(op)} by ({given}) {op.order} {op.scope}{_check(op)}"
            case nodes.Clock():
                return op.name
            case nodes.Approximation():
                return f"{op.name}({arguments})"
            case nodes.Result():
                return f"{op.of.name} result {op.index}"
            case _:
                return f"{type(op).__name__.lower()}({arguments})"

    def rows(self, check: nodes.RowCheck | None) -> str:
        if check is None:
            return ""
        row, width, rest, count = map(self.use, (check.row, check.width, check.rest, check.count))
        return f" by {row} of {count} rows, {row} * {width} + {rest}"

    def element(self, op: Access | nodes.Check | nodes.Element) -> str:
        name = self.arrays.get(op.memory, op.memory.name) if isinstance(op.memory, nodes.Array) else op.memory.name
        field = _field(op.field) if isinstance(op, nodes.Load | nodes.Store | nodes.Atomic) and op.field is not None else ""
        block = "" if op.remote is None else f" of block {self.use(op.remote)}"
        hint = f" {op.cache}" if isinstance(op, nodes.PlainAccess) and op.cache is not None else ""
        return f"{name}[{', '.join(self.use(i) for i in op.indices)}]{field}{block}{hint}"


def _parameter(parameter: nodes.ScalarParameter | nodes.View | nodes.Array) -> str:
    match parameter:
        case nodes.View():
            text = _view(parameter)
        case nodes.Array():
            text = f"{_element(parameter.type)}{list(parameter.shape)}{_member(parameter.member)}"
        case _:
            text = f"{parameter.type}{_member(parameter.member)}"
    return f"{parameter.name}: {text}"


def _member(member: nodes.Member | None) -> str:
    """A place in a struct; a backend reads the size and the alignment of the whole."""
    return "" if member is None else f" at {member.offset} of {_element(member.owner.type)}"


def _element(of: DType) -> str:
    """An element type; of a struct, with its size and alignment."""
    return f"{of}{{{of.itemsize}, {of.alignment}}}" if of.kind == "struct" else of.name


def _field(field: nodes.Field) -> str:
    steps = "".join(f" + {stride} * i < {extent}" for stride, extent in zip(field.strides, field.shape, strict=True))
    return f".{field.path}({field.type} at {field.offset}{steps})"


def _view(view: nodes.View) -> str:
    access = "".join(letter for letter, has in (("r", view.read), ("w", view.written)) if has)
    layout = _element(view.type).removeprefix(view.type.name)
    aligned = f" aligned to {view.alignment}" if view.alignment > view.type.alignment else ""
    box = f" box {list(view.box or ())} swizzle {view.swizzle}" if isinstance(view, nodes.TensorMap) else ""
    box += f" in parts of {view.parts}" if isinstance(view, nodes.TensorMap) and view.parts else ""
    return f"{view.annotation}{layout}{' ' + access if access else ''}{' by ' + view.witness if view.witness else ''}{aligned}{box}"


def _check(op: Access) -> str:
    return f" checked site {op.site}" if op.checked else ""
