"""Names over one view of a chain: of events, and of slots that are found by the keys that lead to them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fastnode.artifacts import naming as module
from fastnode.artifacts.naming import Naming
from fastnode.artifacts.store import ArtifactStore
from fastnode.protocol.artifacts import Artifact
from fastnode.protocol.fields import field_from_int, hex_text
from fastnode.protocol.siloing import public_leaf_slot, storage_map_slot

TOKEN_CLASS = bytes.fromhex("01efe16b55107894e6b6fb63cebc1a3233e23bbcd648fd9cdf6c0351749ce7ee")
ADDRESS = field_from_int(0x77)


def naming_of(artifact: Artifact | None) -> Naming:
    """Every contract is of this artifact."""
    chain: Any = SimpleNamespace(tip_number=1, block_info=lambda _number: None)
    found = Naming(ArtifactStore(None), chain)
    found.artifact_of = lambda _address: artifact  # type: ignore[method-assign]
    return found


def token() -> Artifact:
    found = ArtifactStore(None).find(TOKEN_CLASS)
    assert found is not None
    return found


def test_the_last_field_of_a_log_tells_its_event() -> None:
    artifact = token()
    ((selector, event),) = artifact.events.items()
    assert event.name == "Transfer"
    sender, receiver = field_from_int(0xA << 100), field_from_int(0xB)
    log = sender + receiver + field_from_int(25) + field_from_int(selector)
    assert naming_of(artifact).of_log(ADDRESS, log) == {
        "eventName": "Transfer",
        "arguments": [
            {"name": "from", "value": hex_text(sender)},
            {"name": "to", "value": hex_text(receiver)},
            {"name": "amount", "value": "25"},
        ],
    }
    assert naming_of(artifact).of_log(ADDRESS, log[:32] + field_from_int(selector)) == {"eventName": "Transfer"}
    assert naming_of(artifact).of_log(ADDRESS, sender) == {}
    assert naming_of(artifact).of_log(ADDRESS, b"") == {}
    assert naming_of(None).of_log(ADDRESS, log) == {}


def test_slots_are_named_alone_and_by_one_or_two_keys() -> None:
    artifact = token()
    first, second = field_from_int(0xC << 200), field_from_int(5)
    naming = naming_of(artifact)
    naming.note_keys([bytes(32), first, second, first])
    base = field_from_int(artifact.storage["public_balances"])
    entry = storage_map_slot(base, first)
    assert naming.slot(ADDRESS, base) == "public_balances"
    assert naming.slot(ADDRESS, entry) == f"public_balances[{hex_text(first)}]"
    assert naming.slot(ADDRESS, storage_map_slot(entry, second)) == f"public_balances[{hex_text(first)}][5]"
    assert naming.slot(ADDRESS, storage_map_slot(base, field_from_int(6))) is None
    leaves = naming.leaf_slots([ADDRESS])
    assert leaves[public_leaf_slot(ADDRESS, entry)] == (ADDRESS, f"public_balances[{hex_text(first)}]")


def test_hashes_are_bounded_for_all_contracts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    artifact, hashed = token(), []
    hash_leaves = module.poseidon2.hash_leaves_3

    def count(joined: bytes) -> bytes:
        hashed.append(len(joined) // 96)
        return hash_leaves(joined)

    monkeypatch.setattr(module.poseidon2, "hash_leaves_3", count)
    naming = naming_of(artifact)
    naming.note_keys(field_from_int(number) for number in range(1, 1_000_000_000))
    addresses = [field_from_int(number) for number in range(1, 200)]
    for address in addresses:
        naming.slot(address, field_from_int(1))
    naming.leaf_slots(addresses)
    assert 0 < sum(hashed) <= module.HASHES_MAX
