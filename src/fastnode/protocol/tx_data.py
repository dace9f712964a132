"""The public inputs of a transaction: what its hash covers and all that validation looks at.

The buffer is kept as it came and read by slicing; nothing is decoded before it is asked for.  What the
constructor :meth:`TxData.from_buffer` accepts is well formed throughout: exact length, every field below
the modulus, flags written as 0 or 1, public calls without holes.
"""

from __future__ import annotations

import struct
from dataclasses import field
from typing import Final, NamedTuple, Self

from fastnode.errors import DecodeError
from fastnode.kernels import hash_threads
from fastnode.protocol.fields import FIELD_BYTES, ZERO_FIELD, field_from_int, first_non_canonical
from fastnode.protocol.header import BlockHeader, GasFees
from fastnode.protocol.tx_layout import USUAL, TxLayout
from fastnode.records import dataclass

SEPARATOR_PUBLIC_TX_HASH: Final = 1630108851
SEPARATOR_PRIVATE_TX_HASH: Final = 1971680439

_PUBLIC_SEPARATOR: Final = field_from_int(SEPARATOR_PUBLIC_TX_HASH)
_PRIVATE_SEPARATOR: Final = field_from_int(SEPARATOR_PRIVATE_TX_HASH)

_GAS: Final = struct.Struct(">II")
_CALL_REQUEST: Final = struct.Struct(">32s32sB32s")
_CLASS_LOG_HASH: Final = struct.Struct(">32sI32s")
_EMPTY_CALL_REQUEST: Final = bytes(TxLayout.call_request_bytes)
_EMPTY_CLASS_LOG_HASH: Final = bytes(TxLayout.class_log_hash_bytes)


class Gas(NamedTuple):
    """An amount of gas in both dimensions, u32 each."""

    da_gas: int
    l2_gas: int


class CallRequest(NamedTuple):
    """A public call the transaction asks for; its calldata is found by ``calldata_hash``."""

    msg_sender: bytes
    contract_address: bytes
    is_static_call: int
    calldata_hash: bytes


class ClassLogHash(NamedTuple):
    """A contract class log: hash of its 3,023 fields, emitted length in fields, emitting contract."""

    value: bytes
    length: int
    contract_address: bytes


class PrivateLogBytes(NamedTuple):
    """A private log: 16 joined fields and how many of them were emitted."""

    fields: bytes
    emitted_length: int


@dataclass(frozen=True, slots=True)
class TxData:
    """A checked ``data`` buffer (layout: tx_layout.py) and its hash."""

    buffer: bytes
    is_public: bool
    pending_hash: hash_threads.PendingHash = field(repr=False, compare=False)
    layout: TxLayout = field(default=USUAL, repr=False, compare=False)

    @classmethod
    def from_buffer(cls, buffer: bytes, path: str = "data", layout: TxLayout = USUAL) -> Self:
        """Checks, and begins to hash.  DecodeError names the path and, where one field is wrong, its offset.

        Bytes after a private-only layout are dropped, up to the length of the public one: release
        4.x does not look at them either.  Any flag but 0 is true, as there, and written as 1.
        """
        if len(buffer) > layout.public_data_bytes:
            raise DecodeError(f"{path}: {len(buffer)} bytes, at most {layout.public_data_bytes} allowed")
        if not buffer:
            raise DecodeError(f"{path}.forPublic: no bytes")
        public = buffer[layout.for_public] != 0
        expected = layout.data_bytes(public=public)
        if len(buffer) < expected:
            kind = "public" if public else "private-only"
            raise DecodeError(f"{path}: {len(buffer)} bytes, a {kind} transaction has {expected}")
        buffer = _with_plain_flags(buffer[:expected], layout) if public else bytes(buffer[:expected])
        plan = layout.plan(public=public)
        run = plan.run(buffer, _PUBLIC_SEPARATOR if public else _PRIVATE_SEPARATOR)
        position = first_non_canonical(run)
        if position is not None:
            offset = plan.offsets[position - 1]
            name = layout.name_at(offset, public=public)
            raise DecodeError(f"{path}.{name}: the field at byte {offset} is not below the field modulus")
        if public:
            _check_calls(buffer, path, layout)
        return cls(buffer, public, hash_threads.start_hash(run), layout)

    @property
    def tx_hash(self) -> bytes:
        """The transaction's own hash.  It takes milliseconds; earlier callers wait."""
        return self.pending_hash.result()

    @property
    def anchor_block_hash(self) -> bytes:
        """Hash of :attr:`anchor_block_header`, worked out whenever it is asked for."""
        return self.anchor_block_header.hash()

    # ---- constants -----------------------------------------------------------------------

    @property
    def anchor_block_header(self) -> BlockHeader:
        """Header of the block whose state the transaction was proven against."""
        return BlockHeader.from_buffer(self.buffer[self.layout.anchor_header : self.layout.chain_id])

    @property
    def chain_id(self) -> int:
        return int.from_bytes(self._field(self.layout.chain_id), "big")

    @property
    def version(self) -> int:
        return int.from_bytes(self._field(self.layout.version), "big")

    @property
    def gas_limits(self) -> Gas:
        return Gas(*_GAS.unpack_from(self.buffer, self.layout.gas_limits))

    @property
    def teardown_gas_limits(self) -> Gas:
        return Gas(*_GAS.unpack_from(self.buffer, self.layout.teardown_gas_limits))

    @property
    def max_fees_per_gas(self) -> GasFees:
        return self._gas_fees(self.layout.max_fees)

    @property
    def max_priority_fees_per_gas(self) -> GasFees:
        return self._gas_fees(self.layout.max_priority_fees)

    @property
    def vk_tree_root(self) -> bytes:
        return self._field(self.layout.vk_tree_root)

    @property
    def protocol_contracts_hash(self) -> bytes:
        return self._field(self.layout.protocol_contracts_hash)

    @property
    def gas_used(self) -> Gas:
        return Gas(*_GAS.unpack_from(self.buffer, self.layout.gas_used))

    @property
    def fee_payer(self) -> bytes:
        return self._field(self.layout.fee_payer)

    @property
    def expiration_timestamp(self) -> int:
        """Seconds; a block of a later timestamp must not include the transaction."""
        return int.from_bytes(self.buffer[self.layout.expiration : self.layout.head_bytes], "big")

    # ---- accumulated data ------------------------------------------------------------------

    @property
    def note_hashes(self) -> tuple[bytes, ...]:
        """Non-zero note hashes, non-revertible ones first."""
        return self._non_zero_fields(self.layout.note_hashes, self.layout.nullifiers)

    @property
    def nullifiers(self) -> tuple[bytes, ...]:
        """Non-zero nullifiers, non-revertible ones first."""
        return self._non_zero_fields(self.layout.nullifiers, self.layout.messages)

    @property
    def private_logs(self) -> tuple[PrivateLogBytes, ...]:
        """Private logs of a non-zero emitted length, non-revertible ones first."""
        logs: list[PrivateLogBytes] = []
        for base in self._accumulated():
            section = self.buffer[base + self.layout.private_logs : base + self.layout.class_log_hashes]
            for start in range(0, len(section), self.layout.private_log_bytes):
                end = start + self.layout.private_log_bytes
                emitted_length = int.from_bytes(section[end - 4 : end], "big")
                if emitted_length:
                    logs.append(PrivateLogBytes(section[start : end - 4], emitted_length))
        return tuple(logs)

    @property
    def class_log_hashes(self) -> tuple[ClassLogHash, ...]:
        """Contract class logs, non-revertible ones first; empty slots are left out."""
        hashes = []
        for base in self._accumulated():
            start = base + self.layout.class_log_hashes
            if self.buffer[start : start + self.layout.class_log_hash_bytes] != _EMPTY_CLASS_LOG_HASH:
                hashes.append(ClassLogHash(*_CLASS_LOG_HASH.unpack_from(self.buffer, start)))
        return tuple(hashes)

    @property
    def setup_calls(self) -> tuple[CallRequest, ...]:
        """Public calls that run before the fee is secured and cannot be reverted."""
        return self._calls(self.layout.non_revertible) if self.is_public else ()

    @property
    def app_calls(self) -> tuple[CallRequest, ...]:
        """Public calls of the revertible phase."""
        return self._calls(self.layout.revertible) if self.is_public else ()

    @property
    def teardown_call(self) -> CallRequest | None:
        if not self.is_public or self.buffer[self.layout.teardown_request :] == _EMPTY_CALL_REQUEST:
            return None
        return CallRequest(*_CALL_REQUEST.unpack_from(self.buffer, self.layout.teardown_request))

    @property
    def public_calls(self) -> tuple[CallRequest, ...]:
        """All public calls: setup, app logic, teardown."""
        teardown = self.teardown_call
        return self.setup_calls + self.app_calls + (() if teardown is None else (teardown,))

    def _accumulated(self) -> tuple[int, ...]:
        return (self.layout.non_revertible, self.layout.revertible) if self.is_public else (self.layout.accumulated,)

    def _non_zero_fields(self, start: int, end: int) -> tuple[bytes, ...]:
        found: list[bytes] = []
        for base in self._accumulated():
            section = self.buffer[base + start : base + end]
            for position in range(0, len(section), FIELD_BYTES):
                value = section[position : position + FIELD_BYTES]
                if value != ZERO_FIELD:
                    found.append(value)
        return tuple(found)

    def _calls(self, base: int) -> tuple[CallRequest, ...]:
        start = base + self.layout.call_requests
        calls = []
        for offset in range(start, base + self.layout.public_accumulated_bytes, self.layout.call_request_bytes):
            if self.buffer[offset : offset + self.layout.call_request_bytes] == _EMPTY_CALL_REQUEST:
                break
            calls.append(CallRequest(*_CALL_REQUEST.unpack_from(self.buffer, offset)))
        return tuple(calls)

    def _field(self, offset: int) -> bytes:
        return self.buffer[offset : offset + FIELD_BYTES]

    def _gas_fees(self, offset: int) -> GasFees:
        return GasFees(
            int.from_bytes(self.buffer[offset : offset + 16], "big"),
            int.from_bytes(self.buffer[offset + 16 : offset + 32], "big"),
        )


def _with_plain_flags(buffer: bytes, layout: TxLayout) -> bytes:
    """A public transaction whose flags are 0 or 1."""
    bent = [place for place in layout.flags if buffer[place] > 1]
    if not bent:
        return bytes(buffer)
    written = bytearray(buffer)
    for place in bent:
        written[place] = 1
    return bytes(written)


def _check_calls(buffer: bytes, path: str, layout: TxLayout) -> None:
    """No request follows an empty one."""
    for phase in (layout.non_revertible, layout.revertible):
        start = phase + layout.call_requests
        end = phase + layout.public_accumulated_bytes
        empty_before = False
        for offset in range(start, end, layout.call_request_bytes):
            request = buffer[offset : offset + layout.call_request_bytes]
            if request == _EMPTY_CALL_REQUEST:
                empty_before = True
                continue
            if empty_before:
                name = f"{path}.{layout.name_at(offset, public=True)}"
                raise DecodeError(f"{name}: non-empty items must stand without gaps from index 0")
