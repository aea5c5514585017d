"""`loss.png`: the training loss, the validation loss, and what counting tokens achieves, over the steps."""

from pathlib import Path

import numpy as np

from staleynet.files import atomic
from staleynet.training.log import EvaluationRecord, StepRecord


def plot_losses(path: Path, steps: list[StepRecord], evaluations: list[EvaluationRecord]) -> None:
    """Draw the loss curve as PNG. `OSError` passes through."""
    # Imported here, because it takes most of a second, and not every program that trains draws. The Agg canvas needs no screen.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    if steps:
        numbers = [record.step for record in steps]
        losses = np.array([record.loss for record in steps])
        axes.plot(numbers, losses, color="tab:blue", alpha=0.3, linewidth=0.8)
        axes.plot(numbers, _smooth(losses), color="tab:blue", label="training (smoothed)")
    if evaluations:
        last = evaluations[-1]
        axes.plot(
            [e.step for e in evaluations], [e.validation_loss for e in evaluations], color="tab:orange", marker=".", label="validation"
        )
        axes.axhline(last.unigram_entropy, color="tab:gray", linestyle=":", label="unigram entropy")
        axes.axhline(last.bigram_entropy, color="tab:gray", linestyle="--", label="bigram entropy")
    axes.set_xlabel("step")
    axes.set_ylabel("cross-entropy in nats per token")
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    with atomic(path) as temporary:
        FigureCanvasAgg(figure).print_figure(temporary, format="png", dpi=120)


def _smooth(losses: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Exponential mean over about a fiftieth of the run, corrected for its start."""
    decay = 1.0 - 1.0 / max(1.0, len(losses) / 50)
    smoothed = np.empty_like(losses)
    mean = weight = 0.0
    for i, loss in enumerate(losses):
        mean = decay * mean + (1 - decay) * loss
        weight = decay * weight + (1 - decay)
        smoothed[i] = mean / weight
    return smoothed
