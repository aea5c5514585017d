"""The Python programs in the README and in the documentation run: the blocks of a page one after the other, as one program."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [page for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if "```python" in page.read_text()]


def program(page: Path) -> str:
    """The Python blocks of a page, at the lines where they stand in it."""
    lines, inside = [], False
    for line in page.read_text().splitlines():
        fence = re.match(r"```(\w*)", line)
        if fence:
            inside = fence[1] == "python" and not inside
            lines.append("")
        else:
            lines.append(line if inside else "")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_runs(page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"{page.stem}.py"  # kernels are compiled from source, so there has to be a file
    file.write_text(program(page))
    exec(compile(file.read_text(), str(file), "exec"), {"__name__": "__main__"})
