"""A checkpoint that its committee does not stand behind is taken back; the escape hatch is respected."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.publishing.live_l1 import LIMITS, LONG, ROLLUP, address_of, needs_anvil, open_publishers, test_key
from tests.sequencing.network import ProposingNetwork, checkpointed, components, selector, wait_until
from tests.sequencing.test_live_sequencer import follows

from fastnode.outgoing.network import Network
from fastnode.publishing import digests
from fastnode.publishing.envelope import BlobBundle
from fastnode.publishing.multicall import Call
from fastnode.publishing.propose import Attestations, ProposeCall
from fastnode.publishing.requests import Request, Success
from fastnode.publishing.signing import SigningDoor
from fastnode.sources.l1.endpoints import L1Client
from fastnode.sources.l1.proposals import CHECKPOINT_PROPOSED, PROPOSE_SELECTOR, Proposal

pytestmark = needs_anvil

PAYER = 7


class Spoiler:
    """Takes the proposal that waits to L1 with other attestations, as a proposer can: L1 looks at its own one only."""

    def __init__(self, network: ProposingNetwork, directory: Path) -> None:
        self.network, self.directory = network, directory
        self.slot = network.slot
        [self.transaction] = network.anvil.pool()
        data = bytes.fromhex(self.transaction["input"][2:])
        self.proposal = Proposal.from_call_data(data[data.index(PROPOSE_SELECTOR) :])
        self.keys = {address_of(key): key for key in map(test_key, range(8))}
        self.members = [address_of(test_key(index)) for index in network.committee(self.slot)]
        proposer = network.read("getProposerAt(uint256)", network.start_of(self.slot))
        self.proposer = proposer.to_bytes(20, "big")
        entries = zip(self.members, self.proposal.attestations(4), strict=True)
        self.signatures = {member: entry.signature for member, entry in entries if any(entry.signature)}

    def publish(self, signatures: dict[bytes, bytes]) -> None:
        network, proposal = self.network, self.proposal
        blobs = [bytes.fromhex(blob[2:]) for blob in self.transaction["blobs"]]
        network.anvil.call("anvil_dropTransaction", self.transaction["hash"])
        network.anvil.call("anvil_setBalance", test_key(PAYER).address, hex(10**20))
        bundle = BlobBundle(blobs)
        attestations = Attestations.of(self.members, signatures)
        signers = tuple(member for member in self.members if member in signatures)
        with Network() as connections, ThreadPoolExecutor(1) as executor:
            door = SigningDoor(lambda: self.keys, ROLLUP, connections)
            call = ProposeCall(
                header=proposal.header,
                archive_root=proposal.archive_root,
                proposer_signature=door.sign_message(
                    self.proposer, digests.attestations_and_signers(attestations, signers)
                ),
                commitments=bundle.commitments,
                attestations=attestations,
                signers=signers,
            )
            client = L1Client([network.anvil.url], connections, limits=LONG)
            publishers = open_publishers(client, door, [address_of(test_key(PAYER))], self.directory, limits=LIMITS)
            request = Request(
                what="a spoilt checkpoint",
                calls=(Call(ROLLUP, call.call_data()),),
                success=Success(ROLLUP, (CHECKPOINT_PROPOSED, None, "0x" + call.archive_root.hex())),
                gas=2_000_000,
                bundle=bundle,
                slot_ends_at=network.start_of(self.slot + 1),
                give_up_at=network.start_of(self.slot + 1),
            )
            sent = executor.submit(publishers.all[0].publish, request)
            wait_until(network.anvil.pool, network.log)
            network.anvil.mine(max(network.start_of(self.slot), network.anvil.timestamp + 4))
            assert sent.result(60).is_published, sent.result()
            publishers.close()


@pytest.mark.parametrize("is_bad", [True, False], ids=["a wrong signature", "too few signatures"])
def test_a_checkpoint_without_its_committee_is_taken_back_with_the_next_one(
    committee: ProposingNetwork, tmp_path: Path, is_bad: bool
) -> None:
    first = committee.proposer(keys=range(6))
    wait_until(committee.anvil.pool, committee.log)
    spoiler = Spoiler(committee, tmp_path / "spoiler")
    first.process.kill()
    signatures = {spoiler.proposer: spoiler.signatures[spoiler.proposer]}
    if is_bad:
        other = next(member for member in spoiler.signatures if member != spoiler.proposer)
        signatures = spoiler.signatures | {other: signatures[spoiler.proposer]}
    spoiler.publish(signatures)
    assert committee.pending == 1
    spoilt = committee.read("archive()")
    committee.store_blobs()
    second = committee.proposer(keys=range(6))
    second.wait_for_line("a checkpoint on L1 is not valid and is not stored")

    def is_offered() -> bool:
        # A busy machine looks at the slot that is there too late, or misses one.
        if committee.slot == spoiler.slot or f"slot {committee.slot}: missed" in components(second):
            committee.begin_slot()
        return bool(committee.anvil.pool())

    wait_until(is_offered, committee.log)
    committee.anvil.mine(max(committee.start_of(committee.slot), committee.anvil.timestamp + 4))
    assert (committee.pending, committee.read("archive()") == spoilt) == (1, False), committee.log()
    wait_until(lambda: checkpointed(second) == 1, committee.log)
    follows(committee, second)


def test_nobody_else_proposes_while_the_escape_hatch_is_open(committee: ProposingNetwork) -> None:
    hatch = "0x" + "e5" * 20
    always, never = "0x600160005260406000f3", "0x60406000f3"  # returns 1 and 0, returns 0 and 0
    owner = f"0x{committee.read('owner()'):040x}"
    anvil = committee.anvil
    anvil.call("anvil_setCode", hatch, always)
    anvil.call("anvil_impersonateAccount", owner)
    anvil.call("anvil_setBalance", owner, hex(10**20))
    data = selector("updateEscapeHatch(address)") + hatch[2:].rjust(64, "0")
    anvil.call("eth_sendTransaction", {"from": owner, "to": "0x" + ROLLUP.hex(), "data": data, "gas": hex(500_000)})
    anvil.mine()
    assert committee.read("getEscapeHatch()") == int(hatch, 16)
    committee.begin_slot(committee.slot // 4 * 4 + 4)  # it counts from the next epoch on
    proposer = committee.proposer(keys=range(6))
    wait_until(lambda: "the escape hatch is open" in components(proposer), lambda: components(proposer))
    assert not anvil.pool()
    anvil.call("anvil_setCode", hatch, never)
    committee.begin_slot()
    wait_until(anvil.pool, committee.log)
    assert "0 missed" in components(proposer)
