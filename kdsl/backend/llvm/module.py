"""LLVM modules: types, declarations through an allow-list, the optimisation pipeline.

LLVM ends the process on what it cannot select, so nothing may reach it that is not known to be selectable on the target: every intrinsic that is
declared must match `ALLOWED`, which lists what has been tried on all targets named beside it. What is not here: emission of operations.
"""

from __future__ import annotations

import re
import threading
from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite import ir

from kdsl.lang.types import DType

ALLOWED: Final = re.compile(
    r"""llvm\.(
      (fma|sqrt|fabs|floor|ceil|trunc|roundeven|minimum|maximum)\.(v\d+)?f(32|64)     # both targets
    | arithmetic\.fence\.(v\d+)?f32                                                  # both targets
    | arithmetic\.fence\.v\d+f64                                                     # CPU
    | fma\.f16                                                                        # NVPTX
    | (fptosi|fptoui)\.sat\.(v\d+)?i(8|16|32|64)\.(v\d+)?f(32|64)                     # both targets
    | masked\.(load|store|gather|scatter)\.[\w.]+                                     # CPU
    | vector\.reduce\.(or|and|add|umin|umax|smin|smax)\.v\d+i\d+                      # CPU
    | (ssub|sadd)\.sat\.i(32|64)|(s|u)(min|max)\.(v\d+)?i(32|64)|abs\.i(32|64)|cttz\.i(16|32|64)|ctpop\.i(16|32|64)   # both targets
    | (ctpop|ctlz|cttz|bitreverse)\.(v\d+)?i(32|64)|fsh[lr]\.(v\d+)?i32                # both targets
    | prefetch\.p0                                                                   # CPU
    | launder\.invariant\.group\.p0                                                    # CPU
    | x86\.sse\.(ldmxcsr|stmxcsr)                                                     # x86-64
    | x86\.avx512\.mask\.(scalef|range)\.p[sd]\.(128|256|512)                         # x86-64-v4
    | aarch64\.(get|set)\.fpcr                                                        # AArch64
    | nvvm\.read\.ptx\.sreg\.((tid|ctaid)\.[xyz]|cluster\.ctarank)                    # NVPTX from here on
    | nvvm\.barrier\.cluster\.(arrive|wait)\.aligned
    | nvvm\.griddepcontrol\.(wait|launch\.dependents)
    | nvvm\.setmaxnreg\.(inc|dec)\.sync\.aligned\.u32
    | nvvm\.barrier\.cta\.(sync|red\.(popc|and|or))\.aligned\.all
    | nvvm\.shfl\.sync\.(bfly|up|down|idx)\.i32
    | nvvm\.(prmt|idp4a\.[su]\.[su])
    | nvvm\.vote\.(any|all|ballot)\.sync
    | nvvm\.match\.(any\.sync\.i(32|64)|all\.sync\.i(32|64)p)
    | nvvm\.redux\.sync\.(add|u?min|u?max|and|or|xor)
    | nvvm\.membar\.(cta|gl|sys)
    | nvvm\.f2(i|ui)\.rz
    )""",
    re.VERBOSE,
)


class CodeGenerationError(RuntimeError):
    """The compiler was about to hand LLVM something that it may not survive; a mistake in kdsl, not in the kernel."""


_ready = threading.Lock()
_initialised = False


def initialise() -> None:
    """Register LLVM's targets; cheap after the first time."""
    global _initialised
    with _ready:
        if not _initialised:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            _initialised = True


_FLOATS: Final = {32: ir.FloatType(), 64: ir.DoubleType()}


def value_type(of: DType, width: int | None = None) -> ir.Type:
    """The LLVM type of a value: `bool` is i1, f16 and bf16 their bits (see `narrow`); with a width, a vector of so many lanes."""
    scalar = _FLOATS[of.bits] if of.is_float and not of.is_narrow_float else ir.IntType(of.bits)
    return scalar if width is None else ir.VectorType(scalar, width)


def memory_type(of: DType, width: int | None = None) -> ir.Type:
    """The LLVM type of an element in memory: `bool` is a byte, a struct so many bytes."""
    if of.kind == "struct":
        return ir.ArrayType(ir.IntType(8), of.itemsize)
    scalar = ir.IntType(8) if of.is_bool else value_type(of)
    return scalar if width is None else ir.VectorType(scalar, width)


def mangled(of: ir.Type) -> str:
    """The suffix that names a type in an overloaded intrinsic."""
    if isinstance(of, ir.VectorType):
        return f"v{of.count}{mangled(of.element)}"
    if isinstance(of, ir.IntType):
        return f"i{of.width}"
    if isinstance(of, ir.PointerType):
        return f"p{of.addrspace}"
    return {ir.HalfType: "f16", ir.FloatType: "f32", ir.DoubleType: "f64"}[type(of)]


def intrinsic(module: ir.Module, name: str, result: ir.Type, arguments: list[ir.Type], *, convergent: bool = False) -> Any:
    """The declaration of an LLVM intrinsic by its full (mangled) name; raises CodeGenerationError if it is not on the list."""
    if not ALLOWED.fullmatch(name):
        raise CodeGenerationError(f"{name} is not on the list of LLVM intrinsics that are known to be selectable")
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(result, arguments), name)
    if convergent:
        function.attributes.add("convergent")
    return function


def call_intrinsic(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: Any) -> Any:
    """Call an LLVM intrinsic by its full name."""
    return builder.call(intrinsic(builder.module, name, result, [a.type for a in arguments]), arguments)


def freeze(builder: ir.IRBuilder, value: Any) -> Any:
    """The value, made definite where LLVM may take it for anything ("freeze" of its language reference; llvmlite has no form for it). At the end of a block."""
    frozen = ir.Instruction(builder.block, value.type, "freeze", [value])
    builder.block.instructions.append(frozen)
    builder.position_at_end(builder.block)
    return frozen


class _LoopNode(ir.MDValue):  # type: ignore[misc]
    """A metadata node that names itself first, as one of a loop must (LLVM language reference, "llvm.loop"); llvmlite has no form for it."""

    def descr(self, buffer: list[str]) -> None:
        operands = ", ".join(operand.get_reference() for operand in self.operands)
        buffer += (f"distinct !{{ {self.get_reference()}, {operands} }}", "\n")


def loop_that_stays(module: ir.Module) -> Any:
    """What to mark the branch back of a loop with (as `llvm.loop`) so that LLVM does not unroll it."""
    off = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    return _LoopNode(module, [off], name=str(len(module.metadata)))


def parse(module: ir.Module) -> Any:
    """The module as LLVM holds it, verified. A failure is a mistake of the compiler and carries LLVM's message."""
    initialise()
    for function in module.functions:
        if function.is_declaration and not ALLOWED.fullmatch(function.name):
            raise CodeGenerationError(f"the module declares {function.name}, which nothing defines")
    try:
        parsed = llvm.parse_assembly(str(module))
        parsed.verify()
    except RuntimeError as error:
        raise CodeGenerationError(f"LLVM rejects the code that kdsl made: {error}") from error
    return parsed


def optimise(parsed: Any, machine: Any, level: int, *, vectorise: bool = False) -> None:
    """Run LLVM's pipeline of the given level (0 to 3). Its own vectorisers stay off unless asked for: lanes are explicit here."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = vectorise
    tuning.slp_vectorization = vectorise
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(parsed, builder)
