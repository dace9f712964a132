"""The pages as a site, and the picture of the rooms."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fastnode.development import rooms_picture, site
from fastnode.development.rooms import ROOMS, allowed_imports

PROJECT = Path(__file__).parents[2]


def test_every_link_of_the_pages_leads_to_a_file_and_to_its_heading() -> None:
    assert list(site.broken_links()) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# One\n\n[a](docs/no.md) [b](docs/two.md#three) [c](docs/two.md#two-words)\n")
    (tmp_path / "docs" / "two.md").write_text(
        "## `Two` words\n\n```sh\n# three\n```\n\n[d](#four) [e](https://x.example/#y)\n"
    )
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "README.md").write_text("# Bench\n")
    monkeypatch.setattr(site, "PROJECT", tmp_path)
    assert list(site.broken_links()) == [
        "README.md: docs/no.md leads to no file",
        "README.md: docs/two.md#three leads to no heading",
        "docs/two.md: #four leads to no heading",
    ]


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src"):
                self.links.append(value or "")
            elif name == "id":
                self.names.append(value or "")


def test_the_site_is_whole_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    assert site.build(tmp_path) == len(site.pages())
    found = {file: Page(file.read_text()) for file in tmp_path.rglob("*.html")}
    assert len(found) == len(site.pages())
    for file, page in found.items():
        assert len(page.names) == len(set(page.names)), file
        assert "<th></th>" not in file.read_text(), file  # readers of screens would announce a heading without words
        for link in page.links:
            path, _, fragment = link.partition("#")
            if "://" in link:
                continue
            target = (file.parent / path).resolve() if path else file
            if target.suffix in (".html", ".css", ".png"):
                assert target.is_file(), (file, link)
            if fragment and target in found:
                assert fragment in found[target].names, (file, link)
        assert not re.findall(r"<(?:script|iframe)\b|<link[^>]*://|<img[^>]*://", file.read_text())


def test_every_page_is_in_the_menu() -> None:
    assert {Path(name) for _, names in site.MENU for name in names} == set(site.pages())


def test_the_picture_of_the_rooms_is_that_of_the_table() -> None:
    made = rooms_picture.render()
    assert (PROJECT / "docs" / "images" / "rooms.svg").read_text() == made, "run scripts/make-docs"
    texts = [element.text for element in ElementTree.fromstring(made).iter("{http://www.w3.org/2000/svg}text")]
    assert sorted(texts, key=str) == sorted(room.title for room in ROOMS)


def test_every_room_stands_above_what_it_may_import() -> None:
    *lower, last = rooms_picture.shelves()
    level = {room.name: place for place, shelf in enumerate(lower) for room in shelf}
    for shelf in lower:
        for room in shelf:
            assert all(level[name] < level[room.name] for name in allowed_imports(room)), room.name
    assert last == [room for room in ROOMS if room in last]
    assert len(ROOMS) == sum(map(len, lower)) + len(last)
