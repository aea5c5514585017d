"""What a launcher asks the compiler for: one version of a kernel, ready to run on one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kdsl.ir.abi import Layout
from kdsl.ir.nodes import View
from kdsl.ir.shared import SharedLayout
from kdsl.lang.declaration import TypeVariable
from kdsl.lang.types import DType
from kdsl.runtime.cpu import CpuCode
from kdsl.runtime.device import Device
from kdsl.runtime.gpu_code import CudaFunction


@dataclass(frozen=True)
class Specialisation:
    """One choice of everything that is decided at compile time."""

    device: Device
    """Where it runs; `device.target` is what code is compiled for."""
    types: Mapping[TypeVariable, DType]
    """Element types for the type variables."""
    constants: Mapping[str, bool | int | float]
    """Values of the `Const` parameters, as Python's bool, int or float."""


class Launchable(Protocol):
    """A compiled kernel, loaded on its device."""

    @property
    def layout(self) -> Layout:
        """How its arguments are packed."""

    @property
    def views(self) -> Mapping[str, View]:
        """Its array parameters by name: what it reads, what it writes, and through which witness."""

    @property
    def shared(self) -> SharedLayout:
        """Where its shared arrays lie."""

    @property
    def code(self) -> CpuCode | CudaFunction:
        """The code."""

    @property
    def number(self) -> int:
        """Its number in the record of failed checks (`kdsl.runtime.record.register`)."""


Specialise: TypeAlias = Callable[[Specialisation], Launchable]
"""Compiles and loads a version; called at most once for each, never from two threads at once for one kernel."""
