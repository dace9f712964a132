"""The verifier itself: right about the recorded chain, and not to be talked into anything."""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.world_state import verifier as plain
from tests.world_state.verifier import (
    HEIGHTS,
    ZERO,
    IndexedLeafWitness,
    LeafWitness,
    PlainState,
    Verifier,
    WitnessRejectedError,
)

from fastnode.protocol.checkpoint import PublishedCheckpoint

# Published values of the network: roots of its trees when they are empty, and at genesis.
EMPTY_ROOTS = {
    "note hash": "2ac5dda169f6bb3b9ca09bbac34e14c94d1654597db740153a1288d859a8a30a",
    "message": "0d582c10ff8115413aa5b70564fdd2f3cefe1f33a1e43a47bc495081e91e73e5",
    "archive": "0c08da612363088ad0bbc78abd233e8ace4c05a56fdabdd5e5e9b05e428bdaee",
    "nullifier": "1ec3788cd1c32e54d889d67fe29e481114f9d4afe9b44b229aa29d8ad528dd31",
    "public data": "23c08a6b1297210c5e24c76b9a936250a1ce2721576c26ea797c7ec35f9e46a9",
}


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    """It believes no kernel."""
    return Verifier(checked_each=1)


def test_its_hash_is_that_of_the_reference() -> None:
    assert plain.poseidon2(()) == 0x18DFB8DC9B82229CFF974EFEFC8DF78B1CE96D9D844236B496785C698BC6732E
    assert plain.poseidon2((0x915CD27,)) == 0x2CF1AABE66D1013D1D74954C862CC508E5C7A965C3E7FAFB40318217C88F01CF
    # 128 of these make a tree of height 7: the empty private functions tree of the reference.
    node = plain.poseidon2((0, 0))
    for _ in range(7):
        node = plain.poseidon2((node, node))
    assert node == 0x067243231EDDF4222F3911DEFBBA7705AFF06ED45960B27F6F91319196EF97E1


def test_its_trees_start_as_those_of_the_network(verifier: Verifier) -> None:
    assert {name: root.hex() for name, (root, _) in PlainState(verifier).roots().items()} == EMPTY_ROOTS


def test_its_trees_follow_the_recorded_chain_root_by_root(verifier: Verifier, sample_chain: Path) -> None:
    lines = [orjson.loads(line) for line in lzma.decompress(sample_chain.read_bytes()).splitlines()]
    genesis = lines[1]
    state = PlainState(
        verifier, [(_bytes(leaf["slot"]), _bytes(leaf["value"])) for leaf in genesis["prefilledPublicData"]]
    )
    state.archive.append([_bytes(genesis["blockHash"])])
    assert state.roots()["archive"] == (_bytes(genesis["archiveRoot"]), 1)
    blocks = 0
    for line in lines:
        if line["kind"] != "checkpoint":
            continue
        messages: list[bytes] | None = [_bytes(text) for text in line["l1ToL2Messages"]]
        for block in PublishedCheckpoint.from_json(line["published"]).checkpoint.blocks:
            state.apply(block.body.tx_effects, messages)
            messages = None
            state.archive.append([block.hash()])
            claimed = block.header.state
            assert state.roots() == {
                "nullifier": (claimed.nullifier_tree.root, claimed.nullifier_tree.next_available_leaf_index),
                "note hash": (claimed.note_hash_tree.root, claimed.note_hash_tree.next_available_leaf_index),
                "public data": (claimed.public_data_tree.root, claimed.public_data_tree.next_available_leaf_index),
                "message": (
                    claimed.l1_to_l2_message_tree.root,
                    claimed.l1_to_l2_message_tree.next_available_leaf_index,
                ),
                "archive": (block.archive.root, block.archive.next_available_leaf_index),
            }
            blocks += 1
    assert blocks == 106


# ---- it cannot be fooled ----------------------------------------------------------------------------


def _field(number: int) -> bytes:
    return number.to_bytes(32, "big")


def _path(verifier: Verifier, leaves: list[bytes], index: int, height: int) -> tuple[bytes, bytes]:
    """(path, root) by definition."""
    level = leaves + [ZERO] * ((1 << height) - len(leaves))
    path = b""
    while len(level) > 1:
        path += level[index ^ 1]
        level = [verifier.node(level[i] + level[i + 1]) for i in range(0, len(level), 2)]
        index >>= 1
    return path, level[0]


def test_a_leaf_is_proven_at_its_place_only(verifier: Verifier) -> None:
    leaves = [_field(number) for number in (5, 6, 7, 5, 9)]
    path, root = _path(verifier, leaves, 3, 4)
    verifier.require_leaf(LeafWitness(3, path), leaves[3], root, 4)
    for index, leaf, proof in (
        (0, leaves[0], path),
        (3, leaves[2], path),
        (3 + 16, leaves[3], path),
        (3, leaves[3], path[:-32]),
        (3, leaves[3], path[:-1] + bytes([path[-1] ^ 1])),
    ):
        with pytest.raises(WitnessRejectedError):
            verifier.require_leaf(LeafWitness(index, proof), leaf, root, 4)


def _low_leaf(verifier: Verifier, key: int, next_key: int, next_index: int) -> tuple[IndexedLeafWitness, bytes]:
    leaf = verifier.indexed_leaf(_field(key), None, _field(next_key), next_index)
    path, root = _path(verifier, [_field(1), leaf], 1, 3)
    return IndexedLeafWitness(1, _field(key), None, _field(next_key), next_index, path), root


def test_absence_needs_a_leaf_below_that_points_past(verifier: Verifier) -> None:
    witness, root = _low_leaf(verifier, 10, 20, 5)
    verifier.require_absent(witness, _field(15), root, 3)
    for key in (9, 10, 20, 21):
        with pytest.raises(WitnessRejectedError):
            verifier.require_absent(witness, _field(key), root, 3)
    with pytest.raises(WitnessRejectedError):
        verifier.require_absent(witness._replace(next_key=_field(16)), _field(15), root, 3)
    with pytest.raises(WitnessRejectedError):
        verifier.require_absent(witness._replace(next_index=6), _field(15), root, 3)


def test_the_last_leaf_has_no_next_leaf(verifier: Verifier) -> None:
    last, root = _low_leaf(verifier, 10, 0, 0)
    verifier.require_absent(last, _field(plain.P - 1), root, 3)
    broken, root = _low_leaf(verifier, 10, 0, 4)
    with pytest.raises(WitnessRejectedError):
        verifier.require_absent(broken, _field(11), root, 3)


def test_presence_is_about_the_key_that_was_asked_for(verifier: Verifier) -> None:
    witness, root = _low_leaf(verifier, 10, 20, 5)
    verifier.require_present(witness, _field(10), root, 3)
    with pytest.raises(WitnessRejectedError):
        verifier.require_present(witness, _field(11), root, 3)


@pytest.mark.parametrize(
    ("read", "value"),
    [
        (lambda value: plain.read_membership_witness(value, 30), "AAAA"),
        (plain.read_message_witness, ["01", "AAAA"]),
        (plain.read_message_witness, ["1", "AAAA"]),
        (lambda value: plain.read_membership_witness(value, HEIGHTS["archive"]), "A-_A"),
    ],
)
def test_a_witness_of_another_shape_is_not_read(read: Any, value: Any) -> None:
    with pytest.raises((AssertionError, ValueError)):
        read(value)


def test_a_value_above_the_modulus_is_not_hashed(verifier: Verifier) -> None:
    with pytest.raises(AssertionError, match="modulus"):
        verifier.node(plain.P.to_bytes(32, "big") + ZERO)
