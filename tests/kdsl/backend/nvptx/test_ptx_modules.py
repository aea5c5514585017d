"""Several kernels in one PTX module."""

import re
from typing import Any

import pytest

from kdsl.backend.nvptx import compile_module, compile_ptx
from kdsl.lang.types import F32
from kdsl.testing.ptx import assemble


def checked(build: Any, name: str, **more: Any) -> Any:
    b = build(name, **more)
    y, tile = b.view("y"), b.array("tile", F32, 64)
    b.store(tile, b.constant(0), b.load(y, b.constant(0)))
    b.barrier()
    b.store(y, b.thread(), b.load(tile, b.constant(0)), checked=True)
    return b.kernel


def test_kernels_share_a_module_in_order(build: Any) -> None:
    kernels = [checked(build, "second"), checked(build, "first", block=(8, 8, 2), rank=3), checked(build, "third")]
    ptx = compile_module(kernels, "sm_87")
    assert re.findall(r"\.visible \.entry (\w+)\(", ptx) == ["second", "first", "third"]
    assert ptx.count("// kdsl_record_failure") >= 3
    assert sorted(set(re.findall(r"kdsl_shared\d+_tile", ptx))) == [f"kdsl_shared{n}_tile" for n in range(3)]
    assemble(ptx, "sm_87")


def test_kernels_of_one_name_get_a_number(build: Any) -> None:
    ptx = compile_module([checked(build, "k"), checked(build, "k_2"), checked(build, "k")], "sm_90")
    assert re.findall(r"\.visible \.entry (\w+)\(", ptx) == ["k", "k_2", "k_3"]
    assemble(ptx, "sm_90")


def test_one_kernel_is_the_same_text_either_way(build: Any) -> None:
    assert compile_module([checked(build, "k")], "sm_90") == compile_ptx(checked(build, "k"), "sm_90")


def test_no_kernel_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one kernel"):
        compile_module([], "sm_90")
