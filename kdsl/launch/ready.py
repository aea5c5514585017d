"""Launches that have passed all checks and lie ready, packed, to be made again: what the short way through a launcher takes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kdsl.launch.foreign import Bridge
from kdsl.launch.packing import run_packer
from kdsl.runtime.array import Array
from kdsl.runtime.memory import uses
from kdsl.runtime.stream import Stream
from kdsl.runtime.tensor_map import DeviceTensorMap

if TYPE_CHECKING:
    from kdsl.ir.abi import Layout
    from kdsl.launch.plan import Plan, Runner

MOST: Final = 256
"""Launches of one kernel that lie ready at most; then all are forgotten."""


class Ready:
    """A launch with its packed arguments. It keeps no array, and is used by one thread at a time if something is packed anew."""

    __slots__ = ("fire", "generation", "keeps", "packs", "recover")

    def __init__(self, runner: Runner, buffer: Any, layout: Layout, runs: Sequence[Sequence[str]], generation: object) -> None:
        self.fire: Callable[[], int | None] = runner.fire
        """Launches it; gives a status, 0 or None if all is well."""
        self.recover: Callable[[int], None] = runner.recover
        """What to do after another status: it launches after all, or raises."""
        packers = [run_packer(layout, names) for names in runs]
        self.packs = tuple(functools.partial(pack, buffer, offset) for pack, offset in packers)
        """For each run of neighbouring parameters that may change, what packs their values."""
        self.generation = generation
        """That of `uses` when the arrays were last looked at."""
        self.keeps: object = None
        """The stream of another library, which its handle finds again: what belongs to the stream stays, too."""

    def renewed(self, stream: Stream | None, given: Sequence[object]) -> bool:
        """Look at the arrays again: whether their memory is still there; then the stream may use it."""
        generation = uses.generation  # first: what changes from here on is noticed the next time
        for one in given:
            if not isinstance(one, Array | DeviceTensorMap):
                continue  # it is there: its address has just been read
            memory = (one.array if isinstance(one, DeviceTensorMap) else one).memory
            if memory.stream is None:
                return False
            if stream is not None:
                memory.join(stream)
        self.generation = generation
        return True


class ReadyLaunches(dict[tuple[Any, ...], Ready]):
    """The launches of a kernel that lie ready. One is made when the same is launched for the second time: most arguments are used only once, or many times."""

    def __init__(self, runs: Sequence[Sequence[str]]) -> None:
        super().__init__()
        self._runs = runs
        self._seen: set[tuple[Any, ...]] = set()

    def launch(
        self,
        plan: Plan,
        key: tuple[Any, ...] | Bridge | None,
        generation: object,
        stream: Stream,
        grid: tuple[int, int, int],
        values: tuple[Any, ...],
    ) -> None:
        """A launch that has passed all checks, and whose arrays were looked at in that generation of `uses`."""
        if key is None or isinstance(key, Bridge) or key[0] is False or not plan.can_lie_ready:
            plan.launch(stream, grid, values)
            if isinstance(key, Bridge):
                key.close()
        elif key not in self._seen:
            if len(self._seen) >= MOST:
                self._seen.clear()
            self._seen.add(key)
            plan.launch(stream, grid, values)
        else:
            runner, buffer = plan.ready(stream, grid, values)
            made = Ready(runner, buffer, plan.layout, self._runs, generation)
            if isinstance(key[0], bytes | tuple):
                made.keeps = stream
            status = made.fire()
            if status:
                made.recover(status)
            if len(self) >= MOST:
                self.clear()
            self[key] = made
