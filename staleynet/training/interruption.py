"""When a run should end before its last step: Ctrl-C and SIGTERM as a polite request, looked at between two steps."""

import signal
from types import FrameType, TracebackType
from typing import Any, Self


class Stop:
    """Asks never. A run opens the context around its steps, and looks at `asked` after each."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing to undo."""

    def asked(self, step: int) -> bool:
        """Whether the run should save and end after `step`."""
        return False


class Interruption(Stop):
    """Asks after the first SIGINT or SIGTERM; the second one ends the process in the usual way.

    For the main thread only, as signal handlers are.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self._requested = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in self._SIGNALS:
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._restore()

    def asked(self, step: int) -> bool:
        """Whether a signal has come."""
        return self._requested

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._requested = True
        self._restore()

    def _restore(self) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())
