"""Line information: `.file` and `.loc` name the Python source, also inside of functions; nothing else is written."""

import re
from typing import Any

from kdsl.ir import nodes
from kdsl.lang.types import F32
from kdsl.testing.ptx import assemble


def test_instructions_have_the_line_and_column_of_their_operation(build: Any, check: Any) -> None:
    """
    CHECK: .loc 1 11 0
    CHECK: .loc 1 77 9
    CHECK-NOT: .loc
    CHECK: ld.global.b32
    CHECK: .loc 1 78 13
    CHECK-NEXT: add.rn.f32
    CHECK: .file 1 "/folder/source.py"
    """
    b = build()
    y, t = b.view("y"), b.thread()
    x = b.add(nodes.Load, type=F32, memory=y, indices=(t,), checked=False, site=0, location=b.place(line=77, column=8))
    double = b.add(nodes.Binary, type=F32, op="add", left=x, right=x, location=b.place(line=78, column=12))
    b.store(y, t, double)
    check(b.ptx())


def test_an_expanded_function_has_its_own_file_and_line(build: Any, check: Any) -> None:
    """
    CHECK: .loc 2 400 1
    CHECK-NEXT: add.rn.f32
    CHECK: .file 1 "/folder/source.py"
    CHECK: .file 2 "/elsewhere/helper.py"
    """
    b = build()
    y, t = b.view("y"), b.thread()
    x = b.load(y, t)
    caller = b.place(line=50, caller=b.place(line=20))
    place = b.place(file="/elsewhere/helper.py", line=400, column=0, function="twice", caller=caller)
    b.store(y, t, b.add(nodes.Binary, type=F32, op="add", left=x, right=x, location=place))
    check(b.ptx())


def test_there_are_no_sections_of_debug_data(build: Any) -> None:
    b = build()
    b.store(b.view("y"), b.thread(), b.constant(1.0, F32))
    ptx = b.ptx()
    assert all(not body.strip() for body in re.findall(r"\.section\s+\S+\s*\{([^}]*)\}", ptx))
    assemble(ptx, "sm_90", options=("-lineinfo",))


def test_file_names_are_ascii_and_quoted_safely(build: Any, check: Any) -> None:
    """
    CHECK: .file 1 "C:%5Cpr%C3%A9l/%E6%97%A5 %22x%22.py"
    """
    b = build()
    place = b.place(file='C:\\prél/日 "x".py')
    b.kernel.location = place
    b.store(b.view("y"), b.thread(), b.add(nodes.Constant, type=F32, value=1.0, location=place))
    for op in nodes.walk(b.kernel.body):
        op.location = place
    ptx = b.ptx()
    check(ptx)
    assemble(ptx, "sm_90")


def test_sources_without_a_file_have_lines_too(build: Any) -> None:
    b = build()
    place = b.place(file="<stdin>")
    b.kernel.location = place
    b.store(b.view("y"), b.thread(), b.constant(1.0, F32))
    for op in nodes.walk(b.kernel.body):
        op.location = place
    ptx = b.ptx()
    assert re.search(r'\.file\s+1 "(\./)?<stdin>"', ptx)
    assemble(ptx, "sm_90")
