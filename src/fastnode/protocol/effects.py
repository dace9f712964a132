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
    field_texts,
    join_path,
    read_fields,
    read_record,
    split_fields,
)
from fastnode.protocol.reader import ByteReader
from fastnode.protocol.records import (
    FIELD,
    Codec,
    Record,
    field_number,
    hashes,
    many,
    member,
    number,
    padded,
    record,
)

CONTRACT_CLASS_LOG_BYTES: Final = CONTRACT_CLASS_LOG_FIELDS * FIELD_BYTES
#: Public logs of a tx: none can take less than its header in the flat form.
PUBLIC_LOGS_PER_TX_MAX: Final = PUBLIC_LOGS_FLAT_FIELDS_MAX // PUBLIC_LOG_HEADER_FIELDS
TXS_PER_BLOCK_MAX: Final = 0xFFFF  # the block end marker counts txs in 16 bits

_COUNT_U32: Final = 4


@record
class PublicDataWrite(Record):
    """One public storage write."""

    leaf_slot: bytes = member(FIELD, "Slot, siloed by the contract.")
    value: bytes = member(FIELD)


@record
class PrivateLog(Record):
    """Sixteen fields, of which the first ``emitted_length`` were emitted; field 0 is the siloed tag."""

    fields: tuple[bytes, ...] = member(padded(PRIVATE_LOG_FIELDS), "Padded with zeros.")
    emitted_length: int = member(number(maximum=PRIVATE_LOG_FIELDS))

    def __post_init__(self) -> None:
        if len(self.fields) != PRIVATE_LOG_FIELDS or not 0 <= self.emitted_length <= PRIVATE_LOG_FIELDS:
            raise DecodeError(f"private log: {len(self.fields)} fields, emitted length {self.emitted_length}")

    @property
    def emitted(self) -> bytes:
        """The emitted fields, joined."""
        return b"".join(self.fields[: self.emitted_length])


@record
class PublicLog(Record):
    """Fields emitted by a public function.  Field 0 is the raw tag, if any."""

    contract_address: bytes = member(FIELD, "Contract that emitted them.")
    fields: tuple[bytes, ...] = member(hashes(PUBLIC_LOG_FIELDS_MAX, count_width=_COUNT_U32))

    # The count of the fields comes before the address.
    def put(self, parts: list[bytes]) -> None:
        parts += (len(self.fields).to_bytes(_COUNT_U32, "big"), self.contract_address, *self.fields)

    @classmethod
    def read(cls, reader: ByteReader) -> Self:
        count = reader.count(_COUNT_U32, PUBLIC_LOG_FIELDS_MAX, "fields")
        return cls(reader.field(), split_fields(reader.fields(count)))


def _read_padded(record: dict[str, Any], key: str, path: str) -> bytes:
    inner, inner_path = read_record(record, key, path), join_path(path, key)
    fields = read_fields(inner, "fields", inner_path, maximum=CONTRACT_CLASS_LOG_FIELDS)
    if len(fields) != CONTRACT_CLASS_LOG_BYTES:
        count = len(fields) // FIELD_BYTES
        raise DecodeError(f"{inner_path}.fields: has {count} elements, expected {CONTRACT_CLASS_LOG_FIELDS}")
    return fields


def _write_padded(fields: bytes) -> dict[str, Any]:
    texts = field_texts(fields)
    return {"fields": texts + [ZERO_FIELD_TEXT] * (CONTRACT_CLASS_LOG_FIELDS - len(texts))}


#: Fields of a class log: joined, without the zero fields at the end; whole in JSON and in the binary form.
_PADDED: Final = Codec(
    "{fields: Fr[]}",
    _read_padded,
    _write_padded,
    lambda value, parts: parts.append(value.ljust(CONTRACT_CLASS_LOG_BYTES, b"\0")),
    lambda reader, name: reader.fields(CONTRACT_CLASS_LOG_FIELDS),
)


@record
class ContractClassLog(Record):
    """A log of 3,023 fields, nearly all of them zero.

    ``fields`` holds the joined fields without the zero fields at the end, so that equal logs are equal
    bytes and a log costs memory for what it says.  :attr:`padded` and :attr:`emitted` give the other forms.
    """

    contract_address: bytes = member(FIELD, "Contract that emitted it: the class registry.")
    fields: bytes = member(_PADDED, "Padded with zeros.")
    emitted_length: int = member(number(maximum=CONTRACT_CLASS_LOG_FIELDS))

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


def _without_trailing_zero_fields(fields: bytes) -> bytes:
    used = len(fields.rstrip(b"\0"))
    return fields[: -(-used // FIELD_BYTES) * FIELD_BYTES]


def _read_public_logs(record: dict[str, Any], key: str, path: str) -> tuple[PublicLog, ...]:
    logs = _ANY_PUBLIC_LOGS.read(record, key, path)
    flat = sum(PUBLIC_LOG_HEADER_FIELDS + len(log.fields) for log in logs)
    if flat > PUBLIC_LOGS_FLAT_FIELDS_MAX:
        where = join_path(path, key)
        raise DecodeError(f"{where}: {flat} fields in all, at most {PUBLIC_LOGS_FLAT_FIELDS_MAX} allowed")
    return logs


_ANY_PUBLIC_LOGS: Final = many(PublicLog, PUBLIC_LOGS_PER_TX_MAX, count_width=_COUNT_U32)
_PUBLIC_LOGS: Final = _ANY_PUBLIC_LOGS._replace(read=_read_public_logs)


@record
class TxEffect(Record):
    """Everything a tx changed; hashes go into the trees as they are."""

    revert_code: int = member(
        number(width=1, maximum=REVERT_CODE_MAX), "0 success, 1 app logic, 2 teardown, 3 both reverted."
    )
    tx_hash: bytes = member(FIELD)
    transaction_fee: int = member(field_number(), "In the smallest unit of the fee asset.")
    note_hashes: tuple[bytes, ...] = member(hashes(NOTE_HASHES_PER_TX_MAX), "Unique and siloed.")
    nullifiers: tuple[bytes, ...] = member(hashes(NULLIFIERS_PER_TX_MAX), "Siloed.")
    l2_to_l1_msgs: tuple[bytes, ...] = member(hashes(L2_TO_L1_MESSAGES_PER_TX_MAX), "Hashes of messages to L1.")
    public_data_writes: tuple[PublicDataWrite, ...] = member(many(PublicDataWrite, PUBLIC_DATA_WRITES_PER_TX_MAX))
    private_logs: tuple[PrivateLog, ...] = member(many(PrivateLog, PRIVATE_LOGS_PER_TX_MAX))
    public_logs: tuple[PublicLog, ...] = member(_PUBLIC_LOGS)
    contract_class_logs: tuple[ContractClassLog, ...] = member(many(ContractClassLog, CONTRACT_CLASS_LOGS_PER_TX_MAX))


@record
class Body(Record):
    """The tx effects of a block, in order."""

    tx_effects: tuple[TxEffect, ...] = member(many(TxEffect, TXS_PER_BLOCK_MAX, count_width=_COUNT_U32))

    @property
    def total_fees(self) -> int:
        """Value that ``totalFees`` of the block's header must have."""
        return sum(effect.transaction_fee for effect in self.tx_effects) % MODULUS
