"""Siloing: how a contract's own values become the values in the trees."""

from __future__ import annotations

from fastnode.protocol.constants import (
    FEE_JUICE_BALANCES_SLOT,
    SEPARATOR_NOTE_HASH_NONCE,
    SEPARATOR_PRIVATE_LOG_FIRST_FIELD,
    SEPARATOR_PUBLIC_LEAF_SLOT,
    SEPARATOR_PUBLIC_STORAGE_MAP_SLOT,
    SEPARATOR_SECRET_HASH,
    SEPARATOR_SILOED_NOTE_HASH,
    SEPARATOR_SILOED_NULLIFIER,
    SEPARATOR_UNIQUE_NOTE_HASH,
)
from fastnode.protocol.fields import field_from_int
from fastnode.protocol.hashing import poseidon2_hash_with_separator


def silo_note_hash(contract_address: bytes, note_hash: bytes) -> bytes:
    return poseidon2_hash_with_separator(SEPARATOR_SILOED_NOTE_HASH, (contract_address, note_hash))


def note_hash_nonce(first_nullifier: bytes, index_in_tx: int) -> bytes:
    """The nonce that makes the note hash at this position of a tx unique."""
    return poseidon2_hash_with_separator(SEPARATOR_NOTE_HASH_NONCE, (first_nullifier, field_from_int(index_in_tx)))


def unique_note_hash(nonce: bytes, siloed_note_hash: bytes) -> bytes:
    """The leaf of a note in the note hash tree."""
    return poseidon2_hash_with_separator(SEPARATOR_UNIQUE_NOTE_HASH, (nonce, siloed_note_hash))


def silo_nullifier(contract_address: bytes, nullifier: bytes) -> bytes:
    """The key of a nullifier in the nullifier tree."""
    return poseidon2_hash_with_separator(SEPARATOR_SILOED_NULLIFIER, (contract_address, nullifier))


def silo_private_log_tag(contract_address: bytes, tag: bytes) -> bytes:
    """Field 0 of a private log on chain.  Public logs are not siloed."""
    return poseidon2_hash_with_separator(SEPARATOR_PRIVATE_LOG_FIRST_FIELD, (contract_address, tag))


def public_leaf_slot(contract_address: bytes, storage_slot: bytes) -> bytes:
    """The key of a contract's storage slot in the public data tree."""
    return poseidon2_hash_with_separator(SEPARATOR_PUBLIC_LEAF_SLOT, (contract_address, storage_slot))


def storage_map_slot(map_slot: bytes, key: bytes) -> bytes:
    """The storage slot of a map's entry."""
    return poseidon2_hash_with_separator(SEPARATOR_PUBLIC_STORAGE_MAP_SLOT, (map_slot, key))


def fee_juice_balance_leaf_slot(owner: bytes, fee_juice: bytes) -> bytes:
    """The public data tree key of an address' fee juice balance; ``fee_juice``: address of that contract."""
    slot = storage_map_slot(field_from_int(FEE_JUICE_BALANCES_SLOT), owner)
    return public_leaf_slot(fee_juice, slot)


def secret_hash(secret: bytes) -> bytes:
    return poseidon2_hash_with_separator(SEPARATOR_SECRET_HASH, (secret,))
