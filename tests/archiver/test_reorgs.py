"""Random walks: blocks, checkpoints, reorgs and restarts in any order leave what a straight import would."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fastnode.archiver.ingest import Ingestor, Verification
from fastnode.archiver.source import BlockRecord, CheckpointRecord, UndoRecord
from fastnode.archiver.store import ArchiverStore
from fastnode.protocol.block import L2Block
from fastnode.sources.chain_import import adopt_chain_file
from fastnode.storage.database import WriteBatch

if TYPE_CHECKING:
    from tests.archiver.conftest import SampleChain

Json = dict[str, Any]

STEPS = 200
DEPTH_MAX = 32


class Fork:
    """The bundled chain with other archive roots from some block on: a chain that parted there."""

    def __init__(self, sample: SampleChain) -> None:
        self._checkpoints = [sample.checkpoint_json(number) for number in range(1, sample.checkpoint_count + 1)]
        self._blocks = [block for record in self._checkpoints for block in blocks_of(record)]

    @property
    def length(self) -> int:
        return len(self._blocks)

    def part_after(self, number: int, salt: int) -> None:
        for index in range(number, len(self._blocks)):
            block = self._blocks[index]
            block["archive"]["root"] = f"0x{salt:032x}{index:032x}"
            if index > 0:
                block["header"]["lastArchive"]["root"] = self._blocks[index - 1]["archive"]["root"]
        for record in self._checkpoints:
            record["published"]["checkpoint"]["archive"] = dict(blocks_of(record)[-1]["archive"])

    def block_hashes(self, count: int) -> list[bytes]:
        return [L2Block.from_json(block).hash() for block in self._blocks[:count]]

    def block_record(self, number: int) -> BlockRecord:
        block = self._blocks[number - 1]
        is_first = block["indexWithinCheckpoint"] == 0
        messages = self._checkpoints[block["checkpointNumber"] - 1]["l1ToL2Messages"] if is_first else []
        return BlockRecord({"block": block, "l1ToL2Messages": messages})

    def checkpoint_record(self, number: int) -> CheckpointRecord:
        return CheckpointRecord(self._checkpoints[number - 1])

    def last_block_of(self, checkpoint_number: int) -> int:
        return sum(len(blocks_of(record)) for record in self._checkpoints[:checkpoint_number])

    @property
    def checkpoint_count(self) -> int:
        return len(self._checkpoints)


def blocks_of(record: Json) -> list[Json]:
    return record["published"]["checkpoint"]["blocks"]


class Trees:
    """Stands in for the state trees: the hashes of the blocks it was given."""

    def __init__(self) -> None:
        self.hashes: list[bytes] = []

    @property
    def block_number(self) -> int:
        return len(self.hashes)

    @property
    def block_hash(self) -> bytes:
        return self.hashes[-1]

    def prepare(self, block: L2Block, l1_to_l2_messages: Sequence[bytes], final_checkpoint: int) -> bytes:
        assert block.number == self.block_number + 1
        return block.hash()

    def commit(self, prepared: bytes) -> None:
        self.hashes.append(prepared)

    def newest_of_runs(self, final_checkpoint: int) -> int:
        return 0

    def prepare_run(self, blocks: Sequence[tuple[L2Block, Sequence[bytes]]]) -> Any:
        raise NotImplementedError

    def settle(self, finalized: int) -> None:
        assert finalized <= self.block_number

    def undo_above(self, block_number: int) -> None:
        del self.hashes[block_number:]


class Nullifiers:
    """An index that would show every block that was written twice or not taken back."""

    prefixes = (b"\x80",)

    def write(self, batch: WriteBatch, block: L2Block) -> None:
        self._add(batch, block, 1)

    def undo(self, batch: WriteBatch, block: L2Block) -> None:
        self._add(batch, block, -1)

    @staticmethod
    def _add(batch: WriteBatch, block: L2Block, sign: int) -> None:
        for effect in block.body.tx_effects:
            for nullifier in effect.nullifiers:
                key = b"\x80" + nullifier
                count = int(batch.get(key) or b"0") + sign
                if count:
                    batch.put(key, b"%d" % count)
                else:
                    batch.delete(key)


class Walk:
    """A source, an archiver and what the archiver must have."""

    def __init__(self, store: ArchiverStore, fork: Fork, steps: random.Random) -> None:
        self._store = store
        self._steps = steps
        self.fork = fork
        self.trees = Trees()
        self.tip = 0
        self.checkpointed = 0
        self.ingestor = self._open()

    def _open(self) -> Ingestor:
        return Ingestor(self._store, verification=Verification.NONE, state=self.trees, index_writers=[Nullifiers()])

    def step(self) -> None:
        self._steps.choices(
            [self.propose, self.publish, self.reorganise, self.repeat, self.restart, self.crash_before_trees],
            weights=[10, 5, 2, 2, 1, 1],
        )[0]()
        view = self.ingestor.view
        assert view.tip_number == self.tip
        assert view.tips.checkpointed.checkpoint.number == self.checkpointed
        assert self.trees.block_number == self.tip

    def propose(self) -> None:
        if self.tip < self.fork.length:
            assert self.ingestor.apply(self.fork.block_record(self.tip + 1)) == 1
            self.tip += 1

    def publish(self) -> None:
        if self.checkpointed < self.fork.checkpoint_count:
            self.checkpointed += 1
            new = max(0, self.fork.last_block_of(self.checkpointed) - self.tip)
            assert self.ingestor.apply(self.fork.checkpoint_record(self.checkpointed)) == new
            self.tip += new

    def reorganise(self) -> None:
        self.tip = max(0, self.tip - self._steps.randint(1, DEPTH_MAX))
        self.ingestor.apply(UndoRecord(self.tip))
        while self.fork.last_block_of(self.checkpointed) > self.tip:
            self.checkpointed -= 1
        self.fork.part_after(self.tip, salt=self._steps.getrandbits(64))

    def repeat(self) -> None:
        if self.tip:
            assert self.ingestor.apply(self.fork.block_record(self._steps.randint(1, self.tip))) == 0
        if self.checkpointed:
            assert self.ingestor.apply(self.fork.checkpoint_record(self._steps.randint(1, self.checkpointed))) == 0

    def restart(self) -> None:
        self.ingestor.close()
        self.ingestor = self._open()
        assert self.ingestor.catch_up() == 0

    def crash_before_trees(self) -> None:
        if self.tip:
            self.trees.hashes.pop()
            self.ingestor.close()
            self.ingestor = self._open()
            assert self.ingestor.catch_up() == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_random_walk_ends_where_a_straight_import_ends(
    sample: SampleChain,
    store: ArchiverStore,
    tmp_path: Path,
    contents: Callable[[ArchiverStore], dict[bytes, bytes]],
    seed: int,
) -> None:
    walk = Walk(store, Fork(sample), random.Random(seed))
    for _ in range(STEPS):
        walk.step()
    assert walk.trees.hashes == walk.fork.block_hashes(walk.tip)
    with ArchiverStore.open(tmp_path / "straight") as other:
        adopt_chain_file(other, sample.path)
        straight = Walk(other, walk.fork, random.Random(seed))
        while straight.checkpointed < walk.checkpointed:
            straight.publish()
        while straight.tip < walk.tip:
            straight.propose()
        assert contents(other) == contents(store)
        straight.ingestor.close()
    walk.ingestor.close()
