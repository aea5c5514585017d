"""Each planted fault is found where it stands, as what it is; its mended form is silent."""

import contextlib
from pathlib import Path

import pytest
from sanitizer_faults import FAULTS, Fault

import kdsl
from kdsl.testing import sanitized

CASES = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


@CASES
def test_it_is_found(fault: Fault) -> None:
    with sanitized(numbers=fault.numbers) as found, contextlib.suppress(kdsl.BoundsError):
        fault.run(kdsl.device("cpu"), False)
    assert [finding.kind for finding in found] == [fault.kind]
    finding = found[0]
    assert finding.kernel == fault.name
    assert finding.array == fault.array
    spots = [spot for spot in (finding.spot, finding.other) if spot is not None]
    assert sorted({spot.line for spot in spots}) == list(fault.lines)
    assert {Path(spot.file).name for spot in spots} == {"sanitizer_faults.py"}
    assert finding.spot.block is not None
    assert finding.spot.thread is not None or fault.name == "barrier_that_depends_on_a_race"
    assert bool(finding.index) == (fault.array is not None)


@CASES
def test_the_mended_form_is_silent(fault: Fault) -> None:
    with sanitized(numbers=fault.numbers) as found:
        fault.run(kdsl.device("cpu"), True)
    assert not found


def test_a_report_names_elements_blocks_and_threads() -> None:
    """Element n is written by thread n and read by thread 63 - n."""
    with sanitized() as found:
        next(fault for fault in FAULTS if fault.name == "read_without_barrier").run(kdsl.device("cpu"), False)
    (finding,) = found
    assert finding.other is not None
    of = {spot.what: spot for spot in (finding.spot, finding.other)}
    (element,) = finding.index
    assert of["write"].thread == (element, 0, 0)
    assert of["read"].thread == (63 - element, 0, 0)
    assert of["write"].block == of["read"].block == (0, 0, 0)
    assert f"s[{element}]" in finding.message
