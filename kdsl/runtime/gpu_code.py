"""Modules and launches on a GPU: PTX in, a function that launches out.

Modules are not unloaded: a kernel may still be running, and the code of a program's kernels is small. Leaves out how arguments are packed (`kdsl.launch.plan`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Never

from kdsl.errors import DeviceError
from kdsl.lang.attributes import PLAIN, PORTABLE_CLUSTER, Attributes
from kdsl.lang.limits import STATIC_SHARED_BYTES
from kdsl.runtime import cuda
from kdsl.runtime.cuda import call
from kdsl.runtime.gpu import CudaDevice, CudaStream
from kdsl.runtime.gpu_launch import configuration, launch_configuration
from kdsl.runtime.native_launch import NativeLaunch

_LOG_BYTES = 16384


class CudaFunction:
    """A kernel that is loaded on one GPU."""

    def __init__(self, device: CudaDevice, ptx: str, name: str, *, shared: int = 0, attributes: Attributes = PLAIN) -> None:
        """Load the entry `name` of `ptx`, whose launches ask for up to `shared` bytes of dynamic shared memory, and have the attributes of its kernel.

        Raises DeviceError with the assembler's log if the driver refuses it.
        """
        device.attach()
        self.device = device
        """The GPU."""
        self.name = name
        """Name of the entry."""
        self._module = _load(device, ptx, name)
        self.handle = call("cuModuleGetFunction", self._module, name.encode())
        """The driver's handle."""
        self.number = int(self.handle)
        """The same as a number."""
        # What not every GPU has is to be asked for, once
        if shared > STATIC_SHARED_BYTES:
            self._ask_for("MAX_DYNAMIC_SHARED_SIZE_BYTES", shared)
        if attributes.cluster_size > PORTABLE_CLUSTER:
            self._ask_for("NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
        self.attributes = attributes
        """What its launches ask for."""
        self._extended = attributes.cooperative or attributes.programmatic
        self.current_address = cuda.address_of("cuCtxGetCurrent")
        """Where the driver says which context is current."""
        self.entry_address = cuda.address_of("cuLaunchKernelEx" if self._extended else "cuLaunchKernel")
        """Where the driver launches it."""
        self._resident: dict[tuple[int, int], int] = {}
        self._free: dict[tuple[int, int, int], list[NativeLaunch]] = {}

    def attribute(self, name: str) -> int:
        """An attribute of the driver's, such as NUM_REGS, LOCAL_SIZE_BYTES, SHARED_SIZE_BYTES or MAX_THREADS_PER_BLOCK."""
        self.device.attach()
        return int(call("cuFuncGetAttribute", _attribute(name), self.handle))

    def _ask_for(self, name: str, value: int) -> None:
        call("cuFuncSetAttribute", self.handle, _attribute(name), value)

    def configuration(self, threads: tuple[int, int, int]) -> Any:
        """A configuration of the driver's for launches with attributes, None for those that need none."""
        return launch_configuration(self.attributes, threads) if self._extended else None

    def most_resident(self, threads: int, shared: int) -> int:
        """How many blocks of so many threads, with `shared` bytes of dynamic shared memory, the device runs at the same time; 0 if there is no room for a
        cluster."""
        known = self._resident.get((threads, shared))
        if known is None:
            self.device.attach()
            if self.attributes.cluster_size > 1:
                known = self._clusters(threads, shared) * self.attributes.cluster_size
            else:
                each = int(call("cuOccupancyMaxActiveBlocksPerMultiprocessor", self.handle, threads, shared))
                known = each * self.device.multiprocessors
            self._resident[threads, shared] = known
        return known

    def _clusters(self, threads: int, shared: int) -> int:
        try:
            return int(call("cuOccupancyMaxActiveClusters", self.handle, configuration(self, threads, shared)))
        except DeviceError as error:
            if error.status == "CUDA_ERROR_INVALID_CLUSTER_SIZE":  # of a GPU that has none of more than 8 blocks
                return 0
            raise

    def launch(self, stream: CudaStream, blocks: int, block: tuple[int, int, int], parameters: int, shared: int = 0) -> None:
        """Launch a one-dimensional grid of blocks, each with `shared` bytes of dynamic shared memory.

        `parameters` is the address of an array with the address of each parameter; the driver copies what they hold.
        """
        free = self._free.setdefault(block, [])
        try:
            launch = free.pop()  # one step of the interpreter: no two threads, nor a signal handler, get the same
        except IndexError:
            launch = NativeLaunch(self, stream.number, blocks, block, parameters, shared, None)
        else:
            launch.set(stream.number, blocks, parameters, shared)
        status = launch.fire()
        if status:
            launch.recover(status)
        free.append(launch)

    def failed(self, status: Any, blocks: int, block: tuple[int, int, int]) -> Never:
        """Raise DeviceError for a launch that ended with a status."""
        x, y, z = block
        raise cuda.failure(f"launch of {self.name} on {self.device} ({blocks} blocks of {x} x {y} x {z} threads)", status)


@dataclass(frozen=True)
class CudaLaunch:
    """A launch with its packed arguments, for a graph."""

    function: CudaFunction
    """The kernel."""
    blocks: int
    """Number of blocks; a launch has at least one, a step of a graph may have none."""
    block: tuple[int, int, int]
    """Threads per block along x, y and z."""
    parameters: int
    """Address of an array with the address of each parameter."""
    owner: object
    """What keeps them."""
    shared: int = 0
    """Bytes of dynamic shared memory of each block."""

    def on(self, stream: CudaStream) -> NativeLaunch:
        """The launch in a stream; it has at least one block."""
        return NativeLaunch(self.function, stream.number, self.blocks, self.block, self.parameters, self.shared, self.owner)

    def node_parameters(self) -> Any:
        """The driver's parameters of a kernel node, with one block if there is none. The driver copies what they point to."""
        made = cuda.driver().CUDA_KERNEL_NODE_PARAMS()
        made.func = self.function.handle
        made.gridDimX, made.gridDimY, made.gridDimZ = max(self.blocks, 1), 1, 1
        made.blockDimX, made.blockDimY, made.blockDimZ = self.block
        made.sharedMemBytes = self.shared
        made.kernelParams = self.parameters
        return made


def _attribute(name: str) -> Any:
    return getattr(cuda.driver().CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")


def _load(device: CudaDevice, ptx: str, name: str) -> object:
    """The module, with the assembler's log in the exception if it is refused."""
    options = cuda.driver().CUjit_option
    log = bytearray(_LOG_BYTES)
    status, module = cuda.driver().cuModuleLoadDataEx(
        ptx.encode("ascii") + b"\0",
        2,
        [options.CU_JIT_ERROR_LOG_BUFFER, options.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES],
        [log, len(log)],
    )
    if status != 0:
        text = bytes(log).split(b"\0")[0].decode(errors="replace").strip()
        raise DeviceError(
            f"the driver refuses the PTX of {name} on {device}: {cuda.describe(status)}{f'{chr(10)}{text}' if text else ''}",
            cuda.status_name(status),
        )
    return module
