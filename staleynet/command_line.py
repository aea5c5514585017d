"""What the entry points share: options with one meaning, and one clear message with exit status 2 for bad input.

What a program can be given wrongly is a fixed list of exceptions; anything else is a bug and shows its traceback.
"""

import logging
import re
import sys
from typing import TYPE_CHECKING, Any

import click

import kdsl
from staleynet.audio.decode import AudioError
from staleynet.data.errors import DataError
from staleynet.model.checkpoint import CheckpointError
from staleynet.model.configuration import ConfigurationError
from staleynet.tokenizer.errors import TokenizerError

LARGEST_SEED = 2**63 - 1

if TYPE_CHECKING:
    _StringType = click.ParamType[str]
else:
    _StringType = click.ParamType  # generic only in recent versions of click


class BadInput(click.ClickException):
    """Ends the program with one message: wrong options, unusable recordings, damaged files, devices that are not there."""

    exit_code = 2


class Interrupted(click.ClickException):
    """Ends a program that has nothing to save after Ctrl-C."""

    exit_code = 130  # 128 + SIGINT, as shells have it


class Command(click.Command):
    """A command whose expected errors become one message on stderr."""

    def invoke(self, context: click.Context) -> Any:
        """Run it. `click` prints the message and exits."""
        try:
            return super().invoke(context)
        except (AudioError, CheckpointError, ConfigurationError, DataError, TokenizerError, kdsl.DeviceError) as error:
            raise BadInput(str(error)) from error
        except FileExistsError as error:
            raise BadInput(f"{error.filename}: there is a file of this name where a folder is wanted") from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise BadInput(f"{where}{error.strerror or error}") from error
        except KeyboardInterrupt as error:
            raise Interrupted("interrupted") from error


class DeviceName(_StringType):
    """`auto`, `cpu`, or `cuda:N`."""

    name = "auto|cpu|cuda:N"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> str:
        """Check the name; whether there is such a device shows when it is opened."""
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", str(value)):
            self.fail(f"{value!r} is not a device: use auto, cpu or cuda:0", parameter, context)
        return str(value)


class _Stderr(logging.Handler):
    """Writes to whatever stderr is at the moment, which a live display replaces."""

    def emit(self, record: logging.LogRecord) -> None:
        prefix = "" if record.levelno < logging.WARNING else f"{record.levelname.lower()}: "
        print(f"{prefix}{record.getMessage()}", file=sys.stderr, flush=True)


def show_log() -> None:
    """Let the package's own log messages appear on stderr."""
    logger = logging.getLogger("staleynet")
    logger.setLevel(logging.INFO)
    if not logger.handlers:
        logger.addHandler(_Stderr())
