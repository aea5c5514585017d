"""What a launch costs on the host, beside a raw call of the driver and other libraries, in one process.

python benchmarks/launch.py [--device cuda|cpu] [--quick]

A row per kernel: 0, 1, 4 and 16 arrays, and a struct of 16 and 64 numbers; grids of one block that do almost nothing. Columns, in microseconds: `raw`
is cuLaunchKernel through cuda.bindings with arguments that are packed already (the faster one of its two forms; the same compiled kernel as ours),
`call` is the kernel called as usual, `prepared` a launch of `kernel.prepare`, `exchanged` the same with another array (another struct) each time.
Peers take part where they import: CuPy (RawKernel), Triton, Numba (numba-cuda); those without structs get their numbers one by one. Runs of some
hundred launches, a synchronisation (not timed) behind each, in random order; medians count. Then the kernels of 1, 4 and 16 arrays called with arrays of
PyTorch and CuPy, also while another stream of theirs is current and beside an array of ours; `raw` reads their pointers and packs them each time. At last 200
launches as a graph: replay on the host, and until the device is done.

The last line is `geomean RATIO`: the best peer against our call (`raw` where no peer imports); above 1: ours is faster. On the CPU there is neither
raw call nor ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import itertools
import os
import random
import statistics
import struct
import sys
import tempfile
import time
import timeit
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kdsl
from kdsl import f32

LAUNCHES = 200
"""Launches of a timed run: fewer than a stream takes before the host has to wait."""
ROUNDS = 40
"""Runs of each kind."""
ARRAYS = (0, 1, 4, 16)
NUMBERS = (16, 64)

Run = Callable[[], float]
"""Seconds of one launch."""


def module(text: str, name: str) -> dict[str, Any]:
    """The names of a module made of that text: kernels are read from files."""
    folder = Path(tempfile.mkdtemp())
    (folder / f"{name}.py").write_text(text)
    sys.path.insert(0, str(folder))
    return vars(importlib.import_module(name))


def our_kernels() -> dict[str, Any]:
    """`arrays_0` and so on, `Numbers_16` and `numbers_16` and so on."""
    text = "import kdsl\nfrom kdsl import Slice, SliceMut, f32, i32\n"
    for count in ARRAYS:
        parameters = ", ".join(f"x{i}: {'Slice' if i else 'SliceMut'}[f32]" for i in range(count))
        body = "if kdsl.block_index() > 0:\n        x0[0] = 0.0" if count else "pass"
        text += f"@kdsl.kernel(grid=1, block=32)\ndef arrays_{count}({parameters}) -> None:\n    {body}\n"
    for count in NUMBERS:
        text += f"@kdsl.struct\nclass Numbers_{count}:\n" + "".join(f"    f{i}: {'i32' if i % 2 else 'f32'}\n" for i in range(count))
        text += f"@kdsl.kernel(grid=1, block=32)\ndef numbers_{count}(x0: SliceMut[f32], p: Numbers_{count}) -> None:\n"
        text += "    if kdsl.block_index() > 0:\n        x0[0] = p.f0\n"
    return module(text, "launch_kernels")


def timed(statement: str, names: dict[str, Any], wait: Callable[[], Any]) -> Run:
    """Runs a statement `LAUNCHES` times; `;` in it stands between several launches."""
    timer = timeit.Timer(statement, globals=names)
    each = statement.count(";") + 1

    def run() -> float:
        seconds = timer.timeit(LAUNCHES // each)
        wait()
        return seconds / (LAUNCHES // each * each)

    run()  # compiles, and brings everything to its usual state
    return run


def ours(kernel: Any, arguments: list[Any], others: list[Any], device: Any) -> dict[str, Run]:
    """`others` take the place of `arguments` in `exchanged`."""
    names = {f"a{i}": value for i, value in enumerate(arguments)}
    found = {"call": timed(f"kernel({', '.join(names)})", {**names, "kernel": kernel}, device.synchronize)}
    prepared = kernel.prepare(*arguments)
    found["prepared"] = timed("prepared()", {"prepared": prepared}, device.synchronize)
    if arguments:
        name, now, other = [*prepared.arguments][-1], arguments[-1], others[-1]
        changing = kernel.prepare(*arguments)
        statement = f"prepared({name}=other); prepared({name}=now)"
        found["exchanged"] = timed(statement, {"prepared": changing, "now": now, "other": other}, device.synchronize)
    return found


def raw(kernel: Any, arguments: list[Any], device: Any) -> dict[str, Run]:
    """The driver itself with the arguments of a prepared launch."""
    from cuda.bindings import driver

    launch = kernel.prepare(*arguments)._owner.state.launch
    prepared = launch.prepared
    size = ctypes.c_size_t(launch.plan.layout.size)
    extra = (ctypes.c_void_p * 5)(
        1, prepared.owner.address, 2, ctypes.addressof(size), 0
    )  # CU_LAUNCH_PARAM_BUFFER_POINTER, ..._SIZE, ..._END
    names = {
        "launch": driver.cuLaunchKernel, "function": prepared.function.handle, "stream": device.default_stream.handle, "pointers": prepared.parameters,
        "extra": ctypes.addressof(extra), "keep": (kernel, launch, size, extra),
    }  # fmt: skip
    for form in ("pointers, 0", "0, extra"):
        (status,) = eval(f"launch(function, 1, 1, 1, 32, 1, 1, 0, stream, {form})", names)
        assert status == 0, status
    return {
        "raw": timed("launch(function, 1, 1, 1, 32, 1, 1, 0, stream, pointers, 0)", names, device.synchronize),
        "raw, packed": timed("launch(function, 1, 1, 1, 32, 1, 1, 0, stream, 0, extra)", names, device.synchronize),
    }


# ------------------------------------------------------------------------------------------------------------------------------- peers


def numbers(count: int) -> list[float | int]:
    """What the struct of so many numbers holds."""
    return [i if i % 2 else i / 4 for i in range(count)]


def cupy_peer(cupy: Any, arrays: int, count: int) -> Run:
    """RawKernel; a struct is passed as one argument if CuPy takes it."""
    given: list[Any] = [cupy.zeros(64, cupy.float32) for _ in range(arrays)]
    parameters = [f"float* x{i}" for i in range(arrays)]
    text = ""
    values = [np.int32(v) if isinstance(v, int) else np.float32(v) for v in numbers(count)]
    if count:
        text = "struct P {" + " ".join(f"{'int' if i % 2 else 'float'} f{i};" for i in range(count)) + "};"
    body = "if (blockIdx.x > 0) x0[0] = 0;" if arrays else ""

    def made(parameters: list[str], arguments: list[Any]) -> Run:
        kernel = cupy.RawKernel(f'{text} extern "C" __global__ void k({", ".join(parameters)}) {{ {body} }}', "k")
        names = {"kernel": kernel, "grid": (1,), "block": (32,), "arguments": tuple(arguments)}
        return timed("kernel(grid, block, arguments)", names, cupy.cuda.Device().synchronize)

    if count:
        fields = np.dtype([(f"f{i}", np.int32 if i % 2 else np.float32) for i in range(count)])
        with contextlib.suppress(Exception):
            return made([*parameters, "P p"], [*given, np.array(tuple(numbers(count)), fields)[()]])
    one_by_one = [f"{'int' if i % 2 else 'float'} f{i}" for i in range(count)]
    return made([*parameters, *one_by_one], [*given, *values])


def triton_peer(triton: Any, arrays: int, count: int) -> Run:
    """A jitted function; numbers one by one."""
    torch = importlib.import_module("torch")
    names = [f"x{i}" for i in range(arrays)] + [f"f{i}" for i in range(count)]
    body = "    if tl.program_id(0) > 0:\n        tl.store(x0, 0.0)\n" if arrays else "    pass\n"
    text = f"import triton\nimport triton.language as tl\n@triton.jit\ndef k({', '.join(names)}):\n{body}"
    kernel = module(text, f"triton_{arrays}_{count}")["k"]
    values = [torch.zeros(64, device="cuda") for _ in range(arrays)] + numbers(count)
    return timed(
        f"kernel[grid]({', '.join([*names, 'num_warps=1'])})",
        {"kernel": kernel, "grid": (1,), **dict(zip(names, values, strict=True))},
        torch.cuda.synchronize,
    )


def numba_peer(cuda: Any, arrays: int, count: int) -> Run:
    """A jitted function; numbers one by one."""
    names = [f"x{i}" for i in range(arrays)] + [f"f{i}" for i in range(count)]
    body = "    if cuda.blockIdx.x > 0:\n        x0[0] = 0.0\n" if arrays else "    pass\n"
    text = f"from numba import cuda\n@cuda.jit\ndef k({', '.join(names)}):\n{body}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kernel = module(text, f"numba_{arrays}_{count}")["k"][1, 32]
        values = [cuda.to_device(np.zeros(64, np.float32)) for _ in range(arrays)] + numbers(count)
        return timed(f"kernel({', '.join(names)})", {"kernel": kernel, **dict(zip(names, values, strict=True))}, cuda.synchronize)


LIBRARIES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any], str]] = {
    "torch": (lambda t: t.zeros(64, device="cuda"), lambda t: t.cuda.Stream(), lambda t: t.cuda.stream, "{}.data_ptr()"),
    "cupy": (lambda c: c.zeros(64, c.float32), lambda c: c.cuda.Stream(non_blocking=True), lambda c: lambda stream: stream, "{}.data.ptr"),
}
"""For each library what makes an array, a stream, and a block in which a stream is current, and how it is asked for a pointer."""


def raw_foreign(kernel: Any, given: dict[str, Any], pointer: str, device: Any) -> Run:
    """The driver itself with arguments that lie ready, but for the pointers of the arrays."""
    from cuda.bindings import driver

    launch = kernel.prepare(*given.values())._owner.state.launch
    prepared = launch.prepared
    places = [slot.offset for slot in launch.plan.layout.slots if slot.kind == "address"]
    gaps = [now - before - 8 for before, now in itertools.pairwise(places)]
    pack = struct.Struct("=Q" + "".join(f"{gap}xQ" for gap in gaps)).pack_into
    names = {
        "launch": driver.cuLaunchKernel, "function": prepared.function.handle, "stream": device.default_stream.handle, "pointers": prepared.parameters,
        "pack": pack, "packed": prepared.owner.bytes, "keep": (kernel, launch),
    }  # fmt: skip
    values = ", ".join(pointer.format(name) for name in given)
    statement = f"(pack(packed, {places[0]}, {values}), launch(function, 1, 1, 1, 32, 1, 1, 0, stream, pointers, 0))"
    return timed(statement, {**names, **given}, device.synchronize)


def foreign_rows(kernels: dict[str, Any], device: Any, others: dict[str, Callable[[int, int], Run]], rounds: int) -> list[float]:
    """Our kernels called with arrays of PyTorch and CuPy, on their current stream and on another one that is current, beside the peers; the ratios of the best
    of these to our calls."""
    ratios: list[float] = []
    for name, (make, stream, current, pointer) in LIBRARIES.items():
        try:
            library = importlib.import_module(name)
            other = stream(library)
        except Exception as error:
            print(f"{name} does not take part: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            continue
        for count in (1, 4, 16):
            kernel = kernels[f"arrays_{count}"]
            given = {f"a{i}": make(library) for i in range(count)}
            ours = {key: device.zeros(64, f32) for key in given}
            call, launch = f"kernel({', '.join(given)})", {**given, "kernel": kernel}
            runs = {"call": timed(call, launch, device.synchronize), "ours": timed(call, {**ours, "kernel": kernel}, device.synchronize)}
            if count > 1:
                runs["beside ours"] = timed(call, {**launch, "a0": ours["a0"]}, device.synchronize)
            with current(library)(other):
                aside = timed(call, launch, device.synchronize)

            def on_other(run: Run = aside, enter: Any = current(library), stream: Any = other) -> float:
                with enter(stream):
                    return run()

            runs["another stream"] = on_other
            runs["raw"] = raw_foreign(kernel, given, pointer, device)
            for peer, made in others.items():
                with contextlib.suppress(Exception):  # the row of our arrays has said why
                    runs[peer] = made(count, 0)
            found = medians(runs, rounds)
            ratios.append(min(value for key, value in found.items() if key in others or key == "raw") / found["call"])
            print(f"{f'{count} arrays of {name}':26}" + "".join(f"  {column} {value:.2f}" for column, value in found.items()), flush=True)
    return ratios


def peers() -> dict[str, Callable[[int, int], Run]]:
    """Those that import, by name."""
    found: dict[str, Callable[[int, int], Run]] = {}
    for name, library, make in (("CuPy", "cupy", cupy_peer), ("Triton", "triton", triton_peer), ("Numba", "numba.cuda", numba_peer)):
        try:
            imported = importlib.import_module(library)
        except Exception as error:
            print(f"{name} does not take part: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            continue
        found[name] = lambda arrays, count, imported=imported, make=make: make(imported, arrays, count)
    return found


# ----------------------------------------------------------------------------------------------------------------------------- measuring


def medians(runs: dict[str, Run], rounds: int) -> dict[str, float]:
    """Microseconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name in random.sample([*runs], len(runs)):
                seconds[name].append(runs[name]())
    finally:
        gc.enable()
    return {name: statistics.median(found) * 1e6 for name, found in seconds.items()}


def graph_times(kernel: Any, arguments: list[Any], device: Any, rounds: int) -> tuple[float, float]:
    """Microseconds of one of 200 launches in a graph: on the host, and until the device is done."""
    kernel(*arguments)
    with kdsl.Graph(device) as graph:
        for _ in range(200):
            kernel(*arguments)
    host, whole = [], []
    for _ in range(rounds):
        device.synchronize()
        start = time.perf_counter()
        graph.launch()
        host.append((time.perf_counter() - start) / 200)
        device.synchronize()
        whole.append((time.perf_counter() - start) / 200)
    return statistics.median(host) * 1e6, statistics.median(whole) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="What a launch costs on the host.")
    parser.add_argument("--device", default="auto", help="cuda or cpu; by default a GPU if there is one")
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    given = parser.parse_args()
    os.environ["KDSL_DEVICE"] = given.device  # where kernels without arrays run
    device = kdsl.device()
    rounds = ROUNDS // 8 if given.quick else ROUNDS
    on_gpu = device.name != "cpu"
    kernels, others = our_kernels(), peers() if on_gpu else {}
    rows: list[tuple[str, Any, int, int]] = [(f"{count} arrays", kernels[f"arrays_{count}"], count, 0) for count in ARRAYS]
    rows += [(f"{count} numbers in a struct", kernels[f"numbers_{count}"], 1, count) for count in NUMBERS]
    print(f"{device}; microseconds a launch; call / raw and prepared / raw in brackets")
    best_ratios: list[float] = []
    for name, kernel, count, fields in rows:
        arguments: list[Any] = [device.zeros(64, f32) for _ in range(count)]
        exchanged: list[Any] = [device.zeros(64, f32) for _ in range(count)]
        if fields:
            arguments.append(kernels[f"Numbers_{fields}"](*numbers(fields)))
            exchanged.append(kernels[f"Numbers_{fields}"](*[value + 1 for value in numbers(fields)]))
        runs = ours(kernel, arguments, exchanged, device)
        if on_gpu:
            runs |= raw(kernel, arguments, device)
        for peer, make in others.items():
            try:
                runs[peer] = make(count, fields)
            except Exception as error:
                print(f"{name}: {peer} does not take part: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        found = medians(runs, rounds)
        line = f"{name:26}" + "".join(f"  {column} {value:.2f}" for column, value in found.items())
        if on_gpu:
            driver = min(found["raw"], found["raw, packed"])
            line += f"  [{found['call'] / driver:.2f}, {found['prepared'] / driver:.2f}]"
            best_ratios.append(min((found[peer] for peer in others if peer in found), default=driver) / found["call"])
        print(line, flush=True)
    if on_gpu:
        best_ratios += foreign_rows(kernels, device, others, rounds)
    host, whole = graph_times(kernels["arrays_4"], [device.zeros(64, f32) for _ in range(4)], device, rounds)
    print(f"graph of 200 launches       host {host:.3f}  until done {whole:.3f}")
    if best_ratios:
        if not others:
            print("no peer imports; the ratio is to the raw call")
        print(f"geomean {statistics.geometric_mean(best_ratios):.3f}")


if __name__ == "__main__":
    main()
