"""A DisjointSlice is accessed only through a witness."""

from refusal import refused

from kdsl import DisjointSlice, block_index, elements, f32, is_first_lane, is_first_thread, kernel, row_index, thread_index


def test_other_element() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: DisjointSlice[f32]) -> None:
        i = thread_index()
        y[i + 1] = 0.0

    refused(wrong, "`y`", "written", "`i + 1`", at="y[i + 1]", hint="SliceMut[f32]")


def test_read_of_another_element() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: DisjointSlice[f32]) -> None:
        i = thread_index()
        if i in y:
            y[i] = y[0]

    refused(wrong, "`y`", "read", at="y[0]", hint="SliceMut[f32]")


def test_witness_that_was_assigned_again() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: DisjointSlice[f32]) -> None:
        i = thread_index()
        if i > 10:
            i = i - 1
        y[i] = 0.0

    refused(wrong, "`y`", "not a witness", at="y[i]", hint="thread_index()")


def test_block_index_of_every_thread() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: DisjointSlice[f32]) -> None:
        y[block_index()] = 1.0

    refused(wrong, "block_index()", "not unique", at="y[block_index()]", hint="if is_first_thread():")


def test_row_index_of_every_lane() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: DisjointSlice[f32]) -> None:
        if not is_first_lane():
            y[row_index()] = 1.0

    refused(wrong, "row_index()", "not unique", at="y[row_index()]", hint="if is_first_lane():")


def test_two_kinds_of_witness() -> None:
    @kernel(grid=elements("y"))
    def wrong(y: DisjointSlice[f32]) -> None:
        y[thread_index()] = 1.0
        if is_first_thread():
            y[block_index()] = 2.0

    refused(wrong, "block_index()", "thread_index()", at="y[block_index()]", hint="SliceMut[f32]", also="y[thread_index()]")
