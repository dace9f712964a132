"""L2 blocks.

Block buffer: header 440 | archive (root 32, size u32) | body | checkpointNumber u32 | indexWithinCheckpoint u32.
"""

from __future__ import annotations

from typing import Any, Self

from fastnode.protocol.effects import Body
from fastnode.protocol.fields import as_record, join_path, read_number, read_value
from fastnode.protocol.header import HEADER_BYTES, SNAPSHOT_BYTES, AppendOnlyTreeSnapshot, BlockHeader
from fastnode.protocol.reader import ByteReader
from fastnode.records import dataclass


@dataclass(frozen=True, slots=True)
class L2Block:
    """A block; ``archive`` is the archive tree after it, so its size is the block number + 1."""

    archive: AppendOnlyTreeSnapshot
    header: BlockHeader
    body: Body
    checkpoint_number: int
    index_within_checkpoint: int

    @property
    def number(self) -> int:
        return self.header.global_variables.block_number

    def hash(self) -> bytes:
        """The block hash (32 bytes); computed on every call."""
        return self.header.hash()

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        return cls(
            archive=AppendOnlyTreeSnapshot.from_json(read_value(record, "archive", path), join_path(path, "archive")),
            header=BlockHeader.from_json(read_value(record, "header", path), join_path(path, "header")),
            body=Body.from_json(read_value(record, "body", path), join_path(path, "body")),
            checkpoint_number=read_number(record, "checkpointNumber", path),
            index_within_checkpoint=read_number(record, "indexWithinCheckpoint", path),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "archive": self.archive.to_json(),
            "header": self.header.to_json(),
            "body": self.body.to_json(),
            "checkpointNumber": self.checkpoint_number,
            "indexWithinCheckpoint": self.index_within_checkpoint,
        }

    def to_buffer(self) -> bytes:
        return b"".join(
            (
                self.header.to_buffer(),
                self.archive.to_buffer(),
                self.body.to_buffer(),
                self.checkpoint_number.to_bytes(4, "big"),
                self.index_within_checkpoint.to_bytes(4, "big"),
            )
        )

    @classmethod
    def from_buffer(cls, buffer: bytes) -> Self:
        """The inverse of :meth:`to_buffer`; DecodeError for anything else."""
        reader = ByteReader(buffer, "block")
        header = BlockHeader.from_buffer(reader.take(HEADER_BYTES))
        archive = AppendOnlyTreeSnapshot.from_buffer(reader.take(SNAPSHOT_BYTES))
        body = Body.read(reader)
        block = cls(archive, header, body, reader.unsigned(4), reader.unsigned(4))
        reader.finish()
        return block
