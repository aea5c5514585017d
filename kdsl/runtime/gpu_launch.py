"""Launches with attributes: of cooperative kernels, and of programmatic ones. Others go the shorter way (`gpu_code.py`)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from kdsl.runtime import cuda
from kdsl.runtime.stream import Stream

if TYPE_CHECKING:
    from kdsl.lang.attributes import Attributes
    from kdsl.runtime.gpu_code import CudaFunction


def launch_attributes(attributes: Attributes) -> list[Any]:
    """The driver's attributes of a launch in a stream."""
    driver = cuda.driver()
    ids, found = driver.CUlaunchAttributeID, []
    if attributes.cooperative:
        found.append(_attribute(ids.CU_LAUNCH_ATTRIBUTE_COOPERATIVE, "cooperative"))
    if attributes.programmatic:
        found.append(_attribute(ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, "programmaticStreamSerializationAllowed"))
    return found


def _attribute(number: Any, field: str) -> Any:
    made, value = cuda.driver().CUlaunchAttribute(), cuda.driver().CUlaunchAttributeValue()
    setattr(value, field, 1)
    made.id, made.value = number, value
    return made


def configuration(function: CudaFunction, threads: int, shared: int) -> Any:
    """The configuration of a launch of one cluster, for questions about occupancy."""
    driver = cuda.driver()
    cluster, value = driver.CUlaunchAttribute(), driver.CUlaunchAttributeValue()
    value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = function.attributes.cluster_size, 1, 1
    cluster.id, cluster.value = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value
    made = driver.CUlaunchConfig()
    made.gridDimX, made.gridDimY, made.gridDimZ = function.attributes.cluster_size, 1, 1
    made.blockDimX, made.blockDimY, made.blockDimZ = threads, 1, 1
    made.sharedMemBytes = shared
    made.attrs, made.numAttrs = [cluster], 1
    return made


class _Free(threading.local):
    """Configurations of one thread that no launch is using, by the block. A second one is needed only if a signal handler launches in between."""

    def __init__(self) -> None:
        self.configs: dict[tuple[int, int, int], list[Any]] = {}


class ExtendedLaunch:
    """Launches one function with attributes. A configuration of the driver's is used again and again, since making it takes as long as a launch."""

    def __init__(self, function: CudaFunction) -> None:
        self._function = function
        self._launch = cuda.driver().cuLaunchKernelEx
        self._free = _Free()

    def launch(self, stream: Stream, blocks: int, block: tuple[int, int, int], parameters: int, shared: int = 0) -> None:
        """As `CudaFunction.launch`."""
        function = self._function
        function.device.attach()
        free = self._free.configs.setdefault(block, [])
        config = free.pop() if free else self._make(block)
        config.gridDimX, config.sharedMemBytes, config.hStream = blocks, shared, stream.handle
        (status,) = self._launch(config, function.handle, parameters, 0)
        free.append(config)
        if status != 0:
            function.failed(status, blocks, block)

    def _make(self, block: tuple[int, int, int]) -> Any:
        config = cuda.driver().CUlaunchConfig()
        config.gridDimY = config.gridDimZ = 1
        config.blockDimX, config.blockDimY, config.blockDimZ = block
        config.attrs = attributes = launch_attributes(self._function.attributes)
        config.numAttrs = len(attributes)
        return config
