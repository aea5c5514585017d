"""Makes the launcher of a kernel: runs its generated source, and keeps it where tracebacks and `inspect` find it."""

from __future__ import annotations

import functools
import itertools
import linecache
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kdsl.errors import LaunchError
from kdsl.lang.declaration import Declaration
from kdsl.launch.generate import launcher_source_and_classes
from kdsl.launch.launchable import Specialise
from kdsl.launch.plan import Plans
from kdsl.launch.prepared import PreparedLaunch, checked
from kdsl.runtime.capture import Node
from kdsl.runtime.stream import Stream

_numbers: Final = itertools.count(1)


class Launcher:
    """The launcher of one kernel. Calling `function` with the kernel's arguments launches where its arrays live, on the default stream."""

    def __init__(self, declaration: Declaration, specialise: Specialise) -> None:
        """Generates the source. Raises ContractError or ValueError if the declaration is wrong; nothing is compiled before the first launch."""
        source, binding = launcher_source_and_classes(declaration)
        self.declaration = declaration
        """The kernel's signature, geometry and contract."""
        self.source = source
        """The launcher's module as Python."""
        self.plans = Plans(declaration, specialise, binding["changing"])
        """Compiled versions."""
        self.function: Callable[..., Node | None] = _run(declaration, source, {**binding["classes"], binding["plans"]: self.plans})
        """The launcher. It returns a node if this thread captures a graph, else None."""
        self.plans.entry = self.function
        self.stream_keyword: str = binding["stream"]
        """The parameter of the launcher that takes a stream."""
        self.deciding: frozenset[str] = binding["deciding"]
        """The number and struct parameters of which the contract or the grid speaks."""

    def prepare(self, arguments: Sequence[Any], keywords: Mapping[str, Any], stream: Stream | None) -> PreparedLaunch:
        """A launch that is checked now and made later, any number of times. Raises what the launch would raise."""
        return PreparedLaunch(self, checked(self.plans.entry, arguments, {**keywords, self.stream_keyword: stream}))

    def on(self, stream: Stream) -> Callable[..., Node | None]:
        """The launcher for another stream. Raises LaunchError if `stream` is none."""
        if not isinstance(stream, Stream):
            raise LaunchError(f"{self.declaration.name}: on() takes a stream of a device, such as device.stream(), not {stream!r}")
        return functools.partial(self.function, **{self.stream_keyword: stream})


def _run(declaration: Declaration, source: str, bound: dict[str, Any]) -> Callable[..., Node | None]:
    file = f"<kdsl launcher of {declaration.name}, {next(_numbers)}>"
    namespace: dict[str, Any] = {"__name__": f"{declaration.module}:{declaration.name} launcher", **bound}
    exec(compile(source, file, "exec"), namespace)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    function: Callable[..., Node | None] = namespace[declaration.name]
    function.__module__ = declaration.module
    weakref.finalize(function, linecache.cache.pop, file, None).atexit = False  # kernels may be made by the thousand
    return function
