"""Proposals of release 5.x on L1: the longer header, the digest of the event, who has attested."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from fastnode.errors import DecodeError
from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.ethereum import SigningDomain, payload_digest
from fastnode.publishing.propose import ProposeCall
from fastnode.sources.l1.attestation_check import refusal_of
from fastnode.sources.l1.proposals import (
    PROPOSE_SELECTOR,
    PROPOSE_WITH_FEES_SELECTOR,
    Proposal,
    ProposedCheckpoint,
    digest_of_call,
)
from fastnode.sources.l1.propose_calls import find_in_transaction

DOMAIN = SigningDomain(11155111, bytes(19) + b"\x64")
ARCHIVE = b"\0" * 31 + b"\7"


@pytest.fixture
def vectors(data_directory: Path) -> list[dict[str, Any]]:
    lines = gzip.decompress((data_directory / "release-5" / "types.jsonl.gz").read_bytes()).splitlines()
    return [vector for vector in map(json.loads, lines) if vector["kind"] == "checkpointAttestation"]


@pytest.fixture
def header(vectors: list[dict[str, Any]]) -> CheckpointHeader:
    return CheckpointHeader.from_buffer(bytes.fromhex(vectors[0]["checkpointHeader"][2:]))


def call_of(header: CheckpointHeader, archive: bytes = ARCHIVE, modifier: int = 0) -> bytes:
    call = ProposeCall(
        header=header,
        archive_root=archive,
        proposer_signature=bytes(65),
        commitments=(bytes(48),),
        fee_asset_price_modifier=modifier,
    )
    return call.call_data()


def test_the_selectors_are_those_of_the_contracts() -> None:
    assert (PROPOSE_SELECTOR.hex(), PROPOSE_WITH_FEES_SELECTOR.hex()) == ("85b98fd8", "72636df9")


@pytest.mark.parametrize("modifier", [0, -7, 10**30])
def test_a_call_is_read_back_with_its_digest(header: CheckpointHeader, modifier: int) -> None:
    data = call_of(header, modifier=modifier)
    assert data[:4] == PROPOSE_WITH_FEES_SELECTOR
    proposal = Proposal.from_call_data(data, DOMAIN)
    assert (proposal.header, proposal.archive_root) == (header, ARCHIVE)
    assert proposal.fee_asset_price_modifier == modifier
    expected = payload_digest(header, ARCHIVE, modifier, DOMAIN)
    assert proposal.payload_digest == proposal.attested_digest == digest_of_call(data, DOMAIN) == expected
    assert digest_of_call(data, DOMAIN._replace(chain_id=1)) != expected


def test_a_call_is_found_by_its_event_on_its_own_rollup_only(header: CheckpointHeader) -> None:
    data = call_of(header)
    proposal = Proposal.from_call_data(data, DOMAIN)
    event = ProposedCheckpoint(
        number=1,
        archive_root=ARCHIVE,
        versioned_hashes=(),
        payload_digest=proposal.payload_digest,
        attestations_hash=proposal.attestations_hash,
        block_number=1,
        block_hash=bytes(32),
        tx_hash="0x",
        log_index=0,
    )
    transaction = {"to": "0x" + DOMAIN.rollup.hex(), "input": "0x" + data.hex()}
    found = find_in_transaction(transaction, DOMAIN, event)
    assert found is not None
    assert found.header == header
    assert find_in_transaction(transaction, DOMAIN._replace(chain_id=1), event) is None
    assert find_in_transaction(transaction, DOMAIN._replace(rollup=b"\1" * 20), event) is None


def test_the_attestation_of_a_member_counts(vectors: list[dict[str, Any]]) -> None:
    for vector in vectors:
        header = CheckpointHeader.from_buffer(bytes.fromhex(vector["checkpointHeader"][2:]))
        signature, signer = bytes.fromhex(vector["signature"][2:]), bytes.fromhex(vector["signer"][2:])
        context = vector["context"]
        proposal = Proposal(
            archive_root=bytes.fromhex(vector["archive"][2:]),
            fee_asset_price_modifier=int(vector["feeAssetPriceModifier"]),
            header=header,
            signature_indices=b"\x80",
            signatures_or_addresses=bytes([27 + signature[64] % 27]) + signature[:64],
            domain=SigningDomain(context["chainId"], bytes.fromhex(context["rollupAddress"][2:])),
        )
        assert refusal_of(proposal, (signer,)) is None
        assert "the committee has" in (refusal_of(proposal, (b"\1" * 20,)) or "")


def test_damaged_calls_are_refused_or_read_otherwise(header: CheckpointHeader) -> None:
    data, rng = call_of(header), random.Random(5)
    digest = digest_of_call(data, DOMAIN)
    for _ in range(300):
        place, bit = rng.randrange(4, 4 + 21 * 32), 1 << rng.randrange(8)
        damaged = data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]
        try:
            found = Proposal.from_call_data(damaged, DOMAIN)
        except DecodeError:
            continue
        is_in_head = place < 4 + 15 * 32
        assert (found.payload_digest != digest) is is_in_head
    for length in range(4, 4 + 21 * 32, 31):
        with pytest.raises(DecodeError):
            Proposal.from_call_data(data[:length], DOMAIN)
