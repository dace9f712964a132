"""The pages of the project as a site of plain files: ``python -m fastnode.development.site FOLDER``.

Every Markdown page becomes an HTML page, with links between pages and to headings checked on the way: one that leads
nowhere ends it with 1.  Nothing is loaded from elsewhere.  The package markdown-it-py comes with the extra ``tty``.
"""

from __future__ import annotations

import html
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

__all__ = ["broken_links", "build"]

PROJECT: Final = Path(__file__).parents[3]
#: Headings of the menu, and the pages below each, in order.
MENU: Final = (
    (
        "Begin",
        ("README.md", "docs/for-whom.md", "docs/installing.md", "docs/getting-started.md", "docs/local-network.md"),
    ),
    (
        "Use",
        (
            "docs/wallets.md",
            "docs/python.md",
            "docs/methods.md",
            "docs/methods-5.md",
            "docs/events.md",
            "docs/push.md",
            "docs/analysis.md",
            "docs/compatibility.md",
            "docs/networks.md",
            "docs/releases.md",
            "docs/comparisons.md",
            "docs/glossary.md",
        ),
    ),
    (
        "Operate",
        (
            "docs/operations.md",
            "docs/incidents.md",
            "docs/monitoring.md",
            "docs/block-sources.md",
            "docs/public-endpoints.md",
            "docs/storage.md",
            "docs/backups.md",
            "docs/upgrades.md",
            "docs/mistakes.md",
            "docs/settings.md",
            "docs/security.md",
            "docs/behind-a-gateway.md",
            "docs/performance.md",
            "docs/workers.md",
            "docs/fleet.md",
            "docs/p2p.md",
            "docs/sequencer.md",
            "docs/proofs.md",
        ),
    ),
    (
        "Work on it",
        (
            "docs/architecture.md",
            "docs/public-execution.md",
            "docs/dependencies.md",
            "CONTRIBUTING.md",
            "docs/testing.md",
            "bench/README.md",
            "CHANGELOG.md",
            "SECURITY.md",
        ),
    ),
)
_FIRST: Final = "README.md"
_HEADING: Final = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ANCHOR: Final = re.compile(r'<a id="([\w-]+)">')
_LINK: Final = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")

_STYLE: Final = """\
:root { color-scheme: light dark; --ink: #17202b; --paper: #fff; --quiet: #55606e; --line: #d5dae1; --link: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6eaf0; --paper: #11151b; --quiet: #a3adba; --line: #323b47; --link: #7db8f5; }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
a { color: var(--link); }
nav { padding: 1rem; border-bottom: 1px solid var(--line); }
nav ul { margin: 0 0 0.75rem; padding-left: 1rem; }
nav b { color: var(--quiet); font-weight: 600; }
main { padding: 1rem; max-width: 56rem; overflow-wrap: anywhere; }
pre, table { overflow-x: auto; display: block; max-width: 100%; }
code { font: 0.9em ui-monospace, monospace; }
pre { padding: 0.75rem; border: 1px solid var(--line); border-radius: 0.4rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.7rem 0.3rem 0; }
th, td { border-bottom: 1px solid var(--line); }
img { max-width: 100%; height: auto; }
@media (min-width: 60rem) {
  body { display: grid; grid-template-columns: 15rem minmax(0, 1fr); }
  nav { border: 0; border-right: 1px solid var(--line); }
}
"""


def pages() -> list[Path]:
    """All of them, relative to the project."""
    found = [*PROJECT.glob("*.md"), *PROJECT.glob("docs/*.md"), PROJECT / "bench" / "README.md"]
    return sorted(page.relative_to(PROJECT) for page in found)


def slug(heading: str) -> str:
    """The name of a heading in addresses, as GitHub makes it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text: str) -> set[str]:
    """Return the fragments that links to a page may name: those of its headings and its ``<a id="...">`` elements."""
    text = _FENCE.sub("", text)
    found: set[str] = set(_ANCHOR.findall(text))
    for heading in _HEADING.findall(text):
        name = base = slug(heading)
        count = 0
        while name in found:
            count += 1
            name = f"{base}-{count}"
        found.add(name)
    return found


def broken_links() -> Iterator[str]:
    """Links of pages that lead to no file, or to no heading of its page."""
    for page in pages():
        text = _FENCE.sub("", (PROJECT / page).read_text(encoding="utf-8"))
        for target in _LINK.findall(text):
            if "://" in target or target.startswith("mailto:"):
                continue
            path, _, fragment = target.partition("#")
            file = (PROJECT / page).parent / path if path else PROJECT / page
            if not file.exists():
                yield f"{page}: {target} leads to no file"
            elif fragment and file.suffix == ".md" and fragment not in anchors(file.read_text(encoding="utf-8")):
                yield f"{page}: {target} leads to no heading"


def address_of(page: Path) -> str:
    return "index.html" if page == Path(_FIRST) else page.with_suffix(".html").as_posix()


def title_of(page: Path) -> str:
    found = _HEADING.search((PROJECT / page).read_text(encoding="utf-8"))
    return found[1].replace("`", "") if found else page.stem


def build(to: Path) -> int:
    """Write the site; the count of its pages."""
    from markdown_it import MarkdownIt

    writer = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    known = pages()
    for page in known:
        target = to / address_of(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_page(writer, page, known), encoding="utf-8")
    (to / "site.css").write_text(_STYLE)
    for folder in ("docs/images", "bench/pictures"):
        shutil.copytree(PROJECT / folder, to / folder, dirs_exist_ok=True)
    shutil.copy(PROJECT / "LICENSE", to / "LICENSE")
    return len(known)


def _page(writer: Any, page: Path, known: list[Path]) -> str:
    tokens = writer.parse((PROJECT / page).read_text(encoding="utf-8"))
    used: set[str] = set()
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            name = base = slug(tokens[index + 1].content)
            count = 0
            while name in used:
                count += 1
                name = f"{base}-{count}"
            used.add(name)
            token.attrSet("id", name)
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", _address(str(child.attrGet("href")), page, known))
    up = "../" * (len(page.parts) - 1)
    # Blocks that scroll can be reached without a mouse.
    body = writer.renderer.render(tokens, writer.options, {}).replace("<pre>", '<pre tabindex="0">')
    # A corner of a table, or a whole first row, that has no text heads nothing.
    body = body.replace("<th></th>", "<td></td>")
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title_of(page))} · fastnode</title>\n"
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="stylesheet" href="{up}site.css">\n'
        f'<nav aria-label="Pages">{_menu(up, known)}</nav>\n<main>\n{body}</main>\n</html>\n'
    )


def _menu(up: str, known: list[Path]) -> str:
    parts = []
    for heading, names in MENU:
        items = [Path(name) for name in names if Path(name) in known]
        lines = "".join(
            f'<li><a href="{up}{address_of(item)}">{html.escape(title_of(item))}</a></li>' for item in items
        )
        parts.append(f"<b>{heading}</b><ul>{lines}</ul>")
    return "".join(parts)


def _address(target: str, page: Path, known: list[Path]) -> str:
    """A link of a page, on the site; files of the repository that are no pages keep their place in it."""
    path, mark, fragment = target.partition("#")
    if "://" in target or not path.endswith(".md"):
        return target
    file = (PROJECT / page.parent / path).resolve().relative_to(PROJECT)
    if file not in known:
        return target
    up = "../" * (len(page.parts) - 1)
    return f"{up}{address_of(file)}{mark}{fragment}"


def main(arguments: list[str]) -> int:
    broken = list(broken_links())
    for line in broken:
        print(line, file=sys.stderr)
    if broken or not arguments:
        return 1 if broken else 0
    print(f"{build(Path(arguments[0]))} pages in {arguments[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
