"""A made chain, another node that serves it, and its L1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sources.conftest import release as release
from tests.sources.l1.publishing import Sheet
from tests.sources.l1.scripted_l1 import Published, ScriptedL1, scripted_l1
from tests.sources.made_chain import MadeChain, grown_chain
from tests.sources.scripted_upstream import ScriptedUpstream, scripted_upstream

from fastnode.outgoing.network import Network
from fastnode.protocol.checkpoint import PublishedCheckpoint, packed_attestations
from fastnode.protocol.ethereum import SigningDomain
from fastnode.protocol.releases import Release


@pytest.fixture
def chain(tmp_path: Path, release: Release) -> Iterator[MadeChain]:
    """A chain of four checkpoints with messages from L1, and two proposed blocks."""
    with grown_chain(tmp_path / "made", 1, 2, 1, 2, proposed=2, release=release) as chain:
        chain.proven, chain.finalized = 2, 1
        yield chain


@pytest.fixture
def upstream(chain: MadeChain) -> Iterator[ScriptedUpstream]:
    """Not a fastnode: it gives no messages."""
    with scripted_upstream(chain, is_fastnode=False) as upstream:
        yield upstream


@pytest.fixture
def l1(chain: MadeChain) -> Iterator[ScriptedL1]:
    """It has the chain's messages, checkpoints and tips."""
    with scripted_l1(chain.chain_record["nodeInfo"], chain.chain_record["l1Constants"]) as l1:
        publish_on_l1(chain, l1)
        yield l1


def publish_on_l1(chain: MadeChain, l1: ScriptedL1) -> None:
    """Bring L1 to where the chain is: messages of all its checkpoints, archives of those that are published."""
    known = {item.checkpoint for item in l1.head.sent}
    for unit in chain.units:
        if unit.number not in known and unit.messages:
            # They came while the checkpoint before the last was on its way.
            earlier = chain.units[unit.number - 3].published if unit.number > 2 else None
            if earlier is not None:
                l1.mine(max(0, int(earlier["l1"]["blockNumber"]) - l1.head.number))
            l1.send(*(bytes.fromhex(text[2:]) for text in unit.messages), checkpoint=unit.number)
    _propose_on_l1(chain, l1)
    archives = [l1.blocks[0].archives[0]]
    archives += [unit.blocks[-1].archive.root for unit in chain.units if unit.published is not None]
    l1.mine(in_progress=len(chain.units) + 1, archives=tuple(archives), proven=chain.finalized)
    l1.mine(l1.finality, proven=chain.proven)


def _propose_on_l1(chain: MadeChain, l1: ScriptedL1) -> None:
    """Events of the checkpoints that are published, each in the block that the chain names or one near it."""
    proposed = {item.archive for block in l1.blocks for item in block.proposals}
    for published in (
        PublishedCheckpoint.from_json(unit.published) for unit in chain.units if unit.published is not None
    ):
        if published.checkpoint.archive.root not in proposed:
            l1.mine(max(0, published.l1.block_number - l1.head.number - 1))
            l1.mine(proposals=(proposal_of(published, l1),))


def proposal_of(published: PublishedCheckpoint, l1: ScriptedL1) -> Published:
    """The transaction that proposes a checkpoint with the attestations that it has."""
    domain = SigningDomain(l1.chain_id, bytes.fromhex(l1.addresses.rollup[2:]))
    return Sheet(published, domain, *packed_attestations(published.attestations)).transaction()


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    yield network
    network.close()
