"""What a person sees while a run works: a live display on a terminal, plain lines elsewhere. All of it goes to stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

_LINE_INTERVAL = 10.0  # seconds between two plain lines: few enough for a log file


class StepDisplay(Protocol):
    """Shows the steps of a run."""

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        """Show that `step` is done."""

    def say(self, text: str) -> None:
        """Show a line that stays."""


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.fields['tokens_per_second']:,.0f} tokens/s")


class _Live:
    def __init__(self, progress: Progress, done: int, steps: int) -> None:
        self._progress = progress
        self._task = progress.add_task("training", total=steps, completed=done, loss=float("nan"), tokens_per_second=0.0)
        self._speed = 0.0

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        self._speed = tokens_per_second if not self._speed else 0.9 * self._speed + 0.1 * tokens_per_second
        self._progress.update(self._task, completed=step, loss=loss, tokens_per_second=self._speed)

    def say(self, text: str) -> None:
        self._progress.console.print(text, highlight=False, markup=False)


class _Plain:
    def __init__(self, done: int, steps: int) -> None:
        self._first = done
        self._steps = steps
        self._start = time.monotonic()
        self._last = self._start

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        now = time.monotonic()
        if now - self._last < _LINE_INTERVAL and step != self._steps and step != self._first + 1:
            return
        self._last = now
        left = (now - self._start) / (step - self._first) * (self._steps - step)
        self.say(f"step {step}/{self._steps}  loss {loss:.4f}  {tokens_per_second:,.0f} tokens/s  {left:.0f} s left")

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def step_display(done: int, steps: int) -> Iterator[StepDisplay]:
    """A display for the steps `done + 1` to `steps`."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Plain(done, steps)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        _Speed(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, expand=True) as progress:
        yield _Live(progress, done, steps)


_STAGES = {"reading": "reading recordings", "tokenizer": "training the tokenizer", "encoding": "encoding recordings"}


@contextmanager
def stage_display() -> Iterator[Callable[[str, int, int], None]]:
    """A function that takes what is being done, how much of it is done, and how much there is: `data.prepare.Progress`."""
    console = Console(stderr=True)
    if not console.is_terminal:
        shown: set[str] = set()

        def say(what: str, done: int, total: int) -> None:
            if what not in shown:
                shown.add(what)
                print(f"{_STAGES.get(what, what)} ...", file=sys.stderr, flush=True)

        yield say
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn())
    with Progress(*columns, console=console, expand=True, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(_STAGES.get(what, what), total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield show
