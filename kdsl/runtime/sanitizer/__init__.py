"""The sanitizer at run time: what instrumented kernels (`kdsl.backend.cpu.sanitizer`) need, and what they have found."""

from kdsl.runtime.sanitizer.findings import Finding, Spot
from kdsl.runtime.sanitizer.session import Session, session, start

__all__ = ["Finding", "Session", "Spot", "session", "start"]
