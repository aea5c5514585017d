"""`kdsl.fast` with numbers of other types than it is there for."""

from refusal import refused

from kdsl import DisjointSlice, Slice, bf16, f16, f32, f32x2, f64, f64x2, fast, i32, kernel, thread_index


def test_f64() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: DisjointSlice[f64], x: Slice[f64]) -> None:
        i = thread_index()
        y[i] = fast.exp(x[i])

    refused(
        wrong, "fast.exp() is there for f32, not for f64", at="fast.exp(x[i])", hint="use what is accurate, or write fast.exp(f32(x[i]))"
    )


def test_f64_for_a_function_of_more_types() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: DisjointSlice[f64], x: Slice[f64]) -> None:
        i = thread_index()
        y[i] = fast.tanh(x[i])

    refused(wrong, "fast.tanh() is there for f32, f16, bf16, not for f64", at="fast.tanh(x[i])", hint="use what is accurate")


def test_one_f64_of_two() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: DisjointSlice[f64], x: Slice[f32], z: Slice[f64]) -> None:
        i = thread_index()
        y[i] = fast.divide(x[i], z[i])

    refused(wrong, "fast.divide()", "f64", at="fast.divide(x[i], z[i])", hint="write fast.divide(f32(x[i]), f32(z[i]))")


def test_sixteen_bits() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: DisjointSlice[f16], x: Slice[f16]) -> None:
        i = thread_index()
        y[i] = fast.sin(x[i])

    refused(wrong, "fast.sin() is there for f32, not for f16", at="fast.sin(x[i])", hint="write fast.sin(f32(x[i]))")

    @kernel(grid=1, block=32)
    def two(y: DisjointSlice[bf16], x: Slice[bf16]) -> None:
        i = thread_index()
        y[i] = fast.pow(x[i], y=x[i])

    refused(two, "fast.pow()", "bf16", at="fast.pow(x[i], y=x[i])", hint="write fast.pow(f32(x[i]), f32(x[i]))")


def test_integers() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: DisjointSlice[f32], n: Slice[i32]) -> None:
        i = thread_index()
        y[i] = fast.log2(n[i])

    refused(wrong, "fast.log2() takes floats, not an i32", at="n[i]", hint="write fast.log2(f32(n[i]))")


def test_vectors() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: DisjointSlice[f64x2], x: Slice[f64x2]) -> None:
        i = thread_index()
        y[i] = fast.exp(x[i])

    refused(wrong, "fast.exp() does not take an f64x2", at="x[i]", hint="write fast.exp(f32x2(x[i]))")


def test_number_of_arguments() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: DisjointSlice[f32], x: Slice[f32x2]) -> None:
        i = thread_index()
        y[i] = fast.exp(x[i][0], x[i][1])

    refused(wrong, "fast.exp()", at="fast.exp(x[i][0], x[i][1])", hint="fast.exp(x: f32) -> f32")


def test_names_that_it_lacks() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: DisjointSlice[f32], x: Slice[f32]) -> None:
        i = thread_index()
        y[i] = fast.tan(x[i])  # type: ignore[attr-defined]

    refused(wrong, "`fast`", "`tan`", at="fast.tan", hint="documentation")
