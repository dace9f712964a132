"""JSON and buffers of every type, on generated values, the recorded chain, and damaged input."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fastnode.errors import DecodeError
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import (
    Checkpoint,
    CheckpointHeader,
    CommitteeAttestation,
    L1PublishedData,
    PublishedCheckpoint,
)
from fastnode.protocol.effects import (
    Body,
    ContractClassLog,
    PrivateLog,
    PublicDataWrite,
    PublicLog,
    TxEffect,
)
from fastnode.protocol.fields import MODULUS, ZERO_FIELD_TEXT, field_from_int
from fastnode.protocol.header import (
    AppendOnlyTreeSnapshot,
    BlockHeader,
    GasFees,
    GlobalVariables,
    StateReference,
)
from fastnode.protocol.tips import BlockId, CheckpointId, L2Tips, TipId

# ---- strategies -------------------------------------------------------------------------------

field_integers = st.integers(0, MODULUS - 1) | st.sampled_from([0, 1, MODULUS - 1])
fields = st.builds(field_from_int, field_integers)
u32 = st.integers(0, (1 << 32) - 1)
u64 = st.integers(0, (1 << 64) - 1)
u128 = st.integers(0, (1 << 128) - 1)
addresses = st.binary(min_size=20, max_size=20)
hashes = st.binary(min_size=32, max_size=32)

snapshots = st.builds(AppendOnlyTreeSnapshot, fields, u32)
gas_fees = st.builds(GasFees, u128, u128)
global_variables = st.builds(
    GlobalVariables, field_integers, field_integers, u32, u32, u64, addresses, fields, gas_fees
)
headers = st.builds(
    BlockHeader,
    snapshots,
    st.builds(StateReference.of_trees, snapshots, snapshots, snapshots, snapshots),
    fields,
    global_variables,
    field_integers,
    field_integers,
)


def tuples_of(elements: st.SearchStrategy[Any], maximum: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(elements, max_size=maximum).map(tuple)


private_logs = st.builds(PrivateLog, st.lists(fields, min_size=16, max_size=16).map(tuple), st.integers(0, 16))
public_logs = st.builds(PublicLog, fields, tuples_of(fields, 6))
class_logs = st.builds(ContractClassLog, fields, st.lists(fields, max_size=20).map(b"".join), st.integers(0, 3023))
effects = st.builds(
    TxEffect,
    st.integers(0, 3),
    fields,
    field_integers,
    tuples_of(fields, 4),
    tuples_of(fields, 4),
    tuples_of(fields, 4),
    tuples_of(st.builds(PublicDataWrite, fields, fields), 4),
    tuples_of(private_logs, 2),
    tuples_of(public_logs, 3),
    tuples_of(class_logs, 1),
)
blocks = st.builds(L2Block, snapshots, headers, st.builds(Body, tuples_of(effects, 3)), u32, u32)
checkpoint_headers = st.builds(
    CheckpointHeader, fields, fields, fields, fields, fields, u32, u64, addresses, fields, gas_fees, field_integers
)
checkpoints = st.builds(
    PublishedCheckpoint,
    st.builds(
        Checkpoint,
        snapshots,
        checkpoint_headers,
        tuples_of(blocks, 2),
        u32,
        st.integers(-(1 << 255) + 1, (1 << 255) - 1),
    ),
    st.builds(L1PublishedData, u64, u64, hashes),
    tuples_of(st.builds(CommitteeAttestation, addresses, st.binary(min_size=65, max_size=65)), 3),
)
tip_ids = st.builds(TipId, st.builds(BlockId, u32, fields), st.builds(CheckpointId, u32, fields))
tips = st.builds(L2Tips, st.builds(BlockId, u32, fields), tip_ids, tip_ids, tip_ids)

slow = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def through_text(value: Any) -> Any:
    """The value as a peer would receive it."""
    return orjson.loads(orjson.dumps(value))


# ---- round trips --------------------------------------------------------------------------------


@given(headers)
def test_a_header_survives_json_and_its_buffer(header: BlockHeader) -> None:
    assert BlockHeader.from_json(through_text(header.to_json())) == header
    buffer = header.to_buffer()
    assert len(buffer) == 440
    assert BlockHeader.from_buffer(buffer) == header


@given(checkpoint_headers)
def test_a_checkpoint_header_survives_json_and_its_buffer(header: CheckpointHeader) -> None:
    assert CheckpointHeader.from_json(through_text(header.to_json())) == header
    buffer = header.to_buffer()
    assert len(buffer) == 316
    assert CheckpointHeader.from_buffer(buffer) == header


@given(effects)
@slow
def test_a_tx_effect_survives_json_and_its_buffer(effect: TxEffect) -> None:
    assert TxEffect.from_json(through_text(effect.to_json())) == effect
    assert TxEffect.from_buffer(effect.to_buffer()) == effect


@given(blocks)
@slow
def test_a_block_survives_json_and_its_buffer(block: L2Block) -> None:
    assert L2Block.from_json(through_text(block.to_json())) == block
    assert L2Block.from_buffer(block.to_buffer()) == block


@given(checkpoints)
@slow
def test_a_published_checkpoint_survives_json(published: PublishedCheckpoint) -> None:
    assert PublishedCheckpoint.from_json(through_text(published.to_json())) == published


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        (b"\xab" * 64 + b"\x1b", "0x" + "ab" * 64 + "1b"),
        (bytes(65), "0x" + "0" * 129),  # as the reference writes members who have not signed
    ],
)
def test_a_signature_is_written_as_the_reference_writes_it_and_read_in_both_ways(signature: bytes, text: str) -> None:
    attestation = CommitteeAttestation(bytes(20), signature)
    written = through_text(attestation.to_json())
    assert written["signature"] == text
    assert CommitteeAttestation.from_json(written) == attestation
    whole = {**written, "signature": "0x" + signature.hex()}
    assert CommitteeAttestation.from_json(whole) == attestation


@given(tips)
def test_tips_survive_json(value: L2Tips) -> None:
    assert L2Tips.from_json(through_text(value.to_json())) == value


def test_the_recorded_chain_is_written_exactly_as_it_was_read(
    sample_checkpoint_records: list[dict[str, Any]], sample_checkpoints: list[PublishedCheckpoint]
) -> None:
    for record, published in zip(sample_checkpoint_records, sample_checkpoints, strict=True):
        # Compared as text, so that the order of the keys counts too.
        assert orjson.dumps(published.to_json()) == orjson.dumps(record["published"])


def test_the_recorded_blocks_survive_their_buffer(sample_blocks: list[L2Block]) -> None:
    for block in sample_blocks:
        assert L2Block.from_buffer(block.to_buffer()) == block


def test_the_recorded_tips_are_written_exactly_as_they_were_read(sample_records: list[dict[str, Any]]) -> None:
    recorded = sample_records[-1]["tips"]
    assert orjson.dumps(L2Tips.from_json(recorded).to_json()) == orjson.dumps(recorded)


def test_block_and_header_buffers_are_those_of_the_vectors(chain_vectors: dict[str, Any]) -> None:
    compared = 0
    for vector in chain_vectors["blocks"]:
        block = L2Block.from_json(vector)
        assert block.header.to_buffer().hex() == vector["headerBuffer"][2:]
        assert BlockHeader.from_buffer(bytes.fromhex(vector["headerBuffer"][2:])) == block.header
        if "blockBuffer" in vector:  # the largest ones are left out
            compared += 1
            assert block.to_buffer().hex() == vector["blockBuffer"][2:]
            assert L2Block.from_buffer(bytes.fromhex(vector["blockBuffer"][2:])) == block
    assert compared == 9


def test_unknown_keys_are_ignored(chain_vectors: dict[str, Any]) -> None:
    recorded = copy.deepcopy(chain_vectors["blocks"][0])
    plain = L2Block.from_json(recorded)
    recorded["header"]["_cachedHash"] = {}
    recorded["header"]["state"]["extra"] = None
    recorded["hash"] = "0x00"
    assert L2Block.from_json(recorded) == plain


# ---- damaged JSON -------------------------------------------------------------------------------


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of every key and element of a JSON value."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    found = []
    for key, item in items:
        found += [(*path, key), *_leaves(item, (*path, key))]
    return found


def _spelled(path: tuple[Any, ...], prefix: str) -> str:
    text = prefix
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}"
    return text


def _replaced(value: Any, path: tuple[Any, ...], replacement: Any) -> Any:
    damaged = copy.deepcopy(value)
    target = damaged
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = replacement
    return damaged


@pytest.fixture(scope="module")
def rich_checkpoint() -> dict[str, Any]:
    """One checkpoint with one of everything; its class log is shortened to what a test needs to change."""
    word = ZERO_FIELD_TEXT
    effect = {
        "revertCode": 0,
        "txHash": word,
        "transactionFee": word,
        "noteHashes": [word],
        "nullifiers": [word, word],
        "l2ToL1Msgs": [word],
        "publicDataWrites": [{"leafSlot": word, "value": word}],
        "privateLogs": [{"fields": [word] * 16, "emittedLength": 2}],
        "publicLogs": [{"contractAddress": word, "fields": [word]}],
        "contractClassLogs": [],
    }
    snapshot = {"root": word, "nextAvailableLeafIndex": 1}
    fees = {"feePerDaGas": "0", "feePerL2Gas": "1"}
    address = "0x" + "00" * 20
    variables = {
        "chainId": word,
        "version": word,
        "blockNumber": 1,
        "slotNumber": word,
        "timestamp": "1",
        "coinbase": address,
        "feeRecipient": word,
        "gasFees": fees,
    }
    partial = {"noteHashTree": snapshot, "nullifierTree": snapshot, "publicDataTree": snapshot}
    block_header = {
        "lastArchive": snapshot,
        "state": {"l1ToL2MessageTree": snapshot, "partial": partial},
        "spongeBlobHash": word,
        "globalVariables": variables,
        "totalFees": word,
        "totalManaUsed": word,
    }
    block = {
        "archive": snapshot,
        "header": block_header,
        "body": {"txEffects": [effect]},
        "checkpointNumber": 1,
        "indexWithinCheckpoint": 0,
    }
    header = {
        "lastArchiveRoot": word,
        "blockHeadersHash": word,
        "blobsHash": word,
        "inHash": word,
        "epochOutHash": word,
        "slotNumber": 1,
        "timestamp": "1",
        "coinbase": address,
        "feeRecipient": word,
        "gasFees": fees,
        "totalManaUsed": word,
    }
    checkpoint = {
        "archive": snapshot,
        "header": header,
        "blocks": [block],
        "number": 1,
        "feeAssetPriceModifier": "-1",
    }
    published = {
        "checkpoint": checkpoint,
        "l1": {"blockNumber": "1", "timestamp": "1", "blockHash": word},
        "attestations": [{"address": address, "signature": "0x" + "00" * 65}],
    }
    return through_text(published)


@pytest.mark.parametrize("replacement", [None, True, 1.5, -1, 1 << 300, "", "0xzz", "zz", {}, ["x"], [None]], ids=repr)
def test_every_damaged_value_is_refused_with_its_path(rich_checkpoint: dict[str, Any], replacement: Any) -> None:
    PublishedCheckpoint.from_json(rich_checkpoint)
    for path in _leaves(rich_checkpoint):
        damaged = _replaced(rich_checkpoint, path, replacement)
        with pytest.raises(DecodeError) as refused:
            PublishedCheckpoint.from_json(damaged, "published")
        message = str(refused.value)
        # An object or array of the wrong content is blamed on what it lacks or holds, below its own path.
        assert message.startswith(_spelled(path, "published")), message


def test_every_missing_key_is_named(rich_checkpoint: dict[str, Any]) -> None:
    for path in _leaves(rich_checkpoint):
        if isinstance(path[-1], int):
            continue
        damaged = copy.deepcopy(rich_checkpoint)
        target = damaged
        for key in path[:-1]:
            target = target[key]
        del target[path[-1]]
        with pytest.raises(DecodeError) as refused:
            PublishedCheckpoint.from_json(damaged, "published")
        assert str(refused.value) == f"{_spelled(path, 'published')}: missing"


@pytest.mark.parametrize(
    ("key", "count", "limit"),
    [
        ("noteHashes", 65, 64),
        ("nullifiers", 65, 64),
        ("l2ToL1Msgs", 9, 8),
        ("publicDataWrites", 65, 64),
        ("privateLogs", 65, 64),
        ("contractClassLogs", 2, 1),
    ],
)
def test_more_effects_than_a_tx_may_have_are_refused(
    rich_checkpoint: dict[str, Any], key: str, count: int, limit: int
) -> None:
    effect = copy.deepcopy(rich_checkpoint["checkpoint"]["blocks"][0]["body"]["txEffects"][0])
    effect[key] = (effect[key] or [{}]) * count
    with pytest.raises(DecodeError, match=rf"^tx\.{key}: has \d+ elements, at most {limit} allowed$"):
        TxEffect.from_json(effect, "tx")


def test_public_logs_are_limited_by_all_their_fields_together(rich_checkpoint: dict[str, Any]) -> None:
    effect = copy.deepcopy(rich_checkpoint["checkpoint"]["blocks"][0]["body"]["txEffects"][0])
    log = {"contractAddress": ZERO_FIELD_TEXT, "fields": [ZERO_FIELD_TEXT] * 1022}
    effect["publicLogs"] = [log] * 4
    assert len(TxEffect.from_json(effect).public_logs) == 4
    effect["publicLogs"].append({"contractAddress": ZERO_FIELD_TEXT, "fields": []})
    with pytest.raises(DecodeError, match=r"^tx\.publicLogs: 4098 fields in all, at most 4096 allowed$"):
        TxEffect.from_json(effect, "tx")


@pytest.mark.parametrize("code", [4, 255])
def test_an_unknown_revert_code_is_refused(rich_checkpoint: dict[str, Any], code: int) -> None:
    effect = dict(rich_checkpoint["checkpoint"]["blocks"][0]["body"]["txEffects"][0], revertCode=code)
    with pytest.raises(DecodeError, match=rf"^tx\.revertCode: {code} is above 3$"):
        TxEffect.from_json(effect, "tx")


@pytest.mark.parametrize("count", [0, 15, 17])
def test_a_private_log_has_sixteen_fields(count: int) -> None:
    record = {"fields": [ZERO_FIELD_TEXT] * count, "emittedLength": 0}
    with pytest.raises(DecodeError, match=r"^log\.fields: has \d+ elements"):
        PrivateLog.from_json(record, "log")


def test_an_emitted_length_above_the_fields_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"^log\.emittedLength: 17 is above 16$"):
        PrivateLog.from_json({"fields": [ZERO_FIELD_TEXT] * 16, "emittedLength": 17}, "log")
    record = {"contractAddress": ZERO_FIELD_TEXT, "fields": {"fields": [ZERO_FIELD_TEXT] * 3023}}
    with pytest.raises(DecodeError, match=r"^log\.emittedLength: 3024 is above 3023$"):
        ContractClassLog.from_json({**record, "emittedLength": 3024}, "log")


@pytest.mark.parametrize("count", [0, 3022, 3024])
def test_a_class_log_has_all_its_fields(count: int) -> None:
    record = {
        "contractAddress": ZERO_FIELD_TEXT,
        "fields": {"fields": [ZERO_FIELD_TEXT] * count},
        "emittedLength": 0,
    }
    with pytest.raises(DecodeError, match=r"^log\.fields\.fields: has \d+ elements"):
        ContractClassLog.from_json(record, "log")


def test_a_class_log_keeps_only_what_it_says() -> None:
    one, zero = field_from_int(1), field_from_int(0)
    log = ContractClassLog(one, one + zero + one + zero * 3000, 5)
    assert log.fields == one + zero + one
    assert log == ContractClassLog(one, one + zero + one, 5)
    assert log.emitted == one + zero + one + zero + zero
    assert log.padded == one + zero + one + zero * 3020
    assert ContractClassLog(one, field_from_int(256), 1).fields == field_from_int(256)
    assert ContractClassLog(one, b"", 0).fields == b""
    for field_bytes in (b"\1", one * 3024):
        with pytest.raises(DecodeError, match="contract class log"):
            ContractClassLog(one, field_bytes, 0)


# ---- damaged buffers ------------------------------------------------------------------------------


@given(blocks, st.data())
@slow
def test_a_block_buffer_of_the_wrong_length_is_refused(block: L2Block, data: st.DataObject) -> None:
    buffer = block.to_buffer()
    cut = data.draw(st.integers(0, len(buffer) - 1))
    with pytest.raises(DecodeError):
        L2Block.from_buffer(buffer[:cut])
    with pytest.raises(DecodeError, match="1 bytes left over"):
        L2Block.from_buffer(buffer + b"\0")


@given(effects, st.data())
@slow
def test_a_changed_byte_never_decodes_to_the_same_effect(effect: TxEffect, data: st.DataObject) -> None:
    buffer = bytearray(effect.to_buffer())
    position = data.draw(st.integers(0, len(buffer) - 1))
    buffer[position] ^= data.draw(st.integers(1, 255))
    try:
        decoded = TxEffect.from_buffer(bytes(buffer))
    except DecodeError:
        return
    assert decoded != effect
    assert decoded.to_buffer() == bytes(buffer)


@given(snapshots)
def test_a_tree_snapshot_survives_its_buffer(snapshot: AppendOnlyTreeSnapshot) -> None:
    buffer = snapshot.to_buffer()
    assert AppendOnlyTreeSnapshot.from_buffer(buffer) == snapshot
    with pytest.raises(DecodeError, match="35 bytes, expected 36"):
        AppendOnlyTreeSnapshot.from_buffer(buffer[:-1])
    with pytest.raises(DecodeError, match="the field at offset 0 is not below the field modulus"):
        AppendOnlyTreeSnapshot.from_buffer(MODULUS.to_bytes(32, "big") + buffer[32:])


@pytest.mark.parametrize("length", [0, 439, 441])
def test_a_header_buffer_has_440_bytes(length: int) -> None:
    with pytest.raises(DecodeError, match="expected 440"):
        BlockHeader.from_buffer(bytes(length))


@pytest.mark.parametrize("length", [0, 315, 317])
def test_a_checkpoint_header_buffer_has_316_bytes(length: int) -> None:
    with pytest.raises(DecodeError, match="expected 316"):
        CheckpointHeader.from_buffer(bytes(length))


@pytest.mark.parametrize("offset", [0, 36, 72, 108, 144, 180, 212, 244, 312, 376, 408])
def test_a_header_buffer_with_a_field_above_the_modulus_is_refused(offset: int) -> None:
    buffer = bytearray(440)
    buffer[offset : offset + 32] = MODULUS.to_bytes(32, "big")
    with pytest.raises(DecodeError, match="not below the field modulus"):
        BlockHeader.from_buffer(bytes(buffer))


@pytest.mark.parametrize("offset", [0, 32, 64, 96, 128, 220, 284])
def test_a_checkpoint_header_buffer_with_a_field_above_the_modulus_is_refused(offset: int) -> None:
    buffer = bytearray(316)
    buffer[offset : offset + 32] = MODULUS.to_bytes(32, "big")
    with pytest.raises(DecodeError, match="not below the field modulus"):
        CheckpointHeader.from_buffer(bytes(buffer))


def test_a_checkpoint_header_buffer_with_a_huge_slot_is_refused() -> None:
    buffer = bytearray(316)
    buffer[160 + 27] = 1
    with pytest.raises(DecodeError, match="slotNumber 4294967296 is above 4294967295"):
        CheckpointHeader.from_buffer(bytes(buffer))


def test_an_effect_buffer_with_a_field_above_the_modulus_names_the_offset() -> None:
    effect = TxEffect(0, field_from_int(1), 0, (field_from_int(2),), (), (), (), (), (), ())
    buffer = bytearray(effect.to_buffer())
    buffer[66:98] = MODULUS.to_bytes(32, "big")
    with pytest.raises(DecodeError, match="tx effect: the field at offset 66 is not below the field modulus"):
        TxEffect.from_buffer(bytes(buffer))


@pytest.mark.parametrize(("offset", "name"), [(65, "noteHashes"), (66, "nullifiers"), (67, "l2ToL1Msgs")])
def test_a_count_above_its_limit_is_refused_before_anything_is_read(offset: int, name: str) -> None:
    buffer = bytearray(TxEffect(0, field_from_int(1), 0, (), (), (), (), (), (), ()).to_buffer())
    buffer[offset] = 200
    with pytest.raises(DecodeError, match=rf"200 {name}, at most \d+ allowed"):
        TxEffect.from_buffer(bytes(buffer))


def test_a_log_in_a_buffer_is_held_to_its_emitted_length() -> None:
    log = PrivateLog((field_from_int(1),) * 16, 16)
    buffer = bytearray(TxEffect(0, field_from_int(1), 0, (), (), (), (), (log,), (), ()).to_buffer())
    end = len(buffer) - 5  # public log count u32, class log count u8
    assert buffer[end - 4 : end] == b"\0\0\0\x10"
    buffer[end - 1] = 17
    with pytest.raises(DecodeError, match="emittedLength 17 is above 16"):
        TxEffect.from_buffer(bytes(buffer))
