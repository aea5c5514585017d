"""Makes the planted faults, which the benchmark shares, importable by the tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
