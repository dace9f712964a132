"""Parts of pages that are made from the code: what stands between two marks with a name.

<!-- NAME: made by scripts/make-docs -->
...
<!-- end of NAME -->
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

__all__ = ["renew", "renew_named_file"]


def renew(page: str, name: str, content: str) -> str:
    """``page`` with ``content`` between the marks of ``name``; ValueError if it lacks one of them."""
    before, begin, rest = page.partition(f"<!-- {name}: made by scripts/make-docs -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->")
    if not begin or not end:
        raise ValueError(f"the page lacks the marks of {name}")
    return f"{before}{begin}{content}\n{end}{after}"


def renew_named_file(render_page: Callable[[str], str]) -> None:
    """Write the page that the command names anew."""
    file = Path(sys.argv[1])
    file.write_text(render_page(file.read_text(encoding="utf-8")), encoding="utf-8")
