"""Barriers in shared memory and named barriers with arguments that make no sense."""

from refusal import refused

from kdsl import (
    Barriers,
    SliceMut,
    barrier_arrive,
    barrier_arrive_copies,
    barrier_arrive_expect,
    barrier_init,
    barrier_invalidate,
    barrier_sync,
    barrier_wait,
    f32,
    fence_async_proxy,
    function,
    i32,
    kernel,
    shared_array,
    shared_barriers,
    u32,
    warp_index,
)


def test_what_is_no_barrier() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: SliceMut[f32]) -> None:
        s = shared_array(4, f32)
        barrier_arrive(s, 0)

    refused(wrong, "takes barriers, not a shared array of f32", at="s", hint="shared_barriers(count)")

    @kernel(grid=1, block=32)
    def indexed(y: SliceMut[f32]) -> None:
        b = shared_barriers(4)
        y[0] = b[0]

    refused(indexed, "4 barriers has no elements", at="b", hint="only arrays")

    @function
    def arrive(b: Barriers) -> None:
        barrier_arrive(b, 0)

    @kernel(grid=1, block=32)
    def passed_on(y: SliceMut[f32]) -> None:
        arrive(shared_array(4, f32))

    refused(passed_on, "`b` of arrive are barriers, not a shared array of f32", at="shared_array(4, f32)", hint="shared_barriers(count)")


def test_indices_and_numbers_that_are_known() -> None:
    @kernel(grid=1, block=32)
    def behind(y: SliceMut[f32]) -> None:
        barrier_arrive(shared_barriers(4), 4)

    refused(behind, "index 4 is outside", at="4", hint="indices are 0 to 3")

    @kernel(grid=1, block=32)
    def gone(y: SliceMut[f32]) -> None:
        barrier_invalidate(shared_barriers(4), -1)

    refused(gone, "barrier_invalidate(): index -1 is outside", at="-1", hint="indices are 0 to 3")

    @kernel(grid=1, block=32)
    def counted(y: SliceMut[f32], n: i32) -> None:
        barrier_arrive_copies(shared_barriers(4), 0, noinc=n > 0)

    refused(counted, "`noinc` of barrier_arrive_copies() is True or False", at="n > 0", hint="write it out")

    @kernel(grid=1, block=32)
    def nobody(y: SliceMut[f32]) -> None:
        barrier_init(shared_barriers(1), 0, 0)

    refused(nobody, "`count` of barrier_init() is 1 to 1048575, not 0", at="0", hint="such a number")

    @kernel(grid=1, block=32)
    def narrow(y: SliceMut[f32], n: i32) -> None:
        barrier_arrive_expect(shared_barriers(1), 0, n)

    refused(narrow, "an i32 does not become a u32 by itself", at="n", hint="u32(n)")

    @kernel(grid=1, block=32)
    def parity(y: SliceMut[f32]) -> None:
        barrier_wait(shared_barriers(1), 0, 2)

    refused(parity, "a parity is 0 or 1, not 2", at="2", hint="in turn")

    @kernel(grid=1, block=32)
    def limit(y: SliceMut[f32], n: i32) -> None:
        barrier_wait(shared_barriers(1), 0, 0, timeout=n)

    refused(limit, "the timeout of barrier_wait()", "i32", at="n", hint="a literal")

    @kernel(grid=1, block=32)
    def several(y: SliceMut[f32], n: i32) -> None:
        shared_barriers(n)

    refused(several, "the shape of shared_barriers() must be known", at="shared_barriers(n)", hint="literals")

    @kernel(grid=1, block=32)
    def fence(y: SliceMut[f32]) -> None:
        fence_async_proxy("everywhere")

    refused(fence, 'one of "shared", "global", "all"', "'everywhere'", at='"everywhere"', hint="such as")


def test_named_barriers() -> None:
    @kernel(grid=1, block=64)
    def taken(y: SliceMut[f32]) -> None:
        barrier_sync(0, 64)

    refused(taken, "a number of 1 to 15", "this is 0", at="0", hint="1 + i % 2")

    @kernel(grid=1, block=64)
    def unknown(y: SliceMut[f32], n: i32) -> None:
        barrier_sync(n, 64)

    refused(unknown, "the compiler cannot see", at="n", hint="1 + i % 2")

    @kernel(grid=1, block=64)
    def part(y: SliceMut[f32]) -> None:
        barrier_sync(1, 40)

    refused(part, "40 threads", "whole warps", at="40", hint="multiple of 32")

    @kernel(grid=1, block=64)
    def more(y: SliceMut[f32]) -> None:
        barrier_sync(1, 128)

    refused(more, "a number of 1 to 64", at="128", hint="literal")

    @kernel(grid=1, block=64)
    def apart(y: SliceMut[u32]) -> None:
        if y[0] == 0:
            barrier_sync(1 + warp_index(), 32)
        if y[warp_index()] == 0:
            barrier_sync(1, 32)  # the same for a whole warp
        if y[0 if warp_index() == 0 else 1] == y[2]:
            barrier_sync(1, 32)

    assert apart.ir()

    @kernel(grid=1, block=64)
    def divergent(y: SliceMut[f32], n: i32) -> None:
        for i in range(2):
            if i < n:
                barrier_sync(1, 64)
        if y[0] > 0 and n > 2:
            barrier_sync(1, 64)

    assert divergent.ir()


def test_a_named_barrier_is_for_whole_warps_together() -> None:
    from kdsl import lane_index

    @kernel(grid=1, block=64)
    def wrong(y: SliceMut[f32]) -> None:
        if lane_index() < 16:
            barrier_sync(1, 64)

    refused(
        wrong,
        "not all lanes of the warp reach barrier_sync() together",
        at="barrier_sync(1, 64)",
        hint="whole warp",
        also="lane_index() < 16",
    )
