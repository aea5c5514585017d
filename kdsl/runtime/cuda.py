"""The CUDA driver, thinly: calls that raise, and whether there is a driver. cuda-python is imported when a GPU is first asked for.

`call("cuStreamCreate", flags)` calls the driver's function and gives what it returns beside the status. Leaves out devices, memory and kernels (`gpu.py`).
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from typing import Any, Final

from kdsl.errors import DeviceError

_lock: Final = threading.Lock()
_process: int | None = None


@functools.cache
def driver() -> Any:
    """The module `cuda.bindings.driver`. Raises DeviceError if cuda-python is not installed."""
    try:
        from cuda.bindings import driver as bindings
    except ImportError as error:
        raise DeviceError(f"a GPU needs the package cuda-python, which cannot be imported: {error}") from error
    return bindings


@functools.cache
def has_driver() -> bool:
    """Whether this machine has an NVIDIA driver at all (it may still not work)."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def start() -> None:
    """Initialise the driver, once per process. Raises DeviceError if that fails, or in a process forked after it was initialised."""
    global _process
    with _lock:
        if _process == os.getpid():
            return
        if _process is not None:
            raise DeviceError(
                "this process was forked from one that uses the GPU, which CUDA does not allow; use multiprocessing's 'spawn' start method"
            )
        try:
            call("cuInit", 0)
        except RuntimeError as error:  # cuda-python's, if it cannot load the driver
            raise error if isinstance(error, DeviceError) else DeviceError(f"the CUDA driver cannot be loaded: {error}") from error
        _process = os.getpid()


def usable() -> bool:
    """Whether this process, and not one that it was forked from, has initialised the driver."""
    return _process == os.getpid()


def device_count() -> int:
    """How many GPUs the driver shows. Raises DeviceError if there is no driver or it does not work."""
    try:
        start()
    except DeviceError as error:
        if error.status == "CUDA_ERROR_NO_DEVICE":
            return 0
        raise
    return int(call("cuDeviceGetCount"))


def call(name: str, *arguments: Any) -> Any:
    """Call a function of the driver: None, its one result, or a tuple of them. Raises DeviceError with the name and text of a failing status."""
    status, *results = getattr(driver(), name)(*arguments)
    if status != 0:
        raise failure(name, status)
    return results[0] if len(results) == 1 else tuple(results) or None


def address_of(name: str) -> int:
    """The address of a function of the driver, as `cuda.h` declares it for CUDA 12, for native code that calls it. Raises DeviceError if it has none."""
    found = call("cuGetProcAddress", name.encode(), 12000, 0)
    address = int(found[0] if isinstance(found, tuple) else found)
    if not address:
        raise DeviceError(f"the driver lacks {name}; update it")
    return address


def failure(what: str, status: Any) -> DeviceError:
    """The exception for a call that ended with `status`."""
    return DeviceError(f"{what} failed: {describe(status)}", status_name(status))


def status_name(status: Any) -> str:
    """The name of a status, such as CUDA_ERROR_OUT_OF_MEMORY."""
    return str(getattr(status, "name", int(status)))


def describe(status: Any) -> str:
    """A status of the driver in words, with what usually helps."""
    name = status_name(status)
    found, text = driver().cuGetErrorString(status)
    words = f"{name} ({int(status)})"
    if found == 0 and text:
        words += f": {text.decode() if isinstance(text, bytes) else text}"
    hint = _HINTS.get(name)
    return f"{words}; {hint}" if hint else words


_STICKY: Final = (
    "the driver can no longer be used by this process: start it again, and look for a wrong index behind .unchecked with compute-sanitizer"
)
_HINTS: Final = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": _STICKY,
    "CUDA_ERROR_MISALIGNED_ADDRESS": _STICKY,
    "CUDA_ERROR_LAUNCH_FAILED": _STICKY,
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "the driver is older than the PTX: update the driver",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "the code was compiled for another GPU",
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": "the GPU has no room for a cluster: let it have fewer blocks, or blocks of fewer threads or less shared memory",
}
