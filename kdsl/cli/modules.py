"""Finding kernels: `MODULE` or `MODULE:KERNEL`, where MODULE is the dotted name of a module or the path of a Python file."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from kdsl.compiler import Kernel


class NotFound(Exception):
    """There is no such module or kernel, or the module cannot be imported. The message is for people."""


def find_kernels(place: str) -> list[Kernel]:
    """The kernel that `MODULE:KERNEL` names, or all kernels that MODULE defines, in the order of their definition. Raises NotFound."""
    name, kernel = _split(place)
    module = _load_file(Path(name)) if _is_file(name) else _import(name)
    if kernel is not None:
        return [_named(module, name, kernel)]
    found = {id(k): k for k in vars(module).values() if isinstance(k, Kernel) and k.declaration.module == module.__name__}
    if not found:
        raise NotFound(f"{name} defines no kernel")
    return list(found.values())


def _split(place: str) -> tuple[str, str | None]:
    name, colon, kernel = place.rpartition(":")
    # A colon may also stand behind the letter of a drive
    if not colon or not kernel.isidentifier():
        return place, None
    return name, kernel


def _is_file(name: str) -> bool:
    return name.endswith(".py") or "/" in name or "\\" in name


def _named(module: ModuleType, name: str, kernel: str) -> Kernel:
    found = getattr(module, kernel, None)
    if isinstance(found, Kernel):
        return found
    known = [n for n, value in vars(module).items() if isinstance(value, Kernel)]
    has = f"its kernels are {', '.join(known)}" if known else "it has no kernels"
    problem = "has nothing called" if found is None else f"has a {type(found).__name__}, not a kernel, called"
    raise NotFound(f"{name} {problem} {kernel}; {has}")


def _import(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise NotFound(f"{name!r} is neither the name of a module nor the path of a Python file (which ends in .py)")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does; a console script does not
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise NotFound(
                f"there is no module {name} here or among the installed packages; for a file, give its path: {name}.py"
            ) from None
        raise NotFound(_failure(name, error)) from error
    except (Exception, SystemExit) as error:
        raise NotFound(_failure(name, error)) from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise NotFound(f"there is no file {path}")
    taken = path.stem in sys.modules or path.stem in sys.stdlib_module_names or not path.stem.isidentifier()
    name = f"kdsl_file_{path.stem}" if taken else path.stem
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None:
        raise NotFound(f"{path} is not a Python file (its name ends in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.absolute().parent))  # as `python FILE` does, so that it finds its neighbours
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise NotFound(_failure(str(path), error)) from error
    return module


def _failure(name: str, error: BaseException) -> str:
    """What went wrong, and the last line outside of the import machinery where it did."""
    machinery = ("<frozen importlib", str(Path(importlib.__file__).parent), str(Path(__file__).parents[1]))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(machinery)]
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"importing {name} failed{where}:\n{type(error).__name__}: {error}"
