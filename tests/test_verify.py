"""What a node answers is proven without it, and what is changed on the way is not."""

from __future__ import annotations

import base64
import copy
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastnode import Client, verify
from fastnode.errors import VerificationError
from fastnode.protocol.header import BlockHeader
from fastnode.verify import Field

FEE_JUICE = "0x" + "5".zfill(64)
BLOCK = 30


@pytest.fixture(scope="module")
def effects(sample_chain: Path) -> list[dict[str, Any]]:
    """Of all transactions up to the block that is asked about."""
    found: list[dict[str, Any]] = []
    with lzma.open(sample_chain, "rt") as lines:
        for record in map(json.loads, lines):
            for block in record.get("published", {}).get("checkpoint", {}).get("blocks", ()):
                if int(block["header"]["globalVariables"]["blockNumber"]) <= BLOCK:
                    found += block["body"]["txEffects"]
    return found


@pytest.fixture
def client(start_node: Callable[..., Any], short_chain: Path) -> Client:
    node = start_node("--metrics-port=0").wait_until_serving()
    node.wait_for_line("chain file loaded")
    return Client(node.url)


def changed(text: str) -> str:
    """Base64 with one bit of its last byte the other way round."""
    data = bytearray(base64.b64decode(text))
    data[-1] ^= 1
    return base64.b64encode(bytes(data)).decode()


def refused(check: Callable[..., Any], *arguments: Any, reason: str = ".") -> None:
    with pytest.raises(VerificationError, match=reason):
        check(*arguments)


def test_witnesses_of_a_node_are_proven_and_changed_ones_are_not(client: Client, effects: list[dict[str, Any]]) -> None:
    answer = client.get_block_header(BLOCK)
    block_hash = verify.block_hash(answer)
    header = verify.header(answer, block_hash)
    assert client.get_block_by_hash(block_hash) is not None

    # headers
    other = copy.deepcopy(answer)
    other["totalFees"] = "0x" + "1".zfill(64)
    refused(verify.header, other, block_hash, reason="the header is that of block 0x")
    refused(verify.header, None, block_hash, reason="there is no header")
    refused(verify.header, {}, block_hash, reason="this is no block header")

    # public data: a value, and the proof that there is none
    write = next(write for effect in reversed(effects) for write in effect["publicDataWrites"])
    newest = {write["leafSlot"]: write["value"] for effect in effects for write in effect["publicDataWrites"]}
    slot = write["leafSlot"]
    witness = client.get_public_data_witness(BLOCK, slot)
    assert verify.public_data(witness, header, slot) == newest[slot]
    nothing = verify.leaf_slot(FEE_JUICE, "0x1234")
    absent = client.get_public_data_witness(BLOCK, nothing)
    assert verify.public_data(absent, header, nothing) == "0x" + 64 * "0"
    refused(verify.public_data, witness, header, nothing, reason="the witness says nothing of")
    lie = copy.deepcopy(witness)
    lie["leafPreimage"]["leaf"]["value"] = "0x" + "1".zfill(64)
    refused(verify.public_data, lie, header, slot, reason="the path leads to .*, not to the root")

    # nullifiers
    present = next(effect["nullifiers"][0] for effect in effects if effect["nullifiers"])
    witness = client.get_nullifier_membership_witness(BLOCK, present)
    verify.nullifier(witness, header, present)
    unused = "0x" + "0123".zfill(64)
    low = client.get_low_nullifier_membership_witness(BLOCK, unused)
    verify.absent_nullifier(low, header, unused)
    refused(verify.absent_nullifier, witness, header, present, reason="says nothing")
    refused(verify.nullifier, low, header, unused, reason="the nullifier is")
    lie = copy.deepcopy(low)
    lie["leafPreimage"]["nextIndex"] = "5"
    refused(verify.absent_nullifier, lie, header, unused)

    # note hashes
    note = next(effect["noteHashes"][0] for effect in effects if effect["noteHashes"])
    path = client.get_note_hash_membership_witness(BLOCK, note)
    assert isinstance(verify.note_hash(path, header, note), int)
    refused(verify.note_hash, changed(path), header, note, reason="path")
    refused(verify.note_hash, path, header, present)

    # blocks before this one
    earlier = verify.block_hash(client.get_block_header(5))
    path = client.get_block_hash_membership_witness(BLOCK, earlier)
    assert verify.block(path, header, earlier) == 5
    refused(verify.block, path, header, block_hash)
    refused(verify.block, None, header, earlier, reason="there is no witness")
    client.close()


def test_messages_from_l1_are_proven(client: Client) -> None:
    number, messages = next(
        (number, messages)
        for number in range(1, 30)
        if (messages := client.get_l1_to_l2_messages(number))  # a checkpoint with some
    )
    tip = client.get_block_number()
    answer = client.get_block_header(tip)
    header = verify.header(answer, verify.block_hash(answer))
    for message in messages:
        witness = client.get_l1_to_l2_message_membership_witness(tip, message)
        index = verify.message(witness, header, message)
        assert client.get_l1_to_l2_message_checkpoint(message) == number
        refused(verify.message, [str(index + 1), witness[1]], header, message)
        refused(verify.message, [witness[0], changed(witness[1])], header, message)
    refused(verify.message, "x", header, messages[0], reason="not an index and a path")
    client.close()


def test_the_blocks_of_a_checkpoint_are_those_that_it_commits_to(client: Client) -> None:
    checked = 0
    for published in client.get_checkpoints(1, 40):
        hashes = verify.checkpoint(published)
        assert [verify.block_hash(block["header"]) for block in published["checkpoint"]["blocks"]] == list(hashes)
        if len(hashes) < 2:
            continue
        checked += 1
        swapped = copy.deepcopy(published)
        swapped["checkpoint"]["blocks"].reverse()
        refused(verify.checkpoint, swapped)
        short = copy.deepcopy(published)
        del short["checkpoint"]["blocks"][-1]
        refused(verify.checkpoint, short)
        lie = copy.deepcopy(published)
        lie["checkpoint"]["blocks"][0]["header"]["totalFees"] = "0x" + "1".zfill(64)
        refused(verify.checkpoint, lie, reason="the commitment to the blocks' headers")
    assert checked > 0
    refused(verify.checkpoint, {}, reason="this is no checkpoint")
    client.close()


@pytest.mark.parametrize("field", ["0x", "x", "0x" + "f" * 64, "0x" + "1" * 65, b"short", 7, None])
def test_what_is_no_field_is_said_to_be_none(field: Field) -> None:
    refused(verify.leaf_slot, FEE_JUICE, field, reason="the slot is no field")


#: Any header: what is wrong here is seen before it is looked at.
HEADER: BlockHeader = None  # type: ignore[assignment]


@pytest.mark.parametrize("witness", ["!", "AAAA", "", base64.b64encode(bytes(32 * 42)).decode(), 7])
def test_a_witness_of_another_form_is_named(witness: Any) -> None:
    refused(verify.note_hash, witness, HEADER, "0x1", reason="witness")


@pytest.mark.parametrize(
    "witness",
    [
        {},
        {"index": "1"},
        {"index": 1, "leafPreimage": {}},
        {"index": "-1", "leafPreimage": {"leaf": {}}},
    ],
)
def test_a_record_that_is_no_witness_is_named(witness: Any) -> None:
    refused(verify.nullifier, witness, HEADER, "0x1")
