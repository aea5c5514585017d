"""What the compiler makes of views of several dimensions: errors with their place, checks, IR, PTX for every generation."""

from __future__ import annotations

import re
from typing import Any

import pytest
import strided_kernels as kernels
from refusal import refused

import kdsl
from kdsl import D2, DisjointSlice, Slice, SliceMut, elements, f32, function, i32, kernel, sweep, thread_index
from kdsl.cli.explain import explain
from kdsl.ir import nodes
from kdsl.ir.printer import print_kernel
from kdsl.testing.ptx import assemble

EVERY = [
    kernels.copy2,
    kernels.copy_narrow,
    kernels.picked,
    kernels.product,
    kernels.scale3,
    kernels.copy4,
    kernels.copy5,
    kernels.at2,
    kernels.at4,
    kernels.at5,
    kernels.lengths,
    kernels.count,
]


@pytest.mark.parametrize("target", ["sm_87", "sm_90", "sm_110"])
@pytest.mark.parametrize("of", EVERY, ids=lambda of: of.name)
def test_ptx_assembles(of: kdsl.Kernel, target: str) -> None:
    assert assemble(of.ptx(target), target).spills == 0


def test_strides_are_multiplied_in_64_bits() -> None:
    ptx = kernels.copy2.ptx("sm_90")
    assert len(set(re.findall(r"copy2_param_\d+", ptx))) == 2 * 5 + 6
    assert re.search(r"(mad|mul)\.lo\.s64", ptx)


def test_the_ir_names_rank_and_dimension() -> None:
    text = print_kernel(kernels.copy2.ir())
    assert "x: Slice[f32, D2] r, y: SliceMut[f32, D2] w" in text
    assert "y.shape[0]" in text
    assert "y.shape[1]" in text


def accesses(of: kdsl.Kernel) -> dict[str, bool]:
    """For each array, whether its accesses are checked."""
    return {op.memory.name: op.checked for op in nodes.walk(of.ir().body) if isinstance(op, nodes.Load | nodes.Store)}


def test_guards_and_the_contract_prove_each_dimension() -> None:
    assert accesses(kernels.product) == {"a": False, "b": False, "c": False}
    assert accesses(kernels.copy2) == {"x": True, "y": False}


def test_a_guard_for_another_dimension_proves_nothing() -> None:
    @kernel(grid=sweep(blocks=1))
    def swapped(y: SliceMut[f32, D2]) -> None:
        i = thread_index()
        if i < y.shape[1]:
            y[i, 0] = 1

    assert accesses(swapped) == {"y": True}


def test_explain_shows_the_rank() -> None:
    views = {view.name: view for view in explain(kernels.product, {}, []).views}
    assert [view.annotation for view in views.values()] == ["Slice[f32, D2]", "Slice[f32, D2]", "SliceMut[f32, D2]"]


def test_versions_have_their_own_key() -> None:
    def made(annotation: Any) -> str:
        def f(y: Any, n: i32) -> None:
            pass

        f.__annotations__ = {"y": annotation, "n": i32, "return": None}
        return print_kernel(kernel(grid=sweep(blocks=1))(f).ir())

    assert made(SliceMut[f32]) != made(SliceMut[f32, D2])


# ------------------------------------------------------------------------------------------------------------------------------ refusals


def test_too_few_indices() -> None:
    @kernel(grid=sweep(blocks=1))
    def wrong(y: SliceMut[f32, D2]) -> None:
        y[thread_index()] = 1

    refused(wrong, "`y` has 2 dimensions", "indexed with 1", at="thread_index()", hint="y[i, j]")


def test_too_many_indices() -> None:
    @kernel(grid=sweep(blocks=1))
    def wrong(y: Slice[f32, D2], z: SliceMut[f32]) -> None:
        z[0] = y[0, 1, 2]

    refused(wrong, "`y` has 2 dimensions", "indexed with 3", at="0, 1, 2", hint="y[i, j]")


def test_a_flat_view_with_two_indices() -> None:
    @kernel(grid=sweep(blocks=1))
    def wrong(y: SliceMut[f32]) -> None:
        y[0, 1] = 1

    refused(wrong, "`y` has one dimension, not 2", at="0, 1", hint="declare it as SliceMut[f32, D2]")


def test_a_negative_index() -> None:
    @kernel(grid=sweep(blocks=1))
    def wrong(y: SliceMut[f32, D2]) -> None:
        y[0, -1] = 1

    refused(wrong, "index -1 of `y` is negative", at="-1", hint="y.shape[1] - 1")


def test_writing_to_a_slice() -> None:
    @kernel(grid=sweep(blocks=1))
    def wrong(y: Slice[f32, D2]) -> None:
        y[0, 1] = 1

    refused(wrong, "`y` is a Slice", at="y[0, 1]", hint="SliceMut[f32, D2]")


def test_an_extent_that_is_not_there() -> None:
    @kernel(grid=sweep(blocks=1))
    def wrong(y: SliceMut[f32, D2]) -> None:
        y[0, 0] = f32(y.shape[2])

    refused(wrong, "index 2 of a tuple of 2", at="2", hint="0 to 1")


def test_in_is_for_one_dimension() -> None:
    @kernel(grid=sweep(blocks=1))
    def wrong(y: SliceMut[f32, D2]) -> None:
        if thread_index() in y:
            y[thread_index(), 0] = 1

    refused(wrong, "of one dimension, not in SliceMut[f32, D2]", at="thread_index() in y", hint="i < y.shape[0]")


def test_a_disjoint_slice_has_one_dimension() -> None:
    def wrong() -> Any:
        @kernel(grid=sweep(blocks=1))
        def f(y: DisjointSlice[f32, D2]) -> None:
            pass

    refused(wrong, "DisjointSlice[f32, D2]", "witness", at="y: DisjointSlice[f32, D2]", hint="SliceMut[f32, D2]")


def test_a_thread_per_element_is_for_one_dimension() -> None:
    def wrong() -> Any:
        @kernel(grid=elements("y"))
        def f(y: SliceMut[f32, D2]) -> None:
            pass

    with pytest.raises(kdsl.KernelError, match="a thread per element is for one dimension") as caught:
        wrong()
    assert 'rows="y.shape[0]"' in caught.value.hint


@function
def first(x: Slice[f32]) -> f32:
    return x[0]


def test_a_function_of_another_rank() -> None:
    @kernel(grid=sweep(blocks=1))
    def wrong(x: Slice[f32, D2], y: SliceMut[f32]) -> None:
        y[0] = first(x)

    refused(wrong, "`x` of first is Slice[f32], not Slice[f32, D2]", at="x", hint="Slice[f32]")


@pytest.mark.parametrize("wrong", [(f32, 2), (f32, D2, D2), (D2, f32)], ids=str)
def test_annotations(wrong: Any) -> None:
    with pytest.raises(TypeError):
        Slice[wrong]


@pytest.mark.parametrize(
    ("relation", "words"),
    [
        ("y.shape[2] > 0", "y.shape[0] to y.shape[1]"),
        ("x.shape[1] > 0", "the extents of x are x.shape[0]"),
        ("y.shape[n] > 0", "extents of y"),
    ],
)
def test_contracts_name_extents_that_are_there(relation: str, words: str) -> None:
    def f(x: Slice[f32], y: Slice[f32, D2], n: i32) -> None:
        pass

    with pytest.raises(kdsl.ContractError, match=re.escape(words)):
        kernel(grid=sweep(blocks=1), requires=relation)(f)


def test_a_flat_view_with_five_indices() -> None:
    @kernel(grid=sweep(blocks=1))
    def wrong(y: SliceMut[f32]) -> None:
        y[0, 1, 2, 3, 4] = 1

    refused(wrong, "`y` has one dimension, not 5", at="0, 1, 2, 3, 4", hint="declare it as SliceMut[f32, D5]")
