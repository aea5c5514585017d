"""What the driver is told of launches with attributes: of cooperative kernels, and of programmatic ones. Others need none of it (`native_launch.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kdsl.runtime import cuda

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


def launch_configuration(attributes: Attributes, block: tuple[int, int, int]) -> Any:
    """The configuration of launches with attributes, to be completed by the blocks, the shared memory and the stream."""
    config = cuda.driver().CUlaunchConfig()
    config.gridDimY = config.gridDimZ = 1
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.attrs = found = launch_attributes(attributes)
    config.numAttrs = len(found)
    return config
