"""Pages tell the figures of bench/figures.json."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fastnode.development.figures import Figures, render_page

ROOT = Path(__file__).parents[2]
FILE = ROOT / "bench" / "figures.json"
PAGES = [ROOT / "README.md", ROOT / "bench" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return loaded


@pytest.mark.parametrize("page", PAGES, ids=_name_of)
def test_a_page_has_the_figures_of_the_file(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == render_page(text, Figures.read(FILE)), "run scripts/make-docs"


def test_scripts_make_docs_fills_each_page_that_has_marks() -> None:
    marked = {_name_of(page) for page in PAGES if "<!-- figures: " in page.read_text(encoding="utf-8")}
    script = (ROOT / "scripts" / "make-docs").read_text(encoding="utf-8")
    line = next(line for line in script.splitlines() if "fastnode.development.figures" in line)
    named = re.sub(r"docs/\{([^}]+)\}\.md", lambda m: " ".join(f"docs/{name}.md" for name in m[1].split(",")), line)
    assert marked == set(named.split("bench/figures.json")[1].split())


def test_each_measurement_is_told_somewhere_and_says_how_it_was_made(record: dict[str, Any]) -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name, fields in record["measurements"].items():
        assert f"<!-- figures: {name} -->" in pages, name
        if "run" in fields:
            assert "command" in record["measurements"][fields["run"]], name
            continue
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", fields["date"]), name
        assert fields["machine"] in record["machines"], name
        assert all((fields["load"], fields["versions"])), name
        for script in re.findall(r"(?:scripts|bench)/[\w./-]+", fields["command"]):
            assert (ROOT / script).exists(), script


def test_a_row_can_be_quoted_by_its_name(record: dict[str, Any]) -> None:
    for name, fields in record["measurements"].items():
        names = [row[0] for row in fields["rows"] if row[0]]
        assert len(set(names)) == len(names), name
        assert all(len(row) == len(fields["columns"]) for row in fields["rows"]), name


RECORD: dict[str, Any] = {
    "machines": {"m": "a machine"},
    "measurements": {
        "speed": {
            "environment": "SIZE=2",
            "command": "bench/x.py",
            "date": "2026-01-02",
            "machine": "m",
            "load": "alone",
            "versions": "Python 3",
            "columns": ["what", "least", "limit"],
            "rows": [["a read", "**5 us** (4 to 6)", ""], ["a write", "9 us", "10 us"]],
        },
        "size": {"run": "speed", "columns": ["what", ""], "rows": [["a block", "2 kB"]]},
    },
    "tables": {
        "short": {"columns": ["figure", "command"], "rows": [["{speed|a read|least}, {size|a block|}", "{speed}"]]},
        "no row": {"columns": ["figure"], "rows": [["{speed|a thought|least}"]]},
        "no column": {"columns": ["figure"], "rows": [["{speed|a read|most}"]]},
        "no measurement": {"columns": ["figure"], "rows": [["{depth|a read|least}"]]},
    },
}


def test_a_measurement_comes_with_its_command_date_machine_and_load() -> None:
    page = render_page("before\n<!-- figures: speed -->\nold\n<!-- end of figures -->\nafter", Figures(RECORD))
    assert page == (
        "before\n<!-- figures: speed -->\n| what | least | limit |\n|---|---|---|\n| a read | **5 us** (4 to 6) | |\n"
        "| a write | 9 us | 10 us |\n\n"
        "2026-01-02, a machine, alone, Python 3: `SIZE=2 bench/x.py`\n<!-- end of figures -->\nafter"
    )


def test_a_table_of_the_same_run_does_not_repeat_it() -> None:
    assert Figures(RECORD).render("size") == "| what | |\n|---|---|\n| a block | 2 kB |"


def test_a_table_quotes_a_figure_without_its_spread_and_the_command() -> None:
    assert Figures(RECORD).render("short").splitlines()[2] == "| 5 us, 2 kB | `bench/x.py` |"


@pytest.mark.parametrize("name", ["no row", "no column", "no measurement", "nothing of that name"])
def test_what_is_not_there_cannot_be_quoted(name: str) -> None:
    with pytest.raises(ValueError, match=r"no (figure|measurement)|no figures"):
        Figures(RECORD).render(name)
