"""Programs on a GPU: many kernels to a PTX module, all of them in flight before the first result is fetched."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

import kdsl
from kdsl.backend.nvptx import entry_name
from kdsl.backend.nvptx.compile import compile_levels
from kdsl.runtime import cuda
from kdsl.runtime.gpu import CudaDevice
from kdsl.runtime.gpu_code import _load as load_module
from tests.fuzz.check import Case, Difference, Expected
from tests.fuzz.execute import Image, pack

LEVELS: Final = (0, 3)


def check_gpu(cases: list[tuple[int, Case]], device: str) -> list[tuple[int, str]]:
    """Run programs on the GPU and compare them with what is expected: seeds and differences. Raises DeviceError if the GPU gives up."""
    found: list[tuple[int, str]] = []
    chosen = kdsl.device(device)
    if not isinstance(chosen, CudaDevice):
        raise ValueError(f"{device} is no GPU")
    for number, (_, case) in enumerate(cases):
        case.built.kernel.name = f"k{number}"  # the entries of one module need names of their own
    texts = compile_levels([case.built.kernel for _, case in cases], chosen.target, LEVELS) if cases else []
    for level, text in zip(LEVELS, texts, strict=False):
        found += _run(cases, chosen, level, text)
    return found


def _run(cases: list[tuple[int, Case]], device: CudaDevice, level: int, text: str) -> list[tuple[int, str]]:
    device.attach()
    module = load_module(device, text, "the programs")
    runs: list[tuple[int, Case, Expected, Image, int]] = []
    size = 0
    for seed, case in cases:
        for expected in case.expected:
            image = Image(expected.arguments)
            runs.append((seed, case, expected, image, size))
            size += image.size
    staging = np.empty(size, np.uint8)
    for _, _, _, image, at in runs:
        image.write(staging[at : at + image.size])
    memory = device.array(staging)
    kept: list[Any] = []
    for _, case, expected, image, at in runs:
        kept.append(_launch(device, module, case, expected, image, memory.address + at))
    staging = memory.numpy()  # waits for all of them
    del kept
    found = []
    for seed, case, expected, image, at in runs:
        try:
            case.compare(f"{device.name} -O{level}", expected, image.outcome(staging[at : at + image.size]))
        except Difference as difference:
            found.append((seed, str(difference)))
    cuda.call("cuModuleUnload", module)
    return found


def _launch(device: CudaDevice, module: Any, case: Case, expected: Expected, image: Image, start: int) -> Any:
    """Launch one kernel; what comes back must live until it has run."""
    slots = case.built.layout
    buffer = pack(slots, expected.arguments, case.program.grid, {name: start + at for name, at in image.offsets.items()})
    first = ctypes.addressof(buffer)
    places = (ctypes.c_void_p * len(slots.arguments))(*(first + argument.offset for argument in slots.arguments))
    function = cuda.call("cuModuleGetFunction", module, entry_name(case.built.kernel).encode())
    x, y, z = case.program.grid
    stream = device.default_stream.handle
    cuda.call("cuLaunchKernel", function, x * y * z, 1, 1, *case.program.block, 0, stream, ctypes.addressof(places), 0)
    return buffer, places
