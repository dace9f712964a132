"""Transactions as wallets send them: JSON, binary, hash.

Binary form (what nodes exchange and what the size limit counts), big-endian::

    tx hash 32 | data 38557 or 82722 (tx_layout.py) | proof
    | u8 n, n x (3023 x 32) class log contents | u8 m, m x (u32 count, count x 32 values, hash 32) calldata

    proof   u32 n, n x 32 fields; n is 1935 in release 4.x, 1270 in 5.x
            u32 0                   5.x: none
            u32 n, n bytes          5.x: compressed, any other n

JSON form: ``txHash`` (out only; ignored when it comes in), ``data`` and ``chonkProof`` as base64,
``contractClassLogFields`` as ``{fields}``, ``publicFunctionCalldata`` as ``{values, hash}``.  What comes
in may also write the two buffers as ``0x`` hex or as ``{"type":"Buffer","data":[..]}``, or be the short
form ``{"data": ..}`` that carries the whole binary form.

Every length and count is compared with its limit before anything of that size is made.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

from fastnode.errors import DecodeError
from fastnode.kernels import encode, poseidon2
from fastnode.protocol.compressed_proofs import compressed_bytes
from fastnode.protocol.constants import CONTRACT_CLASS_LOG_FIELDS
from fastnode.protocol.fields import (
    FIELD_BYTES,
    as_record,
    element_path,
    field_from_int,
    field_texts,
    fields_from_texts,
    first_non_canonical,
    hex_text,
    join_path,
    read_list,
    read_value,
)
from fastnode.protocol.reader import ByteReader
from fastnode.protocol.releases import Release
from fastnode.protocol.tx_data import TxData
from fastnode.records import dataclass

CLASS_LOG_BYTES: Final = CONTRACT_CLASS_LOG_FIELDS * FIELD_BYTES
#: Both accumulated parts of a public transaction can name one class log; more can never match.
CLASS_LOGS_DECODED_MAX: Final = 2
#: The count is one byte in the binary form.
CALLDATA_ENTRIES_MAX: Final = 255
#: Bytes that one transaction may hold; more is not even decoded.  The protocol's limit is half of it, a
#: rule of validation with a reason of its own.
TX_DECODED_BYTES_MAX: Final = 1 << 20
CALLDATA_FIELDS_DECODED_MAX: Final = TX_DECODED_BYTES_MAX // FIELD_BYTES

SEPARATOR_PUBLIC_CALLDATA: Final = 2760353947
#: Published nodes are strict about base64 that is shorter.
LENIENT_LENGTH_MIN: Final = 1025
_OF_URLS: Final = str.maketrans("-_", "+/")
_CALLDATA_SEPARATOR: Final = field_from_int(SEPARATOR_PUBLIC_CALLDATA)

_DATA, _PROOF = "data", "chonkProof"
_CLASS_LOGS, _CALLDATA = "contractClassLogFields", "publicFunctionCalldata"


class Calldata(NamedTuple):
    """Arguments of one public call: n joined fields (the first is the selector), and the hash the sender claims."""

    values: bytes
    hash: bytes

    @property
    def field_count(self) -> int:
        return len(self.values) // FIELD_BYTES

    def computed_hash(self) -> bytes:
        return poseidon2.hash_fields(_CALLDATA_SEPARATOR + self.values)


@dataclass(frozen=True, slots=True)
class Tx:
    """A decoded transaction.  ``hash`` is always computed from ``data``.

    ``proof`` is the joined fields of its release, empty without one and when it came compressed: then
    ``compressed_proof`` has its bytes.  Each class log is 3,023 fields.  ``claimed_hash`` is what the binary form said,
    ``None`` for JSON.
    """

    data: TxData
    proof: bytes
    class_logs: tuple[bytes, ...]
    calldata: tuple[Calldata, ...]
    claimed_hash: bytes | None = None
    compressed_proof: bytes = b""

    @property
    def hash(self) -> bytes:
        return self.data.tx_hash

    @property
    def size(self) -> int:
        """Bytes of the binary form."""
        calldata = sum(4 + len(entry.values) + FIELD_BYTES for entry in self.calldata)
        proof = 4 + len(self.proof or self.compressed_proof)
        return FIELD_BYTES + len(self.data.buffer) + proof + 1 + len(self.class_logs) * CLASS_LOG_BYTES + 1 + calldata

    # ---- JSON ------------------------------------------------------------------------------

    @classmethod
    def from_json(cls, value: object, release: Release, path: str = "") -> Self:
        """A transaction of a release.  DecodeError names the path of what is wrong."""
        record = as_record(value, path)
        if _DATA in record and not (_PROOF in record or _CLASS_LOGS in record or _CALLDATA in record):
            data_path = join_path(path, _DATA)
            return cls.from_buffer(_buffer(record[_DATA], data_path, TX_DECODED_BYTES_MAX), release, data_path)
        # The lists come first: they say most cheaply that something else was sent as a transaction.
        class_logs = read_list(record, _CLASS_LOGS, path, maximum=CLASS_LOGS_DECODED_MAX)
        calldata = read_list(record, _CALLDATA, path, maximum=CALLDATA_ENTRIES_MAX)
        data_path, proof_path = join_path(path, _DATA), join_path(path, _PROOF)
        data = _buffer(read_value(record, _DATA, path), data_path, release.tx_layout.public_data_bytes)
        proof = _buffer(read_value(record, _PROOF, path), proof_path, 4 + _proof_bytes_max(release))
        fields, compressed = _proof_from_buffer(proof, release, proof_path)
        return cls(
            proof=fields,
            compressed_proof=compressed,
            class_logs=tuple(
                _class_log_from_json(item, element_path(path, _CLASS_LOGS, i)) for i, item in enumerate(class_logs)
            ),
            calldata=_calldata_from_json(calldata, path),
            # Last, because it begins to hash.
            data=TxData.from_buffer(data, data_path, release.tx_layout),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "txHash": hex_text(self.hash),
            _DATA: encode.to_base64(self.data.buffer).decode("ascii"),
            _PROOF: encode.to_base64(self._counted_proof()).decode("ascii"),
            _CLASS_LOGS: [{"fields": field_texts(log)} for log in self.class_logs],
            _CALLDATA: [{"values": field_texts(entry.values), "hash": hex_text(entry.hash)} for entry in self.calldata],
        }

    def to_json_bytes(self) -> bytes:
        """:meth:`to_json` as it is sent, without building the objects."""
        class_logs = b",".join([b'{"fields":%b}' % encode.quoted_fields(log) for log in self.class_logs])
        calldata = b",".join(
            [
                b'{"values":%b,"hash":"%b"}' % (encode.quoted_fields(entry.values), encode.to_hex(entry.hash))
                for entry in self.calldata
            ]
        )
        return (
            b'{"txHash":"%b","data":"%b","chonkProof":"%b","contractClassLogFields":[%b],"publicFunctionCalldata":[%b]}'
        ) % (
            encode.to_hex(self.hash),
            encode.to_base64(self.data.buffer),
            encode.to_base64(self._counted_proof()),
            class_logs,
            calldata,
        )

    # ---- binary ----------------------------------------------------------------------------

    @classmethod
    def from_buffer(cls, buffer: bytes, release: Release, path: str = "tx") -> Self:
        """The inverse of :meth:`to_buffer`; DecodeError for anything else.

        A wrong hash in front is kept as ``claimed_hash``: validation has a reason for it.
        """
        if len(buffer) > TX_DECODED_BYTES_MAX:
            raise DecodeError(f"{path}: {len(buffer)} bytes, at most {TX_DECODED_BYTES_MAX} allowed")
        reader = ByteReader(buffer, path)
        claimed_hash = reader.take(FIELD_BYTES)
        public = buffer[FIELD_BYTES : FIELD_BYTES + 1] not in (b"", b"\0")
        data = reader.take(release.tx_layout.data_bytes(public=public))
        proof_path = join_path(path, _PROOF)
        counted = reader.take(4)
        counted += reader.take(proof_bytes(int.from_bytes(counted, "big"), release, proof_path))
        proof, compressed = _proof_from_buffer(counted, release, proof_path)
        class_log_count = reader.count(1, CLASS_LOGS_DECODED_MAX, "contract class logs")
        class_logs = tuple([reader.fields(CONTRACT_CLASS_LOG_FIELDS) for _ in range(class_log_count)])
        calldata = tuple([_read_calldata(reader) for _ in range(reader.count(1, CALLDATA_ENTRIES_MAX, "calldata"))])
        reader.finish()
        return cls(
            TxData.from_buffer(data, path, release.tx_layout), proof, class_logs, calldata, claimed_hash, compressed
        )

    def to_buffer(self) -> bytes:
        parts = [self.hash, self.data.buffer, self._counted_proof(), len(self.class_logs).to_bytes(1, "big")]
        parts += self.class_logs
        parts.append(len(self.calldata).to_bytes(1, "big"))
        for entry in self.calldata:
            parts += (entry.field_count.to_bytes(4, "big"), entry.values, entry.hash)
        return b"".join(parts)

    def _counted_proof(self) -> bytes:
        if self.compressed_proof:
            return len(self.compressed_proof).to_bytes(4, "big") + self.compressed_proof
        return (len(self.proof) // FIELD_BYTES).to_bytes(4, "big") + self.proof


# ---- parts ------------------------------------------------------------------------------------


def _buffer(value: object, path: str, maximum: int) -> bytes:
    """Bytes written as base64, ``0x`` hex or a Node.js buffer object; at most ``maximum`` of them."""
    if isinstance(value, str):
        is_hex = value.startswith("0x")
        text_maximum = 2 + 2 * maximum if is_hex else (maximum + 2) // 3 * 4
        if len(value) <= text_maximum:
            try:
                return encode.from_hex(value) if is_hex else encode.from_base64(value)
            except ValueError as error:
                refusal = DecodeError(f"{path}: not {'hex' if is_hex else 'base64'}: {error}")
        else:
            refusal = DecodeError(f"{path}: {len(value)} characters, at most {text_maximum} allowed")
        if is_hex or len(value) < LENIENT_LENGTH_MIN:
            raise refusal
        text = _usual_base64(value)
        if len(text) > text_maximum:
            raise refusal
        try:
            return encode.from_base64(text)
        except ValueError:
            raise DecodeError(f"{path}: not base64") from None
    if isinstance(value, dict) and value.get("type") == "Buffer" and isinstance(value.get("data"), list):
        numbers = value["data"]
        if len(numbers) > maximum:
            raise DecodeError(f"{path}: {len(numbers)} bytes, at most {maximum} allowed")
        if not all(type(number) is int and 0 <= number < 256 for number in numbers):
            raise DecodeError(f"{path}: not an array of bytes")
        return bytes(numbers)
    raise DecodeError(f"{path}: expected a base64 or 0x hex string")


def _usual_base64(text: str) -> str:
    """Padded base64 of the standard alphabet for one without padding, with blanks, or in the alphabet of URLs.

    Published nodes read all of these in long texts, as ``Buffer.from`` of Node.js does; in short ones they do not.
    """
    digits = "".join(text.split()).translate(_OF_URLS).rstrip("=")
    return digits + "=" * (-len(digits) % 4)


def _proof_bytes_max(release: Release) -> int:
    """Bytes of a proof in any form.  A compressed one may bring its public inputs."""
    fields = release.proof_fields * FIELD_BYTES
    if not release.compressed_proof:
        return fields
    return max(fields, compressed_bytes(release) + release.tx_layout.public_hash_fields * FIELD_BYTES)


def proof_bytes(count: int, release: Release, path: str) -> int:
    """Bytes that follow the number in front of a proof."""
    if count == release.proof_fields:
        return count * FIELD_BYTES
    if not release.compressed_proof:
        raise DecodeError(f"{path}: {count} fields, expected {release.proof_fields}")
    least, most = compressed_bytes(release), _proof_bytes_max(release)
    if count and (count % FIELD_BYTES or not least <= count <= most):
        raise DecodeError(
            f"{path}: neither a proof of {release.proof_fields} fields nor a compressed one: those have {least} to "
            f"{most} bytes, a multiple of {FIELD_BYTES}, here are {count}"
        )
    return count


def _proof_from_buffer(buffer: bytes, release: Release, path: str) -> tuple[bytes, bytes]:
    """The proof's joined fields, and its bytes when it is compressed, from u32 count | content."""
    expected = 4 + release.proof_fields * FIELD_BYTES
    if len(buffer) != expected and not release.compressed_proof:
        raise DecodeError(f"{path}: {len(buffer)} bytes, expected {expected}")
    if len(buffer) < 4:
        raise DecodeError(f"{path}: {len(buffer)} bytes, its number alone has 4")
    count = int.from_bytes(buffer[:4], "big")
    expected = 4 + proof_bytes(count, release, path)
    if len(buffer) != expected:
        raise DecodeError(f"{path}: {len(buffer)} bytes, expected {expected}")
    content = buffer[4:]
    if count != release.proof_fields:
        return b"", content
    position = first_non_canonical(content)
    if position is not None:
        raise DecodeError(f"{path}: field {position} is not below the field modulus")
    return content, b""


def _class_log_from_json(value: object, path: str) -> bytes:
    fields_path = join_path(path, "fields")
    texts = read_list(as_record(value, path), "fields", path)
    if len(texts) != CONTRACT_CLASS_LOG_FIELDS:
        raise DecodeError(f"{fields_path}: {len(texts)} fields, expected {CONTRACT_CLASS_LOG_FIELDS}")
    return _fields(texts, fields_path)


def _calldata_from_json(entries: list[Any], path: str) -> tuple[Calldata, ...]:
    allowed = CALLDATA_FIELDS_DECODED_MAX
    decoded = []
    for index, item in enumerate(entries):
        entry_path = element_path(path, _CALLDATA, index)
        record = as_record(item, entry_path)
        texts = read_list(record, "values", entry_path, maximum=allowed)
        allowed -= len(texts)
        claimed = _fields([read_value(record, "hash", entry_path)], join_path(entry_path, "hash"))
        decoded.append(Calldata(_fields(texts, join_path(entry_path, "values")), claimed))
    return tuple(decoded)


def _read_calldata(reader: ByteReader) -> Calldata:
    count = reader.count(4, CALLDATA_FIELDS_DECODED_MAX, "calldata fields")
    return Calldata(reader.fields(count), reader.field())


def _fields(texts: list[Any], path: str) -> bytes:
    """Field texts, joined.  Also takes the shorter spellings of a field: fewer digits, decimal."""
    try:
        return fields_from_texts(texts, path)
    except DecodeError:
        return b"".join([_field(text, f"{path}[{index}]") for index, text in enumerate(texts)])


def _field(text: object, path: str) -> bytes:
    if not isinstance(text, str):
        raise DecodeError(f"{path}: expected a field element as a string")
    try:
        return encode.field_from_text(text)
    except ValueError as error:
        raise DecodeError(f"{path}: {error}") from None
