"""The four tips of the chain: proposed, checkpointed, proven, finalized.

Rules (release 4.x): *proposed* is the newest local block, in a checkpoint or not; each of the others is
the last block of a checkpoint and carries both identities.
"""

from __future__ import annotations

from typing import Any, Self

from fastnode.protocol.fields import as_record, hex_text, join_path, read_field, read_number, read_value
from fastnode.records import dataclass


@dataclass(frozen=True, slots=True)
class _Id:
    number: int
    hash: bytes

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        return cls(read_number(record, "number", path), read_field(record, "hash", path))

    def to_json(self) -> dict[str, Any]:
        return {"number": self.number, "hash": hex_text(self.hash)}


class BlockId(_Id):
    """Number and hash of a block."""

    __slots__ = ()


class CheckpointId(_Id):
    """Number and header hash of a checkpoint."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TipId:
    """A checkpoint and its last block."""

    block: BlockId
    checkpoint: CheckpointId

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        return cls(
            BlockId.from_json(read_value(record, "block", path), join_path(path, "block")),
            CheckpointId.from_json(read_value(record, "checkpoint", path), join_path(path, "checkpoint")),
        )

    def to_json(self) -> dict[str, Any]:
        return {"block": self.block.to_json(), "checkpoint": self.checkpoint.to_json()}


@dataclass(frozen=True, slots=True)
class L2Tips:
    """All tips of one moment.  The JSON keys keep the order in which the reference node sends them."""

    proposed: BlockId
    checkpointed: TipId
    proven: TipId
    finalized: TipId

    @classmethod
    def from_json(cls, value: object, path: str = "") -> Self:
        record = as_record(value, path)
        return cls(
            proposed=BlockId.from_json(read_value(record, "proposed", path), join_path(path, "proposed")),
            checkpointed=TipId.from_json(read_value(record, "checkpointed", path), join_path(path, "checkpointed")),
            proven=TipId.from_json(read_value(record, "proven", path), join_path(path, "proven")),
            finalized=TipId.from_json(read_value(record, "finalized", path), join_path(path, "finalized")),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "proposed": self.proposed.to_json(),
            "proven": self.proven.to_json(),
            "finalized": self.finalized.to_json(),
            "checkpointed": self.checkpointed.to_json(),
        }
