"""`log.jsonl`: one JSON object per training step and per evaluation.

A step has `step`, `loss`, `learning_rate`, `gradient_norm` and `tokens_per_second`; an evaluation `step`, `validation_loss`,
`unigram_entropy` and `bigram_entropy`. Losses and entropies are in nats per token. Numbers are written so that reading gives the same float64: equal runs have
equal lines, but for `tokens_per_second`.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from staleynet.files import atomic


@dataclass(frozen=True)
class StepRecord:
    """One training step."""

    step: int
    """Number of the step, from 1."""
    loss: float
    """Mean cross-entropy of the batch before the step."""
    learning_rate: float
    """Step size that was used."""
    gradient_norm: float
    """Euclidean norm of the gradient before clipping."""
    tokens_per_second: float
    """Tokens of the batch over the time of the step."""


@dataclass(frozen=True)
class EvaluationRecord:
    """One evaluation on the validation tokens."""

    step: int
    """Training steps taken so far."""
    validation_loss: float
    """Mean cross-entropy of the model."""
    unigram_entropy: float
    """Cross-entropy of the frequencies of single tokens, fitted on the training tokens for each level."""
    bigram_entropy: float
    """Cross-entropy of smoothed frequencies of pairs, fitted in the same way."""


class RunLog:
    """Appends records to a file; a reader sees whole lines. Use it as a context manager."""

    def __init__(self, path: Path, *, keep_until: int) -> None:
        """Keep the lines of steps up to `keep_until` that `path` already has, drop the rest. `OSError` passes through."""
        self.path = path
        kept = [line for line in _lines(path) if line[0] <= keep_until]
        with atomic(path) as temporary:
            temporary.write_text("".join(text + "\n" for _, text in kept), encoding="utf-8")
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def write(self, record: StepRecord | EvaluationRecord) -> None:
        """Append one line."""
        self._file.write(json.dumps(asdict(record)) + "\n")

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def read(path: Path) -> tuple[list[StepRecord], list[EvaluationRecord]]:
    """All records of a log. Whatever is not a whole line of a log is passed over."""
    steps, evaluations = [], []
    for _, text in _lines(path):
        values = json.loads(text)
        if "validation_loss" in values:
            evaluations.append(EvaluationRecord(**values))
        else:
            steps.append(StepRecord(**values))
    return steps, evaluations


def _lines(path: Path) -> list[tuple[int, str]]:
    """Step and text of each whole line. A process that is killed may leave a part of one."""
    if not path.exists():
        return []
    found = []
    for text in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            values = json.loads(text)
        except json.JSONDecodeError:
            continue
        if isinstance(values, dict) and isinstance(values.get("step"), int):
            found.append((values["step"], text))
    return found
