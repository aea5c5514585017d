"""The devices that tests run on."""

from __future__ import annotations

from kdsl.runtime.device import Device, device, gpu_count


def devices() -> list[Device]:
    """The CPU and every GPU that is present, for `pytest.mark.parametrize("device", devices(), ids=str)`."""
    return [device("cpu"), *(device(f"cuda:{index}") for index in range(gpu_count()))]
