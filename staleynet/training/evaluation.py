"""The validation loss, over windows that are the same in every evaluation, beside what counting tokens achieves on them."""

import numpy as np

from staleynet.data.entropy import bigram_entropy, unigram_entropy
from staleynet.data.prepare import TokenData
from staleynet.data.sampler import WindowShape, validation_windows
from staleynet.model.transformer import Pass
from staleynet.training.log import EvaluationRecord

_MOST_WINDOWS = 256  # a quarter of a million tokens at a context of 1024: the mean is then known to about 0.01


class Evaluation:
    """Evaluates a model on the validation side of `data`."""

    def __init__(self, data: TokenData, shape: WindowShape) -> None:
        self._windows = validation_windows(data.validation, shape, limit=_MOST_WINDOWS)
        layout = data.tokenizer.layout
        self._unigram = unigram_entropy(data.train, self._windows, layout)
        self._bigram = bigram_entropy(data.train, self._windows, layout)

    def __call__(self, buffers: Pass, step: int) -> EvaluationRecord:
        """Run the model forward over all windows in `buffers`, whose length is that of the windows."""
        batch = buffers.shape.sequences
        total = 0.0
        for start in range(0, len(self._windows), batch):
            windows = self._windows[start : start + batch]
            # A batch that is not full is filled up with copies, which do not count.
            padded = np.concatenate([windows, np.repeat(windows[:1], batch - len(windows), axis=0)])
            targets = padded[:, 1:].copy()
            targets[len(windows) :] = -1
            total += buffers.loss(padded[:, :-1], targets) * len(windows)
        return EvaluationRecord(step, total / len(self._windows), self._unigram, self._bigram)
