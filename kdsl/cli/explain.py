"""`kdsl explain`: what became of a kernel. Gathers the facts; `report.py` shows them.

From the typed IR: which bounds checks were proved away and which remain, and what is known of the arrays. Per GPU target: what ptxas says (where there is one),
occupancy, PTX version and least driver. For the CPU: lanes per group and scratch memory. Leaves out what only a run can tell.
"""

from __future__ import annotations

import ast
import dataclasses
import linecache
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kdsl.backend.cpu import HostCpu, UnsupportedCpuError, compile_object
from kdsl.backend.cpu.compile import group_width
from kdsl.backend.nvptx import TARGETS, LimitError
from kdsl.backend.nvptx.aliasing import Promise, may_be_one_array, promises
from kdsl.backend.nvptx.occupancy import Occupancy, occupancy
from kdsl.backend.nvptx.ptxas import AssemblyError, Report, assemble, find_ptxas
from kdsl.backend.nvptx.releases import RELEASES
from kdsl.backend.nvptx.targets import find
from kdsl.cli.launch_values import launch_bytes
from kdsl.compiler import Kernel, checks_now
from kdsl.frontend.errors import KernelError, source_line
from kdsl.frontend.targets import check
from kdsl.ir import nodes
from kdsl.ir.shared import shared_layout

CPU: Final = "cpu"
"""The target that is this machine's processor."""

_VERBS: Final = {"load": "read", "store": "write", "atomic": "atomic"}


@dataclass(frozen=True)
class Access:
    """One place in the source that reads or writes an array; it may have become several operations."""

    state: str
    """`remains` (checked at run time), `proved` (it cannot fail), `unchecked` (the author wrote `.unchecked`, or the process wants no checks), or
    `proved or unchecked` where the IR does not
    say which, because an array is passed on as `.unchecked`."""
    operation: str
    """`read`, `write` or `atomic`."""
    array: str
    """Name of the array."""
    file: str
    """File."""
    line: int
    """Line, from 1."""
    column: int
    """Column, from 1."""
    text: str
    """The source line."""
    function: str
    """Name of the function that it stands in."""
    checked: int
    """Operations that are checked."""
    operations: int
    """Operations in all, after unrolling and expansion."""


@dataclass(frozen=True)
class View:
    """An array parameter."""

    name: str
    """Its name."""
    annotation: str
    """Its annotation, such as `Slice[f32]`."""
    used: str
    """`read`, `written`, `read and written` or `unused`."""
    witness: str | None
    """The witness through which every access goes, None if some access does not."""
    noalias: bool
    """Whether the compiler may assume that nothing else changes what this thread sees through it."""
    constant: bool
    """Whether nothing changes it while the kernel runs, so that reads take the read-only path."""
    why: str
    """Why it may assume that, or why not."""


@dataclass(frozen=True)
class GpuFacts:
    """What became of the kernel for one GPU."""

    target: str
    """Its name."""
    doc: str
    """What carries it."""
    ptx: str
    """PTX version, empty if there is none."""
    driver: str
    """Least driver, empty if unknown."""
    assembled: Report | None
    """What ptxas says, None without one."""
    occupancy: Occupancy | None
    """Of a multiprocessor, None without ptxas."""
    problem: str
    """Why there is nothing, empty if there is."""


@dataclass(frozen=True)
class CpuFacts:
    """What became of the kernel for this machine's processor."""

    generation: str
    """`x86-64-v3`, ..."""
    lanes: int
    """Threads that one vector operation does at a time."""
    scratch: int
    """Bytes of memory for shared and local arrays and for what lives across barriers, per running thread."""
    bytes: int
    """Size of the object code."""
    problem: str
    """Why there is nothing, empty if there is."""


@dataclass(frozen=True)
class Explanation:
    """All about one version of a kernel."""

    kernel: str
    """Name."""
    file: str
    """File that defines it."""
    line: int
    """Line of its `def`."""
    settings: Mapping[str, Any]
    """Constants and element types for which it was compiled."""
    block: tuple[int, int, int]
    """Threads per block along x, y and z."""
    shared: int
    """Bytes of its shared arrays of fixed shape."""
    dynamic: Sequence[str]
    """Its shared arrays whose extents the launch decides, such as `tile: f32[n, 32]`."""
    dynamic_bytes: int | None
    """Bytes that they take with the values of a launch that are given, None if some are missing."""
    views: Sequence[View]
    """Array parameters, in order."""
    accesses: Sequence[Access]
    """Accesses to views and to shared and local arrays, in order of the source."""
    ptxas: str
    """Path of ptxas, empty without one."""
    gpus: Sequence[GpuFacts]
    """Per GPU target."""
    cpu: CpuFacts | None
    """For the CPU, None if it was not asked for."""


def explain(kernel: Kernel, settings: Mapping[str, Any], targets: Sequence[str], values: Mapping[str, int] | None = None) -> Explanation:
    """The facts about one version of a kernel for these targets: all GPUs and the CPU if none is named.

    `values` are those of a launch on which the sizes of shared arrays depend, by their names in contracts: `n`, `p.rows`, `len(x)`.
    A target that the kernel cannot be compiled for is an entry with a problem. Raises TargetError for an unknown target, KernelError for a mistake in the
    kernel.
    """
    for name in targets:
        if name != CPU:
            find(name)
    ir = kernel.ir(**settings)
    dynamic = launch_bytes(ir, values or {})
    try:
        ptxas = str(find_ptxas())
    except FileNotFoundError:
        ptxas = ""
    chosen = list(dict.fromkeys(targets)) or [*TARGETS, CPU]
    return Explanation(
        kernel=kernel.name,
        file=ir.location.file,
        line=ir.location.line,
        settings=dict(settings),
        block=ir.block_dim,
        shared=shared_layout(ir.arrays).size,
        dynamic=[f"{view.name}: {view.type}[{', '.join(map(str, view.extents))}]" for view in ir.shared_views],
        dynamic_bytes=dynamic,
        views=_views(ir),
        accesses=accesses(ir),
        ptxas=ptxas,
        gpus=[_gpu(kernel, ir, settings, name, bool(ptxas), dynamic or 0) for name in chosen if name != CPU],
        cpu=_cpu(ir) if CPU in chosen else None,
    )


# --------------------------------------------------------------------------------------------------------------------------- the source


def accesses(kernel: nodes.Kernel) -> list[Access]:
    """Accesses by their place in the source."""
    places: dict[tuple[str, str, str, int, int], list[tuple[nodes.Location, bool]]] = {}

    def add(verb: str, memory: nodes.Memory, at: nodes.Location, checked: bool) -> None:
        places.setdefault((verb, memory.name, at.file, at.line, at.column), []).append((at, checked))

    for op in nodes.walk(kernel.body):
        if isinstance(op, nodes.Access | nodes.Check):
            add(_VERBS[kernel.sites[op.site].kind], op.memory, op.location, isinstance(op, nodes.Check) or op.checked)
        elif isinstance(op, nodes.Instruction) and "checked" in op.options:  # an atomic operation on a vector
            add("atomic", op.elements[0].memory, op.location, bool(op.options["checked"]))
    passed_on = {file: _passes_unchecked_on(file) for file in _files(kernel)}
    found = []
    for (verb, array, file, line, column), ops in places.items():
        at, checked = ops[0][0], sum(checked for _, checked in ops)
        if checked:
            state = "remains"
        elif checks_now() == "none" or re.search(rf"\b{re.escape(array)}\s*\.\s*unchecked\b", _text(at)):
            state = "unchecked"
        else:
            state = "proved or unchecked" if any(passed_on.values()) else "proved"
        found.append(Access(state, verb, array, file, line, column + 1, source_line(at).strip(), at.function, checked, len(ops)))
    return sorted(found, key=lambda access: (access.file != kernel.location.file, access.file, access.line, access.column))


def _text(at: nodes.Location) -> str:
    """The text of a place, as far as it stands on its first line."""
    line = source_line(at)
    return line[at.column : at.end_column] if at.end_line == at.line else line[at.column :]


def _files(kernel: nodes.Kernel) -> set[str]:
    files = {kernel.location.file}
    for op in nodes.walk(kernel.body):
        at: nodes.Location | None = op.location
        while at is not None:
            files.add(at.file)
            at = at.caller
    return files


def _passes_unchecked_on(file: str) -> bool:
    """Whether a file gives `array.unchecked` to a name or a call, so that an index elsewhere may be unchecked without saying so."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # edited since it was imported
        return True
    indexed = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    return any(isinstance(node, ast.Attribute) and node.attr == "unchecked" and id(node) not in indexed for node in ast.walk(tree))


def _views(kernel: nodes.Kernel) -> list[View]:
    promised = promises(kernel)
    return [_view(kernel, view, promise, promised) for view, promise in promised.items()]


def _view(kernel: nodes.Kernel, view: nodes.View, promise: Promise, every: Iterable[nodes.View]) -> View:
    used = {(True, True): "read and written", (True, False): "read", (False, True): "written", (False, False): "unused"}
    twins = [other.name for other in every if other is not view and may_be_one_array(view, other)]
    if twins:
        why = f"as far as the compiler knows it may be the same array as {' or '.join(twins)}: both are touched through {view.witness} only"
    elif kernel.attributes.programmatic:
        why = "the kernel may begin before what the launch depends on has ended"
    elif not promise.alone:
        why = "threads synchronise, and without a witness one may write what another reads"
    elif promise.constant:
        why = "the kernel does not write to it, and launches refuse overlap with what it writes"
    else:
        why = "launches refuse overlap with another argument"
    return View(
        view.name, view.annotation, used[view.read, view.written], view.witness, promise.alone, promise.constant, why
    )  # fmt: skip


# -------------------------------------------------------------------------------------------------------------------------- the targets


def _gpu(kernel: Kernel, ir: nodes.Kernel, settings: Mapping[str, Any], name: str, with_ptxas: bool, dynamic: int) -> GpuFacts:
    target = find(name)
    try:
        ptx = kernel.ptx(name, **settings)
    except (KernelError, LimitError) as error:
        return GpuFacts(name, target.doc, "", "", None, None, error.message if isinstance(error, KernelError) else str(error))
    found = re.search(r"^\.version (\d+)\.(\d+)", ptx, re.MULTILINE)
    assert found is not None, "PTX begins with its version"
    version = (int(found[1]), int(found[2]))
    release = RELEASES[version]
    driver = f"R{release.driver} (CUDA {release.toolkit})"
    report, resident, problem = None, None, ""
    if with_ptxas:
        try:
            report = assemble(ptx, name)
            launched = shared_layout(ir.arrays, ir.shared_views).launch_bytes + dynamic
            report = dataclasses.replace(report, shared=report.shared + launched)
            resident = occupancy(target.capability, ir.threads, report.registers, report.shared)
        except AssemblyError as error:
            problem = str(error).strip()
    return GpuFacts(name, target.doc, f"{version[0]}.{version[1]}", driver, report, resident, problem)


def _cpu(ir: nodes.Kernel) -> CpuFacts:
    try:
        host = HostCpu.detect()
    except UnsupportedCpuError as error:
        return CpuFacts("", 0, 0, 0, str(error))
    try:
        check(ir, CPU)
    except KernelError as error:
        return CpuFacts("", 0, 0, 0, error.message)
    made = compile_object(ir, host)
    return CpuFacts(host.generation, group_width(ir, host), made.scratch_bytes, len(made.bytes), "")
