"""Launching through a few native instructions: Python hands over one pointer, to a block that says everything.

A call of the driver through its bindings converts a dozen arguments, and one more asks for the thread's context; that takes longer than the driver itself.
Here one built-in function of machine code, compiled once per process, asks for the context, compares, and launches. It gives the driver's status, or
`ATTACH` if the device's context is not current in this thread (then nothing has been launched). The interpreter's lock is free meanwhile, since the driver
waits where too many launches are under way. Leaves out what the arguments are (`kdsl.launch.plan`).
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kdsl.runtime import cuda
from kdsl.runtime.native import NO_ARGUMENTS, Builtin

if TYPE_CHECKING:
    from kdsl.runtime.gpu_code import CudaFunction

ATTACH: Final = -1
"""What is returned where another context is current."""

_BLOCK: Final = struct.Struct("=QQQQQQQQIIIIII")
"""The block: addresses of cuCtxGetCurrent, of cuLaunchKernel or cuLaunchKernelEx, and of the word that holds the device's context; the function, the
stream, the address of the array of parameters, the address of a CUlaunchConfig or 0, 8 bytes for the current context; blocks, threads along x, y and z,
bytes of dynamic shared memory, 4 bytes of padding."""

_SOURCE: Final = """
define ptr @kdsl_launch(ptr %self, ptr %nothing) {
  %block = call ptr inttoptr (i64 {PyLong_AsVoidPtr} to ptr)(ptr %self)
  %thread = call ptr inttoptr (i64 {PyEval_SaveThread} to ptr)()
  %get = load ptr, ptr %block
  %current.at = alloca ptr
  %status = call i32 %get(ptr %current.at)
  %current = load ptr, ptr %current.at
  %cell.at = getelementptr i64, ptr %block, i64 2
  %cell = load ptr, ptr %cell.at
  %wanted = load ptr, ptr %cell
  %asked = icmp eq i32 %status, 0
  %same = icmp eq ptr %current, %wanted
  %ready = and i1 %asked, %same
  br i1 %ready, label %launch, label %end
launch:
  %entry.at = getelementptr i64, ptr %block, i64 1
  %entry = load ptr, ptr %entry.at
  %function.at = getelementptr i64, ptr %block, i64 3
  %function = load ptr, ptr %function.at
  %parameters.at = getelementptr i64, ptr %block, i64 5
  %parameters = load ptr, ptr %parameters.at
  %config.at = getelementptr i64, ptr %block, i64 6
  %config = load ptr, ptr %config.at
  %extended = icmp ne ptr %config, null
  br i1 %extended, label %with, label %plain
with:
  %first = call i32 %entry(ptr %config, ptr %function, ptr %parameters, ptr null)
  br label %end
plain:
  %stream.at = getelementptr i64, ptr %block, i64 4
  %stream = load ptr, ptr %stream.at
  %blocks.at = getelementptr i32, ptr %block, i64 16
  %blocks = load i32, ptr %blocks.at
  %x.at = getelementptr i32, ptr %block, i64 17
  %x = load i32, ptr %x.at
  %y.at = getelementptr i32, ptr %block, i64 18
  %y = load i32, ptr %y.at
  %z.at = getelementptr i32, ptr %block, i64 19
  %z = load i32, ptr %z.at
  %shared.at = getelementptr i32, ptr %block, i64 20
  %shared = load i32, ptr %shared.at
  %second = call i32 %entry(ptr %function, i32 %blocks, i32 1, i32 1, i32 %x, i32 %y, i32 %z, i32 %shared, ptr %stream, ptr %parameters, ptr null)
  br label %end
end:
  %result = phi i32 [-1, %0], [%first, %with], [%second, %plain]
  call void inttoptr (i64 {PyEval_RestoreThread} to ptr)(ptr %thread)
  %wide = sext i32 %result to i64
  %object = call ptr inttoptr (i64 {PyLong_FromLongLong} to ptr)(i64 %wide)
  ret ptr %object
}
"""


@functools.cache
def _launcher() -> Builtin:
    return Builtin(_SOURCE, "kdsl_launch", NO_ARGUMENTS)


class NativeLaunch:
    """One launch of a function of a GPU, to be made any number of times. Not to be changed by one thread while another launches it."""

    __slots__ = ("_block", "_blocks", "_config", "_function", "_owner", "_threads", "fire")

    def __init__(
        self, function: CudaFunction, stream: int, blocks: int, threads: tuple[int, int, int], parameters: int, shared: int, owner: object
    ) -> None:
        """`stream` is the driver's handle, `parameters` the address of an array with the address of each parameter, which `owner` keeps."""
        self._function, self._threads, self._owner = function, threads, owner
        self._block = (ctypes.c_char * _BLOCK.size)()
        self.fire: Callable[[], int] = _launcher()(ctypes.addressof(self._block))
        """Launches; gives a status, 0 if all is well, for `recover` otherwise."""
        self._config = function.configuration(threads)
        self.set(stream, blocks, parameters, shared)

    def set(self, stream: int, blocks: int, parameters: int, shared: int) -> None:
        """Let it launch something else of the same function with blocks of the same shape."""
        function, config = self._function, self._config
        if config is not None:
            config.gridDimX, config.sharedMemBytes, config.hStream = blocks, shared, stream
        self._blocks = blocks
        entry, cell = function.entry_address, ctypes.addressof(function.device.context_cell)
        _BLOCK.pack_into(
            self._block, 0, function.current_address, entry, cell, function.number, stream, parameters, 0 if config is None else config.getPtr(), 0,
            blocks, *self._threads, shared, 0,
        )  # fmt: skip

    def recover(self, status: int) -> None:
        """After another status than 0: launch in the right context, or raise DeviceError."""
        if status == ATTACH:
            self._function.device.attach()  # raises in a forked process
            status = self.fire()
        if status:
            self._function.failed(_status(status), self._blocks, self._threads)


def _status(number: int) -> Any:
    try:
        return cuda.driver().CUresult(number)
    except ValueError:  # of a driver that is newer than the bindings
        return number
