"""From checked arguments to a running kernel: compiled versions by what was specialised, packing, and the overlap rule.

Leaves out the checks of single arguments and the contract, which the generated launcher makes.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from kdsl.ir.abi import HIDDEN, Layout, encoded, further, map_slots, view_slots
from kdsl.ir.nodes import TensorMap
from kdsl.lang import limits
from kdsl.lang.attributes import PORTABLE_CLUSTER, Attributes
from kdsl.lang.declaration import Declaration, StructType
from kdsl.lang.types import U32, DType
from kdsl.lang.views import ConstAnnotation, ViewAnnotation
from kdsl.launch import refuse
from kdsl.launch.launchable import Launchable, Specialisation, Specialise
from kdsl.launch.ready import ReadyLaunches
from kdsl.launch.shared import Boxes, SharedSizes
from kdsl.runtime.array import Array
from kdsl.runtime.capture import Launch
from kdsl.runtime.cpu import CpuFunction, CpuLaunch
from kdsl.runtime.device import Device
from kdsl.runtime.gpu import CudaStream
from kdsl.runtime.gpu_code import CudaFunction, CudaLaunch
from kdsl.runtime.layout import is_aligned, shares_elements
from kdsl.runtime.lock import compiling
from kdsl.runtime.memory import ALIGNMENT
from kdsl.runtime.sanitizer.launch import InstrumentedCode, SanitizedFunction
from kdsl.runtime.stream import Stream
from kdsl.runtime.tensor_map import DeviceTensorMap, tensor_map


class Runner(Protocol):
    """A launch to be made any number of times."""

    @property
    def fire(self) -> Callable[[], int | None]:
        """Launches; gives a status, 0 or None if all is well."""

    def recover(self, status: int) -> None:
        """After another status: launch after all, or raise DeviceError."""


class Plan:
    """One compiled version of a kernel on one device."""

    def __init__(self, kernel: str, device: Device, launchable: Launchable, attributes: Attributes) -> None:
        self._kernel = kernel
        self._device = device
        self.layout = launchable.layout
        """How its arguments are packed."""
        self._views = launchable.views
        self._pack = launchable.layout.packer
        self._boxes = Boxes(kernel, launchable.layout, [view for view in self._views.values() if isinstance(view, TensorMap)])
        self._hidden = (device.failures.claim, device.failures.record, launchable.number)
        self._cooperative = attributes.cooperative
        self._shared = launchable.shared.launch_bytes
        self._sizes = self._shared_sizes(launchable) if launchable.shared.views else None
        self._has_more = self._cooperative or self._sizes is not None
        self.can_lie_ready = self._sizes is None
        """Whether all that decides a launch is known to its launcher; the shapes of shared arrays are not."""
        self._free = _Free()
        self.aligned = {name: view.alignment for name, view in self._views.items() if view.alignment > view.element.itemsize}
        """Array parameters of which the kernel moves several elements at once, with the bytes to which they must be aligned."""

    def launch(self, stream: Stream, grid: tuple[int, int, int], values: tuple[Any, ...]) -> None:
        """Pack `values`, one per slot before the hidden ones, and launch `grid`, which has at least one block."""
        x, y, z = grid
        more, shared = self._more(values, stream, x * y * z) if self._has_more else ((), self._shared)
        free = self._free.buffers
        buffer = free.pop() if free else Buffer(self.layout)
        try:
            self._pack(buffer.bytes, 0, *values, *self._hidden, *grid, *more)
        except (struct.error, OverflowError, TypeError):
            self._unpackable(values)
            raise
        self._start(stream, x * y * z, buffer, shared)
        free.append(buffer)

    def _more(self, values: tuple[Any, ...], stream: Stream, blocks: int) -> tuple[list[int], int]:
        """The values of the slots that only some kernels have, and the bytes of shared memory that depend on the launch."""
        slots, shared = self._sizes(values) if self._sizes is not None else ([], self._shared)
        if self._cooperative:
            slots.insert(0, self._barrier(stream, blocks, shared))
        return slots, shared

    def prepare(self, grid: tuple[int, int, int], values: tuple[Any, ...]) -> tuple[CpuLaunch | CudaLaunch, tuple[Array, ...]]:
        """The same launch to be made later, in a graph, and the arrays that it needs beside its arguments; `grid` may have no block.

        Launches of a graph may run side by side, so that a cooperative one has its own barrier.
        """
        x, y, z = grid
        slots, shared = self._sizes(values) if self._sizes is not None else ([], self._shared)
        barriers = (self._own_barrier(x * y * z, shared),) if self._cooperative else ()
        buffer = Buffer(self.layout)
        if not x * y * z:  # one extent of none may be any number
            x = y = z = 0
        try:
            self._pack(buffer.bytes, 0, *values, *self._hidden, x, y, z, *(barrier.address for barrier in barriers), *slots)
        except (struct.error, OverflowError, TypeError):
            self._unpackable(values)
            raise
        return self._later(x * y * z, buffer, shared), barriers

    def ready(self, stream: Stream, grid: tuple[int, int, int], values: tuple[Any, ...]) -> tuple[Runner, Any]:
        """The launch of `launch` to be made again and again, and the buffer of its packed arguments."""
        x, y, z = grid
        more, shared = self._more(values, stream, x * y * z)
        buffer = Buffer(self.layout)
        self._pack(buffer.bytes, 0, *values, *self._hidden, *grid, *more)
        return self.runner(self._later(x * y * z, buffer, shared), stream), buffer.bytes

    def runner(self, launch: CpuLaunch | CudaLaunch, stream: Stream) -> Runner:
        """What makes a launch in a stream, again and again."""
        raise TypeError("a plan is a CpuPlan or a CudaPlan")

    def _barrier(self, stream: Stream, blocks: int, shared: int) -> int:
        """The address of the word at which the blocks of a cooperative launch in a stream wait, 0 if they never do.

        Raises LaunchError if there are too many of them.
        """
        return 0

    def _own_barrier(self, blocks: int, shared: int) -> Array:
        """Such a word for a launch of a graph."""
        return self._device._make(1, U32, zeroed=True)

    def _shared_sizes(self, launchable: Launchable) -> SharedSizes:
        raise TypeError("a plan is a CpuPlan or a CudaPlan")

    def _later(self, blocks: int, buffer: Buffer, shared: int) -> CpuLaunch | CudaLaunch:
        raise TypeError("a plan is a CpuPlan or a CudaPlan")

    def _start(self, stream: Stream, blocks: int, buffer: Buffer, shared: int) -> None:
        raise TypeError("a plan is a CpuPlan or a CudaPlan")

    def tensor_map(self, name: str, annotation: str, given: Array | DeviceTensorMap, values: tuple[Any, ...]) -> DeviceTensorMap:
        """The tensor map for a parameter: the one that is given, which has to be cut as the kernel copies, or one of the array that is given. `values` are
        those of `launch`, without maps."""
        wanted = self._boxes(name, values)
        array = given.array if isinstance(given, DeviceTensorMap) else given
        if array.memory.readonly and self._views[name].written:
            refuse.readonly(self._kernel, name, annotation, array)
        if isinstance(given, DeviceTensorMap):
            if wanted is not None and given.form != wanted:
                refuse.form(self._kernel, name, given, wanted)
            return given
        if wanted is None:
            refuse.unknown_box(self._kernel, name, annotation)
        try:
            return tensor_map(given, wanted.box, swizzle=wanted.swizzle)
        except ValueError as error:
            refuse.unmappable(self._kernel, name, annotation, error)

    def check_overlap(self, a: str, a_array: Array, b: str, b_array: Array) -> None:
        """Called if the memory of two arguments may overlap. Raises LaunchError unless the kernel may be given both.

        It may if neither is written, if one is not touched at all, or if both are the same elements and every access of both goes through the same
        witness, so that each thread only meets its own elements.
        """
        if not a_array.size or not b_array.size:
            return
        first, second = self._views[a], self._views[b]
        if not (first.written or second.written) or not (first.written or first.read) or not (second.written or second.read):
            return
        if not shares_elements(a_array, b_array):
            return
        same = _elements(a_array) == _elements(b_array)
        if same and first.witness is not None and first.witness == second.witness:
            return
        if not same:
            why = "They are not the same elements"
        elif first.witness is None or second.witness is None:
            free = a if first.witness is None else b
            why = f"The same array for both is fine only where the kernel touches each element through one witness; it does not for {free}"
        else:
            why = f"The kernel touches {a} through {first.witness} and {b} through {second.witness}"
        if first.written:
            refuse.overlap(self._kernel, a, a_array, b, b_array, why)
        refuse.overlap(self._kernel, b, b_array, a, a_array, why)

    @functools.cached_property
    def rivals(self) -> dict[str, list[str]]:
        """For each array parameter, the others whose memory it may not share: one of both is written, and the other one touched."""
        touched = {name: view for name, view in self._views.items() if view.written or view.read}
        found: dict[str, list[str]] = {name: [] for name in self._views}
        for name, view in touched.items():
            found[name] += [other for other, its in touched.items() if other != name and (view.written or its.written)]
        return found

    def alignment_of(self, name: str) -> int:
        """Bytes of which the address of an array argument is a multiple."""
        return self._views[name].alignment

    def takes_readonly(self, name: str) -> bool:
        """Whether an array argument may be one that another library does not let us write to."""
        return self._views[name].kind == "Slice"

    def check_overlaps(self, arrays: dict[str, Array]) -> None:
        """`check_overlap` of all pairs whose memory overlaps, found by their order in memory."""
        by_start = sorted(arrays.items(), key=_start)
        for number, (a, a_array) in enumerate(by_start):
            end = a_array.end
            for b, b_array in by_start[number + 1 :]:
                if b_array.start >= end:
                    break
                self.check_overlap(a, a_array, b, b_array)

    def check_alignment(self, arrays: dict[str, Array]) -> None:
        """Raise LaunchError for an array that is less aligned than the kernel needs, in its first element or, of several dimensions, in another row."""
        for name, alignment in self.aligned.items():
            if not is_aligned(arrays[name], alignment):
                refuse.alignment(self._kernel, name, arrays[name], alignment)

    def _unpackable(self, values: tuple[Any, ...]) -> None:
        """Name the value that does not fit its slot."""
        for slot, value in zip(self.layout.slots, values, strict=False):
            try:
                struct.pack(slot.code, encoded(slot.type, value))
            except (struct.error, OverflowError, TypeError) as error:
                refuse.unpackable(self._kernel, slot.name, slot.type, value, error)


class CpuPlan(Plan):
    """A version for the CPU."""

    def __init__(self, kernel: str, device: Device, launchable: Launchable, attributes: Attributes) -> None:
        super().__init__(kernel, device, launchable, attributes)
        code = cast("Any", launchable.code)
        self._function = SanitizedFunction(code) if isinstance(code, InstrumentedCode) else CpuFunction(code)

    def _shared_sizes(self, launchable: Launchable) -> SharedSizes:
        """They lie behind what the code itself needs of the scratch memory."""
        code: Any = launchable.code
        return SharedSizes(self._kernel, self._device, self.layout, launchable.shared, code.scratch_bytes, ALIGNMENT)

    def _start(self, stream: Stream, blocks: int, buffer: Buffer, shared: int) -> None:
        self._function.run(buffer.address, blocks, shared)

    def runner(self, launch: CpuLaunch | CudaLaunch, stream: Stream) -> Runner:
        return launch if isinstance(launch, CpuLaunch) else super().runner(launch, stream)

    def _later(self, blocks: int, buffer: Buffer, shared: int) -> CpuLaunch:
        return CpuLaunch(self._function, blocks, buffer.address, buffer, shared)


class CudaPlan(Plan):
    """A version for one GPU."""

    def __init__(
        self, kernel: str, device: Device, launchable: Launchable, attributes: Attributes, block: tuple[int, int, int]
    ) -> None:  # fmt: skip
        super().__init__(kernel, device, launchable, attributes)
        code = launchable.code
        assert isinstance(code, CudaFunction)
        self._function = code
        self._block = block
        if attributes.cluster_size > PORTABLE_CLUSTER:
            self._check_cluster(attributes.cluster_size)

    def _shared_sizes(self, launchable: Launchable) -> SharedSizes:
        """They lie behind the arrays of fixed shape."""
        return SharedSizes(self._kernel, self._device, self.layout, launchable.shared, launchable.shared.size, limits.ALIGNMENT)

    def _start(self, stream: Stream, blocks: int, buffer: Buffer, shared: int) -> None:
        assert isinstance(stream, CudaStream)
        self._function.launch(stream, blocks, self._block, buffer.pointers_address, shared)

    def runner(self, launch: CpuLaunch | CudaLaunch, stream: Stream) -> Runner:
        assert isinstance(launch, CudaLaunch)
        assert isinstance(stream, CudaStream)
        return launch.on(stream) if launch.blocks else _Nothing()

    def _later(self, blocks: int, buffer: Buffer, shared: int) -> CudaLaunch:
        return CudaLaunch(self._function, blocks, self._block, buffer.pointers_address, buffer, shared)

    def _barrier(self, stream: Stream, blocks: int, shared: int) -> int:
        self._check_resident(blocks, shared)
        assert isinstance(stream, CudaStream)
        return stream.barrier()

    def _own_barrier(self, blocks: int, shared: int) -> Array:
        self._check_resident(blocks, shared)
        return super()._own_barrier(blocks, shared)

    def _check_cluster(self, blocks: int) -> None:
        """Raise LaunchError if the GPU runs no clusters of so many such blocks, of which only some GPUs have more than 8. Shared arrays that the launch sizes
        are not known yet: of those the driver speaks."""
        x, y, z = self._block
        if not self._function.most_resident(x * y * z, self._shared):
            refuse.large_cluster(self._kernel, blocks, self._function, x * y * z, self._shared)

    def _check_resident(self, blocks: int, shared: int) -> None:
        """Raise LaunchError if not all blocks of a cooperative launch run at the same time: those that run would wait for ever."""
        x, y, z = self._block
        most = self._function.most_resident(x * y * z, shared)
        if blocks > most:
            refuse.cooperative(self._kernel, blocks, most, self._function, x * y * z, shared)


def _start(named: tuple[str, Array]) -> int:
    return named[1].start


class _Nothing:
    """A launch without blocks."""

    def fire(self) -> None:
        """Do nothing."""

    def recover(self, status: int) -> None:
        """Never called."""


def _nothing() -> None:
    """Nobody has set it."""


def _elements(array: Array) -> tuple[Any, ...]:
    return array.address, array.shape, array.strides, array.dtype


class Buffer:
    """Packed arguments, prepared once per thread and version of a kernel."""

    def __init__(self, layout: Layout) -> None:
        self.bytes = (ctypes.c_char * layout.size)()
        """The packed arguments."""
        self.address = ctypes.addressof(self.bytes)
        """Their address."""
        arguments = layout.arguments
        self._pointers = (ctypes.c_void_p * len(arguments))(*(self.address + argument.offset for argument in arguments))
        self.pointers_address = ctypes.addressof(self._pointers)
        """Address of an array with the address of each argument."""


class _Free(threading.local):
    """Buffers of one thread that no launch is using. A second one is needed only if a signal handler launches while the thread waits."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []


class Plans(dict[tuple[Any, ...], Plan]):
    """The compiled versions of a kernel: `plans[device, *types, *constants]`, made when first asked for. Float constants are keyed by `.hex()`."""

    def __init__(self, declaration: Declaration, specialise: Specialise, runs: Sequence[Sequence[str]] = ()) -> None:
        """`runs` are the parameters that decide no check, in runs of neighbours (`kdsl.launch.short`)."""
        super().__init__()
        self._declaration = declaration
        self._specialise = specialise
        self.ready_launches = ReadyLaunches(runs)
        """Launches that lie ready."""
        self.changed: Callable[[], bool | None] = _nothing
        """Whether a name from outside stands for something else than it did; set by the owner of the launcher."""
        self.refuse_changed: Callable[[], None] = _nothing
        """Raises LaunchError if one does and that matters; set by the owner of the launcher."""
        self._constants = [p for p in declaration.parameters if isinstance(p.type, ConstAnnotation)]
        self.entry: Callable[..., Any] | None = None
        """What makes a launch, checks included; set by the owner of the launcher."""

    def recorded(
        self, plan: Plan, stream: Stream, grid: tuple[int, int, int], values: tuple[Any, ...], arguments: dict[str, Any]
    ) -> Launch:
        """A checked launch for a graph. `arguments` are those of the launcher, by parameter."""
        assert self.entry is not None, "the launcher's owner sets it"
        given = (value.array if isinstance(value, DeviceTensorMap) else value for value in arguments.values())
        arrays = tuple(value for value in given if isinstance(value, Array))
        prepared, further = plan.prepare(grid, values)
        return Launch(self._declaration.name, prepared, stream.device, stream, arguments, (*arrays, *further), plan, self.entry)

    def __missing__(self, key: tuple[Any, ...]) -> Plan:
        with compiling:
            if key not in self:
                self[key] = self._make(key)
            return self[key]

    def _make(self, key: tuple[Any, ...]) -> Plan:
        device: Device = key[0]
        variables = self._declaration.type_variables
        types: tuple[DType, ...] = key[1 : 1 + len(variables)]
        constants = {
            parameter.name: float.fromhex(value) if isinstance(value, str) else value
            for parameter, value in zip(self._constants, key[1 + len(variables) :], strict=True)
        }
        launchable = self._specialise(Specialisation(device, dict(zip(variables, types, strict=True)), constants))
        self._check_layout(launchable)
        name, attributes = self._declaration.name, self._declaration.attributes
        if isinstance(launchable.code, CudaFunction):
            return CudaPlan(name, device, launchable, attributes, self._declaration.block_dim)
        return CpuPlan(name, device, launchable, attributes)

    def _check_layout(self, launchable: Launchable) -> None:
        """The launcher packs by position; a compiler that lays out other slots would make every kernel read the wrong arguments."""
        hidden = (*HIDDEN, *further(self._declaration.attributes))
        wanted = [*slot_names(self._declaration), *(name for name, _ in hidden), *SharedSizes.slots(launchable.shared.views)]
        found = [slot.name for slot in launchable.layout.slots]
        if found != wanted:
            raise AssertionError(f"kernel {self._declaration.name} takes the arguments {found}, its launcher packs {wanted}")


def slot_names(declaration: Declaration) -> list[str]:
    """Names of the packed arguments of a declaration before the hidden ones, in order (`kdsl.ir.abi.layout`)."""
    names: list[str] = []
    for parameter in declaration.parameters:
        match parameter.type:
            case ViewAnnotation(kind="TensorMap", rank=rank):
                names += map_slots(parameter.name, rank)
            case ViewAnnotation() as view:
                names += view_slots(parameter.name, view.rank, strided=view.has_strides)
            case ConstAnnotation():
                continue
            case StructType(members=members):
                names += [f"{parameter.name}.{member.name}" for member in members]
            case _:
                names.append(parameter.name)
    return names
