"""`compile_ptx`: a kernel of the IR to PTX text for one target; `compile_module`: several kernels to one text.

The text is the same in every process, is pure ASCII, and calls nothing that is not in it. What is not here: assembling it (the driver does, or ptxas:
`kdsl.testing.ptx`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite import ir

from kdsl.backend.llvm.module import CodeGenerationError, initialise, optimise, parse
from kdsl.backend.nvptx import limits, targets
from kdsl.backend.nvptx.faults import without_faulty_forms
from kdsl.backend.nvptx.layout import first_run_first
from kdsl.backend.nvptx.lines import Lines
from kdsl.backend.nvptx.lowering import Lowering
from kdsl.backend.nvptx.memory import DYNAMIC_SHARED_DECLARATION
from kdsl.backend.nvptx.needs import needs
from kdsl.backend.nvptx.symbols import entry_name
from kdsl.ir import nodes

TRIPLE: Final = "nvptx64-nvidia-cuda"


def compile_ptx(kernel: nodes.Kernel, target: str, *, optimise: int = 3) -> str:
    """The PTX of `kernel` for `target` (such as `sm_90`), optimised by LLVM at level 0 to 3. Its entry is called `entry_name(kernel)`.

    Raises TargetError for a target that is unknown or lacks what the kernel uses, LimitError for a kernel that is too large, ValueError for another level.
    """
    return compile_module([kernel], target, optimise=optimise)


def compile_module(kernels: Sequence[nodes.Kernel], target: str, *, optimise: int = 3) -> str:
    """One PTX module with an entry for every kernel, in order. Further kernels of one name get `_2`, `_3` … behind it. Raises what `compile_ptx` raises."""
    return compile_levels(kernels, target, (optimise,))[0]


def compile_levels(kernels: Sequence[nodes.Kernel], target: str, levels: Sequence[int]) -> list[str]:
    """The module of `compile_module` at several levels of optimisation, which share all but LLVM's work."""
    gpu = targets.find(target)
    for level in levels:
        if level not in range(4):
            raise ValueError(f"optimise is 0, 1, 2 or 3, not {level!r}")
    if not kernels:
        raise ValueError("a PTX module has at least one kernel")
    for kernel in kernels:
        limits.check(kernel, gpu)
    limits.check_together(kernels)
    version = max(_least_version(kernel, gpu) for kernel in kernels)
    initialise()
    found = llvm.Target.from_triple(TRIPLE)
    machines = [found.create_target_machine(cpu=gpu.name, features=targets.features(version), opt=level) for level in levels]
    parsed = parse(_module(kernels, machines[0], gpu.capability))
    copies = [parsed, *(llvm.parse_bitcode(parsed.as_bitcode()) for _ in levels[1:])]
    texts = []
    for level, machine, copy in zip(levels, machines, copies, strict=True):
        optimise(copy, machine, level)
        texts.append(first_run_first(without_faulty_forms(str(machine.emit_assembly(copy)))))
        _verify(texts[-1])
    return texts


def _module(kernels: Sequence[nodes.Kernel], machine: Any, capability: int) -> ir.Module:
    module = ir.Module(name="kdsl")
    module.triple = TRIPLE
    # Without the layout LLVM splits accesses to 64-bit elements
    module.data_layout = str(machine.target_data)
    lines = Lines(module, kernels[0].location.file)
    for kernel, name in zip(kernels, _names(kernels), strict=True):
        Lowering(kernel, name, lines, capability).run()
    return module


def _names(kernels: Sequence[nodes.Kernel]) -> list[str]:
    """The symbols of the kernels, all different."""
    names: list[str] = []
    for name in map(entry_name, kernels):
        candidates = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
        names.append(next(candidate for candidate in candidates if candidate not in names))
    return names


def _least_version(kernel: nodes.Kernel, gpu: targets.Target) -> targets.Version:
    """The least PTX version for a kernel. Raises TargetError, with the place, if the target lacks what it uses."""
    needed = gpu.least_ptx
    for row, place in needs(kernel):
        try:
            needed = max(needed, targets.version_for(gpu, [row]))
        except targets.TargetError as error:
            raise targets.TargetError(error.reason, place) from None
    return needed


def _verify(text: str) -> None:
    """What ptxas would refuse, or nothing would define, must not leave the compiler."""
    for line in text.splitlines():
        if ".extern" in line and line != DYNAMIC_SHARED_DECLARATION:
            raise CodeGenerationError(f"the PTX refers to something outside of it: {line.strip()}")
    if not text.isascii():
        raise CodeGenerationError("the PTX is not pure ASCII")
