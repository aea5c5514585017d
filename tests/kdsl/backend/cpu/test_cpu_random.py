"""Random kernels with divergent control, compared with the interpreter thread by thread."""

from __future__ import annotations

import random

import numpy as np
import pytest
from cpu_builder import Builder, Value
from cpu_reference import Interpreter
from cpu_run import Runner

from kdsl.backend.cpu import HostCpu
from kdsl.ir import nodes
from kdsl.lang.types import I32, I64


class Generator:
    """Makes one random kernel on i64 variables; every thread writes its variables to `out`."""

    def __init__(self, seed: int, *, barriers: bool = False, exchanges: bool = False) -> None:
        self.random = random.Random(seed)
        shapes = [
            (1, 1, 1),
            (5, 7, 1),
            (17, 1, 1),
            (32, 1, 1),
            (33, 1, 1),
            (48, 1, 1),
            (16, 16, 1),
            (96, 1, 1),
            (8, 4, 3),
            (16, 3, 2),
            (2, 3, 11),
        ]
        self.k = Builder("random", self.random.choice(shapes))
        self.barriers, self.exchanges = barriers, exchanges
        k = self.k
        self.out, self.data = k.view("out", I64), k.view("data", I32, kind="Slice")
        self.n = k.scalar("n", I64, range=(0, 1 << 20))
        self.shared = k.array("shared", (k.kernel.threads,), I64)
        self.local = k.array("local", (4,), I64, space="local")
        self.thread = k.special("thread_rank")
        first = (k.special("block_idx.x") * k.kernel.threads).within(0, 1 << 40)
        self.index = (first + self.thread).within(0, 1 << 41)
        with k.for_(0, 4, range=(0, 3)) as (i, _):
            k.store(self.local, i, i * 3)
        self.variables = [k.variable(f"v{i}", self.source(), I64) for i in range(4)]
        self.uniforms = [k.variable(f"u{i}", i, I64) for i in range(2)]
        if barriers:
            k.store(self.shared, self.thread, 0)
        self.scopes: list[tuple[nodes.Scope, bool]] = []
        self.loops: list[bool] = []
        self.budget = 26
        self.block(3, uniform=True)
        for i, v in enumerate(self.variables + self.uniforms):
            k.store(self.out, self.index * 7 + i, k.get(v))
        with k.for_(0, 4, range=(0, 3)) as (i, _):
            k.store(self.out, self.index * 7 + 6, k.load(self.out, self.index * 7 + 5) + k.load(self.local, i))

    def source(self) -> Value:
        k, r = self.k, self.random
        match r.randrange(11):
            case 0:
                return k.lift(r.randrange(-5, 40), I64)
            case 1:
                return self.thread
            case 2:
                return self.index
            case 3:
                return self.n + 0
            case 4:
                return k.special(r.choice(["thread_idx.x", "thread_idx.y", "thread_idx.z", "lane_index", "warp_index", "block_idx.x"]))
            case 5:
                return k.load(self.data, self.index).to(I64)
            case 6:
                return k.load(self.data, self.expression(1) % self.n, checked=r.random() < 0.5).to(I64)
            case 10:
                return k.load(self.data, self.expression(1), checked=True).to(I64)
            case 7:
                return k.load(self.local, (self.expression(1) & 3).within(0, 3))
            case _ if hasattr(self, "variables"):
                return k.get(r.choice(self.variables))
            case _:
                return self.thread + 1

    def expression(self, depth: int) -> Value:
        if depth == 0:
            return self.source()
        op = self.random.choice(["add", "sub", "mul", "floordiv", "mod", "and", "xor", "min", "max", "shr", "shl"])
        left = self.expression(depth - 1)
        right = self.source() if self.random.random() < 0.5 else self.k.lift(self.random.choice([0, 1, 2, 3, 4, 7, 16, 32, -1]), I64)
        return left._binary(op, right)

    def condition(self, uniform: bool) -> Value:
        k, r = self.k, self.random
        if uniform:
            left = r.choice([lambda: self.n, lambda: k.get(r.choice(self.uniforms)), lambda: k.special("block_idx.x")])()
            return left._compare(r.choice(["lt", "ge", "ne"]), r.randrange(4))
        value = self.expression(1)
        return value._compare(r.choice(["lt", "le", "gt", "ge", "eq", "ne"]), self.source())

    def block(self, depth: int, *, uniform: bool) -> None:
        """Some statements. `uniform` says that all threads that have not returned are here."""
        for _ in range(self.random.randrange(1, 5)):
            if self.budget <= 0:
                return
            self.budget -= 1
            if self.statement(depth, uniform=uniform):
                return

    def statement(self, depth: int, *, uniform: bool) -> bool:
        k, r = self.k, self.random
        kind = r.random()
        if uniform and self.barriers and kind < 0.15:
            k.barrier()
            k.store(self.shared, self.thread, k.get(r.choice(self.variables)))
            k.barrier()
            other = ((self.thread + r.randrange(1, 9)) % k.kernel.threads).within(0, k.kernel.threads - 1)
            k.set(r.choice(self.variables), k.load(self.shared, other))
            return False
        if uniform and self.exchanges and kind < 0.15:
            self.exchange()
            return False
        if uniform and kind < 0.2:
            k.set(r.choice(self.uniforms), k.get(r.choice(self.uniforms)) + r.randrange(3))
        elif kind < 0.4 or depth == 0:
            k.set(r.choice(self.variables), self.expression(2))
        elif kind < 0.47:
            k.store(self.local, (self.expression(1) & 3).within(0, 3), self.expression(1))
        elif kind < 0.52 and depth < 3:
            return self.jump(uniform)
        elif kind < 0.72:
            agreed = uniform and r.random() < 0.5
            with k.if_(self.condition(agreed)) as op:
                self.block(depth - 1, uniform=agreed)
            if r.random() < 0.5:
                with k.else_(op):
                    self.block(depth - 1, uniform=agreed)
        elif kind < 0.85:
            self.for_loop(depth, uniform)
        elif kind < 0.93:
            self.while_loop(depth, uniform)
        else:
            agreed = uniform and r.random() < 0.5
            with k.scope() as scope:
                self.scopes.append((scope, agreed))
                self.block(depth - 1, uniform=agreed)
                self.scopes.pop()
        return False

    def jump(self, uniform: bool) -> bool:
        """Leave something: what threads left together may hold a barrier, what they left one by one may not."""
        k, r = self.k, self.random
        scopes = [scope for scope, agreed in self.scopes if agreed == uniform]
        if uniform and (self.loops or scopes) and r.random() < 0.5:
            return False
        choices = ["return"] if r.random() < 0.3 and not uniform else []
        choices += ["break", "continue"] if self.loops and self.loops[-1] == uniform else []
        choices += ["leave"] if scopes else []
        if not choices:
            return False
        match r.choice(choices):
            case "return":
                k.return_()
            case "break":
                k.break_()
            case "continue":
                k.continue_()
            case _:
                k.leave(r.choice(scopes))
        return True

    def for_loop(self, depth: int, uniform: bool) -> None:
        k, r = self.k, self.random
        agreed = uniform and r.random() < 0.6
        known: tuple[int, int] | None = None
        if agreed:
            start, stop, step = r.choice([(0, 3, 1), (5, -2, -3), (2, 2, 1), (0, 4, 0), (1, 9, 4)])
            arguments = (start, stop, step)
            if r.random() < 0.5:
                known = (-2, 9)
        else:
            arguments = r.choice(
                [
                    lambda: (self.thread, k.load(self.data, self.index).to(I64), 16),
                    lambda: ((self.expression(1) & 7).within(0, 7), (self.expression(1) & 7).within(0, 7), r.choice([1, -1, 2, 0])),
                    lambda: (0, (self.thread & 3).within(0, 3), 1),
                    lambda: ((self.thread & 7).within(0, 7), 5, ((self.thread & 3).within(0, 3) + 1).within(1, 4)),
                    lambda: ((1 << 63) - 4, (1 << 63) - 1, 3),
                    lambda: (self.thread, 40, 8),
                ]
            )()
        with k.for_(*arguments, range=known) as (i, op):
            k.set(r.choice(self.variables), i * 3 + self.source())
            self.loops.append(agreed)
            self.block(depth - 1, uniform=agreed)
            self.loops.pop()
        if r.random() < 0.4:
            with k.else_(op):
                self.block(depth - 1, uniform=False)

    def while_loop(self, depth: int, uniform: bool) -> None:
        k, r = self.k, self.random
        agreed = uniform and r.random() < 0.5
        count = k.variable(f"c{self.budget}", r.randrange(1, 4) if agreed else (self.expression(1) & 3).within(0, 3), I64)
        with k.while_(lambda: k.get(count) > 0) as op:
            k.set(r.choice(self.variables), k.get(count) * 5 + self.thread)
            k.set(count, k.get(count) - 1)
            if r.random() < 0.5:
                k.set(r.choice(self.variables), k.get(count) + 2)
            self.loops.append(agreed)
            self.block(depth - 1, uniform=agreed)
            self.loops.pop()
        if r.random() < 0.4:
            with k.else_(op):
                self.block(depth - 1, uniform=False)

    def exchange(self) -> None:
        k, r = self.k, self.random
        value = k.get(r.choice(self.variables))
        name = r.choice(
            [
                "warp_sum",
                "warp_max",
                "warp_min",
                "shuffle",
                "shuffle_xor",
                "shuffle_up",
                "shuffle_down",
                "warp_ballot",
                "warp_any",
                "warp_all",
            ]
        )
        goal = r.choice(self.variables)
        if name.startswith("shuffle"):
            amount = k.lift(r.randrange(-3, 40), I64) if r.random() < 0.5 else self.source()
            k.set(goal, k.exchange(name, value, amount))
        elif name == "warp_ballot":
            from kdsl.lang.types import U32

            k.set(goal, k.exchange(name, value > 3, type=U32).to(I64))
        elif name in ("warp_any", "warp_all"):
            k.set(goal, k.exchange(name, value > 3).to(I64))
        else:
            k.set(goal, k.exchange(name, value))


def compare(generator: Generator, host: HostCpu | None = None, optimise: int = 3) -> None:
    kernel = generator.k.kernel
    blocks, n = 3, 50
    threads = blocks * kernel.threads
    data = np.random.default_rng(len(kernel.variables)).integers(-20, 60, threads).astype(np.int32)
    expected, found = (np.full(threads * 7, -7, np.int64) for _ in range(2))
    reference = Interpreter(kernel)
    reference(blocks, out=expected, data=data, n=min(n, threads))
    run = Runner(kernel, host, optimise)
    run(blocks, out=found, data=data, n=min(n, threads))
    np.testing.assert_array_equal(found, expected)
    failure = run.failure()
    assert (failure is not None) == bool(reference.failures)
    if failure is not None:
        x, y, _ = kernel.block_dim
        thread = failure["thread_x"] + x * (failure["thread_y"] + y * failure["thread_z"])
        block = (failure["block_x"], failure["block_y"], failure["block_z"])
        assert (failure["site"], block, thread, failure["index"]) in reference.failures


@pytest.mark.parametrize("seed", range(40))
def test_divergence(seed: int) -> None:
    compare(Generator(seed))


@pytest.mark.parametrize("seed", range(40))
def test_barriers(seed: int) -> None:
    compare(Generator(1000 + seed, barriers=True))


@pytest.mark.parametrize("seed", range(40))
def test_exchanges(seed: int) -> None:
    compare(Generator(2000 + seed, exchanges=True, barriers=seed % 2 == 1))


def other_processor(seed: int) -> HostCpu:
    """One that is not this one and whose code runs here all the same: narrower vectors, or a model that LLVM would rather give half vectors."""
    host = HostCpu.detect()
    if host.generation == "x86-64-v4" and seed % 2:
        return HostCpu("x86-64-v4", "skylake-avx512")
    return HostCpu("x86-64-v3") if host.is_x86 else HostCpu("aarch64")


@pytest.mark.parametrize("seed", range(16))
def test_other_processors(seed: int) -> None:
    compare(Generator(3000 + seed, barriers=True, exchanges=seed % 3 == 0), other_processor(seed))


@pytest.mark.parametrize("seed", range(6))
def test_without_optimisation(seed: int) -> None:
    compare(Generator(4000 + seed, barriers=True), optimise=0)
