"""k-means finds clusters that are there, and does what Lloyd's algorithm does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kdsl
from staleynet.ops import Operand, row_major
from staleynet.tokenizer.errors import TokenizerError
from staleynet.tokenizer.kmeans import Assignment, Codebook, train_codebook


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def error(vectors: np.ndarray, words: np.ndarray) -> float:
    return float(((vectors[:, None].astype(np.float64) - words[None]) ** 2).sum(axis=2).min(axis=1).mean())


def test_separate_clusters_are_found(device: kdsl.Device) -> None:
    centres = np.array([[0, 0], [10, 0], [0, 10], [10, 10], [5, 20]], np.float32)
    member = np.arange(200) % 5
    vectors = (centres[member] + generator(1).normal(scale=0.3, size=(200, 2))).astype(np.float32)
    codebook, chosen = train_codebook(vectors, 5, iterations=10, generator=generator(), device=device)
    for cluster in range(5):
        assert len(set(chosen[member == cluster])) == 1
    means = np.array([vectors[chosen == word].mean(axis=0) for word in range(5)])
    np.testing.assert_allclose(codebook.numpy(), means, rtol=1e-4, atol=1e-4)


def test_iterations_reduce_the_error(device: kdsl.Device) -> None:
    vectors = generator(2).normal(size=(500, 6)).astype(np.float32)
    errors = [
        error(vectors, train_codebook(vectors, 16, iterations=n, generator=generator(), device=device)[0].numpy()) for n in (0, 1, 3, 12)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.85 * errors[0]


def test_what_is_chosen_is_nearest(device: kdsl.Device) -> None:
    vectors = generator(3).normal(size=(300, 5)).astype(np.float32)
    codebook, chosen = train_codebook(vectors, 20, iterations=4, generator=generator(), device=device)
    distances = ((vectors[:, None].astype(np.float64) - codebook.numpy()[None]) ** 2).sum(axis=2)
    picked = distances[np.arange(300), chosen]
    np.testing.assert_allclose(picked, distances.min(axis=1), atol=1e-4)


@pytest.mark.parametrize("chunk", [1, 7, 100, 1000])
def test_chunks_and_columns(device: kdsl.Device, chunk: int) -> None:
    vectors = generator(4).normal(size=(100, 9)).astype(np.float32)
    words = generator(5).normal(size=(11, 4)).astype(np.float32)
    index = device.empty(100, kdsl.i32)
    part = Operand(device.array(vectors.ravel())[3:], 9, 1)  # columns 3 to 6 of 9
    Assignment(device, 11, chunk=chunk)(index, part, Codebook.on(device, words), 100)
    expected = ((vectors[:, None, 3:7].astype(np.float64) - words) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(index.numpy(), expected)


def test_equal_distances_take_the_lower_codeword(device: kdsl.Device) -> None:
    words = np.array([[1, 0], [-1, 0], [1, 0]], np.float32)
    index = device.empty(2, kdsl.i32)
    vectors = device.array(np.array([0, 5, 2, 0], np.float32))
    Assignment(device, 3)(index, row_major(vectors, 2), Codebook.on(device, words), 2)
    assert index.numpy().tolist() == [0, 0]


def test_the_seed_decides(device: kdsl.Device) -> None:
    vectors = generator(6).normal(size=(200, 3)).astype(np.float32)
    books = [train_codebook(vectors, 8, iterations=3, generator=generator(seed), device=device)[0].numpy() for seed in (1, 1, 2)]
    assert books[0].tobytes() == books[1].tobytes()
    assert books[0].tobytes() != books[2].tobytes()


def test_a_codeword_without_members_moves(device: kdsl.Device) -> None:
    # k-means++ on few different rows gives codewords twice; afterwards every row that differs must have its own
    rows = np.array([[0.0], [1.0], [2.0], [3.0]], np.float32)
    vectors = np.repeat(rows, [50, 1, 1, 1], axis=0)
    codebook, chosen = train_codebook(vectors, 4, iterations=5, generator=generator(), device=device)
    assert sorted(codebook.numpy().ravel()) == [0, 1, 2, 3]
    assert len(set(chosen)) == 4


def test_fewer_different_rows_than_codewords(device: kdsl.Device) -> None:
    vectors = np.zeros((20, 3), np.float32)
    vectors[10:] = 1
    codebook, chosen = train_codebook(vectors, 5, iterations=5, generator=generator(), device=device)
    np.testing.assert_array_equal(codebook.numpy()[chosen], vectors)


def test_too_few_rows(device: kdsl.Device) -> None:
    with pytest.raises(TokenizerError, match="3 frames cannot train 4 codewords"):
        train_codebook(np.zeros((3, 2), np.float32), 4, iterations=1, generator=generator(), device=device)


@settings(max_examples=15, deadline=None)
@given(rows=st.integers(1, 40), columns=st.integers(1, 5), share=st.floats(0, 1), levels=st.integers(1, 4), seed=st.integers(0, 1000))
def test_any_size_gives_codewords_that_are_finite(
    device: kdsl.Device, rows: int, columns: int, share: float, levels: int, seed: int
) -> None:
    codewords = max(1, round(share * rows))
    vectors = generator(seed).integers(0, levels, size=(rows, columns)).astype(np.float32)  # many equal rows
    codebook, chosen = train_codebook(vectors, codewords, iterations=3, generator=generator(seed), device=device)
    assert np.isfinite(codebook.numpy()).all()
    assert chosen.min() >= 0
    assert chosen.max() < codewords
