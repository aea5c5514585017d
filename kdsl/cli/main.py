"""The command `kdsl`: `dump-ptx`, `dump-launcher`, `explain` and `check`, which need no GPU.

Errors that a user can make are one message on standard error, and exit status 2; then nothing has been written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

import kdsl
from kdsl.backend.nvptx import TARGETS, LimitError, TargetError, compile_module
from kdsl.cli.check import check
from kdsl.cli.explain import Explanation, explain
from kdsl.cli.files import write_atomically
from kdsl.cli.launch_values import launch_names, launch_values
from kdsl.cli.modules import NotFound, find_kernels
from kdsl.cli.report import as_json, plain, show, tables
from kdsl.cli.settings import WrongSetting, parse_settings, refuse_unknown, settings_of

_USER_ERRORS = (
    NotFound,
    WrongSetting,
    TargetError,
    LimitError,
    kdsl.KernelError,
    kdsl.ContractError,
    kdsl.LaunchError,
    OSError,
    TypeError,
    ValueError,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(kdsl.__version__, prog_name="kdsl")
def main() -> None:
    """Look at what kdsl makes of kernels."""


@main.command("dump-ptx")
@click.argument("place", metavar="MODULE[:KERNEL]")
@click.option("--arch", default="sm_90", show_default=True, metavar="TARGET", help=f"GPU to compile for: {', '.join(TARGETS)}.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Value of a Const parameter, or element type of a type variable (T=f32)."
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write there instead of to standard output."
)
def dump_ptx(place: str, arch: str, settings: tuple[str, ...], output: Path | None) -> None:
    """Print the PTX of a kernel, or of all kernels of a module in the order of their definition.

    MODULE is the name of a module, such as package.kernels, or the path of a Python file.
    """
    _answer(lambda: _ptx(place, arch, settings), output)


@main.command("dump-launcher")
@click.argument("place", metavar="MODULE:KERNEL")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write there instead of to standard output."
)
def dump_launcher(place: str, output: Path | None) -> None:
    """Print the launcher that is generated for a kernel: Python that checks the arguments and launches.

    MODULE is the name of a module, such as package.kernels, or the path of a Python file.
    """
    _answer(lambda: _launcher(place), output)


@main.command("explain")
@click.argument("place", metavar="MODULE[:KERNEL]")
@click.option("--arch", "targets", multiple=True, metavar="TARGET", help=f"{', '.join(TARGETS)} or cpu; may be repeated. All if not given.")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Value of a Const parameter, or element type of a type variable (T=f32)."
)
@click.option("--json", "with_json", is_flag=True, help="Print JSON.")
@click.option("--no-spills", is_flag=True, help="Exit with status 1 if registers are spilled to memory.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write there instead of to standard output."
)
def explain_command(
    place: str, targets: tuple[str, ...], settings: tuple[str, ...], with_json: bool, no_spills: bool, output: Path | None
) -> None:
    """Say what became of a kernel, or of all kernels of a module.

    Which bounds checks were proved away and which remain, what is known of its arrays, and for every target registers, spills, shared memory, occupancy, PTX
    version and least driver. Registers and what follows from them need ptxas.

    MODULE is the name of a module, such as package.kernels, or the path of a Python file. The exit status is 1 if ptxas refuses the PTX or warns of it, if a
    target named with --arch lacks what a kernel uses, or if --no-spills finds a spill.
    """
    found: list[Explanation] = []

    def make() -> str:
        found.extend(_explanations(place, targets, settings))
        return as_json(found) if with_json else "\n".join(plain(tables(facts)) for facts in found)

    on_terminal = output is None and not with_json and sys.stdout.isatty()
    _answer(make, output, silent=on_terminal)
    if on_terminal:
        for facts in found:
            show(tables(facts))
    failures = [failure for facts in found for failure in _failures(facts, bool(targets), no_spills)]
    for failure in failures:
        click.echo(f"kdsl: {failure}", err=True)
    if failures:
        raise click.exceptions.Exit(1)


@main.command("check", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-m", "--module", is_flag=True, help="PROGRAM is the name of a module, as for python -m.")
@click.option("--nan", "numbers", is_flag=True, help="Report, too, where a NaN or an infinity first arises.")
@click.option("--json", "with_json", is_flag=True, help="Print the report as JSON; what the program prints goes to standard error.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def check_command(program: str, arguments: tuple[str, ...], module: bool, numbers: bool, with_json: bool) -> None:
    """Run a Python program with its kernels on the CPU and every access of theirs watched, and report races and other faults.

    The exit status is 1 if something was found, else that of the program. Options of kdsl stand before PROGRAM.
    """
    checked = check(program, arguments, module=module, numbers=numbers, quiet=with_json)
    if checked.report is not None:
        click.echo(checked.report.as_json() if with_json else checked.report.text(), err=not with_json)
    else:
        click.echo("kdsl: no report, because the program launched no kernel, or ended all at once", err=True)
    if checked.status < 0:
        click.echo(f"kdsl: the program was ended by signal {-checked.status}", err=True)
    if checked.report is not None and checked.report.findings:
        raise click.exceptions.Exit(1)
    if checked.status:
        raise click.exceptions.Exit(checked.status if checked.status > 0 else 128 - checked.status)


def _explanations(place: str, targets: tuple[str, ...], settings: tuple[str, ...]) -> list[Explanation]:
    texts = parse_settings(settings)
    kernels = find_kernels(place)
    refuse_unknown(kernels, texts, [name for kernel in kernels for name in launch_names(kernel)])
    chosen = [(settings_of(kernel, texts), launch_values(kernel, texts)) for kernel in kernels]
    return [explain(kernel, settings, targets, values) for kernel, (settings, values) in zip(kernels, chosen, strict=True)]


def _failures(facts: Explanation, named: bool, no_spills: bool) -> list[str]:
    """What of an explanation fails a build."""
    found = []
    for gpu in facts.gpus:
        if gpu.problem and (named or gpu.ptx):
            found.append(f"{facts.kernel}: {gpu.target}: {gpu.problem.splitlines()[0]}")
        if no_spills and gpu.assembled is not None and gpu.assembled.spills:
            found.append(f"{facts.kernel}: {gpu.target}: {gpu.assembled.spills} bytes of registers are spilled to memory")
        if no_spills and gpu.assembled is None and not gpu.problem:
            found.append(f"{facts.kernel}: {gpu.target}: without ptxas nobody knows whether registers are spilled")
    return found


def _ptx(place: str, arch: str, settings: tuple[str, ...]) -> str:
    texts = parse_settings(settings)
    kernels = find_kernels(place)
    refuse_unknown(kernels, texts)
    chosen = [settings_of(kernel, texts) for kernel in kernels]
    if len(kernels) == 1:
        return kernels[0].ptx(arch, **chosen[0])
    # One module that assembles, not a module per kernel one behind the other
    return compile_module([kernel.ir(**values) for kernel, values in zip(kernels, chosen, strict=True)], arch)


def _launcher(place: str) -> str:
    kernels = find_kernels(place)
    if len(kernels) != 1:
        raise NotFound(f"{place} has {len(kernels)} kernels; name one: {', '.join(f'{place}:{kernel.name}' for kernel in kernels)}")
    return kernels[0].launcher_source


def _answer(make: Callable[[], str], output: Path | None, *, silent: bool = False) -> None:
    """Print or write what `make` yields; `silent` leaves printing to the caller."""
    try:
        text = make()
        text += "" if text.endswith("\n") else "\n"
        if output is not None:
            write_atomically(output, text)
    except _USER_ERRORS as error:
        message = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        click.echo(f"kdsl: error: {message}", err=True)
        raise click.exceptions.Exit(2) from None
    if output is None and not silent:
        click.echo(text, nl=False)
