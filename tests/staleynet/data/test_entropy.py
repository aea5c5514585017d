"""The baselines that a model is measured against, on sources whose entropy is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staleynet.data.entropy import bigram_entropy, unigram_entropy
from staleynet.tokenizer.stream import Layout

LAYOUT = Layout(levels=2, codewords=4)


def chain(frames: int, seed: int, follow: float = 0.9) -> np.ndarray:
    """Level 0: codes with probabilities 1/2, 1/4, 1/8, 1/8. Level 1: the same code with probability `follow`, else another one."""
    random = np.random.default_rng(seed)
    first = random.choice(4, frames, p=[0.5, 0.25, 0.125, 0.125])
    second = np.where(random.random(frames) < follow, first, (first + random.integers(1, 4, frames)) % 4)
    return LAYOUT.to_stream(np.stack([first, second], axis=1).astype(np.int32))


FIRST = 1.75 * np.log(2)  # entropy of level 0
SECOND = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1 / 3))  # of level 1, given level 0


def test_a_known_source() -> None:
    training, validation = [chain(20000, 0), chain(20000, 1)], [chain(20000, 2)]
    bigram = bigram_entropy(training, validation, LAYOUT)
    assert bigram == pytest.approx((FIRST + SECOND) / 2, abs=0.01)
    marginal = 0.9 * np.array([0.5, 0.25, 0.125, 0.125]) + 0.1 / 3 * (1 - np.array([0.5, 0.25, 0.125, 0.125]))
    unigram = unigram_entropy(training, validation, LAYOUT)
    assert unigram == pytest.approx((FIRST - (marginal * np.log(marginal)).sum()) / 2, abs=0.01)


def test_the_level_is_known_to_both() -> None:
    uniform = np.random.default_rng(0).integers(0, 4, (5000, 2), dtype=np.int32)
    stream = [LAYOUT.to_stream(uniform)]
    for entropy in (unigram_entropy, bigram_entropy):
        assert entropy(stream, stream, LAYOUT) == pytest.approx(np.log(4), abs=0.01)


def test_a_useless_context_costs_little() -> None:
    """With many codes and few tokens the counts of pairs are noise; the strength of the prior must find that out."""
    layout = Layout(2, 128)
    random = np.random.default_rng(1)
    weights = random.dirichlet(np.full(128, 0.5))
    training, validation = ([layout.to_stream(random.choice(128, (3000, 2), p=weights).astype(np.int32))] for _ in range(2))
    unigram, bigram = (entropy(training, validation, layout) for entropy in (unigram_entropy, bigram_entropy))
    assert bigram == pytest.approx(unigram, rel=0.01)


def test_tokens_that_training_never_had() -> None:
    training = [LAYOUT.to_stream(np.zeros((100, 2), np.int32))]
    validation = [LAYOUT.to_stream(np.full((10, 2), 3, np.int32))]
    for entropy in (unigram_entropy, bigram_entropy):
        value = entropy(training, validation, LAYOUT)
        assert np.isfinite(value)
        assert value > 3


def test_only_targets_of_windows_count() -> None:
    """Windows that overlap by one token, cut from one stream, count what the stream counts."""
    training, stream = [chain(500, 0)], chain(101, 1)[:201]
    windows = np.stack([stream[start : start + 21] for start in range(0, 200, 20)])
    for entropy in (unigram_entropy, bigram_entropy):
        assert entropy(training, windows, LAYOUT) == pytest.approx(entropy(training, [stream], LAYOUT), rel=1e-12)


def test_a_pair_across_recordings_does_not_count() -> None:
    one, two = chain(50, 0), chain(50, 1)
    together = bigram_entropy([one, two], [one, two], LAYOUT)
    assert together != bigram_entropy([np.concatenate([one, two])], [one, two], LAYOUT)


@settings(max_examples=30, deadline=None)
@given(levels=st.integers(1, 3), codewords=st.integers(1, 6), train=st.integers(0, 60), test=st.integers(2, 40), seed=st.integers(0, 99))
def test_finite_and_not_negative(levels: int, codewords: int, train: int, test: int, seed: int) -> None:
    layout = Layout(levels, codewords)
    random = np.random.default_rng(seed)
    training, validation = ([layout.to_stream(random.integers(0, codewords, (n, levels), dtype=np.int32))] for n in (train, test))
    for entropy in (unigram_entropy, bigram_entropy):
        value = entropy(training, validation, layout)
        assert np.isfinite(value)
        assert value >= -1e-12


def test_nothing_to_count() -> None:
    for entropy in (unigram_entropy, bigram_entropy):
        with pytest.raises(ValueError, match="no token with a token before it"):
            entropy([chain(5, 0)], [np.zeros(1, np.int32)], LAYOUT)


def test_tokens_outside_the_layout() -> None:
    with pytest.raises(ValueError, match="between 0 and 7"):
        unigram_entropy([np.array([0, 8], np.int32)], [chain(5, 0)], LAYOUT)
