"""Block headers and blob fields from rows: what the blocks of a stripe published, put together again.

The fields of all transactions are laid out by numpy, all kinds of effects at a time (:mod:`fastnode.protocol.blobs` has
their order): each kind is a run of fields, and says for each of them where it goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fastnode.archiver.queries import ChainView
from fastnode.parquet.columns import fields_of, stored_effect, whole
from fastnode.parquet.tables import BLOCK_NUMBER
from fastnode.protocol.blobs import TX_START_BITS, header_end_fields
from fastnode.protocol.constants import PUBLIC_LOG_HEADER_FIELDS, TX_START_PREFIX
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.header import (
    AppendOnlyTreeSnapshot,
    BlockHeader,
    GasFees,
    GlobalVariables,
    StateReference,
)

__all__ = ["block_fields", "fees_of", "headers_of"]

Array = np.ndarray[Any, Any]

_WORDS: Final = FIELD_BYTES // 8
#: Fields of a transaction in front of its effects: start marker, hash, fee.
_TX_HEAD_FIELDS: Final = 3
_FEE_BYTES: Final = 16
#: Tables of effects in the order in which a transaction has them, with the fields of a row; logs differ in length.
_WIDTHS: Final = {
    "note_hashes": 1,
    "nullifiers": 1,
    "l2_to_l1_messages": 1,
    "public_writes": 2,
    "private_logs": 1,
    "public_logs": PUBLIC_LOG_HEADER_FIELDS,
}
_HASHES: Final = {"note_hashes": "note_hash", "nullifiers": "nullifier", "l2_to_l1_messages": "message_hash"}
#: Fields in front of those of a log: its length, and of a public one the contract.
_LOG_HEADS: Final = {"private_logs": 1, "public_logs": PUBLIC_LOG_HEADER_FIELDS}
_TREES: Final = ("l1_to_l2_message", "note_hash", "nullifier", "public_data")


def fees_of(rows: pa.Table, name: str) -> list[int]:
    """The fees of a column without nulls."""
    data = _fee_bytes(rows, name).tobytes()
    return [int.from_bytes(data[at : at + _FEE_BYTES], "little") for at in range(0, len(data), _FEE_BYTES)]


def _fee_bytes(rows: pa.Table, name: str) -> Array:
    """Fees of 16 bytes, a row each, little-endian."""
    fees = whole(rows, name)
    if not len(fees):
        return np.zeros((0, _FEE_BYTES), np.uint8)
    data: Array = np.frombuffer(fees.buffers()[1], np.uint8).reshape(-1, _FEE_BYTES)
    return data[fees.offset : fees.offset + len(fees)]


# ---- headers ----------------------------------------------------------------------------------------------


def headers_of(blocks: pa.Table) -> list[BlockHeader]:
    """The headers that the rows of the table blocks are."""

    def hashes(name: str) -> list[bytes]:
        joined = fields_of(whole(blocks, name))
        return [joined[at : at + FIELD_BYTES] for at in range(0, len(joined), FIELD_BYTES)]

    def numbers(name: str) -> list[int]:
        made: list[int] = blocks.column(name).to_numpy().tolist()
        return made

    heights = numbers(BLOCK_NUMBER)
    archives = map(AppendOnlyTreeSnapshot, hashes("last_archive_root"), heights)
    trees = [map(AppendOnlyTreeSnapshot, hashes(f"{name}_tree_root"), numbers(f"{name}_tree_size")) for name in _TREES]
    coinbases = [bytes.fromhex(text[2:]) for text in blocks.column("coinbase").to_pylist()]
    prices = map(GasFees, fees_of(blocks, "fee_per_da_gas"), fees_of(blocks, "fee_per_l2_gas"))
    variables = map(
        GlobalVariables,
        *(numbers("chain_id"), numbers("rollup_version"), heights, numbers("slot_number"), numbers("timestamp")),
        *(coinbases, hashes("fee_recipient"), prices),
    )
    sums = fees_of(blocks, "total_fees"), numbers("total_mana_used")
    return list(
        map(BlockHeader, archives, map(StateReference.of_trees, *trees), hashes("sponge_blob_hash"), variables, *sums)
    )


# ---- blob fields ------------------------------------------------------------------------------------------


class _Layout:
    """Runs of fields, and the place of each of them."""

    def __init__(self, fields: int) -> None:
        self._order = np.zeros(fields, np.int64)
        self._sources: list[bytes] = []
        self._count = 0

    def put(self, places: Array, fields: bytes) -> None:
        """Fields, 32 bytes each, to these places."""
        self._order[places] = np.arange(self._count, self._count + len(places))
        self._count += len(places)
        self._sources.append(fields)

    def joined(self) -> bytes:
        """All fields in their order."""
        fields = np.frombuffer(b"".join(self._sources), np.uint64).reshape(-1, _WORDS)
        return bytes(fields.take(self._order, axis=0).tobytes())


class _Effects:
    """Rows of effects that each transaction has any number of."""

    def __init__(self, rows: pa.Table, first_block: int, starts: Array, total: int, width: int) -> None:
        blocks = rows.column(BLOCK_NUMBER).to_numpy() - first_block
        #: The transaction of each row.
        self.transactions: Array = starts[blocks] + rows.column("tx_index").to_numpy()
        #: Rows of each transaction.
        self.counts: Array = np.bincount(self.transactions, minlength=total)
        #: Fields of each row, and of each transaction.
        self.sizes: Array = np.full(len(rows), width, np.int64)
        self.fields: Array = self.counts * width

    def set_sizes(self, sizes: Array) -> None:
        """Let rows differ in length."""
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        self.sizes, self.fields = sizes, np.diff(ends[np.concatenate([[0], np.cumsum(self.counts)])])

    def places(self, starts: Array) -> Array:
        """The place of each row's first field, where the fields of each transaction's rows begin at ``starts``."""
        within = _before(self.sizes) - _before(self.fields)[self.transactions]
        made: Array = starts[self.transactions] + within
        return made


def _before(sizes: Array) -> Array:
    """Sum of all that come before each."""
    made: Array = np.cumsum(sizes) - sizes
    return made


def _words(numbers: Array) -> bytes:
    """Numbers below 2^63 as fields."""
    fields = np.zeros((len(numbers), _WORDS), ">u8")
    fields[:, -1] = numbers
    return fields.tobytes()


def block_fields(chain: ChainView, rows: Mapping[str, pa.Table], headers: Sequence[BlockHeader]) -> list[bytes]:
    """The blob fields of each block of a stripe, joined.

    Logs that publish contract classes have no rows: they are read from ``chain``.  ValueError for a counter that its
    marker cannot hold.
    """
    blocks, transactions = rows["blocks"], rows["transactions"]
    tx_counts = blocks.column("tx_count").to_numpy()
    first, total = headers[0].global_variables.block_number, int(tx_counts.sum())
    kinds = {name: _Effects(rows[name], first, _before(tx_counts), total, width) for name, width in _WIDTHS.items()}
    for name, head_fields in _LOG_HEADS.items():
        kinds[name].set_sizes(rows[name].column("field_count").to_numpy() + head_fields)
    classes = _class_logs(chain, transactions)
    class_fields, class_emitted = np.zeros(total, np.int64), np.zeros(total, np.int64)
    for at, (logs, emitted) in classes.items():
        class_fields[at], class_emitted[at] = len(logs) // FIELD_BYTES, emitted

    ends = _ends(blocks, headers)
    end_sizes = np.array([len(end) // FIELD_BYTES for end in ends], np.int64)
    sizes = _TX_HEAD_FIELDS + sum(kind.fields for kind in kinds.values()) + class_fields
    of_blocks = np.repeat(np.arange(len(headers)), tx_counts)
    heads = _before(sizes) + _before(end_sizes)[of_blocks]
    stops = np.cumsum(np.bincount(of_blocks, sizes, len(headers)).astype(np.int64) + end_sizes)

    layout = _Layout(int(stops[-1]))
    layout.put(heads, _markers(kinds, class_emitted, transactions, sizes))
    layout.put(heads + 1, fields_of(whole(transactions, "tx_hash")))
    layout.put(heads + 2, _fee_fields(rows["fees"]))
    places = heads + _TX_HEAD_FIELDS
    for name, kind in kinds.items():
        _put(layout, name, kind.places(places), rows[name])
        places = places + kind.fields
    for at, (logs, _) in classes.items():
        layout.put(places[at] + np.arange(class_fields[at]), logs)
    in_ends = np.arange(end_sizes.sum()) - np.repeat(_before(end_sizes), end_sizes)
    layout.put(np.repeat(stops - end_sizes, end_sizes) + in_ends, b"".join(ends))
    joined = layout.joined()
    return [joined[start * FIELD_BYTES : stop * FIELD_BYTES] for start, stop in pairwise([0, *stops.tolist()])]


def _ends(blocks: pa.Table, headers: Sequence[BlockHeader]) -> list[bytes]:
    """The end data of each block."""
    counts, places = (blocks.column(name).to_pylist() for name in ("tx_count", "index_within_checkpoint"))
    return [
        header_end_fields(header, count, place) for header, count, place in zip(headers, counts, places, strict=True)
    ]


def _class_logs(chain: ChainView, transactions: pa.Table) -> dict[int, tuple[bytes, int]]:
    """(fields, how many of them were emitted) of the class logs of each transaction that has some."""
    found = {}
    for at in np.flatnonzero(transactions.column("contract_class_log_count").to_numpy()).tolist():
        block, index = (transactions.column(name)[at].as_py() for name in (BLOCK_NUMBER, "tx_index"))
        logs = [log for log in stored_effect(chain, block, index).contract_class_logs if log.emitted_length]
        joined = b"".join([log.contract_address + log.emitted for log in logs])
        found[at] = joined, sum(log.emitted_length for log in logs)
    return found


def _fee_fields(fees: pa.Table) -> bytes:
    fields = np.zeros((len(fees), FIELD_BYTES), np.uint8)
    fields[:, -_FEE_BYTES:] = _fee_bytes(fees, "transaction_fee")[:, ::-1]
    return fields.tobytes()


def _markers(kinds: Mapping[str, _Effects], class_emitted: Array, transactions: pa.Table, sizes: Array) -> bytes:
    """The start marker of each transaction.  All its parts are whole bytes."""
    private, public = kinds["private_logs"], kinds["public_logs"]
    parts = [np.full(len(sizes), TX_START_PREFIX, np.int64)]
    parts += [kind.counts for name, kind in kinds.items() if name != "public_logs"]
    # Private logs count with the fields that are emitted, public ones with their heads, too.
    parts += [private.fields - private.counts, public.fields, class_emitted]
    parts += [transactions.column("revert_code").to_numpy(), sizes]
    markers = np.zeros((len(sizes), FIELD_BYTES), np.uint8)
    at = FIELD_BYTES
    for bits, part in zip(reversed(TX_START_BITS), reversed(parts), strict=True):
        if len(part) and part.max() >> bits:
            raise ValueError(f"{part.max()} does not fit {bits} bits of a blob marker")
        for _ in range(bits // 8):
            at -= 1
            markers[:, at] = part & 0xFF
            part = part >> 8
    return markers.tobytes()


def _put(layout: _Layout, name: str, places: Array, rows: pa.Table) -> None:
    """The fields of all rows of a table, those of a row from its place on."""
    if name == "public_writes":
        layout.put(places, fields_of(whole(rows, "leaf_slot")))
        layout.put(places + 1, fields_of(whole(rows, "value")))
    elif name in _LOG_HEADS:
        counts = rows.column("field_count").to_numpy()
        layout.put(places, _words(counts))
        if name == "public_logs":
            layout.put(places + 1, fields_of(whole(rows, "contract_address")))
        starts = np.repeat(places + _LOG_HEADS[name] - _before(counts), counts)
        layout.put(starts + np.arange(len(starts)), fields_of(whole(rows, "fields").flatten()))
    else:
        layout.put(places, fields_of(whole(rows, _HASHES[name])))
