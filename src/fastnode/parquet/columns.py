"""From stored blocks to columns: a stripe of blocks becomes one Arrow table for each table of the export.

A transaction's effects are read from their stored JSON once.  Hashes stay the texts that they are there; what
repeats for each row of a transaction (block, time, hash) is made by numpy from one value for each transaction.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from fastnode.archiver import layout
from fastnode.archiver.messages import first_index_after, messages_of_stored_block
from fastnode.archiver.queries import ChainView, stored_info
from fastnode.archiver.records import BlockInfo, StoredBlock, StoredCheckpoint
from fastnode.errors import DatabaseError
from fastnode.kernels import field_runs
from fastnode.parquet.tables import TABLES, Column, Table
from fastnode.protocol.constants import (
    CONTRACT_INSTANCE_REGISTRY_ADDRESS,
    NOTE_HASHES_PER_TX_MAX,
    NULLIFIERS_PER_TX_MAX,
)
from fastnode.protocol.contracts import (
    INSTANCE_PUBLISHED_TAG,
    ContractClassPublic,
    ContractInstance,
    contract_events,
)
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import field_from_int, hex_text
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.releases import Release

__all__ = [
    "STRIPE_BYTES",
    "Stripe",
    "arrow_schema",
    "digest_of_rows",
    "fields_of",
    "stored_effect",
    "stored_header",
    "stripes",
    "whole",
]

#: A stripe ends with the block whose stored bodies, joined, are so many bytes: what is in memory at once is a few
#: times that, and a row group of each table.
STRIPE_BYTES: Final = 16 << 20

_FEE_MAX: Final = 10**38 - 1
_INT_MAX: Final = (1 << 63) - 1
_MS: Final = 1000

_FEE: Final = pa.decimal128(38, 0)
_TYPES: Final = {
    "int": pa.int64(),
    "hash": pa.string(),
    "name": pa.dictionary(pa.int32(), pa.string()),
    "fee": _FEE,
    "time": pa.timestamp("ms"),
    "hashes": pa.list_(pa.field("element", pa.string(), nullable=False)),
    "bytes": pa.binary(),
}

_FIELD_TEXT: Final = 66
_ADDRESS_TEXT: Final = 42
_TABLES: Final = {table.name: table for table in TABLES}
_INSTANCE_TAG: Final = hex_text(INSTANCE_PUBLISHED_TAG)
_INSTANCE_REGISTRY: Final = hex_text(field_from_int(CONTRACT_INSTANCE_REGISTRY_ADDRESS))


def arrow_schema(table: Table) -> pa.Schema:
    """The schema of a table's files."""
    return pa.schema([pa.field(column.name, _TYPES[column.kind], column.is_nullable) for column in table.columns])


def digest_of_rows(rows: pa.Table) -> bytes:
    """SHA-256 over the values of all columns, whatever pieces of memory they are in; names are texts there."""
    digest = sha256(len(rows).to_bytes(8, "little"))
    for name in rows.column_names:
        values = whole(rows, name)
        _add_values(digest, values.dictionary_decode() if pa.types.is_dictionary(values.type) else values)
    return digest.digest()


def whole(rows: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    column = rows.column(name)
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _add_values(digest: Any, values: pa.Array) -> None:
    """Add an array: which values are null, the length of each where lengths differ, and what they are."""
    digest.update(values.null_count.to_bytes(8, "little"))
    if values.null_count:
        digest.update(values.is_null().to_numpy(zero_copy_only=False))
        values = values.drop_null()
    kind, start, count = values.type, values.offset, len(values)
    if pa.types.is_list(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind):
        offsets = np.frombuffer(values.buffers()[1], np.int32, count + 1, 4 * start) if count else np.zeros(1, np.int32)
        digest.update(np.diff(offsets))
        if pa.types.is_list(kind):
            _add_values(digest, values.values.slice(offsets[0], offsets[-1] - offsets[0]))
        elif offsets[-1] > offsets[0]:
            digest.update(memoryview(values.buffers()[2])[offsets[0] : offsets[-1]])
    elif count:
        width = kind.bit_width // 8
        digest.update(memoryview(values.buffers()[1])[start * width : (start + count) * width])


def fields_of(texts: pa.Array) -> bytes:
    """The 32 bytes of each text of a column, joined; ValueError names the first that is no field."""
    if not len(texts):
        return b""
    data, start = _characters(texts)
    try:
        return field_runs.fields_of_texts(data, start, len(texts))
    except ValueError:
        _check_fields(texts)
        raise


def _check_fields(texts: pa.Array) -> None:
    """ValueError names the first text of a column that is no field; null is none."""
    present = texts.drop_null() if texts.null_count else texts
    if not len(present):
        return
    place = field_runs.first_no_text(*_characters(present), len(present))
    if place is not None:
        raise ValueError(f"{place}: {present[place].as_py()!r} is no field")


def _characters(texts: pa.Array) -> tuple[memoryview, int]:
    """The buffer that texts of 66 characters are in, and where the first begins; ValueError for another length."""
    _, offsets_buffer, data = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(texts) + 1, texts.offset * 4)
    is_wrong = np.diff(offsets) != _FIELD_TEXT
    if is_wrong.any():
        place = int(np.argmax(is_wrong))
        raise ValueError(f"{place}: {texts[place].as_py()!r} is no field")
    return memoryview(data).cast("B"), int(offsets[0])


class _PerTransaction:
    """Rows that transactions have any number of: how many each has, and lists of their values."""

    __slots__ = ("counts", "values")

    def __init__(self, names: Sequence[str]) -> None:
        self.counts = array("q")
        self.values: dict[str, list[Any]] = {name: [] for name in names}


class _Sizes(NamedTuple):
    """Leaves of the trees that transactions append to."""

    notes: int
    nullifiers: int


def _sizes(header: dict[str, Any]) -> _Sizes:
    """The sizes that a stored header names."""
    trees = header["state"]["partial"]
    return _Sizes(*(trees[name]["nextAvailableLeafIndex"] for name in ("noteHashTree", "nullifierTree")))


class Stripe:
    """Rows of some blocks that follow each other; :meth:`take` makes tables of them and begins anew."""

    def __init__(self, tables: Sequence[Table], release: Release) -> None:
        self._tables = tables
        self._release = release
        self._clear()

    def _clear(self) -> None:
        self.bytes = 0
        self._blocks: dict[str, list[Any]] = {column.name: [] for column in _TABLES["blocks"].columns}
        self._checkpoints: dict[str, list[Any]] = {column.name: [] for column in _TABLES["checkpoints"].columns}
        self._messages: dict[str, list[Any]] = {column.name: [] for column in _TABLES["l1_to_l2_messages"].columns}
        self._tx_block = array("q")  # place of each transaction's block in the stripe
        self._tx_index = array("q")
        self._tx_hashes: list[str] = []
        self._revert_codes = array("q")
        self._fees: list[int] = []
        self._first_note_hash = array("q")
        self._first_nullifier = array("q")
        self._class_log_counts = array("q")
        self._note_hashes = _PerTransaction(["note_hash"])
        self._nullifiers = _PerTransaction(["nullifier"])
        self._to_l1 = _PerTransaction(["message_hash"])
        self._writes = _PerTransaction(["leaf_slot", "value"])
        self._private = _PerTransaction(["length", "fields"])
        self._public = _PerTransaction(["length", "fields", "contract_address"])
        self._contracts: dict[str, dict[str, list[Any]]] = {
            name: {column.name: [] for column in _TABLES[name].columns}
            for name in ("contract_classes", "contract_instances", "contract_updates")
        }

    # ---- blocks --------------------------------------------------------------------------------------

    def add_genesis_contracts(self, genesis: dict[str, Any], timestamp: int) -> None:
        """The contracts that exist before the first block."""
        where = [0, timestamp, None, None]
        for item in genesis["contractClasses"]:
            self._add_class(where, ContractClassPublic.from_json(item, "contractClasses"))
        for item in genesis["contractInstances"]:
            self._add_instance(where, ContractInstance.from_json(item, "contractInstances"))

    def add_block(self, block: StoredBlock, bodies: Sequence[bytes], before: _Sizes) -> _Sizes:
        """One block, of which ``bodies`` are the stored effects, on trees of these sizes; returns theirs after it.

        DatabaseError for something stored that is no such thing.
        """
        info = block.info
        try:
            header = orjson.loads(block.header_json)
            self._add_header(info, header, orjson.loads(block.archive_json)["root"])
            after = _sizes(header)
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(f"block {info.number}", error) from error
        place = len(self._blocks["block_number"]) - 1
        for index, body in enumerate(bodies):
            try:
                self._add_effect(info, place, index, orjson.loads(body))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise _damaged(f"block {info.number}, transaction {index}", error) from error
            self._first_note_hash.append(before.notes + index * NOTE_HASHES_PER_TX_MAX)
            self._first_nullifier.append(before.nullifiers + index * NULLIFIERS_PER_TX_MAX)
            self.bytes += len(body)
        return after

    def _add_header(self, info: BlockInfo, header: dict[str, Any], archive_root: str) -> None:
        variables, state = header["globalVariables"], header["state"]
        prices = variables["gasFees"]
        values = [info.number, info.timestamp, info.timestamp * _MS, hex_text(info.hash), info.slot_number]
        values += [info.checkpoint_number, info.index_within_checkpoint, info.tx_count]
        values += [_fee(int(header["totalFees"], 16)), _integer(int(header["totalManaUsed"], 16))]
        values += [_fee(int(prices["feePerDaGas"])), _fee(int(prices["feePerL2Gas"]))]
        values += [_address(variables["coinbase"]), variables["feeRecipient"]]
        values += [_integer(int(variables["chainId"], 16)), _integer(int(variables["version"], 16))]
        values += [header["lastArchive"]["root"], archive_root, header["spongeBlobHash"]]
        trees = [state["l1ToL2MessageTree"]]
        trees += [state["partial"][name] for name in ("noteHashTree", "nullifierTree", "publicDataTree")]
        for tree in trees:
            values += [tree["root"], tree["nextAvailableLeafIndex"]]
        _append(self._blocks, values)

    def _add_effect(self, info: BlockInfo, place: int, index: int, effect: dict[str, Any]) -> None:
        tx_hash, private_logs, public_logs = effect["txHash"], effect["privateLogs"], effect["publicLogs"]
        self._tx_block.append(place)
        self._tx_index.append(index)
        self._tx_hashes.append(tx_hash)
        self._revert_codes.append(effect["revertCode"])
        self._fees.append(_fee(int(effect["transactionFee"], 16)))
        for rows, name, key in (
            (self._note_hashes, "note_hash", "noteHashes"),
            (self._nullifiers, "nullifier", "nullifiers"),
            (self._to_l1, "message_hash", "l2ToL1Msgs"),
        ):
            hashes = effect[key]
            rows.counts.append(len(hashes))
            rows.values[name] += hashes
        writes = effect["publicDataWrites"]
        self._writes.counts.append(len(writes))
        self._writes.values["leaf_slot"] += [write["leafSlot"] for write in writes]
        self._writes.values["value"] += [write["value"] for write in writes]
        has_contracts = bool(effect["contractClassLogs"])
        self._class_log_counts.append(len(effect["contractClassLogs"]))
        lengths, fields = self._private.values["length"], self._private.values["fields"]
        self._private.counts.append(len(private_logs))
        for log in private_logs:
            length, emitted = log["emittedLength"], log["fields"]
            has_contracts |= emitted[0] == _INSTANCE_TAG
            lengths.append(length)
            fields += emitted[:length] if length < len(emitted) else emitted
        lengths, fields = self._public.values["length"], self._public.values["fields"]
        self._public.counts.append(len(public_logs))
        for log in public_logs:
            lengths.append(len(log["fields"]))
            fields += log["fields"]
        emitters = [log["contractAddress"] for log in public_logs]
        self._public.values["contract_address"] += emitters
        if has_contracts or _INSTANCE_REGISTRY in emitters:
            self._add_contracts(info, index, effect)

    def _add_contracts(self, info: BlockInfo, index: int, effect: dict[str, Any]) -> None:
        events = contract_events(TxEffect.from_json(effect, "effect"), self._release)
        where = [info.number, info.timestamp, index, effect["txHash"]]
        for published in events.classes:
            self._add_class(where, published)
        for instance in events.instances:
            self._add_instance(where, instance)
        for update in events.updates:
            texts = map(hex_text, (update.address, update.previous_class_id, update.new_class_id))
            _append(self._contracts["contract_updates"], [*where, *texts, _integer(update.timestamp_of_change)])

    def _add_class(self, where: list[Any], item: ContractClassPublic) -> None:
        texts = hex_text(item.artifact_hash), hex_text(item.private_functions_root)
        code = item.packed_bytecode
        _append(self._contracts["contract_classes"], [*where, hex_text(item.id), item.version, *texts, len(code), code])

    def _add_instance(self, where: list[Any], item: ContractInstance) -> None:
        values = [*where, hex_text(item.address), item.version]
        for value in (item.original_contract_class_id, item.salt, item.initialization_hash, item.deployer):
            values.append(hex_text(value))
        values.append(hex_text(item.public_keys.hash()))
        values.append(None if item.immutables_hash is None else hex_text(item.immutables_hash))
        _append(self._contracts["contract_instances"], values)

    def add_messages(self, info: BlockInfo, messages: Sequence[bytes], place: int, first_index: int) -> None:
        """Add the messages from L1 that a block appends; the first is message ``place`` of its checkpoint."""
        for offset, message in enumerate(messages):
            values: list[Any] = [info.number, info.timestamp, info.checkpoint_number]
            values += [place + offset, first_index + offset, hex_text(message)]
            _append(self._messages, values)

    def add_checkpoint(self, stored: StoredCheckpoint) -> None:
        """A complete checkpoint, behind its last block."""
        try:
            header, l1 = orjson.loads(stored.header_json), orjson.loads(stored.l1_json)
            timestamp, fees = int(header["timestamp"]), header.get("accumulatedFees")
            values = [stored.last_block, timestamp, timestamp * _MS, stored.number, hex_text(stored.header_hash)]
            values += [stored.start_block, stored.block_count, stored.slot_number]
            values += [_integer(int(header["totalManaUsed"], 16)), None if fees is None else _fee(int(fees, 16))]
            values += [_fee(int(header["gasFees"][name])) for name in ("feePerDaGas", "feePerL2Gas")]
            values += [header[name] for name in ("coinbase", "feeRecipient", "lastArchiveRoot")]
            values.append(orjson.loads(stored.archive_json)["root"])
            values += [header[name] for name in ("blockHeadersHash", "blobsHash", "inHash", "epochOutHash")]
            values += [hex_text(stored.out_hash), _integer(stored.fee_asset_price_modifier)]
            values += [int(l1["blockNumber"]), int(l1["timestamp"]), l1["blockHash"]]
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(f"checkpoint {stored.number}", error) from error
        _append(self._checkpoints, values)

    # ---- tables --------------------------------------------------------------------------------------

    def take(self) -> dict[str, pa.Table]:
        """The tables of what was added since the last call, by name.  DatabaseError for a text that is no field."""
        made = {}
        for table in self._tables:
            try:
                made[table.name] = pa.Table.from_arrays(self._columns(table), schema=arrow_schema(table))
            except (ValueError, TypeError, pa.ArrowException) as error:
                numbers = self._blocks["block_number"]
                raise _damaged(f"blocks {numbers[0]} to {numbers[-1]}, table {table.name}", error) from error
        self._clear()
        return made

    def _columns(self, table: Table) -> list[pa.Array]:
        plain = {
            "blocks": self._blocks,
            "checkpoints": self._checkpoints,
            "l1_to_l2_messages": self._messages,
            **self._contracts,
        }
        if table.name in plain:
            return [_column(column, plain[table.name][column.name]) for column in table.columns]
        make: Callable[[], dict[str, Any]] = {
            "transactions": self._transactions,
            "fees": self._fee_rows,
            "note_hashes": lambda: self._hashes(self._note_hashes, "note_hash", self._first_note_hash),
            "nullifiers": lambda: self._hashes(self._nullifiers, "nullifier", self._first_nullifier),
            "public_writes": self._write_rows,
            "private_logs": lambda: self._logs(self._private),
            "public_logs": lambda: self._logs(self._public),
            "l2_to_l1_messages": lambda: self._hashes(self._to_l1, "message", None),
        }[table.name]
        made = make()
        return [_column(column, made[column.name]) for column in table.columns]

    def _of_blocks(self, names: Sequence[str], blocks: np.ndarray[Any, Any]) -> dict[str, Any]:
        """Columns of the block of each row."""
        made: dict[str, Any] = {}
        for name in names:
            values = self._blocks[name]
            if name in ("coinbase", "fee_recipient"):
                made[name] = pa.array(values, pa.string()).dictionary_encode().take(pa.array(blocks))
            elif name in ("fee_per_da_gas", "fee_per_l2_gas"):
                made[name] = _fee_array(values).take(pa.array(blocks))
            else:
                made[name] = np.array(values, np.int64)[blocks]
        return made

    def _transactions(self) -> dict[str, Any]:
        counts = {
            "note_hash_count": self._note_hashes,
            "nullifier_count": self._nullifiers,
            "l2_to_l1_message_count": self._to_l1,
            "public_write_count": self._writes,
            "private_log_count": self._private,
            "public_log_count": self._public,
        }
        return {
            **self._of_blocks(("block_number", "timestamp", "block_time"), _numbers(self._tx_block)),
            "tx_index": self._tx_index,
            "tx_hash": self._tx_hashes,
            "revert_code": self._revert_codes,
            "transaction_fee": self._fees,
            **{name: rows.counts for name, rows in counts.items()},
            "contract_class_log_count": self._class_log_counts,
        }

    def _fee_rows(self) -> dict[str, Any]:
        names = ("block_number", "timestamp", "block_time", *(column.name for column in _TABLES["fees"].columns[-4:]))
        return {
            **self._of_blocks(names, _numbers(self._tx_block)),
            "tx_index": self._tx_index,
            "tx_hash": _named(self._tx_hashes, np.arange(len(self._tx_hashes))),
            "transaction_fee": self._fees,
        }

    def _rows(self, counts: array[int], index_name: str) -> tuple[dict[str, Any], np.ndarray[Any, Any]]:
        """The columns that say where each row is, and the transaction of each."""
        by_tx = _numbers(counts)
        transactions = np.repeat(np.arange(len(by_tx)), by_tx)
        used = np.flatnonzero(by_tx)
        index = np.arange(len(transactions)) - np.repeat(np.cumsum(by_tx) - by_tx, by_tx)
        made = self._of_blocks(("block_number", "timestamp"), _numbers(self._tx_block)[transactions])
        made["tx_index"] = _numbers(self._tx_index)[transactions]
        hashes = [self._tx_hashes[at] for at in used.tolist()]
        made["tx_hash"] = _named(hashes, np.repeat(np.arange(len(used)), by_tx[used]))
        made[index_name] = index
        return made, transactions

    def _hashes(self, rows: _PerTransaction, name: str, first: array[int] | None) -> dict[str, Any]:
        made, transactions = self._rows(rows.counts, f"{name}_index")
        if first is not None:
            made["leaf_index"] = _numbers(first)[transactions] + made[f"{name}_index"]
        return made | rows.values

    def _write_rows(self) -> dict[str, Any]:
        return self._rows(self._writes.counts, "write_index")[0] | self._writes.values

    def _logs(self, rows: _PerTransaction) -> dict[str, Any]:
        made, _ = self._rows(rows.counts, "log_index")
        lengths = np.array(rows.values["length"], np.int64)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        fields = pa.array(rows.values["fields"], pa.string())
        _check_fields(fields)
        has_tag = lengths > 0
        firsts = pa.array(np.where(has_tag, offsets[:-1], 0), mask=~has_tag)
        made["tag"] = fields.take(firsts)
        made["field_count"] = lengths
        made["fields"] = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), fields, type=_TYPES["hashes"])
        if "contract_address" in rows.values:
            made["contract_address"] = rows.values["contract_address"]
        return made


def _damaged(where: str, error: Exception) -> DatabaseError:
    reason = f"{type(error).__name__} {error}" if isinstance(error, KeyError | AttributeError) else str(error)
    return DatabaseError(f"{where} cannot be exported: what is stored is damaged ({reason}); run `fastnode db check`")


def _append(columns: dict[str, list[Any]], values: Sequence[Any]) -> None:
    for column, value in zip(columns.values(), values, strict=True):
        column.append(value)


def _fee(value: int) -> int:
    if value > _FEE_MAX:
        raise ValueError(f"the fee {value} has more than 38 digits")
    return value


def _address(text: str) -> str:
    if len(text) != _ADDRESS_TEXT or text[:2] != "0x":
        raise ValueError(f"{text!r} is no address of L1")
    bytes.fromhex(text[2:])
    return text


def _integer(value: int) -> int:
    if abs(value) > _INT_MAX:
        raise ValueError(f"the number {value} does not fit 64 bits")
    return value


def _numbers(values: array[int]) -> np.ndarray[Any, Any]:
    return np.frombuffer(values, np.int64) if len(values) else np.zeros(0, np.int64)


def _column(column: Column, values: Any) -> pa.Array:
    """The column of values as they were gathered."""
    if isinstance(values, pa.Array):
        return values
    if column.kind == "fee":
        return _fee_array(values)
    if column.kind == "name":
        named = pa.array(values, pa.string()).dictionary_encode()
        if column.name != "coinbase":
            _check_fields(named.dictionary)
        return named
    made = pa.array(_numbers(values) if isinstance(values, array) else values, _TYPES[column.kind])
    if column.kind == "hash" and column.name not in ("coinbase", "tag"):
        _check_fields(made)
    return made


def _named(texts: list[str], places: np.ndarray[Any, Any]) -> pa.Array:
    values = pa.array(texts, pa.string())
    _check_fields(values)
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), values)


def _fee_array(values: Sequence[int | None]) -> pa.Array:
    if None in values:
        return pa.array(values, _FEE)
    data = b"".join([value.to_bytes(16, "little") for value in values if value is not None])
    return pa.Array.from_buffers(_FEE, len(values), [None, pa.py_buffer(data)])


# ---- blocks of a chain ----------------------------------------------------------------------------------


def stripes(
    view: ChainView, tables: Sequence[Table], first: int, last: int, *, stripe_bytes: int = STRIPE_BYTES
) -> Iterator[tuple[int, dict[str, pa.Table]]]:
    """(last block, tables) of blocks ``first`` to ``last``, stripe by stripe; no stripe has none."""
    stripe = Stripe(tables, view.chain.release)
    parent = stored_header(view, first - 1).state
    sizes = _Sizes(parent.note_hash_tree.next_available_leaf_index, parent.nullifier_tree.next_available_leaf_index)
    checkpoint = _checkpoint_of(view, first)
    if first == 1:
        stripe.add_genesis_contracts(orjson.loads(view.genesis_json()), stored_info(view, 0).timestamp)
    for number in range(first, last + 1):
        block = view.block(number)
        if block is None:
            raise DatabaseError(f"block {number} is missing from the chain database; run `fastnode db check`")
        info = block.info
        sizes = stripe.add_block(block, _bodies(view, info), sizes)
        if info.index_within_checkpoint == 0:
            checkpoint = _checkpoint_of(view, number)
        if messages := messages_of_stored_block(view, number):
            place = view.l1_to_l2_messages(info.checkpoint_number).index(messages[0])
            stripe.add_messages(info, messages, place, first_index_after(view, number - 1, info.checkpoint_number))
        if checkpoint is not None and checkpoint.last_block == number:
            stripe.add_checkpoint(checkpoint)
        if stripe.bytes >= stripe_bytes or number == last:
            yield number, stripe.take()


def stored_effect(view: ChainView, number: int, index: int) -> TxEffect:
    """A transaction as it is stored.  DatabaseError for one that is not there, or is none."""
    try:
        return TxEffect.from_json(orjson.loads(view.get(layout.effect_key(number, index)) or b""), "effect")
    except ValueError as error:
        raise _damaged(f"block {number}, transaction {index}", error) from error


def stored_header(view: ChainView, number: int) -> BlockHeader:
    """The header of a block, without a look at its hash.  DatabaseError for one that is damaged."""
    try:
        return BlockHeader.from_json(orjson.loads(view.header_json(number) or b""), "header")
    except ValueError as error:
        raise _damaged(f"block {number}", error) from error


def _checkpoint_of(view: ChainView, number: int) -> StoredCheckpoint | None:
    return view.checkpoint(stored_info(view, number).checkpoint_number)


def _bodies(view: ChainView, info: BlockInfo) -> list[bytes]:
    view.require_body(info.number)
    bodies = view.values(layout.effect_key(info.number, 0), layout.effect_key(info.number, info.tx_count))
    if len(bodies) != info.tx_count:
        raise DatabaseError(
            f"block {info.number} has {len(bodies)} of {info.tx_count} transactions; run `fastnode db check`"
        )
    return bodies
