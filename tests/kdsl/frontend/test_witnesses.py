"""What the IR says of each array parameter: read, written, and the one witness through which all accesses go."""

from __future__ import annotations

import pytest
from text import kernel_of

from kdsl.ir import nodes

PARAMETERS = "y: DisjointSlice[f32], x: Slice[f32], z: SliceMut[f32]"


def views(body: str, options: str = "grid=elements('y')") -> dict[str, tuple[bool, bool, str | None]]:
    kernel = kernel_of(body, PARAMETERS, options)
    return {v.name: (v.read, v.written, v.witness) for v in kernel.parameters if isinstance(v, nodes.View)}


@pytest.mark.parametrize(
    ("body", "y", "x", "z"),
    [
        (
            "i = thread_index()\nif i in y:\n    y[i] = x[i]",
            (False, True, "thread_index"),
            (True, False, "thread_index"),
            (False, False, None),
        ),
        ("i = thread_index()\ny[i] += z[i + 1]", (True, True, "thread_index"), (False, False, None), (True, False, None)),
        ("y[thread_index()] = x[thread_index()] + x[0]", (False, True, "thread_index"), (True, False, None), (False, False, None)),
        ("if is_first_thread():\n    y[block_index()] = 1", (False, True, "block_index"), (False, False, None), (False, False, None)),
        ("if is_first_thread():\n    y[block_idx.x] = 1", (False, True, "block_index"), (False, False, None), (False, False, None)),
        ("if lane_index() == 0:\n    y[row_index()] = 1", (False, True, "row_index"), (False, False, None), (False, False, None)),
        ("if not is_first_lane():\n    return\ny[row_index()] = 1", (False, True, "row_index"), (False, False, None), (False, False, None)),
        (
            "if is_first_thread() and x[0] > 0:\n    y[row_index()] = 1",
            (False, True, "row_index"),
            (True, False, None),
            (False, False, None),
        ),
        ("z[row_index()] = 1", (False, False, None), (False, False, None), (False, True, None)),
    ],
)
def test_accesses(body: str, y: object, x: object, z: object) -> None:
    assert views(body) == {"y": y, "x": x, "z": z}


def test_a_witness_passes_through_names_and_functions() -> None:
    text = "pair = (thread_index(), 3)\nmine = pair[0]\nput(y, mine)"
    from text import define

    put = define("@function\ndef put(y: DisjointSlice[f32], where: i64) -> None:\n    y[where] = 1.0\n")["put"]
    kernel = kernel_of(text, PARAMETERS, "grid=elements('y')", put=put)
    assert next(v for v in kernel.parameters if v.name == "y").witness == "thread_index"


def test_one_warp_per_block_and_one_thread_per_block() -> None:
    assert (
        views("if is_first_lane():\n    y[row_index()] = 1", "grid=elements('y'), block=32")["y"][2] == "block_index"
    )  # it is the same number
    assert views("y[block_index()] = 1", "grid=elements('y'), block=1")["y"][1]
