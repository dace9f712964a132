"""The wallet that the network publishes, against a local network; FASTNODE_WALLET=1 has scripts/test fetch it.

It works against the network itself, and against two workers of a node that hands its transactions on to that.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import NodeProcess

from fastnode.testing import RunningNetwork, local_network

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "local-network.md"
#: A node of a network on this machine.
ON_NETWORK = ("--p2p-enabled", "--p2p-listen-addr=127.0.0.1", "--p2p-ip=127.0.0.1", "--p2p-port=0")
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


@pytest.fixture(params=["the network itself", "workers with an upstream", "workers on the peer-to-peer network"])
def url(
    request: pytest.FixtureRequest,
    network: RunningNetwork,
    start_node: Callable[..., NodeProcess],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    """What the wallet talks to."""
    if request.param == "the network itself":
        return network.url
    peers = () if "upstream" in request.param else ON_NETWORK
    data = tmp_path_factory.mktemp("workers")
    node = start_node("--workers=2", f"--upstream-url={network.url}", f"--data-directory={data}", *peers)
    return node.wait_until_serving().url


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


def script_of_page(url: str) -> str:
    match = re.search(r"^```js\n(// first\.mjs\n.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[1].replace("http://localhost:8080", url)


def test_the_script_of_the_page_about_local_networks_moves_tokens_privately(
    packages: Path, network: RunningNetwork, url: str, tmp_path: Path
) -> None:
    assert "bob has 40n" in run(packages, script_of_page(url), url, tmp_path)
    assert network.block_number > 3


def test_each_awaited_send_ends_where_a_block_comes_every_five_seconds(packages: Path, tmp_path: Path) -> None:
    with local_network("--block-time=5") as network:
        assert "bob has 40n" in run(packages, script_of_page(network.url), network.url, tmp_path)


def test_two_wallets_find_their_notes_beyond_the_window_of_tags(
    packages: Path, network: RunningNetwork, url: str, tmp_path: Path
) -> None:
    printed = run(packages, (HERE / "scenario.mjs").read_text(), url, tmp_path)
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
