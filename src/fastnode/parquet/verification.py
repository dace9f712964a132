"""Verification of what is in the files, read back from them.

Each stripe of blocks is held against three things:

* the rows that the chain database gives: every column of every row.  Of rows that this run has written a checksum is
  kept, so that the database is not read a second time for them;
* the hash of each block's effects that its header names (spongeBlobHash), computed from the rows: it covers fees,
  logs and messages too;
* the roots of the five trees, computed from the rows: note hashes, messages from L1 and block hashes are appended to
  the trees before them and give the roots of the last block's header; nullifiers, with the stored nodes beside them,
  give the root of the state's newest block; so do the values that public storage has after the stripe, for the
  stripe's last block, where its history is kept.

The hashes of the headers are computed from the rows, too, so that a row is as true as the newest archive root, which L1
has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from fastnode.archiver.messages import in_hash_before
from fastnode.archiver.queries import ChainView, stored_block, stored_info
from fastnode.errors import ExportError, VerificationError
from fastnode.parquet.blob_fields import block_fields, fees_of, headers_of
from fastnode.parquet.columns import digest_of_rows, fields_of, stored_header, stripes, whole
from fastnode.parquet.files import RowReader, plain
from fastnode.parquet.tables import BLOCK_NUMBER, TABLES, Table
from fastnode.protocol.blobs import BlobSponge, absorb_each, block_blob_fields, squeeze_each
from fastnode.protocol.checkpoint import CheckpointHeader, header_in_hash
from fastnode.protocol.fields import FIELD_BYTES, hex_text
from fastnode.protocol.header import AppendOnlyTreeSnapshot, BlockHeader, hash_each
from fastnode.records import dataclass
from fastnode.world_state.append_only import AppendOnlyTree
from fastnode.world_state.range_check import Leaves, RangeCheck, as_nodes
from fastnode.world_state.trees import NULLIFIER

__all__ = ["Verifier", "Written"]

Array = np.ndarray[Any, Any]

_NOTE_HASHES: Final = ("note_hashes", "note_hash")
_MESSAGES: Final = ("l1_to_l2_messages", "message_hash")

#: ``advance(block)``: verified so far.
Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Written:
    """A stripe as it went into the files: its last block, and a checksum of the rows of each table."""

    last: int
    digests: Mapping[str, bytes]

    @classmethod
    def of(cls, last: int, tables: Mapping[str, pa.Table]) -> Written:
        """The record of these rows."""
        return cls(last, {name: digest_of_rows(rows) for name, rows in tables.items()})


class Verifier:
    """Verifies partitions in the order of their blocks; ExportError names the first block that differs, and the row."""

    def __init__(self, chain: ChainView, state: RangeCheck, tables: Sequence[Table]) -> None:
        self._chain = chain
        self._state = state
        self._tables = tables
        self._sponge = BlobSponge()
        #: The newest block that the sponge has taken in.
        self._absorbed = -1
        #: Blocks whose public data could not be held against a root, because its history is not kept.
        self.without_history = 0
        self._require_header_of_state()

    def _require_header_of_state(self) -> None:
        """The state's newest block must be one of the chain, with the roots of its header."""
        tip = self._state.view.tip
        info = self._chain.block_info(tip.number)
        if info is None or info.hash != tip.block_hash:
            raise ExportError(f"the state trees are at block {tip.number}, which the chain does not have")
        header = stored_header(self._chain, tip.number)
        _require_hashes([header], info.hash)
        if tip.roots[NULLIFIER.id] != header.state.nullifier_tree.root:
            raise ExportError(
                f"block {tip.number}: the state trees are not those of its header; run `fastnode db check`"
            )

    def check(
        self, files: Mapping[str, Path], first: int, last: int, advance: Advance, written: Sequence[Written] = ()
    ) -> None:
        """Read the files of blocks ``first`` to ``last`` whole, and verify them.

        ``written``: what this run has put into them; without it, and where the files have not all tables, the rows
        are compared with those that the chain gives now.
        """
        readers = {table.name: RowReader(table, files[table.name]) for table in self._tables}
        start = stop = first
        try:
            if written and len(self._tables) == len(TABLES):
                for stripe in written:
                    stop = stripe.last
                    self._check_stripe(self._read_written(readers, start, stripe), start, stop)
                    start = stop + 1
                    advance(stop)
            else:
                for stop, stored in stripes(self._chain, TABLES, first, last):
                    self._check_stripe(self._read_same(readers, start, stop, stored), start, stop)
                    start = stop + 1
                    advance(stop)
            for name, reader in readers.items():
                _require_same(name, reader.take(None), readers[name].take(None), last)
        except (VerificationError, ValueError) as error:
            raise ExportError(f"blocks {start} to {stop}: {error}; run `fastnode db check`") from error
        finally:
            for reader in readers.values():
                reader.close()

    def _read_written(self, readers: Mapping[str, RowReader], start: int, stripe: Written) -> dict[str, pa.Table]:
        """The rows of a stripe; ExportError when they are not those that were written."""
        rows = {name: reader.take(stripe.last) for name, reader in readers.items()}
        for name, read in rows.items():
            if digest_of_rows(read) != stripe.digests[name]:
                for _, stored in stripes(self._chain, TABLES, start, stripe.last):
                    _require_same(name, read, plain(stored[name]), start)
                raise ExportError(
                    f"blocks {start} to {stripe.last}, table {name}: other rows were written than are read"
                )
        return rows

    def _read_same(
        self, readers: Mapping[str, RowReader], start: int, stop: int, stored: Mapping[str, pa.Table]
    ) -> dict[str, pa.Table]:
        """The rows of a stripe, those of tables that are not exported from the chain; ExportError names one that
        differs."""
        rows = {name: plain(table) for name, table in stored.items()}
        for name, reader in readers.items():
            read = reader.take(stop)
            _require_same(name, read, rows[name], start)
            rows[name] = read
        return rows

    # ---- a stripe -------------------------------------------------------------------------------------

    def _check_stripe(self, rows: Mapping[str, pa.Table], first: int, last: int) -> None:
        headers = headers_of(rows["blocks"])
        hashes = fields_of(whole(rows["blocks"], "block_hash"))
        _require_hashes(headers, hashes)
        self._check_blobs(rows, headers)
        self._check_checkpoints(rows, first, last)
        before = stored_header(self._chain, first - 1)
        _require_hashes([before], stored_info(self._chain, first - 1).hash)
        self._check_archive(rows, headers, hashes)
        forest, states = self._state.forest, [header.state for header in (before, *headers)]
        notes, messages = (_leaves(rows, *names) for names in (_NOTE_HASHES, _MESSAGES))
        self._check_appended(forest.note_hashes, [state.note_hash_tree for state in states], notes, first)
        self._check_appended(forest.messages, [state.l1_to_l2_message_tree for state in states], messages, first)
        self._check_nullifiers(rows, states[0].nullifier_tree, states[-1].nullifier_tree)
        self._check_public_data(rows, states[0].public_data_tree, states[-1].public_data_tree, first, last)

    def _check_blobs(self, rows: Mapping[str, pa.Table], headers: Sequence[BlockHeader]) -> None:
        """The hash over each block's effects, and the sum of its fees."""
        fields = block_fields(self._chain, rows, headers)
        hashes = self._hashes(fields, rows["blocks"])
        fees, counts = fees_of(rows["fees"], "transaction_fee"), rows["blocks"].column("tx_count").to_pylist()
        stop = 0
        for header, found, count in zip(headers, hashes, counts, strict=True):
            number = header.global_variables.block_number
            if found != header.sponge_blob_hash:
                raise ExportError(
                    f"block {number}: its rows do not give the hash of its effects that its header names; what is "
                    f"stored is damaged, run `fastnode db check`"
                )
            start, stop = stop, stop + count
            if sum(fees[start:stop]) != header.total_fees:
                raise ExportError(f"block {number}: the fees of its rows are not the sum that its header names")

    def _hashes(self, fields: Sequence[bytes], blocks: pa.Table) -> list[bytes]:
        """The hash up to each block.  Those of a checkpoint wait for each other, so checkpoints go side by side."""
        numbers, places = (blocks.column(name).to_pylist() for name in (BLOCK_NUMBER, "index_within_checkpoint"))
        starts = [at for at, place in enumerate(places) if place == 0 or at == 0]
        sponges = [self._sponge_before(numbers[at], places[at]) for at in starts]
        found = [b""] * len(fields)
        for turn in range(max(stop - start for start, stop in pairwise([*starts, len(fields)]))):
            ends = [*starts[1:], len(fields)]
            chosen = [at for at, (start, end) in enumerate(zip(starts, ends, strict=True)) if start + turn < end]
            after = absorb_each([sponges[at] for at in chosen], [fields[starts[at] + turn] for at in chosen])
            for at, sponge, value in zip(chosen, after, squeeze_each(after), strict=True):
                sponges[at], found[starts[at] + turn] = sponge, value
        self._sponge, self._absorbed = sponges[-1], numbers[-1]
        return found

    def _sponge_before(self, number: int, place: int) -> BlobSponge:
        """The sponge behind those blocks of a checkpoint that come before one at this place."""
        if place == 0 or self._absorbed == number - 1:
            return self._sponge if place else BlobSponge()
        sponge = BlobSponge()
        for earlier in range(number - place, number):
            sponge = sponge.absorb(block_blob_fields(stored_block(self._chain, earlier)))
        return sponge

    def _check_checkpoints(self, rows: Mapping[str, pa.Table], first: int, last: int) -> None:
        messages = rows["l1_to_l2_messages"]
        fields = fields_of(whole(messages, "message_hash"))
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
            before = in_hash_before(self._chain, number)
            if header_in_hash(self._chain.chain.release, own, before) != header.in_hash:
                name = header.in_hash_name
                raise ExportError(f"checkpoint {number}: its messages from L1 do not give the {name} of its header")

    # ---- trees ----------------------------------------------------------------------------------------

    def _check_archive(self, rows: Mapping[str, pa.Table], headers: Sequence[BlockHeader], hashes: bytes) -> None:
        first = headers[0].global_variables.block_number
        roots = fields_of(whole(rows["blocks"], "archive_root"))
        named = [headers[0].last_archive]
        for at in range(len(headers)):
            root = roots[at * FIELD_BYTES : (at + 1) * FIELD_BYTES]
            named.append(AppendOnlyTreeSnapshot(root, first + at + 1))
        places = np.arange(first, first + len(headers))
        self._check_appended(self._state.forest.archive, named, (places, as_nodes(hashes)), first)

    def _check_appended(
        self, tree: AppendOnlyTree, named: Sequence[AppendOnlyTreeSnapshot], leaves: tuple[Array, Array], first: int
    ) -> None:
        """Append leaves, with their places; ``named``: the tree before block ``first``, and after each."""
        inside = np.searchsorted(leaves[0], [named[0].next_available_leaf_index, named[-1].next_available_leaf_index])
        if inside.tolist() == [0, len(leaves[0])] and self._gives(tree, named[0], named[-1], leaves):
            return
        for number, (before, after) in enumerate(pairwise(named), first):
            if not self._gives(tree, before, after, leaves):
                raise ExportError(f"block {number}: its rows do not give the root of the {tree.tree.name}")
        raise VerificationError(f"the rows do not give the root of the {tree.tree.name}")

    def _gives(
        self,
        tree: AppendOnlyTree,
        before: AppendOnlyTreeSnapshot,
        after: AppendOnlyTreeSnapshot,
        leaves: tuple[Array, Array],
    ) -> bool:
        """Tell whether the leaves that belong between two snapshots lead from one to the other."""
        start, stop = before.next_available_leaf_index, after.next_available_leaf_index
        if start >= stop:
            return before == after
        low, high = np.searchsorted(leaves[0], [start, stop]).tolist()
        added = Leaves(start, stop, leaves[0][low:high], leaves[1][low:high])
        return self._state.append_only_root(tree, added) == after.root

    def _check_nullifiers(
        self, rows: Mapping[str, pa.Table], before: AppendOnlyTreeSnapshot, after: AppendOnlyTreeSnapshot
    ) -> None:
        start, stop = before.next_available_leaf_index, after.next_available_leaf_index
        places, keys = _leaves(rows, "nullifiers", "nullifier")
        if start == stop and not len(places):
            return
        if len(places) and not start <= places[0] <= places[-1] < stop:
            raise ExportError("the rows of the table nullifiers have places that their blocks do not")
        tip = self._state.view.tip
        if self._state.nullifier_root(Leaves(start, stop, places, keys)) != tip.roots[NULLIFIER.id]:
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
        slots, values = (fields_of(whole(writes, name)) for name in ("leaf_slot", "value"))
        newest = {
            slots[at : at + FIELD_BYTES]: values[at : at + FIELD_BYTES] for at in range(0, len(slots), FIELD_BYTES)
        }
        if self._state.public_data_root(b"".join(newest), b"".join(newest.values()), last) != after.root:
            raise VerificationError(f"the public writes do not give the root of block {last}")


def _require_hashes(headers: Sequence[BlockHeader], hashes: bytes) -> None:
    """ExportError names the first block whose header has not its hash."""
    found = hash_each(headers)
    if found == hashes:
        return
    for at, header in enumerate(headers):
        if found[at * FIELD_BYTES : (at + 1) * FIELD_BYTES] != hashes[at * FIELD_BYTES : (at + 1) * FIELD_BYTES]:
            number = header.global_variables.block_number
            raise ExportError(f"block {number}: its header has another hash; run `fastnode db check`")


def _leaves(rows: Mapping[str, pa.Table], table: str, column: str) -> tuple[Array, Array]:
    """(places, leaves) of a table's rows.  VerificationError unless each place is above the one before."""
    places = rows[table].column("leaf_index").to_numpy()
    if (np.diff(places) <= 0).any():
        raise VerificationError(f"the rows of the table {table} have places that are not in order")
    return places, as_nodes(fields_of(whole(rows[table], column)))


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
