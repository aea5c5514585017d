"""Reports: there and back through JSON, several as one, and what could not be looked at."""

from dataclasses import replace

from kdsl.runtime.sanitizer import Finding, Report, Spot

WRITE = Spot("write", "a.py", 3, 5, ("b.py:9:1",), (1, 0, 0), (2, 0, 0))
READ = Spot("read", "a.py", 4, 5, (), None, None)
RACE = Finding("race", "tested", "race on s[1]", "put a barrier there", WRITE, READ, "s", (1,), count=3)


def test_there_and_back() -> None:
    report = Report([RACE, replace(RACE, kind="divide", other=None, index=())], ["kernel far: it was launched on cuda:0"], 7, ["tested"])
    again = Report.from_json(report.as_json())
    assert again == report
    assert again.findings[0].count == 3


def test_a_race_is_one_whichever_access_came_first() -> None:
    other_way = replace(RACE, spot=READ, other=WRITE, count=2)
    joined = Report.joined([Report([RACE], ["x"], 1, ["tested"]), Report([other_way], ["x", "y"], 2, ["another"])])
    assert [finding.count for finding in joined.findings] == [5]
    assert (joined.unchecked, joined.launches, joined.kernels) == (["x", "y"], 3, ["another", "tested"])


def test_text() -> None:
    assert Report([RACE], ["kernel far: it was launched on cuda:0"], 1200, ["tested"]).text() == (
        "1. kernel tested: race on s[1]\n"
        "   write at a.py:3:5, block (1, 0, 0), thread (2, 0, 0)\n"
        "     called from b.py:9:1\n"
        "   read at a.py:4:5, several blocks, several threads\n"
        "   found 3 times; this is the first\n"
        "   hint: put a barrier there\n\n"
        "not checked: kernel far: it was launched on cuda:0\n\n"
        "kdsl: 1 finding in 1,200 launches of 1 kernel"
    )
    assert Report().text() == "kdsl: nothing found in 0 launches of 0 kernels"
