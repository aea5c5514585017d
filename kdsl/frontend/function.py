"""What `@function` yields: a function that kernels may call, compiled for the types of each call.

`Overloaded` joins several under one name, chosen by the type of the first argument; it is how the library says that `exp` has one polynomial per type.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from kdsl.frontend.captures import Captures
from kdsl.frontend.source import Source, parse
from kdsl.lang.types import DType


class Function:
    """A Python function marked `@function`."""

    source: Source
    """Its parsed source."""

    def __init__(self, python_function: Callable[..., Any]) -> None:
        """Parse it; raises KernelError if it is not written in the language."""
        self.source = parse(python_function)
        functools.update_wrapper(self, python_function)

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.source.name

    @property
    def captures(self) -> Captures:
        """What it names from outside."""
        return self.source.captures

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise TypeError(f"{self.name}() is marked @function: it works only inside a kernel")

    def __repr__(self) -> str:
        return f"<function {self.name} of the language>"

    def __reduce__(self) -> str:
        """Pickled by its name, as a plain function is."""
        return self.source.function.__qualname__


class Overloaded:
    """Several functions under one name, one per element type of the first argument."""

    functions: dict[DType, Function]
    """The function for each type."""

    def __init__(self, name: str, functions: Mapping[DType, Callable[..., Any]]) -> None:
        """All of them are marked `@function` and take the same parameters."""
        self.name = name
        self.__name__ = name
        self.functions = cast("dict[DType, Function]", dict(functions))  # to a type checker a @function is its Python function
        self.__doc__ = next((f.__doc__ for f in self.functions.values() if f.__doc__), None)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        raise TypeError(f"{self.name}() works only inside a function marked @kernel or @function")

    def __repr__(self) -> str:
        return f"<function {self.name} of the language for {', '.join(t.name for t in self.functions)}>"


F = TypeVar("F", bound=Callable[..., Any])


def function(python_function: F) -> F:
    """Mark a Python function as callable from kernels. It is compiled for the types of each call.

    Raises KernelError if it is not written in the language.
    """
    # to a static type checker the function keeps its own type, so that kernel bodies type-check
    return cast("F", Function(python_function))
