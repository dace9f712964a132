"""Recorded proposals of L1: with and without a committee, of the reference node and of others."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastnode.protocol.ethereum import keccak_256
from fastnode.publishing.envelope import SignedTransaction, Transaction
from fastnode.publishing.propose import Attestations, ProposeCall
from fastnode.sources.l1.proposals import Proposal, read_bytes_at, word_at
from fastnode.sources.l1.propose_calls import MULTICALL3

DATA = Path(__file__).parents[1] / "data" / "publishing"
RECORDED = ("recorded_propose", "committee_propose", "python_published")


def rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def data_of(text: str) -> bytes:
    return bytes.fromhex(text[2:])


def transaction_of(record: dict[str, Any]) -> SignedTransaction:
    """A transaction of JSON-RPC."""

    def number(key: str) -> int:
        return int(record[key], 16)

    transaction = Transaction(
        chain_id=number("chainId"),
        nonce=number("nonce"),
        tip_max=number("maxPriorityFeePerGas"),
        fee_max=number("maxFeePerGas"),
        gas=number("gas"),
        to=data_of(record["to"]),
        value=number("value"),
        data=data_of(record["input"]),
        blob_fee_max=number("maxFeePerBlobGas"),
        versioned_hashes=tuple(map(data_of, record["blobVersionedHashes"])),
    )
    r, s = (number(key).to_bytes(32, "big") for key in "rs")
    return SignedTransaction(transaction, r + s + bytes([number("yParity")]))


@dataclass(frozen=True)
class Published:
    """The parts of a recorded proposal."""

    name: str
    row: dict[str, Any]
    target: bytes
    call_data: bytes
    call: ProposeCall

    @property
    def committee(self) -> list[bytes]:
        members = self.row.get("committee")
        return list(map(data_of, members)) if isinstance(members, list) else []


def _call_of(data: bytes) -> ProposeCall:
    arguments = data[4:]
    proposal = Proposal.from_call_data(data)
    signers = word_at(arguments, 15 * 32)
    count = word_at(arguments, signers)
    blob_input = read_bytes_at(arguments, 0, 19)
    return ProposeCall(
        header=proposal.header,
        archive_root=proposal.archive_root,
        fee_asset_price_modifier=proposal.fee_asset_price_modifier,
        attestations=Attestations(proposal.signature_indices, proposal.signatures_or_addresses),
        signers=tuple(arguments[signers + 44 + 32 * place : signers + 64 + 32 * place] for place in range(count)),
        proposer_signature=arguments[17 * 32 : 19 * 32] + bytes([word_at(arguments, 16 * 32)]),
        commitments=tuple(blob_input[at : at + 48] for at in range(1, len(blob_input), 48)),
    )


def in_multicall(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Target, whether it may fail, call data."""
    assert data[:4] == keccak_256(b"aggregate3((address,bool,bytes)[])")[:4]
    arguments = data[4:]
    for place in range(word_at(arguments, 32)):
        at = 64 + word_at(arguments, 64 + 32 * place)
        yield arguments[at + 12 : at + 32], word_at(arguments, at + 32), read_bytes_at(arguments, at, 2)


def published() -> list[Published]:
    """All of them."""
    found = []
    for name in RECORDED:
        for row in rows(name):
            assert data_of(row["tx"]["to"]) == MULTICALL3
            for target, may_fail, data in in_multicall(data_of(row["tx"]["input"])):
                assert may_fail == 1
                found.append(Published(name, row, target, data, _call_of(data)))
    return found
