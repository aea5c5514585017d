"""A name that may have no value where it is read; the assignment is shown, too."""

from refusal import refused

from kdsl import SliceMut, f32, i32, kernel

SIZE = 5


def test_branch() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        if n > 0:
            value = f32(1)
        y[0] = value

    refused(wrong, "`value`", "may", at="value", hint="every way", also="value")


def test_loop_without_trips() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32], n: i32) -> None:
        for i in range(n):
            last = f32(i)
        y[0] = last

    refused(wrong, "`last`", "may", at="last", hint="every way")


def test_loop_variable() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32], n: i32) -> None:
        for i in range(n):
            y[i] = 0
        y[0] = i32(i)

    refused(wrong, "`i`", "may", at="i", hint="every way")


def test_read_before_it_is_assigned() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        y[0] = SIZE  # noqa: F823
        SIZE = 3
        y[1] = SIZE

    refused(wrong, "`SIZE`", "no value", at="SIZE", hint="global", also="SIZE")


def test_augmented_before_it_is_assigned() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        SIZE += 1  # noqa: F823
        y[1] = SIZE

    refused(wrong, "`SIZE`", "no value", at="SIZE", hint="before")


def test_break_before_the_assignment() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32], n: i32) -> None:
        while True:
            if y[0] > n:
                break
            found = y[0]
            y[0] += 1
        y[1] = found

    refused(wrong, "`found`", "may", at="found", hint="every way")
