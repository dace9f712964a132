"""L2 blocks.

Block buffer: header 440 | archive (root 32, size u32) | body | checkpointNumber u32 | indexWithinCheckpoint u32.
"""

from __future__ import annotations

from typing import ClassVar

from fastnode.protocol.effects import Body
from fastnode.protocol.header import HEADER, SNAPSHOT, AppendOnlyTreeSnapshot, BlockHeader
from fastnode.protocol.records import Record, member, number, of, record


@record
class L2Block(Record):
    """A block."""

    buffer_order: ClassVar = ("header", "archive", "body", "checkpoint_number", "index_within_checkpoint")

    archive: AppendOnlyTreeSnapshot = member(SNAPSHOT, "Archive tree after the block: its size is the number + 1.")
    header: BlockHeader = member(HEADER)
    body: Body = member(of(Body))
    checkpoint_number: int = member(number())
    index_within_checkpoint: int = member(number())

    @property
    def number(self) -> int:
        return self.header.global_variables.block_number

    def hash(self) -> bytes:
        """The block hash (32 bytes); computed on every call."""
        return self.header.hash()
