"""`log.jsonl`: exact numbers, whole lines, and what is kept when a run goes on."""

import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from staleynet.training.log import EvaluationRecord, RunLog, StepRecord, read


def step(number: int, loss: float = 1.0) -> StepRecord:
    return StepRecord(number, loss, 1e-3, 0.5, 1000.0)


def test_records_come_back(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with RunLog(path, keep_until=0) as log:
        log.write(step(1, 1 / 3))
        log.write(EvaluationRecord(1, math.pi, 2.0, 1.5))
        assert len(path.read_text().splitlines()) == 2, "a reader sees lines as soon as they are written"
    assert read(path) == ([step(1, 1 / 3)], [EvaluationRecord(1, math.pi, 2.0, 1.5)])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_exact(loss: float) -> None:
    import json
    from dataclasses import asdict

    assert json.loads(json.dumps(asdict(step(1, loss))))["loss"] == loss


def test_going_on_keeps_the_steps_before(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with RunLog(path, keep_until=0) as log:
        for number in range(1, 6):
            log.write(step(number))
            log.write(EvaluationRecord(number, 1.0, 2.0, 1.5))
    with path.open("ab") as file:
        file.write(b'{"step": 3, "lo')  # a process was killed
    with RunLog(path, keep_until=3) as log:
        log.write(step(4, 9.0))
    steps, evaluations = read(path)
    assert [(r.step, r.loss) for r in steps] == [(1, 1.0), (2, 1.0), (3, 1.0), (4, 9.0)]
    assert [r.step for r in evaluations] == [1, 2, 3]


def test_starting_over_empties_it(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1}\nnonsense\n')
    with RunLog(path, keep_until=0):
        pass
    assert path.read_text() == ""
