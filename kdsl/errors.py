"""The exceptions that launching and running kernels raise. Compile-time errors are `kdsl.frontend.errors.KernelError`."""

from __future__ import annotations


class LaunchError(Exception):
    """A launch that was refused before anything ran: wrong arguments, a contract that does not hold, arrays that overlap, too large a grid."""


class ArgumentError(LaunchError, TypeError):
    """An argument of the wrong kind or type; the message names kernel, parameter, what it takes and what it got."""


class ScalarRangeError(LaunchError, OverflowError):
    """A number that the type of its parameter cannot hold."""


class ContractError(ValueError):
    """An expression of `requires=` or of a grid that cannot be read; the message shows the place in the string."""


class DeviceError(RuntimeError):
    """A device that is absent, unknown, out of memory, or whose driver reported an error."""

    def __init__(self, message: str, status: str = "") -> None:
        super().__init__(message)
        self.status = status
        """Name of the driver's status such as CUDA_ERROR_OUT_OF_MEMORY, empty if it does not come from the driver."""


class GraphError(RuntimeError):
    """A graph that is used as it cannot be, or something that cannot be captured in one; nothing has been captured then."""


class BoundsError(Exception):
    """A check that failed while a kernel ran, raised by the next synchronisation of the device.

    The access was left out (a read gave 0); the kernel and the device live on. Only the first failure since the last synchronisation is known.
    """

    def __init__(
        self,
        message: str,
        *,
        kernel: str = "",
        array: str | None = None,
        index: int | None = None,
        extent: int | None = None,
        block: tuple[int, int, int] = (0, 0, 0),
        thread: tuple[int, int, int] = (0, 0, 0),
        location: str = "",
    ) -> None:
        super().__init__(message)
        self.kernel = kernel
        """Name of the kernel."""
        self.array = array
        """Name of the array, None for a failed `assert`."""
        self.index = index
        """The index along the dimension that failed, None for a failed `assert`."""
        self.extent = extent
        """Elements along that dimension, None for a failed `assert`."""
        self.block = block
        """Block of the failing thread: x, y, z."""
        self.thread = thread
        """Failing thread in its block: x, y, z."""
        self.location = location
        """`file:line:column` of the check."""


class SanitizerError(Exception):
    """What the sanitizer has found in kernels (docs/sanitizer.md); the message is its report."""
