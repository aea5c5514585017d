"""The picture of docs/matmul.md, from the table of rungs that stands there: `python benchmarks/matmul_picture.py`."""

import re
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

DOCS = Path(__file__).parent.parent / "docs"
RUNG = re.compile(r"\| ([^|]+?) \|.*\| (fp32|tf32|3xtf32|bf16) ([\d.]+)(?: \(cuBLAS ([\d.]+)[^)]*\))? \|")
"""A row of the table: the rung, its precision, TFLOP/s, and those of cuBLAS."""
COLOURS = {"fp32": "#4477aa", "3xtf32": "#66ccee", "tf32": "#228833", "bf16": "#ccbb44"}


def main() -> None:
    """Draw a bar per rung, and a line where cuBLAS is."""
    rungs = [found.groups() for line in (DOCS / "matmul.md").read_text(encoding="utf-8").splitlines() if (found := RUNG.fullmatch(line))]
    mpl.rcParams["svg.hashsalt"] = "matmul"
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for place, (_, precision, rate, peer) in enumerate(rungs):
        axes.barh(place, float(rate), color=COLOURS[precision])
        axes.text(max(float(rate), float(peer or 0)) * 1.05, place, rate, va="center", fontsize=8)
        if peer:
            axes.plot([float(peer)] * 2, [place - 0.4, place + 0.4], color="black", linewidth=1.5)
    axes.set_yticks(range(len(rungs)), [f"{name}, {precision}" for name, precision, *_ in rungs])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(1, 2000)
    axes.set_xlabel("TFLOP/s at 4096³ (black: cuBLAS)")
    figure.savefig(DOCS / "images" / "matmul.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
