"""Every kernel of StaleyNET becomes PTX that ptxas assembles, for Orin, H200 and Thor, and spills no registers."""

import importlib
import pkgutil
import re

import pytest

import staleynet.kernels
from kdsl import Kernel
from kdsl.backend.nvptx import compile_module
from kdsl.testing.ptx import assemble

MODULES = [module.name for module in pkgutil.iter_modules(staleynet.kernels.__path__)]


def kernels_of(name: str) -> list[Kernel]:
    module = importlib.import_module(f"staleynet.kernels.{name}")
    return [value for value in vars(module).values() if isinstance(value, Kernel) and value.declaration.module == module.__name__]


def test_there_are_kernels() -> None:
    assert sum(len(kernels_of(name)) for name in MODULES) >= 25


@pytest.mark.parametrize("target", ["sm_87", "sm_90", "sm_110"])
@pytest.mark.parametrize("name", [name for name in MODULES if kernels_of(name)])
def test_a_module_of_kernels_assembles(name: str, target: str) -> None:
    kernels = kernels_of(name)
    ptx = compile_module([kernel.ir() for kernel in kernels], target)
    assert re.findall(r"\.visible \.entry (\w+)\(", ptx) == [kernel.name for kernel in kernels]
    assert assemble(ptx, target).spills == 0
    assert ".f64" not in ptx  # float32 throughout
