"""A barrier under control flow that depends on the thread; both places are shown."""

from refusal import refused

from kdsl import SliceMut, f32, function, i32, kernel, sync_threads, thread_idx


def test_branch() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        if thread_idx.x < 5:
            sync_threads()
        y[0] = 0.0

    refused(wrong, "sync_threads()", at="sync_threads()", hint="whole block", also="thread_idx.x < 5")


def test_number_of_trips() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        for i in range(thread_idx.x):
            sync_threads()
            y[i] = 0.0

    refused(wrong, "sync_threads()", at="sync_threads()", hint="whole block", also="range(thread_idx.x)")


def test_after_a_break() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        for i in range(10):
            sync_threads()
            if y[thread_idx.x] == i:
                break

    refused(wrong, "sync_threads()", at="sync_threads()", hint="whole block", also="y[thread_idx.x] == i")


def test_after_a_continue() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        for i in range(10):
            if y[thread_idx.x] == i:
                continue
            sync_threads()

    refused(wrong, "sync_threads()", at="sync_threads()", hint="whole block", also="y[thread_idx.x] == i")


def test_through_a_variable() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[i32]) -> None:
        flag = False
        if thread_idx.x == 3:
            flag = True
        while flag:
            sync_threads()

    refused(wrong, "sync_threads()", at="sync_threads()", hint="whole block", also="flag")


def test_inside_a_function() -> None:
    @function
    def wait() -> None:
        sync_threads()

    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        if y[thread_idx.x] > 0:
            wait()

    text = refused(wrong, "sync_threads()", at="sync_threads()", hint="whole block", also="y[thread_idx.x] > 0")
    assert "in the call of wait" in text


def test_after_an_early_return_of_a_function() -> None:
    @function
    def wait(x: f32) -> None:
        if x > 0:
            return
        sync_threads()

    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        wait(y[thread_idx.x])

    refused(wrong, "sync_threads()", at="sync_threads()", hint="whole block", also="x > 0")
