"""Showing an explanation: tables for a terminal (rich), the same as plain text, or JSON."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kdsl.cli.explain import Access, CpuFacts, Explanation, GpuFacts


@dataclass(frozen=True)
class Table:
    """A table with a title, and lines under it."""

    title: str
    """What it shows."""
    columns: Sequence[str]
    """Names of the columns; none if there are only notes."""
    rows: Sequence[Sequence[str]]
    """Cells."""
    notes: Sequence[str] = ()
    """What has no column."""


_STATES: Final = {
    "remains": ("remains", "remain"),
    "proved": ("proved away", "proved away"),
    "unchecked": ("unchecked", "unchecked"),
    "proved or unchecked": ("proved away or unchecked", "proved away or unchecked"),
}
"""States of an access in words, of one and of several."""


def tables(facts: Explanation) -> list[Table]:
    """An explanation for people."""
    shown = [_head(facts)]
    if facts.views:
        rows = [
            (view.name, view.annotation, view.used, view.witness or "-", "noalias" if view.noalias else "may alias", view.why)
            for view in facts.views
        ]
        shown.append(Table("Arrays", ("name", "type", "use", "witness", "memory", "because"), rows))
    shown.append(_checks(facts.accesses))
    if facts.gpus:
        shown.append(_gpus(facts))
    if facts.cpu is not None:
        shown.append(_cpu(facts.cpu))
    return shown


def plain(shown: Sequence[Table]) -> str:
    """The tables as text with aligned columns."""
    parts = []
    for table in shown:
        lines = [table.title]
        if table.columns:
            cells = [table.columns, *table.rows]
            widths = [max(len(row[column]) for row in cells) for column in range(len(table.columns))]
            lines += ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
        lines += [f"  {note}" for note in table.notes]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def show(shown: Sequence[Table]) -> None:
    """The tables on a terminal."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console()
    for table in shown:
        console.print(Text(table.title, style="bold"))
        if table.columns:
            made = RichTable(*table.columns, box=None, padding=(0, 1), header_style="dim")
            for row in table.rows:
                made.add_row(*(Text(cell) for cell in row))
            console.print(made)
        for note in table.notes:
            console.print(Text(f" {note}"))
        console.print()


def as_json(explanations: Sequence[Explanation]) -> str:
    """All facts: `{"kernels": [...]}`, whose keys are the names of the fields of `Explanation`, and of what it holds."""
    return json.dumps({"kernels": [_plain_data(facts) for facts in explanations]}, indent=2, ensure_ascii=False)


def _plain_data(facts: Explanation) -> dict[str, Any]:
    data = dataclasses.asdict(facts)
    data["settings"] = {name: value if isinstance(value, bool | int | float) else str(value) for name, value in facts.settings.items()}
    for gpu, shown in zip(facts.gpus, data["gpus"], strict=True):
        if gpu.assembled is not None:
            del shown["assembled"]["log"]
    return data


def _head(facts: Explanation) -> Table:
    x, y, z = facts.block
    settings = ", ".join(f"{name}={value}" for name, value in facts.settings.items())
    threads = f"{x * y * z} threads" + (f" ({x} x {y} x {z})" if y * z > 1 else "")
    notes = [f"blocks of {threads}, {facts.shared:,} bytes of shared arrays{_dynamic(facts)}"]
    return Table(f"{facts.kernel}{f' [{settings}]' if settings else ''} at {_place(facts.file, facts.line)}", (), (), notes)


def _dynamic(facts: Explanation) -> str:
    """What the launch decides of shared arrays."""
    if not facts.dynamic:
        return ""
    named = "; ".join(facts.dynamic)
    return f" + dynamic ({named})" if facts.dynamic_bytes is None else f" + {facts.dynamic_bytes:,} bytes dynamic ({named})"


def _checks(accesses: Sequence[Access]) -> Table:
    counts = [
        _count(sum(a.state == state for a in accesses), words)
        for state, words in _STATES.items()
        if any(a.state == state for a in accesses)
    ]
    rows = []
    for access in accesses:
        times = "" if access.operations == 1 else f" ({access.operations} times)"
        if 0 < access.checked < access.operations:
            times = f" ({access.checked} of {access.operations})"
        what = f"{access.operation} {access.array}"
        rows.append((access.state + times, what, _place(access.file, access.line, access.column), access.text))
    title = f"Bounds checks: {', '.join(counts)}" if counts else "Bounds checks: the kernel touches no array"
    return Table(title, ("check", "access", "place", "source") if rows else (), rows)


def _count(number: int, words: tuple[str, str]) -> str:
    return f"{number} {words[number != 1]}"


def _gpus(facts: Explanation) -> Table:
    rows, notes = [], []
    for gpu in facts.gpus:
        rows.append(_gpu(gpu, bool(facts.ptxas), facts.dynamic_bytes is None))
        if gpu.problem:
            notes.append(f"{gpu.target}: {gpu.problem}")
    columns: tuple[str, ...] = ("target", "PTX", "least driver")
    if facts.ptxas:
        columns += ("registers", "spills", "stack", "shared", "blocks", "threads", "occupancy", "limited by")
    else:
        notes.append(
            "There is no ptxas, so nothing is known of registers, spills and occupancy: install the package nvidia-cuda-nvcc, "
            "or put ptxas on PATH."
        )
    if facts.dynamic_bytes is None:
        notes.append("Occupancy leaves out dynamic shared memory; give the values of a launch, as in --set n=1000 or --set 'len(x)=1000'.")
    title = "GPU targets (spills, stack, shared in bytes; blocks, threads, occupancy per multiprocessor)" if facts.ptxas else "GPU targets"
    return Table(title, columns, rows, notes)


def _gpu(gpu: GpuFacts, with_ptxas: bool, open_end: bool) -> tuple[str, ...]:
    row = (gpu.target, gpu.ptx or "-", gpu.driver or "-")
    if not with_ptxas:
        return row
    report, resident = gpu.assembled, gpu.occupancy
    if report is None or resident is None:
        return (*row, *("-",) * 8)
    shared = f"{report.shared} + dynamic" if open_end else report.shared
    numbers = (report.registers, report.spills, report.stack, shared, resident.blocks, 32 * resident.warps)
    return (*row, *map(str, numbers), f"{resident.share:.0%}", ", ".join(resident.limited_by))


def _cpu(cpu: CpuFacts) -> Table:
    if cpu.problem:
        return Table("CPU", (), (), [cpu.problem])
    notes = [
        f"{cpu.generation}: {cpu.lanes} lanes per group, {cpu.scratch:,} bytes of scratch memory per thread, {cpu.bytes:,} bytes of code"
    ]
    return Table("CPU", (), (), notes)


def _place(file: str, line: int, column: int | None = None) -> str:
    near = os.path.relpath(file) if os.path.isabs(file) else file
    shortest = min(near, file, key=len)
    return f"{shortest}:{line}" if column is None else f"{shortest}:{line}:{column}"
