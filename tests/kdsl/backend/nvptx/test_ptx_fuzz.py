"""Random programs: none ends the process, every one assembles, and no store disappears."""

import re
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdsl.ir import nodes
from kdsl.lang.types import BOOL, DTYPES, I64, DType
from kdsl.testing.ptx import assemble, unrecorded

EXTREMES = {
    of: [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.5, -of.format.largest] if of.is_float
    else [False, True] if of.is_bool
    else [of.minimum, of.minimum + 1 if of.is_signed else 1, 0, 7, of.bits, of.bits - 1, of.maximum]
    for of in DTYPES.values()
}  # fmt: skip
BINARY = {
    "float": ["add", "sub", "mul", "div", "min", "max", "fmin", "fmax"], "bool": ["and", "or", "xor"],
    "signed": ["add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "shl", "shr", "min", "max"],
}  # fmt: skip
UNARY = {"float": ["neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint"], "bool": ["not"], "signed": ["neg", "abs", "invert"]}


def of_kind(table: dict[str, list[str]], of: DType) -> list[str]:
    return table["signed" if of.is_integer else of.kind]


class Program:
    """A kernel that grows by random choices."""

    def __init__(self, builder: Callable[..., Any], choose: Callable[[Any], Any]) -> None:
        self.b = builder("fuzz")
        self.choose = choose
        self.thread = self.b.special("thread_idx.x")
        self.outputs = {of: self.b.view(f"out_{of}", of) for of in DTYPES.values()}
        self.values: dict[DType, list[Any]] = {of: [self.b.load(self.outputs[of], self.thread)] for of in DTYPES.values()}
        self.stores = 0

    def value(self, of: DType) -> Any:
        known = self.values[of]
        pick = self.choose(st.integers(0, len(known) + len(EXTREMES[of]) - 1))
        return known[pick] if pick < len(known) else self.b.constant(EXTREMES[of][pick - len(known)], of)

    def step(self) -> None:
        b, of = self.b, self.choose(st.sampled_from(list(DTYPES.values())))
        match self.choose(st.sampled_from(["binary", "binary", "unary", "cast", "compare", "select", "checked"])):
            case "binary":
                new = b.binary(self.choose(st.sampled_from(of_kind(BINARY, of))), self.value(of), self.value(of))
            case "unary":
                new = b.add(nodes.Unary, type=of, op=self.choose(st.sampled_from(of_kind(UNARY, of))), operand=self.value(of))
            case "cast":
                source = self.choose(st.sampled_from(list(DTYPES.values())))
                new = b.add(nodes.Cast, type=of, operand=self.value(source))
            case "compare":
                new = b.compare(self.choose(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"])), self.value(of), self.value(of))
            case "select":
                new = b.add(nodes.Select, type=of, condition=self.value(BOOL), then=self.value(of), orelse=self.value(of))
            case _:
                new = b.load(self.outputs[of], self.value(I64), checked=True)
        self.values[new.type].append(new)

    def store(self, of: DType) -> None:
        """Each to its own element, so that none overwrites another."""
        index = self.b.binary("add", self.thread, self.b.constant(1000 * (self.stores + 1)))
        self.b.store(self.outputs[of], index, self.values[of][-1])
        self.stores += 1


def test_random_programs(build: Any) -> None:
    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data(), st.integers(1, 25), st.sampled_from([0, 1, 2, 3]))
    def run(data: st.DataObject, steps: int, optimise: int) -> None:
        program = Program(build, data.draw)
        for _ in range(steps):
            program.step()
        for of in DTYPES.values():
            program.store(of)
        ptx = program.b.ptx("sm_87", optimise=optimise)
        body = unrecorded(ptx)
        runs = 1 + ("// second run" in body)  # the first one loses what stands behind a check that always fails
        assert program.stores <= len(re.findall(r"st\.global", body)) <= runs * program.stores
        assemble(ptx, "sm_87")

    run()
