"""Signatures as L1 checks them: Keccak-256 and secp256k1 with recovery."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from fastnode.errors import DecodeError
from fastnode.protocol.checkpoint import CheckpointHeader

__all__ = [
    "SigningDomain",
    "attested_digest",
    "keccak_256",
    "payload_digest",
    "recover_signer",
    "signed_digest",
    "typed_digest",
    "with_recovery_byte",
]

_WORD_BYTES: Final = 32
_ADDRESS_BYTES: Final = 20
_SIGNATURE_BYTES: Final = 65
#: Mark of wallets in front of a signed 32-byte message, so that it cannot be a transaction.
_SIGNED_MESSAGE: Final = b"\x19Ethereum Signed Message:\n32"
#: First byte of messages that a committee signs: the attestation of a checkpoint.
_CHECKPOINT_ATTESTATION: Final = 1
#: EIP-712 domain of the rollup, from release 5.x on.
_DOMAIN_NAME: Final = b"Aztec Rollup"
_DOMAIN_VERSION: Final = b"1"
#: The last byte of a signature that a contract checks is the recovery id plus this.
_RECOVERY_BASE: Final = 27
_RECOVERY_IDS: Final = (0, 1)

#: Order of the curve; of two signatures s and n - s only the lower one is accepted on L1.
_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def keccak_256(data: bytes) -> bytes:
    # On demand, like coincurve below: a node that reads no signatures starts without them.
    from Crypto.Hash import keccak

    return bytes(keccak.new(digest_bits=256, data=data).digest())


class SigningDomain(NamedTuple):
    """The chain of L1 and the rollup contract on it (20 bytes) for which signatures of release 5.x hold (EIP-712)."""

    chain_id: int
    rollup: bytes


@lru_cache(maxsize=8)
def _domain_separator(domain: SigningDomain) -> bytes:
    kind = keccak_256(b"EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
    chain_id, rollup = domain.chain_id.to_bytes(_WORD_BYTES, "big"), domain.rollup.rjust(_WORD_BYTES, b"\0")
    return keccak_256(kind + keccak_256(_DOMAIN_NAME) + keccak_256(_DOMAIN_VERSION) + chain_id + rollup)


def typed_digest(kind: bytes, payload: bytes, domain: SigningDomain) -> bytes:
    """Digest (32 bytes) that a key signs for a message from release 5.x on (EIP-712).  ``kind``: its type."""
    content = keccak_256(keccak_256(kind + b"(bytes32 payloadHash)") + keccak_256(payload))
    return keccak_256(b"\x19\x01" + _domain_separator(domain) + content)


def payload_digest(
    header: CheckpointHeader, archive_root: bytes, fee_asset_price_modifier: int, domain: SigningDomain | None = None
) -> bytes:
    """L1's name for a proposed checkpoint (32 bytes): field ``payloadDigest`` of its event.

    ``domain``: needed for a header of release 5.x; DecodeError without it.
    """
    payload = archive_root + fee_asset_price_modifier.to_bytes(_WORD_BYTES, "big", signed=True) + header.hash()
    if header.accumulated_fees is None:
        return keccak_256(_CHECKPOINT_ATTESTATION.to_bytes(_WORD_BYTES, "big") + payload)
    if domain is None:
        raise DecodeError("a checkpoint header that counts fees is signed for a chain and a rollup")
    return typed_digest(b"CheckpointAttestation", payload, domain)


def attested_digest(header: CheckpointHeader, payload: bytes) -> bytes:
    """Digest that a member of the committee signs for a checkpoint whose payload digest is ``payload``."""
    return signed_digest(payload) if header.accumulated_fees is None else payload


def signed_digest(message: bytes) -> bytes:
    """Digest that a key signs for a message of 32 bytes."""
    return keccak_256(_SIGNED_MESSAGE + message)


def with_recovery_byte(signature: bytes) -> bytes:
    """A signature as contracts check it (v 27 or 28), from one that may have the plain recovery id (v 0 or 1)."""
    plain = signature[64:] in (b"\0", b"\1")
    return signature[:64] + bytes([_RECOVERY_BASE + signature[64]]) if plain else signature


def recover_signer(digest: bytes, signature: bytes) -> bytes | None:
    """The address (20 bytes) whose key made ``signature`` (r 32 | s 32 | v 1, v being 27 or 28); None if no key did.

    Transactions have the plain recovery id: see :func:`with_recovery_byte`.
    """
    if len(signature) != _SIGNATURE_BYTES or signature[64] - _RECOVERY_BASE not in _RECOVERY_IDS:
        return None
    if int.from_bytes(signature[32:64], "big") > _ORDER // 2:
        return None
    from coincurve import PublicKey

    try:
        key = PublicKey.from_signature_and_message(
            signature[:64] + bytes([signature[64] - _RECOVERY_BASE]), digest, hasher=None
        )
    except Exception:  # noqa: BLE001 - the library raises plain Exception for a point that is not on the curve
        return None
    return keccak_256(key.format(compressed=False)[1:])[-_ADDRESS_BYTES:]
