"""What wallets rely on: that a local network takes what the recorded one took, and that it is the chain they know.

What wallets sent to the recorded network, claims and FPCs among it, is built again in tests/building.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.local_network.local_chain import OPTIONS, LocalChain, Wall
from tests.mempool.chain import SAMPLE_CHAIN
from tests.mempool.recorded import hashes, recorded_tx, recordings

from fastnode.errors import Refused
from fastnode.protocol.tx import Tx
from fastnode.testing import RunningNetwork, local_network

pytestmark = pytest.mark.usefixtures("forked_networks")

#: What the recorded network refused of what was never sent, and the reason that it gave.
REFUSED = {"min fee cap 1": "Insufficient fee per gas"}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalChain]:
    """A copy at its newest block, whose clock stands still."""
    directory = tmp_path_factory.mktemp("copy")
    with LocalChain(directory, OPTIONS, chain_file=SAMPLE_CHAIN, wall=Wall(0.0)) as chain:
        yield chain


@pytest.fixture
def chain(copy: LocalChain) -> Iterator[LocalChain]:
    """The copy; what a test does to it is taken back."""
    snapshot = copy.changes.snapshot()
    yield copy
    assert copy.changes.revert(snapshot)


def of_label(label: str) -> Tx:
    """A transaction that was never sent."""
    return next(recorded_tx(item) for item in hashes("fresh") if recordings()[item]["label"] == label)


@pytest.mark.parametrize("label", sorted({recordings()[item]["label"] for item in hashes("fresh")} - set(REFUSED)))
def test_what_the_recorded_network_would_have_taken_gets_its_block(label: str, chain: LocalChain) -> None:
    tx = of_label(label)
    chain.send(tx)
    assert chain.block_of(tx) == chain.tip == 107


@pytest.mark.parametrize("label", sorted(REFUSED))
def test_what_it_refused_is_refused_for_the_same_reason(label: str, chain: LocalChain) -> None:
    with pytest.raises(Refused, match=REFUSED[label]):
        chain.send(of_label(label))


# ---- what wallets remember ----------------------------------------------------------------------------

#: Tags of a pair that a wallet uses beyond the newest of a final block.
TAGGING_WINDOW = 20
#: What a transfer to oneself takes of them.
TAGS_OF_A_TRANSFER = 3


def test_thirty_txs_in_a_row_never_leave_the_tagging_window(tmp_path: Path) -> None:
    with LocalChain(tmp_path) as chain:
        for _ in range(30):
            tx = chain.tx()
            chain.send(tx)
            assert chain.block_of(tx) == chain.tip
            finalized = chain.tip_numbers()[3]
            assert (chain.tip - finalized + 1) * TAGS_OF_A_TRANSFER <= TAGGING_WINDOW


def test_a_wallet_that_was_kept_finds_its_chain_after_a_restart(tmp_path: Path) -> None:
    """It names its folders after the rollup's address, and compares the hashes of the blocks that it knows."""
    flags = (f"--data-directory={tmp_path}",)

    def known(network: RunningNetwork, up_to: int) -> list[Any]:
        hashes = [network.call("node_getBlock", number)["hash"] for number in range(1, up_to + 1)]
        return [network.call("node_getL1ContractAddresses"), network.call("node_getVersion"), hashes]

    with local_network(*flags) as network:
        tip = network.mine(5)
        before, tips = known(network, tip), network.call("node_getL2Tips")
    with local_network(*flags) as network:
        assert known(network, tip) == before
        # A block from which transactions can be proven, if the last one has grown old; what was final stays.
        assert network.block_number >= tip
        assert network.call("node_getL2Tips")["finalized"]["block"]["number"] >= tips["finalized"]["block"]["number"]
        assert network.mine() > tip


def test_a_new_chain_is_never_taken_for_one_that_a_wallet_knows() -> None:
    identities = set()
    for _ in range(2):
        with local_network("--no-test-accounts") as network:
            identities.add(
                (network.call("node_getL1ContractAddresses")["rollupAddress"], network.call("node_getVersion"))
            )
    assert len(identities) == 2
