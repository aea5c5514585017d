"""A graph on the CPU: its steps one after the other, in the order in which they were recorded, on the calling thread."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kdsl.runtime.capture import Copy, Fill, Launch, Step, Work
from kdsl.runtime.cpu import CpuLaunch
from kdsl.runtime.stream import Stream

if TYPE_CHECKING:
    from kdsl.runtime.host import CpuDevice


class CpuExecutable:
    """The steps of a graph (`kdsl.runtime.graph.Executable`)."""

    def __init__(self, device: CpuDevice, steps: Sequence[Step]) -> None:
        self._device = device
        self._actions = [self._action(step.work) for step in steps]

    def launch(self, stream: Stream) -> None:
        """Run all steps; they have run when it returns."""
        for run in self._actions:
            run()

    def update(self, number: int, launch: Launch) -> None:
        """Exchange a launch."""
        self._actions[number] = self._action(launch)

    def _action(self, work: Work) -> Callable[[], None]:
        match work:
            case Launch(prepared=prepared):
                assert isinstance(prepared, CpuLaunch)
                return prepared.run
            case Copy(to=to, source=source):
                return functools.partial(self._device._copy, to, source)
            case Fill(to=to, value=value):
                return functools.partial(self._device._fill, to, value)
