"""How exact the mathematics library is: every one-argument f32 function over all 2**32 arguments on the CPU, against NumPy in float64.

python benchmarks/mathematics_sweep.py [--function NAME ...] [--state FILE] [--threads N]     sweep all floats
python benchmarks/mathematics_sweep.py --random N [--function NAME ...]                       about N arguments of what cannot be swept: f64, and two arguments
python benchmarks/mathematics_sweep.py --gpu-compare N [--function NAME ...]                  the bits of N random arguments per function, CPU against GPU

The sweep prints a line per function: the largest error in units of the last place, and its argument. Values that must be exact (infinities, NaN, the sign of
a zero) count as an infinite error where they are wrong. It takes about a minute per function on a core; what is done stands in the state file, so that it can
be ended and started again, and a function that has changed since is swept anew. Exit status 1 if an error is above 2 ulp, or if bits differ.
"""

import argparse
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kdsl
from kdsl.ir.printer import print_kernel

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "kdsl" / "mathematics"))
import mathematics_reference as reference  # noqa: E402

ALL = 2**32
CHUNK = 2**16
"""Arguments at a time: what belongs to them stays in the cache of a core."""
SAVED_EVERY = 2**26
LIMIT = 2.0
"""Largest error that the library promises, in ulp."""


def fast_erf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """erf: the C library's where it takes time, the first terms of the series near 0."""
    size = np.abs(x)
    square = x * x
    series = np.zeros_like(x)
    for k in range(9, -1, -1):
        series = series * square + (-1) ** k / (math.factorial(k) * (2 * k + 1))
    result = np.where(size > 6, np.copysign(1.0, x), 2 / math.sqrt(math.pi) * x * series)
    middle = (size >= 0.25) & (size <= 6)
    result[middle] = [math.erf(v) for v in x[middle].tolist()]
    return np.where(np.isnan(x), x, result)


def fast_erfc(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """erfc, likewise."""
    result = 1 - fast_erf(np.where(np.abs(x) < 0.25, x, 0.0))
    result = np.where(x > 12, 0.0, np.where(x < -6, 2.0, result))
    middle = ((x >= 0.25) & (x <= 12)) | ((x <= -0.25) & (x >= -6))
    result[middle] = [math.erfc(v) for v in x[middle].tolist()]
    return np.where(np.isnan(x), x, result)


def where_it_is_a_number(exact: Callable[..., NDArray[Any]], low: float, high: float) -> Callable[..., NDArray[Any]]:
    """A function that is NaN but for arguments from `low` to `high`; the C library takes its time to say so."""

    def apply(x: NDArray[np.float64]) -> NDArray[np.float64]:
        inside = (x >= low) & (x <= high)
        result = np.full_like(x, np.nan)
        result[inside] = exact(x[inside])
        return result

    return apply


EXACT = {
    **reference.ONE,
    "erf": fast_erf,
    "erfc": fast_erfc,
    "acosh": where_it_is_a_number(np.arccosh, 1, np.inf),
    "atanh": where_it_is_a_number(np.arctanh, -1, 1),
}


def largest_error(result: NDArray[np.float32], exact: NDArray[np.float64]) -> tuple[float, int]:
    """The largest error in ulp and where it is. A value that is the nearest float counts as 0.5, whatever its error, so that few need a closer look."""
    rounded = exact.astype(np.float32)
    other = np.flatnonzero(result.view(np.int32) != rounded.view(np.int32))
    if other.size == 0:
        return 0.5, 0
    result, exact = result[other], exact[other]
    exponent = np.clip((rounded[other].view(np.int32) >> 23) & 0xFF, 1, 254).astype(np.int64)
    distance = np.abs(result - exact) * ((1023 + 150 - exponent) << 52).view(np.float64)
    special = ~np.isfinite(distance) | (result == 0)
    if special.any():
        distance[special] = reference.ulps(result[special], exact[special])
    worst = int(np.argmax(distance))
    return max(float(distance[worst]), 0.5), int(other[worst])


def digest(apply: Any) -> str:
    """Of what the kernel of a function computes."""
    return hashlib.sha256(print_kernel(apply.ir(F=kdsl.f32)).encode()).hexdigest()[:16]


def save(path: Path, state: dict[str, Any]) -> None:
    """Write the state whole or not at all."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(state, indent=1) + "\n", encoding="ascii")
    os.replace(new, path)


def sweep(name: str, path: Path, state: dict[str, Any]) -> float:
    """All arguments of one function, from where the state says; the largest error."""
    device = kdsl.device("cpu")
    apply = reference.kernel_of_one(getattr(kdsl, name))
    entry = state.get(name)
    if entry is None or entry["digest"] != digest(apply):
        entry = state[name] = {"digest": digest(apply), "next": 0, "error": 0.0, "argument": 0, "seconds": 0.0}
    while entry["next"] < ALL:
        start = time.monotonic()
        end = min(entry["next"] + SAVED_EVERY, ALL)
        for first in range(entry["next"], end, CHUNK):
            x = np.arange(first, first + CHUNK, dtype=np.uint32).view(np.float32)
            result = reference.run_kernel(device, apply, [x])
            with np.errstate(all="ignore"):
                error, place = largest_error(result, EXACT[name](x.astype(np.float64)))
            if error > entry["error"]:
                entry["error"], entry["argument"] = error, first + place
        entry["next"] = end
        entry["seconds"] += time.monotonic() - start
        save(path, state)
    argument = np.array([entry["argument"]], np.uint32).view(np.float32)[0]
    print(
        f"{name:6} f32  {entry['error']:.4f} ulp at {argument!s} (0x{entry['argument']:08x}), 2**32 arguments, {entry['seconds']:.0f} s",
        flush=True,
    )
    return float(entry["error"])


def at_random(name: str, of: str, count: int) -> float:
    """Random arguments of one function, special values and hard cases among them, against float64 or longdouble; the largest error."""
    worst, where, seen, seed = 0.0, "", 0, 0
    while seen < count:
        seed += 1
        operands: Sequence[Any] = (
            [reference.arguments(of, 20_000, seed)] if name in reference.ONE else reference.pairs(name, of, 5_000, seed)
        )
        distance = reference.ulps(reference.run(kdsl.device("cpu"), name, operands), reference.expected(name, operands))
        i = int(np.argmax(distance))
        if distance[i] > worst:
            worst, where = float(distance[i]), ", ".join(str(operand[i]) for operand in operands)
        seen += distance.size
    print(f"{name:6} {of}  {worst:.4f} ulp{f' at {where}' if where else ''}, {seen} random arguments", flush=True)
    return worst


def gpu_compare(name: str, of: str, count: int) -> int:
    """How many of N random arguments give other bits on the GPU; NaNs count as equal."""
    numpy_type, unsigned, _ = reference.FLOATS[of]
    rng = np.random.default_rng(3)
    special = reference.arguments(of, count // 40 + 1, 5)
    operands = [
        np.concatenate(
            [rng.permutation(special), rng.integers(0, np.iinfo(unsigned).max, count, dtype=unsigned, endpoint=True).view(numpy_type)]
        )
        for _ in range(1 if name in reference.ONE else 2)
    ]
    a, b = (reference.run(kdsl.device(device), name, operands) for device in ("cpu", "cuda:0"))
    other = (a.view(unsigned) != b.view(unsigned)) & ~(np.isnan(a) & np.isnan(b))
    first = int(np.argmax(other))
    shown = (
        f", first at {', '.join(repr(float(operand[first])) for operand in operands)}: {a[first]!r}, {b[first]!r}" if other.any() else ""
    )
    print(f"{name:6} {of}  {int(other.sum())} of {a.size} differ{shown}", flush=True)
    return int(other.sum())


def main() -> int:
    """Command line."""
    names = [*reference.ONE, *reference.TWO]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--function", nargs="+", choices=names, default=None, metavar="NAME", help="only these")
    parser.add_argument("--state", type=Path, default=Path("mathematics-sweep.json"), help="what is done (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of the CPU target (default: 1)")
    parser.add_argument(
        "--random", type=int, metavar="N", help="about N random arguments of each f64 function, and of two arguments, instead"
    )
    parser.add_argument("--gpu-compare", type=int, metavar="N", help="compare N random arguments per function between CPU and GPU instead")
    options = parser.parse_args()
    kdsl.set_threads(options.threads)
    if options.gpu_compare is not None:
        try:
            kdsl.device("cuda:0")
        except kdsl.DeviceError as error:
            parser.error(str(error))
        return 1 if sum(gpu_compare(name, of, options.gpu_compare) for name in options.function or names for of in reference.FLOATS) else 0
    if options.random is not None:
        chosen = [(name, of) for name in options.function or names for of in reference.FLOATS if of == "f64" or name in reference.TWO]
        return 1 if max(at_random(name, of, options.random) for name, of in chosen) > LIMIT else 0
    state = json.loads(options.state.read_text(encoding="ascii")) if options.state.exists() else {}
    one = [name for name in options.function or names if name in reference.ONE]
    if not one:
        parser.error("only functions of one argument can be swept")
    return 1 if max(sweep(name, options.state, state) for name in one) > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
