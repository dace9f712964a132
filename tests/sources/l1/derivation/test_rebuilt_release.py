"""A release that was built again, and so has other roots, addresses and genesis: a record in a file is all it needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from tests.conftest import PATIENCE_S, NodeProcess
from tests.sources.l1.derivation.attesting import address_of, sign
from tests.sources.l1.derivation.test_canonical_rollup import wait_for_chain
from tests.sources.l1.derivation.test_release_5 import COMMITTEE, SHAPE, Made, settings_of
from tests.sources.l1.publishing import PublishingL1, served

from fastnode.app.stages.origins import Origins
from fastnode.archiver.source import ChainRecord, GenesisRecord
from fastnode.config.settings import Settings
from fastnode.development.synthetic_chain import SyntheticChain
from fastnode.protocol import releases
from fastnode.protocol.fields import field_from_int, hex_text
from fastnode.protocol.releases import SIX, Release
from fastnode.protocol.releases.release import shipped_record
from fastnode.world_state.genesis import genesis_of

ENTRYPOINT = hex_text(field_from_int(0x88))


@pytest.fixture(params=["6.0.1", "6.0.0"])
def version(request: pytest.FixtureRequest) -> str:
    """Another one than that of the known release, and the same."""
    return str(request.param)


@pytest.fixture
def record(version: str) -> dict[str, Any]:
    """That of 6.x with other roots, addresses and genesis nullifiers."""
    shipped = shipped_record("6")
    return {
        **shipped,
        "release": "6 rebuilt",
        "versions": [version],
        "contractsHash": "0x" + "1f" * 32,
        "circuits": {**shipped["circuits"], "vkTreeRoot": "0x" + "1e" * 32},
        "addresses": {**shipped["addresses"], "authRegistry": "0x77", "multiCallEntrypoint": ENTRYPOINT},
        "genesisNullifiers": [*shipped["genesisNullifiers"][:-1], hex_text(field_from_int(2**250))],
    }


@pytest.fixture
def rebuilt(record: dict[str, Any]) -> Iterator[Release]:
    """Known in this process while a test runs."""
    with patch.object(releases, "_known", releases.known()):
        release = Release.from_record(record)
        releases.add(release)
        yield release


@contextmanager
def l1_of(release: Release) -> Iterator[PublishingL1]:
    """A rollup with the roots and the genesis of the release, and no checkpoint yet."""
    chain = SyntheticChain(SHAPE, release)._chain_record()
    root = hex_text(genesis_of([], release.trees).archive.root)
    with served(PublishingL1(chain["nodeInfo"], chain["l1Constants"] | {"genesisArchiveRoot": root})) as l1:
        l1.circuits, l1.inbox_form, l1.committee_size = release.roots, release.inbox_form, len(COMMITTEE)
        l1.mine(committees=tuple((epoch, tuple(map(address_of, COMMITTEE))) for epoch in range(200)))
        yield l1


def learn(l1: PublishingL1) -> tuple[ChainRecord, GenesisRecord]:
    learned = Origins(Settings(**settings_of(l1)), lambda: None)
    try:
        return learned.learn_chain()
    finally:
        learned.interrupt()
        learned.close()


@pytest.fixture
def l1(rebuilt: Release) -> Iterator[PublishingL1]:
    with l1_of(rebuilt) as l1:
        yield l1


@pytest.fixture
def made(tmp_path: Path, l1: PublishingL1) -> Iterator[Made]:
    with ExitStack() as stack:
        made = Made(tmp_path / "made", *learn(l1), stack, SHAPE)
        made.checkpoint([made.effect()], [made.effect()])
        published, messages = made.published[-1]
        l1.send(*messages)
        sheet = l1.sheet(published)
        sign(sheet, COMMITTEE, (0, 1, 3))
        l1.publish(sheet)
        yield made


@pytest.mark.usefixtures("rebuilt")
def test_the_roots_of_the_rollup_decide_where_two_releases_have_a_version() -> None:
    with l1_of(SIX) as l1:
        chain, _ = learn(l1)
    assert (chain.release, chain.node_info["nodeVersion"]) == (SIX, "6.0.0")


def test_a_rebuilt_release_is_followed_with_its_record_and_refused_with_the_difference_without(
    tmp_path: Path,
    start_node: Callable[..., NodeProcess],
    record: dict[str, Any],
    version: str,
    l1: PublishingL1,
    made: Made,
) -> None:
    file = tmp_path / "rebuilt.json"
    file.write_text(json.dumps(record))

    def start(*flags: object) -> NodeProcess:
        return start_node(
            *("--data-directory", tmp_path / "data", "--l1-rpc-urls", l1.url, "--registry-address"),
            *(l1.addresses.registry, "--l1-consensus-host-urls", l1.beacon.url, "--l1-polling-interval-ms=20"),
            *("--max-allowed-eth-client-drift-seconds=0", "--archiver-polling-interval-ms=20", *flags),
        )

    def refusal() -> str:
        node = start()
        assert node.process.wait(PATIENCE_S) == 1
        return str(node.entries()[-1]["message"])

    line = refusal()
    for root in (record["circuits"]["vkTreeRoot"], record["contractsHash"], *map(hex_text, SIX.roots)):
        assert root in line
    for _ in range(2):
        node = start("--release-record", file)
        wait_for_chain(node, made, l1)
        info = node.call("aztec_getNodeInfo")["result"]
        assert (info["nodeVersion"], info["protocolContractAddresses"]["multiCallEntrypoint"]) == (version, ENTRYPOINT)
        assert node.stop() == 0
    assert "is of release 6 rebuilt, which has no record here: give --release-record FILE" in refusal()
