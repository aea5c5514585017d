"""Runs kernels of the CPU target through its entry point, for tests."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from kdsl.backend.cpu import HostCpu, compile_object, load
from kdsl.ir import abi, nodes
from kdsl.ir.verifier import verify


class Runner:
    """A compiled kernel with its own failure record."""

    def __init__(self, kernel: nodes.Kernel, host: HostCpu | None = None, optimise: int = 3) -> None:
        verify(kernel)
        self.kernel = kernel
        self.layout = abi.layout(kernel)
        self.object = compile_object(kernel, host or HostCpu.detect(), optimise=optimise)
        self.code = load(self.object)
        self.function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(self.code.address)
        self.claim = np.zeros(1, np.uint64)
        self.record = np.zeros(abi.RECORD_SIZE, np.uint8)
        raw = np.full(self.code.scratch_bytes + 64, 0xA5, np.uint8)
        self.scratch = raw[-raw.ctypes.data % 64 :]

    def __call__(self, grid: int | tuple[int, int, int], **arguments: Any) -> None:
        """Run all blocks of a grid."""
        x, y, z = (grid, 1, 1) if isinstance(grid, int) else grid
        values: list[Any] = []
        for parameter in self.kernel.parameters:
            argument = arguments[parameter.name]
            if isinstance(parameter, nodes.View):
                assert argument.dtype == parameter.type.numpy, (parameter.name, argument.dtype)
                values += [argument.ctypes.data, argument.size]
            else:
                values.append(argument)
        values += [self.claim.ctypes.data, self.record.ctypes.data, 7, x, y, z]
        packed = ctypes.create_string_buffer(struct.pack(self.layout.format, *values), self.layout.size)
        self.function(ctypes.addressof(packed), 0, x * y * z, self.scratch.ctypes.data)

    def failure(self) -> dict[str, int] | None:
        """The recorded failure, which is cleared."""
        names = (
            "state",
            "kernel",
            "site",
            "dimension",
            "index",
            "extent",
            "block_x",
            "block_y",
            "block_z",
            "thread_x",
            "thread_y",
            "thread_z",
        )
        found = dict(zip(names, struct.unpack_from(abi.RECORD_FORMAT, self.record.tobytes()), strict=True))
        self.record[:] = 0
        claimed, self.claim[0] = bool(self.claim[0]), 0
        assert claimed == bool(found["state"])
        return found if claimed else None
