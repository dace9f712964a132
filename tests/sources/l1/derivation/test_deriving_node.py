"""A node with L1 and blobs as its only source, and one with another node beside them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sources.conftest import FollowingNode, following
from tests.sources.l1.publishing import PublishingL1, RecordedL1, publish, send_messages
from tests.sources.made_chain import MadeChain, made_chain
from tests.sources.scripted_upstream import RejectionError, ScriptedUpstream, scripted_upstream

from fastnode.errors import SettingError, StartError
from fastnode.loop import Clock
from fastnode.protocol.releases import Release


@pytest.fixture
def upstream(chain: MadeChain, release: Release) -> Iterator[ScriptedUpstream]:
    """Not a fastnode."""
    if not release.is_served:
        pytest.skip(f"no node of {release.name} is followed")
    with scripted_upstream(chain, is_fastnode=False) as upstream:
        yield upstream


@contextmanager
def deriving(directory: Path, l1: PublishingL1, *upstreams: str, **settings: Any) -> Iterator[FollowingNode]:
    values: dict[str, Any] = {
        "l1_rpc_urls": (l1.url,),
        "l1_consensus_host_urls": (l1.beacon.url,),
        "registry_address": l1.addresses.registry,
        "genesis": l1.genesis,
        "l1_polling_interval_ms": 5,
        "max_allowed_eth_client_drift_seconds": 0,
    }
    with following(directory, *upstreams, **(values | settings)) as node:
        yield node


def wait_for(node: FollowingNode, chain: MadeChain) -> None:
    """Until it has the chain up to its newest checkpoint, and the proposed blocks."""
    wanted = chain.tips()
    node.wait(lambda: (node.tips.checkpointed, node.tips.proposed) == (wanted.checkpointed, wanted.proposed))
    node.wait(lambda: node.follower.trouble is None)


def test_a_node_needs_no_other_node(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> None:
    with deriving(tmp_path / "node", l1) as node:
        wait_for(node, chain)
        info = node.data.store.chain.node_info
        assert info["l1ContractAddresses"]["rollupAddress"] == l1.addresses.rollup
        assert info["l1ContractAddresses"]["registryAddress"] == l1.addresses.registry
        node.wait(lambda: node.follower.is_ready)
        for _ in range(3):
            chain.checkpoint(2)
            publish(l1, chain.units[-1])
            wait_for(node, chain)
        assert node.follower.describe()["upstreams"] == []
        assert node.follower.describe()["derivation"]["newestCheckpoint"] == 6


def test_a_long_way_to_the_newest_checkpoint_is_not_told_block_by_block(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[int]:
        return [record.facts["number"] for record in caplog.records if record.message == "block"]  # type: ignore[attr-defined]

    caplog.set_level(logging.INFO)
    with deriving(tmp_path / "node", l1) as node:
        wait_for(node, chain)
        assert told() == []
        chain.checkpoint(2)
        publish(l1, chain.units[-1])
        wait_for(node, chain)
    assert told() == [5, 6]


def test_a_network_with_a_usual_genesis_is_known_by_its_registry_alone(
    tmp_path: Path, sample: list[dict[str, Any]], recorded: RecordedL1
) -> None:
    with deriving(tmp_path / "node", recorded) as node:
        node.wait(lambda: node.tips.to_json() == sample[-1]["tips"])


def test_a_restart_goes_on_where_it_was(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> None:
    with deriving(tmp_path / "node", l1) as node:
        wait_for(node, chain)
    chain.checkpoint(2)
    publish(l1, chain.units[-1])
    l1.beacon.requests.clear()
    with deriving(tmp_path / "node", l1) as node:
        wait_for(node, chain)
    assert sum("/blobs/" in path for path in l1.beacon.requests) == 1


class LocalTime(Clock):
    """Stands until it is moved; waits as usual."""

    def __init__(self, now: float) -> None:
        self.now = now

    def time(self) -> float:
        return self.now


def in_ingestion(node: FollowingNode, work: Callable[[], object]) -> None:
    """Do it in the thread that changes the chain."""
    done = threading.Event()

    def once() -> None:
        if not done.is_set():
            work()
            done.set()

    node.follower.chores = once
    node.wait(done.is_set)


@pytest.mark.parametrize("is_published", [False, True], ids=["proposed", "published by this node"])
def test_a_proposed_block_is_withdrawn_by_the_local_clock_while_l1_is_silent(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, monkeypatch: pytest.MonkeyPatch, is_published: bool
) -> None:
    with deriving(tmp_path / "node", l1) as node:
        wait_for(node, chain)
        reader = node.origins.l1
        assert reader is not None
        chain.propose(2)
        unit = chain.units[-1]
        block, published = unit.blocks[0], unit.blocks[0].number - 1
        slot = block.header.global_variables.slot_number
        constants = node.ingestor.view.chain
        end = constants.l1_genesis_time + (slot + 1) * constants.slot_duration
        clock = LocalTime(end + reader.slot_duration - 1)
        # Not an L1 that may stand still: it goes by the clock.
        monkeypatch.setattr(type(reader), "newest_block_may_be_old", property(lambda _: False))
        reader.clock = clock
        node.follower.is_published = lambda of: is_published and of == slot
        messages = tuple(bytes.fromhex(text[2:]) for text in unit.messages)
        in_ingestion(node, lambda: node.ingestor.add_block(block, messages))
        with l1.lock:  # it gives no answers
            reorgs = node.follower.reorg_count
            for _ in range(3):
                in_ingestion(node, lambda: None)
            assert node.tips.proposed.number == block.number, "its slot may not be over on L1"
            clock.now += 1
            if is_published:
                for _ in range(3):
                    in_ingestion(node, lambda: None)
                assert node.tips.proposed.number == block.number
            else:
                node.wait(lambda: node.tips.proposed.number == published)
                assert node.follower.reorg_count == reorgs + 1


@pytest.mark.parametrize("comes_again", [True, False], ids=["again", "given up"])
def test_a_node_that_was_down_while_its_newest_checkpoint_moved_starts_again(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, comes_again: bool
) -> None:
    """Its L1 block is long final when the node comes back, and has no logs: it is another block."""
    with deriving(tmp_path / "node", l1) as node:
        wait_for(node, chain)
    place = max(block.number for block in l1.blocks if block.proposals)
    l1.reorg(l1.head.number - place + 1)
    l1.mine(2)
    if comes_again:
        publish(l1, chain.units[-1])
    else:
        chain.undo_to(chain.units[-2].blocks[-1].number)
    l1.mine(l1.finality + 3)
    with deriving(tmp_path / "node", l1) as node:
        wait_for(node, chain)


def test_proposed_blocks_come_early_from_the_other_node(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, upstream: ScriptedUpstream
) -> None:
    with deriving(tmp_path / "node", l1, upstream.url) as node:
        wait_for(node, chain)
        for _ in range(3):
            with upstream.lock:
                chain.propose(1)
                send_messages(l1, chain.units[-1])
                l1.advance(chain.units[-1].number + 1)
            wait_for(node, chain)
            with upstream.lock:
                chain.propose(1)
            wait_for(node, chain)
            with upstream.lock:
                chain.publish()
                publish(l1, chain.units[-1])
            wait_for(node, chain)
        assert node.follower.reorg_count == 0


def test_an_upstream_that_contradicts_l1_is_put_aside_and_named(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1
) -> None:
    other_directory = tmp_path / "other"
    other_directory.mkdir()
    with made_chain(other_directory) as other:
        other._chain._content.body()  # so that it goes another way from its first block on
        other.checkpoint(2)
        for _ in range(4):
            other.checkpoint(1)
        with (
            scripted_upstream(other, is_fastnode=False) as upstream,
            deriving(tmp_path / "node", l1, upstream.url) as node,
        ):
            node.wait(lambda: node.tips.checkpointed == chain.tips().checkpointed)
            found = node.wait_for_upstream("put aside", "contradicts L1")
            assert "block" in found["reason"]
            assert node.tips.checkpointed == chain.tips().checkpointed


def test_an_upstream_helps_where_blobs_are_missing(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, upstream: ScriptedUpstream
) -> None:
    l1.beacon.hidden = {item for unit in chain.units for item in l1.sheet(unit.published or {}).hashes}
    with deriving(tmp_path / "node", l1, upstream.url) as node:
        node.wait(lambda: node.tips.checkpointed == chain.tips().checkpointed)


def test_missing_blobs_are_said_in_the_status(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> None:
    l1.beacon.hidden = set(l1.sheet(chain.units[1].published or {}).hashes)
    with deriving(tmp_path / "node", l1) as node:
        node.wait(lambda: "waiting for 1 blobs of checkpoint 2" in (node.follower.trouble or ""))
        assert node.follower.describe()["state"] == "degraded"
        assert not node.follower.is_ready
        l1.beacon.hidden = set()
        wait_for(node, chain)


# ---- what keeps it from starting --------------------------------------------------------------


def test_a_node_without_a_registry_says_what_is_missing(tmp_path: Path, l1: PublishingL1) -> None:
    with pytest.raises(StartError, match="--registry-address"), deriving(tmp_path / "n", l1, registry_address=None):
        raise AssertionError


def test_a_registry_that_is_not_there_is_named(tmp_path: Path, l1: PublishingL1) -> None:
    wrong = "0x" + "12" * 20
    with (
        pytest.raises(StartError, match=f"no code at .* {wrong}"),
        deriving(tmp_path / "n", l1, registry_address=wrong),
    ):
        raise AssertionError


def test_another_genesis_is_refused_with_both_roots(tmp_path: Path, l1: PublishingL1) -> None:
    with l1.lock:
        l1.blocks = [replace(block, archives=(b"\0" * 31 + b"\1",)) for block in l1.blocks]
    with (
        pytest.raises(StartError, match=r"its archive root is 0x0+1, known are 0x"),
        deriving(tmp_path / "n", l1, genesis=None),
    ):
        raise AssertionError


def test_no_place_of_blobs_that_can_be_reached_stops_the_start(tmp_path: Path, l1: PublishingL1) -> None:
    l1.beacon.status = 503
    with pytest.raises(StartError, match="consensus client 1: HTTP status 503"), deriving(tmp_path / "n", l1):
        raise AssertionError
    with deriving(tmp_path / "n", l1, blob_allow_empty_sources=True) as node:
        node.wait(lambda: "blobs of checkpoint 1" in (node.follower.trouble or ""))


def test_a_trace_can_be_required(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> None:
    with (
        pytest.raises(StartError, match="--ethereum-debug-hosts"),
        deriving(tmp_path / "n", l1, ethereum_allow_no_debug_hosts=False),
    ):
        raise AssertionError
    l1._methods["debug_traceTransaction"] = lambda *_: None
    with deriving(tmp_path / "n", l1, ethereum_allow_no_debug_hosts=False) as node:
        wait_for(node, chain)


def test_a_provider_without_old_logs_stops_the_start(tmp_path: Path, l1: PublishingL1) -> None:
    def prune(method: str, _parameters: Any, result: Any) -> Any:
        if method == "eth_getLogs":
            raise RejectionError(-32000, "pruned history unavailable")
        return result

    l1.tamper = prune
    reason = r"L1 node 1: it does not give the logs of L1 block \d+, from which on .*: pruned history"
    with pytest.raises(StartError, match=reason), deriving(tmp_path / "n", l1):
        raise AssertionError


def test_a_provider_that_is_silent_about_old_logs_ends_the_node(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1
) -> None:
    with deriving(tmp_path / "n", l1) as node:
        wait_for(node, chain)
    l1.mine(l1.finality)
    l1.tamper = lambda method, _parameters, result: [] if method == "eth_getLogs" else result
    with deriving(tmp_path / "n", l1) as node:
        node.wait_for_failure(StartError, ", in which checkpoint 3 was proposed")


def test_a_provider_without_the_state_of_the_final_block_is_named(
    tmp_path: Path, chain: MadeChain, l1: PublishingL1, caplog: pytest.LogCaptureFixture
) -> None:
    def prune(method: str, parameters: Any, result: Any) -> Any:
        if method == "eth_call" and parameters[1] == "finalized":
            raise RejectionError(-32000, "missing trie node")
        return result

    l1.tamper = prune
    with deriving(tmp_path / "n", l1) as node:
        wait_for(node, chain)
    lines = [record for record in caplog.records if record.message == "an L1 node prunes too early"]
    assert len(lines) == 1


def test_an_l1_node_of_another_chain_stops_the_start(tmp_path: Path, l1: PublishingL1) -> None:
    wrong = l1.chain_id + 1
    with (
        pytest.raises(StartError, match=f"it is a node of chain {l1.chain_id}, the rollup is on {wrong}"),
        deriving(tmp_path / "n", l1, l1_chain_id=wrong),
    ):
        raise AssertionError


def test_keys_of_consensus_clients_go_where_they_are_wanted(tmp_path: Path, chain: MadeChain, l1: PublishingL1) -> None:
    with deriving(tmp_path / "a", l1, l1_consensus_host_api_keys=("secret",)) as node:
        wait_for(node, chain)
    assert all("key=secret" in path for path in l1.beacon.requests)
    l1.beacon.requests.clear()
    l1.beacon.headers.clear()
    headers = {"l1_consensus_host_api_keys": ("secret",), "l1_consensus_host_api_key_headers": ("X-Key",)}
    with deriving(tmp_path / "b", l1, **headers) as node:
        wait_for(node, chain)
    assert all("key=" not in path for path in l1.beacon.requests)
    assert all(found.get("X-Key") == "secret" for found in l1.beacon.headers)


def test_more_keys_than_clients_are_refused(tmp_path: Path, l1: PublishingL1) -> None:
    with (
        pytest.raises(SettingError, match="2 values for 1"),
        deriving(tmp_path / "n", l1, l1_consensus_host_api_keys=("a", "b")),
    ):
        raise AssertionError
