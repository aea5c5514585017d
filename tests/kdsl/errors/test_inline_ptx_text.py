"""Inline PTX that could harm what stands around it, with the place and the way out; nothing of it reaches LLVM."""

from __future__ import annotations

import pytest
from refusal import refused

from kdsl import SliceMut, f32, function, i32, inline_ptx, kernel, lane_index, u8, u32
from kdsl.frontend.instructions.ptx_text import fault

OK = [
    "mov.b32 {0}, {1};",
    "{ .reg .pred p; setp.ne.u32 p, {1}, 0; selp.b32 {0}, 1, 0, p; }",
    "{ .reg .b32 %t<3>; mov.b32 {%t1, %t2}, {1}; @%p1 bra done; add.u32 {0}, %t1, %t2; done: }",
    "mov.b32 {0}, {1}; // a comment with } and .entry",
    "/* ret; */ mov.b32 {0}, {1};",
    "ld.shared::cluster.b32 {0}, [{1}];",
    "ld.param.b32 {0}, [{1}+4];",
    "mov.b32 {0}, %ctaid.x; mov.b32 {0}, {1};",
    "mov.b32 {0}, $x; mov.b32 {0}, {1};",
]


@pytest.mark.parametrize("text", OK)
def test_what_passes(text: str) -> None:
    assert fault(text, 1, 1) is None


BAD = {
    "add.u32 {0}, {1}, {2};": "{2} stands for nothing",
    "mov.b32 {0}, 1;": "the operand {1} does not occur",
    "st.global.b32 [{1}], 1;": "the result {0} does not occur",
    "mov.b32 {0}, {1}": "an instruction that does not end",
    "mov.b32 {0}, {1}; }": "a } that closes nothing",
    "{ mov.b32 {0}, {1};": "a { that is not closed",
    "mov.b32 {0}, [{1};": "a [ that is not closed",
    "mov.b32 {0}, ({1}];": "a ] that closes nothing",
    "mov.b32 {0}, {1}; /* open": "a comment that does not end",
    "mov.b32 {0}, {1}; */": "a comment that does not end",
    '.pragma "nounroll"; mov.b32 {0}, {1};': "a string",
    "mov.b32 {0}, {1}; \0": "the character '\\x00'",
    "mov.b32 {0}, {1}; é": "the character 'é'",
    "// {0} {1}": "the result {0} does not occur",
    "} .visible .entry evil() { mov.b32 {0}, {1};": "a } that closes nothing",
    "{ .visible .entry evil() { } mov.b32 {0}, {1}; }": "the directive .visible",
    ".reg .b32 t; mov.b32 {0}, {1};": ".reg outside of braces",
    "again: mov.b32 {0}, {1};": "the label again outside of braces",
    "mov.b32 {0}, {1}; bra $L__BB0_2;": "a jump to $L__BB0_2",
    "{ mov.b32 {0}, {1}; @p bra away; }": "a jump to away",
    "mov.b32 {0}, {1}; ret;": "`ret`, by which a thread leaves the text",
    "mov.b32 {0}, {1}; @%p1 exit;": "`exit`",
    "mov.b32 {0}, {1}; call.uni f;": "`call`",
    ".loc 1 2 3; mov.b32 {0}, {1};": "the directive .loc",
    "mov.b32 {0}, {1};" * 700: "a text of 11900 characters",
}


@pytest.mark.parametrize("text", BAD, ids=lambda text: text[:30])
def test_what_is_refused(text: str) -> None:
    found = fault(text, 1, 1)
    assert found is not None
    assert BAD[text] in found.message
    assert found.hint


def test_nothing_at_all() -> None:
    found = fault("  // nothing\n", 0, 0)
    assert found is not None
    assert "no instruction" in found.message


def test_places() -> None:
    @kernel(grid=1, block=32)
    def text(y: SliceMut[u32]) -> None:
        y[0] = inline_ptx("mov.b32 {0}, {1}; }", u32, (y[0],))

    refused(text, "a } that closes nothing", at='"mov.b32 {0}, {1}; }"', hint="belongs to")

    @kernel(grid=1, block=32)
    def number(y: SliceMut[u32]) -> None:
        y[0] = inline_ptx(3, u32, (y[0],))

    refused(number, "the template of inline_ptx() is a string", at="3", hint="write it out")

    @kernel(grid=1, block=32)
    def single(y: SliceMut[u32]) -> None:
        y[0] = inline_ptx("mov.b32 {0}, {1};", u32, y[0])

    refused(single, "the operands of inline_ptx() are a tuple", at="y[0]", hint="write (y[0],)")

    @kernel(grid=1, block=32)
    def literal(y: SliceMut[u32]) -> None:
        y[0] = inline_ptx("mov.b32 {0}, {1};", u32, (7,))

    refused(literal, "a literal as an operand of inline_ptx() has no type", at="7", hint="u32(7)")

    @kernel(grid=1, block=32)
    def narrow(y: SliceMut[u8]) -> None:
        inline_ptx("mov.b32 t, {0};", None, (y[0],))

    refused(narrow, "a u8 has no register of its own", at="y[0]", hint="u32(y[0])")

    @kernel(grid=1, block=32)
    def flag(y: SliceMut[u32]) -> None:
        y[0] = u32(inline_ptx("mov.b32 {0}, 1;", bool, ()))

    refused(flag, "a bool has no register of its own", at="bool", hint="u32 and compare")

    @kernel(grid=1, block=32)
    def results(y: SliceMut[u32]) -> None:
        y[0] = inline_ptx("mov.b32 {0}, 1;", 3, ())

    refused(results, "a result of inline_ptx() is the literal 3", at="3", hint="(u32, f32)")

    @kernel(grid=1, block=32)
    def nothing(y: SliceMut[u32]) -> None:
        inline_ptx("membar.gl;", None, (), volatile=False)

    refused(nothing, "without results and without effects", at='inline_ptx("membar.gl;", None, (), volatile=False)', hint="volatile=True")

    @kernel(grid=1, block=32)
    def target(y: SliceMut[u32]) -> None:
        inline_ptx("membar.gl;", None, (), target="hopper")

    refused(target, "`target` of inline_ptx() is the string 'hopper'", at='"hopper"', hint="sm_90a")

    @kernel(grid=1, block=32)
    def plain(y: SliceMut[u32]) -> None:
        inline_ptx("membar.gl;", None, (), cpu=3)

    refused(plain, "`cpu` of inline_ptx() is a @function, not the literal 3", at="3", hint="@function")


def test_what_stands_for_it_on_the_cpu_has_the_same_results() -> None:
    @function
    def two(x: u32) -> tuple[u32, u32]:
        return x, x

    @kernel(grid=1, block=32)
    def wrong(y: SliceMut[u32]) -> None:
        y[0] = inline_ptx("mov.b32 {0}, {1};", u32, (y[0],), cpu=two)

    refused(wrong, "a result of two must be a number, not a tuple of 2", at="two", hint="one by one")

    @function
    def real(x: u32) -> f32:
        return f32(x)

    @kernel(grid=1, block=32)
    def typed(y: SliceMut[u32]) -> None:
        y[0] = inline_ptx("mov.b32 {0}, {1};", u32, (y[0],), cpu=real)

    refused(typed, "an f32 does not become a u32", at="real", hint="u32(")


def test_all_lanes_have_to_reach_what_says_so() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: SliceMut[i32]) -> None:
        if lane_index() > 3:
            y[0] = inline_ptx("vote.sync.ballot.b32 {0}, 1, 0xffffffff;", i32, (), together="warp")

    refused(
        wrong,
        "not all lanes of the warp reach inline_ptx() together",
        at='inline_ptx("vote.sync.ballot.b32 {0}, 1, 0xffffffff;", i32, (), together="warp")',
        hint="whole warp",
        also="lane_index() > 3",
    )


def test_what_stands_for_nothing_is_named_first() -> None:
    @kernel(grid=1, block=32)
    def wrong(y: SliceMut[u32]) -> None:
        y[0] = inline_ptx("add.u32 {0}, {1}, {5};", u32, (y[0], y[1]))

    refused(wrong, "{5} stands for nothing", at='"add.u32 {0}, {1}, {5};"', hint="results: {0}; operands: {1}, {2}")
