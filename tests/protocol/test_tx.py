"""Transactions: every form of the recorded ones, and what is refused."""

from __future__ import annotations

import base64
import os
import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.effort import tries
from tests.mempool.recorded import hashes, recorded_tx, recordings, rows

from fastnode.errors import DecodeError
from fastnode.kernels import USING_TWINS
from fastnode.protocol.fields import MODULUS_BYTES
from fastnode.protocol.releases import FOUR, Release
from fastnode.protocol.tx import (
    CALLDATA_FIELDS_DECODED_MAX,
    CLASS_LOG_BYTES,
    TX_DECODED_BYTES_MAX,
    Tx,
)
from fastnode.protocol.tx_data import Gas, TxData
from fastnode.protocol.tx_layout import USUAL

# The hash takes 2,784 fields: on the twins a handful of transactions stands for all.
SENT = hashes("sent")[:: 20 if USING_TWINS else 1]
FRESH = hashes("fresh")[:: 12 if USING_TWINS else 1]
EXAMPLES = int(os.environ.get("FASTNODE_FUZZ_EXAMPLES", 20 if USING_TWINS else tries(500, 10_000)))

PUBLIC = next(tx_hash for tx_hash in hashes("sent") if len(recordings()[tx_hash]["tx"]["publicFunctionCalldata"]) > 1)
PRIVATE = next(tx_hash for tx_hash in hashes("fresh") if not recordings()[tx_hash]["tx"]["publicFunctionCalldata"])
WITH_CLASS_LOG = next(tx_hash for tx_hash, row in recordings().items() if row["tx"]["contractClassLogFields"])


def _json(tx_hash: str) -> dict[str, Any]:
    return dict(recordings()[tx_hash]["tx"])


# ---- every recorded transaction ---------------------------------------------------------------


def test_there_are_140_sent_and_37_fresh_recordings() -> None:
    assert (len(hashes("sent")), len(hashes("fresh"))) == (140, 37)


@pytest.mark.parametrize("tx_hash", SENT + FRESH)
def test_a_recorded_tx_has_its_hash_and_comes_out_as_it_went_in(tx_hash: str) -> None:
    recorded = _json(tx_hash)
    tx = Tx.from_json(recorded, FOUR)
    assert "0x" + tx.hash.hex() == tx_hash
    assert tx.to_json() == recorded
    assert list(tx.to_json()) == list(recorded)
    assert tx.to_json_bytes() == orjson.dumps(recorded)


@pytest.mark.parametrize("tx_hash", SENT[::7] + FRESH[::7])
def test_the_binary_form_is_read_back_byte_for_byte(tx_hash: str) -> None:
    tx = recorded_tx(tx_hash)
    buffer = tx.to_buffer()
    assert len(buffer) == tx.size
    again = Tx.from_buffer(buffer, FOUR)
    assert again.to_buffer() == buffer
    assert (again.claimed_hash, again.data, again.calldata) == (tx.hash, tx.data, tx.calldata)


def test_real_proofs_survive_every_form() -> None:
    real = [row["txHash"] for row in rows("txs_recorded") if "chonkProof" in row]
    assert len(real) == 3
    for tx_hash in real:
        recorded, tx = _json(tx_hash), recorded_tx(tx_hash)
        assert tx.to_json()["chonkProof"] == recorded["chonkProof"]
        assert Tx.from_buffer(tx.to_buffer(), FOUR).proof == tx.proof


# ---- other spellings ----------------------------------------------------------------------------


def test_buffers_may_be_hex() -> None:
    recorded = _json(PUBLIC)
    for key in ("data", "chonkProof"):
        recorded[key] = "0x" + base64.b64decode(recorded[key]).hex()
    assert Tx.from_json(recorded, FOUR).to_json() == _json(PUBLIC)


def test_buffers_may_be_node_js_buffer_objects() -> None:
    recorded = _json(PRIVATE)
    for key in ("data", "chonkProof"):
        recorded[key] = {"type": "Buffer", "data": list(base64.b64decode(recorded[key]))}
    assert Tx.from_json(recorded, FOUR).to_json() == _json(PRIVATE)


@pytest.mark.parametrize("tx_hash", [PUBLIC, PRIVATE, WITH_CLASS_LOG])
def test_the_short_form_carries_the_whole_binary_form(tx_hash: str) -> None:
    tx = recorded_tx(tx_hash)
    for text in ("0x" + tx.to_buffer().hex(), base64.b64encode(tx.to_buffer()).decode()):
        assert Tx.from_json({"data": text}, FOUR).to_json() == tx.to_json()


def test_fields_may_be_written_short_or_in_decimal() -> None:
    recorded = _json(PUBLIC)
    entry = recorded["publicFunctionCalldata"][0]
    values = [hex(int(value, 16)) if i % 2 else str(int(value, 16)) for i, value in enumerate(entry["values"])]
    recorded["publicFunctionCalldata"] = [entry | {"values": values}, *recorded["publicFunctionCalldata"][1:]]
    assert Tx.from_json(recorded, FOUR).to_json() == _json(PUBLIC)


def test_the_hash_that_is_sent_along_is_not_believed() -> None:
    recorded = _json(PRIVATE) | {"txHash": "0x" + "11" * 32}
    assert "0x" + Tx.from_json(recorded, FOUR).hash.hex() == PRIVATE


def test_bytes_after_a_private_layout_do_not_matter() -> None:
    recorded = _json(PRIVATE)
    recorded["data"] = base64.b64encode(base64.b64decode(recorded["data"]) + b"left over").decode()
    assert Tx.from_json(recorded, FOUR).to_json() == _json(PRIVATE)


# ---- what validation reads ------------------------------------------------------------------------


def test_calls_and_limits_are_read_from_the_data() -> None:
    data = recorded_tx(PUBLIC).data
    assert data.is_public
    assert data.chain_id == 31337
    assert data.version == 3658137161
    assert len(data.public_calls) == len(recordings()[PUBLIC]["tx"]["publicFunctionCalldata"])
    assert data.gas_limits.l2_gas > 0
    assert isinstance(data.teardown_gas_limits, Gas)
    assert all(len(nullifier) == 32 and any(nullifier) for nullifier in data.nullifiers)


def test_the_anchor_block_hash_is_the_hash_of_the_header() -> None:
    for tx_hash in (PUBLIC, PRIVATE):
        data = recorded_tx(tx_hash).data
        assert data.anchor_block_hash == data.anchor_block_header.hash()


def test_a_private_tx_has_no_public_calls() -> None:
    data = recorded_tx(PRIVATE).data
    assert not data.is_public
    assert data.public_calls == ()
    assert data.teardown_call is None


def test_the_class_log_of_a_registration_is_named_in_the_data() -> None:
    tx = recorded_tx(WITH_CLASS_LOG)
    assert len(tx.class_logs) == len(tx.data.class_log_hashes) == 1
    assert len(tx.class_logs[0]) == CLASS_LOG_BYTES


def test_calldata_hashes_are_recomputed() -> None:
    tx = recorded_tx(PUBLIC)
    assert [entry.computed_hash() for entry in tx.calldata] == [entry.hash for entry in tx.calldata]


# ---- refusals ---------------------------------------------------------------------------------------


def _expect(change: dict[str, Any], *words: str, tx_hash: str = PRIVATE) -> None:
    with pytest.raises(DecodeError) as caught:
        Tx.from_json(_json(tx_hash) | change, FOUR)
    for word in words:
        assert word in str(caught.value)


def test_too_long_buffers_are_refused_before_they_are_decoded() -> None:
    _expect({"data": "A" * 200_000}, "data", "at most 110296")
    _expect({"data": "0x" + "00" * 90_000}, "data", "at most")
    _expect({"chonkProof": "A" * 200_000}, "chonkProof", "at most 82568")
    _expect({"data": {"type": "Buffer", "data": [0] * 90_000}}, "data", "at most 82722")


def test_a_huge_count_allocates_nothing() -> None:
    body = bytearray(recorded_tx(PRIVATE).to_buffer())
    calldata_at = len(body) - 1
    body[calldata_at] = 1
    body += (0xFFFFFFFF).to_bytes(4, "big")
    tracemalloc.start()
    with pytest.raises(DecodeError, match="calldata fields"):
        Tx.from_buffer(bytes(body), FOUR)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_buffer_above_the_decoding_limit_is_refused() -> None:
    with pytest.raises(DecodeError, match=str(TX_DECODED_BYTES_MAX)):
        Tx.from_buffer(bytes(TX_DECODED_BYTES_MAX + 1), FOUR)


def test_calldata_of_all_calls_together_is_bounded() -> None:
    zero = "0x" + "00" * 32
    entry = {"values": [zero] * (CALLDATA_FIELDS_DECODED_MAX // 2 + 1), "hash": zero}
    _expect({"publicFunctionCalldata": [entry, entry]}, "publicFunctionCalldata[1].values")
    _expect({"publicFunctionCalldata": [{"values": [], "hash": zero}] * 256}, "publicFunctionCalldata", "255")


def test_missing_and_mistyped_parts_are_named() -> None:
    for key in ("data", "chonkProof", "contractClassLogFields", "publicFunctionCalldata"):
        recorded = _json(PRIVATE)
        del recorded[key]
        with pytest.raises(DecodeError, match=key):
            Tx.from_json(recorded, FOUR)
    _expect({"data": 5}, "data")
    _expect({"data": "!!!!"}, "data", "base64")
    _expect({"data": "0xzz"}, "data", "hex")
    _expect({"data": {"type": "Buffer", "data": [256]}}, "data", "bytes")
    _expect({"contractClassLogFields": {}}, "contractClassLogFields", "array")
    _expect({"contractClassLogFields": [{"fields": ["0x01"]}]}, "contractClassLogFields[0].fields", "3023")
    _expect({"publicFunctionCalldata": [{"values": []}]}, "publicFunctionCalldata[0].hash")
    _expect({"publicFunctionCalldata": [{"values": [7], "hash": "0x0"}]}, "publicFunctionCalldata[0].values[0]")
    for value in (None, [], "x", 5, True):
        with pytest.raises(DecodeError):
            Tx.from_json(value, FOUR)


def test_a_short_tx_says_what_its_kind_has() -> None:
    data = base64.b64decode(_json(PRIVATE)["data"])
    _expect({"data": base64.b64encode(data[:-1]).decode()}, "private-only", "38557")
    _expect({"data": base64.b64encode(b"\1" + data[1:]).decode()}, "public", "82722")
    _expect({"data": ""}, "forPublic")
    _expect({"data": base64.b64encode(b"\2" + data[1:]).decode()}, "public", "82722")


@pytest.mark.parametrize(
    ("offset", "name"),
    [(1, "anchorBlockHeader"), (657, "feePayer"), (697, "noteHashes[0]"), (2745 + 32, "nullifiers[1]")],
)
def test_a_field_above_the_modulus_is_named(offset: int, name: str) -> None:
    data = bytearray(base64.b64decode(_json(PRIVATE)["data"]))
    data[offset : offset + 32] = MODULUS_BYTES
    _expect({"data": base64.b64encode(data).decode()}, name, str(offset))


def test_public_calls_must_stand_without_gaps() -> None:
    data = bytearray(base64.b64decode(_json(PUBLIC)["data"]))
    last_request = USUAL.teardown_request - USUAL.call_request_bytes
    data[last_request + 40] ^= 1
    _expect({"data": base64.b64encode(data).decode()}, "without gaps", tx_hash=PUBLIC)


@pytest.mark.parametrize("flag", [2, 128, 255])
@pytest.mark.parametrize(
    "place", [USUAL.for_public, USUAL.revertible + USUAL.call_requests + 64, USUAL.teardown_request + 64]
)
def test_any_flag_but_zero_is_true_and_written_as_one(place: int, flag: int) -> None:
    """As the published node reads them: the same transaction, with the same hash."""
    plain = bytearray(recorded_tx(PUBLIC).data.buffer)
    plain[place] = 1
    bent = bytes(plain[:place]) + bytes([flag]) + bytes(plain[place + 1 :])
    data = TxData.from_buffer(bent)
    assert (data.buffer, data.tx_hash) == (bytes(plain), TxData.from_buffer(bytes(plain)).tx_hash)
    written = recorded_tx(PUBLIC).to_buffer()
    binary = written[:32] + bent + written[32 + len(bent) :]
    assert Tx.from_buffer(binary, FOUR).data.buffer == bytes(plain)


def test_a_proof_has_exactly_its_fields() -> None:
    _expect({"chonkProof": ""}, "chonkProof", "0 bytes")
    proof = base64.b64decode(_json(PRIVATE)["chonkProof"])
    _expect({"chonkProof": base64.b64encode(b"\0\0\0\1" + proof[4:]).decode()}, "chonkProof", "1935")
    _expect({"chonkProof": base64.b64encode(proof[:4] + MODULUS_BYTES + proof[36:]).decode()}, "modulus")
    assert len(proof) == 4 + FOUR.proof_fields * 32


def test_bytes_left_over_after_a_binary_tx_are_refused() -> None:
    with pytest.raises(DecodeError, match="left over"):
        Tx.from_buffer(recorded_tx(PRIVATE).to_buffer() + b"\0", FOUR)


def test_a_wrong_hash_in_front_is_kept_for_validation() -> None:
    buffer = recorded_tx(PRIVATE).to_buffer()
    tx = Tx.from_buffer(b"\x11" * 32 + buffer[32:], FOUR)
    assert tx.claimed_hash == b"\x11" * 32
    assert "0x" + tx.hash.hex() == PRIVATE


# ---- fuzzing ------------------------------------------------------------------------------------------

_fuzz = settings(max_examples=EXAMPLES, derandomize=True, suppress_health_check=list(HealthCheck), database=None)

_EDITS = st.lists(st.tuples(st.integers(0, 200_000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=4)
_LENGTHS = st.one_of(st.none(), st.integers(0, 250_000))


def _mutate(buffer: bytes, edits: list[tuple[int, bytes]], length: int | None) -> bytes:
    changed = bytearray(buffer)
    for offset, piece in edits:
        position = offset % (len(changed) + 1)
        changed[position : position + len(piece)] = piece
    return bytes(changed if length is None else changed[:length])


def _outcome(decode: Callable[[Any, Release], Tx], value: object) -> Tx | str:
    """The transaction, or why there is none; anything but a DecodeError fails the test."""
    try:
        return decode(value, FOUR)
    except DecodeError as error:
        return str(error)


@_fuzz
@given(tx_hash=st.sampled_from([PUBLIC, PRIVATE, WITH_CLASS_LOG]), edits=_EDITS, length=_LENGTHS)
def test_a_mutated_buffer_is_a_tx_or_has_a_reason(tx_hash: str, edits: list[tuple[int, bytes]], length: int) -> None:
    buffer = _mutate(recorded_tx(tx_hash).to_buffer(), edits, length)
    outcome = _outcome(Tx.from_buffer, buffer)
    # Accepted bytes are written again as they were, but for the hash, which is computed.
    assert outcome if isinstance(outcome, str) else outcome.to_buffer()[32:] == buffer[32:]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=70),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
_KEYS = st.sampled_from(["data", "chonkProof", "contractClassLogFields", "publicFunctionCalldata", "txHash"])


@_fuzz
@given(
    tx_hash=st.sampled_from([PUBLIC, PRIVATE]),
    changes=st.dictionaries(_KEYS, _JSON, max_size=3),
    dropped=st.sets(_KEYS, max_size=3),
)
def test_a_mutated_json_tx_is_a_tx_or_has_a_reason(tx_hash: str, changes: dict[str, Any], dropped: set[str]) -> None:
    value = {key: item for key, item in (_json(tx_hash) | changes).items() if key not in dropped}
    outcome = _outcome(Tx.from_json, value)
    assert (
        outcome
        if isinstance(outcome, str)
        else Tx.from_json(outcome.to_json(), FOUR).to_buffer() == outcome.to_buffer()
    )


@_fuzz
@given(value=_JSON)
def test_any_json_is_a_tx_or_has_a_reason(value: object) -> None:
    with pytest.raises(DecodeError):
        Tx.from_json(value, FOUR)


def test_base64_is_read_in_every_way_that_published_nodes_read_it_in() -> None:
    record = recorded_tx(PRIVATE).to_json()
    data = base64.b64decode(record["data"])
    padded, of_urls = record["data"], base64.urlsafe_b64encode(data).decode()
    lines = "\n".join(padded[place : place + 76] for place in range(0, len(padded), 76))
    for text in (padded.rstrip("="), of_urls, of_urls.rstrip("="), lines, f" {padded}\t"):
        assert Tx.from_json({**record, "data": text}, FOUR).data.buffer == data
    for text in (padded[:-5] + "*" + padded[-4:], padded + "\u00e9", padded[:8] + "=" + padded[9:], lines + "AAAA"):
        with pytest.raises(DecodeError, match=r"^.*data: "):
            Tx.from_json({**record, "data": text}, FOUR)
