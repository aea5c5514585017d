"""What a kernel author's own tests need."""

from kdsl.runtime.order import shuffled as shuffled_blocks
from kdsl.testing.devices import devices
from kdsl.testing.sanitized import sanitized

__all__ = ["devices", "sanitized", "shuffled_blocks"]
