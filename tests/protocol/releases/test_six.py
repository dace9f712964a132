"""Release 6.x against what is published of it: roots of its genesis, names hashed, the forms of its records."""

from __future__ import annotations

import pytest

from fastnode.errors import StartError
from fastnode.protocol import grumpkin
from fastnode.protocol.checkpoint import CheckpointHeader, RollingCheckpointHeader, header_in_hash, header_type
from fastnode.protocol.contracts import HashedPublicKeys, contract_address
from fastnode.protocol.fees import L1Fees, ManaPricing, fee_components
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.inbox_hash import EMPTY_INBOX, form_of, inbox_form, rolled_inbox
from fastnode.protocol.releases import FIVE, SIX, Release, known_network, of_roots, of_version
from fastnode.protocol.releases.release import shipped_record
from fastnode.sources.l1.proposals import PROPOSE_WITH_BUCKET_SELECTOR
from fastnode.sources.release_choice import choose_release, older_rollups
from fastnode.world_state.genesis import genesis_of

# Of the release build (commit 42fae4eb of the protocol repository).
VK_TREE_ROOT = "22fff5de6ce590153df4468f7f0b152188a803d91b3c9c648b91d93d5913f219"
CONTRACTS_HASH = "0f54271c52865841a77aaa66036eed901aff22fdce9f08e123ec8b205c9854d7"
NULLIFIER_ROOT = "15c67f4d7495a669ed57c5a9468533c63ace43f86b787c52edabefec85e4afc0"
BLOCK_HASH = "199b52350e8f18eeb9cd455fd074bc6fa62ea6a8e3253e2c663aa4909bbd5718"
ARCHIVE_ROOT = "29eb2c527f8d45276430363214e6c8d709ef3f657a3670ebac3179373d41e5c4"

GENERATOR_BYTES = b"".join(map(field_from_int, grumpkin.GENERATOR))


def test_the_published_roots_name_the_release() -> None:
    assert of_roots(bytes.fromhex(VK_TREE_ROOT), bytes.fromhex(CONTRACTS_HASH)) is SIX
    assert of_version("6.0.0") is of_version("6.1.0-rc.1") is SIX
    assert known_network("mainnet") == SIX.networks["mainnet"]


def test_a_release_without_a_record_is_refused_with_the_difference_and_what_can_be_followed() -> None:
    with pytest.raises(StartError, match=r"release 6\.x has verification keys 0x22fff5de"):
        choose_release(bytes(32), SIX.contracts_hash, "the rollup on L1", is_rollup=True)
    mainnet = SIX.networks["mainnet"]
    advice = older_rollups(1, bytes.fromhex(mainnet["registryAddress"][2:]), 77)
    assert "--rollup-version 4248422647 (5.x), --rollup-version 2934756905 (4.x)" in advice
    assert older_rollups(1, bytes(20), 77) == ""


def test_the_genesis_of_the_record_has_the_published_roots() -> None:
    genesis = genesis_of([], SIX.trees)
    assert genesis.nullifiers.root.hex() == NULLIFIER_ROOT
    assert genesis.record.block_hash.hex() == BLOCK_HASH
    assert genesis.archive.root.hex() == ARCHIVE_ROOT


def test_a_header_with_a_root_over_effects_keeps_its_place_in_every_form() -> None:
    header = genesis_of([], SIX.trees).header
    assert header.tx_effects_tree_root == bytes(32)
    buffer = header.to_buffer()
    assert len(buffer) == 472
    assert BlockHeader.from_buffer(buffer) == header
    assert BlockHeader.from_json(header.to_json()) == header
    names = list(header.to_json())
    assert names[names.index("txEffectsTreeRoot") - 1] == "spongeBlobHash"
    assert names[names.index("txEffectsTreeRoot") + 1] == "globalVariables"
    assert len(genesis_of([], FIVE.trees).header.to_buffer()) == 440


def test_the_call_that_proposes_has_the_selector_with_the_hint_of_a_bucket() -> None:
    assert PROPOSE_WITH_BUCKET_SELECTOR.hex() == "0a883a99"


def test_a_checkpoint_header_names_the_rolling_hash_of_the_inbox() -> None:
    assert header_type(SIX) is RollingCheckpointHeader
    assert header_type(FIVE) is CheckpointHeader
    buffer = bytes(160) + (7).to_bytes(32, "big") + bytes(348 - 192)
    header = RollingCheckpointHeader.from_buffer(buffer)
    assert "inboxRollingHash" in header.to_json()
    assert CheckpointHeader.from_json(header.to_json()) == header
    assert header.hash() == CheckpointHeader.from_buffer(buffer).hash()


def test_the_rolling_hash_continues_over_checkpoints() -> None:
    leaves = [bytes([number]) * 32 for number in range(1, 5)]
    first = header_in_hash(SIX, leaves[:2])
    assert header_in_hash(SIX, leaves[2:], first) == rolled_inbox(EMPTY_INBOX, leaves, "separated")
    assert header_in_hash(SIX, (), first) == first


@pytest.mark.parametrize("form", ["plain", "separated"])
def test_two_hashes_and_a_leaf_tell_the_form(form: str) -> None:
    before, leaf = bytes(32), b"\1" * 32
    assert form_of(before, leaf, rolled_inbox(before, [leaf], form)) == form
    assert form_of(before, leaf, bytes(32)) is None


def test_a_record_with_a_tree_over_effects_needs_the_form_of_its_inbox() -> None:
    record = dict(shipped_record("6"))
    del record["inbox"]
    with pytest.raises(ValueError, match="effectsTree and inbox must both be there"):
        Release.from_record(record)


def test_an_unknown_form_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'keccak' is unknown, known are plain, separated"):
        inbox_form("keccak")


def test_the_layout_of_a_transaction_has_one_field_more_in_its_anchor_header() -> None:
    assert SIX.tx_layout.head_bytes == FIVE.tx_layout.head_bytes + 32
    assert SIX.tx_layout.public_hash_fields == FIVE.tx_layout.public_hash_fields + 1
    assert SIX.tx_layout.name_at(SIX.tx_layout.chain_id, public=True) == "txContext.chainId"


def test_the_fee_model_counts_the_l1_gas_of_the_release() -> None:
    at = L1Fees(10**9, 1), 0, 10**12
    old, new = (
        fee_components(*at, ManaPricing(75_000_000, 150_000_000, 32, 0, release.l1_gas)) for release in (FIVE, SIX)
    )
    assert (old.sequencer_cost, new.sequencer_cost) == (4_000_001, 6_933_334)
    assert old.prover_cost == 1_500_000
    assert new.prover_cost == 1_041_667


def test_an_address_depends_on_the_separator_of_the_record() -> None:
    keys = HashedPublicKeys(bytes(32), GENERATOR_BYTES, bytes(32), bytes(32), bytes(32), bytes(32))
    of_version_2 = contract_address(keys, bytes(32))
    assert contract_address(keys, bytes(32), FIVE.address_separator) == of_version_2
    assert SIX.address_separator == 993442748
    assert contract_address(keys, bytes(32), SIX.address_separator) != of_version_2
