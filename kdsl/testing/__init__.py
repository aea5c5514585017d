"""What a kernel author's own tests need."""

from kdsl.testing.devices import devices

__all__ = ["devices"]
