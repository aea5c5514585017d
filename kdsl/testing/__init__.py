"""What a kernel author's own tests need."""

from kdsl.testing.devices import devices
from kdsl.testing.sanitized import sanitized

__all__ = ["devices", "sanitized"]
