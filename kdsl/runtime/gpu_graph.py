"""A graph on a GPU: nodes of the driver's, made when the capture is over, and one call to launch them all.

The driver copies kernel arguments when a node is made or exchanged. A launch without blocks, which the driver does not know, is a node that is switched off.
Nodes are added explicitly; the driver's own stream capture is not used, since it would also record what finalisers do on a captured stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kdsl.runtime import cuda
from kdsl.runtime.capture import Copy, Fill, Launch, Step
from kdsl.runtime.cuda import call
from kdsl.runtime.gpu_code import CudaLaunch
from kdsl.runtime.stream import Stream

if TYPE_CHECKING:
    from kdsl.runtime.gpu import CudaDevice


class CudaExecutable:
    """The steps of a graph (`kdsl.runtime.graph.Executable`)."""

    def __init__(self, device: CudaDevice, steps: Sequence[Step]) -> None:
        """Make and instantiate the nodes. Raises DeviceError if the driver refuses them."""
        device.attach()
        self._device = device
        self._executable: Any = None
        self._graph = call("cuGraphCreate", 0)
        self._ends: list[Any] = []
        """The node of each step; of several, the last."""
        self._off: set[int] = set()
        """The steps that are switched off."""
        self._kernels = {number for number, step in enumerate(steps) if isinstance(step.work, Launch)}
        for step in steps:
            self._ends.append(self._add(step))
        self._executable = call("cuGraphInstantiate", self._graph, 0)
        self._launch = cuda.driver().cuGraphLaunch
        for number, step in enumerate(steps):
            if isinstance(step.work, Launch) and not _cuda(step.work).blocks:
                self._enable(number, on=False)

    def launch(self, stream: Stream) -> None:
        """Launch the graph in the stream."""
        self._device.attach()
        (status,) = self._launch(self._executable, stream.handle)
        if status != 0:
            raise cuda.failure(f"launch of a graph of {len(self._ends)} steps on {self._device}", status)

    def update(self, number: int, launch: Launch) -> None:
        """Exchange a launch; those of the graph that are under way keep what they have."""
        self._device.attach()
        prepared = _cuda(launch)
        if prepared.blocks:
            call("cuGraphExecKernelNodeSetParams", self._executable, self._ends[number], prepared.node_parameters())
        self._enable(number, on=prepared.blocks > 0)

    def _enable(self, number: int, *, on: bool) -> None:
        if on is (number in self._off):
            call("cuGraphNodeSetEnabled", self._executable, self._ends[number], int(on))
            self._off ^= {number}

    def _add(self, step: Step) -> Any:
        after = [self._ends[number] for number in step.after]
        match step.work:
            case Launch() as launch:
                return self._add_launch(_cuda(launch), step.after)
            case Copy() as copy:
                return call("cuGraphAddMemcpyNode", self._graph, after, len(after), _copy(copy), self._device.context)
            case Fill(to=to, value=value):
                for parameters in _fills(to.address, to.size, value.tobytes()):
                    after = [call("cuGraphAddMemsetNode", self._graph, after, len(after), parameters, self._device.context)]
                return after[0]

    def _add_launch(self, launch: CudaLaunch, after: Sequence[int]) -> Any:
        """A kernel node. A programmatic one begins before the kernel that it comes after has ended, as in a stream; it waits in itself."""
        early = launch.function.attributes.programmatic and len(after) == 1 and after[0] in self._kernels and has_early_edges()
        before = [] if early else [self._ends[number] for number in after]
        node = call("cuGraphAddKernelNode", self._graph, before, len(before), launch.node_parameters())
        if early:
            _depend_early(self._graph, self._ends[after[0]], node)
        if launch.function.attributes.cooperative:
            driver = cuda.driver()
            value = driver.CUkernelNodeAttrValue()
            value.cooperative = 1
            call("cuGraphKernelNodeSetAttribute", node, driver.CUkernelNodeAttrID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, value)
        return node

    def _destroy(self) -> None:
        if self._executable is not None:
            call("cuGraphExecDestroy", self._executable)  # the driver keeps it until its launches are done
        call("cuGraphDestroy", self._graph)

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing, usable: Callable[[], bool] = cuda.usable) -> None:
        if self.__dict__.get("_graph") is not None and not finalizing() and usable():
            self._device.finalise(self._destroy)


_EARLY_EDGES: Final = 12030
"""The first driver whose graphs have edges that let a kernel begin early (CUDA 12.3)."""


def has_early_edges() -> bool:
    """Whether the driver has them; without, a programmatic kernel begins when what it depends on has ended."""
    return int(call("cuDriverGetVersion")) >= _EARLY_EDGES


def _depend_early(graph: Any, before: Any, node: Any) -> None:
    driver = cuda.driver()
    edge = driver.CUgraphEdgeData()
    edge.type = driver.CUgraphDependencyType.CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC.value
    edge.from_port = driver.CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
    # cuda-python 12 has the form that takes the data of edges under another name
    name = "cuGraphAddDependencies_v2" if hasattr(driver, "cuGraphAddDependencies_v2") else "cuGraphAddDependencies"
    call(name, graph, [before], [node], [edge], 1)


def _cuda(launch: Launch) -> CudaLaunch:
    assert isinstance(launch.prepared, CudaLaunch)
    return launch.prepared


def _copy(copy: Copy) -> Any:
    """A copy of bytes that lie side by side: one row, whose pitch then does not count."""
    driver = cuda.driver()
    parameters = driver.CUDA_MEMCPY3D()
    parameters.srcMemoryType = parameters.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
    parameters.srcDevice, parameters.dstDevice = copy.source.address, copy.to.address
    parameters.WidthInBytes, parameters.Height, parameters.Depth = copy.to.nbytes, 1, 1
    return parameters


def _fills(address: int, count: int, pattern: bytes) -> list[Any]:
    """Parameters that set `count` elements to a pattern of any size. The driver's have one, two or four bytes, so of a longer pattern each part is a column."""
    size = len(pattern)
    unit = next(width for width in (4, 2, 1) if size % width == 0)
    parts = [pattern[place : place + unit] for place in range(0, size, unit)]
    if len(set(parts)) == 1:
        return [_fill(address, parts[0], columns=count * len(parts), rows=1, pitch=0)]
    return [_fill(address + unit * number, part, columns=1, rows=count, pitch=size) for number, part in enumerate(parts)]


def _fill(address: int, pattern: bytes, *, columns: int, rows: int, pitch: int) -> Any:
    parameters = cuda.driver().CUDA_MEMSET_NODE_PARAMS()
    parameters.dst = address
    parameters.elementSize, parameters.value = len(pattern), int.from_bytes(pattern, sys.byteorder)
    parameters.width, parameters.height = columns, rows
    parameters.pitch = pitch if rows > 1 else 0
    return parameters
