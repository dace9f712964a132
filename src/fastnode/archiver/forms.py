"""Forms of blocks and mined transactions: records whose parts are stored and put together when they are asked for.

Each record is written once, as the table of its members: the name in JSON, the type (api/schema_language.py), and the
part that the kernel has of it (``PART_...`` in ``_ext/storage/layouts.pxd``).  Schemas, the client and the page of
methods follow from the table; :func:`segments` makes of it what the kernel reads.  Another release's record is another
table.

A member of a receipt that no part has is ``stored``: a function gives it when the block is stored.  One that is added
there is not in the databases that stand: they need a migration (archiver/layout.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from fastnode.kernels import block_text, encode, layouts
from fastnode.protocol.effects import TxEffect

__all__ = [
    "BLOCK_DATA",
    "BLOCK_HEADER",
    "BLOCK_RESPONSE",
    "CHECKPOINTED_BLOCK",
    "INDEXED_EFFECT",
    "JOINT_BLOCK",
    "L2_BLOCK",
    "MINED_RECEIPT",
    "TABLES",
    "Mined",
    "Row",
    "render_stored_receipt",
    "segments",
    "type_text",
]


class Mined(NamedTuple):
    """A transaction of a block that is being stored."""

    effect: TxEffect
    block_number: int
    block_hash: bytes
    epoch_number: int


class Row(NamedTuple):
    """A member of a record."""

    json: str
    type: str
    #: Part of the kernel; PART_NOTHING: others add the member.
    part: int = layouts.PART_NOTHING
    #: The option that asks for it; empty: it is always there.
    option: str = ""
    #: JSON of the member when the block is stored.
    stored: Callable[[Mined], bytes] | None = None
    #: True where a record may lack it.
    is_optional: bool = False
    #: The record in it, where that is of the same block.
    inner: tuple[Row, ...] = ()


Table = tuple[Row, ...]


# ---- blocks ----------------------------------------------------------------------------------------

_HEADER: Final = Row("header", "BlockHeader", layouts.PART_HEADER)
_ARCHIVE: Final = Row("archive", "AppendOnlyTreeSnapshot", layouts.PART_ARCHIVE)
_HASH: Final = Row("hash", "Fr", layouts.PART_BLOCK_HASH)
_NUMBER: Final = Row("number", "number", layouts.PART_BLOCK_NUMBER)
_BODY: Final = Row("body", "Body", layouts.PART_BODY)
_CHECKPOINT_NUMBER: Final = Row("checkpointNumber", "number", layouts.PART_CHECKPOINT_NUMBER)
_POSITION: Final = (
    _CHECKPOINT_NUMBER,
    Row("indexWithinCheckpoint", "number", layouts.PART_INDEX_WITHIN_CHECKPOINT),
)

_L2_BLOCK: Final = (_ARCHIVE._replace(part=layouts.PART_SENT_ARCHIVE), _HEADER, _BODY, *_POSITION)
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
    _CHECKPOINT_NUMBER,
    Row("block", "L2Block", inner=_L2_BLOCK),
    Row("l1", "L1PublishedData", layouts.PART_L1),
    Row("attestations", "CommitteeAttestation[]", layouts.PART_ATTESTATIONS),
)


# ---- transactions ----------------------------------------------------------------------------------

_TX_RECEIPT: Final = (
    Row("txHash", "Fr", layouts.PART_TX_HASH),
    Row("status", '"dropped"|"pending"|"proposed"|"checkpointed"|"proven"|"finalized"', layouts.PART_TX_STATUS),
    Row(
        "executionResult",
        '"success"|"reverted"|"app_logic_reverted"|"teardown_reverted"|"both_reverted"',
        layouts.PART_EXECUTION_RESULT,
        is_optional=True,
    ),
    Row("error", "string", is_optional=True),
    Row("transactionFee", "bigint", stored=lambda mined: b'"%d"' % mined.effect.transaction_fee, is_optional=True),
    Row("blockHash", "Fr", stored=lambda mined: b'"%b"' % encode.to_hex(mined.block_hash), is_optional=True),
    Row("blockNumber", "number", stored=lambda mined: b"%d" % mined.block_number, is_optional=True),
    Row("epochNumber", "number", stored=lambda mined: b"%d" % mined.epoch_number, is_optional=True),
    Row("debugLogs", "any[]", is_optional=True),
    Row("unknownHere", "boolean", is_optional=True),
)
_INDEXED_EFFECT: Final = (
    Row("l2BlockHash", "Fr", layouts.PART_BLOCK_HASH),
    Row("l2BlockNumber", "number", layouts.PART_BLOCK_NUMBER),
    Row("txIndexInBlock", "number", layouts.PART_TX_INDEX),
    Row("data", "TxEffect", layouts.PART_EFFECT),
    # Added by release 5.x.
    Row("slotNumber", "number", is_optional=True),
)

#: Records by their names.
TABLES: Final[dict[str, Table]] = {
    "BlockResponse": _BLOCK_RESPONSE,
    "BlockData": _BLOCK_DATA,
    "CheckpointedL2Block": _CHECKPOINTED_BLOCK,
    "TxReceipt": _TX_RECEIPT,
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


BLOCK_HEADER: Final[block_text.Form] = ((b"", layouts.PART_HEADER, None),)
L2_BLOCK: Final = segments(_L2_BLOCK)
#: L2Block with the members of BlockResponse that it lacks.
JOINT_BLOCK: Final = segments((*_L2_BLOCK, _HASH, _NUMBER))
BLOCK_RESPONSE: Final = segments(_BLOCK_RESPONSE)
BLOCK_DATA: Final = segments(_BLOCK_DATA)
#: Not of a block whose checkpoint is not complete.
CHECKPOINTED_BLOCK: Final = segments(_CHECKPOINTED_BLOCK)
MINED_RECEIPT: Final = segments(_TX_RECEIPT)
INDEXED_EFFECT: Final = segments(_INDEXED_EFFECT)
