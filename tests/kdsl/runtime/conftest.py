"""A stand-in for the CUDA driver, so that the GPU's code runs where there is no GPU: memory is the host's, streams are lists of what waits for what.

Its functions take exactly the arguments of cuda-python's (checked against its signatures); enumerations are cuda-python's own.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kdsl.runtime import cuda, device

sys.path.insert(0, str(Path(__file__).parent))
HANDLES = itertools.count(1000)


_NATIVE: Any = {
    "cuCtxGetCurrent": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p),
    "cuLaunchKernel": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3),
    "cuLaunchKernelEx": ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4),
}


@dataclass
class FakeNode:
    """A node of a graph."""

    run: Callable[[], None]
    after: list[int]
    enabled: bool = True


class FakeDriver:
    """The functions of `cuda.bindings.driver` that the runtime calls. `log` holds the names and arguments of all calls but the context's."""

    current = threading.local()  # of all of them: pytest keeps the objects of a test into the next one

    def __init__(self, real: Any) -> None:
        self._real = real
        self.log: list[tuple[str, tuple[Any, ...]]] = []
        self.current.context = 0
        self.memory: dict[int, Any] = {}
        self.streams: dict[int, set[int]] = {1: set()}  # the legacy default stream
        self.blocking: set[int] = set()
        self.events: dict[int, int] = {}
        self.fail: dict[str, int] = {}
        self.kernels: dict[str, Callable[[int, tuple[int, ...], list[int]], None]] = {}
        self.dynamic_shared: dict[str, int] = {}
        self.large_clusters: set[int] = set()
        """Functions whose clusters may have more than 8 blocks."""
        self.version = 13000
        self.resident = 2
        self.attributes: list[dict[str, int]] = []
        self.early: set[tuple[int, int]] = set()
        self.limit = 1 << 30
        self.graphs: dict[int, dict[int, FakeNode]] = {}
        self.executables: dict[int, dict[int, FakeNode]] = {}
        self.native: dict[str, Any] = {}
        self.raised: list[BaseException] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not name.startswith("cu") or isinstance(found, type):
            return found
        signature = re.match(r"\w+\((.*)\)", (found.__doc__ or "").split("\n")[0])
        wanted = len([part for part in re.sub(r"\[[^]]*\]", "", signature.group(1)).split(",") if part.strip()]) if signature else 0
        body = getattr(type(self), f"do_{name}")

        def function(*arguments: Any) -> tuple[Any, ...]:
            assert len(arguments) == wanted, f"{name} takes {wanted} arguments, not {len(arguments)}"
            if not name.startswith(("cuCtxGet", "cuCtxSet", "cuGetError")):
                self.log.append((name, arguments))
            status = self._real.CUresult(self.fail.get(name, 0))
            results = body(self, *arguments) if status == 0 else None
            if isinstance(results, int) and name.startswith(("cuMemAlloc",)) and results < 0:
                return self._real.CUresult.CUDA_ERROR_OUT_OF_MEMORY, self._real.CUdeviceptr(0)
            return (status, *results) if isinstance(results, tuple) else (status,) if results is None else (status, results)

        return function

    def called(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of all calls of a function."""
        return [arguments for called, arguments in self.log if called == name]

    def in_context(self) -> None:
        assert getattr(self.current, "context", 0) == 77, "the device's context is not current"

    # ---------------------------------------------------------------------------------------------------------------- devices, contexts

    def do_cuInit(self, flags: int) -> None:
        assert flags == 0

    def do_cuGetErrorString(self, status: Any) -> Any:
        return b"text of " + status.name.encode()

    def do_cuDeviceGetCount(self) -> int:
        return 1

    def do_cuDeviceGet(self, index: int) -> Any:
        return self._real.CUdevice(index)

    def do_cuDeviceGetName(self, length: int, of: Any) -> bytes:
        return b"Fake GPU".ljust(length, b"\0")

    def do_cuDeviceGetAttribute(self, attribute: Any, of: Any) -> int:
        known = {
            "COMPUTE_CAPABILITY_MAJOR": 9,
            "MEMORY_POOLS_SUPPORTED": 1,
            "MULTIPROCESSOR_COUNT": 4,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
        }
        return known.get(attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_"), 0)

    def do_cuGetProcAddress(self, symbol: bytes, version: int, flags: int) -> tuple[int, Any]:
        """Native code calls these: here they lead back to Python."""
        assert (version, flags) == (12000, 0)
        name = symbol.decode()
        made = self.native.get(name)
        if made is None:
            made = self.native[name] = _NATIVE[name](getattr(self, f"native_{name}"))
        return ctypes.cast(made, ctypes.c_void_p).value or 0, self._real.CUdriverProcAddressQueryResult(0)

    def native_cuCtxGetCurrent(self, to: int) -> int:
        ctypes.c_uint64.from_address(to).value = getattr(self.current, "context", 0)
        return 0

    def native_cuLaunchKernel(self, *arguments: int | None) -> int:
        function, *numbers, stream, parameters, extra = arguments
        return self._from_native("cuLaunchKernel", function, *numbers, self._real.CUstream(stream or 0), parameters, extra or 0)

    def native_cuLaunchKernelEx(self, config: int, function: int, parameters: int, extra: int | None) -> int:
        wrapped = self._real.CUlaunchConfig(_ptr=config)
        at = ctypes.c_uint64.from_address(config + 40).value
        attributes = [self._real.CUlaunchAttribute(_ptr=at + 72 * number) for number in range(wrapped.numAttrs)]
        names = ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes", "hStream", "numAttrs")
        seen = SimpleNamespace(address=config, attrs=attributes, **{name: getattr(wrapped, name) for name in names})
        return self._from_native("cuLaunchKernelEx", seen, function, parameters, extra or 0)

    def _from_native(self, name: str, *arguments: Any) -> int:
        """Call the stand-in; what it raises cannot pass through native code, and is kept for the end of the test."""
        try:
            return int(getattr(self, name)(*arguments)[0])
        except BaseException as error:
            self.raised.append(error)
            return 999

    def do_cuDriverGetVersion(self) -> int:
        return self.version

    def do_cuDevicePrimaryCtxRetain(self, of: Any) -> Any:
        return self._real.CUcontext(77)

    def do_cuCtxGetCurrent(self) -> Any:
        return self._real.CUcontext(getattr(self.current, "context", 0))

    def do_cuCtxSetCurrent(self, context: Any) -> None:
        self.current.context = int(context)

    def do_cuCtxSynchronize(self) -> None:
        self.in_context()

    # --------------------------------------------------------------------------------------------------------------------------- memory

    def _allocate(self, nbytes: int) -> Any:
        self.in_context()
        assert nbytes > 0
        if nbytes > self.limit:
            return -1
        block = (ctypes.c_char * (nbytes + 256))()
        address = ctypes.addressof(block) + -ctypes.addressof(block) % 256
        self.memory[address] = block
        return self._real.CUdeviceptr(address)

    def do_cuMemAlloc(self, nbytes: int) -> Any:
        return self._allocate(nbytes)

    def do_cuMemAllocAsync(self, nbytes: int, stream: Any) -> Any:
        assert int(stream) in self.streams
        return self._allocate(nbytes)

    def do_cuMemHostAlloc(self, nbytes: int, flags: int) -> int:
        assert flags == 3
        return int(self._allocate(nbytes))

    def do_cuMemHostGetDevicePointer(self, address: int, flags: int) -> Any:
        return self._real.CUdeviceptr(address)

    def do_cuMemFreeAsync(self, address: Any, stream: Any) -> None:
        self.in_context()
        self.memory.pop(int(address), None)

    def do_cuPointerGetAttribute(self, attribute: Any, address: int) -> int:
        assert attribute.name == "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL"
        assert address
        return 0

    def do_cuMemGetInfo(self) -> tuple[int, int]:
        return 5, 10

    def do_cuDeviceGetDefaultMemPool(self, of: Any) -> Any:
        return self._real.CUmemoryPool(1)

    def do_cuMemPoolSetAttribute(self, pool: Any, attribute: Any, value: Any) -> None:
        assert isinstance(value, self._real.cuuint64_t)

    def do_cuMemPoolTrimTo(self, pool: Any, keep: int) -> None:
        assert keep == 0

    def do_cuMemsetD8Async(self, address: Any, value: int, count: int, stream: Any) -> None:
        self._set(address, value, count, "B")

    def do_cuMemsetD16Async(self, address: Any, value: int, count: int, stream: Any) -> None:
        self._set(address, value, count, "H")

    def do_cuMemsetD32Async(self, address: Any, value: int, count: int, stream: Any) -> None:
        self._set(address, value, count, "I")

    def _set(self, address: Any, value: int, count: int, code: str) -> None:
        self.in_context()
        data = struct.pack(f"={code}", value) * count
        ctypes.memmove(int(address), data, len(data))

    def do_cuMemcpyHtoDAsync(self, to: Any, source: int, nbytes: int, stream: Any) -> None:
        self.in_context()
        ctypes.memmove(int(to), source, nbytes)

    def do_cuMemcpyDtoHAsync(self, to: int, source: Any, nbytes: int, stream: Any) -> None:
        self.in_context()
        ctypes.memmove(to, int(source), nbytes)

    def do_cuMemcpyDtoDAsync(self, to: Any, source: Any, nbytes: int, stream: Any) -> None:
        self.in_context()
        ctypes.memmove(int(to), int(source), nbytes)

    # --------------------------------------------------------------------------------------------------------------- streams and events

    def do_cuStreamCreate(self, flags: int) -> Any:
        kinds = self._real.CUstream_flags
        assert flags in (kinds.CU_STREAM_DEFAULT.value, kinds.CU_STREAM_NON_BLOCKING.value)
        handle = next(HANDLES)
        self.streams[handle] = set()
        if flags == kinds.CU_STREAM_DEFAULT.value:
            self.blocking.add(handle)
        return self._real.CUstream(handle)

    def do_cuStreamDestroy(self, stream: Any) -> None:
        self.streams.pop(int(stream), None)  # an unknown one is of an earlier test, whose last references pytest drops late

    def do_cuStreamSynchronize(self, stream: Any) -> None:
        self.in_context()
        assert int(stream) in self.streams

    def do_cuStreamWaitEvent(self, stream: Any, event: Any, flags: int) -> None:
        self.in_context()
        self.streams[int(stream)].add(self.events[int(event)])

    def do_cuEventCreate(self, flags: int) -> Any:
        handle = next(HANDLES)
        self.events[handle] = 0
        return self._real.CUevent(handle)

    def do_cuEventDestroy(self, event: Any) -> None:
        self.events.pop(int(event), None)

    def do_cuEventRecord(self, event: Any, stream: Any) -> None:
        self.in_context()
        self.events[int(event)] = int(stream)

    def do_cuEventSynchronize(self, event: Any) -> None:
        self.in_context()

    def do_cuEventElapsedTime(self, start: Any, end: Any) -> float:
        return 1.5

    # -------------------------------------------------------------------------------------------------------------------------- kernels

    def do_cuModuleLoadDataEx(self, image: bytes, count: int, options: list[Any], values: list[Any]) -> Any:
        self.in_context()
        assert image.endswith(b"\0")
        assert [option.name for option in options] == ["CU_JIT_ERROR_LOG_BUFFER", "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES"][:count]
        assert (type(values[0]), values[1]) == (bytearray, len(values[0]))
        return self._real.CUmodule(next(HANDLES))

    def do_cuModuleGetFunction(self, module: Any, name: bytes) -> Any:
        handle = next(HANDLES)
        self.kernels[str(handle)] = self.kernels[name.decode()]
        return self._real.CUfunction(handle)

    def do_cuFuncGetAttribute(self, attribute: Any, function: Any) -> int:
        return {"CU_FUNC_ATTRIBUTE_NUM_REGS": 32, "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES": 128}[attribute.name]

    def do_cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function: Any, threads: int, shared: int) -> int:
        self.in_context()
        self._has_shared(str(int(function)), shared)
        return self.resident

    def do_cuOccupancyMaxActiveClusters(self, function: Any, config: Any) -> int:
        self.in_context()
        (attribute,) = config.attrs
        assert (config.numAttrs, attribute.id.name) == (1, "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION")
        assert config.gridDimX == attribute.value.clusterDim.x
        assert config.gridDimX <= 8 or int(function) in self.large_clusters
        return self.resident

    def do_cuFuncSetAttribute(self, function: Any, attribute: Any, value: int) -> None:
        self.in_context()
        if attribute.name == "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED":
            assert value == 1
            self.large_clusters.add(int(function))
            return
        assert attribute.name == "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
        self.dynamic_shared[str(int(function))] = value

    def _has_shared(self, function: str, shared: int) -> None:
        """A launch asks for no more dynamic shared memory than 48 KiB, or what the function may have."""
        assert 0 <= shared <= self.dynamic_shared.get(function, 48 * 1024)

    def do_cuLaunchKernel(
        self, function: Any, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: Any, parameters: int, extra: int
    ) -> None:
        self.in_context()
        assert (gy, gz, extra) == (1, 1, 0)
        self._has_shared(str(int(function)), shared)
        assert int(stream) in self.streams
        self.kernels[str(int(function))](gx, (bx, by, bz), parameters)  # type: ignore[arg-type]

    def do_cuLaunchKernelEx(self, config: Any, function: Any, parameters: int, extra: int) -> None:
        attributes = {}
        assert len(config.attrs) == config.numAttrs
        for attribute in config.attrs:
            name = attribute.id.name.removeprefix("CU_LAUNCH_ATTRIBUTE_")
            field = {"COOPERATIVE": "cooperative", "PROGRAMMATIC_STREAM_SERIALIZATION": "programmaticStreamSerializationAllowed"}[name]
            attributes[name] = getattr(attribute.value, field)
        self.attributes.append(attributes)
        block = config.blockDimX, config.blockDimY, config.blockDimZ
        grid = config.gridDimX, config.gridDimY, config.gridDimZ
        self.do_cuLaunchKernel(function, *grid, *block, config.sharedMemBytes, config.hStream, parameters, extra)

    # ---------------------------------------------------------------------------------------------------------------------- tensor maps

    def do_cuTensorMapEncodeTiled(
        self, kind: Any, rank: int, address: int, extents: list[Any], strides: list[Any], box: list[Any], steps: list[Any], interleave: Any,
        swizzle: Any, promotion: Any, fill: Any,
    ) -> Any:  # fmt: skip
        self.in_context()
        assert (len(extents), len(strides), len(box), len(steps)) == (rank, max(rank - 1, 1), rank, rank)
        assert all(isinstance(n, self._real.cuuint64_t) for n in (*extents, *strides))
        assert all(isinstance(n, self._real.cuuint32_t) for n in (*box, *steps))
        assert {int(n) for n in steps} == {1}
        names = (interleave.name, fill.name)
        assert names == ("CU_TENSOR_MAP_INTERLEAVE_NONE", "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE")
        made = self._real.CUtensorMap()
        words = [int(address), int(kind), *map(int, (*extents, *strides, *box)), int(swizzle), int(promotion)]
        made.opaque = [self._real.cuuint64_t(word) for word in (words + 16 * [0])[:16]]
        return made

    # --------------------------------------------------------------------------------------------------------------------------- graphs

    def do_cuGraphCreate(self, flags: int) -> Any:
        self.in_context()
        assert flags == 0
        handle = next(HANDLES)
        self.graphs[handle] = {}
        return self._real.CUgraph(handle)

    def _node(self, graph: Any, after: list[Any], count: int, run: Callable[[], None]) -> Any:
        self.in_context()
        nodes = self.graphs[int(graph)]
        assert len(after) == count
        assert {int(node) for node in after} <= set(nodes)
        handle = next(HANDLES)
        nodes[handle] = FakeNode(run, [int(node) for node in after])
        return self._real.CUgraphNode(handle)

    def _kernel(self, parameters: Any) -> Callable[[], None]:
        assert (parameters.gridDimY, parameters.gridDimZ, parameters.extra) == (1, 1, 0)
        self._has_shared(str(int(parameters.func)), parameters.sharedMemBytes)
        assert parameters.gridDimX >= 1
        block = (parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ)
        function = self.kernels[str(int(parameters.func))]
        blocks, address = parameters.gridDimX, parameters.kernelParams
        return lambda: function(blocks, block, address)

    def do_cuGraphAddKernelNode(self, graph: Any, after: list[Any], count: int, parameters: Any) -> Any:
        return self._node(graph, after, count, self._kernel(parameters))

    def do_cuGraphKernelNodeSetAttribute(self, node: Any, attribute: Any, value: Any) -> None:
        self.in_context()
        assert any(int(node) in nodes for nodes in self.graphs.values())
        assert attribute.name == "CU_LAUNCH_ATTRIBUTE_COOPERATIVE"
        self.attributes.append({"COOPERATIVE": value.cooperative})

    def do_cuGraphAddDependencies(self, graph: Any, before: list[Any], behind: list[Any], edges: list[Any], count: int) -> None:
        self.in_context()
        (first,), (second,), (edge,) = before, behind, edges
        assert (count, edge.type, edge.from_port, edge.to_port) == (1, 1, 1, 0)
        self.graphs[int(graph)][int(second)].after.append(int(first))
        self.early.add((int(first), int(second)))

    do_cuGraphAddDependencies_v2 = do_cuGraphAddDependencies

    def do_cuGraphAddMemcpyNode(self, graph: Any, after: list[Any], count: int, parameters: Any, context: Any) -> Any:
        device = self._real.CUmemorytype.CU_MEMORYTYPE_DEVICE
        assert (parameters.srcMemoryType, parameters.dstMemoryType, parameters.Height, parameters.Depth) == (device, device, 1, 1)
        assert int(context) == 77
        to, source, nbytes = int(parameters.dstDevice), int(parameters.srcDevice), parameters.WidthInBytes

        def copy() -> None:
            ctypes.memmove(to, source, nbytes)

        return self._node(graph, after, count, copy)

    def do_cuGraphAddMemsetNode(self, graph: Any, after: list[Any], count: int, parameters: Any, context: Any) -> Any:
        assert int(context) == 77
        to, size, rows, columns = int(parameters.dst), parameters.elementSize, parameters.height, parameters.width
        pitch, data = parameters.pitch, parameters.value.to_bytes(size, "little") * columns
        assert to % size == pitch % size == 0

        def fill() -> None:
            for row in range(rows):
                ctypes.memmove(to + row * pitch, data, len(data))

        return self._node(graph, after, count, fill)

    def do_cuGraphInstantiate(self, graph: Any, flags: int) -> Any:
        self.in_context()
        assert flags == 0
        handle = next(HANDLES)
        self.executables[handle] = {node: replace(found) for node, found in self.graphs[int(graph)].items()}
        return self._real.CUgraphExec(handle)

    def do_cuGraphExecKernelNodeSetParams(self, executable: Any, node: Any, parameters: Any) -> None:
        self.in_context()
        self.executables[int(executable)][int(node)].run = self._kernel(parameters)

    def do_cuGraphNodeSetEnabled(self, executable: Any, node: Any, enabled: int) -> None:
        self.in_context()
        self.executables[int(executable)][int(node)].enabled = bool(enabled)

    def do_cuGraphLaunch(self, executable: Any, stream: Any) -> None:
        self.in_context()
        assert int(stream) in self.streams
        for node in self.executables[int(executable)].values():
            if node.enabled:
                node.run()

    def do_cuGraphExecDestroy(self, executable: Any) -> None:
        self.executables.pop(int(executable), None)

    def do_cuGraphDestroy(self, graph: Any) -> None:
        self.graphs.pop(int(graph), None)


@pytest.fixture
def fake_driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """A machine with one fake GPU of compute capability 9.0."""
    real = pytest.importorskip("cuda.bindings.driver")
    fake = FakeDriver(real)
    monkeypatch.setattr(cuda, "driver", lambda: fake)
    monkeypatch.setattr(cuda, "has_driver", lambda: True)
    monkeypatch.setattr(cuda, "_process", None)
    monkeypatch.setattr(device, "_devices", {})
    monkeypatch.setattr("kdsl.runtime.exit._reporters", [])
    monkeypatch.delenv("KDSL_DEVICE", raising=False)
    yield fake
    if fake.raised:
        raise fake.raised[0]
    for found in device._devices.values():  # what the test leaves behind must not be freed by a real driver
        found.__dict__["finalise"] = lambda action: None
