"""Hints for the caches where none can be, and words that do not exist."""

from refusal import refused

from kdsl import (
    Slice,
    SliceMut,
    atomic_add,
    cached,
    f32,
    global_address,
    i32,
    kernel,
    local_array,
    prefetch,
    shared_array,
    struct,
    thread_index,
)


@struct
class Pair:
    a: f32
    b: f32


def test_what_is_not_in_device_memory() -> None:
    @kernel(grid=1, block=32)
    def shared(y: SliceMut[f32]) -> None:
        s = shared_array(32, f32)
        cached(s, "streaming")[0] = 1.0

    @kernel(grid=1, block=32)
    def launched(y: SliceMut[f32], n: i32) -> None:
        y[0] = cached(shared_array(n, f32), "streaming")[0]

    @kernel(grid=1, block=32)
    def local(y: SliceMut[f32]) -> None:
        y[0] = cached(local_array(32, f32), "streaming")[thread_index()]

    @kernel(grid=1, block=32)
    def number(y: SliceMut[f32]) -> None:
        y[0] = cached(1.0, "streaming")

    refused(shared, "cached() takes an array parameter, not a shared array of f32", at="s", hint="only device memory")
    refused(launched, "cached() takes an array parameter", at="shared_array(n, f32)", hint="only device memory")
    refused(local, "not a local array of f32", at="local_array(32, f32)", hint="only device memory")
    refused(number, "not the literal 1.0", at="1.0", hint="only device memory")


def test_structs() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: SliceMut[f32], x: Slice[Pair]) -> None:
        y[0] = cached(x, "streaming")[0].a

    refused(wrong, "cached() of `x`, whose elements are structs", at="x", hint="numbers or of vectors")


def test_words_and_numbers() -> None:
    @kernel(grid=1, block=32)
    def word(y: SliceMut[f32], x: Slice[f32]) -> None:
        y[0] = cached(x, "cs")[0]

    @kernel(grid=1, block=32)
    def no_word(y: SliceMut[f32], x: Slice[f32]) -> None:
        y[0] = cached(x, 3)[0]

    @kernel(grid=1, block=32)
    def size(y: SliceMut[f32], x: Slice[f32]) -> None:
        y[0] = cached(x, "streaming", prefetch=100)[0]

    @kernel(grid=1, block=32)
    def unknown(y: SliceMut[f32], x: Slice[f32], n: i32) -> None:
        y[0] = cached(x, prefetch=n)[0]

    refused(word, "`how` of cached() is one of", '"streaming"', '"no_allocate"', at='"cs"', hint="such as")
    refused(no_word, "this is the literal 3", at="3", hint="such as")
    refused(size, "one of 0, 64, 128, 256 bytes; this is 100", at="100", hint="prefetch=128")
    refused(unknown, "this is i32", at="n", hint="prefetch=128")


def test_twice() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: SliceMut[f32], x: Slice[f32]) -> None:
        y[0] = cached(cached(x, "streaming"), "level2")[0]

    refused(wrong, "`x` is cached streaming already", at='cached(x, "streaming")', hint="once")


def test_what_is_no_plain_access() -> None:
    @kernel(grid=1, block=32)
    def atomic(y: SliceMut[f32]) -> None:
        atomic_add(cached(y, "streaming"), 0, 1.0)

    @kernel(grid=1, block=32)
    def hint(y: SliceMut[f32]) -> None:
        prefetch(cached(y, "streaming"), 0)

    @kernel(grid=1, block=32)
    def address(y: SliceMut[f32]) -> None:
        global_address(cached(y, "streaming"), 0)

    for wrong in (atomic, hint, address):
        refused(wrong, "on `y`, which is cached streaming here", at='cached(y, "streaming")', hint="pass y itself")


def test_writing_brings_nothing() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: SliceMut[f32]) -> None:
        cached(y, "streaming", prefetch=128)[0] = 1.0

    refused(wrong, "`prefetch` is for reads", at='cached(y, "streaming", prefetch=128)[0]', hint="without it")


def test_a_slice_is_only_read() -> None:
    @kernel(grid=1, block=32)
    def wrong(x: Slice[f32]) -> None:
        cached(x, "streaming")[0] = 1.0

    refused(wrong, "`x` is a Slice, which is only read", at='cached(x, "streaming")[0]', hint="SliceMut[f32]")
