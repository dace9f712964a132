"""Contract classes and instances: their ids and addresses, their JSON, and the logs that publish them.

A class id commits to artifact, private functions and public bytecode; an address commits to the original
class, salt, initialisation, deployer and public keys.  So the claims of a log or a file can be checked:

    class id        H(CONTRACT_CLASS_ID, artifact hash, private functions root, bytecode commitment)
    commitment      H(PUBLIC_BYTECODE + byte length * 2^32, 31-byte chunks ...)
    salted init     H(PARTIAL_ADDRESS, salt, initialization hash, deployer)
    partial address H(PARTIAL_ADDRESS, original class id, salted init)
    keys hash       H(PUBLIC_KEYS_HASH, x, y, infinity flag of each of the four keys), 0 when all are zero
    address         x of H(CONTRACT_ADDRESS_V1, keys hash, partial address) * G + incoming viewing key

Events, by the log that carries them::

    class published     class log of the class registry (3, from release 5.x on 1):
                                                   magic | id | version | artifact hash
                                                   | private functions root | byte length | chunks ...
    instance published  private log, siloed tag of contract 2:
                        version 1                  tag | address | version | salt | class id
                                                   | initialization hash | four keys x, y | deployer
                        version 2                  the same to initialization hash | immutables hash
                                                   | nullifier key hash | incoming viewing key x, y
                                                   | hashes of outgoing viewing, tagging, message signing, fallback key
                                                   | deployer
    instance updated    public log of contract 2:  magic | address | previous class id | new class id
                                                   | timestamp of change
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple, Self

from fastnode.errors import DecodeError
from fastnode.kernels import encode, poseidon2
from fastnode.protocol import grumpkin
from fastnode.protocol.constants import (
    BYTECODE_BYTES_PER_FIELD,
    CONTRACT_CLASS_LOG_FIELDS,
    CONTRACT_CLASS_PUBLISHED_MAGIC,
    CONTRACT_INSTANCE_PUBLISHED_MAGIC,
    CONTRACT_INSTANCE_REGISTRY_ADDRESS,
    CONTRACT_INSTANCE_UPDATED_MAGIC,
    JSON_INTEGER_MAX,
    PRIVATE_FUNCTION_TREE_HEIGHT,
    PROTOCOL_CONTRACTS_MAX,
    PUBLIC_BYTECODE_FIELDS_MAX,
    SEPARATOR_CONTRACT_ADDRESS_V1,
    SEPARATOR_CONTRACT_ADDRESS_V2,
    SEPARATOR_CONTRACT_CLASS_ID,
    SEPARATOR_PARTIAL_ADDRESS,
    SEPARATOR_PRIVATE_FUNCTION_LEAF,
    SEPARATOR_PROTOCOL_CONTRACTS,
    SEPARATOR_PUBLIC_BYTECODE,
    SEPARATOR_PUBLIC_KEYS_HASH,
    SEPARATOR_SALTED_INITIALIZATION_HASH,
    SEPARATOR_SINGLE_PUBLIC_KEY_HASH,
)
from fastnode.protocol.effects import ContractClassLog, PrivateLog, PublicLog, TxEffect
from fastnode.protocol.fields import (
    FIELD_BYTES,
    ZERO_FIELD,
    as_record,
    field_from_int,
    first_non_canonical,
    hex_text,
    int_from_field,
    join_path,
    read_base64,
    read_bytes,
    read_field,
    read_list,
    read_number,
    read_value,
    split_fields,
)
from fastnode.protocol.hashing import poseidon2_hash_with_separator
from fastnode.protocol.records import FIELD, Record, data, json_only, member, number, optional, record
from fastnode.protocol.releases import Release
from fastnode.protocol.siloing import silo_private_log_tag
from fastnode.records import dataclass

#: The only version of classes there is, and of instances before release 5.x.
CONTRACT_VERSION: Final = 1
#: The version of instances from release 5.x on.
HASHED_KEYS_VERSION: Final = 2
POINT_BYTES: Final = 2 * FIELD_BYTES
PUBLIC_BYTECODE_BYTES_MAX: Final = 96_000

_INSTANCE_REGISTRY: Final = field_from_int(CONTRACT_INSTANCE_REGISTRY_ADDRESS)
_CLASS_PUBLISHED: Final = field_from_int(CONTRACT_CLASS_PUBLISHED_MAGIC)
_INSTANCE_UPDATED: Final = field_from_int(CONTRACT_INSTANCE_UPDATED_MAGIC)
#: Field 0 of the private log that publishes an instance.
INSTANCE_PUBLISHED_TAG: Final = silo_private_log_tag(
    _INSTANCE_REGISTRY, field_from_int(CONTRACT_INSTANCE_PUBLISHED_MAGIC)
)

# Fields of the class published event before the bytecode chunks.
_CLASS_EVENT_HEAD_FIELDS: Final = 6
_UPDATE_EVENT_FIELDS: Final = 5
_TIMESTAMP_BITS: Final = 64


# ---- class ids ------------------------------------------------------------------------------------


def public_bytecode_chunks(bytecode: bytes) -> bytes:
    """Bytecode as joined fields: 31 bytes each behind a zero byte, the last one padded on the right."""
    step = BYTECODE_BYTES_PER_FIELD
    chunks = [b"\0" + bytecode[start : start + step] for start in range(0, len(bytecode), step)]
    if chunks:
        chunks[-1] = chunks[-1].ljust(FIELD_BYTES, b"\0")
    return b"".join(chunks)


def public_bytecode_commitment(bytecode: bytes) -> bytes:
    """Commitment to packed public bytecode; its length is mixed into the separator."""
    separator = field_from_int(SEPARATOR_PUBLIC_BYTECODE + (len(bytecode) << 32))
    return poseidon2.hash_fields(separator + public_bytecode_chunks(bytecode))


def contract_class_id(artifact_hash: bytes, private_functions_root: bytes, bytecode_commitment: bytes) -> bytes:
    """The class id.  The version is not part of it."""
    return poseidon2_hash_with_separator(
        SEPARATOR_CONTRACT_CLASS_ID, (artifact_hash, private_functions_root, bytecode_commitment)
    )


def private_functions_root(functions: Sequence[tuple[int, bytes]], node_separator: bytes = b"") -> bytes:
    """Root of the tree over (selector, verification key hash) of the private functions, in any order.

    Its empty leaf is the hash of two zeros, not zero.  ``node_separator``: that of the release's trees; empty: it has
    none.  ValueError for more than 128 functions.
    """
    capacity = 1 << PRIVATE_FUNCTION_TREE_HEIGHT
    if len(functions) > capacity:
        raise ValueError(f"{len(functions)} private functions, at most {capacity} allowed")
    separator = field_from_int(SEPARATOR_PRIVATE_FUNCTION_LEAF)
    leaves = b"".join(separator + field_from_int(selector) + vk_hash for selector, vk_hash in sorted(functions))
    empty = poseidon2.hash_pair(ZERO_FIELD, ZERO_FIELD)
    level = poseidon2.hash_leaves_3(leaves) + empty * (capacity - len(functions))
    while len(level) > FIELD_BYTES:
        level = poseidon2.hash_nodes(level, node_separator)
    return level


# ---- addresses --------------------------------------------------------------------------------------


def _read_point(record: dict[str, Any], key: str, path: str) -> bytes:
    point = read_bytes(record, key, path, POINT_BYTES)
    if first_non_canonical(point) is not None:
        raise DecodeError(f"{join_path(path, key)}: a coordinate is not below the field modulus")
    return point


#: x and y.
_POINT: Final = data(POINT_BYTES, "PublicKey")._replace(read=_read_point)


@record
class PublicKeys(Record):
    """The four master public keys of an account or contract."""

    master_nullifier_public_key: bytes = member(_POINT)
    master_incoming_viewing_public_key: bytes = member(_POINT)
    master_outgoing_viewing_public_key: bytes = member(_POINT)
    master_tagging_public_key: bytes = member(_POINT)

    def hash(self) -> bytes:
        buffer = self.to_buffer()
        if not any(buffer):
            return ZERO_FIELD
        # Each point is followed by its infinity flag, which is never set: a key is a finite point.
        points = [buffer[start : start + POINT_BYTES] + ZERO_FIELD for start in range(0, len(buffer), POINT_BYTES)]
        return poseidon2_hash_with_separator(SEPARATOR_PUBLIC_KEYS_HASH, points)


@record
class HashedPublicKeys(Record):
    """The master public keys from release 5.x on: one point and the hashes of five others."""

    nullifier_key_hash: bytes = member(FIELD, json="npkMHash")
    incoming_viewing_key: bytes = member(_POINT, json="ivpkM")
    outgoing_viewing_key_hash: bytes = member(FIELD, json="ovpkMHash")
    tagging_key_hash: bytes = member(FIELD, json="tpkMHash")
    message_signing_key_hash: bytes = member(FIELD, json="mspkMHash")
    fallback_key_hash: bytes = member(FIELD, json="fbpkMHash")

    def hash(self) -> bytes:
        viewing_key = self.incoming_viewing_key
        point = viewing_key[:FIELD_BYTES], viewing_key[FIELD_BYTES:]
        return poseidon2_hash_with_separator(
            SEPARATOR_PUBLIC_KEYS_HASH,
            (
                self.nullifier_key_hash,
                poseidon2_hash_with_separator(SEPARATOR_SINGLE_PUBLIC_KEY_HASH, point),
                self.outgoing_viewing_key_hash,
                self.tagging_key_hash,
                self.message_signing_key_hash,
                self.fallback_key_hash,
            ),
        )


def partial_address(
    original_class_id: bytes,
    salt: bytes,
    initialization_hash: bytes,
    deployer: bytes,
    immutables_hash: bytes | None = None,
) -> bytes:
    """The partial address of an instance; ``immutables_hash`` None: of one of version 1, which has none."""
    if immutables_hash is None:
        salted = poseidon2_hash_with_separator(SEPARATOR_PARTIAL_ADDRESS, (salt, initialization_hash, deployer))
    else:
        salted = poseidon2_hash_with_separator(
            SEPARATOR_SALTED_INITIALIZATION_HASH, (salt, initialization_hash, deployer, immutables_hash)
        )
    return poseidon2_hash_with_separator(SEPARATOR_PARTIAL_ADDRESS, (original_class_id, salted))


def contract_address(
    public_keys: PublicKeys | HashedPublicKeys, partial: bytes, separator_of_release: int | None = None
) -> bytes:
    """Return the address of keys and partial address; DecodeError when the incoming viewing key is no curve point.

    ``separator_of_release``: the first field that is hashed; None: that of the version of the keys.
    """
    if isinstance(public_keys, HashedPublicKeys):
        key, separator = public_keys.incoming_viewing_key, SEPARATOR_CONTRACT_ADDRESS_V2
    else:
        key, separator = public_keys.master_incoming_viewing_public_key, SEPARATOR_CONTRACT_ADDRESS_V1
    viewing_key = int_from_field(key[:FIELD_BYTES]), int_from_field(key[FIELD_BYTES:])
    if not grumpkin.is_on_curve(viewing_key):
        raise DecodeError("the incoming viewing public key is not a point of the curve")
    pre_address = poseidon2_hash_with_separator(separator_of_release or separator, (public_keys.hash(), partial))
    point = grumpkin.multiply_and_add(int_from_field(pre_address), grumpkin.GENERATOR, viewing_key)
    if point is None:
        raise DecodeError("the address is the point at infinity")
    return field_from_int(point[0])


def protocol_contracts_hash(derived_addresses: Sequence[bytes]) -> bytes:
    """Protocol contracts that txs agree on: derived addresses in order, padded to 11 with zero."""
    padding = [ZERO_FIELD] * (PROTOCOL_CONTRACTS_MAX - len(derived_addresses))
    return poseidon2_hash_with_separator(SEPARATOR_PROTOCOL_CONTRACTS, (*derived_addresses, *padding))


# ---- records ----------------------------------------------------------------------------------------


def _read_version(record: dict[str, Any], key: str, path: str) -> int:
    version = read_number(record, key, path)
    if version != CONTRACT_VERSION:
        raise DecodeError(f"{join_path(path, key)}: {version} is unknown, expected {CONTRACT_VERSION}")
    return version


def _read_bytecode(record: dict[str, Any], key: str, path: str) -> bytes:
    bytecode = read_base64(record, key, path)
    if len(bytecode) > PUBLIC_BYTECODE_BYTES_MAX:
        where = join_path(path, key)
        raise DecodeError(f"{where}: {len(bytecode)} bytes, at most {PUBLIC_BYTECODE_BYTES_MAX} allowed")
    return bytecode


def _read_functions(record: dict[str, Any], key: str, path: str) -> tuple[dict[str, Any], ...]:
    where = join_path(path, key)
    return tuple(as_record(item, f"{where}[{i}]") for i, item in enumerate(read_list(record, key, path)))


_VERSION: Final = number()._replace(read=_read_version)
_BYTECODE: Final = json_only("bytes", _read_bytecode, lambda value: encode.to_base64(value).decode())
_FUNCTIONS: Final = json_only("any[]", _read_functions, list)


@record
class ContractClassPublic(Record):
    """A published contract class."""

    json_order: ClassVar = (
        "l2_block_number",
        "version",
        "artifact_hash",
        "private_functions",
        "utility_functions",
        "packed_bytecode",
        "private_functions_root",
        "id",
    )

    id: bytes = member(FIELD)
    version: int = member(_VERSION)
    artifact_hash: bytes = member(FIELD)
    private_functions_root: bytes = member(FIELD)
    packed_bytecode: bytes = member(_BYTECODE)
    private_functions: tuple[dict[str, Any], ...] = member(
        _FUNCTIONS, "Passed on as they came; networks of release 4 leave them empty.", default=()
    )
    utility_functions: tuple[dict[str, Any], ...] = member(_FUNCTIONS, default=())
    l2_block_number: int | None = optional(number(), "Block that published it, 0 at genesis.", default=None)

    def computed_id(self) -> bytes:
        """Value that :attr:`id` must have."""
        commitment = public_bytecode_commitment(self.packed_bytecode)
        return contract_class_id(self.artifact_hash, self.private_functions_root, commitment)


def _read_instance_version(record: dict[str, Any], key: str, path: str) -> int:
    return HASHED_KEYS_VERSION if _has_hashed_keys(record) else _read_version(record, key, path)


def _has_hashed_keys(record: dict[str, Any]) -> bool:
    return record.get("version") == HASHED_KEYS_VERSION


def _read_keys(record: dict[str, Any], key: str, path: str) -> PublicKeys | HashedPublicKeys:
    keys = HashedPublicKeys if _has_hashed_keys(record) else PublicKeys
    return keys.from_json(read_value(record, key, path), join_path(path, key))


def _read_immutables(record: dict[str, Any], key: str, path: str) -> bytes | None:
    return read_field(record, key, path) if _has_hashed_keys(record) else None


_KEYS: Final = json_only("PublicKeys|HashedPublicKeys", _read_keys, lambda keys: keys.to_json())


@record
class ContractInstance(Record):
    """A deployed contract.

    Version 1 has four public keys, version 2 (from release 5.x on) their hashes and an ``immutables_hash``.
    """

    known_as: ClassVar = "ContractInstanceWithAddress"
    json_order: ClassVar = (
        "version",
        "salt",
        "deployer",
        "current_contract_class_id",
        "original_contract_class_id",
        "initialization_hash",
        "immutables_hash",
        "public_keys",
        "address",
    )

    address: bytes = member(FIELD)
    version: int = member(number()._replace(read=_read_instance_version))
    salt: bytes = member(FIELD)
    deployer: bytes = member(FIELD)
    current_contract_class_id: bytes = member(FIELD, "Changes with updates.")
    original_contract_class_id: bytes = member(FIELD, "The one that the address commits to.")
    initialization_hash: bytes = member(FIELD)
    public_keys: PublicKeys | HashedPublicKeys = member(_KEYS)
    immutables_hash: bytes | None = optional(FIELD, "In version 2.", default=None, read=_read_immutables)

    def computed_address(self, release: Release) -> bytes:
        """Return the address that a release derives.

        Equals :attr:`address` but for the protocol contracts, which live at small numbers.
        """
        partial = partial_address(
            self.original_contract_class_id,
            self.salt,
            self.initialization_hash,
            self.deployer,
            self.immutables_hash,
        )
        return contract_address(self.public_keys, partial, release.address_separator)


@dataclass(frozen=True, slots=True)
class ContractInstanceUpdate:
    """An instance moves to another class at ``timestamp_of_change`` (seconds)."""

    address: bytes
    previous_class_id: bytes
    new_class_id: bytes
    timestamp_of_change: int

    def class_id_at(self, timestamp: int, original_class_id: bytes) -> bytes:
        """The class at a time not before this update was stored.  Previous class zero means the original one."""
        if timestamp >= self.timestamp_of_change:
            return self.new_class_id
        return original_class_id if self.previous_class_id == ZERO_FIELD else self.previous_class_id


# ---- events -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ContractEvents:
    """Contracts that the logs of one tx publish.  ``rejected`` tells, in words, which events did not hold."""

    classes: tuple[ContractClassPublic, ...]
    instances: tuple[ContractInstance, ...]
    updates: tuple[ContractInstanceUpdate, ...]
    rejected: tuple[str, ...]


class WrongClassIdError(DecodeError):
    """A log publishes a class under an id that is not its own."""


def contract_events(effect: TxEffect, release: Release) -> ContractEvents:
    """All contract events of a tx of this release.  An event whose id or address does not hold is rejected, the tx is
    not."""
    classes: list[ContractClassPublic] = []
    instances: list[ContractInstance] = []
    updates: list[ContractInstanceUpdate] = []
    rejected: list[str] = []
    for class_log in effect.contract_class_logs:
        if is_class_published(class_log, release):
            _collect(classes, rejected, decode_class_published, class_log)
    for private_log in effect.private_logs:
        if is_instance_published(private_log):
            _collect(instances, rejected, decode_instance_published, private_log, release)
    for public_log in effect.public_logs:
        if is_instance_updated(public_log):
            _collect(updates, rejected, decode_instance_updated, public_log)
    return ContractEvents(tuple(classes), tuple(instances), tuple(updates), tuple(rejected))


def _collect(found: list[Any], rejected: list[str], decode: Any, *arguments: Any) -> None:
    try:
        found.append(decode(*arguments))
    except DecodeError as error:
        rejected.append(str(error))


def is_class_published(log: ContractClassLog, release: Release) -> bool:
    return log.contract_address == release.addresses.class_registry and log.fields.startswith(_CLASS_PUBLISHED)


def decode_class_published(log: ContractClassLog) -> ContractClassPublic:
    """The class that a log publishes; DecodeError, in the words of release 4.x, when the log does not hold."""
    published = read_class_published(log)
    computed = published.computed_id()
    if computed != published.id:
        raise WrongClassIdError(
            f"Invalid contract class id: computed {hex_text(computed)} but event broadcasted {hex_text(published.id)}"
        )
    if published.version != CONTRACT_VERSION:
        raise DecodeError(f"Unexpected contract class version {published.version}")
    return published


def read_class_published(log: ContractClassLog) -> ContractClassPublic:
    """Class that a log publishes, its id and version unchecked; DecodeError when the log is malformed.

    The registry emits a log without the zero fields at its end, and bytecode may end with chunks of zeros: its length
    is what the log says, not what came.
    """
    head_bytes = _CLASS_EVENT_HEAD_FIELDS * FIELD_BYTES
    _, claimed_id, version_field, artifact_hash, functions_root, length_field = split_fields(log.padded[:head_bytes])
    version, length = _safe_integer(version_field), _safe_integer(length_field)
    # Shapes first: what follows hashes the bytecode.
    room = CONTRACT_CLASS_LOG_FIELDS - _CLASS_EVENT_HEAD_FIELDS
    length = min(length, room * BYTECODE_BYTES_PER_FIELD)
    chunk_count = -(-length // BYTECODE_BYTES_PER_FIELD)
    if chunk_count >= PUBLIC_BYTECODE_FIELDS_MAX:
        raise DecodeError(
            f"Input buffer exceeds maximum size: got {1 + chunk_count} but max is {PUBLIC_BYTECODE_FIELDS_MAX}"
        )
    chunks = log.padded[head_bytes : head_bytes + chunk_count * FIELD_BYTES]
    bytecode = b"".join([chunks[start + 1 : start + FIELD_BYTES] for start in range(0, len(chunks), FIELD_BYTES)])
    return ContractClassPublic(claimed_id, version, artifact_hash, functions_root, bytecode[:length])


def _safe_integer(field: bytes) -> int:
    """A number that release 4.x reads from a log."""
    value = int_from_field(field)
    if value > JSON_INTEGER_MAX:
        raise DecodeError(f"Value {value:x} greater than than max safe integer")
    return value


def is_instance_published(log: PrivateLog) -> bool:
    return log.fields[0] == INSTANCE_PUBLISHED_TAG


def decode_instance_published(log: PrivateLog, release: Release) -> ContractInstance:
    """The instance that a log publishes; DecodeError when the log is malformed or the address does not hold."""
    instance = read_instance_published(log, release)
    if instance.computed_address(release) != instance.address:
        raise DecodeError(f"instance published: the address {hex_text(instance.address)} is not that of its content")
    return instance


def read_instance_published(log: PrivateLog, release: Release) -> ContractInstance:
    """Instance that a log publishes, its address unchecked; DecodeError when the log is malformed.

    How many of its fields were emitted is not looked at, as in release 4.x: the registry emits all that matter.
    """
    content = PublishedInstance.of_log(log, release)
    keys = content.keys
    if release.instance_version == CONTRACT_VERSION:
        public_keys: PublicKeys | HashedPublicKeys = PublicKeys(
            keys[0] + keys[1], keys[2] + keys[3], keys[4] + keys[5], keys[6] + keys[7]
        )
    else:
        public_keys = HashedPublicKeys(keys[0], keys[1] + keys[2], *keys[3:])
    return ContractInstance(
        address=content.address,
        version=release.instance_version,
        salt=content.salt,
        deployer=content.deployer,
        current_contract_class_id=content.class_id,
        original_contract_class_id=content.class_id,
        initialization_hash=content.initialization_hash,
        public_keys=public_keys,
        immutables_hash=content.immutables_hash,
    )


class PublishedInstance(NamedTuple):
    """Fields of a log that publishes an instance; ``immutables_hash`` None in version 1."""

    address: bytes
    salt: bytes
    class_id: bytes
    initialization_hash: bytes
    immutables_hash: bytes | None
    keys: tuple[bytes, ...]
    deployer: bytes

    @classmethod
    def of_log(cls, log: PrivateLog, release: Release) -> Self:
        """DecodeError, in the words of release 4.x, for another version of the log than that of the release."""
        _, address, version_field, salt, class_id, initialization_hash, *rest = log.fields
        version = _safe_integer(version_field)
        if version != release.instance_version:
            raise DecodeError(f"Unexpected contract instance version {version}")
        immutables_hash = rest.pop(0) if version == HASHED_KEYS_VERSION else None
        keys, deployer = tuple(rest[:-2]), rest[-2]
        return cls(address, salt, class_id, initialization_hash, immutables_hash, keys, deployer)


def is_instance_updated(log: PublicLog) -> bool:
    return log.contract_address == _INSTANCE_REGISTRY and len(log.fields) > 0 and log.fields[0] == _INSTANCE_UPDATED


def decode_instance_updated(log: PublicLog) -> ContractInstanceUpdate:
    """The update that a log announces; DecodeError when the log is malformed."""
    if len(log.fields) < _UPDATE_EVENT_FIELDS:
        raise DecodeError(f"instance updated: {len(log.fields)} fields, expected {_UPDATE_EVENT_FIELDS}")
    _, address, previous_class_id, new_class_id, timestamp_field = log.fields[:_UPDATE_EVENT_FIELDS]
    timestamp = int_from_field(timestamp_field)
    if timestamp >> _TIMESTAMP_BITS:
        raise DecodeError(f"instance updated: timestamp {timestamp} does not fit {_TIMESTAMP_BITS} bits")
    return ContractInstanceUpdate(address, previous_class_id, new_class_id, timestamp)
