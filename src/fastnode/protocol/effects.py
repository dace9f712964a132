"""Effects of a tx on the chain: hashes, messages, writes and logs.

Tx effect buffer (big-endian; ``n x`` marks a vector with the count prefix given)::

    revertCode u8 | txHash 32 | transactionFee 32
    u8  n x note hash 32
    u8  n x nullifier 32
    u8  n x L2->L1 message 32
    u8  n x public data write:  leafSlot 32 | value 32
    u8  n x private log:        16 fields | emittedLength u32
    u32 n x public log:         fieldCount u32 | contractAddress 32 | fieldCount fields
    u8  n x class log:          contractAddress 32 | 3023 fields | emittedLength u32

A body is a u32 count and its tx effects.
"""

from __future__ import annotations

from typing import Any, Final, Self

from fastnode.errors import DecodeError
from fastnode.protocol.constants import (
    CONTRACT_CLASS_LOG_FIELDS,
    CONTRACT_CLASS_LOGS_PER_TX_MAX,
    L2_TO_L1_MESSAGES_PER_TX_MAX,
    NOTE_HASHES_PER_TX_MAX,
    NULLIFIERS_PER_TX_MAX,
    PRIVATE_LOG_FIELDS,
    PRIVATE_LOGS_PER_TX_MAX,
    PUBLIC_DATA_WRITES_PER_TX_MAX,
    PUBLIC_LOG_FIELDS_MAX,
    PUBLIC_LOG_HEADER_FIELDS,
    PUBLIC_LOGS_FLAT_FIELDS_MAX,
    REVERT_CODE_MAX,
)
from fastnode.protocol.fields import (
    FIELD_BYTES,
    MODULUS,
    ZERO_FIELD_TEXT,
    as_record,
    element_path,
    field_texts,
    hex_text,
    integer_field_text,
    join_path,
    read_field,
    read_field_integer,
    read_fields,
    read_list,
    read_number,
    read_record,
    split_fields,
)
from fastnode.protocol.reader import ByteReader
from fastnode.records import dataclass

CONTRACT_CLASS_LOG_BYTES: Final = CONTRACT_CLASS_LOG_FIELDS * FIELD_BYTES
#: Public logs of a tx: none can take less than its header in the flat form.
PUBLIC_LOGS_PER_TX_MAX: Final = PUBLIC_LOGS_FLAT_FIELDS_MAX // PUBLIC_LOG_HEADER_FIELDS
TXS_PER_BLOCK_MAX: Final = 0xFFFF  # the block end marker counts txs in 16 bits

_COUNT_U8: Final = 1
_COUNT_U32: Final = 4


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


@dataclass(frozen=True, slots=True)
class PublicDataWrite:
    """One public storage write: the leaf slot is already siloed by contract."""

    leaf_slot: bytes
    value: bytes

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        return cls(read_field(record, "leafSlot", path), read_field(record, "value", path))

    def to_json(self) -> dict[str, Any]:
        return {"leafSlot": hex_text(self.leaf_slot), "value": hex_text(self.value)}


@dataclass(frozen=True, slots=True)
class PrivateLog:
    """Sixteen fields, of which the first ``emitted_length`` were emitted; field 0 is the siloed tag."""

    fields: tuple[bytes, ...]
    emitted_length: int

    def __post_init__(self) -> None:
        if len(self.fields) != PRIVATE_LOG_FIELDS or not 0 <= self.emitted_length <= PRIVATE_LOG_FIELDS:
            raise DecodeError(f"private log: {len(self.fields)} fields, emitted length {self.emitted_length}")

    @property
    def emitted(self) -> bytes:
        """The emitted fields, joined."""
        return b"".join(self.fields[: self.emitted_length])

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        fields = read_fields(record, "fields", path, maximum=PRIVATE_LOG_FIELDS)
        _check_field_count(fields, PRIVATE_LOG_FIELDS, join_path(path, "fields"))
        return cls(split_fields(fields), _read_emitted_length(record, path, PRIVATE_LOG_FIELDS))

    def to_json(self) -> dict[str, Any]:
        return {"fields": field_texts(b"".join(self.fields)), "emittedLength": self.emitted_length}


@dataclass(frozen=True, slots=True)
class PublicLog:
    """Fields emitted by a public function, with the emitting contract.  Field 0 is the raw tag, if any."""

    contract_address: bytes
    fields: tuple[bytes, ...]

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        address = read_field(record, "contractAddress", path)
        return cls(address, split_fields(read_fields(record, "fields", path, maximum=PUBLIC_LOG_FIELDS_MAX)))

    def to_json(self) -> dict[str, Any]:
        return {"contractAddress": hex_text(self.contract_address), "fields": field_texts(b"".join(self.fields))}


@dataclass(frozen=True, slots=True)
class ContractClassLog:
    """A log of 3,023 fields, nearly all of them zero.

    ``fields`` holds the joined fields without the zero fields at the end, so that equal logs are equal
    bytes and a log costs memory for what it says.  :attr:`padded` and :attr:`emitted` give the other forms.
    """

    contract_address: bytes
    fields: bytes
    emitted_length: int

    def __post_init__(self) -> None:
        if len(self.fields) % FIELD_BYTES or len(self.fields) > CONTRACT_CLASS_LOG_BYTES:
            raise DecodeError(f"contract class log: {len(self.fields)} bytes of fields")
        if not 0 <= self.emitted_length <= CONTRACT_CLASS_LOG_FIELDS:
            raise DecodeError(f"contract class log: emitted length {self.emitted_length}")
        object.__setattr__(self, "fields", _without_trailing_zero_fields(self.fields))

    @property
    def padded(self) -> bytes:
        """All 3,023 fields, joined."""
        return self.fields.ljust(CONTRACT_CLASS_LOG_BYTES, b"\0")

    @property
    def emitted(self) -> bytes:
        """The emitted fields, joined."""
        length = self.emitted_length * FIELD_BYTES
        return self.fields[:length].ljust(length, b"\0")

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        address = read_field(record, "contractAddress", path)
        inner = read_record(record, "fields", path)
        inner_path = join_path(path, "fields")
        fields = read_fields(inner, "fields", inner_path, maximum=CONTRACT_CLASS_LOG_FIELDS)
        _check_field_count(fields, CONTRACT_CLASS_LOG_FIELDS, join_path(inner_path, "fields"))
        return cls(address, fields, _read_emitted_length(record, path, CONTRACT_CLASS_LOG_FIELDS))

    def to_json(self) -> dict[str, Any]:
        texts = field_texts(self.fields)
        texts += [ZERO_FIELD_TEXT] * (CONTRACT_CLASS_LOG_FIELDS - len(texts))
        return {
            "contractAddress": hex_text(self.contract_address),
            "fields": {"fields": texts},
            "emittedLength": self.emitted_length,
        }


def _without_trailing_zero_fields(fields: bytes) -> bytes:
    used = len(fields.rstrip(b"\0"))
    return fields[: -(-used // FIELD_BYTES) * FIELD_BYTES]


def _check_field_count(fields: bytes, count: int, path: str) -> None:
    if len(fields) != count * FIELD_BYTES:
        raise DecodeError(f"{path}: has {len(fields) // FIELD_BYTES} elements, expected {count}")


def _read_emitted_length(record: dict[str, Any], path: str, maximum: int) -> int:
    length = read_number(record, "emittedLength", path)
    if length > maximum:
        raise DecodeError(f"{join_path(path, 'emittedLength')}: {length} is above {maximum}")
    return length


@dataclass(frozen=True, slots=True)
class TxEffect:
    """Everything a tx changed.

    ``note_hashes`` are unique and siloed, ``nullifiers`` siloed, ``l2_to_l1_msgs`` message hashes: they go
    into the trees as they are.  ``transaction_fee`` is in the smallest unit of the fee asset.
    """

    revert_code: int
    tx_hash: bytes
    transaction_fee: int
    note_hashes: tuple[bytes, ...]
    nullifiers: tuple[bytes, ...]
    l2_to_l1_msgs: tuple[bytes, ...]
    public_data_writes: tuple[PublicDataWrite, ...]
    private_logs: tuple[PrivateLog, ...]
    public_logs: tuple[PublicLog, ...]
    contract_class_logs: tuple[ContractClassLog, ...]

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        revert_code = read_number(record, "revertCode", path)
        if revert_code > REVERT_CODE_MAX:
            raise DecodeError(f"{join_path(path, 'revertCode')}: {revert_code} is above {REVERT_CODE_MAX}")
        return cls(
            revert_code=revert_code,
            tx_hash=read_field(record, "txHash", path),
            transaction_fee=read_field_integer(record, "transactionFee", path),
            note_hashes=_read_tuple(record, "noteHashes", path, NOTE_HASHES_PER_TX_MAX),
            nullifiers=_read_tuple(record, "nullifiers", path, NULLIFIERS_PER_TX_MAX),
            l2_to_l1_msgs=_read_tuple(record, "l2ToL1Msgs", path, L2_TO_L1_MESSAGES_PER_TX_MAX),
            public_data_writes=tuple(
                PublicDataWrite.from_json(item, element_path(path, "publicDataWrites", i))
                for i, item in enumerate(
                    read_list(record, "publicDataWrites", path, maximum=PUBLIC_DATA_WRITES_PER_TX_MAX)
                )
            ),
            private_logs=tuple(
                PrivateLog.from_json(item, element_path(path, "privateLogs", i))
                for i, item in enumerate(read_list(record, "privateLogs", path, maximum=PRIVATE_LOGS_PER_TX_MAX))
            ),
            public_logs=_read_public_logs(record, path),
            contract_class_logs=tuple(
                ContractClassLog.from_json(item, element_path(path, "contractClassLogs", i))
                for i, item in enumerate(
                    read_list(record, "contractClassLogs", path, maximum=CONTRACT_CLASS_LOGS_PER_TX_MAX)
                )
            ),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "revertCode": self.revert_code,
            "txHash": hex_text(self.tx_hash),
            "transactionFee": integer_field_text(self.transaction_fee),
            "noteHashes": field_texts(b"".join(self.note_hashes)),
            "nullifiers": field_texts(b"".join(self.nullifiers)),
            "l2ToL1Msgs": field_texts(b"".join(self.l2_to_l1_msgs)),
            "publicDataWrites": [write.to_json() for write in self.public_data_writes],
            "privateLogs": [log.to_json() for log in self.private_logs],
            "publicLogs": [log.to_json() for log in self.public_logs],
            "contractClassLogs": [log.to_json() for log in self.contract_class_logs],
        }

    def to_buffer(self) -> bytes:
        """The form drawn at the top of this file."""
        parts = [
            bytes((self.revert_code,)),
            self.tx_hash,
            self.transaction_fee.to_bytes(FIELD_BYTES, "big"),
        ]
        for hashes in (self.note_hashes, self.nullifiers, self.l2_to_l1_msgs):
            parts.append(bytes((len(hashes),)))
            parts += hashes
        parts.append(bytes((len(self.public_data_writes),)))
        for write in self.public_data_writes:
            parts += (write.leaf_slot, write.value)
        parts.append(bytes((len(self.private_logs),)))
        for private_log in self.private_logs:
            parts += private_log.fields
            parts.append(_u32(private_log.emitted_length))
        parts.append(_u32(len(self.public_logs)))
        for public_log in self.public_logs:
            parts += (_u32(len(public_log.fields)), public_log.contract_address, *public_log.fields)
        parts.append(bytes((len(self.contract_class_logs),)))
        for class_log in self.contract_class_logs:
            parts += (class_log.contract_address, class_log.padded, _u32(class_log.emitted_length))
        return b"".join(parts)

    @classmethod
    def read(cls, reader: ByteReader) -> Self:
        """Reads one tx effect and leaves the reader behind it."""
        return cls(
            revert_code=reader.count(1, REVERT_CODE_MAX, "revert code"),
            tx_hash=reader.field(),
            transaction_fee=int.from_bytes(reader.field(), "big"),
            note_hashes=_read_hashes(reader, NOTE_HASHES_PER_TX_MAX, "note hashes"),
            nullifiers=_read_hashes(reader, NULLIFIERS_PER_TX_MAX, "nullifiers"),
            l2_to_l1_msgs=_read_hashes(reader, L2_TO_L1_MESSAGES_PER_TX_MAX, "L2 to L1 messages"),
            public_data_writes=tuple(
                PublicDataWrite(reader.field(), reader.field())
                for _ in range(reader.count(_COUNT_U8, PUBLIC_DATA_WRITES_PER_TX_MAX, "public data writes"))
            ),
            private_logs=tuple(
                PrivateLog(split_fields(reader.fields(PRIVATE_LOG_FIELDS)), reader.unsigned(4))
                for _ in range(reader.count(_COUNT_U8, PRIVATE_LOGS_PER_TX_MAX, "private logs"))
            ),
            public_logs=tuple(
                _read_public_log(reader) for _ in range(reader.count(_COUNT_U32, PUBLIC_LOGS_PER_TX_MAX, "public logs"))
            ),
            contract_class_logs=tuple(
                ContractClassLog(reader.field(), reader.fields(CONTRACT_CLASS_LOG_FIELDS), reader.unsigned(4))
                for _ in range(reader.count(_COUNT_U8, CONTRACT_CLASS_LOGS_PER_TX_MAX, "contract class logs"))
            ),
        )

    @classmethod
    def from_buffer(cls, buffer: bytes) -> Self:
        reader = ByteReader(buffer, "tx effect")
        effect = cls.read(reader)
        reader.finish()
        return effect


def _read_tuple(record: dict[str, Any], key: str, path: str, maximum: int) -> tuple[bytes, ...]:
    return split_fields(read_fields(record, key, path, maximum=maximum))


def _read_public_logs(record: dict[str, Any], path: str) -> tuple[PublicLog, ...]:
    items = read_list(record, "publicLogs", path, maximum=PUBLIC_LOGS_PER_TX_MAX)
    logs = tuple(PublicLog.from_json(item, element_path(path, "publicLogs", i)) for i, item in enumerate(items))
    flat = sum(PUBLIC_LOG_HEADER_FIELDS + len(log.fields) for log in logs)
    if flat > PUBLIC_LOGS_FLAT_FIELDS_MAX:
        where = join_path(path, "publicLogs")
        raise DecodeError(f"{where}: {flat} fields in all, at most {PUBLIC_LOGS_FLAT_FIELDS_MAX} allowed")
    return logs


def _read_hashes(reader: ByteReader, maximum: int, name: str) -> tuple[bytes, ...]:
    return split_fields(reader.fields(reader.count(_COUNT_U8, maximum, name)))


def _read_public_log(reader: ByteReader) -> PublicLog:
    count = reader.count(_COUNT_U32, PUBLIC_LOG_FIELDS_MAX, "public log fields")
    return PublicLog(reader.field(), split_fields(reader.fields(count)))


@dataclass(frozen=True, slots=True)
class Body:
    """The tx effects of a block, in order."""

    tx_effects: tuple[TxEffect, ...]

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        items = read_list(record, "txEffects", path, maximum=TXS_PER_BLOCK_MAX)
        return cls(tuple(TxEffect.from_json(item, element_path(path, "txEffects", i)) for i, item in enumerate(items)))

    def to_json(self) -> dict[str, Any]:
        return {"txEffects": [effect.to_json() for effect in self.tx_effects]}

    @property
    def total_fees(self) -> int:
        """Value that ``totalFees`` of the block's header must have."""
        return sum(effect.transaction_fee for effect in self.tx_effects) % MODULUS

    def to_buffer(self) -> bytes:
        return _u32(len(self.tx_effects)) + b"".join([effect.to_buffer() for effect in self.tx_effects])

    @classmethod
    def read(cls, reader: ByteReader) -> Self:
        """Reads a body and leaves the reader behind it."""
        count = reader.count(_COUNT_U32, TXS_PER_BLOCK_MAX, "tx effects")
        return cls(tuple([TxEffect.read(reader) for _ in range(count)]))
