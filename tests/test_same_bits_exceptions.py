"""The comparison of bits between devices and runs: its exceptions name tests that exist, and it finds what differs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from kdsl.testing.same_bits import exceptions_of, names

ROOT = Path(__file__).parent.parent
EXCEPTIONS = exceptions_of(ROOT)


@pytest.mark.parametrize("pattern", EXCEPTIONS)
def test_an_exception_names_tests(pattern: str) -> None:
    file, _, test = pattern.partition("::")
    path = ROOT / file
    assert path.exists(), f"there is no {file}"
    beginning = test.partition("*")[0]
    functions = [node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)]
    assert any(name.startswith("test_") and names(beginning, name) for name in functions), f"{file} has no test {test}"


def test_names() -> None:
    assert names("a/test_b.py", "a/test_b.py::test_c[1]")
    assert names("a/test_b.py::test_*f16", "a/test_b.py::test_c[bf16-2]")
    assert not names("a/test_b.py::test_*f16", "a/test_b.py::test_c[f32]")
    assert not names("test_b.py", "a/test_b.py")


SUITE = '''
import numpy as np
import pytest
import kdsl
from kdsl.runtime.host import CpuDevice

class Other(CpuDevice):
    """A device whose numbers are other ones."""
    def __str__(self):
        return "other"
    def _download(self, host, source):
        super()._download(host, source)
        if host.dtype == np.float32:
            host[host == 1] = 1.5
            host[np.isnan(host)] = -np.nan
    def __reduce__(self):
        return (kdsl.device, ("cpu",))

every = pytest.mark.parametrize("device", [kdsl.device("cpu"), Other()], ids=str)

@every
@pytest.mark.parametrize("value", [1.0, 2.0, np.nan], ids=str)
def test_floats(device, value):
    device.array(np.full(3, value, np.float32)).numpy()

@every
def test_integers(device):
    device.array(np.ones(3, np.int32)).numpy()

@every
def test_fails(device):
    assert device.array(np.ones(3, np.float32)).numpy()[0] == 1
'''


@pytest.mark.parametrize("exception", ["", '"test_suite.py::test_floats[1" = "it is made so"'])
def test_what_differs_is_found(pytester: pytest.Pytester, exception: str) -> None:
    pytester.makepyfile(test_suite=SUITE)
    pytester.path.joinpath("same_bits_exceptions.toml").write_text(exception)
    result = pytester.runpytest_subprocess("-p", "kdsl.testing.plugin", "--kdsl-same-bits", "-k", "not fails", "-p", "no:randomly")
    text = result.stdout.str()
    assert ("other bits: test_suite.py::test_floats[1.0]: cpu and other: array 1 of 1" in text) == (not exception)
    assert "4 comparisons, " + ("0 differ, 1 more" if exception else "1 differ, 0 more") in text
    assert result.ret == (0 if exception else 1)


def test_runs_are_compared_by_a_file(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_suite="import numpy as np, os, kdsl\ndef test_it():\n    kdsl.device('cpu').array(np.array([int(os.environ['N'])])).numpy()\n")
    arguments = ("-p", "kdsl.testing.plugin", "--kdsl-bits-file", "bits.json")
    for number, status in (("1", 0), ("1", 0), ("2", 1)):
        pytester._monkeypatch.setenv("N", number)
        result = pytester.runpytest_subprocess(*arguments)
        assert result.ret == status, result.stdout.str()
    assert "other bits: test_suite.py::test_it: any before and now: array 1 of 1" in result.stdout.str()


def test_a_reason_is_wanted(tmp_path: Path) -> None:
    for text in ('"a" = ""', '"a" = 1', "a"):
        (tmp_path / "same_bits_exceptions.toml").write_text(text)
        with pytest.raises(pytest.UsageError, match="same_bits_exceptions"):
            exceptions_of(tmp_path)
