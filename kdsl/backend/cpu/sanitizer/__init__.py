"""The sanitizer of the CPU target: kernels with code that watches what they do to memory. What it finds is taken up by `kdsl.runtime.sanitizer`."""

from kdsl.backend.cpu.sanitizer.compile import compile_instrumented
from kdsl.backend.cpu.sanitizer.emission import STATE_AT, Options
from kdsl.backend.cpu.sanitizer.sites import Sites

__all__ = ["STATE_AT", "Options", "Sites", "compile_instrumented"]
