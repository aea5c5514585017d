"""Code that grows without bound is refused before LLVM sees it."""

from refusal import refused

from kdsl import SliceMut, f32, kernel, unroll


def test_one_loop() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        for i in unroll(100_000):
            y[i] = 0.0

    refused(wrong, "100000", at="unroll(100_000)", hint="range()")


def test_nested_loops() -> None:
    @kernel(grid=1)
    def wrong(y: SliceMut[f32]) -> None:
        for i in unroll(1000):
            for j in unroll(1000):
                y[i] = y[j]

    refused(wrong, "operations", at="y[j]", hint="range()")
