"""Attestations of a committee on checkpoints, as they are and as a proposer alone could bend them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from coincurve import PrivateKey
from tests.sources.l1.publishing import Sheet

from fastnode.protocol.ethereum import attested_digest, keccak_256


def address_of(key: PrivateKey) -> bytes:
    return keccak_256(key.public_key.format(compressed=False)[1:])[-20:]


def sign(
    sheet: Sheet, committee: Sequence[PrivateKey], signers: Iterable[int], bent: Callable[[bytes], bytes] | None = None
) -> None:
    """Attest with some members' keys; ``bent`` changes each signature (r 32 | s 32 | v 1)."""
    checkpoint = sheet.published.checkpoint
    digest = attested_digest(checkpoint.header, sheet.digest)
    bits, data = 0, b""
    for place, key in enumerate(committee):
        if place in signers:
            plain = key.sign_recoverable(digest, hasher=None)
            signature = plain[:64] + bytes([27 + plain[64]])
            if bent is not None:
                signature = bent(signature)
            bits |= 0x80 >> place
            data += signature[64:] + signature[:64]
        else:
            data += address_of(key)
    sheet.indices, sheet.signed = bytes([bits]), data
