"""Every error of the rollup that a proposer or a prover can meet, from the contracts themselves, as one clear line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.publishing.live_l1 import ROLLUP, LiveL1, live_l1, needs_anvil
from tests.publishing.recorded import rows

from fastnode.errors import CallReverted, UpstreamRejection
from fastnode.protocol.header import GasFees
from fastnode.publishing import digests
from fastnode.publishing.envelope import BlobBundle
from fastnode.publishing.multicall import Call
from fastnode.publishing.propose import Attestations, EpochProof, InvalidateCall, ProposeCall, trim_to_quorum
from fastnode.publishing.reverts import reverted
from fastnode.publishing.simulation import Simulated
from fastnode.sources.l1 import contracts

BUNDLE = BlobBundle([b"\0" * 31 + b"\7"])


def test_every_recorded_error_is_told_in_words() -> None:
    """Also where there is no anvil: the data that contracts gave."""
    recorded = rows("reverts")
    assert len(recorded) == 23
    for row in recorded:
        error = reverted(bytes.fromhex(row["error"][2:]), "checkpoint 1")
        assert error.name == row["signature"].partition("(")[0], row
        assert str(error).startswith("checkpoint 1 was refused: ")
        assert "\n" not in str(error)


def test_an_unknown_error_and_none_at_all_are_lines_too() -> None:
    assert str(reverted(b"", "it")) == "it was refused without a reason"
    assert str(reverted(b"\1\2\3\4" + bytes(32), "it")) == (
        f"it was refused with an error that is not known here (01020304 0x{'00' * 32})"
    )
    text = (
        bytes.fromhex("08c379a0") + (32).to_bytes(32, "big") + (9).to_bytes(32, "big") + b"too\nlate!".ljust(32, b"\0")
    )
    assert str(reverted(text, "it")) == "it was refused: too late!"
    quoted = UpstreamRejection(3, "execution reverted: \x08\xc3y\xa0\0\0\0 \0\ttoo\0late\0\0")
    assert str(quoted) == "execution reverted: Ãy too late (code 3)"
    panic = bytes.fromhex("4e487b71") + (17).to_bytes(32, "big")
    assert str(reverted(panic, "it")) == "it was refused: the contract panicked with code 0x11"


class Committee:
    """A checkpoint of the next slot with a committee of 4; tests spoil one part of it."""

    def __init__(self, l1: LiveL1) -> None:
        self.l1 = l1
        self.slot = l1.next_slot
        self.time = l1.start_of(self.slot)
        self.members: tuple[bytes, ...] = l1.read(contracts.COMMITTEE_AT, self.time)
        self.proposer: bytes = l1.read(contracts.PROPOSER_AT, self.time)
        self.header = l1.header(self.slot, BUNDLE)
        digest = digests.attestation(self.header, self.slot.to_bytes(32, "big"))
        signatures = {member: l1.door.sign_message(member, digest) for member in self.members}
        self.signatures = trim_to_quorum(self.members, signatures, self.proposer)

    def call(self, **changes: Any) -> ProposeCall:
        signatures = changes.pop("signatures", self.signatures)
        attestations = changes.pop("attestations", None) or Attestations.of(self.members, signatures)
        signers = changes.pop("signers", tuple(member for member in self.members if member in signatures))
        key = changes.pop("key", self.proposer)
        digest = digests.attestations_and_signers(attestations, signers)
        return self.l1.propose(
            self.slot,
            BUNDLE,
            self.header,
            attestations=attestations,
            signers=signers,
            proposer_signature=self.l1.door.sign_message(key, digest),
            **changes,
        )

    def simulate(self, **changes: Any) -> Simulated:
        call = Call(ROLLUP, self.call(**changes).call_data())
        return self.l1.publishers.simulator.simulate(call, self.l1.publisher, self.time, what="it")


@pytest.fixture
def committee(tmp_path: Path) -> Iterator[Committee]:
    with live_l1("committee_of_4", tmp_path / "kept") as l1:
        yield Committee(l1)


def refusal(l1: LiveL1, call: ProposeCall | bytes, timestamp: int) -> CallReverted:
    data = call if isinstance(call, bytes) else call.call_data()
    with pytest.raises(CallReverted) as caught:
        l1.publishers.simulator.simulate(Call(ROLLUP, data), l1.publisher, timestamp, what="it")
    assert str(caught.value).startswith("it was refused: ")
    assert "\n" not in str(caught.value)
    return caught.value


@needs_anvil
def test_what_is_wrong_with_a_checkpoint_is_named(l1: LiveL1) -> None:
    slot = l1.next_slot
    good, time = l1.header(slot, BUNDLE), l1.start_of(slot)
    assert l1.publishers.simulator.simulate(
        Call(ROLLUP, l1.propose(slot, BUNDLE, good).call_data()), l1.publisher, time
    ).gas_used
    fee = good.gas_fees.fee_per_l2_gas
    wrong = b"\0" * 31 + b"\5"
    cases: list[tuple[str, dict[str, Any], int]] = [
        ("Rollup__InvalidArchive", {"last_archive_root": wrong}, time),
        ("HeaderLib__InvalidSlotNumber", {}, l1.start_of(slot + 1)),
        ("Rollup__SlotAlreadyInChain", {"slot_number": 0}, time),
        ("HeaderLib__InvalidSlotNumber", {"slot_number": slot + 1}, time),
        ("Rollup__InvalidTimestamp", {"timestamp": time + 1}, time),
        ("Rollup__InvalidInHash", {"in_hash": wrong}, time),
        ("Rollup__UnavailableTxs", {"blobs_hash": wrong}, time),
        ("Rollup__InvalidManaMinFee", {"gas_fees": GasFees(0, fee + 1)}, time),
        ("Rollup__InvalidManaMinFee", {"gas_fees": GasFees(0, fee - 1)}, time),
        ("Rollup__NonZeroDaFee", {"gas_fees": GasFees(1, fee)}, time),
        ("Rollup__InvalidCoinbase", {"coinbase": bytes(20)}, time),
        ("Rollup__ManaLimitExceeded", {"total_mana_used": 200_000_001}, time),
    ]
    for name, changes, at in cases:
        error = refusal(l1, l1.propose(slot, BUNDLE, replace(good, **changes)), at)
        assert error.name == name, error
    for modifier in (101, -101):
        call = l1.propose(slot, BUNDLE, good, fee_asset_price_modifier=modifier)
        assert refusal(l1, call, time).name == "FeeLib__InvalidFeeAssetPriceModifier"
    # No class of ours makes a call without blobs: the count is changed in the bytes.
    data = l1.propose(slot, BUNDLE, good).call_data()
    at = data.rindex(b"\1" + BUNDLE.commitments[0])
    assert refusal(l1, data[:at] + b"\0" + data[at + 1 :], time).name == "Rollup__NoBlobsInCheckpoint"


@needs_anvil
def test_a_blob_that_is_not_in_the_transaction_is_named(l1: LiveL1) -> None:
    """Without the switch that simulations turn off."""
    slot = l1.next_slot
    call = l1.propose(slot, BUNDLE)
    question = {"from": "0x" + l1.publisher.hex(), "to": "0x" + ROLLUP.hex(), "data": "0x" + call.call_data().hex()}
    answer = l1.anvil.ask("eth_call", question, "latest")
    error = reverted(bytes.fromhex(answer["error"]["data"][2:]), "it")
    assert error.name == "Rollup__InvalidBlobHash"


@needs_anvil
def test_what_is_wrong_with_attestations_is_named(committee: Committee) -> None:
    assert committee.simulate().gas_used
    members, signatures, proposer = committee.members, committee.signatures, committee.proposer
    other = next(member for member in signatures if member != proposer)
    good = Attestations.of(members, signatures)
    swapped = signatures | {proposer: signatures[other]}
    signers = tuple(member for member in members if member in signatures)
    cases: list[tuple[str, dict[str, Any]]] = [
        (
            "ValidatorSelection__MissingProposerSignature",
            {"signatures": {key: value for key, value in signatures.items() if key != proposer}},
        ),
        ("SignatureLib__InvalidSignature", {"signatures": swapped}),
        ("SignatureLib__InvalidSignature", {"key": other}),
        (
            "ValidatorSelection__InvalidCommitteeCommitment",
            {"signers": tuple(member if member == proposer else b"\7" * 20 for member in signers)},
        ),
        (
            "AttestationLib__SignatureIndicesSizeMismatch",
            {"attestations": replace(good, signature_indices=good.signature_indices + b"\0")},
        ),
        (
            "AttestationLib__SignaturesOrAddressesSizeMismatch",
            {"attestations": replace(good, signatures_or_addresses=good.signatures_or_addresses + b"\0")},
        ),
        ("AttestationLib__SignersSizeMismatch", {"signers": (*signers, members[0])}),
        ("AttestationLib__SignatureIndicesSizeMismatch", {"attestations": Attestations(b"", b""), "signers": ()}),
    ]
    for name, changes in cases:
        with pytest.raises(CallReverted) as caught:
            committee.simulate(**changes)
        assert caught.value.name == name, caught.value


@needs_anvil
def test_a_checkpoint_with_too_few_attestations_is_taken_back(committee: Committee) -> None:
    """L1 takes it with the proposer's alone; the next proposer invalidates it and proposes in one transaction."""
    l1 = committee.l1
    alone = committee.call(signatures={committee.proposer: committee.signatures[committee.proposer]})
    future = l1.start_publishing(l1.request(committee.slot, BUNDLE, alone))
    l1.anvil.mine(committee.time)
    assert future.result(300).is_published
    assert l1.tip() == 1

    invalidate = InvalidateCall(number=1, attestations=alone.attestations, committee=committee.members)
    wrong = replace(invalidate, attestations=committee.call().attestations)
    after = l1.anvil.timestamp + 4
    assert refusal(l1, wrong.call_data(), after).name == "Rollup__InvalidAttestations"
    assert refusal(l1, replace(invalidate, number=2).call_data(), after).name == "Rollup__CheckpointNotInPendingChain"
    bad = replace(invalidate, bad=committee.members.index(committee.proposer))
    assert refusal(l1, bad.call_data(), after).name == "Rollup__AttestationsAreValid"

    following = Committee(l1)
    following.header = replace(following.header, last_archive_root=l1.read(contracts.ARCHIVE_AT, 0))
    digest = digests.attestation(following.header, following.slot.to_bytes(32, "big"))
    following.signatures = {member: l1.door.sign_message(member, digest) for member in following.signatures}
    call = following.call()
    simulated = l1.publishers.simulator.simulate(
        Call(ROLLUP, call.call_data()), l1.publisher, following.time, forced_pending=(0, 0)
    )
    from fastnode.publishing.fees import gas_limit
    from fastnode.publishing.requests import Request, Success
    from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED

    request = Request(
        what="both",
        calls=(Call(ROLLUP, invalidate.call_data(), gas=500_000), Call(ROLLUP, call.call_data())),
        success=Success(ROLLUP, (CHECKPOINT_PROPOSED, None, "0x" + call.archive_root.hex())),
        gas=gas_limit(simulated.gas_used, blobs=60_000, others=500_000),
        bundle=BUNDLE,
    )
    future = l1.start_publishing(request)
    l1.anvil.mine(following.time)
    assert future.result(300).is_published
    assert l1.tip() == 1
    assert l1.read(contracts.ARCHIVE_AT, 1) == call.archive_root


# ---- proofs ---------------------------------------------------------------------------------------

_INFINITY = b"\xc0" + bytes(47)
_ZERO_OPENING = (
    bytes.fromhex("010657f37554c781402a22917dee2f75def7ab966d7b770905398eba3c444014") + bytes(64) + 2 * _INFINITY
)


@needs_anvil
def test_a_proof_is_taken_and_what_is_wrong_with_one_is_named(l1: LiveL1) -> None:
    from fastnode.protocol.ethereum import keccak_256
    from fastnode.publishing.requests import Request, Success

    genesis = l1.read(contracts.ARCHIVE_AT, 0)
    while l1.next_slot < 4:
        assert l1.publish(l1.next_slot).is_published
    end = l1.tip()
    good = EpochProof(
        start=1,
        end=end,
        previous_archive=genesis,
        end_archive=l1.read(contracts.ARCHIVE_AT, end),
        out_hash=bytes(32),
        prover_id=b"\x77" * 20,
        fees=((b"\7" * 20, 0),) * end,
        blob_inputs=_ZERO_OPENING,
    )
    now, wrong = l1.anvil.timestamp + 4, b"\0" * 31 + b"\5"
    spoiled = bytearray(_ZERO_OPENING)
    spoiled[95] = 2
    for name, changes in (
        ("Rollup__InvalidPreviousArchive", {"previous_archive": wrong}),
        ("Rollup__InvalidArchive", {"end_archive": wrong}),
        ("Rollup__InvalidOutHash", {"out_hash": wrong}),
        ("Rollup__InvalidAttestations", {"attestations": Attestations(b"\x80", b"\1" * 65)}),
        ("Rollup__InvalidBlobProof", {"blob_inputs": bytes(spoiled)}),
        ("Rollup__InvalidFirstEpochProof", {"start": end, "fees": good.fees[:1], "previous_archive": good.end_archive}),
    ):
        assert refusal(l1, replace(good, **changes).call_data(), now).name == name  # type: ignore[arg-type]
    simulated = l1.publishers.simulator.simulate(Call(ROLLUP, good.call_data()), l1.publisher, now)
    verified = "0x" + keccak_256(b"L2ProofVerified(uint256,address)").hex()
    request = Request(
        what="proof",
        calls=(Call(ROLLUP, good.call_data()),),
        success=Success(ROLLUP, (verified,)),
        gas=simulated.gas_used * 2,
        is_direct=True,
    )
    future = l1.start_publishing(request)
    l1.anvil.mine()
    outcome = future.result(300)
    assert outcome.is_published, outcome
    assert l1.read(contracts.PROVEN_CHECKPOINT) == end
