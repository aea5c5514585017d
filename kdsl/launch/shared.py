"""Shared arrays whose extents a launch decides: their sizes and places, computed from the arguments in exact integers. Also the boxes of tensor maps that
have such extents."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kdsl.ir.abi import Layout, shared_slots
from kdsl.ir.places import ScalarParameter, SharedView, TensorMap, View
from kdsl.ir.shared import SharedLayout
from kdsl.lang.limits import SHARED_BYTES
from kdsl.launch import refuse
from kdsl.launch.contract import Names, extent, quotient, size
from kdsl.runtime.device import Device
from kdsl.runtime.tensor_map import Form, check_box

_VALUES: Final = "values"


class SharedSizes:
    """The sizes of one compiled version of a kernel on one device."""

    def __init__(self, kernel: str, device: Device, layout: Layout, shared: SharedLayout, start: int, alignment: int) -> None:
        """`start` is where the first of the arrays may begin, in bytes; each begins at a multiple of `alignment`, or of what it asks for itself."""
        self._kernel = kernel
        self._device = device
        self._most = min(device.shared_limit, SHARED_BYTES)
        self._shared = shared
        self._start = start
        self._alignment = alignment
        self._extents = _compiled(kernel, layout, {f"the shape of {view.name}": view.extents for view in shared.views})

    def __call__(self, values: tuple[Any, ...]) -> tuple[list[int], int]:
        """What the launch says of the arrays (`kdsl.ir.abi.shared_slots`), and where the last of them ends.

        `values` are those of the slots before the hidden ones. Raises LaunchError for a negative extent, or if a block of the device has not so much.
        """
        found: list[int] = []
        end = self._start
        for view, shape in zip(self._shared.views, self._extents(values), strict=True):
            if min(shape) < 0:
                refuse.negative_extent(self._kernel, view.name, view.extents, shape)
            place, end = placed(view, shape, end, self._alignment)
            taken = self._shared.size + end - self._start
            if taken > self._most:
                refuse.too_much_shared(self._kernel, view.name, view.extents, shape, view.type.itemsize, taken, self._most, self._device)
            if max(shape) > self._most:  # beside an extent of 0; the compiler counts on it
                refuse.large_extent(self._kernel, view.name, view.extents, shape, self._most)
            strides = _strides(shape)
            found.append(place)
            found += [extent for extent, written in zip(shape, view.extents, strict=True) if isinstance(written, str)]
            found += [stride for d, stride in enumerate(strides) if view.fixed_stride(d) is None]
        return found, end

    @staticmethod
    def slots(views: Sequence[SharedView]) -> list[str]:
        """The names of the slots, in order."""
        return [name for view in views for name, _, _ in shared_slots(view)]


def placed(view: SharedView, shape: Sequence[int], end: int, alignment: int) -> tuple[int, int]:
    """Where an array of that shape begins behind what ends at `end`, and where it ends itself."""
    step = max(alignment, view.begins_at)
    place = -(-end // step) * step
    return place, place + math.prod(shape) * view.type.itemsize


def _strides(shape: Sequence[int]) -> list[int]:
    strides = [1]
    for length in shape[:0:-1]:
        strides.insert(0, strides[0] * length)
    return strides


class Boxes:
    """The boxes of tensor maps of one compiled version of a kernel."""

    def __init__(self, kernel: str, layout: Layout, maps: Sequence[TensorMap]) -> None:
        self._kernel = kernel
        self._fixed: dict[str, Form | None] = {}
        self._launched: dict[str, tuple[TensorMap, Sequence[int | str], Callable[[tuple[Any, ...]], tuple[tuple[int, ...], ...]]]] = {}
        for of in maps:
            box = of.box or ()
            numbers = tuple(extent for extent in box if isinstance(extent, int))
            if len(numbers) == len(box):
                self._fixed[of.name] = Form(numbers, of.swizzle) if box else None
            else:
                self._launched[of.name] = of, box, _compiled(kernel, layout, {f"the box of {of.name}": box})

    def __call__(self, name: str, values: tuple[Any, ...]) -> Form | None:
        """How the kernel cuts the map for a parameter, None if it copies nothing with it; `values` are those of the slots before the hidden ones, of maps
        anything.

        Raises LaunchError for boxes of extents that the launch decides, if the copy engine cannot move them, or they cannot lie side by side as the kernel
        has them.
        """
        if name in self._fixed:
            return self._fixed[name]
        of, written, evaluate = self._launched[name]
        form = Form(evaluate(values)[0], of.swizzle)
        try:
            check_box(form, of.type)
        except ValueError as error:
            refuse.box(self._kernel, name, written, error)
        if of.parts and math.prod(form.box) * of.type.itemsize % of.parts:
            refuse.parts(self._kernel, name, written, form, of.type, of.parts)
        return form


def _compiled(
    kernel: str, layout: Layout, shapes_of: Mapping[str, Sequence[int | str]]
) -> Callable[[tuple[Any, ...]], tuple[tuple[int, ...], ...]]:
    """A function from the values of the slots to shapes, which are given with what each is."""
    lengths: dict[str, str] = {}
    numbers: dict[str, str] = {}
    shapes: dict[str, list[str]] = {}
    for position, slot in enumerate(layout.slots):
        source = f"{_VALUES}[{position}]"
        match slot.parameter:
            case SharedView():
                continue
            case View(name=name) if slot.kind == "length":
                shapes.setdefault(name, []).append(source)
                lengths.setdefault(name, source)
            case ScalarParameter(name=name, type=of) if of.is_integer:
                numbers[name] = source
    names = Names(lengths, numbers, {}, shapes)
    written = []
    for what, extents in shapes_of.items():
        written.append("".join(f"{size(e, names, f'{what} in kernel {kernel}') if isinstance(e, str) else e}, " for e in extents))
    source = f"lambda {_VALUES}: ({''.join(f'({shape}), ' for shape in written)})"
    made: Any = eval(source, {"extent": extent, "quotient": quotient, "KERNEL": kernel})
    return made  # type: ignore[no-any-return]
