"""Structs: fields that do not exist, values of other types, what is only read, and what structs do not do."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from refusal import refused
from text import define

from kdsl import FixedArray, Slice, SliceMut, f32, f64, function, i32, struct


@struct
class Inner:
    """A struct in a struct."""

    rate: f32
    """A rate."""
    beta: f64
    """Another."""


@struct
class Step:
    """A struct with everything."""

    weights: FixedArray[f32, Literal[4]]
    """An array."""
    inner: Inner
    """A struct."""
    corners: FixedArray[Inner, Literal[2]]
    """An array of structs."""
    count: i32
    """A number."""


@function
def takes(s: Step) -> f32:
    return s.weights[0]


@function
def changes(s: SliceMut[f32]) -> None:
    s[0] = 1.0


@function
def reads(s: Slice[f32]) -> f32:
    return s[0]


@function
def returns(s: Step) -> Inner:
    return s


@function
def writes(s: Slice[Step]) -> None:
    s[0].count = 1


NAMES: dict[str, Any] = {
    "Inner": Inner, "Step": Step, "takes": takes, "changes": changes, "reads": reads, "returns": returns, "writes": writes,
}  # fmt: skip
PARAMETERS = "y: SliceMut[f32], x: Slice[Step], z: SliceMut[Step], d: DisjointSlice[Step], p: Step, n: i32"


def kernel_of(body: str) -> Any:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return define(f"@kernel(grid=1, block=32)\ndef tested({PARAMETERS}) -> None:\n{lines}", **NAMES)["tested"]


CASES = [
    # fields, by their full names
    ("y[0] = x[0].size", ("`x[0]` is a Step, which has no field `size`",), "x[0].size", "x[0].weights, x[0].inner, x[0].corners, x[0].count"),
    ("y[0] = x[0].inner.size", ("`x[0].inner` is an Inner, which has no field `size`",), "x[0].inner.size", "x[0].inner.rate, x[0].inner.beta"),
    ("y[0] = p.inner.size", ("`p.inner` is an Inner",), "p.inner.size", "p.inner.rate, p.inner.beta"),
    ("y[0] = p.corners[1].size", ("`p.corners[1]` is an Inner",), "p.corners[1].size", "p.corners[1].rate"),
    ("s = x[0]\ny[0] = s.inner.size", ("`s.inner` is an Inner",), "s.inner.size", "s.inner.rate"),
    ("y[0] = x.count", ("an array has no `count`",), "x.count", "x[i].count"),
    ("y[0] = x[0].count.rate", ("`x[0].count` is a number (i32) and has no attribute `rate`",), "x[0].count.rate", ".dtype"),
    ("y[0] = x[0].weights.size", ("is an array (FixedArray[f32, 4]) and has no attribute `size`",), "x[0].weights.size", ".dtype and .shape"),
    ("y[0] = Step.dtype", ("the type Step has no attribute `dtype`",), "Step.dtype", "structs have fields"),
    # a number is wanted
    ("y[0] = x[0]", ("an element of `y` must be a number, not a Step",), "x[0]", "weights, inner, corners, count"),
    ("y[0] = x[0].weights", ("must be a number, not an array of f32 in a struct",), "x[0].weights", "x[0].weights[i]"),
    ("y[0] = x[0] + 1.0", ("an operand of `+` must be a number, not a Step",), "x[0]", "use one of its fields"),
    ("y[0] = -x[0]", ("an operand of `-` must be a number",), "x[0]", "use one of its fields"),
    ("y[0] = f32(x[0])", ("the argument of f32() must be a number",), "x[0]", "use one of its fields"),
    ("y[0] = Step", ("not the type Step",), "Step", "make one with Step(weights, inner, corners, count)"),
    ("if x[0]:\n    pass", ("a Step is neither true nor false",), "x[0]", "compare something"),
    ("y[0] = len(x[0])", ("a Step has no length",), "x[0]", "arrays, tuples"),
    ("warp_sum(x[0])", ("the value of warp_sum() must be a number, not a Step",), "x[0]", "use one of its fields"),
    ("y[x[0]] = 1.0", ("an index of `y` must be a number, not a Step",), "x[0]", "use one of its fields"),
    # elements
    ("y[0] = x[0][1]", ("`x[0]` is a Step, which has no elements",), "x[0][1]", "name a field: x[0].weights"),
    ("y[0] = x[0].count[1]", ("`x[0].count` is a number (i32), which has no elements",), "x[0].count[1]", "it is a number"),
    ("y[0] = x[0].weights[4]", ("index 4 is outside `x[].weights`, whose extent there is 4",), "4", "0 to 3"),
    ("y[0] = x[0].weights[-1]", ("index -1 is outside",), "-1", "0 to 3"),
    ("y[0] = x[0].weights[0, 1]", ("`x[].weights` has 1 dimensions, not 2",), "0, 1", "its shape is (4,)"),
    ("y[0] = p.weights[4]", ("index 4 is outside `p.weights`",), "4", "0 to 3"),
    ("s = x[0]\ny[0] = s.weights[4]", ("index 4 is outside `x[].weights`",), "4", "0 to 3"),
    ("y[0] = x[-1].inner.rate", ("index -1 of `x` is negative",), "-1", "indices start at 0"),
    ("y[0] = x[0, 1].inner.rate", ("`x` has one dimension, not 2",), "0, 1", "Slice[Step, D2]"),
    # what is only read
    ("x[0].count = 1", ("`x` is a Slice, which is only read",), "x[0].count", "SliceMut[Step], or as DisjointSlice[Step]"),
    ("x[0].inner.rate += 1.0", ("`x` is a Slice, which is only read",), "x[0].inner.rate", "SliceMut[Step]"),
    ("x[0].weights[1] = 1.0", ("`x` is a Slice, which is only read",), "x[0].weights[1]", "SliceMut[Step]"),
    ("x[0] = z[0]", ("`x` is a Slice, which is only read",), "x[0]", "SliceMut[Step]"),
    ("writes(z)", ("`z` came into writes as a Slice, which is only read",), "s[0].count", "SliceMut[Step]"),
    ("d[0].count = 1", ("`d` is a DisjointSlice: it is written only at the thread's own element",), "d[0]", "thread_index() itself"),
    ("y[0] = d[1].inner.rate", ("`d` is a DisjointSlice: it is read only at",), "d[1]", "thread_index() itself"),
    ("d[0] = z[0]", ("`d` is a DisjointSlice",), "d[0]", "thread_index() itself"),
    ("p.count = 1", ("a field of a struct value cannot be assigned",), "p.count", "make a new one, as in Step(...)"),
    ("p.inner.rate += 1.0", ("a field of a struct value cannot be assigned",), "p.inner.rate", "as in Inner(...)"),
    ("s = z[0]\ns.count = 1", ("a field of a struct value cannot be assigned",), "s.count", "structs are read only"),
    ("s = z[0]\ns.weights[0] = 1.0", ("`z[].weights` is an array in a struct, which is only read",), "s.weights[0]", "copy it to a"),
    ("p.weights[0] = 1.0", ("`p.weights` is an array in a struct",), "p.weights[0]", "copy it to a"),
    ("p.corners[0].rate = 1.0", ("`p.corners` is an array in a struct",), "p.corners[0].rate", "copy it to a"),
    ("z[0].weights.shape = 1", ("`z[0].weights.shape` cannot be assigned",), "z[0].weights.shape", "a field of an element"),
    ("changes(p.weights)", ("`s` of changes is SliceMut[f32], not an array of f32 in a struct",), "p.weights", "annotate the parameter"),
    ("changes(z[0].weights)", ("`s` of changes is SliceMut[f32]",), "z[0].weights", "annotate the parameter"),
    # values of other types
    ("z[0] = 1.0", ("an element of `z` is a Step, not the literal 1.0",), "1.0", "make one: Step(weights, inner, corners, count)"),
    ("z[0] = Inner(1.0, 2.0)", ("an element of `z` is a Step, not an Inner",), "Inner(1.0, 2.0)", "make one: Step("),
    ("z[0].inner = x[0]", ("`z[].inner` is an Inner, not a Step",), "x[0]", "make one: Inner(rate, beta)"),
    ("z[0].count = 1.5", ("the float 1.5 is not an i32 (`z[].count` is i32)",), "1.5", "i32(1.5)"),
    ("z[0].weights = 1.0", ("`z[].weights` is FixedArray[f32, 4], not the literal 1.0",), "1.0", "give it a tuple"),
    ("z[0].weights = (1.0, 2.0)", ("`z[].weights` takes 4 values (FixedArray[f32, 4]), not 2",), "(1.0, 2.0)", "as many"),
    ("a = local_array(3, f32)\nz[0].weights = a", ("`z[].weights` has the shape (4,), not (3,)",), "a", "FixedArray[f32, 4]"),
    ("a = local_array(4, f64)\na[0] = 1.0\nz[0].weights = a", ("an f64 does not become an f32 by itself",), "a", "f32(a)"),
    ("y[0] = takes(p.inner)", ("`s` of takes is a Step, not an Inner",), "p.inner", "make one: Step("),
    ("a = returns(p)", ("the result of returns is an Inner, not a Step",), "s", "make one: Inner(rate, beta)"),
    ("y[0] = reads(p.corners)", ("`s` of reads is Slice[f32], not an array of Inner in a struct",), "p.corners", "pass Slice[f32]"),
    # construction
    ("s = Inner(1.0)", ("Inner() lacks `beta`",), "Inner(1.0)", "Inner(rate, beta)"),
    ("s = Inner(1.0, 2.0, 3.0)", ("Inner() takes 2 values, not 3",), "Inner(1.0, 2.0, 3.0)", "Inner(rate, beta)"),
    ("s = Inner(rate=1.0, gamma=2.0)", ("Inner() has no field `gamma`",), "2.0", "rate, beta"),
    ("s = Inner(1.0, rate=2.0)", ("Inner() gets two values for `rate`",), "2.0", "Inner(rate, beta)"),
    ("s = Inner(rate=p, beta=1.0)", ("`Inner.rate` must be a number, not a Step",), "p", "use one of its fields"),
    ("s = Inner(p.inner.beta, 1.0)", ("an f64 does not become an f32 by itself", "`Inner.rate`"), "p.inner.beta", "f32(p.inner.beta)"),
    ("s = Inner(**p)", ("`**` in a call",), "p", "one by one"),
    # names and branches
    ("a = x[0]\na = 1", ("`a` was a Step and would become the literal 1",), "a", "use another name"),
    ("a = 1\na = x[0]", ("`a` was a number (i64) and would become a Step",), "a", "use another name"),
    ("a = x[0]\na = x[0].inner", ("`a` was a Step and would become an Inner",), "a", "use another name"),
    ("a: Step = x[0].inner", ("`a` was a Step and would become an Inner",), "a", "use another name"),
    ("a: FixedArray[f32, 4] = x[0].weights", ("is no element type",), "FixedArray[f32, 4]", "annotate with a type"),
    ("a: Step = x[0]\na: Inner = x[0].inner", ("`a` is declared twice",), "a", "give it one type"),
    ("a = x[0] if y[0] > 0 else p.inner", ("a Step and an Inner",), "x[0] if y[0] > 0 else p.inner", "of one kind"),
    ("a = x[0] if y[0] > 0 else 1.0", ("each side of a conditional expression must be a number, not a Step",), "x[0]", "use one of its fields"),
    # comparison
    ("a = x[0]\nif a == z[0]:\n    pass", ("`==` of a Step: structs are not compared",), "a == z[0]", "such as a.inner.rate"),
    ("if p.inner != z[0].inner:\n    pass", ("`!=` of an Inner",), "p.inner != z[0].inner", "such as p.inner.rate"),
    ("if x[0] < 1:\n    pass", ("`<` of a Step",), "x[0] < 1", "compare fields"),
    ("if x[0] in (1, 2):\n    pass", ("`==` of a Step",), "x[0] in (1, 2)", "compare fields"),
    # atomic operations
    ("atomic_add(z, 0, 1)", ("atomic_add() is on a number, and `z[]` is a Step",), "0", '"weights"'),
    ('atomic_add(z, (0, "weights"), 1.0)', ("`z[].weights` is an array (FixedArray[f32, 4])",), '(0, "weights")', "(i, …, 0)"),
    ('atomic_add(z, (0, "inner"), 1.0)', ("`z[].inner` is an Inner",), '(0, "inner")', '"rate"'),
    ('atomic_add(z, (0, "weights", 9), 1.0)', ("index 9 is outside `z[].weights`",), '(0, "weights", 9)', "0 to 3"),
    ('atomic_add(z, (0, "size"), 1)', ("`z[]` is a Step, which has no field `size`",), '(0, "size")', "z[].count"),
    ('atomic_add(z, (0, "count", "x"), 1)', ("`z[].count` is a number (i32) and has no field `x`",), '(0, "count", "x")', "only structs"),
    ('atomic_add(z, ("count", 0), 1)', ("the index of an element comes before the name of its field",), '("count", 0)', '(i, "count")'),
    ('atomic_add(z, (0, "count"), 1.5)', ("the float 1.5 is not an i32", "`z[].count`"), "1.5", "i32(1.5)"),
    ('atomic_min(z, (0, "inner", "rate"), 1.0)', ("atomic_min() of f32 elements exists neither",), '(0, "inner", "rate")', "atomic_cas"),
    ('atomic_add(x, (0, "count"), 1)', ("`x`, a Slice",), "x", "SliceMut[Step]"),
    ('atomic_add(d, (0, "count"), 1)', ("`d`, a DisjointSlice",), "d", "SliceMut[Step]"),
    ('atomic_add(p.corners, (0, "rate"), 1.0)', ("which is only read",), "p.corners", "SliceMut"),
    ("shared_array(70000, Step)", ("the shared arrays of the kernel take 5040000 bytes",), "shared_array(70000, Step)", "smaller arrays"),
    # instructions on whole arrays
    (
        "own = shared_array(4, Step)\ncopy_async(own, 0, x, 0, 1)",
        ("copy_async() works on arrays of numbers", "a shared array of Step are structs"),
        "own",
        "keep their numbers",
    ),
    ("print(x)", ("Slice[Step] cannot be printed",), "x", "structs, tuples"),
    ("a, b = x[0].weights[1:n]", ("a bound of a slice is known to the compiler",), "n", "literals"),
    ("a, b = x[0:2]", ("a slice of Slice[Step]: only local arrays and arrays in structs have them",), "0:2", "single elements"),
    ("x[0].weights[1:3] = (1.0, 2.0)", ("`x` is a Slice, which is only read",), "x[0].weights[1:3]", "SliceMut[Step]"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "words", "at", "hint"), CASES, ids=[case[0] for case in CASES])
def test_refused(body: str, words: tuple[str, ...], at: str, hint: str) -> None:
    refused(kernel_of(body), *words, at=at, hint=hint)


def test_two_kinds_of_witness_through_fields() -> None:
    body = "d[thread_index()].count = 1\nif is_first_thread():\n    y[0] = d[block_index()].inner.rate"
    kernel = define(
        f"@kernel(grid=4, block=64)\ndef tested({PARAMETERS}) -> None:\n" + "".join(f"    {line}\n" for line in body.splitlines()), **NAMES
    )
    refused(kernel["tested"], "accessed through", at="d[block_index()]", hint="one kind of witness", also="d[thread_index()]")


def test_a_plain_class_is_no_struct() -> None:
    class Plain:
        pass

    kernel = define("@kernel(grid=1)\ndef tested(y: SliceMut[f32]) -> None:\n    p = Plain()\n    y[0] = 1.0", Plain=Plain)["tested"]
    refused(kernel, "the class `Plain` has no meaning in a kernel", at="Plain", hint="@struct")


def test_a_number_of_a_type_variable_is_no_struct() -> None:
    space = define(
        'T = TypeVar("T")\n@kernel(grid=elements("y"))\ndef tested(y: SliceMut[T], a: T) -> None:\n    y[0] = a',
        TypeVar=__import__("typing").TypeVar,
    )
    refused(space["tested"], "`a` is a number of type ~T", at="a: T", hint="annotate the parameter with the struct itself", T=Step)
