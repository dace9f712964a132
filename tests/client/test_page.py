"""The page about Python: its code runs, in order, against a node."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "python.md"


def blocks(page: Path = PAGE) -> list[str]:
    found = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert page != PAGE or len(found) > 4
    return found


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_code_of_the_page_does_what_it_says(start_node: Callable[..., Any], short_chain: Path) -> None:
    node = start_node("--chain-file", short_chain, "--metrics-port=0").wait_until_serving()
    node.wait_for_line("chain file loaded")
    whole = "\n".join(blocks()).replace("http://127.0.0.1:8080", node.url)
    run(whole)
    told = run(blocks(PAGE.with_name("push.md"))[0].replace("http://127.0.0.1:8080", node.url))
    assert len(told.splitlines()) == node.call("node_getBlockNumber")["result"]
    # The last block alone is what a newcomer copies: a witness, verified.
    assert re.fullmatch(r"0x[0-9a-f]{64}\n", run(blocks()[-1].replace("http://127.0.0.1:8080", node.url)))


def test_a_witness_takes_a_dozen_lines() -> None:
    assert len([line for line in blocks()[-1].splitlines() if line]) <= 12


@pytest.mark.long
def test_code_that_uses_the_client_is_well_typed(tmp_path: Path) -> None:
    file = tmp_path / "page.py"
    file.write_text("\n".join(blocks()))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", file]
    environment = {"MYPYPATH": str(PROJECT / "src"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "page.py" not in done.stdout.replace("Success: no issues found in 1 source file", ""), done.stdout
