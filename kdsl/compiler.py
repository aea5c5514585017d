"""`@kernel`: the way from a Python function to code, joined from the frontend, the backends, the launcher and the runtime.

A `Kernel` is declared when it is decorated (signature, geometry, contract, frozen captures), and compiled for the types, constants and target of a
launch when that is first made. Compiled code is kept in memory per launch plan and on disk by content, so that a second process compiles nothing.
What is not here: how any of the steps works.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import llvmlite

from kdsl.backend.cpu import CpuObject, HostCpu, compile_object, load
from kdsl.backend.cpu.sanitizer import Options, Sites, compile_instrumented
from kdsl.backend.nvptx import LimitError, TargetError, assembled, compile_ptx, entry_name, target_for
from kdsl.errors import LaunchError
from kdsl.frontend import targets
from kdsl.frontend.build import build
from kdsl.frontend.captures import MISSING, content
from kdsl.frontend.context import Checks
from kdsl.frontend.declare import declare
from kdsl.frontend.errors import KernelError
from kdsl.frontend.source import Source, parse
from kdsl.ir import nodes
from kdsl.ir.abi import Layout, layout
from kdsl.ir.printer import print_kernel
from kdsl.ir.shared import SharedLayout, shared_layout
from kdsl.ir.verifier import verify
from kdsl.lang.declaration import Declaration, TypeVariable
from kdsl.lang.geometry import Geometry, Size
from kdsl.lang.types import DType, dtype
from kdsl.lang.views import ConstAnnotation
from kdsl.launch.arguments import constant
from kdsl.launch.bind import Launcher
from kdsl.launch.captured import changed
from kdsl.launch.delegate import Delegate
from kdsl.launch.launchable import Specialisation
from kdsl.launch.prepared import PreparedLaunch
from kdsl.runtime.cache import content_key, default_cache
from kdsl.runtime.capture import Node
from kdsl.runtime.cpu import CpuCode
from kdsl.runtime.device import Device, device
from kdsl.runtime.gpu import CudaDevice
from kdsl.runtime.gpu_code import CudaFunction
from kdsl.runtime.lock import compiling
from kdsl.runtime.record import register
from kdsl.runtime.sanitizer import session
from kdsl.runtime.sanitizer.launch import InstrumentedCode
from kdsl.runtime.stream import Stream

DEFAULT_TARGET = "sm_90"
"""The target of PTX when none is named."""


def _asked(variable: str) -> bool:
    return os.environ.get(variable, "0") not in ("", "0")


_checks: Checks = "all" if _asked("KDSL_CHECKED") else "none" if _asked("KDSL_UNCHECKED") else "needed"


def checked(on: bool = True) -> None:
    """Let kernels that are compiled from now on be checked builds, as with the environment variable KDSL_CHECKED=1: accesses that are proved to be
    inside, and those through `.unchecked`, are checked, too.
    """
    global _checks
    _checks = "all" if on else "needed"


def unchecked(on: bool = True) -> None:
    """Let kernels that are compiled from now on check no access, as with the environment variable KDSL_UNCHECKED=1 (KDSL_CHECKED=1 goes before it). This is
    for measuring what checks cost: what an access outside an array does is then undefined. Launches still check contracts, kernels their `assert`s.
    """
    global _checks
    _checks = "none" if on else "needed"


def checks_now() -> Checks:
    """Which accesses are checked in kernels that are compiled from now on."""
    return _checks


@dataclass(frozen=True)
class CompiledKernel:
    """One version of a kernel, compiled for one target."""

    ir: nodes.Kernel
    """Its typed IR; `kdsl.ir.printer.print_kernel` shows it."""
    target: str
    """`cpu`, or a compute capability such as `sm_90`."""
    code: str | bytes
    """PTX text, or object code of the host."""


@dataclass(frozen=True)
class _Loaded:
    """A compiled kernel on its device (`kdsl.launch.launchable.Launchable`)."""

    layout: Layout
    """How its arguments are packed."""
    views: Mapping[str, nodes.View]
    """Its views by name, with what the body does to them."""
    shared: SharedLayout
    """Where its shared arrays lie."""
    code: CpuCode | CudaFunction
    """What runs."""
    number: int
    """Its number in the records of failed checks."""


def _not_listed() -> bool:
    """As if a captured name had changed: the first launch lists them."""
    return True


class Kernel(Delegate):
    """What `@kernel` yields. Calling it with arguments launches it where its arrays live; its docstring documents every parameter and field."""

    _source: Source
    _launcher: Launcher
    _versions: dict[tuple[Any, ...], nodes.Kernel]

    def __new__(
        cls, function: Callable[..., Any], grid: object, block: object, requires: object, contract: bool, **attributes: Any
    ) -> Kernel:
        """Declares the kernel. Raises KernelError, ContractError or TypeError if the declaration is wrong; the body is compiled later."""
        source = parse(function)
        launcher = Launcher(declare(source, grid, block, requires, contract, **attributes), lambda wanted: made._specialise(wanted))
        made = super().__new__(cls, launcher.function)
        made._source, made._launcher, made._versions = source, launcher, {}
        plans = launcher.plans
        plans.entry = made  # an update of a graph makes all checks again
        plans.changed, plans.refuse_changed = _not_listed, made._refuse_changed
        functools.update_wrapper(made, function)
        made.__doc__ = launcher.function.__doc__
        return made

    @property
    def declaration(self) -> Declaration:
        """Its signature, geometry and contract."""
        return self._launcher.declaration

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.declaration.name

    @property
    def launcher_source(self) -> str:
        """The generated launcher, as Python."""
        return self._launcher.source

    def __repr__(self) -> str:
        return f"<kernel {self.declaration.module}.{self.name}>"

    def __reduce__(self) -> str:
        """Pickled by its name, as a function is: another process imports the module that defines it."""
        return self._source.function.__qualname__

    # ------------------------------------------------------------------------------------------------------------------------ launching

    if TYPE_CHECKING:

        def __call__(self, *arguments: Any, **keywords: Any) -> Node | None:
            """Launch on the default stream of the device where the arrays live. While this thread captures a graph there, the launch is recorded instead, and
            what is returned stands for it in `Graph.update`.

            Raises LaunchError (wrong arguments, a relation that does not hold, overlap), TypeError (missing or unknown arguments), KernelError (the
            body does not compile). A check that fails while it runs is raised as BoundsError by the next synchronisation of the device.
            """

    def on(self, stream: Stream) -> Callable[..., Node | None]:
        """The same for another stream: `kernel.on(stream)(…)`."""
        return self._launcher.on(stream)

    def _refuse_changed(self) -> None:
        """List where each captured name lives, so that a launch only compares identities. Raises LaunchError if one has another value."""
        captures = self._source.captures
        captures.complete()  # helpers that are defined below the kernel count, too
        found = [(place, now) for place in captures.places() if (now := content(place)) is not MISSING]
        for change in captures.changed():
            raise LaunchError(
                f"{self.name}: the captured value {change.name} was {change.frozen!r} when the kernel was decorated and is {change.now!r} now; "
                f"numbers are frozen when a kernel is decorated: pass it as a parameter, or decorate the kernel again"
            )
        self._launcher.plans.changed = changed(found)

    def prepare(self, *arguments: Any, **keywords: Any) -> PreparedLaunch:
        """A launch with these arguments that is checked now, to be made any number of times: `prepared()`, `prepared(x=other)`; see `PreparedLaunch`.

        Raises what the launch itself would raise.
        """
        try:
            return self._launcher.prepare(arguments, keywords, None)
        except KernelError as error:
            raise error.with_traceback(None) from None

    # ------------------------------------------------------------------------------------------------------------------------ compiling

    def compile(self, target: str | None = None, **settings: Any) -> CompiledKernel:
        """Compile one version without launching it; no GPU is needed.

        `target` is `cpu` or a compute capability such as `sm_90` (None: that of the default device). `settings` give values to `Const` parameters and
        element types to type variables, by name. Raises KernelError for a mistake in the kernel, what the target lacks, or a kernel too large for it,
        TargetError for an unknown target, TypeError for missing or unknown settings.
        """
        kernel = self.ir(**settings)
        chosen = _target_of(kernel, device()) if target is None else target
        return CompiledKernel(kernel, chosen, _compile_cpu(kernel).bytes if chosen == "cpu" else _compile_ptx(kernel, chosen))

    def ptx(self, target: str = DEFAULT_TARGET, **settings: Any) -> str:
        """The PTX of one version; see `compile`."""
        return _compile_ptx(self.ir(**settings), target)

    def ir(self, **settings: Any) -> nodes.Kernel:
        """The typed IR of one version; see `compile`."""
        variables = {v.__name__: v for v in self.declaration.type_variables}
        constants = {p.name: p for p in self.declaration.parameters if isinstance(p.type, ConstAnnotation)}
        unknown = [name for name in settings if name not in variables and name not in constants]
        missing = [name for name in (*variables, *constants) if name not in settings]
        wanted = ", ".join((*variables, *constants)) or "none"
        if unknown:
            raise TypeError(f"kernel {self.name} has no setting {', '.join(unknown)}; its settings are: {wanted}")
        if missing:
            raise TypeError(f"kernel {self.name} is compiled for given {', '.join(missing)}: name them, as in compile({missing[0]}=…)")
        types = {variable: dtype(settings[name]) for name, variable in variables.items()}
        for variable, chosen in types.items():
            allowed = variable.__constraints__
            if allowed and chosen not in allowed:
                raise TypeError(f"kernel {self.name}: {variable.__name__} is one of {', '.join(map(str, allowed))}, not {chosen}")
        values = {}
        for name, parameter in constants.items():
            assert isinstance(parameter.type, ConstAnnotation)
            values[name] = constant(self.name, name, parameter.type.python_type, settings[name])
        try:
            return self._version(types, values)
        except KernelError as error:
            raise error.with_traceback(None) from None

    def _version(self, types: Mapping[TypeVariable, DType], constants: Mapping[str, bool | int | float]) -> nodes.Kernel:
        instrumented = session() is not None
        checks: Checks = "needed" if instrumented and _checks == "none" else _checks  # what the sanitizer watches is watched
        key = (
            checks,
            instrumented,
            *types.items(),
            *((name, repr(value)) for name, value in constants.items()),
        )  # -0.0 equals 0.0, and no NaN itself
        with compiling:
            if key not in self._versions:
                self._source.captures.complete()
                kernel = build(self._source, self.declaration, types, constants, checks=checks, instrumented=instrumented)
                verify(kernel)
                self._versions[key] = kernel
            return self._versions[key]

    def _specialise(self, wanted: Specialisation) -> _Loaded:
        kernel = self._version(wanted.types, wanted.constants)
        if any(site.kind == "print" for site in kernel.sites) and wanted.device.failures.output is not None:
            wanted.device.failures.output.expect()
        views = {p.name: p for p in kernel.parameters if isinstance(p, nodes.View)}
        shared = shared_layout(kernel.arrays, kernel.shared_views)
        return _Loaded(layout(kernel), views, shared, _load(kernel, wanted.device, shared), register(kernel))


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *,
    grid: Geometry | Size | tuple[Size, ...],
    block: int | tuple[int, ...] = ...,
    requires: str | tuple[str, ...] = ...,
    contract: bool = ...,
    cluster: int | tuple[int, ...] | None = ...,
    cooperative: bool = ...,
    programmatic: bool = ...,
    spills: bool = ...,
    resident: int = ...,
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    grid: Any = None,
    block: Any = None,
    requires: Any = (),
    contract: bool = True,
    cluster: Any = None,
    cooperative: Any = False,
    programmatic: Any = False,
    spills: bool = True,
    resident: int = 1,
) -> Any:
    """Make a function a kernel.

    `grid` says how blocks are laid over the work (`elements`, `rows`, `tiles`, `sweep`, or explicit sizes along x, y, z); `block` is the number of
    threads per block, or up to three extents (256 if not given, for `tiles` a thread per element of a tile); `requires` are relations between the
    arguments that every launch checks; `contract=False` keeps `a * b + c` from fusing; with `spills=False` a build fails if ptxas, where it is at hand,
    has to spill registers of a GPU; with `resident=4` it gives each thread at most so many that four blocks fit on a multiprocessor. `cluster` is the number
    of blocks of a cluster, or up to three extents; `cooperative=True` has all blocks resident at the same time, so that `sync_grid()` works;
    `programmatic=True` lets the kernel begin before what its stream holds has ended, for which it waits with `wait_for_dependencies()`.
    Raises KernelError, ContractError or TypeError if the declaration is wrong.
    """
    if function is not None or grid is None:
        raise TypeError('@kernel needs a grid, as in @kernel(grid=elements("y"))')
    attributes = {"cluster": cluster, "cooperative": cooperative, "programmatic": programmatic, "spills": spills, "resident": resident}
    return lambda decorated: Kernel(decorated, grid, block, requires, contract, **attributes)


# ---------------------------------------------------------------------------------------------------------------------- code, by content


@functools.cache
def _version_of_compiler() -> str:
    """What compiled code depends on beside the IR: the source of the backends and of all that they may import, and the releases of kdsl and llvmlite."""
    root = Path(__file__).parent
    sources = [path for room in ("backend", "ir", "lang") for path in sorted((root / room).rglob("*.py"))]
    try:
        release = importlib.metadata.version("kdsl")
    except importlib.metadata.PackageNotFoundError:  # run from a source tree that is not installed
        release = "source"
    return content_key(release, llvmlite.__version__, *(path.read_bytes() for path in sources))


def _target_of(kernel: nodes.Kernel, on: Device) -> str:
    """What a kernel is compiled for to run on a device."""
    return "cpu" if on.target == "cpu" else target_for(kernel, on.target)


def _compile_ptx(kernel: nodes.Kernel, target: str) -> str:
    # PTX carries line numbers, so two texts that differ only in lines are two entries
    key = content_key("ptx", _version_of_compiler(), target, print_kernel(kernel, locations=True))
    with compiling:
        cache = default_cache()
        found = cache.get(key)
        if found is None:
            try:
                found = compile_ptx(kernel, target).encode("ascii")
            except LimitError as error:
                raise KernelError(error.message, error.location, error.advice) from None
            except TargetError as error:
                if error.location is None:
                    raise
                raise KernelError(
                    error.reason, error.location, f"compile kernel {kernel.name} for a target that has it, or write one without"
                ) from None
            cache.put(key, found)
        text = found.decode("ascii")
        if assembled.is_wanted(kernel):
            _assemble(kernel, text, target)
    return text


def _assemble(kernel: nodes.Kernel, ptx: str, target: str) -> None:
    """Let ptxas say whether it makes of the code what was meant, once per text; nothing without ptxas."""
    assembler = assembled.assembler()
    if assembler is None:
        return
    cache = default_cache()
    key = content_key("assembled", _version_of_compiler(), assembler, target, str(kernel.spills), ptx)
    if cache.get(key) is not None:
        return
    try:
        report = assembled.check(kernel, ptx, target)
    except assembled.BuildError as error:
        raise KernelError(error.message, error.location, error.hint) from None
    cache.put(key, f"{report.registers} registers".encode())


def _compile_cpu(kernel: nodes.Kernel, instrumented: Options | None = None) -> CpuObject:
    targets.check(kernel, "cpu")
    host = HostCpu.detect()
    places = "" if instrumented is None else repr((instrumented, Sites(kernel).numbers))
    key = content_key("cpu", _version_of_compiler(), repr(host), places, print_kernel(kernel))
    with compiling:
        cache = default_cache()
        found = cache.get(key)
        if found is not None:
            header, _, code = found.partition(b"\n")
            entry, scratch = header.decode().split()
            return CpuObject(code, entry, int(scratch))
        compiled = compile_object(kernel, host) if instrumented is None else compile_instrumented(kernel, host, instrumented)
        cache.put(key, f"{compiled.entry} {compiled.scratch_bytes}\n".encode() + compiled.bytes)
    return compiled


def _load(kernel: nodes.Kernel, on: Device, shared: SharedLayout) -> CpuCode | CudaFunction:
    sanitizer = session()
    if on.target == "cpu" and sanitizer is not None:
        return InstrumentedCode(load(_compile_cpu(kernel, sanitizer.options)), kernel, sanitizer)
    if on.target == "cpu":
        return load(_compile_cpu(kernel))
    if sanitizer is not None:
        sanitizer.skip(f"kernel {kernel.name}: it was launched on {on.name}; only launches on the CPU are looked at")
    assert isinstance(on, CudaDevice)
    most = on.shared_limit if shared.views else shared.launch_bytes
    return CudaFunction(on, _compile_ptx(kernel, _target_of(kernel, on)), entry_name(kernel), shared=most, attributes=kernel.attributes)
