"""The four tips of the chain: proposed, checkpointed, proven, finalized.

Rules (release 4.x): *proposed* is the newest local block, in a checkpoint or not; each of the others is
the last block of a checkpoint and carries both identities.
"""

from __future__ import annotations

from typing import ClassVar

from fastnode.protocol.records import FIELD, Record, member, number, of, record


@record
class _Id(Record):
    number: int = member(number())
    hash: bytes = member(FIELD)


class BlockId(_Id):
    """Number and hash of a block."""

    __slots__ = ()


class CheckpointId(_Id):
    """Number and header hash of a checkpoint."""

    __slots__ = ()

    known_as: ClassVar = "BlockId"


@record
class TipId(Record):
    """A checkpoint and its last block."""

    block: BlockId = member(of(BlockId))
    checkpoint: CheckpointId = member(of(CheckpointId))


@record
class L2Tips(Record):
    """All tips of one moment."""

    #: As the reference node sends them.
    json_order: ClassVar = ("proposed", "proven", "finalized", "checkpointed")

    proposed: BlockId = member(of(BlockId))
    checkpointed: TipId = member(of(TipId))
    proven: TipId = member(of(TipId))
    finalized: TipId = member(of(TipId))
