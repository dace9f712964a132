"""Reorgs of L1 that bring checkpoints of a followed node into other blocks of L1."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.sources.conftest import FollowingNode, following
from tests.sources.made_chain import MadeChain
from tests.sources.scripted_upstream import RejectionError, ScriptedUpstream

from fastnode.archiver.queries import StoredCheckpoint
from fastnode.archiver.source import MovedRecord, Publication
from fastnode.errors import BlockRejected
from fastnode.protocol.checkpoint import L1PublishedData
from fastnode.sources import moved_checkpoints

Json = dict[str, Any]


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved_checkpoints, "LOOK_S", 0.0)


def move(chain: MadeChain, first: int, mark: int, *, last: int | None = None) -> None:
    """All checkpoints from ``first`` on, up to ``last``, are in other blocks of L1, sent by others."""
    for unit in chain.units[first - 1 : last]:
        if unit.published is not None:
            l1 = unit.published["l1"]
            unit.published["l1"] = l1 | {"blockNumber": str(mark * 1000 + unit.number), "blockHash": f"0x{mark:064x}"}
            signed = f"0x{mark % 251 + 1:0128x}1b"
            unit.published["attestations"] = [{"address": f"0x{mark:040x}", "signature": signed}]


def told(published: Json) -> tuple[Any, Any]:
    return published["l1"], published["attestations"]


def stored(node: FollowingNode) -> list[tuple[Any, Any]]:
    view = node.ingestor.view
    found = [view.checkpoint(number) for number in range(1, view.tips.checkpointed.checkpoint.number + 1)]
    return [(json.loads(each.l1_json), json.loads(each.attestations_json)) for each in found if each is not None]


def wait_for_places(node: FollowingNode, chain: MadeChain) -> None:
    wanted = [told(unit.published) for unit in chain.units if unit.published is not None]
    node.wait(lambda: stored(node) == wanted, "the places on L1")


@pytest.mark.parametrize("knows_data", [True, False])
def test_a_checkpoint_that_a_reorg_of_l1_has_moved_is_named_where_it_is_now(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream, knows_data: bool
) -> None:
    if not knows_data:
        del upstream.answers["node_getCheckpointsData"]
    seen: list[list[tuple[Any, Any]]] = []
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        before = stored(node)
        node.on_published.append(lambda commit: seen.append(stored(node)[:6]))
        with upstream.lock:
            move(chain, 4, mark=7)
            chain.publish()
        wait_for_places(node, chain)
        node.wait_for(chain)
        after = stored(node)
        followed = node.contents()
    assert after[:3] == before[:3]
    assert all(each in (before, after[:6]) for each in seen), "a reader has seen a part of it"
    with following(tmp_path / "fresh", upstream.url) as fresh:
        fresh.wait_for(chain)
        assert fresh.contents() == followed


@pytest.mark.usefixtures("looks_often")
def test_nothing_else_needs_to_happen_for_it(tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        for mark, first in enumerate((6, 3, 5, 4, 6), 1):
            with upstream.lock:
                move(chain, first, mark)
            wait_for_places(node, chain)
        assert node.follower.reorg_count == 0


@pytest.mark.usefixtures("looks_often")
def test_a_node_may_name_the_newest_ones_before_the_others(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    """It was asked in the middle of its own reorg, and the newest place is the right one from then on."""
    source = random.Random(3)
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        for mark in range(1, 13):
            with upstream.lock:
                number = source.randint(chain.finalized + 1, chain.checkpoint_count)
                move(chain, number, mark, last=number)
            wait_for_places(node, chain)


def test_what_is_final_and_what_stands_is_not_read_again(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    asked: list[Json] = []
    answer = upstream.answers["node_getCheckpointsData"]

    def answered(parameters: list[Any]) -> Any:
        asked.append(parameters[0])
        return answer(parameters)

    upstream.answers["node_getCheckpointsData"] = answered
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        for _ in range(3):
            with upstream.lock:
                chain.publish()
            node.wait_for(chain)
            with upstream.lock:
                chain.propose()
            node.wait_for(chain)
    assert asked, "it has not looked at all"
    assert min(query["from"] for query in asked) > 2, "what is final was read again"
    # The first look has all that are not final; each later one those that came since the one before, and one more.
    assert sum(query["limit"] > 2 for query in asked[2:]) <= len(asked) // 2, "and as often some of the others"
    assert all(query["limit"] <= moved_checkpoints.AGAIN_MAX for query in asked[1:])


@pytest.mark.usefixtures("looks_often")
def test_random_reorgs_of_l1_and_of_the_chain_end_with_the_same_places(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    source = random.Random(11)
    with following(tmp_path / "node", upstream.url) as node:
        for mark in range(1, 31):
            with upstream.lock:
                final = chain.tips().finalized
                if source.random() < 0.3:
                    chain.undo_to(max(final.block.number, chain.tip - source.randint(1, 8)))
                chain.propose(source.randint(1, 2))
                if source.random() < 0.7:
                    chain.publish()
                    chain.proven = source.randint(chain.proven, chain.checkpoint_count)
                    chain.finalized = max(chain.finalized, chain.proven - 6)
                if source.random() < 0.6:
                    move(chain, source.randint(chain.finalized + 1, chain.finalized + 6), mark)
            if source.random() < 0.6:  # else the next comes while this one is read
                node.wait_for(chain)
                wait_for_places(node, chain)
        node.wait_for(chain)
        wait_for_places(node, chain)


@pytest.mark.usefixtures("looks_often")
def test_a_node_that_answers_otherwise_moves_nothing(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    answers: list[Any] = [
        [],
        [{}],
        7,
        [{"checkpointNumber": 6, "header": {}, "l1": {}, "attestations": []}],
        RejectionError(-32000, "busy"),
    ]
    answer = upstream.answers["node_getCheckpointsData"]

    def of_another_chain(parameters: list[Any]) -> Any:
        header = answer([{"from": 5, "limit": 1}])[0]["header"]
        return [item | {"header": header, "l1": item["l1"] | {"blockNumber": "1"}} for item in answer(parameters)]

    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        before = stored(node)
        for false in [*answers, None]:
            count = upstream.requests.count("node_getCheckpointsData")

            def answered(parameters: list[Any], false: Any = false) -> Any:
                if isinstance(false, RejectionError):
                    raise false
                return of_another_chain(parameters) if false is None else false

            upstream.answers["node_getCheckpointsData"] = answered
            node.wait(lambda count=count: upstream.requests.count("node_getCheckpointsData") > count + 1)
            assert stored(node) == before
        upstream.answers["node_getCheckpointsData"] = answer
        with upstream.lock:
            move(chain, 5, mark=3)
        wait_for_places(node, chain)


def test_a_place_of_another_checkpoint_is_refused_and_nothing_is_written(
    tmp_path: Path, chain: MadeChain, upstream: ScriptedUpstream
) -> None:
    with following(tmp_path / "node", upstream.url) as node:
        node.wait_for(chain)
        before, place = node.contents(), L1PublishedData(77, 88, bytes(31) + b"\1")
        hashes = {number: checkpoint_of(node, number).header_hash for number in (5, 6)}
        for others in ((6, hashes[5]), (9, hashes[6])):
            publications = [Publication(5, hashes[5], place, ()), Publication(*others, place, ())]
            with pytest.raises(BlockRejected, match=f"checkpoint {others[0]}"):
                node.ingestor.apply(MovedRecord(tuple(publications)))
            assert node.contents() == before


def checkpoint_of(node: FollowingNode, number: int) -> StoredCheckpoint:
    stored = node.ingestor.view.checkpoint(number)
    assert stored is not None
    return stored
