"""The page of intrinsics is what the table says."""

from pathlib import Path

from kdsl.lang.intrinsics import INTRINSICS
from kdsl.testing.reference import intrinsics_page

PAGE = Path(__file__).parents[3] / "docs" / "intrinsics.md"


def test_the_page_is_up_to_date() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == intrinsics_page(), "write it anew: python -m kdsl.testing.reference > docs/intrinsics.md"


def test_every_row_stands_on_it_once() -> None:
    page = intrinsics_page()
    for name, row in INTRINSICS.items():
        assert page.count(f"| `{name}{row.signature}` |") == 1
