"""A mistake in a kernel ended with twenty frames of the compiler's own above the message."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
from from_text import module

import kdsl
from kdsl import f32

TEXT = """
@function
def inner(x):
    return x + missing
@function
def outer(x):
    return inner(x) * 2.0
@kernel(grid=1)
def k(y: SliceMut[f32]) -> None:
    for i in range(3):
        if y[i] > 0.0:
            y[i] = outer(
                y[i])
"""
DEVICE = kdsl.device("cpu")
WAYS: dict[str, Callable[[Any], Any]] = {
    "a launch": lambda k: k(DEVICE.zeros(3, f32)),
    "a launch on a stream": lambda k: k.on(DEVICE.stream())(DEVICE.zeros(3, f32)),
    "the IR": lambda k: k.ir(),
    "PTX": lambda k: k.ptx("sm_90"),
    "compilation": lambda k: k.compile("cpu"),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_message_follows_the_call(way: str) -> None:
    kernel = module(TEXT)["k"]
    for _ in range(2):  # the second time nothing is remembered of the first
        with pytest.raises(kdsl.KernelError) as caught:
            WAYS[way](kernel)
        frames = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if "/kdsl/" in frame.filename.replace("\\", "/")]
        assert len(frames) <= 2
        assert all(frame.filename.endswith("compiler.py") for frame in frames)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        text = str(caught.value)
        for words in ("`missing` is not defined", "return x + missing", "in the call of inner", "in the call of outer", "hint:"):
            assert words in text
        assert [place.line for place in (caught.value.location, caught.value.location.caller)] == [4, 7]


def test_a_mistake_of_the_compiler_keeps_its_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no KernelError is nobody's mistake but ours, and is shown in full."""
    monkeypatch.setattr("kdsl.compiler.build", lambda *_, **__: 1 // 0)
    with pytest.raises(ZeroDivisionError) as caught:
        module(TEXT)["k"].ir()
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 2
