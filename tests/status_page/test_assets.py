"""The page's own files: what can be seen in them without a browser."""

from __future__ import annotations

import re
from importlib import resources

import pytest

ASSETS = resources.files("fastnode.status_page") / "assets"
STYLE = (ASSETS / "page.css").read_text()
PAGE = (ASSETS / "page.html").read_text()

#: Contrast that the accessibility guidelines ask of text, and of lines.
TEXT_CONTRAST = 4.5
LINE_CONTRAST = 3.0


def colours(scheme: str) -> dict[str, str]:
    """The named colours of ``light`` or ``dark``."""
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", light if scheme == "light" else dark))


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_lines_can_be_told_from_their_ground(scheme: str) -> None:
    palette = colours(scheme)
    for name in ("ink", "quiet", "link", "good", "warn", "bad"):
        for ground in ("paper", "card"):
            assert contrast(palette[name], palette[ground]) >= TEXT_CONTRAST, (name, ground)
    for number in range(6):
        assert contrast(palette[f"c{number}"], palette["card"]) >= LINE_CONTRAST, number


def test_both_schemes_name_the_same_colours() -> None:
    assert colours("light").keys() == colours("dark").keys()


def test_every_field_has_a_label_and_every_table_its_heads() -> None:
    fields = re.findall(r'<input id="(\w+)"', PAGE)
    assert fields == ["key", "query", "seconds"]
    for name in fields:
        assert f'<label for="{name}">' in PAGE
    assert PAGE.count("<th ") == PAGE.count('<th scope="col"')


def test_every_name_that_the_scripts_look_for_is_in_the_page() -> None:
    names = set(re.findall(r' id="([\w-]+)"', PAGE))
    scripts = "".join(path.read_text() for path in ASSETS.iterdir() if path.name.endswith(".js"))
    wanted = set(re.findall(r'byId\("([\w-]+)"\)', scripts))
    assert wanted - names == set()
    described = set(re.findall(r'aria-(?:labelledby|describedby)="([\w-]+)"', PAGE))
    assert described - names == set()
    assert len(names) == PAGE.count(' id="')
