"""Parts of pages between two marks."""

from __future__ import annotations

import pytest

from fastnode.development.marked_pages import renew

PAGE = """# Title
<!-- rooms: made by scripts/make-docs -->
old
<!-- end of rooms -->
text
<!-- tables: made by scripts/make-docs -->
kept
<!-- end of tables -->
"""


def test_what_stands_between_the_marks_of_a_name_is_renewed_and_all_else_stays() -> None:
    assert renew(PAGE, "rooms", "new\nlines") == PAGE.replace("old", "new\nlines")
    assert renew(PAGE, "tables", "kept") == PAGE


@pytest.mark.parametrize(
    "page", ["no marks", PAGE.replace("<!-- end of rooms -->", ""), PAGE.replace("<!-- rooms:", "<!-- room:")]
)
def test_a_page_without_its_marks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="lacks the marks of rooms"):
        renew(page, "rooms", "new")
