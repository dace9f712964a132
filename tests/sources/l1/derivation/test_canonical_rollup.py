"""Whole nodes on an L1 whose registry changes its canonical rollup: from 5.x to 6.x, and to one that is not known.

In each case a node serves the chain that it says, or its last line says what to do.
"""

from __future__ import annotations

import http.client
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.attacks import hasty_node
from tests.conftest import PATIENCE_S, NodeProcess
from tests.sources.l1.derivation import test_release_5 as five
from tests.sources.l1.derivation import test_release_6 as six
from tests.sources.l1.derivation.attesting import address_of, sign
from tests.sources.l1.derivation.test_release_5 import COMMITTEE, Made, settings_of
from tests.sources.l1.publishing import PublishingL1, served
from tests.sources.l1.two_rollups import L1OfTwoRollups, SecondRollup

from fastnode.app.stages.origins import Origins
from fastnode.config.settings import Settings
from fastnode.development.synthetic_chain import SyntheticChain
from fastnode.protocol.releases import FIVE, SIX, Release

Start = Callable[..., NodeProcess]
Json = dict[str, Any]
STRANGE = (b"\x0e" * 32, b"\x0f" * 32)
NOT_CANONICAL = "rollup: not canonical any more"
STANDBY = "standby: the canonical rollup is unknown"


class Network:
    """L1, and the chains of its rollups of 5.x and of 6.x, which grow."""

    def __init__(self, l1: L1OfTwoRollups, second: SecondRollup, directory: Path, stack: ExitStack) -> None:
        self.l1, self.second = l1, second
        self.five = self._made(directory / "five", {}, five.SHAPE, stack)
        self.six = self._made(directory / "six", {"rollup_version": second.version}, five.SHAPE, stack)
        self.grow()
        self.grow()

    def _made(self, directory: Path, settings: Json, shape: Any, stack: ExitStack) -> Made:
        learned = Origins(Settings(**(settings_of(self.l1) | settings)), lambda: None)
        try:
            chain, genesis = learned.learn_chain()
        finally:
            learned.interrupt()
            learned.close()
        return Made(directory, chain, genesis, stack, shape)

    def grow(self) -> None:
        """Another checkpoint of each."""
        for rollup, made in ((self.l1, self.five), (self.second, self.six)):
            made.checkpoint([made.effect()])
            published, messages = made.published[-1]
            rollup.send(*messages, checkpoint=published.checkpoint.number)
            sheet = rollup.sheet(published)
            sign(sheet, COMMITTEE, (0, 1, 3))
            rollup.publish(sheet)

    def set(self, *, canonical: Release | None) -> None:
        """None: a rollup whose roots no record has."""
        self.second.circuits = SIX.roots if canonical is SIX else STRANGE
        self.l1.switch(to_second=canonical is not FIVE)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    records = [SyntheticChain(five.SHAPE, release)._chain_record() for release in (FIVE, SIX)]
    roots = (five.ARCHIVE_ROOT_OF_MAINNET, six.ARCHIVE_ROOT)
    begun = str(int(time.time()) - 1_000)  # so that L1 is in an epoch after the genesis
    constants = [
        record["l1Constants"] | {"genesisArchiveRoot": root, "l1GenesisTime": begun}
        for record, root in zip(records, roots, strict=True)
    ]
    with ExitStack() as stack:
        l1 = stack.enter_context(served(L1OfTwoRollups(records[0]["nodeInfo"], constants[0])))
        second = SecondRollup(l1, records[1]["nodeInfo"], constants[1])
        second.inbox_form = SIX.inbox_form
        l1.circuits, second.circuits = FIVE.roots, SIX.roots
        members = tuple((epoch, tuple(map(address_of, COMMITTEE))) for epoch in range(200))
        for rollup in (l1, second):
            rollup.committee_size = len(COMMITTEE)
            rollup.mine(committees=members)
        yield Network(l1, second, tmp_path_factory.mktemp("made"), stack)


@pytest.fixture
def start(tmp_path: Path, start_node: Start, network: Network) -> Start:
    """A node that follows the network's L1; ``data`` names its data directory."""
    l1 = network.l1

    def started(data: str, *flags: str) -> NodeProcess:
        return start_node(
            *("--data-directory", tmp_path / data, "--l1-rpc-urls", l1.url, "--l1-consensus-host-urls", l1.beacon.url),
            *("--registry-address", l1.addresses.registry, "--max-allowed-eth-client-drift-seconds=0"),
            *("--l1-polling-interval-ms=20", "--archiver-polling-interval-ms=20", *flags),
            module=hasty_node.MODULE,
            PYTHONPATH=hasty_node.ROOT,
        )

    return started


def wait(condition: Callable[[], object], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


def wait_for_chain(node: NodeProcess, made: Made, rollup: PublishingL1) -> Json:
    """Until it has the chain of this rollup; what it says of it."""
    node.wait_until_serving()
    tip = made.ingestor.view.tip_number
    ask = ("fastnode_getSyncStatus",)
    wait(lambda: node.call("aztec_getBlockNumber").get("result") == tip, lambda: node.call(*ask))
    info = node.call("aztec_getNodeInfo")["result"]
    assert (info["rollupVersion"], info["l1ContractAddresses"]["rollupAddress"]) == (
        rollup.version,
        rollup.addresses.rollup,
    )
    header = node.call("aztec_getBlock", tip)["result"]["header"]
    block = made.ingestor.view.load_block(tip)
    assert block is not None
    assert header == block.header.to_json()
    wait(lambda: node.call(*ask)["result"]["isCanonical"] is not None, lambda: node.call(*ask))
    status: Json = node.call(*ask)["result"]
    return status


def probe(port: int, path: str, body: bytes | None = None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET" if body is None else "POST", path, body, {"Accept": "application/json"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def lines(node: NodeProcess, message: str) -> list[Json]:
    return [entry for entry in node.entries() if entry["message"] == message]


# ---- 5.x to 6.x, both known ---------------------------------------------------------------------------


def test_a_node_follows_its_rollup_when_another_becomes_canonical_and_says_so(network: Network, start: Start) -> None:
    """While it runs, and while it is stopped; a new data directory gets the chain of the canonical rollup."""
    network.set(canonical=FIVE)
    node = start("data")
    assert wait_for_chain(node, network.five, network.l1)["isCanonical"] is True
    assert node.components()["rollup"] == {"ok": True}
    network.set(canonical=SIX)
    line = node.wait_for_line(NOT_CANONICAL)
    network.grow()
    status = wait_for_chain(node, network.five, network.l1)
    assert (status["isCanonical"], status["canonicalRollup"]) == (False, network.second.addresses.rollup)
    component = node.components()["rollup"]
    for text in (line["reason"], component["reason"]):
        assert network.second.addresses.rollup in text
        assert "another data directory" in text
    assert probe(node.port, "/readyz")[0] == 200
    assert len(lines(node, NOT_CANONICAL)) == 1
    node.stop(signal.SIGKILL)
    network.grow()

    again = start("data", "--require-canonical-rollup")
    assert wait_for_chain(again, network.five, network.l1)["isCanonical"] is False
    assert again.wait_for_line(NOT_CANONICAL)["reason"] == line["reason"]
    assert "another data directory" in probe(again.port, "/readyz")[1]
    assert again.stop() == 0
    assert len(lines(again, NOT_CANONICAL)) == 1

    new = start("new")
    assert wait_for_chain(new, network.six, network.second)["isCanonical"] is True
    assert new.stop() == 0


def test_an_older_rollup_is_followed_where_its_version_is_given(network: Network, start: Start) -> None:
    network.set(canonical=SIX)
    node = start("data", f"--rollup-version={network.l1.version}")
    assert wait_for_chain(node, network.five, network.l1)["isCanonical"] is False
    node.wait_for_line(NOT_CANONICAL)
    assert node.stop() == 0


def test_a_stored_chain_and_another_rollup_version_are_refused_with_both(network: Network, start: Start) -> None:
    network.set(canonical=FIVE)
    node = start("data")
    wait_for_chain(node, network.five, network.l1)
    assert node.stop() == 0
    network.set(canonical=SIX)
    node = start("data", f"--rollup-version={network.second.version}")
    assert node.process.wait(PATIENCE_S) == 78
    message = node.entries()[-1]["message"]
    assert f"rollup-version is to be {network.second.version}, but the chain's is {network.l1.version}" in message


# ---- to a rollup that is not known --------------------------------------------------------------------


def test_an_unknown_canonical_rollup_is_refused_with_what_can_be_done(network: Network, start: Start) -> None:
    network.set(canonical=None)
    node = start("data")
    assert node.process.wait(PATIENCE_S) == 1
    message = node.entries()[-1]["message"]
    for part in (
        f"version {network.second.version} at {network.second.addresses.rollup}",
        "0x" + STRANGE[0].hex(),
        "0x" + STRANGE[1].hex(),
        "use a newer fastnode",
        "--release-record FILE",
        "--standby waits until a known rollup is the canonical one",
    ):
        assert part in message
    node = start("data", "--standby", f"--rollup-version={network.second.version}")
    assert node.process.wait(PATIENCE_S) == 1
    message = node.entries()[-1]["message"]
    assert "use a newer fastnode" in message
    assert "--standby" not in message


def test_a_node_that_stands_by_starts_when_a_known_rollup_becomes_canonical(network: Network, start: Start) -> None:
    """It is killed while it stands by, and begins to stand by again; L1 goes away meanwhile."""
    network.set(canonical=None)
    node = start("data", "--standby")
    assert lines_of_standby(node, network)
    node.stop(signal.SIGKILL)
    node = start("data", "--standby")
    port = lines_of_standby(node, network)
    asked = network.l1.requests.count
    polled = asked("eth_getStorageAt") + 3 * 2
    wait(lambda: asked("eth_getStorageAt") >= polled, node.entries)
    assert len(lines(node, STANDBY)) == 1
    network.l1.stop()
    node.wait_for_line("L1 node unavailable")
    assert probe(port, "/livez")[0] == 200
    network.l1.start()
    network.second.circuits = STRANGE[::-1]
    wait(lambda: len(lines(node, STANDBY)) == 2, node.entries)
    network.set(canonical=SIX)
    status = wait_for_chain(node, network.six, network.second)
    assert (node.port, status["isCanonical"]) == (port, True)
    assert len(lines(node, STANDBY)) == 2
    assert lines(node, "standby: a known rollup is canonical")[0]["version"] == network.second.version
    assert node.stop() == 0


def lines_of_standby(node: NodeProcess, network: Network) -> int:
    """The public port of a node that stands by, whose answers are those of a node that starts."""
    line = node.wait_for_line(STANDBY)
    assert (line["version"], line["rollup"]) == (network.second.version, network.second.addresses.rollup)
    listening = node.wait_for_line("listening")
    reason = "it waits for a known rollup to become the canonical one on L1 (--standby), polled once a minute"
    for port in (listening["port"], listening["admin_port"]):
        assert probe(port, "/livez")[0] == 200
        for path in ("/readyz", "/status"):
            status, text = probe(port, path)
            assert (status, reason in text) == (503, True)
        assert json.loads(probe(port, "/status")[1])["components"]["start"]["ok"] is False
    status, text = probe(listening["port"], "/", b'{"jsonrpc":"2.0","id":1,"method":"aztec_getBlockNumber"}')
    error = json.loads(text)["error"]
    assert (status, error["data"]) == (503, {"code": "STARTING"})
    assert reason in error["message"]
    assert network.second.addresses.rollup in error["message"]
    return int(listening["port"])


def test_a_stop_ends_a_node_that_stands_by(network: Network, start: Start) -> None:
    network.set(canonical=None)
    node = start("data", "--standby", "--workers=1")
    line = node.wait_for_line(STANDBY)
    assert "no record here" in line["reason"]
    assert node.stop() == 0
    assert not [entry for entry in node.entries() if entry.get("level") == "error"]
