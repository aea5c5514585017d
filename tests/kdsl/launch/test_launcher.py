"""What launchers check, in which order, what they say, and what they pack."""

from __future__ import annotations

import inspect
import math
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from kdsl.errors import ArgumentError, LaunchError
from kdsl.lang.geometry import elements
from kdsl.lang.structs import struct
from kdsl.lang.types import BOOL, F32, F64, I32, f32, f64, i8, i32, i64, u8, u32, u64
from kdsl.lang.views import Const, DisjointSlice, Slice, SliceMut, ViewAnnotation
from kdsl.launch.generate import launcher_source
from kdsl.runtime import device as devices_of_process
from kdsl.runtime.device import device

T = TypeVar("T", f32, f64, i32)
VIEWS_OF_T: dict[str, Any] = {"y": ViewAnnotation("SliceMut", T), "x": ViewAnnotation("Slice", T)}
CPU = device("cpu")


@struct
class Window:
    """Part of an array."""

    start: u32
    """First element."""
    scale: f32
    """Factor
    of two lines."""


def zeros(n: int, of: Any = f32) -> Any:
    return CPU.zeros(n, of)


@pytest.fixture
def copy(fake: Any) -> Any:
    """y[i] = x[p.start + i], as the example `mistakes.py` has it."""
    return fake(
        "copy_window",
        {"y": DisjointSlice[f32], "x": Slice[f32], "p": Window},
        written={"y": "thread_index"},
        read={"x": None},
        grid=elements("y"),
        requires=("p.start + len(y) <= len(x)",),
        doc='Copy len(y) elements.\n\nA """quoted""" part, a backslash \\, {braces}, {% a tag %}"',
    )


def window(start: int) -> Any:
    return Window(start=start, scale=1)


def test_arguments_are_packed_in_order(copy: Any) -> None:
    y, x = zeros(4), zeros(10)
    copy(y, p=window(6), x=x)
    got = copy.arguments
    assert [got[k] for k in ("y.address", "y.length", "x.address", "x.length", "p.start", "p.scale")] == [
        y.address,
        4,
        x.address,
        10,
        6,
        1.0,
    ]
    assert (got["claim"], got["record"]) == (CPU.failures.claim, CPU.failures.record)
    assert (got["grid_x"], got["grid_y"], got["grid_z"]) == (1, 1, 1)


def test_a_relation_that_fails_says_both_sides(copy: Any) -> None:
    with pytest.raises(LaunchError) as caught:
        copy(zeros(4), zeros(10), window(7))
    text = str(caught.value)
    assert "copy_window" in text
    assert "p.start + len(y) <= len(x)" in text
    assert "p.start + len(y) is 11" in text
    assert "len(x) is 10" in text
    assert not copy.runs


def test_wrong_element_type(copy: Any) -> None:
    with pytest.raises(ArgumentError, match=r"copy_window: parameter x is Slice\[f32\], an array of f32; the argument is an array of f64"):
        copy(zeros(4), zeros(10, f64), window(0))


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (np.zeros(10, np.complex64), r"a numpy\.ndarray, .* no element type for NumPy's complex64"),
        (memoryview(b"1234"), "memoryview"),
        (None, r"None \(NoneType\)"),
        ([1.0], "list"),
        (3, "int"),
    ],
)
def test_what_is_no_array(copy: Any, argument: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"copy_window: parameter x .*{words}") as caught:
        copy(zeros(4), argument, window(0))
    assert isinstance(caught.value, LaunchError)


@pytest.mark.parametrize("argument", [{"start": 0}, (0, 1.0), None, Window])
def test_what_is_no_struct(copy: Any, argument: Any) -> None:
    with pytest.raises(ArgumentError, match="copy_window: parameter p is a Window"):
        copy(zeros(4), zeros(10), argument)


@pytest.mark.parametrize(
    ("arguments", "keywords", "words"),
    [
        ((1, 2), {}, r"copy_window\(\) missing 1 required positional argument: 'p'"),
        ((1, 2, 3, 4), {}, r"copy_window\(\) takes 3 positional arguments but 4 were given"),
        ((1, 2, 3), {"x": 1}, r"copy_window\(\) got multiple values for argument 'x'"),
        ((1, 2, 3), {"q": 1}, r"copy_window\(\) got an unexpected keyword argument 'q'"),
    ],
)
def test_the_number_of_arguments(copy: Any, arguments: Any, keywords: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        copy(*arguments, **keywords)


# ------------------------------------------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("of", "value", "packed"),
    [
        (i32, 2**31 - 1, 2**31 - 1), (i32, np.int64(-5), -5), (i32, True, 1), (u8, np.uint64(255), 255), (u64, 2**64 - 1, 2**64 - 1), (i8, np.bool_(True), 1),
        (f32, 3, 3.0), (f32, np.float64(0.5), 0.5), (f32, np.float32(0.1), float(np.float32(0.1))), (f32, True, 1.0), (f32, np.int32(7), 7.0),
        (f32, math.inf, math.inf), (f32, -math.inf, -math.inf), (f64, 1e300, 1e300), (f32, 2**24 + 1, 2.0**24),
        (f32, 3.4028235e38, float(np.float32(3.4028235e38))),
        (f32, -0.0, -0.0), (BOOL, True, True), (BOOL, np.bool_(False), False),
    ],
)  # fmt: skip
def test_numbers_that_fit(fake: Any, of: Any, value: Any, packed: Any) -> None:
    kernel = fake("k", {"a": of})
    kernel(value)
    assert (type(kernel.arguments["a"]), repr(kernel.arguments["a"])) == (type(packed), repr(packed))


def test_nan_is_a_number(fake: Any) -> None:
    kernel = fake("k", {"a": f32})
    kernel(math.nan)
    assert math.isnan(kernel.arguments["a"])


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (i32, 2**31),
        (i32, -(2**31) - 1),
        (u32, -1),
        (u8, 256),
        (u64, 2**64),
        (i64, 2**63),
        (f32, 1e39),
        (f32, 3.4028236e38),
        (f32, 10**40),
        (f64, 10**400),
    ],
)
def test_numbers_that_do_not_fit(fake: Any, of: Any, value: Any) -> None:
    kernel = fake("k", {"a": of})
    with pytest.raises(OverflowError, match=f"k: parameter a is of type {of}") as caught:
        kernel(value)
    assert isinstance(caught.value, LaunchError)
    assert not kernel.runs


@pytest.mark.parametrize(
    ("of", "value"),
    [
        (i32, 1.0),
        (i32, np.float32(1)),
        (i32, "1"),
        (i32, None),
        (f32, "1"),
        (f32, None),
        (f32, 1j),
        (BOOL, 1),
        (BOOL, 1.0),
        (f32, np.zeros(1)),
        (i32, np.zeros(1)),
    ],
)
def test_numbers_of_the_wrong_kind(fake: Any, of: Any, value: Any) -> None:
    kernel = fake("k", {"a": of})
    with pytest.raises(ArgumentError, match=f"k: parameter a is of type {of}"):
        kernel(value)


def test_numbers_are_checked_though_there_is_nothing_to_do(fake: Any) -> None:
    kernel = fake("k", {"y": SliceMut[f32], "a": f32, "n": i32}, grid=elements("y"))
    for bad in ((1e39, 1), ("a", 1), (1.0, 2**31), (1.0, 1.5)):
        with pytest.raises(LaunchError):
            kernel(zeros(0), *bad)


def test_a_struct_that_was_tampered_with(copy: Any) -> None:
    bad = window(0)
    object.__setattr__(bad, "scale", "one")
    with pytest.raises(ArgumentError, match=r"copy_window: p.scale is of type f32, which cannot hold 'one'"):
        copy(zeros(4), zeros(10), bad)


# ------------------------------------------------------------------------------------------------------------- specialisation and constants


def test_type_variables_decide_the_version(fake: Any) -> None:
    kernel = fake("k", {**VIEWS_OF_T, "a": T}, grid=elements("y"))
    for of in (f32, f64, i32, f32):
        kernel(zeros(3, of), zeros(3, of), 2)
    assert [wanted.types for wanted in kernel.compiled] == [{T: F32}, {T: F64}, {T: I32}]
    assert all(wanted.device is CPU for wanted in kernel.compiled)
    with pytest.raises(ArgumentError, match=r"k: parameters y and x have the same element type T; the arguments have f32 .*f64"):
        kernel(zeros(3), zeros(3, f64), 1)
    with pytest.raises(
        ArgumentError, match="k: parameter y has elements of T, which is one of f32, f64, i32; the argument has elements of u8"
    ):
        kernel(zeros(3, u8), zeros(3, u8), 1)
    with pytest.raises(ArgumentError, match="k: parameter a is of type i32"):
        kernel(zeros(3, i32), zeros(3, i32), 1.5)


def test_constants_decide_the_version(fake: Any) -> None:
    kernel = fake("k", {"n": Const[int], "a": Const[float], "b": Const[bool]}, keyword_only=("n", "a", "b"), defaults={"b": True, "n": 1})
    for n, a, b in [
        (1, 0.0, True),
        (np.int8(1), -0.0, True),
        (1, 0, True),
        (2, math.nan, False),
        (2, math.nan, False),
        (2**64 - 1, math.inf, False),
    ]:
        kernel(n=n, a=a, b=b)
    found = [tuple(wanted.constants.values()) for wanted in kernel.compiled]
    assert repr(found) == repr([(1, 0.0, True), (1, -0.0, True), (2, math.nan, False), (2**64 - 1, math.inf, False)])
    kernel(a=0.0)
    assert len(kernel.compiled) == 4
    for bad in ({"n": True}, {"n": 1.0}, {"n": 2**64}, {"b": 1}, {"a": "1"}):
        with pytest.raises(LaunchError, match="k: "):
            kernel(**{"a": 0.0, **bad})


def test_threads_compile_each_version_once(fake: Any) -> None:
    kernel = fake("k", VIEWS_OF_T, grid=elements("y"))
    arrays = [(zeros(3, of), zeros(3, of)) for of in (f32, f64, i32)]
    start, failures = threading.Barrier(8), []

    def launch(number: int) -> None:
        try:
            start.wait()
            for turn in range(50):
                kernel(*arrays[(number + turn) % 3])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=launch, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(kernel.compiled) == 3
    assert len(kernel.runs) == 400


def test_a_failed_compilation_is_tried_again(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fake("k", {"a": f32})
    plans, works = kernel.launcher.plans, kernel.launcher.plans._specialise
    monkeypatch.setattr(plans, "_specialise", lambda wanted: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        kernel(1.0)
    monkeypatch.setattr(plans, "_specialise", works)
    kernel(1.0)
    assert kernel.blocks == 1


# ------------------------------------------------------------------------------------------------------------------------------ overlap

ELEMENTWISE: dict[str, Any] = {"written": {"y": "thread_index"}, "read": {"x": "thread_index"}, "grid": elements("y")}


def test_in_place_through_one_witness(fake: Any) -> None:
    kernel = fake("k", {"y": DisjointSlice[f32], "x": Slice[f32]}, **ELEMENTWISE)
    y = zeros(8)
    kernel(y, y)
    kernel(y[2:5], y[2:5])
    kernel(y[:4], y[4:])
    assert len(kernel.runs) == 3
    for shifted in (y[1:], y[:7]):
        with pytest.raises(LaunchError, match=r"k: the arguments for y and x overlap \(\d+ bytes\).*writes to y.*not the same elements"):
            kernel(y, shifted)
    assert len(kernel.runs) == 3


@pytest.mark.parametrize(
    ("written", "read", "words"),
    [
        ({"y": "thread_index"}, {"x": None}, "through one witness; it does not for x"),
        ({"y": None}, {"x": "thread_index"}, "through one witness; it does not for y"),
        ({"y": "row_index"}, {"x": "thread_index"}, "y through row_index and x through thread_index"),
        ({"x": None}, {"y": "thread_index"}, "writes to x"),
    ],
)
def test_in_place_that_is_refused(fake: Any, written: Any, read: Any, words: str) -> None:
    kernel = fake("k", {"y": SliceMut[f32], "x": SliceMut[f32]}, written=written, read=read, grid=elements("y"))
    y = zeros(8)
    with pytest.raises(LaunchError, match=words) as caught:
        kernel(y, y)
    assert "overlap" in str(caught.value)


@pytest.mark.parametrize(("written", "read"), [({}, {"y": None, "x": None}), ({"y": None}, {})])
def test_overlap_that_does_no_harm(fake: Any, written: Any, read: Any) -> None:
    kernel = fake("k", {"y": SliceMut[f32], "x": SliceMut[f32]}, written=written, read=read, grid=elements("y"))
    y = zeros(8)
    kernel(y, y[1:])
    assert kernel.runs


def test_empty_slices_overlap_nothing(fake: Any) -> None:
    kernel = fake("k", {"y": DisjointSlice[f32], "x": SliceMut[f32]}, written={"y": None, "x": None}, grid=1)
    y = zeros(8)
    kernel(y, y[3:3])
    kernel(y[8:], y[4:])
    assert len(kernel.runs) == 2


# ------------------------------------------------------------------------------------------------------------------- devices and streams


def test_freed_arrays(copy: Any) -> None:
    y, x = zeros(4), zeros(10)
    x.free()
    with pytest.raises(LaunchError, match="copy_window: the array for x has been freed"):
        copy(y, x, window(0))


def test_streams(copy: Any) -> None:
    stream = CPU.stream()
    copy.launcher.on(stream)(zeros(4), zeros(10), p=window(0))
    assert copy.runs
    with pytest.raises(LaunchError, match=r"copy_window: on\(\) takes a stream"):
        copy.launcher.on(3)


def test_without_arrays_the_default_device_runs(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices_of_process, "_devices", {"cpu": CPU})  # nobody has asked for the default yet
    monkeypatch.setenv("KDSL_DEVICE", "cpu")
    kernel = fake("k", {"n": i32}, grid="n", requires=("n <= 5",))
    kernel(5)
    kernel.launcher.on(CPU.stream())(3)
    assert kernel.blocks == 8
    with pytest.raises(LaunchError, match="n <= 5; n is 6"):
        kernel(6)


# ------------------------------------------------------------------------------------------------------------------------- the source


def test_documentation_and_signature(copy: Any) -> None:
    function = copy.launcher.function
    text = inspect.getdoc(function) or ""
    for words in (
        'A """quoted""" part, a backslash \\, {braces}, {% a tag %}"',
        "First element.",
        "of two lines.",
        "`p.start + len(y) <= len(x)`",
        "Part of an array.",
    ):
        assert words in text
    assert [*inspect.signature(function).parameters] == ["y", "x", "p", "stream"]
    assert function.__module__ == "tests"


def test_tracebacks_show_the_launcher(copy: Any) -> None:
    try:
        copy(zeros(4), zeros(10), window(7))
    except LaunchError as error:
        shown = "".join(traceback.format_exception(error))
    assert "p_start + y_length <= x_length" in inspect.getsource(copy.launcher.function)
    assert "refuse.relation(" in shown


def test_names_of_parameters_do_not_disturb(fake: Any) -> None:
    names = [
        "stream",
        "device",
        "plan",
        "plans",
        "refuse",
        "grid",
        "blocks_x",
        "KERNEL",
        "extent",
        "Array",
        "Plans",
        "scalar",
        "F32",
        "y_length",
        "len",
    ]
    parameters: dict[str, Any] = {"y": DisjointSlice[f32], **dict.fromkeys(names, i32), "constant": Const[int]}
    relations = ("extent((stream, device)) >= 0", "len(y) // plan > 0", "len == 15", "y_length == 14")
    kernel = fake("scalar", parameters, grid=elements("y"), requires=relations)
    kernel(zeros(5), *range(1, 16), constant=3)
    assert [kernel.arguments[name] for name in names] == list(range(1, 16))
    kernel.launcher.on(CPU.stream())(zeros(5), *range(1, 16), 3)


def test_a_parameter_called_like_a_type(fake: Any) -> None:
    with pytest.raises(ValueError, match="cannot be called int"):
        fake("k", {"int": i32})


def test_unicode_names(fake: Any) -> None:
    kernel = fake("δ", {"größe": i32}, requires=("größe > 0",))
    kernel(größe=3)
    assert kernel.arguments["größe"] == 3


def test_the_source_is_formatted_and_clean(copy: Any, fake: Any, tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    every = fake("every", {**VIEWS_OF_T, "p": Window, "a": f32, "n": i32, "e": Const[float]}, grid=elements("y"))
    for number, kernel in enumerate((copy, every)):
        (tmp_path / f"launcher{number}.py").write_text(launcher_source(kernel.declaration))
    for command in (["format", "--check"], ["check", "--select", "E,F,I,W", "--ignore", "F821,E501"]):
        ruff = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length", "140", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ruff.returncode == 0, ruff.stdout + ruff.stderr


def test_a_signal_handler_may_launch_while_a_launch_waits(fake: Any) -> None:
    kernel = fake("k", {"n": i32}, grid=2)
    log: list[int] = []

    def body(arguments: dict[str, Any], first: int, end: int) -> None:
        if arguments["n"] == 1:
            kernel(2)  # as a handler would
        log.extend([arguments["n"]] * (end - first))

    kernel.body = body
    kernel(1)
    kernel(3)
    assert log.count(1) == log.count(3) == 2  # blocks, in however many pieces the threads take them
    assert set(log) == {1, 2, 3}
