"""Votes that a proposer signs and sends, against the published node's own encoders."""

from __future__ import annotations

import json
from pathlib import Path

from fastnode.publishing import votes

#: Made with viem and the published contracts' interfaces.
VECTORS = json.loads((Path(__file__).parents[1] / "data" / "votes" / "calls.json").read_text())
A, B, C, D, E, F = (bytes([number]) * 20 for number in range(1, 7))
SIGNATURE = b"\x11" * 32 + b"\x22" * 32 + b"\x1b"
VOTES = bytes.fromhex("391100")


def text(data: bytes) -> str:
    return "0x" + data.hex()


def test_what_is_signed_is_typed_data_of_its_contract() -> None:
    assert text(votes.signal(B, 77, C, A, 31337).digest) == VECTORS["signal"]
    assert text(votes.vote(VOTES, 77, A, 31337).digest) == VECTORS["vote"]
    assert votes.signal(B, 78, C, A, 31337).digest != votes.signal(B, 77, C, A, 31337).digest


def test_a_remote_signer_gets_the_same_as_json() -> None:
    document = votes.vote(VOTES, 77, A, 31337).to_json()
    assert document["primaryType"] == "Vote"
    assert document["types"]["Vote"] == [{"name": "votes", "type": "bytes"}, {"name": "slot", "type": "uint256"}]
    assert document["message"] == {"votes": "0x391100", "slot": "77"}
    assert document["domain"] == {
        "name": "TallySlashingProposer",
        "version": "1",
        "chainId": 31337,
        "verifyingContract": text(A),
    }


def test_calls_are_those_of_the_published_interfaces() -> None:
    assert text(votes.signal_call(B, SIGNATURE)) == VECTORS["signalCall"]
    assert text(votes.vote_call(VOTES, SIGNATURE)) == VECTORS["voteCall"]
    assert text(votes.execute_round(9, [[D, E], [], [F]])) == VECTORS["execute"]
