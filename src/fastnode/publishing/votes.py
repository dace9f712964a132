"""Votes of a proposer on L1: what it signs, and the calls.

what is signed     keccak-256 of 0x1901 | domain 32 | content 32, without Ethereum's mark of a message (EIP-712)
domain             type | name | version | chain id | contract       names and versions by their hashes
signal             type | payload | slot | instance                  for a payload, of governance or of slashing
vote               type | hash of the votes | slot                   for places of committees
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fastnode.protocol.ethereum import keccak_256
from fastnode.publishing.encoding import address_word, addresses, arguments, byte_string, selector, word, words
from fastnode.records import dataclass
from fastnode.sources.l1.abi import WORD_BYTES, hex_data

__all__ = [
    "PAYLOAD_CREATED",
    "PAYLOAD_SUBMITTABLE",
    "PAYLOAD_SUBMITTED",
    "ROUND_EXECUTED",
    "SIGNAL_CAST",
    "VOTE_CAST",
    "TypedData",
    "arrays",
    "create_payload",
    "execute_round",
    "signal",
    "signal_call",
    "slash_arguments",
    "submit_winner",
    "vote",
    "vote_call",
]

_SIGNAL: Final = selector("signalWithSig(address,(uint8,bytes32,bytes32))")
_VOTE: Final = selector("vote(bytes,(uint8,bytes32,bytes32))")
_EXECUTE: Final = selector("executeRound(uint256,address[][])")
_CREATE: Final = selector("createSlashPayload(address[],uint96[],uint128[][])")
_SUBMIT: Final = selector("submitRoundWinner(uint256)")

#: First topics of what proves that a call has done it.
SIGNAL_CAST: Final = hex_data(keccak_256(b"SignalCast(address,uint256,address)"))
VOTE_CAST: Final = hex_data(keccak_256(b"VoteCast(uint256,uint256,address)"))
ROUND_EXECUTED: Final = hex_data(keccak_256(b"RoundExecuted(uint256,uint256)"))
PAYLOAD_SUBMITTED: Final = hex_data(keccak_256(b"PayloadSubmitted(address,uint256)"))
PAYLOAD_SUBMITTABLE: Final = hex_data(keccak_256(b"PayloadSubmittable(address,uint256)"))
PAYLOAD_CREATED: Final = hex_data(keccak_256(b"SlashPayloadCreated(address,address[],uint96[],uint128[][])"))

_DOMAIN: Final = (("name", "string"), ("version", "string"), ("chainId", "uint256"), ("verifyingContract", "address"))
_VERSION: Final = "1"

#: Name, type and value of a member.
Member = tuple[str, str, int | bytes]


@dataclass(frozen=True, slots=True)
class TypedData:
    """``kind`` of a contract's ``name``, with its members; bytes are addresses where their type says so."""

    name: str
    kind: str
    members: tuple[Member, ...]
    contract: bytes
    chain_id: int

    @property
    def digest(self) -> bytes:
        types = ",".join(f"{kind} {name}" for name, kind in _DOMAIN)
        domain = keccak_256(
            keccak_256(f"EIP712Domain({types})".encode())
            + keccak_256(self.name.encode())
            + keccak_256(_VERSION.encode())
            + word(self.chain_id)
            + address_word(self.contract)
        )
        types = ",".join(f"{kind} {name}" for name, kind, _ in self.members)
        content = keccak_256(f"{self.kind}({types})".encode()) + b"".join(map(_word_of, self.members))
        return keccak_256(b"\x19\x01" + domain + keccak_256(content))

    def to_json(self) -> Mapping[str, Any]:
        """As ``eth_signTypedData_v4`` takes it."""
        return {
            "types": {
                "EIP712Domain": [{"name": name, "type": kind} for name, kind in _DOMAIN],
                self.kind: [{"name": name, "type": kind} for name, kind, _ in self.members],
            },
            "primaryType": self.kind,
            "domain": {
                "name": self.name,
                "version": _VERSION,
                "chainId": self.chain_id,
                "verifyingContract": hex_data(self.contract),
            },
            "message": {
                name: hex_data(value) if isinstance(value, bytes) else str(value) for name, _, value in self.members
            },
        }


def _word_of(member: Member) -> bytes:
    _, kind, value = member
    if isinstance(value, int):
        return word(value)
    return keccak_256(value) if kind == "bytes" else address_word(value)


def signal(payload: bytes, slot: int, instance: bytes, contract: bytes, chain_id: int) -> TypedData:
    """``instance``: the rollup whose proposers are counted."""
    members = (("payload", "address", payload), ("slot", "uint256", slot), ("instance", "address", instance))
    return TypedData("EmpireBase", "Signal", members, contract, chain_id)


def vote(votes: bytes, slot: int, contract: bytes, chain_id: int) -> TypedData:
    members: tuple[Member, ...] = (("votes", "bytes", votes), ("slot", "uint256", slot))
    return TypedData("TallySlashingProposer", "Vote", members, contract, chain_id)


# ---- calls ----------------------------------------------------------------------------------------


def signal_call(payload: bytes, signature: bytes) -> bytes:
    """``signature``: r 32 | s 32 | v 1."""
    return _SIGNAL + address_word(payload) + _signature_words(signature)


def vote_call(votes: bytes, signature: bytes) -> bytes:
    return _VOTE + arguments((byte_string(votes),), _signature_words(signature))


def execute_round(number: int, committees: Sequence[Sequence[bytes]]) -> bytes:
    return _EXECUTE + arguments(word(number), (arrays(addresses(committee) for committee in committees),))


def slash_arguments(validators: Sequence[bytes], amounts: Sequence[int], offenses: Iterable[Sequence[int]]) -> bytes:
    """Arguments of a payload of slashing; ``offenses`` of each validator, packed."""
    return arguments((addresses(validators),), (words(amounts),), (arrays(map(words, offenses)),))


def create_payload(slashes: bytes) -> bytes:
    """Call that makes a payload.  ``slashes``: of :func:`slash_arguments`."""
    return _CREATE + slashes


def submit_winner(number: int) -> bytes:
    return _SUBMIT + word(number)


def arrays(items: Iterable[bytes]) -> bytes:
    """``T[][]``: count, where each begins, and each."""
    parts = list(items)
    places, at = [], WORD_BYTES * len(parts)
    for part in parts:
        places.append(word(at))
        at += len(part)
    return word(len(parts)) + b"".join(places) + b"".join(parts)


def _signature_words(signature: bytes) -> bytes:
    return word(signature[64]) + signature[:64]
