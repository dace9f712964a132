"""The wallet that the network publishes, against a local network; FASTNODE_WALLET=1 has scripts/test fetch it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastnode.testing import RunningNetwork, local_network

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "local-network.md"
#: A transaction takes more than a second to make, and many times that on a busy machine.
PATIENCE_S = 1200.0


@pytest.fixture(scope="module")
def packages() -> Path:
    """A folder with ``node`` and the packages."""
    folder = os.environ.get("FASTNODE_TEST_WALLET", "")
    if not folder:
        pytest.skip("the published wallet is asked for by FASTNODE_WALLET=1")
    return Path(folder)


@pytest.fixture
def network() -> Iterator[RunningNetwork]:
    with local_network() as network:
        yield network


def run(packages: Path, script: str, url: str, scratch: Path) -> str:
    """What a script prints; it stands where its imports are found."""
    (scratch / "node_modules").symlink_to(packages / "node_modules")
    file = scratch / "script.mjs"
    file.write_text(script)
    done = subprocess.run(
        [str(packages / "node"), str(file)],
        cwd=scratch,
        env={**os.environ, "NODE_URL": url, "LOG_LEVEL": "warn"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_the_script_of_the_page_about_local_networks_moves_tokens_privately(
    packages: Path, network: RunningNetwork, tmp_path: Path
) -> None:
    match = re.search(r"^```js\n(// first\.mjs\n.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert match is not None
    script = match[1].replace("http://localhost:8080", network.url)
    assert "bob has 40n" in run(packages, script, network.url, tmp_path)
    assert network.block_number > 3


def test_two_wallets_find_their_notes_beyond_the_window_of_tags(
    packages: Path, network: RunningNetwork, tmp_path: Path
) -> None:
    printed = run(packages, (HERE / "scenario.mjs").read_text(), network.url, tmp_path)
    steps: dict[str, dict[str, Any]] = {}
    for line in printed.splitlines():
        if line.startswith('{"step"'):
            facts = json.loads(line)
            steps[facts.pop("step")] = facts
    assert steps["public"] == {"alice": 700, "bob": 300}
    assert steps["private"] == {"alice": 780, "bob": 220}
    assert "app_logic_reverted" in steps["too much"]["reverted"]
    assert steps["receipt"]["result"] == "success"
    assert steps["receipt"]["block"] == network.block_number
    assert network.call("node_getContract", steps["deployed"]["address"]) is not None
