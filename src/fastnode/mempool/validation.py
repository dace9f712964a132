"""Validation of a transaction that may wait: the rules of the releases 4.x and 5.x, in the order and with the reasons
of 4.x.

    permitted        the operator allows transactions
    expiration       not before the slot that a block built now would have
    size             of the binary form
    metadata         L1 chain id, rollup version, verification keys, protocol contracts
    setup            only allowed public calls before the fee is secured
    anchor           the block it was proven against is in the archive
    double spend     no nullifier twice, none that exists
    data             hash, calldata and class logs are what the data commits to
    deployments      addresses and class ids in its logs hold
    gas and fees     limits, price, balance            not with skip_fee_enforcement
    proof            what the verifier says            not in a simulation

All rules run; the reasons are put together.  In 4.x a price below the current one makes the result ``skipped``
rather than ``invalid``, because prices fall again (what a peer sends is kept and forwarded all the same); and so does
what this node cannot judge: a proof without a verifier, or values of the network that it does not know.  The class id
rule is that of release 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, Protocol

import orjson

from fastnode import interpreter
from fastnode.errors import DecodeError
from fastnode.kernels import poseidon2
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.ledger import Ledger
from fastnode.mempool.network import NetworkIdentity
from fastnode.mempool.pricing import calldata_of, claim_amount, fee_limit
from fastnode.proofs.verdict import Judgement, ProofVerifier
from fastnode.protocol.constants import PRIVATE_LOG_FIELDS
from fastnode.protocol.contracts import (
    CONTRACT_VERSION,
    INSTANCE_PUBLISHED_TAG,
    ContractInstance,
    is_class_published,
    read_class_published,
    read_instance_published,
)
from fastnode.protocol.effects import ContractClassLog, PrivateLog
from fastnode.protocol.fields import FIELD_BYTES, MODULUS, field_from_int, split_fields
from fastnode.protocol.header import GasFees
from fastnode.protocol.releases import Release
from fastnode.protocol.tx import Calldata, Tx
from fastnode.protocol.tx_data import CallRequest, Gas, PrivateLogBytes
from fastnode.records import dataclass

__all__ = [
    "PROTOCOL_CAPS",
    "AllowedCall",
    "GasCaps",
    "TxValidationResult",
    "TxValidator",
    "ValidationRules",
    "consistency_reason",
]

NOT_PERMITTED: Final = "Transactions are not permitted"
EXPIRED: Final = "Invalid expiration timestamp"
TOO_LARGE: Final = "Transaction size above size limit"
WRONG_CHAIN: Final = "Incorrect L1 chain id"
WRONG_VERSION: Final = "Incorrect rollup version"
WRONG_VK_ROOT: Final = "Incorrect verification keys tree root"
UNKNOWN_VK_ROOT: Final = "The verification keys tree root of this network is not known to the node"
WRONG_CONTRACTS: Final = "Incorrect protocol contracts hash"
UNKNOWN_CONTRACTS: Final = "The protocol contracts of this network are not known to the node"
SETUP_CALLDATA_LENGTH: Final = "Setup function called with wrong calldata length"
SETUP_ONLY_SELF: Final = "Setup only_self function called with incorrect msg_sender"
SETUP_NULL_SENDER: Final = "Setup function called with null msg sender"
SETUP_UNKNOWN_CONTRACT: Final = "Setup function targets unknown contract"
SETUP_NOT_ALLOWED: Final = "Setup function not on allow list"
UNKNOWN_ANCHOR: Final = "Block header not found"
DUPLICATE_NULLIFIER: Final = "Duplicate nullifier in tx"
EXISTING_NULLIFIER: Final = "Existing nullifier"
WRONG_HASH: Final = "Incorrect tx hash"
CALLDATA_COUNT: Final = "Wrong number of calldata for public calls"
CALLDATA_TOO_LARGE: Final = "Total calldata too large for enqueued public calls"
WRONG_CALLDATA: Final = "Incorrect calldata for public call"
CLASS_LOG_COUNT: Final = "Mismatched number of contract class logs"
CLASS_LOG_ORDER: Final = "Incorrectly sorted contract class logs"
CLASS_LOG_MISMATCH: Final = "Mismatched contract class logs"
CLASS_LOG_LENGTH: Final = "Incorrect contract class logs length"
MALFORMED_INSTANCE: Final = "Failed to parse contract instance deployment log"
WRONG_ADDRESS: Final = "Incorrect contract instance deployment address"
MALFORMED_CLASS: Final = "Failed to parse contract class registration log"
WRONG_CLASS_ID: Final = "Incorrect contract class id"
GAS_TOO_LOW: Final = "Gas limit is below the minimum fixed cost"
GAS_TOO_HIGH: Final = "Gas limit is higher than the amount of gas that the AVM can process"
FEE_TOO_LOW: Final = "Insufficient fee per gas"
BALANCE_TOO_LOW: Final = "Insufficient fee payer balance"

#: Bytes of the binary form.
TX_BYTES_MAX: Final = 512 << 10
CALLDATA_FIELDS_MAX: Final = 16_000

#: Gas that every transaction uses.
DA_GAS_MIN: Final = 96
PUBLIC_L2_GAS_MIN: Final = 540_000
PRIVATE_L2_GAS_MIN: Final = 440_000
#: Gas that one transaction can use.
L2_GAS_MAX: Final = 6_540_000
DA_GAS_MAX: Final = 786_432

#: The sender of a call that hides who makes it.
_NULL_SENDER: Final = field_from_int(MODULUS - 1)
_SELECTOR_BYTES: Final = 4


# ---- inputs and result ------------------------------------------------------------------------


class AllowedCall(Protocol):
    """One entry of the setup allow list: a contract, by address or by class, and one of its functions."""

    @property
    def address(self) -> bytes | None: ...

    @property
    def class_id(self) -> bytes | None: ...

    @property
    def selector(self) -> bytes:
        """Four bytes."""

    @property
    def calldata_length(self) -> int | None:
        """Fields of calldata with the selector; None: any number."""

    @property
    def only_self(self) -> bool:
        """Only the contract itself may call."""

    @property
    def reject_null_msg_sender(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class GasCaps:
    """The most gas a transaction may ask for."""

    l2_gas: int = L2_GAS_MAX
    da_gas: int = DA_GAS_MAX

    def lowered(self, *, l2_gas: int | None = None, da_gas: int | None = None) -> GasCaps:
        """With a rollup's or an operator's limits; None is no limit."""
        return GasCaps(
            self.l2_gas if l2_gas is None else min(self.l2_gas, l2_gas),
            self.da_gas if da_gas is None else min(self.da_gas, da_gas),
        )


#: Calls that the protocol itself allows.
PROTOCOL_CAPS: Final = GasCaps()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRules:
    """Conditions of one node on a transaction.  ``setup_allow_list``: entries by address and by class, in any order."""

    network: NetworkIdentity
    release: Release
    setup_allow_list: Sequence[AllowedCall]
    gas_caps: GasCaps = PROTOCOL_CAPS
    transactions_permitted: bool = True


@dataclass(frozen=True, slots=True)
class TxValidationResult:
    """``reasons`` is empty for ``valid`` alone.  ``unjudged``: those among them that another node could settle."""

    result: Literal["valid", "invalid", "skipped"]
    reasons: tuple[str, ...] = ()
    unjudged: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        return self.result == "valid"

    @property
    def needs_other_judge(self) -> bool:
        """Nothing is wrong with the transaction, but this node cannot judge all of it."""
        return bool(self.reasons) and self.reasons == self.unjudged

    def to_json(self) -> dict[str, Any]:
        return {"result": self.result, "reason": list(self.reasons)} if self.reasons else {"result": self.result}

    def to_json_bytes(self) -> bytes:
        return orjson.dumps(self.to_json())


_VALID: Final = TxValidationResult("valid")


# ---- the validator ----------------------------------------------------------------------------


class TxValidator:
    """Runs the rules.  Usable from several threads at a time; a call may take as long as the proof verifier."""

    def __init__(self, rules: ValidationRules, clock: SlotClock, verifier: ProofVerifier) -> None:
        self.rules = rules
        self.clock = clock
        self._verifier = verifier

    @property
    def limitation(self) -> str | None:
        """Reason why no transaction at all can be judged here; None if they can."""
        return self._verifier.limitation or next(self._unknown_network(), None)

    def validate(
        self,
        tx: Tx,
        ledger: Ledger,
        min_fees: GasFees,
        *,
        is_simulation: bool = False,
        skip_fee_enforcement: bool = False,
        may_wait_for_price: bool = False,
        client: str = "",
    ) -> TxValidationResult:
        """All rules on one transaction, against the ledger's moment and the current minimum fees.

        ``may_wait_for_price``: a price below the current one is no reason.  ``client``: who asks, for the verifier's
        queue.
        """
        _ = tx.data.tx_hash  # before the place, which other threads need meanwhile
        with interpreter.BUSY:
            reasons = list(self._invalid_reasons(tx, ledger))
            unjudged = list(self._unknown_network())
            reasons += unjudged
            is_invalid = len(reasons) > len(unjudged)
            if not skip_fee_enforcement:
                gas_reason, makes_invalid = self._gas_and_fees(tx, ledger, min_fees)
                if gas_reason is not None and not (may_wait_for_price and gas_reason == FEE_TOO_LOW):
                    reasons.append(gas_reason)
                    is_invalid |= makes_invalid
        if not is_simulation and not reasons:
            # Last, and only when nothing else is wrong: a proof takes a quarter of a second of one core.
            verdict = self._verifier.judge(tx, client)
            if verdict.judgement is not Judgement.VALID:
                reasons.append(verdict.reason)
            if verdict.judgement is Judgement.UNKNOWN:
                unjudged.append(verdict.reason)
            is_invalid |= verdict.judgement is Judgement.INVALID
        if not reasons:
            return _VALID
        return TxValidationResult("invalid" if is_invalid else "skipped", tuple(reasons), tuple(unjudged))

    def _invalid_reasons(self, tx: Tx, ledger: Ledger) -> Iterator[str]:
        """Everything but gas, fees and proof."""
        timestamp = self.clock.next_slot_timestamp()
        if not self.rules.transactions_permitted:
            yield NOT_PERMITTED
        if is_expired(tx.data.expiration_timestamp, timestamp, ledger):
            yield EXPIRED
        if tx.size > TX_BYTES_MAX:
            yield TOO_LARGE
        yield from self._metadata(tx)
        if tx.data.is_public and (reason := self.setup_reason(tx, ledger, timestamp)) is not None:
            yield reason
        if not ledger.knows_block(tx.data.anchor_block_hash):
            yield UNKNOWN_ANCHOR
        if (reason := double_spend_reason(tx.data.nullifiers, ledger)) is not None:
            yield reason
        if (reason := consistency_reason(tx)) is not None:
            yield reason
        if (reason := _instance_reason(tx, self.rules.release)) is not None:
            yield reason
        if (reason := _class_reason(tx, self.rules.release)) is not None:
            yield reason

    # ---- metadata --------------------------------------------------------------------------

    def _metadata(self, tx: Tx) -> Iterator[str]:
        network, data = self.rules.network, tx.data
        if data.chain_id != network.l1_chain_id:
            yield WRONG_CHAIN
        if data.version != network.rollup_version:
            yield WRONG_VERSION
        if network.vk_tree_root not in (None, data.vk_tree_root):
            yield WRONG_VK_ROOT
        if network.protocol_contracts_hash not in (None, data.protocol_contracts_hash):
            yield WRONG_CONTRACTS

    def _unknown_network(self) -> Iterator[str]:
        """Values of the network that a transaction names and this node does not know."""
        if self.rules.network.vk_tree_root is None:
            yield UNKNOWN_VK_ROOT
        if self.rules.network.protocol_contracts_hash is None:
            yield UNKNOWN_CONTRACTS

    # ---- setup phase -----------------------------------------------------------------------

    def setup_reason(self, tx: Tx, ledger: Ledger, timestamp: int) -> str | None:
        """Reason why the setup phase of ``tx`` is not allowed in a block of this time; None if it is."""
        for call in tx.data.setup_calls:
            reason = self._setup_call(tx, call, ledger, timestamp)
            if reason is not None:
                return reason
        return None

    def _setup_call(self, tx: Tx, call: CallRequest, ledger: Ledger, timestamp: int) -> str | None:
        """Entries by address come first: they need no look at the contract."""
        calldata = calldata_of(tx, call)
        selector = _selector(calldata)
        for entry in self.rules.setup_allow_list:
            if entry.address == call.contract_address and entry.selector == selector:
                return _flag_reason(entry, call, calldata)
        by_class = [entry for entry in self.rules.setup_allow_list if entry.class_id is not None]
        if not by_class:
            return SETUP_NOT_ALLOWED
        class_id = _class_deployed_by(tx, call.contract_address, self.rules.release)
        if class_id is None:
            class_id = ledger.contract_class_id(call.contract_address, timestamp)
        if class_id is None:
            return SETUP_UNKNOWN_CONTRACT
        for entry in by_class:
            if entry.class_id == class_id and entry.selector == selector:
                return _flag_reason(entry, call, calldata)
        return SETUP_NOT_ALLOWED

    # ---- gas and fees ----------------------------------------------------------------------

    def _gas_and_fees(self, tx: Tx, ledger: Ledger, min_fees: GasFees) -> tuple[str | None, bool]:
        """A reason, and whether it makes the transaction invalid rather than skipped."""
        data = tx.data
        limit_reason = gas_limit_reason(data.gas_limits, is_public=data.is_public, caps=self.rules.gas_caps)
        if limit_reason is not None:
            return limit_reason, True
        offered = data.max_fees_per_gas
        if offered.fee_per_l2_gas < min_fees.fee_per_l2_gas or offered.fee_per_da_gas < min_fees.fee_per_da_gas:
            return FEE_TOO_LOW, self.rules.release.low_price_is_invalid
        if ledger.fee_juice_balance(data.fee_payer) + claim_amount(tx, self.rules.release) < fee_limit(data):
            return BALANCE_TOO_LOW, True
        return None, False

    # ---- transactions that others chose ---------------------------------------------------

    def integrity_reason(self, tx: Tx) -> str | None:
        """Reason why ``tx`` may be in no block of this network whatever its state, its proof aside: what is asked of
        the transactions of proposals, which the pool may not want.
        """
        reason = next(self._metadata(tx), None)
        if reason is None and tx.size > TX_BYTES_MAX:
            reason = TOO_LARGE
        return reason or consistency_reason(tx) or _instance_reason(tx, self.rules.release)


# ---- rules that the pool asks again -------------------------------------------------------------


def is_expired(expiration_timestamp: int, timestamp: int, ledger: Ledger) -> bool:
    """The first block after genesis may include anything: its transactions are anchored at time 0."""
    return expiration_timestamp < timestamp and ledger.head > 0


def double_spend_reason(nullifiers: Sequence[bytes], ledger: Ledger) -> str | None:
    if len(set(nullifiers)) != len(nullifiers):
        return DUPLICATE_NULLIFIER
    return EXISTING_NULLIFIER if ledger.any_nullifier_exists(nullifiers) else None


def gas_limit_reason(limits: Gas, *, is_public: bool, caps: GasCaps) -> str | None:
    l2_gas_min = PUBLIC_L2_GAS_MIN if is_public else PRIVATE_L2_GAS_MIN
    if limits.da_gas < DA_GAS_MIN or limits.l2_gas < l2_gas_min:
        return GAS_TOO_LOW
    if limits.l2_gas > caps.l2_gas or limits.da_gas > caps.da_gas:
        return GAS_TOO_HIGH
    return None


# ---- setup phase --------------------------------------------------------------------------------


def _selector(calldata: bytes) -> bytes | None:
    """The first field of calldata as a selector; None if it is none."""
    first = calldata[:FIELD_BYTES]
    if not first or any(first[:-_SELECTOR_BYTES]):
        return None
    return first[-_SELECTOR_BYTES:]


def _flag_reason(entry: AllowedCall, call: CallRequest, calldata: bytes) -> str | None:
    if entry.calldata_length is not None and len(calldata) != entry.calldata_length * FIELD_BYTES:
        return SETUP_CALLDATA_LENGTH
    if entry.only_self and call.msg_sender != call.contract_address:
        return SETUP_ONLY_SELF
    if entry.reject_null_msg_sender and call.msg_sender == _NULL_SENDER:
        return SETUP_NULL_SENDER
    return None


def _class_deployed_by(tx: Tx, address: bytes, release: Release) -> bytes | None:
    """Class of a contract that the transaction itself deploys."""
    for log in _instance_logs(tx):
        try:
            instance = _read_instance(log, release)
        except DecodeError:
            continue  # the deployment rule has a reason for it
        if instance.address == address:
            return instance.original_contract_class_id
    return None


# ---- data ---------------------------------------------------------------------------------------


def consistency_reason(tx: Tx) -> str | None:
    """The first thing in a transaction that is not what its data commits to, or None."""
    if tx.claimed_hash is not None and tx.claimed_hash != tx.hash:
        return WRONG_HASH
    return _calldata_reason(tx) or _class_log_reason(tx)


def _calldata_reason(tx: Tx) -> str | None:
    calls = tx.data.public_calls
    if len(tx.calldata) != len(calls):
        return CALLDATA_COUNT
    if sum(entry.field_count for entry in tx.calldata) > CALLDATA_FIELDS_MAX:
        return CALLDATA_TOO_LARGE
    # By the hash each entry claims, in no particular order; the last one of several wins, as in a map.  A call whose
    # hash nothing claims has no calldata, which is right for the hash of none.
    by_claim = {entry.hash: entry for entry in tx.calldata}
    for call in calls:
        entry = by_claim.get(call.calldata_hash) or Calldata(b"", call.calldata_hash)
        if entry.computed_hash() != call.calldata_hash:
            return WRONG_CALLDATA
    return None


def _class_log_reason(tx: Tx) -> str | None:
    expected = tx.data.class_log_hashes
    if len(expected) != len(tx.class_logs):
        return CLASS_LOG_COUNT
    found = [poseidon2.hash_fields(fields) for fields in tx.class_logs]
    for log_hash, found_hash, fields in zip(expected, found, tx.class_logs, strict=True):
        if log_hash.value != found_hash:
            return CLASS_LOG_ORDER if log_hash.value in found else CLASS_LOG_MISMATCH
        used_fields = -(-len(fields.rstrip(b"\0")) // FIELD_BYTES)
        if log_hash.length < used_fields:
            return CLASS_LOG_LENGTH
    return None


# ---- deployments ----------------------------------------------------------------------------------


def _instance_logs(tx: Tx) -> Iterator[PrivateLogBytes]:
    return (log for log in tx.data.private_logs if log.fields.startswith(INSTANCE_PUBLISHED_TAG))


def _read_instance(log: PrivateLogBytes, release: Release) -> ContractInstance:
    return read_instance_published(PrivateLog(split_fields(log.fields), PRIVATE_LOG_FIELDS), release)


def _instance_reason(tx: Tx, release: Release) -> str | None:
    for log in _instance_logs(tx):
        try:
            instance = _read_instance(log, release)
        except DecodeError:
            return MALFORMED_INSTANCE
        try:
            if instance.computed_address(release) != instance.address:
                return WRONG_ADDRESS
        except DecodeError:  # keys that are no curve point have no address
            return MALFORMED_INSTANCE
    return None


def _class_reason(tx: Tx, release: Release) -> str | None:
    for log_hash, fields in zip(tx.data.class_log_hashes, tx.class_logs, strict=False):
        try:
            log = ContractClassLog(log_hash.contract_address, fields, log_hash.length)
            if not is_class_published(log, release):
                continue
            published = read_class_published(log)
        except DecodeError:
            return MALFORMED_CLASS
        if published.version != CONTRACT_VERSION:
            return MALFORMED_CLASS
        if published.computed_id() != published.id:
            return WRONG_CLASS_ID
    return None
