"""How well tokens can be guessed from simple counts: what a model must beat to have learnt something.

Both figures are cross-entropies in nats per token: fitted on training tokens, measured on validation tokens. Both know a token's level (its position
says it), so knowing that is not enough to beat them. The unigram knows how often each code of the level occurs; the bigram knows the token before as well.

The unigram's counts get half an observation of each code (Krichevsky and Trofimov 1981), the bigram's a Dirichlet prior around the unigram q (MacKay
and Peto 1995): p(w | h) = (n(h, w) + s q(w)) / (n(h) + s). The strength s is chosen for each level on the last tenth of the training tokens, with
counts from the rest, so that the bigram is no weaker than the data lets it be: where the token before tells nothing, s becomes large and leaves the
unigram. The validation tokens choose nothing.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from staleynet.tokenizer.stream import Layout

Streams = Sequence[NDArray[np.int32]] | NDArray[np.int32]

_STRENGTHS = 2.0 ** np.arange(-3, 21)  # from almost the bare counts to almost the prior, whatever the number of tokens


def unigram_entropy(training: Streams, validation: Streams, layout: Layout) -> float:
    """Nats per token of the validation streams under the unigram of their level. See `bigram_entropy` for what is counted."""
    _, targets = _pairs(validation)
    return float(-np.log(_unigram(training, layout)[targets]).mean())


def bigram_entropy(training: Streams, validation: Streams, layout: Layout) -> float:
    """Nats per token of the validation streams under the smoothed bigram.

    A stream's first token is only context, for both figures, so that for the windows of `validation_windows` they count exactly the tokens that a model's
    validation loss counts. Raises `ValueError` if no token is left to be counted, or a token is not one of the layout.
    """
    fit, held_out = _last_tenth(training, layout)
    strength = np.full(layout.levels, _STRENGTHS[-1])
    contexts, followers = _pairs(held_out, empty=True)
    if len(followers):
        counts, unigram = _counts(fit, layout), _unigram(fit, layout)
        level = followers // layout.codewords
        losses = [-np.log(_smoothed(counts, unigram, contexts, followers, np.full(len(followers), s))) for s in _STRENGTHS]
        by_level = np.array([np.bincount(level, weights=loss, minlength=layout.levels) for loss in losses])
        strength = _STRENGTHS[by_level.argmin(axis=0)]
    contexts, targets = _pairs(validation)
    of_target = strength[targets // layout.codewords]
    probability = _smoothed(_counts(training, layout), _unigram(training, layout), contexts, targets, of_target)
    return float(-np.log(probability).mean())


def _smoothed(
    counts: NDArray[np.int64],
    unigram: NDArray[np.float64],
    contexts: NDArray[np.int32],
    targets: NDArray[np.int32],
    strength: NDArray[np.float64],
) -> NDArray[np.float64]:
    """p(target | context) for each pair."""
    probability: NDArray[np.float64] = (counts[contexts, targets] + strength * unigram[targets]) / (counts.sum(axis=1)[contexts] + strength)
    return probability


def _counts(streams: Streams, layout: Layout) -> NDArray[np.int64]:
    """How often each token follows each, shape (vocabulary, vocabulary)."""
    contexts, followers = _pairs(streams, empty=True)
    size = layout.vocabulary
    return np.bincount(contexts.astype(np.int64) * size + followers, minlength=size * size).reshape(size, size)


def _unigram(training: Streams, layout: Layout) -> NDArray[np.float64]:
    """The probability of each token given its level, shape (vocabulary,)."""
    counts = np.zeros(layout.vocabulary, dtype=np.int64)
    for stream in training:
        if len(stream) and not (stream.min() >= 0 and stream.max() < layout.vocabulary):
            raise ValueError(f"tokens must be between 0 and {layout.vocabulary - 1}, not between {stream.min()} and {stream.max()}")
        counts += np.bincount(stream, minlength=layout.vocabulary)
    by_level = counts.reshape(layout.levels, layout.codewords) + 0.5
    probability: NDArray[np.float64] = by_level / by_level.sum(axis=1, keepdims=True)
    return probability.ravel()


def _last_tenth(streams: Streams, layout: Layout) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int32]]]:
    """Each stream without its last tenth, and the last tenths; both begin with the first level of a frame."""
    cuts = [len(stream) * 9 // 10 // layout.levels * layout.levels for stream in streams]
    pairs = list(zip(streams, cuts, strict=True))
    return [stream[:cut] for stream, cut in pairs], [stream[cut:] for stream, cut in pairs]


def _pairs(streams: Streams, *, empty: bool = False) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """All tokens but the last of each stream, and the tokens after them. `empty` says that there need not be any."""
    long = [stream for stream in streams if len(stream) > 1]
    if not long:
        if empty:
            return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32)
        raise ValueError("there is no token with a token before it")
    return np.concatenate([stream[:-1] for stream in long]), np.concatenate([stream[1:] for stream in long])
