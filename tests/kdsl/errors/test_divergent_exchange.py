"""An exchange between lanes under control flow that depends on the lane; both places are shown."""

from refusal import refused

from kdsl import SliceMut, elements, f32, kernel, thread_idx, thread_index, warp_sum


def test_guard_of_the_array() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: SliceMut[f32]) -> None:
        i = thread_index()
        if i in y:
            y[i] = warp_sum(y[i])

    refused(wrong, "warp_sum()", at="warp_sum(y[i])", hint="neutral value", also="i in y")


def test_conditional_expression() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: SliceMut[f32]) -> None:
        y[0] = warp_sum(y[1]) if thread_idx.x > 3 else 0.0

    refused(wrong, "warp_sum()", at="warp_sum(y[1])", hint="neutral value", also="thread_idx.x > 3")
