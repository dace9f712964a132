"""Chains of wallets' shape and what is true of them: databases that were never killed, pruned or made thin."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import orjson
import pytest
from tests.power_cut.life import Fork, fork_of
from tests.world_state.verifier import HEIGHTS, IndexedLeafWitness, LeafWitness, Verifier

from fastnode.archiver.queries import ChainView
from fastnode.chain_data import ChainData
from fastnode.development import synthetic_content
from fastnode.development.synthetic_chain import ChainShape, SyntheticChain
from fastnode.errors import BlockPruned, BlockUnavailable
from fastnode.log_index.known_tags import KnownTags
from fastnode.log_index.range_queries import AnswerLimits, find_class_logs, find_public_logs, span_of_blocks
from fastnode.log_index.tag_queries import private_logs_by_tags, public_logs_by_tags
from fastnode.protocol.block import L2Block
from fastnode.protocol.releases import FOUR
from fastnode.sources.chain_file import ChainFileWriter
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file
from fastnode.world_state.view import WorldStateView

FILES: Final = ("one.jsonl", "other.jsonl")
BLOCKS: Final = 60
#: The first checkpoint that is another one on the second fork.
PARTING: Final = 13
_ALL: Final = AnswerLimits(1 << 30, 1 << 40)


def write_forks(folder: Path) -> list[Path]:
    """Two chain files with a common beginning."""
    files = [folder / name for name in FILES]
    shape = ChainShape(blocks=BLOCKS, txs=2, wallets=True, commitments=False, blocks_per_checkpoint=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic_content, "LONG_SHARE", 1 / 50)
        for file in files:
            chain, number = SyntheticChain(shape, FOUR), 0
            with ChainFileWriter(file) as writer:
                for kind, members in chain.lines():
                    writer.write(kind, members)
                    number += kind == b"checkpoint"
                    if number == PARTING - 1 and file is files[1]:
                        chain._content._source.seed(file.name)
    return files


def make_truth(folder: Path) -> None:
    """Write both chain files, and import each into a data directory of its own."""
    for file in write_forks(folder):
        with ChainData.open(folder / file.stem) as data:
            adopt_chain_file(data.store, file)
            import_chain_file(data.open_ingestor(verify=False), file)


class Truth:
    """Both forks of a folder that :func:`make_truth` has filled, opened."""

    def __init__(self, folder: Path) -> None:
        self.files = [folder / name for name in FILES]
        self.forks: list[Fork] = [fork_of(file) for file in self.files]
        self.verifier = Verifier()
        self._resources = ExitStack()
        self._data = [self._resources.enter_context(ChainData.open(folder / file.stem)) for file in self.files]

    def close(self) -> None:
        self._resources.close()

    def fork_with(self, number: int, block_hash: bytes) -> int:
        """The fork that has the block."""
        for fork, chain in enumerate(self.forks):
            if number == 0 or chain.hashes.get(number) == block_hash:
                return fork
        raise AssertionError(f"block {number} is of no chain: 0x{block_hash.hex()}")

    # ---- judgement -----------------------------------------------------------------------------

    def judge(self, data: ChainData, chain: ChainView, dice: random.Random, looks: int) -> int:
        """Compare answers about random blocks with those of the fork; returns the number of the fork."""
        tip = chain.block_info(chain.tip_number)
        assert tip is not None
        fork = self.fork_with(tip.number, tip.hash)
        true = self._data[fork]
        state = data.state.view
        assert (state.tip.number, state.tip.block_hash) == (tip.number, tip.hash)
        with true.store.open_view() as true_chain:
            for number in {tip.number, state.oldest, *(dice.randint(0, tip.number) for _ in range(looks))}:
                self._judge_block(chain, true_chain, number)
                self._judge_state(state, true, true_chain, number, dice)
            self._judge_logs(chain, true_chain, dice)
        return fork

    def _judge_block(self, chain: ChainView, true: ChainView, number: int) -> None:
        assert chain.header_json(number) == true.header_json(number)
        assert chain.tx_hashes(number) == true.tx_hashes(number)
        hashes = true.tx_hashes(number) or []
        for tx in hashes:
            assert chain.tx_location(tx) == true.tx_location(tx)
        if 0 < number < chain.oldest_body and hashes:
            with pytest.raises(BlockPruned):
                chain.body_json(number)
            return
        assert chain.body_json(number) == true.body_json(number)

    def _judge_state(
        self, state: WorldStateView, data: ChainData, chain: ChainView, number: int, dice: random.Random
    ) -> None:
        true = data.state.view
        keys = self._keys(chain, dice)
        if number < state.oldest:
            with pytest.raises(BlockUnavailable):
                state.low_nullifier_witness(keys[0], number)
            return
        record = state.record(number)
        assert record == true.record(number)
        block = chain.load_block(number) if number else None
        if block is not None:
            assert record.roots == roots_of(block)
        roots = dict(zip(("nullifier", "note hash", "public data", "message", "archive"), record.roots, strict=True))
        for key in keys:
            for ask in (WorldStateView.low_nullifier_witness, WorldStateView.public_data_witness):
                witness = ask(state, key, number)
                assert witness == ask(true, key, number)
                tree, value = "nullifier", None
                if ask is WorldStateView.public_data_witness:
                    tree, value = "public data", witness.value
                given = IndexedLeafWitness(
                    witness.index, witness.key, value, witness.next_key, witness.next_index, witness.path
                )
                require = self.verifier.require_present if witness.key == key else self.verifier.require_absent
                require(given, key, roots[tree], HEIGHTS[tree])
            assert state.public_data_value(key, number) == true.public_data_value(key, number)
            assert state.find_leaves(0, [key], number) == true.find_leaves(0, [key], number)
        if number and block is not None and dice.random() < 0.5:
            older = dice.randrange(number)
            block_hash = true.block_hash(older)
            place = state.block_hash_witness(block_hash, number)
            assert place is not None
            archive = block.header.last_archive.root
            self.verifier.require_leaf(LeafWitness(place.index, place.path), block_hash, archive, HEIGHTS["archive"])

    def _keys(self, chain: ChainView, dice: random.Random) -> list[bytes]:
        """A nullifier and a slot of some block, maybe a later one, and one of none."""
        while True:
            block = chain.load_block(dice.randint(1, BLOCKS))
            assert block is not None
            effects = [effect for effect in block.body.tx_effects if effect.public_data_writes]
            if effects:
                effect = dice.choice(effects)
                return [effect.nullifiers[-1], effect.public_data_writes[0].leaf_slot, b"\0" + dice.randbytes(31)]

    def _judge_logs(self, chain: ChainView, true: ChainView, dice: random.Random) -> None:
        if not chain.tip_number:
            return
        first = dice.randint(1, chain.tip_number)
        span = span_of_blocks(first, chain.tip_number + 1)
        for find in (find_public_logs, find_class_logs):
            if first < chain.oldest_body:
                with pytest.raises(BlockPruned):
                    find(chain, span, _ALL)
            else:
                assert find(chain, span, _ALL).logs == find(true, span, _ALL).logs
        known = KnownTags(1 << 12)
        block = true.load_block(first)
        assert block is not None
        for effect in block.body.tx_effects:
            for private in effect.private_logs[:2]:
                self._judge_tag(partial(ask_private, known), private.fields[0], chain, true)
            for public in effect.public_logs[:2]:
                contract = public.contract_address
                self._judge_tag(partial(ask_public, known, contract), public.fields[0], chain, true)

    def _judge_tag(
        self, ask: Callable[[ChainView, bytes], bytes], tag: bytes, chain: ChainView, true: ChainView
    ) -> None:
        """Compare the first page of a tag, whose later logs the chain does not have yet."""
        (logs,) = orjson.loads(ask(true, tag))
        logs = [log for log in logs if log["blockNumber"] <= chain.tip_number]
        if any(log["blockNumber"] < chain.oldest_body for log in logs):
            with pytest.raises(BlockPruned):
                ask(chain, tag)
        else:
            assert orjson.loads(ask(chain, tag)) == [logs]


def ask_private(known: KnownTags, view: ChainView, tag: bytes) -> bytes:
    return private_logs_by_tags(view, known, tag, 0)


def ask_public(known: KnownTags, contract: bytes, view: ChainView, tag: bytes) -> bytes:
    return public_logs_by_tags(view, known, contract, tag, 0)


def roots_of(block: L2Block) -> tuple[bytes, ...]:
    """Roots of the five trees after a block, as its header has them."""
    state = block.header.state
    trees = state.nullifier_tree, state.note_hash_tree, state.public_data_tree, state.l1_to_l2_message_tree
    return (*(tree.root for tree in trees), block.archive.root)
