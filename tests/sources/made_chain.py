"""A chain that grows, goes back and grows otherwise: true blocks, made as they are needed."""

from __future__ import annotations

import atexit
import copy
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from fastnode.development import synthetic_chain as synthetic
from fastnode.development.synthetic_chain import ChainShape, SyntheticChain
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import Body, TxEffect
from fastnode.protocol.fields import hex_text
from fastnode.protocol.genesis import genesis_tips
from fastnode.protocol.releases import FOUR, Release
from fastnode.protocol.tips import BlockId, L2Tips, TipId
from fastnode.world_state.apply import BlockDraft
from fastnode.world_state.state import WorldState

Json = dict[str, Any]

SHAPE = ChainShape(blocks=1_000_000, txs=2, nullifiers=2, writes=2, l1_to_l2=2, vary=True)
#: Checkpoints of 1, 2 and 4 such blocks take 2, 3 and 6 blobs: the least, a usual number, and as many as L1 takes.
LARGE_SHAPE = ChainShape(blocks=1_000_000, txs=1, nullifiers=2, writes=2, l1_to_l2=2, private_logs=64, public_logs=682)
BLOCKS_OF_LARGE = (1, 2, 4)
BLOBS_OF_LARGE = (2, 3, 6)


@dataclass
class Unit:
    """A checkpoint, published or in the making."""

    number: int
    making: Any
    sponges: list[Any] = field(default_factory=list)  # before each block
    published: Json | None = None
    tip: TipId | None = None

    @property
    def blocks(self) -> list[L2Block]:
        return [made.block for made in self.making.blocks]

    @property
    def messages(self) -> list[str]:
        return [hex_text(message) for message in self.making.messages]

    @property
    def in_hash(self) -> bytes:
        """Of the header of a published one."""
        assert self.published is not None
        header = self.published["checkpoint"]["header"]
        return bytes.fromhex(header.get("inHash", header.get("inboxRollingHash"))[2:])


class MadeChain:
    """All blocks and checkpoints of the present fork, from number 1 on."""

    epoch_slots = synthetic.EPOCH_SLOTS
    kind: type[SyntheticChain] = SyntheticChain

    def __init__(self, directory: Path, shape: ChainShape = SHAPE, release: Release = FOUR) -> None:
        self.release = release
        self._chain = self.kind(shape, release)
        self._state = WorldState(directory, self._chain.genesis, rules=release.trees)
        self.units: list[Unit] = []
        self.genesis = self._chain.genesis.to_json()
        self.chain_record = self._chain._chain_record()
        self.proven = self.finalized = 0  # checkpoint numbers

    def close(self) -> None:
        self._state.close()

    # ---- growing -----------------------------------------------------------------------------

    def propose(self, count: int = 1, *effects: TxEffect) -> None:
        """More blocks behind the newest one, in the checkpoint that is in the making; with ``effects``, if given."""
        chain = self._chain
        if not self.units or self.units[-1].published is not None:
            chain._slot += 1
            making = synthetic._CheckpointInTheMaking(chain._globals_of_slot(), chain._content.messages())
            self.units.append(Unit(len(self.units) + 1, making))
        unit = self.units[-1]
        for _ in range(count):
            unit.sponges.append((unit.making._sponge, unit.making.blob_fields))
            body = Body(effects) if effects else chain._content.body()
            while not body.tx_effects:  # two empty blocks of one slot are the same block
                body = chain._content.body()
            chain._make_block(self._state, unit.making, body, unit.number)

    def publish(self) -> None:
        """The checkpoint in the making reaches L1."""
        unit = self.units[-1]
        assert unit.published is None
        slot = unit.making._variables.slot_number
        self._chain._out_hashes = {slot // synthetic.EPOCH_SLOTS: self._out_hashes(slot // self.epoch_slots)}
        _, members = self._chain._checkpoint_line(unit.making.blocks)
        unit.published = orjson.loads(b"{" + members + b"}")["published"]
        unit.tip = self._chain._checkpoints.pop()
        self._chain._checkpoints.append(unit.tip)

    def _out_hashes(self, epoch: int) -> list[bytes]:
        hashes = []
        for unit in self.units[:-1]:
            if unit.making._variables.slot_number // self.epoch_slots == epoch:
                messages = [synthetic.messages_of_block(block) for block in unit.blocks]
                hashes.append(synthetic.checkpoint_out_hash(messages))
        return hashes

    def checkpoint(self, blocks: int = 1) -> None:
        self.propose(blocks)
        self.publish()

    # ---- going back --------------------------------------------------------------------------

    def undo_to(self, number: int) -> None:
        """Take back every block above ``number``; what comes then is another fork."""
        self._state.undo_above(number)
        while self.units and (not self.units[-1].blocks or self.units[-1].blocks[0].number > number):
            self.units.pop()
        if self.units and self.units[-1].blocks[-1].number > number:
            unit = self.units[-1]
            kept = sum(block.number <= number for block in unit.blocks)
            unit.making._sponge, unit.making.blob_fields = unit.sponges[kept]
            del unit.making.blocks[kept:], unit.sponges[kept:]
            unit.published = unit.tip = None
        del self._chain._checkpoints[1 + sum(unit.published is not None for unit in self.units) :]
        self._chain._proposed = self.block_id(number)
        self.proven = min(self.proven, self.checkpoint_count)
        self.finalized = min(self.finalized, self.proven)

    def take_up(self, unit: Unit) -> None:
        """Append a whole checkpoint that was taken back, behind the block that it was made on."""
        assert unit.number == len(self.units) + 1
        for index, made in enumerate(unit.making.blocks):
            draft = BlockDraft(made.block.body, unit.number, index)
            block, prepared = self._state.build(draft, made.messages or (), lambda *_, made=made: made.block.header)
            assert block == made.block
            self._state.commit(prepared)
        self.units.append(unit)
        assert unit.tip is not None
        self._chain._checkpoints.append(unit.tip)
        self._chain._in_hashes[unit.number] = unit.in_hash
        self._chain._proposed = self.block_id(self.tip)

    # ---- looking -----------------------------------------------------------------------------

    def write_genesis(self, path: Path) -> Path:
        """A chain file that has the genesis and nothing else, at ``path``."""
        lines = ({"kind": "chain", "version": 1, **self.chain_record}, {"kind": "genesis", **self.genesis})
        path.write_text("".join(orjson.dumps(line).decode() + "\n" for line in lines))
        return path

    @property
    def tip(self) -> int:
        return self._state.view.tip.number

    @property
    def checkpoint_count(self) -> int:
        return sum(unit.published is not None for unit in self.units)

    @property
    def blocks(self) -> list[L2Block]:
        return [block for unit in self.units for block in unit.blocks]

    def block_id(self, number: int) -> BlockId:
        if number == 0:
            return genesis_tips().proposed
        return BlockId(number, self._state.view.block_hash(number))

    def tips(self) -> L2Tips:
        published = [unit.tip for unit in self.units if unit.tip is not None]
        all_tips = [genesis_tips().checkpointed, *published]
        newest = len(published)
        return L2Tips(
            self.block_id(self.tip), all_tips[newest], all_tips[self.proven], all_tips[min(self.finalized, newest)]
        )


def as_stored(tips: L2Tips, genesis: BlockId) -> L2Tips:
    """What a fastnode says where a published node says ``tips``: that names block 0 by a constant."""
    first = TipId(genesis, genesis_tips().checkpointed.checkpoint)
    later = [tip if tip.checkpoint.number else first for tip in (tips.checkpointed, tips.proven, tips.finalized)]
    return L2Tips(tips.proposed if tips.proposed.number else genesis, *later)


@contextmanager
def made_chain(directory: Path, shape: ChainShape = SHAPE, release: Release = FOUR) -> Iterator[MadeChain]:
    chain = MadeChain(directory, shape, release)
    try:
        yield chain
    finally:
        chain.close()


@contextmanager
def grown_chain(
    directory: Path, *blocks: int, proposed: int = 0, shape: ChainShape = SHAPE, release: Release = FOUR
) -> Iterator[MadeChain]:
    """A made chain with checkpoints of so many blocks, and proposed blocks behind them.

    The same arguments make the same chain, so all but the first are copies of it.
    """
    key = shape, id(release), blocks, proposed
    if key not in _grown:
        _grown[key] = _grow(shape, release, blocks, proposed)
    chain = _copied(*_grown[key], directory)
    try:
        yield chain
    finally:
        chain.close()


#: Closed chains and their folders, neither to be changed.
_grown: dict[tuple[object, ...], tuple[MadeChain, Path]] = {}


def _grow(shape: ChainShape, release: Release, blocks: tuple[int, ...], proposed: int) -> tuple[MadeChain, Path]:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with made_chain(folder / "made", shape, release) as chain:
        for count in blocks:
            chain.checkpoint(count)
        if proposed:
            chain.propose(proposed)
    del chain._state
    return chain, folder / "made"


def _copied(grown: MadeChain, folder: Path, directory: Path) -> MadeChain:
    making = grown._chain
    shared = (grown.release, making.genesis, making._sample_chain, making._sample_genesis)
    chain = MadeChain.__new__(MadeChain)
    vars(chain).update(copy.deepcopy(vars(grown), {id(part): part for part in shared}))
    shutil.copytree(folder, directory)
    chain._state = WorldState(directory, making.genesis, rules=grown.release.trees)
    return chain
