"""Transactions of L1 as bytes: those with blobs (EIP-4844, type 3) and plain ones (EIP-1559, type 2).

    type 3      0x03 | rlp([chain, nonce, tip, fee, gas, to, value, data, access list, blob fee, blob hashes, y, r, s])
    type 2      0x02 | rlp([chain, nonce, tip, fee, gas, to, value, data, access list, y, r, s])

What is signed has no y, r, s; its keccak-256 is signed, that of the whole is the transaction's hash.  A node gets
type 3 with its blobs, in one of two forms:

    EIP-4844    0x03 | rlp([transaction, blobs, commitments, proofs])               one for each blob
    EIP-7594    0x03 | rlp([transaction, 1, blobs, commitments, cell proofs])       128 for each, blob after blob

The hash does not depend on the form.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from fastnode.errors import DecodeError
from fastnode.protocol import rlp
from fastnode.protocol.ethereum import keccak_256, recover_signer, with_recovery_byte
from fastnode.protocol.kzg import BLOB_BYTES, blob_commitment, versioned_hash
from fastnode.protocol.kzg_proofs import blob_proof, cell_proofs
from fastnode.records import dataclass
from fastnode.sources.l1.abi import hex_data, quantity

__all__ = ["BlobBundle", "SidecarForm", "SignedTransaction", "Transaction", "sidecar_form_of"]

_PLAIN: Final = 2
_WITH_BLOBS: Final = 3
_CELL_PROOFS: Final = 1
_NO_ACCESS_LIST: Final = ()
_SIGNATURE_BYTES: Final = 65
_PART_BYTES: Final = 32
_OLD_V: Final = 27
#: More than a transaction with all blobs and the proofs of their cells has.
_ITEMS_MAX: Final = 4096
_DEPTH_MAX: Final = 3

_MAINNET: Final = 1
_SEPOLIA: Final = 11155111
#: Since when blocks of mainnet have the newer form.
_MAINNET_CELLS_TIME: Final = 1764798551


class SidecarForm(enum.Enum):
    """Forms in which blobs go with their transaction."""

    EIP_4844 = "EIP-4844"
    EIP_7594 = "EIP-7594"

    @property
    def other(self) -> SidecarForm:
        return SidecarForm.EIP_7594 if self is SidecarForm.EIP_4844 else SidecarForm.EIP_4844


def sidecar_form_of(chain_id: int, timestamp: int) -> SidecarForm:
    """The form that nodes of a chain want at a time; one that wants the other says so, and then gets it."""
    if chain_id == _SEPOLIA or (chain_id == _MAINNET and timestamp >= _MAINNET_CELLS_TIME):
        return SidecarForm.EIP_7594
    return SidecarForm.EIP_4844


class BlobBundle:
    """The blobs of one transaction, each 131,072 bytes, with their commitments; proofs are made when they are asked
    for first.  Usable from any thread, but not from the event loop: a proof takes 0.1 s, those of cells 0.3 s a blob.
    """

    def __init__(self, blobs: Sequence[bytes], commitments: Sequence[bytes] | None = None) -> None:
        """Blobs may be shorter: zeros follow.  ``commitments`` are trusted; those not given are made."""
        self.blobs = tuple(blob.ljust(BLOB_BYTES, b"\0") for blob in blobs)
        self.commitments = tuple(map(blob_commitment, self.blobs) if commitments is None else commitments)
        if len(self.commitments) != len(self.blobs) or any(len(blob) != BLOB_BYTES for blob in self.blobs):
            raise ValueError(f"{len(self.commitments)} commitments to {len(self.blobs)} blobs of {BLOB_BYTES} bytes")
        self.versioned_hashes = tuple(map(versioned_hash, self.commitments))
        self._lock = threading.Lock()
        self._proofs: dict[SidecarForm, tuple[bytes, ...]] = {}

    def proofs(self, form: SidecarForm) -> tuple[bytes, ...]:
        with self._lock:
            if form not in self._proofs:
                self._proofs[form] = self._prove(form)
            return self._proofs[form]

    def _prove(self, form: SidecarForm) -> tuple[bytes, ...]:
        if form is SidecarForm.EIP_7594:
            return tuple(proof for blob in self.blobs for proof in cell_proofs(blob))
        return tuple(
            blob_proof(blob, commitment) for blob, commitment in zip(self.blobs, self.commitments, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Not signed yet.  Fees in wei, for a unit of gas; ``blob_fee_max`` None: a plain transaction, of type 2."""

    chain_id: int
    nonce: int
    tip_max: int
    fee_max: int
    gas: int
    to: bytes
    value: int = 0
    data: bytes = b""
    blob_fee_max: int | None = None
    versioned_hashes: tuple[bytes, ...] = ()

    @property
    def type(self) -> int:
        return _PLAIN if self.blob_fee_max is None else _WITH_BLOBS

    @property
    def fields(self) -> list[rlp.Value]:
        found: list[rlp.Value] = [self.chain_id, self.nonce, self.tip_max, self.fee_max, self.gas, self.to, self.value]
        found += [self.data, _NO_ACCESS_LIST]
        return found if self.blob_fee_max is None else [*found, self.blob_fee_max, self.versioned_hashes]

    def digest(self) -> bytes:
        """Digest to sign (32 bytes)."""
        return keccak_256(bytes([self.type]) + rlp.encode(self.fields))

    def sign(self, sign: Callable[[bytes], bytes]) -> SignedTransaction:
        """``sign`` gives the signature (r 32 | s 32 | v 1) of a digest."""
        return SignedTransaction(self, sign(self.digest()))

    def to_json(self, sender: str) -> dict[str, Any]:
        """As a remote signer (``eth_signTransaction``) and nodes (``eth_call``, ``eth_estimateGas``) know it."""
        record: dict[str, Any] = {
            "type": quantity(self.type),
            "from": sender,
            "to": hex_data(self.to),
            "chainId": quantity(self.chain_id),
            "nonce": quantity(self.nonce),
            "gas": quantity(self.gas),
            "value": quantity(self.value),
            "data": hex_data(self.data),
            "accessList": [],
            "maxFeePerGas": quantity(self.fee_max),
            "maxPriorityFeePerGas": quantity(self.tip_max),
        }
        if self.blob_fee_max is not None:
            record["maxFeePerBlobGas"] = quantity(self.blob_fee_max)
            record["blobVersionedHashes"] = [hex_data(item) for item in self.versioned_hashes]
        return record

    def signed_from(self, raw: bytes) -> SignedTransaction:
        """The transaction that a remote signer signed, with or without blobs; DecodeError for something else."""
        if raw[:1] != bytes([self.type]):
            raise DecodeError("a signed transaction of another type")
        try:
            content = rlp.decode(raw[1:], items_max=_ITEMS_MAX, depth_max=_DEPTH_MAX)
        except ValueError as error:
            raise DecodeError(f"no signed transaction: {error}") from None
        if isinstance(content, list) and content and isinstance(content[0], list):
            content = content[0]
        if not isinstance(content, list) or len(content) != len(self.fields) + 3:
            raise DecodeError("a signed transaction with another number of fields")
        if rlp.encode(content[:-3]) != rlp.encode(self.fields):
            raise DecodeError("another transaction was signed than the one asked for")
        signature = [part for part in content[-3:] if isinstance(part, bytes) and len(part) <= _PART_BYTES]
        if len(signature) != len(content[-3:]) or signature[0] not in (b"", b"\1"):
            raise DecodeError("a signed transaction without a signature")
        y, r, s = signature
        return SignedTransaction(
            self, r.rjust(_PART_BYTES, b"\0") + s.rjust(_PART_BYTES, b"\0") + bytes([_OLD_V + len(y)])
        )


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """``signature``: r 32 | s 32 | v 1, v being the parity of y, plain or plus 27."""

    transaction: Transaction
    signature: bytes

    def __post_init__(self) -> None:
        if len(self.signature) != _SIGNATURE_BYTES:
            raise ValueError(f"a signature has {_SIGNATURE_BYTES} bytes")

    @property
    def _fields(self) -> list[rlp.Value]:
        r, s, v = self.signature[:32], self.signature[32:64], self.signature[64]
        parity = v - _OLD_V if v >= _OLD_V else v
        return [*self.transaction.fields, parity, int.from_bytes(r, "big"), int.from_bytes(s, "big")]

    def hash(self) -> bytes:
        """By which nodes know the transaction (32 bytes)."""
        return keccak_256(self._without_blobs())

    def sender(self) -> bytes | None:
        """Address of the key that signed it; None for no key's signature."""
        return recover_signer(self.transaction.digest(), with_recovery_byte(self.signature))

    def _without_blobs(self) -> bytes:
        return bytes([self.transaction.type]) + rlp.encode(self._fields)

    def raw(self, bundle: BlobBundle | None = None, form: SidecarForm = SidecarForm.EIP_4844) -> bytes:
        """As a node takes it (``eth_sendRawTransaction``).  Makes proofs if that has not been done: not on the loop."""
        if self.transaction.blob_fee_max is None:
            return self._without_blobs()
        if bundle is None or bundle.versioned_hashes != self.transaction.versioned_hashes:
            raise ValueError("a transaction with other blobs")
        version: list[rlp.Value] = [_CELL_PROOFS] if form is SidecarForm.EIP_7594 else []
        body: list[rlp.Value] = [self._fields, *version, bundle.blobs, bundle.commitments, bundle.proofs(form)]
        return bytes([_WITH_BLOBS]) + rlp.encode(body)
