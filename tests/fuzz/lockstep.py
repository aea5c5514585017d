"""The threads of a block: one after the other, or in lockstep between barriers, with exchange between the lanes of a warp.

What an exchange yields is written from the table of intrinsics in the documentation; lanes that have returned, or were never there, take no part.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator
from typing import Any, Final

from tests.fuzz.arithmetic import FLOATS, extreme, rounded, wrap

Triple = tuple[int, int, int]
Steps = Generator[Any, Any, None]


class Thread:
    """Where a thread stands, and what it shares with its block."""

    def __init__(
        self, block: Triple, number: int, grid: Triple, size: Triple, rank: int, shared: dict[int, Any], failures: list[Any]
    ) -> None:
        x, y, _ = size
        threads = size[0] * size[1] * size[2]
        self.thread_idx = (rank % x, rank // x % y, rank // x // y)
        self.block_idx = block
        self.block_dim = size
        self.grid_dim = grid
        self.rank = rank
        self.block_rank = number
        self.index = number * threads + rank
        self.row = number * -(-threads // 32) + rank // 32
        self.shared = shared
        self.failures = failures

    def fail(self, line: int, index: int, extent: int) -> None:
        """Note an access outside."""
        self.failures.append((line, index, extent, self.block_idx, self.thread_idx))

    def check(self, holds: bool, line: int) -> None:
        """Note an assertion that does not hold."""
        if not holds:
            self.failures.append((line, 0, 0, self.block_idx, self.thread_idx))


def run_block(
    kernel: Callable[[Thread], Steps | None], suspends: bool, block: Triple, number: int, grid: Triple, size: Triple, failures: list[Any]
) -> None:
    """Run the threads of one block."""
    shared: dict[int, Any] = {}
    threads = [Thread(block, number, grid, size, rank, shared, failures) for rank in range(size[0] * size[1] * size[2])]
    if not suspends:
        for thread in threads:
            kernel(thread)
        return
    running: list[tuple[int, Steps]] = []
    for thread in threads:
        steps = kernel(thread)
        assert steps is not None
        running.append((thread.rank, steps))
    waiting: dict[int, tuple[Any, Steps]] = {}
    replies: dict[int, Any] = {}
    while running or waiting:
        for rank, steps in running:
            with contextlib.suppress(StopIteration):
                waiting[rank] = (steps.send(replies.pop(rank, None)), steps)
        running = []
        for first in range(0, len(threads), 32):
            lanes = {rank - first: waiting[rank][0] for rank in range(first, first + 32) if rank in waiting}
            some = _masked(lanes)
            for lane, result in some.items():
                replies[first + lane] = result
                running.append((first + lane, waiting.pop(first + lane)[1]))
            if some:
                continue
            at_barrier = [request is None or request[0].startswith("block_") for request in lanes.values()]
            if any(at_barrier) or not lanes:
                assert all(at_barrier), "some lanes wait at a barrier, others at an exchange"
                continue
            for lane, result in exchange(lanes).items():
                replies[first + lane] = result
                running.append((first + lane, waiting.pop(first + lane)[1]))
        if not running and waiting:
            requests = {rank: request for rank, (request, _) in waiting.items()}
            if None not in requests.values():
                assert len(requests) == len(threads), "a thread does not take part in a reduction of the block"
                replies = of_block(requests)
            assert not replies or None not in requests.values(), "some threads wait at a barrier, others at a reduction of the block"
            running = [(rank, steps) for rank, (_, steps) in waiting.items()]
            waiting = {}


Request = tuple[str, str, Any, int, int, int]
"""What a thread asks for: the operation, the type, its value, the amount and the width of a shuffle, and the lanes that come."""
_ALL: Final = 0xFFFFFFFF


def _masked(lanes: dict[int, Request | None]) -> dict[int, Any]:
    """What lanes get that wait for others by a mask, if all of these have come; the rest of the warp waits elsewhere, or by another mask."""
    found: dict[int, Any] = {}
    masks = {request[5] for request in lanes.values() if request is not None and request[5] != _ALL}
    for mask in masks:
        group = {lane: request for lane, request in lanes.items() if request is not None and request[5] == mask}
        assert all(mask >> lane & 1 for lane in group), "a lane is not in its own mask"
        if all(lane in group for lane in lanes if mask >> lane & 1):
            found |= exchange(group)
    return found


def exchange(lanes: dict[int, Request]) -> dict[int, Any]:
    """What each lane gets."""
    name, of = next(iter(lanes.values()))[:2]
    assert all(request[:2] == (name, of) for request in lanes.values()), "lanes wait at different exchanges"
    values = {lane: request[2] for lane, request in lanes.items()}
    if name in ("warp_any", "warp_all", "warp_ballot"):
        ballot = sum(1 << lane for lane, holds in values.items() if holds)
        result = {"warp_any": ballot != 0, "warp_all": all(values.values()), "warp_ballot": ballot}[name]
        return dict.fromkeys(lanes, result)
    if name in ("warp_match_any", "warp_match_all"):
        alike = {lane: sum(1 << other for other, value in values.items() if _bits(value) == _bits(own)) for lane, own in values.items()}
        return alike if name == "warp_match_any" else dict.fromkeys(lanes, len(set(alike.values())) == 1)
    if name == "warp_prefix_sum":
        return _prefix_sums(of, values, 0, 32)
    if name.startswith("warp_"):
        return dict.fromkeys(lanes, _reduced(name.removeprefix("warp_"), of, values))
    results = {}
    for lane, request in lanes.items():
        width = request[4]
        amount, segment = request[3] % width, range(lane - lane % width, lane - lane % width + width)
        source = {"shuffle": segment[amount], "shuffle_xor": lane ^ amount, "shuffle_up": lane - amount, "shuffle_down": lane + amount}[
            name
        ]
        results[lane] = values.get(source, values[lane]) if source in segment else values[lane]
    return results


def _bits(value: Any) -> Any:
    """Equal for the same bits of a number that is no NaN."""
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value


def of_block(requests: dict[int, Request]) -> dict[int, Any]:
    """What each thread of a block gets: the warps by themselves, then what they come to likewise, as if each were a lane."""
    name, of = next(iter(requests.values()))[:2]
    assert all(request[:2] == (name, of) for request in requests.values()), "threads wait at different reductions of the block"
    warps: dict[int, dict[int, Any]] = {}
    for rank, request in requests.items():
        warps.setdefault(rank // 32, {})[rank % 32] = request[2]
    if name != "block_prefix_sum":
        mode = name.removeprefix("block_")
        return dict.fromkeys(requests, _reduced(mode, of, {warp: _reduced(mode, of, values) for warp, values in warps.items()}))
    own = {warp: _prefix_sums(of, values, 0, 32) for warp, values in warps.items()}
    sums = _prefix_sums(of, {warp: values[max(values)] for warp, values in own.items()}, 0, 32)
    return {
        rank: own[rank // 32][rank % 32] if rank < 32 else _combined("sum", of, sums[rank // 32 - 1], own[rank // 32][rank % 32])
        for rank in requests
    }


def _prefix_sums(of: str, values: dict[int, Any], first: int, width: int) -> dict[int, Any]:
    """Of so many lanes from `first` on: those of both halves, and to the upper ones what the lower half comes to, added on the left."""
    if width == 1:
        return {first: values[first]} if first in values else {}
    half = width // 2
    lower, upper = _prefix_sums(of, values, first, half), _prefix_sums(of, values, first + half, half)
    if lower:
        whole = lower[max(lower)]
        upper = {lane: _combined("sum", of, whole, value) for lane, value in upper.items()}
    return {**lower, **upper}


def _reduced(mode: str, of: str, values: dict[int, Any]) -> Any:
    """Combined with xor 16, 8, 4, 2, 1; what is not there is left out. All lanes come to the same."""
    width = 32
    while width > 1:
        width //= 2
        values = {
            lane: _combined(mode, of, values[lane], values[lane + width])
            if lane in values and lane + width in values
            else values[lane if lane in values else lane + width]
            for lane in range(width)
            if lane in values or lane + width in values
        }
    return values[0]


def _combined(mode: str, of: str, a: Any, b: Any) -> Any:
    if mode in ("and", "or", "xor"):
        return a & b if mode == "and" else a | b if mode == "or" else a ^ b
    if mode == "sum":
        total = a + b
        return rounded(of, total) if of in FLOATS else wrap(of, total)
    if of in FLOATS:
        return extreme(mode, a, b)
    return min(a, b) if mode == "min" else max(a, b)
