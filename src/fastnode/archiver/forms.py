"""Forms of blocks, checkpoints and mined transactions: records whose stored parts are put together when asked for.

Each record is written once, as the table of its members: the name in JSON, the type (api/schema_language.py), and where
its text comes from: a part that the kernel has (``PART_...`` in ``_ext/storage/layouts.pxd``), or a function of what
the record is made of.  Schemas, the client and the page of methods follow from the table; :func:`segments` makes of it
what the kernel reads, :func:`writer` what writes it here.  Another release's record is another table; one that the
protocol has too takes names and types from there (:func:`rows_of`).

A member of a receipt that no part has is ``stored``: a function gives it when the block is stored.  One that is added
there is not in the databases that stand: they need a migration (archiver/layout.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import orjson

from fastnode.archiver.records import StoredTransaction
from fastnode.kernels import block_text, encode, layouts
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import Checkpoint, PublishedCheckpoint
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.records import Record

__all__ = [
    "BLOCK_DATA",
    "BLOCK_HEADER",
    "BLOCK_IN_CHECKPOINT",
    "BLOCK_RESPONSE",
    "CHECKPOINTED_BLOCK",
    "CHECKPOINT_DATA",
    "CHECKPOINT_DATA_IN_RELEASE",
    "CHECKPOINT_RESPONSE",
    "DEBUG_LOGS",
    "INDEXED_EFFECT",
    "JOINT_BLOCK",
    "JOINT_CHECKPOINT",
    "L2_BLOCK",
    "MINED_RECEIPT",
    "PUBLISHED_CHECKPOINT",
    "SLOT_NUMBER",
    "TABLES",
    "Fate",
    "Mined",
    "Receipt",
    "Row",
    "Unmined",
    "render_stored_receipt",
    "segments",
    "type_text",
    "with_member",
    "write_dropped_receipt",
    "write_mined_receipt",
    "write_pending_receipt",
    "write_unmined_receipt",
]


# ---- what records are made of ----------------------------------------------------------------------


class Mined(NamedTuple):
    """A transaction of a block that is being stored."""

    effect: TxEffect
    block_number: int
    block_hash: bytes
    epoch_number: int


class Fate(NamedTuple):
    """Fate of a transaction that no block has: ``pending`` or ``dropped``, and why."""

    status: str
    error: str | None
    #: True: this node has never seen it.
    is_unknown: bool = False


class Unmined(NamedTuple):
    """A transaction that no block has."""

    tx_hash: bytes
    fate: Fate
    #: True where the answer tells those that were never seen here.
    is_marked: bool = False
    #: The transaction in JSON; None: it is not asked for.
    tx_json: bytes | None = None


class Receipt(NamedTuple):
    """A transaction of a block, as receipts of 5.x have it; the effect in JSON and the logs are None where they are not
    asked for or not known."""

    tx_hash: bytes
    status: bytes
    transaction: StoredTransaction
    slot_number: int
    effect_json: bytes | None
    debug_logs_json: bytes | None


# ---- rows ------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A member of a record."""

    json: str
    type: str
    #: Part of the kernel; PART_NOTHING: it comes from elsewhere.
    part: int = layouts.PART_NOTHING
    #: The option that asks for it; empty: it is always there.
    option: str = ""
    #: JSON of the member when the block is stored.
    stored: Callable[[Mined], bytes] | None = None
    #: JSON of the member from what the record is made of; None: this one lacks it.
    value: Callable[[Any], bytes | None] | None = None
    #: True where a record may lack it.
    is_optional: bool = False
    #: The record in it, where that is of the same block.
    inner: tuple[Row, ...] = ()


Table = tuple[Row, ...]


def rows_of(record: type[Record], parts: dict[str, int], inner: dict[str, Table] | None = None) -> Table:
    """The table of a record of the protocol: from its members, and the part or record of each by its name in JSON."""
    names = [(each.json, each.codec.type) for each in record.IN_JSON]
    return tuple(Row(name, kind, parts[name], inner=(inner or {}).get(name, ())) for name, kind in names)


# ---- blocks ----------------------------------------------------------------------------------------

_L2_BLOCK: Final = rows_of(
    L2Block,
    {
        "archive": layouts.PART_SENT_ARCHIVE,
        "header": layouts.PART_HEADER,
        "body": layouts.PART_BODY,
        "checkpointNumber": layouts.PART_CHECKPOINT_NUMBER,
        "indexWithinCheckpoint": layouts.PART_INDEX_WITHIN_CHECKPOINT,
    },
)
_SENT_ARCHIVE, _HEADER, _BODY, *_POSITION = _L2_BLOCK
_ARCHIVE: Final = _SENT_ARCHIVE._replace(part=layouts.PART_ARCHIVE)
_HASH: Final = Row("hash", "Fr", layouts.PART_BLOCK_HASH)
_NUMBER: Final = Row("number", "number", layouts.PART_BLOCK_NUMBER)

_BLOCK_RESPONSE: Final = (
    _HEADER,
    _ARCHIVE,
    _HASH,
    *_POSITION,
    _NUMBER,
    _BODY._replace(option="includeTransactions", is_optional=True),
    Row("l1", "L1PublishInfo", layouts.PART_KNOWN_L1, "includeL1PublishInfo", is_optional=True),
    Row(
        "attestations",
        "CommitteeAttestation[]",
        layouts.PART_KNOWN_ATTESTATIONS,
        "includeAttestations",
        is_optional=True,
    ),
)
_BLOCK_DATA: Final = (_HEADER, _ARCHIVE, _HASH._replace(json="blockHash"), *_POSITION)
_CHECKPOINTED_BLOCK: Final = (
    _POSITION[0],
    Row("block", "L2Block", inner=_L2_BLOCK),
    Row("l1", "L1PublishedData", layouts.PART_L1),
    Row("attestations", "CommitteeAttestation[]", layouts.PART_ATTESTATIONS),
)


# ---- checkpoints -----------------------------------------------------------------------------------

_CHECKPOINT: Final = rows_of(
    Checkpoint,
    {
        "archive": layouts.PART_ARCHIVE,
        "header": layouts.PART_HEADER,
        "blocks": layouts.PART_BLOCKS,
        "number": layouts.PART_CHECKPOINT_NUMBER,
        "feeAssetPriceModifier": layouts.PART_FEE_ASSET_PRICE_MODIFIER,
    },
)
_CHECKPOINT_ARCHIVE, _CHECKPOINT_HEADER, _, _CHECKPOINT_NUMBER, _PRICE_MODIFIER = _CHECKPOINT
_PUBLISHED_CHECKPOINT: Final = rows_of(
    PublishedCheckpoint,
    {"checkpoint": layouts.PART_NOTHING, "l1": layouts.PART_L1, "attestations": layouts.PART_ATTESTATIONS},
    {"checkpoint": _CHECKPOINT},
)
_, _CHECKPOINT_L1, _ATTESTATIONS = _PUBLISHED_CHECKPOINT
_EXTENT: Final = (
    Row("startBlock", "number", layouts.PART_START_BLOCK),
    Row("blockCount", "number", layouts.PART_BLOCK_COUNT),
)
_OUT_HASH: Final = Row("checkpointOutHash", "Fr", layouts.PART_OUT_HASH)
_CHECKPOINT_DATA: Final = (
    _CHECKPOINT_HEADER,
    _CHECKPOINT_ARCHIVE,
    _OUT_HASH,
    _CHECKPOINT_NUMBER._replace(json="checkpointNumber"),
    *_EXTENT,
    # Not in the release set.
    _PRICE_MODIFIER._replace(is_optional=True),
    _CHECKPOINT_L1,
    _ATTESTATIONS,
)
#: Its blocks never carry L1's data or attestations: the checkpoint does.
_CHECKPOINT_RESPONSE: Final = (
    _CHECKPOINT_NUMBER,
    _CHECKPOINT_HEADER,
    _CHECKPOINT_ARCHIVE,
    _OUT_HASH,
    *_EXTENT,
    _PRICE_MODIFIER,
    Row("blocks", "BlockResponse[]", layouts.PART_BLOCKS, "includeBlocks", is_optional=True),
    Row("l1", "L1PublishInfo", layouts.PART_KNOWN_L1, "includeL1PublishInfo", is_optional=True),
    _ATTESTATIONS._replace(option="includeAttestations", is_optional=True),
)


# ---- transactions ----------------------------------------------------------------------------------

_TX_HASH: Final = Row("txHash", "Fr", layouts.PART_TX_HASH, value=lambda it: b'"%b"' % encode.to_hex(it.tx_hash))
_ERROR: Final = Row(
    "error", "string", value=lambda it: None if it.fate.error is None else orjson.dumps(it.fate.error), is_optional=True
)
_STORED: Final = (
    Row("transactionFee", "bigint", stored=lambda mined: b'"%d"' % mined.effect.transaction_fee),
    Row("blockHash", "Fr", stored=lambda mined: b'"%b"' % encode.to_hex(mined.block_hash)),
    Row("blockNumber", "number", stored=lambda mined: b"%d" % mined.block_number),
    Row("epochNumber", "number", stored=lambda mined: b"%d" % mined.epoch_number),
)
DEBUG_LOGS: Final = Row("debugLogs", "any[]", value=lambda it: it.debug_logs_json, is_optional=True)
#: Added by release 5.x.
SLOT_NUMBER: Final = Row("slotNumber", "number", value=lambda it: b"%d" % it.slot_number)
_TX_RECEIPT: Final = (
    _TX_HASH,
    Row(
        "status",
        '"dropped"|"pending"|"proposed"|"checkpointed"|"proven"|"finalized"',
        layouts.PART_TX_STATUS,
        value=lambda it: b'"%b"' % it.fate.status.encode(),
    ),
    Row(
        "executionResult",
        '"success"|"reverted"|"app_logic_reverted"|"teardown_reverted"|"both_reverted"',
        layouts.PART_EXECUTION_RESULT,
        is_optional=True,
    ),
    _ERROR,
    *[row._replace(is_optional=True) for row in _STORED],
    DEBUG_LOGS._replace(value=None),
    Row(
        "unknownHere",
        "boolean",
        value=lambda it: b"true" if it.is_marked and it.fate.is_unknown else None,
        is_optional=True,
    ),
)
_MINED_TX_RECEIPT: Final = (
    _TX_HASH,
    Row("status", '"proposed"|"checkpointed"|"proven"|"finalized"', value=lambda it: b'"%b"' % it.status),
    Row(
        "executionResult",
        '"success"|"reverted"',
        value=lambda it: b'"reverted"' if it.transaction.revert_code else b'"success"',
    ),
    *_STORED,
    SLOT_NUMBER,
    Row("txIndexInBlock", "number", value=lambda it: b"%d" % it.transaction.index_in_block),
    Row("txEffect", "TxEffect", value=lambda it: it.effect_json, is_optional=True),
    DEBUG_LOGS,
)
_PENDING_TX_RECEIPT: Final = (
    _TX_HASH,
    Row("status", '"pending"', value=lambda it: b'"pending"'),
    Row("tx", "Tx", value=lambda it: it.tx_json, is_optional=True),
)
_DROPPED_TX_RECEIPT: Final = (_TX_HASH, Row("status", '"dropped"', value=lambda it: b'"dropped"'), _ERROR)
_INDEXED_EFFECT: Final = (
    Row("l2BlockHash", "Fr", layouts.PART_BLOCK_HASH),
    Row("l2BlockNumber", "number", layouts.PART_BLOCK_NUMBER),
    Row("txIndexInBlock", "number", layouts.PART_TX_INDEX),
    Row("data", "TxEffect", layouts.PART_EFFECT),
    SLOT_NUMBER._replace(is_optional=True),
)

#: Records by their names.
TABLES: Final[dict[str, Table]] = {
    "BlockResponse": _BLOCK_RESPONSE,
    "BlockData": _BLOCK_DATA,
    "CheckpointedL2Block": _CHECKPOINTED_BLOCK,
    "CheckpointData": _CHECKPOINT_DATA,
    "CheckpointResponse": _CHECKPOINT_RESPONSE,
    "TxReceipt": _TX_RECEIPT,
    "MinedTxReceipt": _MINED_TX_RECEIPT,
    "PendingTxReceipt": _PENDING_TX_RECEIPT,
    "DroppedTxReceipt": _DROPPED_TX_RECEIPT,
    "IndexedTxEffect": _INDEXED_EFFECT,
}


# ---- derived ---------------------------------------------------------------------------------------


def type_text(table: Table) -> str:
    """The record in the language of schemas."""
    members = [f"{row.json}{'?' if row.is_optional else ''}: {row.type}" for row in table]
    return f"{{{', '.join(members)}}}"


def segments(table: Iterable[Row]) -> block_text.Form:
    """A record as the kernel reads it: texts and the parts behind them."""
    made: list[tuple[bytes, int, str | None]] = []
    before, is_stored = b"{", False
    for row in table:
        name = b'"%b":' % row.json.encode()
        if row.stored is not None and is_stored:
            continue
        if row.inner:
            first, *others, last = segments(row.inner)
            made += [(before + name + first[0], *first[1:]), *others]
            before = last[0] + b","
        elif row.stored is not None or row.part != layouts.PART_NOTHING:
            is_stored = row.stored is not None
            made.append(
                (before, layouts.PART_STORED_RECEIPT, None)
                if is_stored
                else (before + name, row.part, row.option or None)
            )
            before = b","
    return (*made, (before[:-1] + b"}", layouts.PART_NOTHING, None))


def render_stored_receipt(mined: Mined) -> bytes:
    """The members of a receipt that are stored with the transaction, and a closing brace."""
    stored = [b'"%b":%b' % (row.json.encode(), row.stored(mined)) for row in _TX_RECEIPT if row.stored is not None]
    return b",".join(stored) + b"}"


def writer(table: Iterable[Row]) -> Callable[[Any], bytes]:
    """A function that writes a record as JSON from what it is made of; the first member is always there.

    Members that are stored come from its ``transaction``.
    """
    rows: list[tuple[bytes, Callable[[Any], bytes | None]]] = []
    for row in table:
        if row.stored is None and row.value is not None:
            rows.append((b'%b"%b":' % (b"," if rows else b"{", row.json.encode()), row.value))
        elif row.stored is not None and all(name != b"," for name, _ in rows):
            rows.append((b",", lambda it: it.transaction.receipt_json[:-1]))

    def write(source: Any) -> bytes:
        parts: list[bytes] = []
        for name, value in rows:
            text = value(source)
            if text is not None:
                parts += (name, text)
        return b"".join((*parts, b"}"))

    return write


def with_member(text: bytes, row: Row, value: bytes) -> bytes:
    """A record with one more member behind it."""
    return b'%b,"%b":%b}' % (text[:-1], row.json.encode(), value)


BLOCK_HEADER: Final[block_text.Form] = ((b"", layouts.PART_HEADER, None),)
L2_BLOCK: Final[block_text.Form] = segments(_L2_BLOCK)
#: L2Block with the members of BlockResponse that it lacks.
JOINT_BLOCK: Final = segments((*_L2_BLOCK, _HASH, _NUMBER))
BLOCK_RESPONSE: Final = segments(_BLOCK_RESPONSE)
BLOCK_DATA: Final = segments(_BLOCK_DATA)
#: Not of a block whose checkpoint is not complete.
CHECKPOINTED_BLOCK: Final = segments(_CHECKPOINTED_BLOCK)
MINED_RECEIPT: Final = segments(_TX_RECEIPT)
INDEXED_EFFECT: Final = segments(_INDEXED_EFFECT)
#: That of blocks in checkpoints of the development set.
BLOCK_IN_CHECKPOINT: Final[block_text.Form] = segments(
    row for row in _BLOCK_RESPONSE if row.option in ("", "includeTransactions")
)
PUBLISHED_CHECKPOINT: Final = segments(_PUBLISHED_CHECKPOINT)
#: PublishedCheckpoint with the members of CheckpointResponse that need no option.
JOINT_CHECKPOINT: Final = segments((*_PUBLISHED_CHECKPOINT, *(row for row in _CHECKPOINT_RESPONSE if not row.option)))
CHECKPOINT_RESPONSE: Final = segments(_CHECKPOINT_RESPONSE)
CHECKPOINT_DATA: Final = segments(_CHECKPOINT_DATA)
CHECKPOINT_DATA_IN_RELEASE: Final = segments(row for row in _CHECKPOINT_DATA if not row.is_optional)

write_unmined_receipt: Final = writer(row for row in _TX_RECEIPT if row.stored is None)
write_mined_receipt: Final = writer(_MINED_TX_RECEIPT)
write_pending_receipt: Final = writer(_PENDING_TX_RECEIPT)
write_dropped_receipt: Final = writer(_DROPPED_TX_RECEIPT)
