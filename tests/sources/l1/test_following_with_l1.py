"""Following a node that gives no messages, beside L1, which does."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sources import conftest
from tests.sources.conftest import FollowingNode, following
from tests.sources.l1.conftest import publish_on_l1
from tests.sources.l1.scripted_l1 import ScriptedL1, scripted_l1
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import ScriptedUpstream
from tests.sources.test_mutated_answers import AT_ONCE

from fastnode.errors import StartError
from fastnode.fees.l1 import L1FeeSource
from fastnode.protocol.fees import ManaUsage


@pytest.fixture
def genesis(tmp_path: Path, chain: MadeChain) -> Path:
    return chain.write_genesis(tmp_path / "genesis.jsonl")


@contextmanager
def node_with_l1(
    directory: Path, genesis: Path, upstream: ScriptedUpstream, *l1: ScriptedL1, **settings: Any
) -> Iterator[FollowingNode]:
    values: dict[str, Any] = {"l1_polling_interval_ms": 10, "genesis": genesis} | settings
    with following(directory, upstream.url, l1_rpc_urls=tuple(node.url for node in l1), **values) as node:
        yield node


def l1_status(node: FollowingNode) -> dict[str, Any]:
    assert node.origins.l1 is not None
    return node.origins.l1.describe()


#: Neither numbers nor addresses by name.
NONSENSE: list[Any] = [None, True, [], {"registryAddress": 5}, -1, "0xzz", "9" * 400]
MEMBERS = ("l1ChainId", "rollupVersion", "l1ContractAddresses", "protocolContractAddresses")
#: Answers of a node after which a first start goes on.
OUTLASTED = 2


@pytest.mark.parametrize("member", MEMBERS)
def test_a_first_start_outlasts_records_without_a_member_or_with_nonsense_in_it(
    tmp_path: Path,
    chain: MadeChain,
    upstream: ScriptedUpstream,
    l1: ScriptedL1,
    genesis: Path,
    monkeypatch: pytest.MonkeyPatch,
    member: str,
) -> None:
    """As a line that turns a bit over makes one."""
    monkeypatch.setattr(conftest, "QUICK", AT_ONCE)
    right = upstream.node_info
    wrong = [{name: value for name, value in right.items() if name != member}]
    wrong += [right | {member: nonsense} for nonsense in NONSENSE]
    for number in range(0, len(wrong), OUTLASTED):
        upstream.is_fastnode = not upstream.is_fastnode
        records = iter(wrong[number : number + OUTLASTED])
        upstream.answers["node_getNodeInfo"] = lambda _, records=records: next(records, right)
        with node_with_l1(tmp_path / f"node-{number}", genesis, upstream, l1) as node:
            node.wait_for(chain)
        assert next(records, None) is None


# ---- what L1 gives ----------------------------------------------------------------------------


def test_messages_that_the_upstream_does_not_give_come_from_l1(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    assert any(unit.messages for unit in chain.units)
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
        view = node.ingestor.view
        stored = [view.l1_to_l2_messages(unit.number) for unit in chain.units]
        assert stored == [[bytes.fromhex(text[2:]) for text in unit.messages] for unit in chain.units]
        for _ in range(4):
            with upstream.lock, l1.lock:
                chain.propose(2)
                publish_on_l1(chain, l1)
            node.wait_for(chain)
            with upstream.lock, l1.lock:
                chain.publish()
                publish_on_l1(chain, l1)
            node.wait_for(chain)


def test_a_restart_reads_only_newer_messages(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    for _ in range(4):
        chain.checkpoint(1)
    chain.proven = chain.finalized = 7
    publish_on_l1(chain, l1)
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
    with upstream.lock, l1.lock:
        chain.checkpoint(2)
        publish_on_l1(chain, l1)
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
        node.wait(lambda: l1_status(node)["messages"] == len(l1.head.sent))
        assert node.origins.l1 is not None
        assert node.origins.l1.messages_of(1) is None  # stored; not read again


def test_tips_are_what_l1_says_not_the_upstream(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
        with upstream.lock:
            chain.proven, chain.finalized = 4, 3  # so the upstream says
        number = l1.mine(proven=3).number
        node.wait(lambda: node.tips.proven.checkpoint.number == 3)
        node.wait(lambda: l1_status(node)["block"] == number)
        assert node.tips.finalized.checkpoint.number == 2
        l1.mine(l1.finality)
        node.wait(lambda: node.tips.finalized.checkpoint.number == 3)
        assert node.tips.proven.checkpoint.number == 3


def test_a_proof_that_an_l1_reorg_takes_back_is_taken_back(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
        l1.mine(proven=4)
        node.wait(lambda: node.tips.proven.checkpoint.number == 4)
        with l1.lock:
            l1.reorg(1)
            l1.mine(2)
        node.wait(lambda: node.tips.proven.checkpoint.number == 2)


def test_fees_are_the_contracts(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
        reader = node.origins.l1
        assert reader is not None
        l1.mine(minimum_fee=4321)
        fees = L1FeeSource(reader.newest_fees, lambda: reader.slot_duration)
        node.wait(lambda: fees.current(None).fee_per_l2_gas == 4321)
        predicted = fees.predicted(None, ManaUsage.TARGET)
        assert len(predicted) == 3
        assert all(fees.fee_per_l2_gas > 0 for fees in predicted)


def test_the_time_is_that_of_the_newest_block_of_l1_and_of_the_clock_while_l1_is_silent(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    with node_with_l1(tmp_path / "node", genesis, upstream, l1, max_allowed_eth_client_drift_seconds=0) as node:
        reader = node.origins.l1
        assert reader is not None
        node.wait(lambda: reader.now() == l1.head.timestamp)
        behind = l1.mine(timestamp=l1.head.timestamp - 200).timestamp  # not so old that it stands still
        node.wait(lambda: reader.now() == behind)
        l1.stop()
        node.wait(lambda: reader.now() > behind + 100)
        l1.start()
        ahead = l1.mine(timestamp=behind + 10_000).timestamp
        node.wait(lambda: reader.now() == ahead)
        l1.stop()
        node.wait(lambda: l1_status(node)["reason"] is not None)
        assert reader.now() == ahead, "the clock is behind"


def test_the_time_is_that_of_the_clock_beside_an_l1_node_that_lags(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        reader = node.origins.l1
        assert reader is not None
        behind = l1.mine(timestamp=int(time.time()) - 200).timestamp
        node.wait(lambda: reader.newest_timestamp == behind)
        assert reader.now() >= behind + 200
        ahead = l1.mine(timestamp=int(time.time()) + 10_000).timestamp
        node.wait(lambda: reader.now() == ahead)


def test_committees_and_proposers_are_l1s(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    members = tuple(bytes([number]) * 20 for number in range(1, 4))
    slot = int(chain.chain_record["l1Constants"]["slotDuration"])
    epoch = int(chain.chain_record["l1Constants"]["epochDuration"])
    start = int(chain.chain_record["l1Constants"]["l1GenesisTime"])
    with l1.lock:
        l1.mine(committees=((1, members), (2, ())))
        l1.mine(timestamp=start + slot * epoch * 2 + 5)
        publish_on_l1(chain, l1)
    with node_with_l1(tmp_path / "node", genesis, upstream, l1, sentinel_enabled=True) as node:
        node.wait_for(chain)
        reader = node.origins.l1
        assert reader is not None
        committees = reader.committees
        node.wait(lambda: committees.committee_of(0) is not None)
        assert committees.committee_of(1) == members
        assert committees.proposer_of(epoch + 1) == members[(epoch + 1) % 3]
        assert [committees.committee_of(0), committees.committee_of(2), committees.committee_of(3)] == [(), (), None]
        assert committees.proposer_of(2 * epoch) is None
        l1.requests.clear()
        l1.mine(3)
        node.wait(lambda: l1_status(node)["block"] == l1.head.number)
        assert committees.committee_of(1) == members


def test_proposers_that_were_read_before_their_epoch_are_read_again(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    """The first checkpoint of an epoch draws those of the next one, and may be published in its last slot."""
    members = tuple(bytes([number]) * 20 for number in range(1, 4))
    others = tuple(reversed(members))
    slot = int(chain.chain_record["l1Constants"]["slotDuration"])
    epoch = int(chain.chain_record["l1Constants"]["epochDuration"])
    last_slot = int(chain.chain_record["l1Constants"]["l1GenesisTime"]) + slot * (epoch * 3 - 1)
    with l1.lock:
        l1.mine(timestamp=last_slot, committees=((3, members),))
        publish_on_l1(chain, l1)
    with node_with_l1(tmp_path / "node", genesis, upstream, l1, sentinel_enabled=True) as node:
        reader = node.origins.l1
        assert reader is not None
        committees = reader.committees
        node.wait(lambda: committees.committee_of(3) == members)
        l1.mine(timestamp=last_slot + 1, committees=((3, others),))
        node.wait(lambda: committees.proposer_of(3 * epoch) == others[3 * epoch % 3])
        l1.mine(timestamp=last_slot + slot, committees=((3, members),))
        node.wait(lambda: committees.proposer_of(3 * epoch) == members[3 * epoch % 3])


# ---- L1 reorgs --------------------------------------------------------------------------------


def test_messages_that_an_l1_reorg_replaces_are_the_new_ones(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    """What L1 said first does not fit the block that comes; it is asked again, and no upstream is put aside."""
    chain.finalized = chain.proven
    publish_on_l1(chain, l1)
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
        with l1.lock:
            fork = len(l1.blocks)
            l1.send(b"\1" * 32, checkpoint=len(chain.units) + 1)
            l1.advance(len(chain.units) + 2)
            l1.mine(2)
        node.wait(lambda: l1_status(node)["block"] == l1.head.number)
        with upstream.lock, l1.lock:
            chain.publish()
            chain.checkpoint(1)
            while not chain.units[-1].messages:
                chain.checkpoint(1)
            l1.reorg(len(l1.blocks) - fork)
            publish_on_l1(chain, l1)
        node.wait_for(chain)
        assert l1_status(node)["reorgs"] == 1
        assert node.follower.reorg_count == 0


# ---- lies -------------------------------------------------------------------------------------


def test_an_upstream_whose_checkpoint_is_not_the_one_on_l1_is_put_aside(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    """A chain that is right in itself, but that L1 has never seen."""
    with l1.lock:
        archives = list(l1.head.archives)
        archives[3] = b"\7" * 32
        l1.mine(archives=tuple(archives))
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        found = node.wait_for_upstream("put aside", "checkpoint 3 is not the one on L1")
        assert "0x" + "07" * 32 in found["reason"]
        assert node.tips.checkpointed.checkpoint.number <= 2


def test_a_checkpoint_that_is_not_on_l1_yet_is_waited_for(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
        with upstream.lock:
            chain.publish()
            chain.checkpoint(1)
        node.wait(lambda: "is not on L1" in (node.follower.trouble or ""))
        assert node.tips.checkpointed.checkpoint.number == 4
        with upstream.lock, l1.lock:
            publish_on_l1(chain, l1)
        node.wait_for(chain)
        assert node.origins.upstreams.describe()[0]["state"] == "healthy"


def test_a_stored_checkpoint_that_l1_has_given_up_is_told(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
        whole = l1.head.archives
        l1.mine(archives=whole[:-1])
        node.wait(lambda: "the stored checkpoint 4" in (l1_status(node)["reason"] or ""))
        l1.mine(archives=whole)
        node.wait(lambda: l1_status(node)["reason"] is None)


def test_a_checkpoint_that_is_not_stored_any_more_is_not_told_of(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    """Before L1 is looked at again."""
    with node_with_l1(tmp_path / "node", genesis, upstream, l1, l1_polling_interval_ms=3_600_000) as node:
        node.wait_for(chain)
        assert node.origins.l1 is not None
        observer = node.origins.l1._observer
        assert observer is not None
        assert observer.state is not None
        observer._compare(replace(observer.state, stored=4, stored_archive=b"\7" * 32))
        assert "the stored checkpoint 4 has the archive root" in str(observer.contradiction)
        undone = threading.Event()

        def undo() -> None:
            if not undone.is_set():
                node.ingestor.undo_above(chain.units[2].blocks[-1].number)
                assert observer.contradiction is None
                undone.set()

        node.follower.chores = undo  # in the thread that ingests, which has the chain for itself
        node.wait(undone.is_set)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("inboxAddress", "the Inbox's address is .* on L1 and 0x1{40} there"),
        ("outboxAddress", "the Outbox's address is"),
        ("feeJuicePortalAddress", "the fee asset portal's address is"),
        ("rollupAddress", "the rollup's address is"),
    ],
)
def test_an_upstream_that_names_other_contracts_than_l1_stops_the_start(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path, key: str, reason: str
) -> None:
    upstream.node_info["l1ContractAddresses"][key] = "0x" + "11" * 20
    with (
        pytest.raises(StartError, match=f"L1 and upstream 1 disagree: {reason}"),
        node_with_l1(tmp_path / "node", genesis, upstream, l1),
    ):
        pass


def test_an_upstream_of_a_version_that_the_registry_does_not_know_stops_the_start(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    upstream.node_info["rollupVersion"] = 99
    with (
        pytest.raises(StartError, match="has no rollup of version 99"),
        node_with_l1(tmp_path / "node", genesis, upstream, l1),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("slotDuration", 35, "its slotDuration is 36, L1 says 35"),
        ("epochDuration", 7, "its epochDuration is 32, L1 says 7"),
        ("l1GenesisTime", "5", "its l1GenesisTime is"),
        ("genesisArchiveRoot", "0x" + "05" * 32, "the rollup on L1 begins with the archive root 0x0505"),
    ],
)
def test_a_genesis_that_contradicts_l1_stops_the_start(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, genesis: Path, name: str, value: object, reason: str
) -> None:
    constants = {**chain.chain_record["l1Constants"], name: value}
    with (
        scripted_l1(chain.chain_record["nodeInfo"], constants) as l1,
        pytest.raises(StartError, match=reason),
        node_with_l1(tmp_path / "node", genesis, upstream, l1),
    ):
        pass


def test_a_stored_chain_that_is_not_on_this_l1_ends_the_node(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
    info = copy.deepcopy(chain.chain_record["nodeInfo"])
    info["l1ContractAddresses"]["outboxAddress"] = "0x" + "22" * 20
    with (
        scripted_l1(info, chain.chain_record["l1Constants"]) as other,
        node_with_l1(tmp_path / "node", genesis, upstream, other) as node,
    ):
        node.wait_for_failure(StartError, "L1 and the stored chain disagree: the Outbox's address")


# ---- L1 away ----------------------------------------------------------------------------------


def test_without_l1_the_chain_goes_on_until_messages_are_needed_and_the_status_says_so(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
        l1.stop()
        node.wait(lambda: l1_status(node)["state"] == "degraded")
        assert "cannot connect" in l1_status(node)["reason"]
        with upstream.lock, l1.lock:
            chain.propose(1)  # of a checkpoint whose messages are known
            tip = chain.tip
        node.wait(lambda: node.tips.proposed.number == tip)
        with upstream.lock, l1.lock:
            chain.publish()
            chain.checkpoint(1)
            while not chain.units[-1].messages:
                chain.checkpoint(1)
            publish_on_l1(chain, l1)
        node.wait(lambda: "inserts messages from L1" in (node.follower.trouble or ""))
        l1.start()
        node.wait_for(chain)
        node.wait(lambda: l1_status(node)["state"] == "reading")


def test_another_l1_node_takes_over(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    with scripted_l1(chain.chain_record["nodeInfo"], chain.chain_record["l1Constants"]) as second:
        second.blocks = l1.blocks  # they are nodes of one chain
        with node_with_l1(tmp_path / "node", genesis, upstream, l1, second) as node:
            node.wait_for(chain)
            l1.stop()
            with upstream.lock, second.lock:
                chain.publish()
                chain.checkpoint(2)
                publish_on_l1(chain, second)
            node.wait_for(chain)
            node.wait(lambda: l1_status(node)["block"] == second.head.number)
            assert [item["ok"] for item in l1_status(node)["nodes"]] == [False, True]


def test_a_fastnode_gives_the_messages_while_l1_is_away(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    upstream.is_fastnode = True
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
        l1.stop()
        node.wait(lambda: l1_status(node)["state"] == "degraded")
        with upstream.lock:
            chain.publish()
            for _ in range(3):
                chain.checkpoint(1)
            tip = chain.tip
        node.wait(lambda: node.tips.proposed.number == tip)
        l1.start()


def test_an_l1_node_that_stands_still_is_trouble(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    with node_with_l1(tmp_path / "node", genesis, upstream, l1, max_allowed_eth_client_drift_seconds=30) as node:
        node.wait_for(chain)
        l1.mine(timestamp=5)
        node.wait(lambda: "seconds old" in (l1_status(node)["reason"] or ""))
        l1.mine()
        node.wait(lambda: l1_status(node)["reason"] is None)


def test_a_start_without_l1_goes_on_with_what_is_stored(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, l1: ScriptedL1, genesis: Path
) -> None:
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait_for(chain)
    l1.stop()
    with node_with_l1(tmp_path / "node", genesis, upstream, l1) as node:
        node.wait(lambda: l1_status(node)["state"] == "degraded")
        assert node.ingestor.view.tip_number == chain.tip
        l1.start()
        node.wait(lambda: l1_status(node)["state"] == "reading")
        node.wait_for(chain)
