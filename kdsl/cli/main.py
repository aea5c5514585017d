"""The command `kdsl`: `dump-ptx` and `dump-launcher`, which need no GPU.

Errors that a user can make are one message on standard error, and exit status 2; then nothing has been written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

import kdsl
from kdsl.backend.nvptx import TARGETS, LimitError, TargetError, compile_module
from kdsl.cli.files import write_atomically
from kdsl.cli.modules import NotFound, find_kernels
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


def _answer(make: Callable[[], str], output: Path | None) -> None:
    """Print or write what `make` yields."""
    try:
        text = make()
        text += "" if text.endswith("\n") else "\n"
        if output is not None:
            write_atomically(output, text)
    except _USER_ERRORS as error:
        message = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        click.echo(f"kdsl: error: {message}", err=True)
        raise click.exceptions.Exit(2) from None
    if output is None:
        click.echo(text, nl=False)
