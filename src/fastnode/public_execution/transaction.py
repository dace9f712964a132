"""A transaction as the executor takes it: its public inputs cut into the parts of the phases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self

from fastnode.errors import DecodeError
from fastnode.kernels import hash_threads
from fastnode.protocol.effects import ContractClassLog, PrivateLog
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD, split_fields
from fastnode.protocol.header import GasFees
from fastnode.protocol.tx import Tx
from fastnode.protocol.tx_data import CallRequest, ClassLogHash, Gas, TxData
from fastnode.protocol.tx_layout import TxLayout
from fastnode.records import dataclass

__all__ = ["ExecutableTx", "MessageToL1", "PrivateEffects"]

_L1_ADDRESS_BYTES: Final = 20
_EMPTY_MESSAGE: Final = bytes(TxLayout.message_bytes)


class MessageToL1(NamedTuple):
    """A message to L1 before it is hashed.  ``recipient`` has 20 bytes."""

    contract_address: bytes
    recipient: bytes
    content: bytes


class OverlongPrivateLog(PrivateLog):
    """A log that claims more fields than a log has.  No block holds one, but release 4.x simulates such a
    transaction and repeats the claim."""

    __slots__ = ()

    def __post_init__(self) -> None:
        pass


class PrivateEffects(NamedTuple):
    """The private part's effects for one phase: everything siloed, in order, without empty places."""

    note_hashes: tuple[bytes, ...] = ()
    nullifiers: tuple[bytes, ...] = ()
    messages: tuple[MessageToL1, ...] = ()
    private_logs: tuple[PrivateLog, ...] = ()
    class_logs: tuple[ContractClassLog, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutableTx:
    """A transaction as the executor needs it.

    ``setup`` cannot be reverted; ``app`` can.  A transaction without public calls has everything in ``setup``.
    ``calldata`` holds joined fields by the hash that the transaction claims for them.
    """

    pending_hash: hash_threads.PendingHash
    gas_limits: Gas
    teardown_gas_limits: Gas
    max_fees_per_gas: GasFees
    max_priority_fees_per_gas: GasFees
    #: Used by the private part.
    gas_used: Gas
    fee_payer: bytes
    setup: PrivateEffects
    app: PrivateEffects
    setup_calls: tuple[CallRequest, ...] = ()
    app_calls: tuple[CallRequest, ...] = ()
    teardown_call: CallRequest | None = None
    calldata: Mapping[bytes, bytes]

    @property
    def tx_hash(self) -> bytes:
        """Nothing but the effect says it, so that it can be computed during the execution."""
        return self.pending_hash.result()

    @property
    def has_public_calls(self) -> bool:
        return bool(self.setup_calls or self.app_calls or self.teardown_call)

    @classmethod
    def of(cls, tx: Tx, *, accepts_overlong_logs: bool = False) -> Self:
        """DecodeError for a class log without its content, and for a private log that claims to be longer than one is
        unless that is accepted."""
        data = tx.data
        parts = _accumulated_parts(data)
        expected = len(data.class_log_hashes)
        if len(tx.class_logs) < expected:
            raise DecodeError(f"contractClassLogFields: {len(tx.class_logs)} logs, the data has {expected}")
        class_logs = iter(tx.class_logs)
        effects = []
        for part in parts:
            hashes = _class_log_hash(part, data.layout)
            logs = tuple(ContractClassLog(item.contract_address, next(class_logs), item.length) for item in hashes)
            effects.append(_private_effects(part, data.layout, logs))
        if not accepts_overlong_logs:
            _refuse_overlong_logs(effects, data.layout.private_log_fields)
        return cls(
            pending_hash=data.pending_hash,
            gas_limits=data.gas_limits,
            teardown_gas_limits=data.teardown_gas_limits,
            max_fees_per_gas=data.max_fees_per_gas,
            max_priority_fees_per_gas=data.max_priority_fees_per_gas,
            gas_used=data.gas_used,
            fee_payer=data.fee_payer,
            setup=effects[0],
            app=effects[1] if len(effects) > 1 else PrivateEffects(),
            setup_calls=data.setup_calls,
            app_calls=data.app_calls,
            teardown_call=data.teardown_call,
            calldata={entry.hash: entry.values for entry in tx.calldata},
        )


def _accumulated_parts(data: TxData) -> list[bytes]:
    """The accumulated data of each phase, laid out as tx_layout.py draws it."""
    layout = data.layout
    if not data.is_public:
        return [data.buffer[layout.accumulated :]]
    return [data.buffer[layout.non_revertible : layout.revertible], data.buffer[layout.revertible :]]


def _private_effects(part: bytes, layout: TxLayout, class_logs: tuple[ContractClassLog, ...]) -> PrivateEffects:
    return PrivateEffects(
        _non_zero_fields(part[layout.note_hashes : layout.nullifiers]),
        _non_zero_fields(part[layout.nullifiers : layout.messages]),
        _messages(part[layout.messages : layout.private_logs]),
        _private_logs(part[layout.private_logs : layout.class_log_hashes], layout),
        class_logs,
    )


def _is_empty(section: bytes) -> bool:
    """Most sections of most transactions are; comparing is faster than looking at each byte."""
    return section == bytes(len(section))


def _non_zero_fields(section: bytes) -> tuple[bytes, ...]:
    if _is_empty(section):
        return ()
    return tuple([field for field in split_fields(section) if field != ZERO_FIELD])


def _messages(section: bytes) -> tuple[MessageToL1, ...]:
    if _is_empty(section):
        return ()
    messages = []
    for start in range(0, len(section), TxLayout.message_bytes):
        message = section[start : start + TxLayout.message_bytes]
        if message != _EMPTY_MESSAGE:
            content_at = _L1_ADDRESS_BYTES
            contract_at = content_at + FIELD_BYTES
            messages.append(MessageToL1(message[contract_at:], message[:content_at], message[content_at:contract_at]))
    return tuple(messages)


def _private_logs(section: bytes, layout: TxLayout) -> tuple[PrivateLog, ...]:
    if _is_empty(section):
        return ()
    logs = []
    for start in range(0, len(section), layout.private_log_bytes):
        end = start + layout.private_log_bytes
        emitted_length = int.from_bytes(section[end - 4 : end], "big")
        if emitted_length:
            log_type = PrivateLog if emitted_length <= layout.private_log_fields else OverlongPrivateLog
            logs.append(log_type(split_fields(section[start : end - 4]), emitted_length))
    return tuple(logs)


def _refuse_overlong_logs(effects: Iterable[PrivateEffects], fields_max: int) -> None:
    for part in effects:
        for log in part.private_logs:
            if isinstance(log, OverlongPrivateLog):
                raise DecodeError(f"private log: emitted length {log.emitted_length}, at most {fields_max}")


def _class_log_hash(part: bytes, layout: TxLayout) -> list[ClassLogHash]:
    """The one class log hash of a phase, or nothing."""
    start = layout.class_log_hashes
    entry = part[start : start + layout.class_log_hash_bytes]
    if _is_empty(entry):
        return []
    length_at = FIELD_BYTES
    contract_at = length_at + 4
    length = int.from_bytes(entry[length_at:contract_at], "big")
    return [ClassLogHash(entry[:length_at], length, entry[contract_at:])]
