"""The committee of a checkpoint, and who of it signed.

A published checkpoint has one attestation per committee member, in the committee's order.  A member that signed is
known by its signature: its address is recovered, and the one that stands beside it does not count.  A member that did
not sign is known by its address.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import orjson

from fastnode.archiver.records import StoredCheckpoint
from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.ethereum import SigningDomain, attested_digest, payload_digest, recover_signer
from fastnode.protocol.header import AppendOnlyTreeSnapshot
from fastnode.records import dataclass

__all__ = ["Attestations", "join_committees", "quorum", "read_attestations"]

_NO_ADDRESS: Final = bytes(20)
_NO_SIGNATURE: Final = bytes(65)


@dataclass(frozen=True, slots=True)
class Attestations:
    """``members`` in the committee's order, None where a signature recovers to no address: then ``is_broken``."""

    members: tuple[bytes | None, ...]
    signers: frozenset[bytes]
    is_broken: bool = False


def read_attestations(checkpoint: StoredCheckpoint, domain: SigningDomain | None) -> Attestations:
    """From what is stored of a complete checkpoint; about 50 microseconds per signature.

    ``domain``: needed for a checkpoint of release 5.x, as for :func:`payload_digest`.
    """
    listed = checkpoint.attestations
    if not listed:
        return Attestations((), frozenset())
    header = CheckpointHeader.from_json(orjson.loads(checkpoint.header_json), "header")
    root = AppendOnlyTreeSnapshot.from_json(orjson.loads(checkpoint.archive_json), "archive").root
    digest = attested_digest(header, payload_digest(header, root, checkpoint.fee_asset_price_modifier, domain))
    members: list[bytes | None] = []
    signers = set()
    is_broken = False
    for attestation in listed:
        if attestation.signature == _NO_SIGNATURE:
            members.append(attestation.address if attestation.address != _NO_ADDRESS else None)
            continue
        signer = recover_signer(digest, attestation.signature)
        members.append(signer)
        if signer is None:
            is_broken = True
        else:
            signers.add(signer)
    return Attestations(tuple(members), frozenset(signers), is_broken)


def quorum(members: int) -> int:
    """More than two thirds, as the rollup counts them."""
    return members * 2 // 3 + 1


def join_committees(found: Iterable[Attestations]) -> tuple[bytes, ...]:
    """The committee that checkpoints of one epoch agree on; a member that none of them tells is left out."""
    members: list[bytes | None] = []
    for attestations in found:
        if len(attestations.members) > len(members):
            members += [None] * (len(attestations.members) - len(members))
        for position, member in enumerate(attestations.members):
            members[position] = members[position] or member
    return tuple(dict.fromkeys(member for member in members if member is not None))
