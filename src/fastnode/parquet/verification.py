"""Verification of what is in the files, read back from them.

Each stripe of blocks is held against three things:

* the rows that the chain database gives: every column of every row;
* the hash of each block's effects that its header names (spongeBlobHash), computed from the rows: it covers fees,
  logs and messages too;
* the roots of the five trees, computed from the rows: note hashes, messages from L1 and block hashes are appended to
  the trees before them and give the roots of the last block's header; nullifiers, with the stored nodes beside them,
  give the root of the state's newest block; so do the values that public storage has after the stripe, for the
  stripe's last block, where its history is kept.

Header hashes are computed too, so that a row is as true as the newest archive root, which L1 has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from fastnode.archiver.queries import ChainView, stored_block, stored_info
from fastnode.archiver.records import BlockInfo
from fastnode.errors import ExportError, VerificationError
from fastnode.parquet.columns import fields_of, stripes
from fastnode.parquet.files import RowReader, plain
from fastnode.parquet.tables import BLOCK_NUMBER, TABLES, Table
from fastnode.protocol.blobs import BlobSponge, block_blob_fields, header_end_fields, with_tx_start
from fastnode.protocol.checkpoint import CheckpointHeader
from fastnode.protocol.constants import (
    L1_TO_L2_MESSAGES_PER_CHECKPOINT,
    NOTE_HASHES_PER_TX_MAX,
    PUBLIC_LOG_HEADER_FIELDS,
)
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import FIELD_BYTES, hex_text
from fastnode.protocol.header import AppendOnlyTreeSnapshot, BlockHeader
from fastnode.protocol.messages import in_hash
from fastnode.world_state.append_only import AppendOnlyTree
from fastnode.world_state.range_check import RangeCheck
from fastnode.world_state.trees import NULLIFIER

__all__ = ["Verifier"]

Array = np.ndarray[Any, Any]

#: ``advance(block)``: verified so far.
Advance = Callable[[int], None]

_COUNTED: Final = ("note_hashes", "nullifiers", "l2_to_l1_messages", "public_writes", "private_logs")


class Verifier:
    """Verifies partitions in the order of their blocks; ExportError names the first block that differs, and the row."""

    def __init__(self, chain: ChainView, state: RangeCheck, tables: Sequence[Table]) -> None:
        self._chain = chain
        self._state = state
        self._tables = tables
        self._sponge = BlobSponge()
        #: The newest block that the sponge has taken in.
        self._absorbed = -1
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="fastnode-export")
        #: Blocks whose public data could not be held against a root, because its history is not kept.
        self.without_history = 0
        self._require_header_of_state()

    def _require_header_of_state(self) -> None:
        """The state's newest block must be one of the chain, with the roots of its header."""
        tip = self._state.view.tip
        info = self._chain.block_info(tip.number)
        header = None if info is None else self._header(info)
        if header is None or info is None or info.hash != tip.block_hash:
            raise ExportError(f"the state trees are at block {tip.number}, which the chain does not have")
        if tip.roots[NULLIFIER.id] != header.state.nullifier_tree.root:
            raise ExportError(
                f"block {tip.number}: the state trees are not those of its header; run `fastnode db check`"
            )

    def check(self, files: Mapping[str, Path], first: int, last: int, advance: Advance) -> None:
        """Read the files of blocks ``first`` to ``last`` whole, and verify them."""
        readers = {table.name: RowReader(table, files[table.name]) for table in self._tables}
        try:
            start = first
            for stop, stored in stripes(self._chain, TABLES, first, last):
                rows = {name: plain(table) for name, table in stored.items()}
                for name, reader in readers.items():
                    read = reader.take(stop)
                    _require_same(name, read, rows[name], start)
                    rows[name] = read
                self._check_stripe(rows, start, stop)
                start = stop + 1
                advance(stop)
            for name, reader in readers.items():
                _require_same(name, reader.take(None), readers[name].take(None), last)
        except VerificationError as error:
            raise ExportError(f"blocks {start} to {stop}: {error}; run `fastnode db check`") from error
        finally:
            for reader in readers.values():
                reader.close()

    def close(self) -> None:
        """End its threads."""
        self._threads.shutdown()

    # ---- a stripe -------------------------------------------------------------------------------------

    def _check_stripe(self, rows: Mapping[str, pa.Table], first: int, last: int) -> None:
        infos = [stored_info(self._chain, number) for number in range(first - 1, last + 1)]
        headers = [self._header(info) for info in infos]
        effects = _Effects(self._chain, rows, infos[1:])
        self._check_blobs(infos[1:], headers[1:], effects)
        self._check_checkpoints(rows, first, last)
        self._check_archive(rows, infos)
        forest = self._state.forest
        notes, messages = effects.padded("note_hashes"), _padded_messages(rows, infos[1:])
        self._check_appended(forest.note_hashes, [header.state.note_hash_tree for header in headers], notes, infos)
        self._check_appended(
            forest.messages, [header.state.l1_to_l2_message_tree for header in headers], messages, infos
        )
        before, after = headers[0].state, headers[-1].state
        self._check_nullifiers(rows, before.nullifier_tree, after.nullifier_tree)
        self._check_public_data(rows, before.public_data_tree, after.public_data_tree, first, last)

    def _header(self, info: BlockInfo) -> BlockHeader:
        """The stored header; ExportError if it has not the hash of its block."""
        header = BlockHeader.from_json(orjson.loads(self._chain.header_json(info.number) or b""), "header")
        if header.hash() != info.hash:
            raise ExportError(f"block {info.number}: its header has another hash; run `fastnode db check`")
        return header

    def _check_blobs(self, infos: Sequence[BlockInfo], headers: Sequence[BlockHeader], effects: _Effects) -> None:
        """The hash over each block's effects, and the sum of its fees.

        Checkpoints are hashed by threads, which need no interpreter for it.
        """
        transaction, by_checkpoint, fees = 0, [self._sponge_before(infos[0])], []
        for info, header in zip(infos, headers, strict=True):
            if info.index_within_checkpoint == 0:
                by_checkpoint.append(_Checkpoint(BlobSponge()))
            end = transaction + info.tx_count
            fields = [effects.blob_fields(index) for index in range(transaction, end)]
            fields.append(header_end_fields(header, info.tx_count, info.index_within_checkpoint))
            by_checkpoint[-1].add(b"".join(fields))
            fees.append(sum(effects.fees[transaction:end]))
            transaction = end
        hashes = [found for each in self._threads.map(_Checkpoint.hashes, by_checkpoint) for found in each]
        for info, header, found, fee in zip(infos, headers, hashes, fees, strict=True):
            if found != header.sponge_blob_hash:
                raise ExportError(
                    f"block {info.number}: its rows do not give the hash of its effects that its header names; what "
                    f"is stored is damaged, run `fastnode db check`"
                )
            if fee != header.total_fees:
                raise ExportError(f"block {info.number}: the fees of its rows are not the sum that its header names")
        self._sponge, self._absorbed = by_checkpoint[-1].sponge, infos[-1].number

    def _sponge_before(self, info: BlockInfo) -> _Checkpoint:
        """The blocks of a checkpoint that come before its block ``info``."""
        if self._absorbed == info.number - 1:
            return _Checkpoint(self._sponge)
        sponge = BlobSponge()
        for number in range(info.number - info.index_within_checkpoint, info.number):
            sponge = sponge.absorb(block_blob_fields(stored_block(self._chain, number)))
        return _Checkpoint(sponge)

    def _check_checkpoints(self, rows: Mapping[str, pa.Table], first: int, last: int) -> None:
        messages = rows["l1_to_l2_messages"]
        fields = fields_of(_whole(messages, "message_hash"))
        numbers = messages.column("checkpoint_number").to_numpy()
        for number in rows["checkpoints"].column("checkpoint_number").to_pylist():
            stored = self._chain.checkpoint(number)
            assert stored is not None
            header = CheckpointHeader.from_json(orjson.loads(stored.header_json), "header")
            if header.hash() != stored.header_hash:
                raise ExportError(f"checkpoint {number}: its header has another hash; run `fastnode db check`")
            if stored.start_block < first:
                own: Sequence[bytes] = self._chain.l1_to_l2_messages(number)
            else:
                start, stop = np.searchsorted(numbers, [number, number + 1]).tolist()
                own = [fields[at : at + FIELD_BYTES] for at in range(start * 32, stop * 32, FIELD_BYTES)]
            if in_hash(own) != header.in_hash:
                raise ExportError(f"checkpoint {number}: its messages from L1 do not give the inHash of its header")

    # ---- trees ----------------------------------------------------------------------------------------

    def _check_archive(self, rows: Mapping[str, pa.Table], infos: Sequence[BlockInfo]) -> None:
        hashes = fields_of(_whole(rows["blocks"], "block_hash"))
        by_block = [hashes[at : at + FIELD_BYTES] for at in range(0, len(hashes), FIELD_BYTES)]
        named = [AppendOnlyTreeSnapshot(info.archive_root, info.number + 1) for info in infos]
        self._check_appended(self._state.forest.archive, named, by_block, infos)

    def _check_appended(
        self,
        tree: AppendOnlyTree,
        named: Sequence[AppendOnlyTreeSnapshot],
        leaves: Sequence[bytes],
        infos: Sequence[BlockInfo],
    ) -> None:
        """Append the leaves of each block; ``named``: the tree before the first one, and after each."""
        if self._appended(tree, named[0], b"".join(leaves)) == named[-1]:
            return
        for info, before, after, own in zip(infos[1:], named, named[1:], leaves, strict=False):
            if self._appended(tree, before, own) != after:
                raise ExportError(f"block {info.number}: its rows do not give the root of the {tree.tree.name}")
        raise VerificationError(f"the rows do not give the root of the {tree.tree.name}")

    def _appended(self, tree: AppendOnlyTree, before: AppendOnlyTreeSnapshot, leaves: bytes) -> AppendOnlyTreeSnapshot:
        if not leaves:
            return before
        start = before.next_available_leaf_index
        root = self._state.append_only_root(tree, start, leaves)
        return AppendOnlyTreeSnapshot(root, start + len(leaves) // FIELD_BYTES)

    def _check_nullifiers(
        self, rows: Mapping[str, pa.Table], before: AppendOnlyTreeSnapshot, after: AppendOnlyTreeSnapshot
    ) -> None:
        start, stop = before.next_available_leaf_index, after.next_available_leaf_index
        table = rows["nullifiers"]
        if start == stop and not len(table):
            return
        keys = fields_of(_whole(table, "nullifier"))
        indexes = table.column("leaf_index").to_pylist()
        if not all(start <= index < stop for index in indexes):
            raise ExportError("the rows of the table nullifiers have places that their blocks do not")
        leaves = {index: keys[at * FIELD_BYTES : (at + 1) * FIELD_BYTES] for at, index in enumerate(indexes)}
        tip = self._state.view.tip
        if self._state.nullifier_root(start, leaves, stop) != tip.roots[NULLIFIER.id]:
            raise VerificationError(f"the nullifiers do not give the root of block {tip.number}")

    def _check_public_data(
        self,
        rows: Mapping[str, pa.Table],
        before: AppendOnlyTreeSnapshot,
        after: AppendOnlyTreeSnapshot,
        first: int,
        last: int,
    ) -> None:
        writes = rows["public_writes"]
        if not len(writes):
            if before != after:
                raise VerificationError("the public data tree changes, and there is no public write")
            return
        if last < self._state.oldest:
            self.without_history += last - first + 1
            return
        slots, values = (fields_of(_whole(writes, name)) for name in ("leaf_slot", "value"))
        newest = {
            slots[at : at + FIELD_BYTES]: values[at : at + FIELD_BYTES] for at in range(0, len(slots), FIELD_BYTES)
        }
        if self._state.public_data_root(list(newest.items()), last) != after.root:
            raise VerificationError(f"the public writes do not give the root of block {last}")


class _Checkpoint:
    """The blob fields of a checkpoint's blocks behind those that its sponge has taken in."""

    def __init__(self, sponge: BlobSponge) -> None:
        self.sponge = sponge
        self._fields: list[bytes] = []

    def add(self, fields: bytes) -> None:
        self._fields.append(fields)

    def hashes(self) -> list[bytes]:
        """The hash up to each of the blocks."""
        found = []
        for fields in self._fields:
            self.sponge = self.sponge.absorb(fields)
            found.append(self.sponge.squeeze())
        self._fields.clear()
        return found


class _Effects:
    """The effects of a stripe's transactions, as their blob fields have them, from its rows."""

    def __init__(self, chain: ChainView, rows: Mapping[str, pa.Table], infos: Sequence[BlockInfo]) -> None:
        self._chain = chain
        self._infos = infos
        self._transactions = rows["transactions"]
        counts = np.array([info.tx_count for info in infos], np.int64)
        self._starts = np.cumsum(counts) - counts
        self._total = int(counts.sum())
        self._first = infos[0].number
        self.fees: list[int] = [int(fee) for fee in rows["fees"].column("transaction_fee").to_pylist()]
        self._hashes = fields_of(_whole(self._transactions, "tx_hash"))
        self._counts = {name: self._count(rows[name]) for name in (*_COUNTED, "public_logs")}
        columns = {"note_hashes": "note_hash", "nullifiers": "nullifier", "l2_to_l1_messages": "message_hash"}
        self._data = {name: fields_of(_whole(rows[name], column)) for name, column in columns.items()}
        self._data["public_writes"] = _pairs(rows["public_writes"])
        self._ends = {name: [0, *(np.cumsum(self._counts[name]) * FIELD_BYTES).tolist()] for name in columns}
        self._ends["public_writes"] = [0, *(np.cumsum(self._counts["public_writes"]) * 2 * FIELD_BYTES).tolist()]
        self._private_fields = self._add_logs("private_logs", rows["private_logs"], 1)
        self._public_fields = self._add_logs("public_logs", rows["public_logs"], PUBLIC_LOG_HEADER_FIELDS)
        self._revert_codes = self._transactions.column("revert_code").to_pylist()
        self._class_logs = self._transactions.column("contract_class_log_count").to_pylist()
        self._count_lists = {name: values.tolist() for name, values in self._counts.items()}

    def _count(self, rows: pa.Table) -> Array:
        """Rows of each transaction."""
        blocks = rows.column(BLOCK_NUMBER).to_numpy() - self._first
        return np.bincount(self._starts[blocks] + rows.column("tx_index").to_numpy(), minlength=self._total)

    def _add_logs(self, name: str, rows: pa.Table, head_fields: int) -> list[int]:
        """Lay the logs out behind each other, heads included; the fields of each transaction."""
        lengths = rows.column("field_count").to_numpy()
        sizes = lengths + head_fields
        starts = np.cumsum(sizes) - sizes
        laid: Array = np.zeros((int(sizes.sum()), FIELD_BYTES), np.uint8)
        is_field = np.ones(len(laid), np.bool_)
        for head in range(head_fields):
            is_field[starts + head] = False
        fields = rows.column("fields").combine_chunks() if len(rows) else None
        if fields is not None:
            texts = fields.flatten() if not isinstance(fields, pa.ChunkedArray) else fields.chunk(0).flatten()
            laid[is_field] = np.frombuffer(fields_of(texts), np.uint8).reshape(-1, FIELD_BYTES)
            laid[starts, FIELD_BYTES - 4 :] = lengths.astype(">u4").view(np.uint8).reshape(-1, 4)
            if head_fields > 1:
                addresses = fields_of(_whole(rows, "contract_address"))
                laid[starts + 1] = np.frombuffer(addresses, np.uint8).reshape(-1, FIELD_BYTES)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        by_tx = ends[np.concatenate([np.zeros(1, np.int64), np.cumsum(self._counts[name])])]
        self._data[name] = laid.tobytes()
        self._ends[name] = (by_tx * FIELD_BYTES).tolist()
        logged: list[int] = np.diff(by_tx).tolist()
        return logged

    def padded(self, name: str) -> list[bytes]:
        """For each block the leaves of its transactions, 64 each."""
        data, ends = self._data[name], self._ends[name]
        leaves = [
            data[ends[at] : ends[at + 1]].ljust(NOTE_HASHES_PER_TX_MAX * FIELD_BYTES, b"\0")
            for at in range(self._total)
        ]
        starts = self._starts.tolist()
        return [
            b"".join(leaves[start : start + info.tx_count]) for start, info in zip(starts, self._infos, strict=True)
        ]

    def blob_fields(self, at: int) -> bytes:
        """The blob fields of one transaction."""
        parts = [self._hashes[at * FIELD_BYTES : (at + 1) * FIELD_BYTES], self.fees[at].to_bytes(FIELD_BYTES, "big")]
        for name in (*_COUNTED, "public_logs"):
            ends = self._ends[name]
            parts.append(self._data[name][ends[at] : ends[at + 1]])
        class_fields = 0
        if self._class_logs[at]:
            for log in self._stored(at).contract_class_logs:
                if log.emitted_length:
                    parts += (log.contract_address, log.emitted)
                    class_fields += log.emitted_length
        counts = [self._count_lists[name][at] for name in _COUNTED]
        private_fields = self._private_fields[at] - self._count_lists["private_logs"][at]
        counts += (private_fields, self._public_fields[at], class_fields)
        return with_tx_start(counts, self._revert_codes[at], b"".join(parts))

    def _stored(self, at: int) -> TxEffect:
        """A transaction as it is stored: its class logs have no rows of their own."""
        place = int(np.searchsorted(self._starts, at, side="right")) - 1
        while self._infos[place].tx_count == 0:
            place -= 1
        return stored_block(self._chain, self._infos[place].number).body.tx_effects[at - int(self._starts[place])]


def _padded_messages(rows: Mapping[str, pa.Table], infos: Sequence[BlockInfo]) -> list[bytes]:
    """For each block 1,024 leaves if it is the first one of its checkpoint, else none."""
    table = rows["l1_to_l2_messages"]
    fields, numbers = fields_of(_whole(table, "message_hash")), table.column(BLOCK_NUMBER).to_numpy()
    leaves = []
    for info in infos:
        if info.index_within_checkpoint:
            leaves.append(b"")
            continue
        start, stop = np.searchsorted(numbers, [info.number, info.number + 1]).tolist()
        own = fields[start * FIELD_BYTES : stop * FIELD_BYTES]
        leaves.append(own.ljust(L1_TO_L2_MESSAGES_PER_CHECKPOINT * FIELD_BYTES, b"\0"))
    return leaves


def _pairs(writes: pa.Table) -> bytes:
    slots, values = (
        np.frombuffer(fields_of(_whole(writes, name)), np.uint8).reshape(-1, FIELD_BYTES)
        for name in ("leaf_slot", "value")
    )
    return bytes(np.concatenate([slots, values], axis=1).tobytes())


def _whole(rows: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    column = rows.column(name)
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


# ---- rows that differ -------------------------------------------------------------------------------------


def _require_same(table: str, read: pa.Table, expected: pa.Table, block: int) -> None:
    """ExportError names the first row that differs."""
    if read.equals(expected):
        return
    low, high = 0, min(len(read), len(expected))
    while low < high:  # the first row that differs is in low..high
        middle = (low + high) // 2
        if read.slice(low, middle + 1 - low).equals(expected.slice(low, middle + 1 - low)):
            low = middle + 1
        else:
            high = middle
    if low == len(expected):
        where = read.column(BLOCK_NUMBER)[low].as_py()
        raise ExportError(f"block {where}, table {table}: it has a row that the chain does not have: {_row(read, low)}")
    where = expected.column(BLOCK_NUMBER)[low].as_py()
    if low == len(read):
        raise ExportError(f"block {where}, table {table}: it lacks the row {_row(expected, low)}")
    for name in expected.schema.names:
        found, wanted = read.column(name)[low].as_py(), expected.column(name)[low].as_py()
        if found != wanted:
            raise ExportError(
                f"block {where}, table {table}: {name} is {_text(found)}, the chain has {_text(wanted)} in the row "
                f"{_row(expected, low)}"
            )
    raise ExportError(f"block {where}, table {table}: it differs from the chain")


def _row(rows: pa.Table, at: int) -> str:
    """The columns that say where a row is."""
    names = [
        name for name in rows.schema.names if name == "tx_index" or name.endswith("_index") or name == "block_number"
    ]
    return ", ".join(f"{name} {rows.column(name)[at].as_py()}" for name in names)


def _text(value: object) -> str:
    text = hex_text(value) if isinstance(value, bytes) else str(value)
    return text if len(text) <= 100 else text[:97] + "..."
