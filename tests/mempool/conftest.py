"""The bundled chain as a ledger, and the rules of its network."""

from __future__ import annotations

import pytest
from tests.mempool.chain import RECORDED_NOW, AllowedCall, BookLedger, bundled_chain, recorded_allow_list

from fastnode.mempool.clock import SlotClock
from fastnode.mempool.network import NetworkIdentity
from fastnode.mempool.validation import TxValidator, ValidationRules
from fastnode.proofs.judge import open_judge
from fastnode.protocol.releases import FOUR


@pytest.fixture(scope="session")
def chain_ledger() -> BookLedger:
    """The chain after block 106."""
    return bundled_chain()


@pytest.fixture
def allow_list() -> list[AllowedCall]:
    return recorded_allow_list()


@pytest.fixture
def clock() -> SlotClock:
    return SlotClock(genesis_time=1795221289, slot_duration=36, l1_slot_duration=4, now=lambda: RECORDED_NOW)


@pytest.fixture
def network() -> NetworkIdentity:
    return NetworkIdentity(
        l1_chain_id=31337,
        rollup_version=3658137161,
        vk_tree_root=bytes.fromhex("1dd2644a17d1ddd8831287a78c5a1033b7ae35cdf2a3db833608856c062fc2ba"),
        protocol_contracts_hash=bytes.fromhex("2672340d9a0107a7b81e6d10d25b854debe613f3272e8738e8df0ca2ff297141"),
    )


@pytest.fixture
def rules(network: NetworkIdentity, allow_list: list[AllowedCall]) -> ValidationRules:
    return ValidationRules(network=network, setup_allow_list=allow_list, release=FOUR)


@pytest.fixture
def validator(rules: ValidationRules, clock: SlotClock) -> TxValidator:
    return TxValidator(rules, clock, open_judge(required=False))
