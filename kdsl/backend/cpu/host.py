"""The processors that the CPU target emits for: their names, their vectors, and LLVM's machine for them.

What is not here: code. A `HostCpu` is found by `HostCpu.detect()` or named: `x86-64-v3` (AVX2, FMA), `x86-64-v4` (AVX-512), `aarch64` (NEON).
The environment variable KDSL_CPU names an older generation, narrower vectors, or both, for the present processor: `x86-64-v3`, `x86-64-v3:128`.
"""

from __future__ import annotations

import functools
import os
import platform
import threading
from dataclasses import dataclass, replace
from typing import Any, Final

import llvmlite.binding as llvm

from kdsl.backend.llvm.module import initialise

_NEEDED_V3: Final = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_NEEDED_V4: Final = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


class UnsupportedCpuError(RuntimeError):
    """The CPU target has no code for this processor."""


@dataclass(frozen=True)
class _Generation:
    """What one generation of processors offers."""

    triple: str
    """LLVM's name of the platform."""
    bits: int
    """Bits of a vector register."""
    compact_masks: bool
    """Whether masks have registers of one bit per lane."""
    accumulators: int
    """Vectors that a loop should carry: enough to keep the units for products busy, and so few that all operands stay in registers."""


_GENERATIONS: Final = {
    "x86-64-v3": _Generation("x86_64-unknown-linux-gnu", 256, False, 8),
    "x86-64-v4": _Generation("x86_64-unknown-linux-gnu", 512, True, 16),
    "aarch64": _Generation("aarch64-unknown-linux-gnu", 128, False, 16),
}


@dataclass(frozen=True)
class HostCpu:
    """A processor to emit for. Its fields are all that the code depends on, so they belong into the key of a cache."""

    generation: str
    """`x86-64-v3`, `x86-64-v4` or `aarch64`."""
    cpu: str = ""
    """LLVM's name of the model, for scheduling; empty means the generation in general."""
    features: str = ""
    """LLVM's list of features beyond the model's."""
    triple: str = ""
    """LLVM's name of the platform; empty means Linux."""
    narrow: int = 0
    """Bits of the vectors that code is written in, 128 or more, where they are to be narrower than the registers; 0 for whole registers."""

    def __post_init__(self) -> None:
        if self.generation not in _GENERATIONS:
            raise UnsupportedCpuError(f"there is no CPU target {self.generation!r}; there are {', '.join(_GENERATIONS)}")
        widest = _GENERATIONS[self.generation].bits
        if self.narrow not in (0, *(bits for bits in (128, 256, 512) if bits <= widest)):
            raise UnsupportedCpuError(f"vectors of {self.generation} have 128 to {widest} bits, a power of two, not {self.narrow}")

    @staticmethod
    def detect() -> HostCpu:
        """The processor that this process runs on, or what KDSL_CPU makes of it.

        Raises UnsupportedCpuError if it is older than x86-64-v3 or of another kind, or if it does not have what KDSL_CPU names.
        """
        return _chosen(os.environ.get("KDSL_CPU", ""))

    @property
    def is_x86(self) -> bool:
        """Whether it is an x86-64 processor."""
        return self.generation.startswith("x86")

    @property
    def lanes(self) -> int:
        """32-bit lanes of one vector register."""
        return self.vector_bits // 32

    @property
    def vector_bits(self) -> int:
        """Bits of one vector register."""
        return self.narrow or _GENERATIONS[self.generation].bits

    @property
    def compact_masks(self) -> bool:
        """Whether a mask takes one bit per lane (AVX-512), so that narrow compares are as good as wide ones."""
        return _GENERATIONS[self.generation].compact_masks

    @property
    def accumulators(self) -> int:
        """Vectors that a loop should carry from one trip to the next."""
        return _GENERATIONS[self.generation].accumulators

    @property
    def platform(self) -> str:
        """LLVM's name of the platform."""
        return self.triple or _GENERATIONS[self.generation].triple

    def mark(self, function: Any) -> None:
        """Give an LLVM function the attributes that all functions of a module need: vectors pass between them in registers of one width."""
        texts = ['"no-builtins"']  # a loop that copies stays a loop
        if self.is_x86:
            texts += [f'"prefer-vector-width"="{self.vector_bits}"', f'"min-legal-vector-width"="{self.vector_bits}"']
        function.attributes.add("nounwind")
        for text in texts:
            set.add(function.attributes, text)  # llvmlite lists only the attributes without text

    def machine(self, optimise: int, *, far: bool = False) -> Any:
        """LLVM's code generator for this processor at an optimisation level of 0 to 3; `far`: with addresses of 64 bits."""
        return _machine(self, optimise, far, threading.get_ident())


@functools.lru_cache(maxsize=64)
def _machine(host: HostCpu, optimise: int, far: bool, _thread: int) -> Any:
    # one per thread: LLVM's target machines are not meant to be shared between threads
    initialise()
    cpu = host.cpu or ("generic" if host.generation == "aarch64" else host.generation)
    target = llvm.Target.from_triple(host.platform)
    model, relocation = ("large", "static") if far else ("small", "pic")
    return target.create_target_machine(cpu=cpu, features=host.features, opt=optimise, reloc=relocation, codemodel=model)


@functools.cache
def _detect() -> HostCpu:
    initialise()
    kind = platform.machine().lower()
    triple = llvm.get_process_triple()
    name = llvm.get_host_cpu_name()
    if kind in ("aarch64", "arm64"):
        return HostCpu("aarch64", name, llvm.get_host_cpu_features().flatten(), triple)
    if kind not in ("x86_64", "amd64"):
        raise UnsupportedCpuError(f"the CPU target runs on x86-64 and AArch64, and this machine is {kind!r}")
    features = llvm.get_host_cpu_features()
    missing = [feature for feature in _NEEDED_V3 if not features.get(feature)]
    if missing:
        raise UnsupportedCpuError(f"the CPU target needs x86-64-v3 (AVX2 and FMA), and this processor ({name}) lacks {', '.join(missing)}")
    generation = "x86-64-v4" if all(features.get(feature) for feature in _NEEDED_V4) else "x86-64-v3"
    # LLVM 22 shifts signed bytes right by a matrix of bits there, and has a wrong one for an amount that turns out to be 0 while it works on it
    features["gfni"] = False
    return HostCpu(generation, name, features.flatten(), triple)


@functools.cache
def _chosen(wanted: str) -> HostCpu:
    """The present processor, with what `wanted` asks for: a generation, a colon and the bits of vectors, or the one without the other."""
    detected = _detect()
    generation, _, bits = wanted.partition(":")
    chosen = detected if generation in ("", detected.generation) else HostCpu(generation, triple=detected.triple)
    if chosen.is_x86 != detected.is_x86 or chosen.vector_bits > detected.vector_bits:
        raise UnsupportedCpuError(f"KDSL_CPU={wanted}: this processor is {detected.generation} and does not run code for {generation}")
    if bits and not (bits.isascii() and bits.isdigit()):
        raise UnsupportedCpuError(f"KDSL_CPU={wanted}: what follows the colon is the bits of a vector, such as 128")
    return replace(chosen, narrow=int(bits)) if bits else chosen
