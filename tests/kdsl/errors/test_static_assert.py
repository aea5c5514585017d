"""static_assert: what fails when the kernel is compiled, and what it cannot know."""

from refusal import refused

from kdsl import Const, SliceMut, block_dim, f32, i64, kernel, shared_array, static_assert

ROWS = 24


def test_a_condition_that_does_not_hold() -> None:
    @kernel(grid=1, block=48)
    def wrong(y: SliceMut[f32], n: Const[int]) -> None:
        static_assert(n % 16 == 0 and ROWS > 2, "tiles are 16 wide")
        y[0] = 1.0

    assert wrong.ir(n=32)
    refused(wrong, "static assertion failed: tiles are 16 wide", at='static_assert(n % 16 == 0 and ROWS > 2, "tiles are 16 wide")',
            hint="`n % 16 == 0 and ROWS > 2` must hold", n=20)  # fmt: skip


def test_types_shapes_and_geometry_are_known() -> None:
    @kernel(grid=1, block=48)
    def right(y: SliceMut[f32]) -> None:
        s = shared_array((3, ROWS), f32)
        static_assert(y.dtype is f32, "floats")
        static_assert(s.shape[1] == ROWS and block_dim.x == 48, message="shape")
        y[0] = 1.0

    assert len(right.ir().body.ops) < 5


def test_a_condition_that_is_known_at_run_time_only() -> None:
    @kernel(grid=1, block=48)
    def wrong(y: SliceMut[f32], n: i64) -> None:
        static_assert(n > 3, "large")

    refused(wrong, "must be known to the compiler", at="n > 3", hint="`assert` checks")


def test_a_message_is_a_string() -> None:
    @kernel(grid=1, block=48)
    def wrong(y: SliceMut[f32]) -> None:
        static_assert(False, 3)  # type: ignore[arg-type]  # the mistake

    refused(wrong, "the message of static_assert() is a string", at="3", hint="write it out")


def test_a_branch_that_is_removed_asserts_nothing() -> None:
    @kernel(grid=1, block=48)
    def right(y: SliceMut[f32], n: Const[int]) -> None:
        if n == 4:
            static_assert(False, "never for 4")
        y[0] = 1.0

    assert right.ir(n=5)
    refused(right, "never for 4", at='static_assert(False, "never for 4")', hint="False", n=4)
