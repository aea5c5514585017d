"""Generating: the incremental pass against the whole one, and what sampling may draw."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kdsl
from staleynet.model.configuration import Configuration
from staleynet.model.decoding import Sampling, choose, generate
from staleynet.model.incremental import Incremental
from staleynet.model.parameters import initial_values
from staleynet.model.transformer import Pass, Transformer


@pytest.fixture
def long_model(micro: Configuration, device: kdsl.Device) -> Transformer:
    """A context of more than one chunk of the incremental pass."""
    c = replace(micro, context=80)
    return Transformer(c, device, initial_values(c, np.random.default_rng(0)))


def stream(c: Configuration, length: int) -> np.ndarray:
    place = np.arange(length)
    codewords = np.random.default_rng(3).integers(0, c.codewords, length)
    return (codewords + c.codewords * (place % c.levels)).astype(np.int32)


def test_incremental_equals_whole(long_model: Transformer) -> None:
    c = long_model.configuration
    tokens = stream(c, c.context)
    whole = Pass(long_model, 1, c.context)
    whole.forward(tokens[None])
    expected = whole.logits.numpy().reshape(c.context, c.vocabulary)
    sequence = Incremental(long_model)
    for attempt in range(2):  # the second time over what the first one left behind
        sequence.clear()
        sequence.extend(tokens[:70])
        np.testing.assert_allclose(sequence.logits(0, c.vocabulary), expected[69], rtol=1e-4, atol=1e-5, err_msg=str(attempt))
        for place in range(70, c.context):
            sequence.extend(tokens[place : place + 1])
            np.testing.assert_allclose(sequence.logits(0, c.vocabulary), expected[place], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="can grow by 1 to 0"):
        sequence.extend(tokens[:1])


@pytest.mark.parametrize(("prompt", "context"), [(1, 16), (5, 16), (40, 16), (41, 4)])
def test_every_stream_decodes(prompt: int, context: int, micro: Configuration, device: kdsl.Device) -> None:
    """Also when the context is full several times, and for a prompt longer than the context."""
    c = replace(micro, context=context)
    model = Transformer(c, device, initial_values(c, np.random.default_rng(0)))
    given_tokens = stream(c, prompt)
    seen: list[int] = []
    tokens = generate(model, given_tokens, prompt + 41, Sampling(), np.random.default_rng(0), progress=seen.append)
    np.testing.assert_array_equal(tokens // c.codewords, np.arange(prompt + 41) % c.levels)
    np.testing.assert_array_equal(tokens[:prompt], given_tokens)
    assert seen == list(range(prompt + 1, prompt + 42))
    again = generate(model, given_tokens, prompt + 41, Sampling(), np.random.default_rng(0))
    np.testing.assert_array_equal(tokens, again)
    other = generate(model, given_tokens, prompt + 41, Sampling(), np.random.default_rng(1))
    assert not np.array_equal(tokens, other)


def test_generate_refuses(model: Transformer) -> None:
    c = model.configuration
    with pytest.raises(ValueError, match="at least one token"):
        generate(model, np.zeros(0, np.int32), 4, Sampling(), np.random.default_rng(0))
    with pytest.raises(ValueError, match="levels 0 to 1 in turn"):
        generate(model, np.full(2, c.codewords, np.int32), 4, Sampling(), np.random.default_rng(0))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=12),
    st.floats(0, 3),
    st.none() | st.integers(1, 15),
    st.none() | st.floats(0.01, 1),
    st.integers(0, 2**32),
)
def test_candidates(logits: list[float], temperature: float, top_k: int | None, top_p: float | None, seed: int) -> None:
    """What is drawn is among the likeliest k, and the likelier ones do not reach p."""
    values = np.array(logits, np.float32)
    drawn = choose(values, Sampling(temperature, top_k, top_p), np.random.default_rng(seed))
    likelier = values > values[drawn]
    assert likelier.sum() < (top_k or len(values))
    if temperature == 0:
        assert drawn == int(np.argmax(values))
    elif top_p is not None and top_k is None:
        p = np.exp((values.astype(np.float64) - values.max()) / temperature)
        assert p[likelier].sum() <= top_p * p.sum() * (1 + 1e-9)


def test_frequencies_follow_the_softmax() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    rng = np.random.default_rng(0)
    counts = np.bincount([choose(logits, Sampling(), rng) for _ in range(20000)], minlength=4)
    np.testing.assert_allclose(counts / counts.sum(), [0.5, 0.3, 0.15, 0.05], atol=0.015)


def test_diverged_logits_are_an_error() -> None:
    with pytest.raises(FloatingPointError, match="diverged"):
        choose(np.array([0, np.nan], np.float32), Sampling(), np.random.default_rng(0))


@pytest.mark.parametrize("bad", [{"temperature": -1.0}, {"temperature": float("nan")}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}])
def test_sampling_refuses(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad)).replace("_", "-")):
        Sampling(**bad)  # type: ignore[arg-type]
