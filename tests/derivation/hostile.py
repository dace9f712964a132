"""What a proposer can do to a checkpoint that L1 takes all the same, or does not take."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from coincurve import PrivateKey
from tests.publishing.live_l1 import address_of, test_key

from fastnode.protocol.ethereum import SigningDomain, signed_digest, typed_digest
from fastnode.protocol.fields import FIELD_BYTES, MODULUS
from fastnode.protocol.header import GasFees
from fastnode.protocol.kzg import BLOB_BYTES
from fastnode.publishing import digests
from fastnode.publishing.encoding import addresses, arguments
from fastnode.publishing.propose import Attestations, ProposeCall

GOOD, BAD, UNSURE = "good", "bad", "unsure"
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SECRETS = {address_of(test_key(index)): PrivateKey(test_key(index).reveal()) for index in range(8)}
STRANGER = address_of(test_key(6))


def signature(member: bytes, digest: bytes) -> bytes:
    """r 32 | s 32 | v 1."""
    signed = SECRETS[member].sign_recoverable(digest, hasher=None)
    return signed[:64] + bytes([27 + signed[64]])


# ---- attestations -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Attested:
    """``bad``: the place in the committee of what is wrong, None where it is only too few, or nothing."""

    attestations: Attestations
    signers: tuple[bytes, ...]
    verdict: str
    bad: int | None = None


def _high_s(_: random.Random, signed: bytes) -> bytes:
    s = ORDER - int.from_bytes(signed[32:64], "big")
    return signed[:32] + s.to_bytes(32, "big") + bytes([55 - signed[64]])


#: How a signature of a member is bent, and what becomes of the checkpoint.
BENT: Mapping[str, tuple[str, Callable[[random.Random, bytes], bytes]]] = {
    "v0": (BAD, lambda _, signed: signed[:64] + bytes([signed[64] - 27])),
    "v other": (BAD, lambda rng, signed: signed[:64] + bytes([rng.choice([2, 3, 26, 29, 30, 31, 35, 36, 37, 255])])),
    "v swapped": (BAD, lambda _, signed: signed[:64] + bytes([55 - signed[64]])),
    "high s": (BAD, _high_s),
    "r zero": (BAD, lambda _, signed: bytes(32) + signed[32:]),
    "s zero": (BAD, lambda _, signed: signed[:32] + bytes(32) + signed[64:]),
    "all zero": (BAD, lambda _, signed: bytes(65)),
    "garbage": (BAD, lambda rng, signed: rng.randbytes(64) + signed[64:]),
}
#: What is done to the two byte strings behind the signatures.
PACKED: Mapping[str, tuple[str, Callable[[Attestations], Attestations]]] = {
    "extra bits": (
        GOOD,
        lambda item: _packed(item, item.signature_indices[:-1] + bytes([item.signature_indices[-1] | 5])),
    ),
    "extra byte": (UNSURE, lambda item: _packed(item, item.signature_indices + b"\xff")),
    "short": (UNSURE, lambda item: _packed(item, data=item.signatures_or_addresses[:-1])),
    "long": (UNSURE, lambda item: _packed(item, data=item.signatures_or_addresses + bytes(65))),
    "shuffled": (UNSURE, lambda item: _packed(item, bytes([item.signature_indices[0] >> 1 & 0xF0 | 0x10]))),
}
ATTESTATIONS = ("quorum", "all", "one", "two", "stranger", *BENT, *PACKED)


def _packed(item: Attestations, indices: bytes | None = None, data: bytes | None = None) -> Attestations:
    return Attestations(
        item.signature_indices if indices is None else indices, item.signatures_or_addresses if data is None else data
    )


def signers_digest(attested: Attested, domain: SigningDomain | None) -> bytes:
    """Digest that the proposer signs for attestations and who made them; with a ``domain`` as release 5.x has it."""
    if domain is None:
        return signed_digest(digests.attestations_and_signers(attested.attestations, attested.signers))
    payload = arguments((attested.attestations.encode(),), (addresses(attested.signers),))
    return typed_digest(b"AttestationsAndSigners", payload, domain)


def attest(kind: str, committee: Sequence[bytes], proposer: bytes, digest: bytes, rng: random.Random) -> Attested:
    others = [member for member in committee if member != proposer]
    rng.shuffle(others)
    count = {"one": 1, "two": 2, "all": len(committee)}.get(kind, 3)
    signed = {member: signature(member, digest) for member in [proposer, *others][:count]}
    victim = rng.choice([member for member in others if member in signed] or [proposer])
    verdict, bad = BAD if count < 3 else GOOD, None
    if kind == "stranger":
        signed[victim] = signature(STRANGER, digest)
        verdict, bad = BAD, committee.index(victim)
    elif kind in BENT:
        verdict, bend = BENT[kind]
        signed[victim], bad = bend(rng, signed[victim]), committee.index(victim)
    attestations = Attestations.of(committee, signed)
    if kind in PACKED:
        verdict, pack = PACKED[kind]
        attestations = pack(attestations)
    return Attested(attestations, tuple(member for member in committee if member in signed), verdict, bad)


# ---- headers ----------------------------------------------------------------------------------

#: Changes of a finished header; L1 refuses those of REFUSED.
HEADERS: Mapping[str, Callable[[random.Random, Any], Any]] = {
    "headers hash": lambda rng, header: replace(header, block_headers_hash=field(rng)),
    "out hash": lambda rng, header: replace(header, epoch_out_hash=field(rng)),
    "coinbase": lambda rng, header: replace(header, coinbase=rng.randbytes(20)),
    "fee recipient": lambda rng, header: replace(header, fee_recipient=field(rng)),
    "mana": lambda rng, header: replace(header, total_mana_used=header.total_mana_used + rng.randrange(1, 1000)),
}
REFUSED: Mapping[str, Callable[[random.Random, Any], Any]] = {
    "slot": lambda rng, header: replace(header, slot_number=header.slot_number + rng.choice([-1, 1])),
    "timestamp": lambda rng, header: replace(header, timestamp=header.timestamp + rng.choice([-1, 1, 36])),
    "fee": lambda rng, header: replace(
        header, gas_fees=GasFees(0, header.gas_fees.fee_per_l2_gas + rng.choice([-1, 1]))
    ),
    "da fee": lambda rng, header: replace(header, gas_fees=GasFees(1, header.gas_fees.fee_per_l2_gas)),
    "in hash": lambda rng, header: replace(header, in_hash=field(rng)),
    "last archive": lambda rng, header: replace(header, last_archive_root=field(rng)),
    "no coinbase": lambda rng, header: replace(header, coinbase=bytes(20)),
    "mana limit": lambda rng, header: replace(header, total_mana_used=2**40),
    "blobs hash": lambda rng, header: replace(header, blobs_hash=field(rng)),
}


def field(rng: random.Random) -> bytes:
    return rng.randrange(MODULUS).to_bytes(FIELD_BYTES, "big")


# ---- blobs ------------------------------------------------------------------------------------


def _flip(rng: random.Random, fields: list[bytes]) -> list[bytes]:
    at = rng.randrange(len(fields))
    return [*fields[:at], field(rng), *fields[at + 1 :]]


def _bump(rng: random.Random, fields: list[bytes]) -> list[bytes]:
    """A number in a marker, or a byte of a hash."""
    at = rng.randrange(len(fields))
    value = bytearray(fields[at])
    place = rng.randrange(1, FIELD_BYTES)
    value[place] = (value[place] + rng.choice([1, 2, 255])) % 256
    return [*fields[:at], bytes(value), *fields[at + 1 :]]


def _swap(rng: random.Random, fields: list[bytes]) -> list[bytes]:
    one, other = rng.randrange(len(fields)), rng.randrange(len(fields))
    changed = list(fields)
    changed[one], changed[other] = fields[other], fields[one]
    return changed


def _marker(rng: random.Random, fields: list[bytes]) -> list[bytes]:
    """One 16 bits' part of the first transaction's start marker."""
    value = int.from_bytes(fields[0], "big")
    shift = rng.choice([0, 32, 40, 56, 88, 104, 120, 136, 152, 168])
    return [((value + rng.choice([1, -1, 3]) * (1 << shift)) % (1 << 240)).to_bytes(FIELD_BYTES, "big"), *fields[1:]]


BLOBS: Mapping[str, tuple[str, Callable[[random.Random, list[bytes]], list[bytes]]]] = {
    "noise": (BAD, lambda rng, fields: [field(rng) for _ in fields]),
    "cut": (BAD, lambda rng, fields: fields[: rng.randrange(len(fields))] or [bytes(FIELD_BYTES)]),
    "longer": (UNSURE, lambda rng, fields: [*fields, *(field(rng) for _ in range(rng.randrange(1, 4)))]),
    "zeros between": (UNSURE, lambda rng, fields: [*fields, bytes(FIELD_BYTES), field(rng)]),
    "flip": (UNSURE, _flip),
    "bump": (UNSURE, _bump),
    "swap": (UNSURE, _swap),
    "marker": (UNSURE, _marker),
    "one field less": (UNSURE, lambda rng, fields: fields[:-1]),
    "twice": (UNSURE, lambda rng, fields: fields + fields),
}


def cut_into_blobs(fields: Sequence[bytes]) -> list[bytes]:
    data = b"".join(fields)
    return [data[at : at + BLOB_BYTES].ljust(BLOB_BYTES, b"\0") for at in range(0, len(data), BLOB_BYTES)]


class AnyCall(ProposeCall):
    """Also one that no proposer of ours makes."""

    def __post_init__(self) -> None:
        """Nothing is held against a limit."""
