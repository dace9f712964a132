"""The table of methods in the page of local networks, and its example of a job."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from fastnode.development.local_network_page import render_page

PAGE = Path(__file__).parents[2] / "docs" / "local-network.md"


def test_the_table_of_methods_is_current() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == render_page(text), "run scripts/make-docs"


def test_the_example_of_a_job_is_one() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    steps = yaml.safe_load(text)["jobs"]["test"]["steps"]
    assert any("fastnode start --local-network" in step.get("run", "") for step in steps)
