"""Devices that are not there: what the operations launch on them, run in NumPy.

A kernel of matrix products is replaced by a function that holds its contract against the arrays that it is given, and does to them what its documentation says.
So choices that depend on the device (which kernels, on which rows and columns, of which copies, in how many parts along k) can be tested without a GPU. Left
out: what kernels do inside.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from kdsl import Array, Kernel
from kdsl.backend.nvptx.occupancy import shared_limit
from kdsl.runtime.host import CpuDevice
from kdsl.runtime.memory import Memory
from staleynet.kernels import tf32_tiles
from staleynet.ops import matmul_operands, matmul_paths
from staleynet.ops.matmul_operands import steps_of_part

MULTIPROCESSORS = {"cpu": 1, "sm_80": 108, "sm_86": 84, "sm_87": 16, "sm_89": 128, "sm_90": 132, "sm_100": 148, "sm_110": 20, "sm_120": 170}
"""The devices that there are models of."""


class Modelled(CpuDevice):
    """A device by its target. What is allocated there holds NaN."""

    def __init__(self, target: str) -> None:
        super().__init__()
        self.name = self.target = target
        self.multiprocessors = MULTIPROCESSORS[target]
        if target != "cpu":
            self.shared_limit = shared_limit(int(target.removeprefix("sm_")))

    def _allocate(self, nbytes: int, *, zeroed: bool) -> Memory:
        made = super()._allocate(nbytes, zeroed=zeroed)
        if not zeroed:
            made.bytes[:] = 0xFF  # type: ignore[attr-defined]
        return made


def seen(x: Array) -> Any:
    """The elements of an array of a modelled device, in place."""
    memory: Any = x.memory
    strides = [stride * x.dtype.itemsize for stride in x.strides]
    return np.ndarray(
        x.shape, x.dtype.numpy, memory.bytes if x.size else np.zeros(0, np.uint8), x.address - memory.address if x.size else 0, strides
    )


@dataclass
class Launches:
    """What was launched since the last `clear`."""

    result: Array | None = None
    """The array of C."""
    written: Any = None
    """How many kernels have written each of its elements."""
    parts: int = 1
    """In how many parts along k sums were computed."""
    names: list[str] = field(default_factory=list)
    """The kernels, one after the other."""
    sums: dict[int, Any] = field(default_factory=dict)
    """Sums that lie in an order of their own, by address."""

    def clear(self, result: Array) -> None:
        """Begin with a product to be written to `result`."""
        self.result, self.written, self.parts, self.names = result, np.zeros(result.size, np.int64), 1, []

    def write(self, c: Array, value: Any, factor: float, accumulate: int, where: Any = ...) -> None:
        """C <- factor * value (+ C), for all or some of its elements."""
        to = seen(c)
        new = factor * value + (to.astype(np.float32) if accumulate else 0.0)
        if where is not ...:
            new = np.where(where, new, to)
        to[...] = new
        if self.result is not None and c.memory is self.result.memory:
            count = np.lib.stride_tricks.as_strided(
                self.written[(c.address - self.result.address) // c.dtype.itemsize :], c.shape, [8 * stride for stride in c.strides]
            )
            count += 1 if where is ... else where

    def holds(self, kernel: Kernel, arguments: tuple[Any, ...]) -> None:
        """Check a kernel's contract."""
        declaration = kernel.declaration
        self.names.append(declaration.name)
        given = dict(zip((p.name for p in declaration.parameters), arguments, strict=True))
        for relation in declaration.requires:
            assert eval(relation, {"extent": _extent}, given), f"{declaration.name}: {relation} with {given}"


def _extent(*axes: tuple[int, int]) -> int:
    return 0 if any(count == 0 for count, _ in axes) else 1 + sum((count - 1) * stride for count, stride in axes)


def turned(x: Any, is_turned: bool) -> Any:
    return x.swapaxes(2, 3) if is_turned else x


def product(a: Any, b: Any) -> Any:
    """A B^T in f32; of small whole numbers it is exact."""
    return a.astype(np.float32) @ b.astype(np.float32).swapaxes(2, 3)


def ended(value: Any, offsets: Array, bias: bool, gelu: bool) -> Any:
    value = value + seen(offsets) if bias else value
    return 0.5 * value * (1 + np.tanh(np.sqrt(2 / np.pi) * (value + 0.044715 * value**3))) if gelu else value


def install(patch: pytest.MonkeyPatch) -> Launches:
    """Let products be computed by models, which note what they do."""
    found = Launches()

    def replace(module: Any, name: str, model: Callable[..., None]) -> None:
        make = getattr(module, name)

        def factory(*given: Any, **options: Any) -> Callable[..., None]:
            kernel = make(*given, **options)

            def launch(*arguments: Any) -> None:
                found.holds(kernel, arguments)
                model(given, options, *arguments)

            return launch

        patch.setattr(module, name, factory)

    def fp32(given: Any, _: Any, c: Array, a: Array, b: Array, e: Any) -> None:
        left, right = turned(seen(a), given[1]), turned(seen(b), not given[2])
        m, n = c.shape[2:]
        found.write(c, product(left[:, :, :m], right.swapaxes(2, 3)[:, :, :n]), e.alpha, e.accumulate)

    def border(given: Any, _: Any, c: Array, a: Array, b: Array, e: Any) -> None:
        value = product(turned(seen(a), given[0]), seen(b).swapaxes(2, 3)[:, :, : c.shape[3]])
        inside = (np.arange(c.shape[2])[:, None] < e.rows) & (np.arange(c.shape[3]) < e.columns)
        found.write(c, value, e.alpha, e.accumulate, ~inside)

    def wgmma(_: Any, ways: Any, c: Array, a: Array, b: Array, offsets: Array, w: Any) -> None:
        value = product(turned(seen(a), ways["a_across"]), turned(seen(b), ways["b_across"]))
        found.write(c, ended(w.alpha * value, offsets, ways["bias"], ways["gelu"]), 1.0, w.accumulate)

    def sums_of_parts(given: Any, ways: Any, sums: Array, a: Array, b: Array, _: Any) -> None:
        found.parts = given[2]
        found.sums[sums.address] = product(turned(seen(a), ways["a_across"]), turned(seen(b), ways["b_across"]))

    def sum_of_parts(given: Any, ways: Any, c: Array, sums: Array, offsets: Array, w: Any) -> None:
        assert found.parts == given[2]
        found.write(c, ended(w.alpha * found.sums.pop(sums.address), offsets, ways["bias"], ways["gelu"]), 1.0, w.accumulate)

    def in_parts(precision: str, out: Array, left: Any, right: Any, parts: int, e: Any) -> None:
        if parts == 1:
            found.write(out, product(left, right), e.alpha, e.accumulate)
            return
        each = steps_of_part(precision, left.shape[3], parts)
        assert (parts - 1) * each < left.shape[3]
        for part in range(parts):
            along = slice(part * each, (part + 1) * each)
            place = out.address + part * out.strides[0] * out.dtype.itemsize
            to = Array(out.memory, place, (1, *out.shape[1:]), out.dtype, out.strides)
            found.write(to, product(left[..., along], right[..., along]), e.alpha, e.accumulate)

    def tf32(given: Any, _: Any, c: Array, a: Array, b: Array, later: Array, source: Array, w: Any) -> None:
        _, b_across, c_across, parts, ahead = given
        made = c.transpose(0, 1, 3, 2) if c_across else c
        in_parts("tf32", made, turned(seen(a), True), turned(seen(b), b_across), parts, w)
        if ahead:
            seen(later)[...] = turned(seen(source), True)

    def heads(_: Any, __: Any, y: Array, x: Array, progress: Array, h: Any) -> None:
        whole = turned(seen(x), True)
        for first in range(0, whole.shape[3], h.part):
            seen(y)[..., first : first + h.head] = whole[..., first : first + h.head]
        seen(progress)[...] = 0

    def beside(given: Any, _: Any, c: Array, a: Array, b: Array, source: Array, progress: Array, w: Any) -> None:
        _, c_across, parts, first = given
        assert not seen(progress).any()
        copy, whole = seen(b), turned(seen(source), True)
        each = steps_of_part("tf32", whole.shape[3], parts)
        for begin in range(0, whole.shape[3], each):
            rest = slice(begin + first * tf32_tiles.BOX, begin + each)
            copy[..., rest] = whole[..., rest]
        in_parts("tf32", c.transpose(0, 1, 3, 2) if c_across else c, turned(seen(a), True), copy, parts, w)

    def three(given: Any, _: Any, c: Array, a: Array, b: Array, w: Any) -> None:
        in_parts("3xtf32", c, turned(seen(a), given[1]), turned(seen(b), given[2]), given[3], w)

    def mma(given: Any, _: Any, c: Array, a: Array, b: Array, w: Any) -> None:
        in_parts(given[0].name.replace("f32", "tf32"), c, turned(seen(a), given[3]), turned(seen(b), given[4]), given[6], w)

    def combine(given: Any, _: Any, c: Array, sums: Array, offsets: Array, e: Any) -> None:
        found.parts = given[1]
        value = seen(sums).sum(axis=0).reshape(c.shape)
        found.write(c, ended(e.alpha * value, offsets, given[2], given[3]), 1.0, e.accumulate)

    def copy(_: Any, __: Any, y: Array, x: Array) -> None:
        seen(y)[...] = seen(x)

    def turn(_: Any, __: Any, y: Array, x: Array) -> None:
        seen(y)[...] = turned(seen(x), True)

    for name, model in (
        ("_fp32_kernel", fp32), ("_border_kernel", border), ("_wgmma_kernel", wgmma), ("_sums_kernel", sums_of_parts),
        ("_sum_kernel", sum_of_parts), ("_tf32_kernel", tf32), ("_heads_kernel", heads), ("_beside_kernel", beside),
        ("_three_kernel", three), ("_mma_kernel", mma), ("_combine", combine),
    ):  # fmt: skip
        replace(matmul_paths, name, model)
    replace(matmul_operands, "_pack", copy)
    replace(matmul_operands, "_turn", turn)
    patch.setattr(matmul_paths, "tensor_map", lambda array, *_, **__: array)

    def ladder(kernel: Kernel) -> Callable[..., None]:
        def launch(c: Array, a: Array, b: Array, p: Any) -> None:
            found.holds(kernel, (c, a, b, p))
            extents = {"c": (p.m, p.n), "a": (p.m, p.k), "b": (p.k, p.n)}
            views = [
                x.strided(
                    (p.sequences, p.heads, *extents[name]),
                    tuple(getattr(p, f"{name}_{axis}") for axis in ("sequence", "head", "row", "column")),
                )
                for name, x in (("c", c), ("a", a), ("b", b))
            ]
            found.write(views[0], product(seen(views[1]), turned(seen(views[2]), True)), p.alpha, p.accumulate)

        return launch

    matmul: Any = importlib.import_module("staleynet.ops.matmul")  # the package has a function of this name
    patch.setattr(matmul, "_KERNELS", {name: ladder(kernel) for name, kernel in matmul._KERNELS.items()})
    patch.setattr(matmul, "_BLOCKED_ON_CPU", tuple((*entry[:3], ladder(entry[3])) for entry in matmul._BLOCKED_ON_CPU))
    patch.setattr(matmul, "_ADDED_ON_CPU", ladder(matmul._ADDED_ON_CPU))
    return found
