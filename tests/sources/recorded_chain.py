"""The bundled chain, served block by block, with made-up forks in between."""

from __future__ import annotations

from pathlib import Path

from tests.sources.made_chain import SHAPE, MadeChain, Unit

from fastnode.archiver.source import CheckpointRecord, TipsRecord
from fastnode.development import synthetic_chain as synthetic
from fastnode.development.synthetic_chain import SyntheticBlock, SyntheticChain
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tips import BlockId, CheckpointId, L2Tips, TipId
from fastnode.sources.chain_file import ChainFileSource
from fastnode.world_state.state import WorldState


class RecordedChain(MadeChain):
    """Grows along a chain file (:meth:`reveal`); :meth:`fork` leaves it and :meth:`return_` comes back."""

    def __init__(self, directory: Path, chain_file: Path) -> None:
        made = directory / "made"
        made.mkdir(parents=True)
        self.release = FOUR
        self._chain = SyntheticChain(SHAPE, FOUR)
        with ChainFileSource(chain_file) as source:
            self.genesis, self.chain_record = source.genesis.to_json(), source.chain.to_json()
            self._chain.genesis = source.genesis
            self._chain.rollup_version = int(self.chain_record["nodeInfo"]["rollupVersion"])
            records = list(source.records())
        self.recorded = [record for record in records if isinstance(record, CheckpointRecord)]
        self.recorded_tips: L2Tips = next(record.tips for record in records if isinstance(record, TipsRecord))
        self._blocks = [(block, record) for record in self.recorded for block in record.published.checkpoint.blocks]
        self.epoch_slots = int(self.chain_record["l1Constants"]["epochDuration"])
        self._state = WorldState(directory / "state", self._chain.genesis, rules=FOUR.trees)
        self.units: list[Unit] = []
        self.proven = self.finalized = 0
        self.fork_point: int | None = None

    @property
    def length(self) -> int:
        return len(self._blocks)

    @property
    def is_complete(self) -> bool:
        return self.fork_point is None and self.tip == self.length and self.checkpoint_count == len(self.recorded)

    def reveal(self) -> None:
        """The next recorded block, or the publication of its checkpoint when all of its blocks are there."""
        assert self.fork_point is None
        unit = self.units[-1] if self.units else None
        if unit is not None and unit.published is None:
            record = self.recorded[unit.number - 1]
            if len(unit.blocks) == len(record.published.checkpoint.blocks):
                unit.published = record.published.to_json()
                header = record.published.checkpoint.header
                unit.tip = TipId(self.block_id(self.tip), CheckpointId(unit.number, header.hash()))
                self._chain._checkpoints.append(unit.tip)
                return
        block, record = self._blocks[self.tip]
        if block.index_within_checkpoint == 0:
            making = synthetic._CheckpointInTheMaking(block.header.global_variables, record.l1_to_l2_messages)
            self.units.append(Unit(block.checkpoint_number, making))
        unit = self.units[-1]
        unit.sponges.append((unit.making._sponge, unit.making.blob_fields))
        unit.making.absorb(block, synthetic._fields_of(block.body))
        messages = record.l1_to_l2_messages if block.index_within_checkpoint == 0 else None
        unit.making.blocks.append(SyntheticBlock(block, messages))
        self._state.commit(self._state.prepare(block, messages or ()))
        self._chain._proposed = BlockId(block.number, block.hash())

    def fork(self, depth: int, blocks: int) -> None:
        """Other blocks from ``depth`` below the tip on, but never below the finalized one."""
        self.undo_to(max(self.tips().finalized.block.number, self.tip - depth))
        if self.fork_point is None or self.tip < self.fork_point:
            self.fork_point = self.tip
        if self.units:
            self._chain._slot = self.units[-1].making._variables.slot_number
        self.propose(blocks)

    def return_(self) -> None:
        """The fork loses, and the next recorded blocks are there already, so that the chain gets longer."""
        assert self.fork_point is not None
        tip = self.tip
        self.undo_to(self.fork_point)
        self.fork_point = None
        while self.tip <= tip and not self.is_complete:
            self.reveal()

    def move_tips(self) -> None:
        """Proven and finalized follow the newest checkpoint, as far as they went when the chain was recorded."""
        recorded = self.recorded_tips
        count = self.checkpoint_count if self.fork_point is None else self.proven
        self.proven = max(self.proven, min(count, recorded.proven.checkpoint.number))
        lagging = self.proven if self.is_complete else self.proven - 12
        self.finalized = max(self.finalized, min(lagging, recorded.finalized.checkpoint.number))
