"""Every kernel, through its operation, against a float64 reference on random data; outputs hold NaN before, so that an element that is not
written shows.

Sizes are awkward on purpose (17 x 33 x 9, 5 x 129 x 31, one more or less than a warp), so that tiles and warps are only partly filled; 0 is
no error. An error must be within 1e-5 of the result, 1e-4 where the kernel adds in another order than the reference; where terms of
opposite signs cancel, of the sum of their absolute values, because the rounding of each term is relative to the term. On every device
present.
"""

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kdsl
import kdsl.testing
from staleynet import ops
from staleynet.kernels import signal as signal_kernels
from tests.staleynet import reference

REORDERED = 1e-4
COUNTS = (0, 1, 31, 33, 1000)
MATRICES = ((17, 33), (5, 129), (1, 1), (31, 31), (33, 32), (0, 3), (300, 7))
PRODUCTS = ((17, 33, 9), (5, 129, 31), (33, 9, 17), (31, 5, 129), (1, 1, 1), (70, 66, 33), (64, 64, 16), (0, 3, 4), (3, 0, 4), (3, 4, 0))

Floats = NDArray[np.float32]


@pytest.fixture(params=kdsl.testing.devices(), ids=str)
def device(request: pytest.FixtureRequest) -> kdsl.Device:
    found: kdsl.Device = request.param
    return found


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def normal(rng: np.random.Generator, *shape: int) -> Floats:
    return rng.standard_normal(shape, dtype=np.float32)


def put(device: kdsl.Device, x: NDArray[Any]) -> kdsl.Array:
    """`x`, flat, on the device; integers as int32."""
    return device.array(np.ascontiguousarray(x, np.float32 if x.dtype.kind == "f" else np.int32).ravel())


def poison(device: kdsl.Device, *shape: int) -> kdsl.Array:
    return put(device, np.full(shape, np.nan, np.float32))


def assert_close(actual: kdsl.Array, expected: NDArray[Any], tolerance: float = 1e-5, magnitude: NDArray[Any] | None = None) -> None:
    found = actual.numpy().reshape(expected.shape).astype(np.float64)
    assert not np.isnan(found).any(), "an element was not written"
    allowed = tolerance * np.maximum(np.abs(expected), 0 if magnitude is None else magnitude) + 1e-30
    worst = np.abs(found - expected) / allowed
    assert (worst <= 1).all(), f"the error is {worst.max():.3g} times what is allowed, at {np.unravel_index(worst.argmax(), worst.shape)}"


# ------------------------------------------------------------------------------------------------------------------------ matrix product


def lay_out(x: Floats, *, transposed: bool, packed: bool) -> tuple[Floats, dict[str, int]]:
    """`x` (sequences, heads, rows, columns) in memory with gaps of NaN that nobody may read, and its strides.

    Packed lies like the heads in a query-key-value array: (sequences, rows, heads, columns).
    """
    order = (0, 2, 1, 3) if packed else (0, 1, 2, 3)
    if transposed:
        order = (0, 3, 1, 2) if packed else (0, 1, 3, 2)
    stored = x.transpose(order)
    memory = np.full((*stored.shape[:3], stored.shape[3] + 3), np.nan, np.float32)
    memory[..., : stored.shape[3]] = stored
    steps = dict(zip(order, (step // 4 for step in memory.strides), strict=True))
    return memory.ravel(), {"sequence": steps[0], "head": steps[1], "row": steps[2], "column": steps[3]}


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("batch", [(1, 1), (2, 3)], ids=["single", "batch"])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("version", ["naive", "tiled", "register_blocked"])
def test_matmul(
    device: kdsl.Device, rng: np.random.Generator, version: ops.Version, a_transposed: bool, b_transposed: bool, batch: tuple[int, int],
    accumulate: bool,
) -> None:  # fmt: skip
    for (m, n, k), packed in product(PRODUCTS, (False, True)):
        a, b, c = normal(rng, *batch, m, k), normal(rng, *batch, k, n), normal(rng, *batch, m, n)
        memory, strides = lay_out(a, transposed=a_transposed, packed=packed)
        left = ops.Operand(put(device, memory), **strides)
        memory, strides = lay_out(b, transposed=b_transposed, packed=packed)
        right = ops.Operand(put(device, memory), **strides)
        memory, strides = lay_out(c if accumulate else np.full_like(c, np.nan), transposed=False, packed=packed)
        out = ops.Operand(put(device, memory), **strides)
        ops.matmul(out, left, right, m=m, n=n, k=k, sequences=batch[0], heads=batch[1], alpha=0.5, accumulate=accumulate, version=version)
        expected = 0.5 * (reference.wide(a) @ reference.wide(b)) + (c if accumulate else 0)
        magnitude = 0.5 * (np.abs(reference.wide(a)) @ np.abs(reference.wide(b))) + (np.abs(c) if accumulate else 0)
        shape = (batch[0], m, batch[1], n + 3) if packed else (*batch, m, n + 3)
        found = out.array.numpy().reshape(shape)
        assert np.isnan(found[..., n:]).all(), "an element outside C was written"
        inside = found[..., :n].transpose(0, 2, 1, 3) if packed else found[..., :n]
        assert_close(put(device, inside), expected, magnitude=magnitude)


def test_matmul_versions_give_the_same_bits(device: kdsl.Device, rng: np.random.Generator) -> None:
    m, n, k = 70, 66, 129
    a, b = put(device, normal(rng, m, k)), put(device, normal(rng, k, n))
    results = []
    for version in ("naive", "tiled", "register_blocked"):
        c = poison(device, m, n)
        ops.matmul(ops.row_major(c, n), ops.row_major(a, k), ops.row_major(b, n), m=m, n=n, k=k, version=version)
        results.append(c.numpy())
    for result in results[1:]:
        np.testing.assert_array_equal(results[0], result)


def test_matmul_writes_a_transposed_c(device: kdsl.Device, rng: np.random.Generator) -> None:
    a, b = normal(rng, 17, 9), normal(rng, 9, 33)
    c = poison(device, 33, 17)
    ops.matmul(ops.transposed(ops.row_major(c, 17)), ops.row_major(put(device, a), 9), ops.row_major(put(device, b), 33), m=17, n=33, k=9)
    assert_close(c, (reference.wide(a) @ b).T, magnitude=(np.abs(reference.wide(a)) @ np.abs(b)).T)


# ------------------------------------------------------------------------------------------------------------------------------ attention


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 33), (1, 2, 129), (2, 0, 5), (1, 1, 0)])
def test_causal_softmax(device: kdsl.Device, rng: np.random.Generator, shape: tuple[int, int, int], in_place: bool) -> None:
    sequences, heads, length = shape
    scores, gradient = normal(rng, sequences, heads, length, length) * 9, normal(rng, sequences, heads, length, length)
    sizes = {"sequences": sequences, "heads": heads, "length": length}
    x = put(device, scores)
    y = x if in_place else poison(device, *scores.shape)
    ops.causal_softmax(y, x, **sizes, scale=0.3)
    if not scores.size:
        return
    probabilities = reference.causal_softmax(reference.wide(scores), 0.3)
    assert_close(y, probabilities)
    above = np.triu(np.ones((length, length), bool), 1)
    gradient[..., above] = np.nan  # what lies above the diagonal must not count
    probabilities = probabilities.astype(np.float32)
    dp = put(device, gradient)
    ds = dp if in_place else poison(device, *scores.shape)
    ops.causal_softmax_backward(ds, put(device, probabilities), dp, **sizes, scale=0.3)
    arguments = reference.wide(probabilities), reference.wide(np.where(above, np.float32(0), gradient)), 0.3
    assert_close(ds, reference.causal_softmax_backward(*arguments), REORDERED, reference.causal_softmax_backward_magnitude(*arguments))


@pytest.mark.parametrize(("queries", "length"), [(1, 40), (7, 33), (0, 3)])
def test_causal_softmax_of_the_last_queries(device: kdsl.Device, rng: np.random.Generator, queries: int, length: int) -> None:
    scores = normal(rng, 2, 2, queries, length)
    x = put(device, scores)
    ops.causal_softmax(x, x, sequences=2, heads=2, length=length, queries=queries, scale=2.0)
    if queries:
        assert_close(x, reference.causal_softmax(reference.wide(scores), 2.0))


# ----------------------------------------------------------------------------------------------------------------------------------- loss


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("shape", MATRICES)
def test_cross_entropy(device: kdsl.Device, rng: np.random.Generator, shape: tuple[int, int], in_place: bool) -> None:
    rows, classes = shape
    logits = normal(rng, rows, classes) * 5 + 300  # exp(300) is infinite in float32
    targets = rng.integers(-1, classes, rows)
    losses, x, t = poison(device, rows), put(device, logits), put(device, targets)
    ops.cross_entropy(losses, x, t, rows=rows, classes=classes)
    d = x if in_place else poison(device, *shape)
    ops.cross_entropy_backward(d, x, t, rows=rows, classes=classes, scale=0.25)
    if not rows:
        return
    wide = reference.wide(logits)
    assert_close(losses, reference.cross_entropy(wide, targets), magnitude=reference.cross_entropy_magnitude(wide, targets))
    magnitude = 0.25 * (reference.softmax(wide) + (np.arange(classes) == targets[:, None]))
    assert_close(d, reference.cross_entropy_backward(wide, targets, 0.25), REORDERED, magnitude)


def test_cross_entropy_reports_a_target_that_is_no_class(device: kdsl.Device) -> None:
    losses = poison(device, 2)
    ops.cross_entropy(losses, put(device, np.zeros((2, 3), np.float32)), put(device, np.array([1, 3])), rows=2, classes=3)
    with pytest.raises(kdsl.BoundsError, match="not a class"):
        device.synchronize()


# ------------------------------------------------------------------------------------------------------------------------------ optimizer


@pytest.mark.parametrize("count", [*COUNTS, 300_000])
def test_sum_of_squares(device: kdsl.Device, rng: np.random.Generator, count: int) -> None:
    x = normal(rng, count)
    found = ops.sum_of_squares(put(device, x))
    np.testing.assert_allclose(found, (reference.wide(x) ** 2).sum(), rtol=1e-5)
    assert found == ops.sum_of_squares(put(device, x))


@pytest.mark.parametrize("count", COUNTS)
def test_adamw(device: kdsl.Device, rng: np.random.Generator, count: int) -> None:
    w, m, g = normal(rng, count), normal(rng, count), normal(rng, count)
    v = normal(rng, count) ** 2
    arrays = [put(device, x) for x in (w, m, v)]
    settings = ops.AdamW(learning_rate=1e-2, beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1, step=3, gradient_scale=0.5)
    ops.adamw(arrays[0], arrays[1], arrays[2], put(device, g), settings)
    wide = [reference.wide(x) for x in (w, m, v, g)]
    weight, mean, square = reference.adamw(wide[0], wide[1], wide[2], wide[3], settings)
    terms = 0.9 * np.abs(wide[1]) + 0.1 * 0.5 * np.abs(wide[3])
    assert_close(arrays[1], mean, magnitude=terms)
    assert_close(arrays[2], square)
    step = 1e-2 * (terms / (1 - 0.9**3) / np.sqrt(square / (1 - 0.95**3)) + 0.1 * np.abs(wide[0]))
    assert_close(arrays[0], weight, magnitude=np.abs(wide[0]) + step)


# ---------------------------------------------------------------------------------------------------------------------------- elementwise


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("count", COUNTS)
def test_elementwise(device: kdsl.Device, rng: np.random.Generator, count: int, in_place: bool) -> None:
    a, b = normal(rng, count), normal(rng, count)

    def output(x: kdsl.Array) -> kdsl.Array:
        return x if in_place else poison(device, count)

    x = put(device, a)
    y = output(x)
    ops.add(y, x, put(device, b))
    assert_close(y, reference.wide(a) + b)
    x = put(device, a)
    y = output(x)
    ops.scale(y, x, 1.7)
    assert_close(y, 1.7 * reference.wide(a))
    x = put(device, a)
    ops.accumulate(x, put(device, b))
    assert_close(x, reference.wide(a) + b)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("count", COUNTS)
def test_gelu(device: kdsl.Device, rng: np.random.Generator, count: int, in_place: bool) -> None:
    a, slope = normal(rng, count) * 3, normal(rng, count)
    a[:3] = (-40.0, 0.0, 40.0)[:count]  # exp overflows at one end and vanishes at the other
    x = put(device, a)
    y = x if in_place else poison(device, count)
    ops.gelu(y, x)
    wide = reference.wide(a)
    # The reference's own 1 + tanh cancels for negative x: its error is relative to x.
    assert_close(y, reference.gelu(wide), magnitude=1e-6 * np.abs(wide))
    x, dy = put(device, a), put(device, slope)
    dx = dy if in_place else poison(device, count)
    ops.gelu_backward(dx, x, dy)
    assert_close(dx, reference.gelu_slope(wide) * slope, magnitude=np.abs(slope))


@pytest.mark.parametrize("shape", MATRICES)
def test_add_bias(device: kdsl.Device, rng: np.random.Generator, shape: tuple[int, int]) -> None:
    x, bias = normal(rng, *shape), normal(rng, shape[1])
    y = poison(device, *shape)
    ops.add_bias(y, put(device, x), put(device, bias), rows=shape[0], columns=shape[1])
    assert_close(y, reference.wide(x) + bias)


@pytest.mark.parametrize(("heads", "head_width"), [(3, 10), (1, 66), (2, 0)])
def test_rotary(device: kdsl.Device, rng: np.random.Generator, heads: int, head_width: int) -> None:
    rows, length, width = 21, 7, heads * head_width + 5  # the last five columns stay
    x, angles = normal(rng, rows, width), normal(rng, length, head_width // 2) * 3
    cosines, sines = (put(device, f(angles)) for f in (np.cos, np.sin))
    sizes = {"rows": rows, "length": length, "width": width, "heads": heads, "head_width": head_width}
    y = put(device, x)
    ops.rotary(y, cosines, sines, **sizes)
    expected = reference.rotary(reference.wide(x), reference.wide(np.tile(angles, (3, 1))), heads, head_width)
    assert_close(y, expected, magnitude=np.full(expected.shape, np.abs(x).max()))
    ops.rotary(y, cosines, sines, **sizes, backward=True)
    assert_close(y, reference.wide(x), magnitude=np.full(expected.shape, np.abs(x).max()))


# -------------------------------------------------------------------------------------------------------------------------- normalization


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("shape", MATRICES)
def test_rms_norm(device: kdsl.Device, rng: np.random.Generator, shape: tuple[int, int], accumulate: bool) -> None:
    rows, columns = shape
    x, dy, weight, old = normal(rng, *shape), normal(rng, *shape), normal(rng, columns), normal(rng, *shape)
    y, factor = poison(device, *shape), poison(device, rows)
    ops.rms_norm(y, factor, put(device, x), put(device, weight), rows=rows, columns=columns, epsilon=1e-5)
    wide = reference.wide(x)
    expected_factor = reference.inverse_rms(wide, 1e-5)
    assert_close(factor, expected_factor, REORDERED)
    assert_close(y, wide * expected_factor[:, None] * weight, REORDERED)

    dx = put(device, old) if accumulate else poison(device, *shape)
    ops.rms_norm_backward(
        dx, put(device, dy), put(device, x), put(device, weight), factor, rows=rows, columns=columns, accumulate=accumulate
    )
    arguments = reference.wide(dy), wide, reference.wide(weight), expected_factor
    base = reference.wide(old) if accumulate else np.zeros(shape)
    magnitude = np.abs(base) + reference.rms_norm_backward_magnitude(*arguments)
    assert_close(dx, base + reference.rms_norm_backward(*arguments), REORDERED, magnitude)

    d_weight = put(device, old.ravel()[:columns]) if accumulate and rows else poison(device, columns)
    add = accumulate and rows > 0
    ops.rms_norm_weight_gradient(d_weight, put(device, dy), put(device, x), factor, rows=rows, columns=columns, accumulate=add)
    terms = reference.wide(dy) * wide * expected_factor[:, None]
    start = reference.wide(old.ravel()[:columns]) if add else np.zeros(columns)
    assert_close(d_weight, start + terms.sum(axis=0), REORDERED, np.abs(start) + np.abs(terms).sum(axis=0))


# ------------------------------------------------------------------------------------------------------------------------------ embedding


@pytest.mark.parametrize("with_positions", [False, True])
@pytest.mark.parametrize(("sequences", "length", "width"), [(3, 17, 9), (1, 31, 33), (2, 1, 1), (0, 4, 3)])
def test_embedding(device: kdsl.Device, rng: np.random.Generator, sequences: int, length: int, width: int, with_positions: bool) -> None:
    vocabulary = 19
    tokens = rng.integers(0, vocabulary - 2, (sequences, length))  # the last two never occur
    table, positions = normal(rng, vocabulary, width), normal(rng, length + 2, width)
    sizes = {"sequences": sequences, "length": length, "width": width}
    y = poison(device, sequences, length, width)
    where = put(device, positions) if with_positions else None
    ops.embed(y, put(device, tokens), put(device, table), where, **sizes, vocabulary=vocabulary)
    assert_close(y, reference.wide(table)[tokens] + (reference.wide(positions)[:length] if with_positions else 0))

    dy, old = normal(rng, sequences, length, width), normal(rng, vocabulary, width)
    index = ops.token_index(tokens, vocabulary, device)
    rows = reference.wide(dy).reshape(-1, width)
    total = reference.sum_by_token(rows, tokens.ravel(), vocabulary)
    size = reference.sum_by_token(np.abs(rows), tokens.ravel(), vocabulary) + np.abs(old)
    d_table = put(device, old)
    ops.embedding_gradient(d_table, put(device, dy), index, vocabulary=vocabulary, width=width)
    assert_close(d_table, old + total, magnitude=size)
    d_table = poison(device, vocabulary, width)
    ops.embedding_gradient(d_table, put(device, dy), index, vocabulary=vocabulary, width=width, accumulate=False)
    assert_close(d_table, total, magnitude=size)

    total, size = reference.wide(dy).sum(axis=0), np.abs(reference.wide(dy)).sum(axis=0) + np.abs(positions[:length])
    d_positions = put(device, positions)
    ops.position_gradient(d_positions, put(device, dy), **sizes)
    np.testing.assert_array_equal(d_positions.numpy().reshape(-1, width)[length:], positions[length:])
    assert_close(d_positions[: length * width], positions[:length] + total, magnitude=size)
    d_positions = poison(device, length, width)
    ops.position_gradient(d_positions, put(device, dy), **sizes, accumulate=False)
    assert_close(d_positions, total, magnitude=size)


@pytest.mark.parametrize("vocabulary", [1, 300, 70_000])
def test_token_index_lists_every_place(device: kdsl.Device, rng: np.random.Generator, vocabulary: int) -> None:
    tokens = rng.integers(0, vocabulary, (7, 50))
    index = ops.token_index(tokens, vocabulary, device)
    first, place = index.first.numpy(), index.place.numpy()
    assert first[0] == 0
    assert first[-1] == tokens.size
    np.testing.assert_array_equal(place, np.concatenate([np.flatnonzero(tokens.ravel() == t) for t in np.unique(tokens)]))
    np.testing.assert_array_equal(np.diff(first), np.bincount(tokens.ravel(), minlength=vocabulary))


# --------------------------------------------------------------------------------------------------------------------------------- signal


@pytest.mark.parametrize(("count", "size", "hop"), [(5, 31, 9), (1, 33, 33), (3, 16, 20), (0, 8, 2), (17, 64, 16), (1, 1, 1)])
def test_framing(device: kdsl.Device, rng: np.random.Generator, count: int, size: int, hop: int) -> None:
    length = (count - 1) * hop + size if count else 0
    signal = normal(rng, length)
    window = (0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(size) + 0.5) / size)).astype(np.float32)
    if size > 1:
        window[0] = 0  # a sample that no window covers
    sizes = {"count": count, "size": size, "hop": hop}
    frames = poison(device, count, size)
    ops.frame(frames, put(device, np.append(signal, np.float32(np.nan))), put(device, window), **sizes)
    assert_close(frames, reference.frames(reference.wide(signal), reference.wide(window), count, hop))

    rows = normal(rng, count, size)
    y = poison(device, length)
    ops.overlap_add(y, put(device, rows), put(device, window), **sizes)
    arguments = reference.wide(window), hop, signal_kernels.LEAST_WEIGHT
    magnitude = reference.overlap_add(np.abs(reference.wide(rows)), *arguments)
    assert_close(y, reference.overlap_add(reference.wide(rows), *arguments), REORDERED, magnitude)


@pytest.mark.parametrize("shape", MATRICES)
def test_spectra(device: kdsl.Device, rng: np.random.Generator, shape: tuple[int, int]) -> None:
    frames, bins = shape
    rebuilt, previous = normal(rng, frames, 2 * bins), normal(rng, frames, 2 * bins)
    magnitude = np.abs(normal(rng, frames, bins))
    if frames:
        rebuilt[0, [0, bins]] = previous[0, [0, bins]] = 0  # a vanishing number has phase 0
    power = poison(device, *shape)
    ops.power_spectrum(power, put(device, rebuilt), frames=frames, bins=bins)
    now, before = (reference.wide(x[:, :bins]) + 1j * reference.wide(x[:, bins:]) for x in (rebuilt, previous))
    assert_close(power, np.abs(now) ** 2)

    spectrum = poison(device, frames, 2 * bins)
    ops.phase_step(spectrum, put(device, rebuilt), put(device, previous), put(device, magnitude), frames=frames, bins=bins, momentum=0.99)
    expected = reference.phase_step(now, before, reference.wide(magnitude), 0.99)
    # Both terms of the direction round; the less of it remains, the more that turns it.
    turn = magnitude * (np.abs(now) * 1.99 + np.abs(before) * 0.99) / np.maximum(np.abs(1.99 * now - 0.99 * before), 1e-30)
    assert_close(spectrum, np.hstack([expected.real, expected.imag]), magnitude=np.hstack([turn, turn]))


@pytest.mark.parametrize("count", COUNTS)
def test_log_compress(device: kdsl.Device, rng: np.random.Generator, count: int) -> None:
    x = np.abs(normal(rng, count)) ** 9
    x[:1] = 0
    y = poison(device, count)
    ops.log_compress(y, put(device, x), floor=1e-5)
    assert_close(y, np.log(np.maximum(reference.wide(x), float(np.float32(1e-5)))))


@pytest.mark.parametrize("shape", [*MATRICES, (9, 1000)])
def test_nearest_codeword(device: kdsl.Device, rng: np.random.Generator, shape: tuple[int, int]) -> None:
    rows, codewords = shape
    distances = rng.integers(-4, 5, shape).astype(np.float32)  # few values: many ties
    distances[:1] = np.inf
    index = put(device, np.full(rows, -7))
    ops.nearest_codeword(index, put(device, distances), rows=rows, codewords=codewords)
    if rows:
        np.testing.assert_array_equal(index.numpy(), distances.argmin(axis=1))


@pytest.mark.parametrize("shape", MATRICES)
def test_codewords(device: kdsl.Device, rng: np.random.Generator, shape: tuple[int, int]) -> None:
    rows, columns = shape
    codewords = 11
    vectors, codebook = normal(rng, *shape), normal(rng, codewords, columns)
    assignment = rng.integers(0, codewords - 1, rows)  # the last has no members
    book = put(device, codebook)
    ops.codeword_update(book, put(device, vectors), ops.token_index(assignment, codewords, device), codewords=codewords, columns=columns)
    expected = reference.codeword_update(reference.wide(codebook), reference.wide(vectors), assignment)
    magnitude = reference.codeword_update(np.abs(reference.wide(codebook)), np.abs(reference.wide(vectors)), assignment)
    assert_close(book, expected, magnitude=magnitude)

    expected = reference.wide(vectors) - reference.wide(codebook)[assignment]
    residual = put(device, vectors)
    ops.subtract_codeword(residual, put(device, codebook), put(device, assignment), rows=rows, columns=columns)
    assert_close(residual, expected)
