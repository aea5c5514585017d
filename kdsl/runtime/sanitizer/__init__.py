"""The sanitizer at run time: what instrumented kernels (`kdsl.backend.cpu.sanitizer`) need, and what they have found."""

from kdsl.runtime.sanitizer.findings import Finding, Spot
from kdsl.runtime.sanitizer.report import Report
from kdsl.runtime.sanitizer.session import Session, resume, session, start, stop

__all__ = ["Finding", "Report", "Session", "Spot", "resume", "session", "start", "stop"]
