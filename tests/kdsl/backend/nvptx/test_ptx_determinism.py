"""The same kernel gives the same bytes in every process."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import runpy, sys
everything = runpy.run_path(sys.argv[1])["everything"]
Builder = runpy.run_path(sys.argv[2])["Builder"]
sys.stdout.write(everything(Builder).ptx("sm_90"))
"""


def test_the_bytes_do_not_depend_on_the_hash_seed() -> None:
    here = Path(__file__).parent
    command = [sys.executable, "-c", PROGRAM, str(here / "test_ptx_operations.py"), str(here / "conftest.py")]
    texts = {
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True, timeout=120).stdout
        for seed in ("0", "1", "random")
    }
    (text,) = texts
    assert text.isascii()
    assert b".entry everything(" in text
