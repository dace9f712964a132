"""The limits of block building, and of what is accepted, as blocks show them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.local_network.local_chain import LocalChain, opened

from fastnode.building.acceptance import AcceptanceLimits
from fastnode.building.budget import BlockOptions, BuildingLimits
from fastnode.config.settings import Settings
from fastnode.errors import Refused
from fastnode.local_network.chain_files import dump_chain, load_chain
from fastnode.testing import local_network

MANA_LIMIT = 200_000_000
#: Limits of the transactions here.
TX_L2_GAS, TX_DA_GAS = 440_000, 96


def limited(tmp_path: Path, **settings: Any) -> Iterator[LocalChain]:
    """A network that builds by these settings, when it is asked to."""
    limits = BuildingLimits.of(Settings(**settings), slot_duration_s=36, l1_slot_duration_s=12, mana_limit=MANA_LIMIT)
    yield from opened(tmp_path, automine=False, limits=limits)


def counts_of_blocks(chain: LocalChain, txs: int, blocks: int) -> list[int]:
    for _ in range(txs):
        chain.send(chain.tx())
    first = chain.tip + 1
    chain.changes.mine(blocks)
    return [len(chain.ingestor.view.tx_hashes(number) or ()) for number in range(first, first + blocks)]


@pytest.mark.parametrize(
    ("settings", "counts"),
    [
        pytest.param({"max_txs_per_block": 3}, [3, 1], id="txs of a block"),
        pytest.param({"max_txs_per_checkpoint": 2}, [2, 2], id="txs of a checkpoint"),
        pytest.param({"max_l2_block_gas": TX_L2_GAS}, [1, 1], id="L2 gas"),
        pytest.param({"max_da_block_gas": TX_DA_GAS}, [1, 1], id="DA gas"),
        pytest.param({"max_txs_per_block": 0}, [0, 0], id="none at all"),
        pytest.param({}, [4, 0], id="no limit"),
    ],
)
def test_a_block_takes_what_its_limits_allow(tmp_path: Path, settings: dict[str, int], counts: list[int]) -> None:
    for chain in limited(tmp_path, **settings):
        assert counts_of_blocks(chain, 4, 2) == counts


def test_the_share_of_a_block_follows_the_multiplier(tmp_path: Path) -> None:
    def share(multiplier: float) -> int:
        settings = Settings(block_duration_ms=2_500, per_block_allocation_multiplier=multiplier)
        limits = BuildingLimits.of(settings, slot_duration_s=36, l1_slot_duration_s=12, mana_limit=MANA_LIMIT)
        assert limits.blocks_per_checkpoint > 1
        return limits.block_gas.l2_gas

    assert abs(share(2) - 2 * share(1)) <= 1
    assert share(1_000) == MANA_LIMIT
    # So little of the checkpoint that one transaction fits, and no second one.
    multiplier = share(1) and TX_L2_GAS / share(1) * 1.5
    for chain in limited(tmp_path, block_duration_ms=2_500, per_block_allocation_multiplier=multiplier):
        assert counts_of_blocks(chain, 3, 2) == [1, 1]


def test_an_explicit_limit_above_the_checkpoints_is_the_checkpoints() -> None:
    settings = Settings(max_l2_block_gas=10**12, max_da_block_gas=10**12)
    limits = BuildingLimits.of(settings, slot_duration_s=36, l1_slot_duration_s=12, mana_limit=MANA_LIMIT)
    assert (limits.block_gas.l2_gas, limits.block_gas.da_gas) == (MANA_LIMIT, 786_432)


def test_a_block_with_too_few_valid_txs_is_not_kept(tmp_path: Path) -> None:
    limits = BuildingLimits.of(
        Settings(min_txs_per_block=1),
        slot_duration_s=36,
        l1_slot_duration_s=12,
        mana_limit=MANA_LIMIT,
        options=BlockOptions(valid_txs_per_block_min=2),
    )
    for chain in opened(tmp_path, limits=limits):
        first, second = chain.tx(), chain.tx()
        chain.send(first)
        assert (chain.tip, chain.pending) == (5, [first.hash])
        chain.send(second)
        assert [chain.block_of(tx) for tx in (first, second)] == [6, 6]


def test_the_fewest_valid_txs_are_set_by_the_configuration() -> None:
    with local_network("--seed=limits", in_process=True) as network:
        network.call_admin("nodeAdmin_setConfig", {"minValidTxsPerBlock": 2, "validateMaxTxsPerBlock": 7})
        config = network.call_admin("nodeAdmin_getConfig")
        assert (config["minValidTxsPerBlock"], config["validateMaxTxsPerBlock"]) == (2, 7)


@pytest.mark.parametrize(
    ("acceptance", "words"),
    [
        pytest.param(AcceptanceLimits(txs_per_block=1), "exceed validateMaxTxsPerBlock", id="txs of a block"),
        pytest.param(AcceptanceLimits(txs_per_checkpoint=1), "validateMaxTxsPerCheckpoint", id="txs of a checkpoint"),
        pytest.param(AcceptanceLimits(block_l2_gas=1), "exceeds validateMaxL2BlockGas", id="L2 gas"),
        pytest.param(AcceptanceLimits(block_da_gas=1), "exceeds validateMaxDABlockGas", id="DA gas"),
    ],
)
def test_blocks_of_others_above_a_validators_limits_are_not_taken(
    tmp_path: Path, acceptance: AcceptanceLimits, words: str
) -> None:
    for source in opened(tmp_path / "source", automine=False):
        assert counts_of_blocks(source, 2, 1) == [2]
        state = dump_chain(source.ingestor.view)
    for chain in opened(tmp_path / "copy", acceptance=acceptance):
        with pytest.raises(Refused, match=words):
            load_chain(chain.network, state)
        assert chain.tip == 5
    for chain in opened(tmp_path / "copy"):
        load_chain(chain.network, state)
        assert chain.tip == 6
