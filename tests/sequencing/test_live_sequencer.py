"""A node that proposes on a real L1: what it publishes there is what other nodes derive."""

from __future__ import annotations

import json
import lzma
import re
import signal

import pytest
from tests.conftest import NodeProcess
from tests.publishing.live_l1 import needs_anvil, test_key
from tests.publishing.recorded import DATA
from tests.sequencing.network import ProposingNetwork, checkpointed, components, selector, tips, wait_until

pytestmark = needs_anvil


def follows(network: ProposingNetwork, proposer: NodeProcess) -> NodeProcess:
    """A node that knows L1 alone has the same chain."""
    network.store_blobs()
    follower = network.node()
    wanted = tips(proposer)["checkpointed"]
    wait_until(lambda: tips(follower)["checkpointed"] == wanted, lambda: (wanted, tips(follower), network.log()))
    return follower


def send_message(network: ProposingNetwork) -> None:
    """From L1 to L2."""
    inbox = "0x" + f"{network.read('getInbox()'):040x}"
    version = network.read("getVersion()")
    data = selector("sendL2Message((bytes32,uint256),bytes32,bytes32)")
    data += "".join(f"{word:064x}" for word in (7, version, 8, 9))
    sender = network.anvil.call("eth_accounts")[0]
    network.anvil.call("eth_sendTransaction", {"from": sender, "to": inbox, "data": data, "gas": hex(500_000)})
    network.anvil.mine()


def first_slot(network: ProposingNetwork) -> None:
    """The slot that a proposer finds when it starts is one that it proposes in."""
    wait_until(network.anvil.pool, network.log)
    network.anvil.mine()
    assert network.pending == 1, network.log()


def test_the_only_proposer_publishes_a_checkpoint_in_each_slot_that_it_sees(alone: ProposingNetwork) -> None:
    proposer = alone.proposer()
    first_slot(alone)
    assert alone.mine_slot() == 2
    send_message(alone)
    assert alone.mine_slot(alone.slot + 3) == 3  # slots that nobody has seen are no reason to stop
    assert alone.mine_slot() == 4
    wait_until(lambda: checkpointed(proposer) == 4, lambda: components(proposer))
    headers = [item["checkpoint"]["header"] for item in proposer.call("node_getCheckpoints", 1, 4)["result"]]
    assert len({header["inHash"] for header in headers}) == 2  # the message is in one of them
    follows(alone, proposer)
    assert proposer.stop() == 0


def test_blocks_are_proposed_before_l1_has_them_and_taken_back_when_the_slot_is_missed(alone: ProposingNetwork) -> None:
    proposer = alone.proposer()
    first_slot(alone)
    alone.begin_slot()
    wait_until(alone.anvil.pool, alone.log)
    assert tips(proposer)["proposed"]["number"] == 2
    assert checkpointed(proposer) == 1
    [transaction] = alone.anvil.pool()
    alone.anvil.call("anvil_dropTransaction", transaction["hash"])
    later = alone.begin_slot()
    wait_until(lambda: alone.anvil.pool(), alone.log)
    alone.anvil.mine(alone.start_of(later))
    wait_until(lambda: checkpointed(proposer) == 2 or alone.pending == 2, alone.log)


def test_after_a_restart_in_its_own_slot_a_proposer_has_no_block_that_cannot_be_published(
    alone: ProposingNetwork,
) -> None:
    proposer = alone.proposer(data="killed")
    first_slot(alone)
    alone.begin_slot()
    wait_until(alone.anvil.pool, alone.log)
    assert tips(proposer)["proposed"]["number"] == 2
    proposer.stop(signal.SIGKILL)
    [transaction] = alone.anvil.pool()
    alone.anvil.call("anvil_dropTransaction", transaction["hash"])
    for file in (alone.directory / "killed" / "publishing").glob("0x*"):
        file.unlink()  # nothing says that it was sent
    again = alone.proposer(data="killed")
    wait_until(lambda: tips(again)["proposed"]["number"] == 1, alone.log)
    assert checkpointed(again) == 1


@pytest.mark.parametrize("is_mined", [False, True], ids=["in the pool", "mined"])
def test_after_a_restart_a_block_that_l1_has_or_may_have_stays(alone: ProposingNetwork, is_mined: bool) -> None:
    proposer = alone.proposer(data="killed")
    first_slot(alone)
    slot = alone.begin_slot()
    wait_until(alone.anvil.pool, alone.log)
    proposer.stop(signal.SIGKILL)
    if is_mined:
        alone.anvil.mine(alone.start_of(slot))
    again = alone.proposer(data="killed")
    if not is_mined:
        wait_until(lambda: "caught up" in [entry["message"] for entry in again.entries()], alone.log)
        assert tips(again)["proposed"]["number"] == 2
        alone.anvil.mine(alone.start_of(slot))
    wait_until(lambda: checkpointed(again) == 2, alone.log)
    undone = [entry for entry in again.entries() if "discarded" in entry["message"] or entry["message"] == "reorg"]
    assert undone == []
    assert alone.pending == 2


def test_a_transaction_of_a_wallet_is_in_a_checkpoint_and_its_receipt_says_so_on_each_node(
    alone: ProposingNetwork,
) -> None:
    # The deployment of a test account, made by the published wallet on this network's genesis.
    transaction = json.loads(lzma.decompress((DATA / "genesis_tx.json.xz").read_bytes()))
    proposer = alone.node("--sequencer", VALIDATOR_PRIVATE_KEYS="0x" + test_key(0).reveal().hex())
    assert "error" not in proposer.call("node_sendTx", transaction)
    given_up: set[str] = set()

    def is_offered() -> bool:
        # A machine that stood still may have sent it too late for the slot that was there.
        for slot in set(re.findall(r"slot \d+: empty", components(proposer))) - given_up:
            given_up.add(slot)
            alone.begin_slot()
        return bool(alone.anvil.pool())

    wait_until(is_offered, alone.log)
    tx_hash = proposer.call("node_getBlock", 1)["result"]["body"]["txEffects"][0]["txHash"]
    assert proposer.call("node_getTxReceipt", tx_hash)["result"]["status"] == "proposed"
    first_slot(alone)
    wait_until(lambda: checkpointed(proposer) == 1, lambda: components(proposer))
    receipt = proposer.call("node_getTxReceipt", tx_hash)["result"]
    assert (receipt["status"], receipt["executionResult"], receipt["blockNumber"]) == ("checkpointed", "success", 1)
    follower = follows(alone, proposer)
    assert follower.call("node_getTxReceipt", tx_hash)["result"] == receipt


def test_blobs_are_where_others_find_them_before_l1_has_their_checkpoint(alone: ProposingNetwork) -> None:
    # A node that is killed once it has sent them would leave a checkpoint that nobody can derive.
    alone.proposer("--blob-file-store-upload-url", alone.store_url)
    wait_until(alone.anvil.pool, alone.log)
    [transaction] = alone.anvil.pool()
    wanted = {f"{item}.data" for item in transaction["blobVersionedHashes"]}
    wait_until(lambda: wanted <= {file.name for file in alone.directory.rglob("*.data")}, alone.log)
    assert alone.pending == 0


def test_a_committee_attests_with_the_keys_that_are_here_and_its_epochs_are_proven(committee: ProposingNetwork) -> None:
    prover = ("--prover-node",)
    proposer = committee.proposer(*prover, keys=range(6))
    first_slot(committee)
    newest = committee.mine_slot()
    wait_until(lambda: checkpointed(proposer) == newest, lambda: components(proposer))
    published = proposer.call("node_getCheckpoints", newest, 1)["result"][0]
    signed = [item for item in published["attestations"] if set(item["signature"][2:]) != {"0"}]
    assert (len(published["attestations"]), len(signed)) == (4, 3)
    # The epoch of the checkpoint is over, and no more of the next one than needed, in which its proof is due.
    next_epoch = int(published["header"]["slotNumber"]) // 4 * 4 + 4
    if committee.slot < next_epoch:
        committee.begin_slot(next_epoch)

    def is_proven() -> bool:
        if committee.anvil.pool():
            committee.anvil.mine()
        return committee.proven >= newest

    wait_until(is_proven, committee.log)


def test_a_committee_whose_keys_are_elsewhere_leaves_the_slot_alone(committee: ProposingNetwork) -> None:
    proposer = committee.proposer(keys=range(1))

    def is_told() -> bool:
        # It is the proposer of some slots alone; of others it says whose they are.
        told = components(proposer)
        if f"slot {committee.slot}: others" in told:
            committee.begin_slot()
        return "have their keys here, 3 must attest" in told

    wait_until(is_told, lambda: components(proposer))
    assert committee.pending == 0
    assert not committee.anvil.pool()
    assert proposer.stop() == 0


#: Of a network on this machine.
ON_NETWORK = ("--p2p-enabled", "--p2p-listen-addr=127.0.0.1", "--p2p-ip=127.0.0.1", "--p2p-port=0")


def split_over_two_nodes(network: ProposingNetwork, *flags: object) -> tuple[NodeProcess, NodeProcess]:
    """Two members of the committee each, and one other validator; ``flags`` of the second."""
    slot = network.slot // 4 * 4 + 4
    members = network.committee(slot)
    others = sorted(set(range(6)) - set(members))
    first = network.proposer(*ON_NETWORK, keys=[*members[:2], others[0]])
    port = first.wait_for_line("on the peer-to-peer network")["port"]
    peer = (f"--p2p-peer=127.0.0.1:{port}", "--debug-p2p-disable-colocation-penalty")
    second = network.proposer(*ON_NETWORK, *peer, *flags, keys=[*members[2:], others[1]])
    for node in (first, second):
        node.wait_for_line("peer connected")
    network.begin_slot(slot)
    return first, second


def next_proposal(network: ProposingNetwork, *nodes: NodeProcess) -> None:
    """Begin slots until one has a checkpoint: on a busy machine a slot can be over before all have attested."""

    def is_offered() -> bool:
        if any(f"slot {network.slot}: missed" in components(node) for node in nodes):
            network.begin_slot()
        return bool(network.anvil.pool())

    wait_until(is_offered, network.log)


def test_a_committee_split_over_two_nodes_attests_by_gossip(committee: ProposingNetwork) -> None:
    first, second = split_over_two_nodes(committee)
    for _ in range(3):
        before = committee.pending
        next_proposal(committee, first, second)
        slot = committee.slot
        committee.anvil.mine(max(committee.start_of(slot), committee.anvil.timestamp + 4))
        assert committee.pending == before + 1, committee.log()
        for node in (first, second):
            wait_until(lambda node=node: checkpointed(node) == committee.pending, committee.log)
        committee.begin_slot()
    published = first.call("node_getCheckpoints", 1, 3)["result"]
    for item in published:
        signed = [each for each in item["attestations"] if set(each["signature"][2:]) != {"0"}]
        assert len(signed) == 3  # more than either node has keys of members
    assert second.call("node_getCheckpoints", 1, 3)["result"] == published


def test_a_node_without_the_flag_proposes_nothing(alone: ProposingNetwork) -> None:
    node = alone.node()
    alone.begin_slot()
    alone.begin_slot()
    node.wait_for_line("caught up")
    assert not alone.anvil.pool()
    assert "sequencer" not in components(node)
    assert not any("fastnode.sequencer" in json.dumps(entry) for entry in node.entries())
