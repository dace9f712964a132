"""The rules: every recorded answer, then each reason by a transaction changed to deserve it."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from tests.effort import tries
from tests.mempool.chain import MIN_L2_FEE, AllowedCall, BookLedger
from tests.mempool.recorded import expand, hashes, recorded_tx, recordings, rows

from fastnode.errors import DecodeError
from fastnode.kernels import USING_TWINS, poseidon2
from fastnode.mempool import validation
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.network import NetworkIdentity
from fastnode.mempool.validation import (
    GasCaps,
    TxValidationResult,
    TxValidator,
    ValidationRules,
    consistency_reason,
)
from fastnode.proofs.judge import NO_VERIFIER, open_judge
from fastnode.protocol.contracts import (
    INSTANCE_PUBLISHED_TAG,
    contract_class_id,
    public_bytecode_chunks,
    public_bytecode_commitment,
)
from fastnode.protocol.header import GasFees
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx import Calldata, Tx
from fastnode.protocol.tx_data import TxData
from fastnode.protocol.tx_layout import USUAL

MIN_FEES = GasFees(0, MIN_L2_FEE)
ANSWERS = [row for row in rows("txs_answers") if row["method"] == "node_isValidTx" and "result" in row]
ERRORS = [row for row in rows("txs_answers") if row["method"] == "node_isValidTx" and "error" in row]
if USING_TWINS:
    ANSWERS = ANSWERS[::25]

#: Fresh transactions: valid, so that one change gives one reason.
PRIVATE = next(tx_hash for tx_hash in hashes("fresh") if not recordings()[tx_hash]["tx"]["publicFunctionCalldata"])
PUBLIC = next(tx_hash for tx_hash in hashes("fresh") if len(recordings()[tx_hash]["tx"]["publicFunctionCalldata"]) > 1)


def _first_sent(predicate: Callable[[Tx], bool]) -> Tx:
    return next(tx for tx in map(recorded_tx, hashes("sent")) if predicate(tx))


def _edited(tx: Tx, *edits: tuple[int, bytes], **parts: Any) -> Tx:
    """The transaction with bytes of its data replaced at offsets, and other parts replaced by name."""
    data = bytearray(tx.data.buffer)
    for offset, piece in edits:
        data[offset : offset + len(piece)] = piece
    return replace(tx, data=TxData.from_buffer(bytes(data)), **parts)


def _reasons(validator: TxValidator, ledger: BookLedger, tx: Tx, **options: bool) -> list[str]:
    return list(validator.validate(tx, ledger, MIN_FEES, **options).reasons)


# ---- recorded answers -------------------------------------------------------------------------


def _is_a_word_of_its_own(row: dict[str, Any]) -> bool:
    """The reference cannot hold chain ids above 2^53 and fails; here they are simply wrong."""
    return "max safe integer" in row["error"]["message"]


@pytest.mark.parametrize("row", ANSWERS)
def test_a_recorded_answer_is_given_again(
    row: dict[str, Any], validator: TxValidator, chain_ledger: BookLedger
) -> None:
    parameters = expand(row["params"])
    options = (parameters[1:] or [None])[0] or {}
    answer = validator.validate(
        Tx.from_json(parameters[0], FOUR),
        chain_ledger,
        MIN_FEES,
        is_simulation=options.get("isSimulation", False),
        skip_fee_enforcement=options.get("skipFeeEnforcement", False),
    )
    assert answer.to_json() == row["result"]


def _blames_the_tx(row: dict[str, Any]) -> bool:
    return bool(row["params"]) and "(1)" not in row["error"]["message"] and not _is_a_word_of_its_own(row)


@pytest.mark.parametrize("row", [row for row in ERRORS if _blames_the_tx(row)])
def test_what_the_reference_cannot_decode_is_not_decoded(row: dict[str, Any]) -> None:
    with pytest.raises(DecodeError):
        Tx.from_json(expand(row["params"])[0], FOUR)


def test_ids_that_the_reference_cannot_hold_are_wrong_ids(validator: TxValidator, chain_ledger: BookLedger) -> None:
    rows_of_big_ids = [row for row in ERRORS if _is_a_word_of_its_own(row)]
    reasons = [
        _reasons(validator, chain_ledger, Tx.from_json(expand(row["params"])[0], FOUR)) for row in rows_of_big_ids
    ]
    assert sorted(reasons) == [[validation.WRONG_CHAIN]] * 2 + [[validation.WRONG_VERSION]] * 2


# ---- one reason each ------------------------------------------------------------------------------


def test_a_fresh_tx_is_valid(validator: TxValidator, chain_ledger: BookLedger) -> None:
    for tx_hash in (PRIVATE, PUBLIC):
        assert validator.validate(recorded_tx(tx_hash), chain_ledger, MIN_FEES) == TxValidationResult("valid")


def test_an_operator_can_forbid_transactions(
    rules: ValidationRules, clock: SlotClock, chain_ledger: BookLedger
) -> None:
    validator = TxValidator(replace(rules, transactions_permitted=False), clock, open_judge(required=False))
    assert _reasons(validator, chain_ledger, recorded_tx(PRIVATE)) == [validation.NOT_PERMITTED]


def test_expiration_is_compared_with_the_next_slot(
    validator: TxValidator, clock: SlotClock, chain_ledger: BookLedger
) -> None:
    next_slot = clock.next_slot_timestamp()
    for timestamp, expected in ((next_slot - 1, [validation.EXPIRED]), (next_slot, [])):
        tx = _edited(recorded_tx(PRIVATE), (USUAL.expiration, timestamp.to_bytes(8, "big")))
        assert _reasons(validator, chain_ledger, tx) == expected


def test_the_first_block_may_include_what_has_expired(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = _edited(recorded_tx(PRIVATE), (USUAL.expiration, bytes(8)))
    at_genesis = replace(chain_ledger, head=0)
    assert _reasons(validator, at_genesis, tx) == []


def test_a_tx_above_512_kib_is_too_large(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = recorded_tx(PRIVATE)
    padding = (validation.TX_BYTES_MAX - tx.size) // 32
    for fields, too_large in ((padding - 1, False), (padding + 1, True)):
        entry = Calldata(bytes(32 * fields), bytes(32))
        assert (validation.TOO_LARGE in _reasons(validator, chain_ledger, replace(tx, calldata=(entry,)))) is too_large


@pytest.mark.parametrize(
    ("offset", "reason"),
    [
        (USUAL.chain_id, validation.WRONG_CHAIN),
        (USUAL.version, validation.WRONG_VERSION),
        (USUAL.vk_tree_root, validation.WRONG_VK_ROOT),
        (USUAL.protocol_contracts_hash, validation.WRONG_CONTRACTS),
    ],
)
def test_a_tx_of_another_network_is_refused(
    offset: int, reason: str, validator: TxValidator, chain_ledger: BookLedger
) -> None:
    tx = _edited(recorded_tx(PRIVATE), (offset, bytes(31) + b"\x07"))
    assert _reasons(validator, chain_ledger, tx) == [reason]


def test_unknown_network_values_refuse_everything(
    rules: ValidationRules, network: NetworkIdentity, clock: SlotClock, chain_ledger: BookLedger
) -> None:
    unknown = replace(network, vk_tree_root=None, protocol_contracts_hash=None)
    validator = TxValidator(replace(rules, network=unknown), clock, open_judge(required=False))
    reasons = _reasons(validator, chain_ledger, recorded_tx(PRIVATE))
    assert reasons == [validation.UNKNOWN_VK_ROOT, validation.UNKNOWN_CONTRACTS]


def test_an_unknown_anchor_block_is_refused(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = recorded_tx(PRIVATE)
    ledger = replace(chain_ledger, blocks=chain_ledger.blocks - {tx.data.anchor_block_hash})
    assert _reasons(validator, ledger, tx) == [validation.UNKNOWN_ANCHOR]


def test_a_spent_nullifier_is_refused(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = recorded_tx(PUBLIC)
    ledger = replace(chain_ledger, nullifiers=chain_ledger.nullifiers | {tx.data.nullifiers[-1]})
    assert _reasons(validator, ledger, tx) == [validation.EXISTING_NULLIFIER]


def test_a_nullifier_twice_in_one_tx_is_refused(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = recorded_tx(PRIVATE)
    second = USUAL.accumulated + USUAL.nullifiers + 32 * len(tx.data.nullifiers)
    again = _edited(tx, (second, tx.data.nullifiers[0]))
    assert _reasons(validator, chain_ledger, again) == [validation.DUPLICATE_NULLIFIER]


def test_a_wrong_hash_in_the_binary_form_is_refused(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = Tx.from_buffer(bytes(32) + recorded_tx(PRIVATE).to_buffer()[32:], FOUR)
    assert _reasons(validator, chain_ledger, tx) == [validation.WRONG_HASH]


# ---- calldata -----------------------------------------------------------------------------------------


def test_calldata_must_be_there_once_per_call(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = recorded_tx(PUBLIC)
    for calldata in (tx.calldata[:-1], (*tx.calldata, tx.calldata[0])):
        assert validation.CALLDATA_COUNT in _reasons(validator, chain_ledger, replace(tx, calldata=calldata))


def test_calldata_may_come_in_any_order(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = recorded_tx(PUBLIC)
    assert _reasons(validator, chain_ledger, replace(tx, calldata=tx.calldata[::-1])) == []


def test_calldata_must_hash_to_what_it_claims(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = recorded_tx(PUBLIC)
    forged = (tx.calldata[0]._replace(values=tx.calldata[0].values + bytes(32)), *tx.calldata[1:])
    assert _reasons(validator, chain_ledger, replace(tx, calldata=forged)) == [validation.WRONG_CALLDATA]
    foreign = (tx.calldata[0]._replace(hash=bytes(32)), *tx.calldata[1:])
    assert _reasons(validator, chain_ledger, replace(tx, calldata=foreign)) == [validation.WRONG_CALLDATA]


def test_calls_without_arguments_need_no_calldata_of_their_own(
    validator: TxValidator, chain_ledger: BookLedger
) -> None:
    """As many entries as calls are asked for all the same: what no call names stands there for nothing."""
    tx = recorded_tx(PUBLIC)
    place = tx.data.buffer.index(tx.calldata[-1].hash)
    of_none = _edited(tx, (place, Calldata(b"", b"").computed_hash()))
    assert of_none.data.public_calls[-1].calldata_hash == Calldata(b"", b"").computed_hash()
    assert consistency_reason(of_none) is None
    assert consistency_reason(replace(of_none, calldata=tx.calldata[:-1])) == validation.CALLDATA_COUNT
    empty = Calldata(b"", Calldata(b"", b"").computed_hash())
    assert consistency_reason(replace(of_none, calldata=(*tx.calldata[:-1], empty))) is None
    lying = Calldata(bytes(32), empty.hash)
    assert consistency_reason(replace(of_none, calldata=(*tx.calldata[:-1], lying))) == validation.WRONG_CALLDATA


def test_calldata_of_16000_fields_is_the_most(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = recorded_tx(PUBLIC)
    used = sum(entry.field_count for entry in tx.calldata[1:])
    for fields, expected in (
        (16_000 - used, validation.WRONG_CALLDATA),
        (16_001 - used, validation.CALLDATA_TOO_LARGE),
    ):
        calldata = (tx.calldata[0]._replace(values=bytes(32 * fields)), *tx.calldata[1:])
        assert _reasons(validator, chain_ledger, replace(tx, calldata=calldata))[-1] == expected


# ---- class logs and deployments ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def registration() -> Tx:
    """A recorded tx that publishes a contract class."""
    return _first_sent(lambda tx: bool(tx.class_logs))


@pytest.fixture(scope="module")
def deployment() -> Tx:
    """A recorded tx that publishes an instance."""
    return _first_sent(lambda tx: any(log.fields.startswith(INSTANCE_PUBLISHED_TAG) for log in tx.data.private_logs))


def _class_log_offset(tx: Tx) -> int:
    empty = bytes(USUAL.class_log_hash_bytes)
    bases = (USUAL.non_revertible, USUAL.revertible) if tx.data.is_public else (USUAL.accumulated,)
    offsets = [base + USUAL.class_log_hashes for base in bases]
    return next(at for at in offsets if tx.data.buffer[at : at + USUAL.class_log_hash_bytes] != empty)


def test_class_logs_must_be_as_many_as_their_hashes(registration: Tx) -> None:
    assert validation.consistency_reason(registration) is None
    assert validation.consistency_reason(replace(registration, class_logs=())) == validation.CLASS_LOG_COUNT


def test_a_class_log_must_hash_to_what_the_data_says(registration: Tx) -> None:
    other = bytes(32) + registration.class_logs[0][32:]
    assert validation.consistency_reason(replace(registration, class_logs=(other,))) == validation.CLASS_LOG_MISMATCH


def test_a_class_log_must_not_be_longer_than_it_says(registration: Tx) -> None:
    at = _class_log_offset(registration)
    short = _edited(registration, (at + 32, struct.pack(">I", 2)))
    assert validation.consistency_reason(short) == validation.CLASS_LOG_LENGTH


def test_class_logs_must_stand_in_the_order_of_their_hashes(registration: Tx) -> None:
    public = recorded_tx(PUBLIC)
    logs = (registration.class_logs[0], bytes(31) + b"\1" + bytes(len(registration.class_logs[0]) - 32))
    entries = [struct.pack(">32sI32s", poseidon2.hash_fields(log), 3023, bytes(31) + b"\3") for log in logs]
    tx = _edited(
        public,
        (USUAL.non_revertible + USUAL.class_log_hashes, entries[0]),
        (USUAL.revertible + USUAL.class_log_hashes, entries[1]),
        class_logs=logs,
    )
    assert validation.consistency_reason(tx) is None
    assert validation.consistency_reason(replace(tx, class_logs=logs[::-1])) == validation.CLASS_LOG_ORDER


def test_a_class_id_must_be_that_of_its_content(
    registration: Tx, validator: TxValidator, chain_ledger: BookLedger
) -> None:
    log = registration.class_logs[0]
    for field_index, expected in ((1, validation.WRONG_CLASS_ID), (2, validation.MALFORMED_CLASS)):
        forged = log[: 32 * field_index] + bytes(31) + b"\x09" + log[32 * field_index + 32 :]
        at = _class_log_offset(registration)
        tx = _edited(registration, (at, poseidon2.hash_fields(forged)), class_logs=(forged,))
        reasons = _reasons(validator, chain_ledger, tx)
        assert expected in reasons
        assert validation.CLASS_LOG_MISMATCH not in reasons


def test_bytecode_that_ends_with_zeros_is_published_like_any_other(
    registration: Tx, validator: TxValidator, chain_ledger: BookLedger
) -> None:
    """The registry emits the log without the zero fields at its end, and so says a shorter length."""
    bytecode = b"\x26" + bytes(31)
    log = registration.class_logs[0]
    class_id = contract_class_id(log[96:128], log[128:160], public_bytecode_commitment(bytecode))
    published = log[:32] + class_id + log[64:160] + bytes(31) + b"\x20" + public_bytecode_chunks(bytecode)
    published = published.ljust(len(log), b"\0")
    entry = struct.pack(">32sI", poseidon2.hash_fields(published), 7)
    tx = _edited(registration, (_class_log_offset(registration), entry), class_logs=(published,))
    reasons = _reasons(validator, chain_ledger, tx)
    assert not {validation.MALFORMED_CLASS, validation.WRONG_CLASS_ID, validation.CLASS_LOG_LENGTH} & set(reasons)


def test_an_address_must_be_that_of_its_content(
    deployment: Tx, validator: TxValidator, chain_ledger: BookLedger
) -> None:
    at = deployment.data.buffer.index(INSTANCE_PUBLISHED_TAG)
    assert validation.WRONG_ADDRESS not in _reasons(validator, chain_ledger, deployment)
    changes = ((1, validation.WRONG_ADDRESS), (8, validation.MALFORMED_INSTANCE), (2, validation.MALFORMED_INSTANCE))
    for field_index, expected in changes:
        tx = _edited(deployment, (at + 32 * field_index, bytes(31) + b"\x09"))
        assert expected in _reasons(validator, chain_ledger, tx)


# ---- setup -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def claim() -> Tx:
    """A recorded tx whose setup claims bridged fee juice."""
    return _first_sent(lambda tx: [call.contract_address[-1] for call in tx.data.setup_calls] == [5])


@pytest.fixture(scope="module")
def token_payment() -> Tx:
    """A recorded tx whose setup pays in a token, which is allowed by class."""
    return _first_sent(lambda tx: len(tx.data.setup_calls) == 2)


def _setup_reasons(validator: TxValidator, ledger: BookLedger, tx: Tx) -> list[str]:
    return [reason for reason in _reasons(validator, ledger, tx) if reason.startswith("Setup")]


def _with_entries(validator: TxValidator, *entries: AllowedCall) -> TxValidator:
    rules = replace(validator.rules, setup_allow_list=list(entries))
    return TxValidator(rules, validator.clock, open_judge(required=False))


def test_allowed_setup_calls_pass(
    claim: Tx, token_payment: Tx, validator: TxValidator, chain_ledger: BookLedger
) -> None:
    for tx in (claim, token_payment):
        assert _setup_reasons(validator, chain_ledger, tx) == []


def test_other_setup_calls_do_not(claim: Tx, validator: TxValidator, chain_ledger: BookLedger) -> None:
    nothing = _with_entries(validator)
    assert _setup_reasons(nothing, chain_ledger, claim) == [validation.SETUP_NOT_ALLOWED]
    other_function = _with_entries(validator, AllowedCall(b"\1\2\3\4", address=(5).to_bytes(32, "big")))
    assert _setup_reasons(other_function, chain_ledger, claim) == [validation.SETUP_NOT_ALLOWED]


def test_flags_of_an_entry_are_enforced(claim: Tx, validator: TxValidator, chain_ledger: BookLedger) -> None:
    fee_juice = (5).to_bytes(32, "big")
    entry = AllowedCall(bytes.fromhex("e7f045ff"), address=fee_juice, only_self=True, reject_null_msg_sender=True)
    longer = _with_entries(validator, replace(entry, calldata_length=4))
    assert _setup_reasons(longer, chain_ledger, claim) == [validation.SETUP_CALLDATA_LENGTH]
    sender_at = USUAL.non_revertible + USUAL.call_requests
    stranger = _edited(claim, (sender_at, bytes(31) + b"\x63"))
    assert _setup_reasons(_with_entries(validator, entry), chain_ledger, stranger) == [validation.SETUP_ONLY_SELF]
    hidden = _edited(claim, (sender_at, validation._NULL_SENDER))
    anyone = _with_entries(validator, replace(entry, only_self=False))
    assert _setup_reasons(anyone, chain_ledger, hidden) == [validation.SETUP_NULL_SENDER]
    assert _setup_reasons(anyone, chain_ledger, stranger) == []


def test_entries_by_class_need_a_known_contract(
    token_payment: Tx, validator: TxValidator, chain_ledger: BookLedger
) -> None:
    strangers = replace(chain_ledger, classes={})
    assert _setup_reasons(validator, strangers, token_payment) == [validation.SETUP_UNKNOWN_CONTRACT]


def test_a_contract_deployed_by_the_tx_itself_is_known(deployment: Tx) -> None:
    at = deployment.data.buffer.index(INSTANCE_PUBLISHED_TAG)
    address, class_id = (deployment.data.buffer[at + 32 * i : at + 32 * i + 32] for i in (1, 4))
    assert validation._class_deployed_by(deployment, address, FOUR) == class_id
    assert validation._class_deployed_by(deployment, bytes(32), FOUR) is None


# ---- gas, fees, proof ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tx_hash", "da_gas", "l2_gas", "expected"),
    [
        (PUBLIC, 96, 540_000, []),
        (PUBLIC, 96, 539_999, [validation.GAS_TOO_LOW]),
        (PUBLIC, 95, 540_000, [validation.GAS_TOO_LOW]),
        (PRIVATE, 96, 440_000, []),
        (PRIVATE, 96, 439_999, [validation.GAS_TOO_LOW]),
        (PRIVATE, 786_432, 6_540_000, []),
        (PRIVATE, 786_432, 6_540_001, [validation.GAS_TOO_HIGH]),
        (PRIVATE, 786_433, 6_540_000, [validation.GAS_TOO_HIGH]),
    ],
)
def test_gas_limits_have_bounds(
    tx_hash: str, da_gas: int, l2_gas: int, expected: list[str], validator: TxValidator, chain_ledger: BookLedger
) -> None:
    tx = _edited(recorded_tx(tx_hash), (USUAL.gas_limits, struct.pack(">II", da_gas, l2_gas)))
    assert _reasons(validator, chain_ledger, tx) == expected
    assert _reasons(validator, chain_ledger, tx, skip_fee_enforcement=True) == []


def test_operators_and_rollups_can_only_lower_the_caps() -> None:
    assert GasCaps().lowered(l2_gas=10, da_gas=None) == GasCaps(10, 786_432)
    assert GasCaps().lowered(l2_gas=10**9, da_gas=10**9) == GasCaps()


def test_a_low_price_is_skipped_not_invalid(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = _edited(recorded_tx(PRIVATE), (USUAL.max_fees, struct.pack(">QQQQ", 0, 0, 0, MIN_L2_FEE - 1)))
    result = validator.validate(tx, chain_ledger, MIN_FEES)
    assert result.to_json() == {"result": "skipped", "reason": [validation.FEE_TOO_LOW]}
    assert not result.is_valid
    assert validator.validate(tx, chain_ledger, MIN_FEES, may_wait_for_price=True).is_valid


def test_an_invalid_tx_with_a_low_price_is_invalid(validator: TxValidator, chain_ledger: BookLedger) -> None:
    low = (USUAL.max_fees, bytes(32))
    tx = _edited(recorded_tx(PRIVATE), low, (USUAL.chain_id, bytes(32)))
    result = validator.validate(tx, chain_ledger, MIN_FEES)
    assert result == TxValidationResult("invalid", (validation.WRONG_CHAIN, validation.FEE_TOO_LOW))


def test_the_fee_payer_must_cover_the_most_the_tx_can_cost(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = recorded_tx(PRIVATE)
    limit = tx.data.gas_limits.l2_gas * tx.data.max_fees_per_gas.fee_per_l2_gas
    ledger = chain_ledger.copy()
    for balance, expected in ((limit, []), (limit - 1, [validation.BALANCE_TOO_LOW])):
        ledger.set_balance(tx.data.fee_payer, balance)
        assert _reasons(validator, ledger, tx) == expected


def test_a_claim_in_setup_counts_as_balance(claim: Tx, validator: TxValidator, chain_ledger: BookLedger) -> None:
    ledger = chain_ledger.copy()
    ledger.set_balance(claim.data.fee_payer, 0)
    assert validation.BALANCE_TOO_LOW not in _reasons(validator, ledger, claim)
    without = replace(claim, calldata=())
    assert validation.BALANCE_TOO_LOW in _reasons(validator, ledger, without)


def test_without_a_verifier_real_proofs_are_refused(
    rules: ValidationRules, clock: SlotClock, chain_ledger: BookLedger
) -> None:
    validator = TxValidator(rules, clock, open_judge(required=True))
    assert _reasons(validator, chain_ledger, recorded_tx(PRIVATE)) == [NO_VERIFIER]
    assert _reasons(validator, chain_ledger, recorded_tx(PRIVATE), is_simulation=True) == []


def test_a_proof_is_looked_at_when_nothing_else_is_wrong(
    rules: ValidationRules, clock: SlotClock, chain_ledger: BookLedger
) -> None:
    judge = open_judge(required=True)
    validator = TxValidator(rules, clock, judge)
    wrong = _edited(recorded_tx(PRIVATE), (USUAL.chain_id, bytes(32)))
    cheap = _edited(recorded_tx(PRIVATE), (USUAL.max_fees, bytes(32)))
    assert _reasons(validator, chain_ledger, wrong) == [validation.WRONG_CHAIN]
    assert _reasons(validator, chain_ledger, cheap) == [validation.FEE_TOO_LOW]
    assert not judge.verdicts
    assert _reasons(validator, chain_ledger, cheap, may_wait_for_price=True) == [NO_VERIFIER]
    result = validator.validate(recorded_tx(PRIVATE), chain_ledger, MIN_FEES)
    assert result == TxValidationResult("skipped", (NO_VERIFIER,), (NO_VERIFIER,))
    assert result.needs_other_judge


def test_reasons_come_in_the_order_of_the_rules(validator: TxValidator, chain_ledger: BookLedger) -> None:
    tx = _edited(
        recorded_tx(PRIVATE),
        (USUAL.chain_id, bytes(32)),
        (USUAL.expiration, bytes(8)),
        (USUAL.anchor_header, bytes(32)),
        (USUAL.gas_limits, bytes(8)),
        class_logs=(bytes(3023 * 32),),
    )
    expected = [validation.EXPIRED, validation.WRONG_CHAIN, validation.UNKNOWN_ANCHOR]
    expected += [validation.CLASS_LOG_COUNT, validation.GAS_TOO_LOW]
    assert _reasons(validator, chain_ledger, tx) == expected


# ---- fuzzing ---------------------------------------------------------------------------------------------------


_EDITS = st.lists(st.tuples(st.integers(0, 83_000), st.binary(min_size=1, max_size=4)), min_size=1, max_size=3)


@settings(
    max_examples=int(os.environ.get("FASTNODE_FUZZ_EXAMPLES", 20 if USING_TWINS else tries(150, 3_000))),
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(tx_hash=st.sampled_from([PUBLIC, PRIVATE]), edits=_EDITS, spoiled=st.sampled_from(["calldata", "logs", "none"]))
def test_a_mutated_tx_is_valid_or_has_reasons(
    tx_hash: str,
    edits: list[tuple[int, bytes]],
    spoiled: str,
    validator: TxValidator,
    chain_ledger: BookLedger,
) -> None:
    tx = recorded_tx(tx_hash)
    data = bytearray(tx.data.buffer)
    for offset, piece in edits:
        position = offset % (len(data) - len(piece))
        data[position : position + len(piece)] = piece
    try:
        tx = replace(tx, data=TxData.from_buffer(bytes(data)))
    except DecodeError:
        reject()
    if spoiled == "calldata":
        tx = replace(tx, calldata=tuple(Calldata(entry.values[32:], entry.hash) for entry in tx.calldata))
    elif spoiled == "logs":
        tx = replace(tx, class_logs=(bytes(3023 * 32),))
    result = validator.validate(tx, chain_ledger, MIN_FEES)
    assert result.is_valid == (not result.reasons)
    assert all(result.reasons)
    # The pool can hold every valid transaction.
    entry = PoolEntry.of(tx, FOUR)
    assert PoolEntry.decode(entry.hash, entry.encode()) == entry
