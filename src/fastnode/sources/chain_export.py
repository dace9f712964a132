"""Exporting a chain file from what is stored: lines are spliced and looked at once; nothing is hashed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from fastnode.archiver import layout
from fastnode.archiver.messages import messages_of_stored_block
from fastnode.archiver.queries import ChainView, StoredCheckpoint
from fastnode.archiver.source import BlockRecord, CheckpointRecord, Record, TipsRecord
from fastnode.errors import DatabaseError, StartError
from fastnode.kernels import encode
from fastnode.protocol.tips import L2Tips
from fastnode.records import dataclass
from fastnode.sources.chain_file import CHAIN_FILE_VERSION, ChainFileWriter

__all__ = ["ExportSummary", "block_line", "checkpoint_line", "export_chain_file", "stored_records", "tips_up_to"]

#: ``progress(done, total)``: blocks written so far, blocks to write.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """Contents of the file: blocks ``first_block`` to ``last_block``, both included; none when the chain is empty."""

    first_block: int
    last_block: int
    checkpoints: int

    @property
    def blocks(self) -> int:
        return self.last_block - self.first_block + 1


def export_chain_file(
    view: ChainView,
    path: Path,
    *,
    first_block: int = 1,
    last_block: int | None = None,
    progress: Progress | None = None,
) -> ExportSummary:
    """Write blocks ``first_block`` to ``last_block`` (default: the newest) as a chain file.

    The file begins with the whole checkpoint that ``first_block`` is in.  A checkpoint that does not end by
    ``last_block`` is written as single blocks, the way proposed blocks are, and the tips are lowered to what
    is in the file.  A file that does not begin at block 1 can be imported behind the blocks before it.

    StartError for a range that the chain does not have, ChainFileError when the file cannot be written,
    DatabaseError when something stored is no JSON any more; then no file of that name is left.
    """
    last_block = view.tip_number if last_block is None else last_block
    first_block = _start_of_export(view, first_block, last_block)
    export = _Export(view, first_block, last_block, progress)
    with ChainFileWriter(path) as writer:
        export.write(writer)
    return ExportSummary(first_block, last_block, export.checkpoints)


def stored_records(view: ChainView, first_block: int) -> Iterator[Record]:
    """Stored blocks from ``first_block`` on as records of a source, for putting them back after an undo.

    Begins with the whole checkpoint that the block is in, if that is complete.
    """
    info = view.block_info(first_block)
    if info is None:
        return
    checkpoint = view.checkpoint(info.checkpoint_number)
    number = first_block if checkpoint is None else checkpoint.start_block
    yield from _Export(view, number, view.tip_number, None).records()
    yield TipsRecord(view.tips)


def checkpoint_line(view: ChainView, checkpoint: StoredCheckpoint) -> bytes:
    """A complete checkpoint as the line of a chain file, without the end of the line."""
    return b'{"kind":"checkpoint",%b}' % _Export(view, 1, view.tip_number, None).checkpoint_members(checkpoint)


def block_line(view: ChainView, number: int) -> bytes:
    """The same for one block, as it stands behind the last checkpoint."""
    return b'{"kind":"block",%b}' % _Export(view, 1, view.tip_number, None).block_members(number)


def tips_up_to(view: ChainView, last_block: int, last_checkpoint: int) -> L2Tips:
    """The view's tips, none of them above these."""
    return _Export(view, 1, last_block, None).tips(last_checkpoint)


def _start_of_export(view: ChainView, first_block: int, last_block: int) -> int:
    if view.tip_number == 0 and (first_block, last_block) == (1, 0):
        return first_block
    if not 1 <= first_block <= last_block <= view.tip_number:
        raise StartError(
            f"blocks {first_block} to {last_block} cannot be exported: the chain has blocks 1 to {view.tip_number}"
        )
    info = view.block_info(first_block)
    assert info is not None
    if first_block < view.oldest_body:
        raise StartError(
            f"blocks {first_block} to {last_block} cannot be exported: bodies are kept from block {view.oldest_body} "
            f"on (--keep-blocks); give a later first block"
        )
    return first_block - info.index_within_checkpoint


class _Export:
    def __init__(self, view: ChainView, first_block: int, last_block: int, progress: Progress | None) -> None:
        self._view = view
        self._first = first_block
        self._last = last_block
        self._progress = progress
        self.checkpoints = 0

    def write(self, writer: ChainFileWriter) -> None:
        view = self._view
        writer.write(b"chain", b'"version":%d,%b' % (CHAIN_FILE_VERSION, _members(view.get(layout.KEY_CHAIN))))
        writer.write(b"genesis", _members(view.genesis_json()))
        number = self._first
        while number <= self._last:
            checkpoint = self._complete_checkpoint_from(number)
            if checkpoint is not None:
                writer.write(
                    b"checkpoint", _whole(self.checkpoint_members(checkpoint), f"checkpoint {checkpoint.number}")
                )
                self.checkpoints += 1
                number = checkpoint.last_block + 1
            else:
                writer.write(b"block", _whole(self.block_members(number), f"block {number}"))
                number += 1
            if self._progress is not None:
                self._progress(number - self._first, self._last - self._first + 1)
        writer.write(b"tips", b'"tips":%b' % orjson.dumps(self.tips().to_json()))

    def records(self) -> Iterator[Record]:
        number = self._first
        while number <= self._last:
            checkpoint = self._complete_checkpoint_from(number)
            if checkpoint is not None:
                yield CheckpointRecord(orjson.loads(b"{%b}" % self.checkpoint_members(checkpoint)))
                number = checkpoint.last_block + 1
            else:
                yield BlockRecord(orjson.loads(b"{%b}" % self.block_members(number)))
                number += 1

    def _complete_checkpoint_from(self, block_number: int) -> StoredCheckpoint | None:
        """The checkpoint that begins with this block, if all of it goes into the file."""
        info = self._view.block_info(block_number)
        checkpoint = None if info is None else self._view.checkpoint(info.checkpoint_number)
        if checkpoint is None or checkpoint.start_block != block_number or checkpoint.last_block > self._last:
            return None
        return checkpoint

    def checkpoint_members(self, checkpoint: StoredCheckpoint) -> bytes:
        blocks = range(checkpoint.start_block, checkpoint.last_block + 1)
        return (
            b'"published":{"checkpoint":{"archive":%b,"header":%b,"blocks":[%b],"number":%d,'
            b'"feeAssetPriceModifier":"%d"},"l1":%b,"attestations":%b},"l1ToL2Messages":%b'
        ) % (
            checkpoint.archive_json,
            checkpoint.header_json,
            b",".join([self._block_json(number) for number in blocks]),
            checkpoint.number,
            checkpoint.fee_asset_price_modifier,
            checkpoint.l1_json,
            checkpoint.attestations_json,
            self._messages_json(checkpoint.number),
        )

    def block_members(self, number: int) -> bytes:
        """A block outside of a checkpoint, with the messages that it appends."""
        members = b'"block":%b' % self._block_json(number)
        if messages := messages_of_stored_block(self._view, number):
            members += b',"l1ToL2Messages":%b' % encode.quoted_fields(b"".join(messages))
        return members

    def _block_json(self, number: int) -> bytes:
        block, body = self._view.block(number), self._view.body_json(number)
        assert block is not None
        assert body is not None
        return b'{"archive":%b,"header":%b,"body":%b,"checkpointNumber":%d,"indexWithinCheckpoint":%d}' % (
            block.archive_json,
            block.header_json,
            body,
            block.info.checkpoint_number,
            block.info.index_within_checkpoint,
        )

    def _messages_json(self, checkpoint_number: int) -> bytes:
        return encode.quoted_fields(b"".join(self._view.l1_to_l2_messages(checkpoint_number)))

    def tips(self, last_checkpoint: int | None = None) -> L2Tips:
        """The view's tips, none of them above the last block of the file, or above this checkpoint."""
        view, tips = self._view, self._view.tips
        newest = view.newest_complete_checkpoint(self._last)
        newest = newest if last_checkpoint is None else min(newest, last_checkpoint)
        return L2Tips(
            proposed=view.block_id(self._last),
            checkpointed=view.tip_of_checkpoint(newest),
            proven=view.tip_of_checkpoint(min(newest, tips.proven.checkpoint.number)),
            finalized=view.tip_of_checkpoint(min(newest, tips.finalized.checkpoint.number)),
        )


def _whole(members: bytes, what: str) -> bytes:
    """``members`` as they are; an unreadable backup must not be noticed when it is needed."""
    try:
        orjson.loads(b"{%b}" % members)
    except orjson.JSONDecodeError as error:
        raise DatabaseError(f"{what} cannot be exported: what is stored is damaged; run `fastnode db check`") from error
    return members


def _members(record: bytes | None) -> bytes:
    """A stored JSON object without its braces."""
    if record is None:
        raise DatabaseError("the chain database lacks its chain record; run `fastnode db check`")
    return record[1:-1]
