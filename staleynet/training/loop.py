"""The training loop: batches in, one optimizer step each, a record of every step, evaluations, and the moments at which to save.

Files, options and devices are the caller's business; the loop gets what it needs as objects and functions.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from staleynet.data.sampler import Sampler
from staleynet.model.optimizer import Optimizer, gradient_norm
from staleynet.model.transformer import TrainingPass
from staleynet.training.evaluation import Evaluation
from staleynet.training.log import RunLog, StepRecord
from staleynet.training.progress import StepDisplay


class DivergenceError(ArithmeticError):
    """The loss or the gradient is no longer a finite number."""


@dataclass(frozen=True)
class Loop:
    """A run of training steps. Call `run`."""

    optimizer: Optimizer
    """The model and its state; it says at which step the loop begins and ends."""
    sampler: Sampler
    """Batches by step."""
    evaluation: Evaluation
    """Evaluates on the validation tokens."""
    log: RunLog
    """Takes a record of every step."""
    display: StepDisplay
    """Shows every step."""
    save: Callable[[], None]
    """Writes a checkpoint; called after each evaluation, and when the loop ends early."""
    asked_to_stop: Callable[[int], bool]
    """Looked at after each step, with its number."""

    def run(self) -> bool:
        """Train until the optimizer's last step; whether it was reached.

        Raises `DivergenceError`, with the last checkpoint as it was, when loss or gradient are not finite.
        """
        optimizer, c = self.optimizer, self.optimizer.model.configuration
        buffers = TrainingPass(optimizer.model, c.sequences, c.context)
        while optimizer.step < optimizer.steps:
            step = optimizer.step + 1
            self._step(buffers, step)
            due = step % c.evaluation_interval == 0 or step == optimizer.steps
            if due:
                record = self.evaluation(buffers, step)
                self.log.write(record)
                self.display.say(
                    f"step {step}: validation loss {record.validation_loss:.4f} "
                    f"(unigram {record.unigram_entropy:.4f}, bigram {record.bigram_entropy:.4f})"
                )
            stop = self.asked_to_stop(step) and step < optimizer.steps
            if due or stop:
                self.save()
            if stop:
                return False
        return True

    def _step(self, buffers: TrainingPass, step: int) -> None:
        start = time.perf_counter()
        windows = self.sampler.batch(step)
        tokens, targets = windows[:, :-1], windows[:, 1:]
        buffers.start_loss(tokens, targets)
        buffers.backward(tokens, targets)
        norm = gradient_norm(buffers.gradients)  # waits for everything so far, so that reading the losses takes no further wait
        loss = buffers.finish_loss(targets)
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise DivergenceError(f"step {step}: loss {loss}, gradient norm {norm}: the training has diverged; use a lower learning rate")
        rate = self.optimizer.update(buffers.gradients, norm)
        speed = tokens.size / (time.perf_counter() - start)
        self.log.write(StepRecord(step, loss, rate, norm, speed))
        self.display.step(step, loss, speed)
