"""A chain of release 6.x, made by the builder of blocks, and derived again from L1 and blobs alone.

L1 is a model of its contracts: the Inbox counts messages and rolls their hash, and a proposal has the hint of a bucket.
No rollup of 6.x was at hand: what is proven here is that this node builds and derives by the same rules.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.sources.l1.derivation.attesting import address_of, sign
from tests.sources.l1.derivation.test_release_5 import COMMITTEE, MESSAGES_TO_L1, Made, derive, settings_of
from tests.sources.l1.publishing import PublishingL1, served

from fastnode.app.stages.origins import Origins
from fastnode.archiver.messages import message_count, messages_of_stored_block
from fastnode.chain_data import ChainData
from fastnode.config.settings import Settings
from fastnode.data_check import check_data
from fastnode.development.synthetic_chain import ChainShape, SyntheticChain
from fastnode.errors import StartError, UpstreamFault
from fastnode.protocol.effects_tree import effects_root
from fastnode.protocol.inbox_hash import rolled_inbox
from fastnode.protocol.releases import SIX
from fastnode.sources.chain_export import block_line
from fastnode.sources.l1.inbox import CompactInbox

ARCHIVE_ROOT = "0x29eb2c527f8d45276430363214e6c8d709ef3f657a3670ebac3179373d41e5c4"
#: More than one block of a checkpoint can take.
SHAPE = ChainShape(blocks=1_000_000, txs=2, nullifiers=2, writes=2, l1_to_l2=300)


@pytest.fixture(scope="module")
def l1() -> Iterator[PublishingL1]:
    """A rollup with the roots and the genesis of the release, and no checkpoint yet."""
    record = SyntheticChain(SHAPE, SIX)._chain_record()
    constants = record["l1Constants"] | {"genesisArchiveRoot": ARCHIVE_ROOT}
    with served(PublishingL1(record["nodeInfo"], constants)) as l1:
        l1.circuits = SIX.roots
        l1.inbox_form = SIX.inbox_form
        l1.committee_size = len(COMMITTEE)
        l1.mine(committees=tuple((epoch, tuple(map(address_of, COMMITTEE))) for epoch in range(200)))
        yield l1


def publish_next(l1: PublishingL1, made: Made, *blocks: Any) -> None:
    made.checkpoint(*blocks)
    published, messages = made.published[-1]
    l1.send(*messages)
    sheet = l1.sheet(published)
    sign(sheet, COMMITTEE, (0, 1, 3))
    l1.publish(sheet)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, l1: PublishingL1) -> Iterator[Made]:
    """Three checkpoints of one, two and three blocks, with 300 messages each."""
    learned = Origins(Settings(**settings_of(l1)), lambda: None)
    try:
        chain, genesis = learned.learn_chain()
    finally:
        learned.interrupt()
        learned.close()
    with ExitStack() as stack:
        made = Made(tmp_path_factory.mktemp("made"), chain, genesis, stack, SHAPE)
        publish_next(l1, made, [made.effect()], [])
        publish_next(l1, made, [made.effect(l2_to_l1_msgs=MESSAGES_TO_L1)], [made.effect()])
        publish_next(l1, made, [made.effect()], [made.effect(), made.effect()], [made.effect()])
        yield made


def test_the_chain_that_was_built_is_derived_from_l1_and_blobs_alone(
    tmp_path: Path, l1: PublishingL1, made: Made
) -> None:
    with ExitStack() as stack:
        node = derive(tmp_path / "node", l1, made, stack)
        chain, view = node.data.store.chain, node.ingestor.view
        assert (chain.release, chain.node_version) == (SIX, "6.0.0")
        assert node.data.state.view.tip == made.data.state.view.tip
        for number in range(1, view.tip_number + 1):
            block = view.load_block(number)
            assert block == made.ingestor.view.load_block(number)
            assert block is not None
            assert block.header.tx_effects_tree_root == effects_root(block.body.tx_effects)
        assert check_data(node.data).problems == []


def test_each_block_appends_its_own_messages_without_padding(made: Made) -> None:
    view = made.ingestor.view
    assert [len(messages_of_stored_block(view, number)) for number in range(1, 5)] == [256, 44, 256, 44]
    assert message_count(view, view.tip_number) == 900
    leaves = [message for number in (1, 2, 3) for message in view.l1_to_l2_messages(number)]
    assert [view.l1_to_l2_message_index(leaf) for leaf in leaves] == list(range(900))
    header = json.loads(view.checkpoint(3).header_json)  # type: ignore[union-attr]
    assert header["inboxRollingHash"] == "0x" + rolled_inbox(bytes(32), leaves, "separated").hex()


def test_a_block_that_is_published_alone_has_the_messages_that_it_appends(made: Made) -> None:
    view = made.ingestor.view
    for number in range(1, view.tip_number + 1):
        appended = ["0x" + message.hex() for message in messages_of_stored_block(view, number)]
        assert json.loads(block_line(view, number)).get("l1ToL2Messages", []) == appended


def test_blocks_that_are_undone_take_their_messages_with_them(tmp_path: Path, l1: PublishingL1, made: Made) -> None:
    with ExitStack() as stack:
        derive(tmp_path / "node", l1, made, stack)
    with ChainData.open(tmp_path / "node") as data:
        ingestor = data.open_ingestor(verify=True)
        whole = ingestor.view.l1_to_l2_messages(3)
        ingestor.undo_above(5)
        assert ingestor.view.l1_to_l2_messages(3) == whole[:256]
        assert check_data(data).problems == []
        ingestor.undo_above(4)
        assert ingestor.view.l1_to_l2_messages(3) == []
        assert all(ingestor.view.l1_to_l2_message_index(message) is None for message in whole)
        assert check_data(data).problems == []


def test_an_inbox_with_another_form_of_rolling_hash_is_refused_with_both(tmp_path: Path, made: Made) -> None:
    inbox = CompactInbox(bytes(20), 1, "separated")
    leaf = b"\1" * 32
    rolling = rolled_inbox(bytes(32), [leaf], "plain")
    log = {
        "topics": [CompactInbox.EVENT.topic, "0x" + leaf.hex()],
        "data": "0x" + rolling.hex() + bytes(8 * 32).hex(),
    }
    with pytest.raises(UpstreamFault, match="the form 'plain', the record of the release says 'separated'"):
        inbox._add(log)


def test_a_rollup_with_another_genesis_is_refused_with_both_roots() -> None:
    record = SyntheticChain(SHAPE, SIX)._chain_record()
    constants = record["l1Constants"] | {"genesisArchiveRoot": "0x" + "00" * 31 + "01"}
    with served(PublishingL1(record["nodeInfo"], constants)) as l1:
        l1.circuits = SIX.roots
        learned = Origins(Settings(**settings_of(l1)), lambda: None)
        try:
            with pytest.raises(StartError, match=f"archive root is 0x0+1, known are {ARCHIVE_ROOT}"):
                learned.learn_chain()
        finally:
            learned.interrupt()
            learned.close()
