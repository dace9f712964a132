"""The chain database: its keys.

``<data directory>/archiver`` is a LevelDB (numbers are u32 big-endian so that they sort;
values with a head are drawn in ``records.py``; *JSON* means bytes ready to be sent):

    key                        value
    --------------------------------------------------------------------------------------------
    V                          "fastnode archiver " and the schema version in decimal digits
    C                          JSON of the chain: {"nodeInfo":..,"l1Constants":..,"minFees":..}
    R                          name of the release whose rules the chain is verified by, such as "4.x"
    G                          JSON of the genesis record as the chain file has it
    T                          tips (records.py): the newest block is the one named here
    U                          block number of an undo that was interrupted; absent otherwise
    O                          the oldest block with a body, the first of its checkpoint; absent: 1, nothing is pruned
    D                          bytes that were pruned and may still be on the disk, u64; absent: none
    P                          the first key whose value may be in the form of an older version; absent: there is none
    K  class id 32             JSON of a contract class of the genesis
    N  address 32              JSON of a contract instance of the genesis

    b  block                   block record; block 0 is the genesis block
    e  block  tx index         JSON of one TxEffect
    y  block                   tx hashes of the block, 32 bytes each, in order
    m  block                   JSON of the block's L2->L1 messages: [tx][message]
    c  checkpoint              checkpoint record; absent until the checkpoint's last block is stored
    i  checkpoint              L1->L2 messages of the checkpoint, 32 bytes each, without padding;
                               stored with the checkpoint's first block, absent when there is none

    H  block hash 32           block number
    A  archive root 32         block number (the archive *after* that block)
    t  tx hash 32              transaction record
    s  slot                    checkpoint number
    x  L1->L2 message hash 32  leaf index in the message tree, u64

    0x80..0xff                 reserved for index writers (logs, contracts); never read here

Values of ``b``, ``c``, ``e``, ``t`` and JSON in three kinds of the log index are *texts*: stored packed, read as they
are drawn here (``kernels.stored_text``).  Those of an older version lie unpacked beside them and are read alike, until
the node has brought them to the form of this one while it serves (packing.py).

Of blocks 1 to before ``O`` there is no ``e``, and the log index has none of their logs (log_index/layout.py).
Everything else stays: headers, hashes, checkpoints, messages both ways, receipts.

A block is one synced write batch that includes ``T``, so that a crash at any instant leaves
whole blocks.  Bodies are keyed by number and not by transaction hash: a class registration is
200 kB, and keys that grow keep LevelDB from merging such values over and over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from fastnode.kernels import layouts
from fastnode.protocol.releases import FOUR
from fastnode.storage.database import SharedDatabase
from fastnode.storage.migration import Batch, Migration, version_after
from fastnode.storage.structs import placed

#: Tells this database from the node's others, and from those of other programs.
SCHEMA_NAME: Final = b"fastnode archiver "

KEY_SCHEMA: Final = b"V"
KEY_CHAIN: Final = b"C"
KEY_GENESIS: Final = b"G"
KEY_TIPS: Final = b"T"
KEY_RELEASE: Final = b"R"
KEY_UNDO: Final = b"U"
KEY_OLDEST_BODY: Final = b"O"
KEY_DROPPED: Final = b"D"
KEY_NOT_PACKED: Final = b"P"

CLASS: Final = b"K"
INSTANCE: Final = b"N"

BLOCK: Final = bytes([layouts.BLOCK_LETTER])
EFFECT: Final = bytes([layouts.EFFECT_LETTER])
TX_HASHES: Final = b"y"
L2_TO_L1: Final = b"m"
CHECKPOINT: Final = bytes([layouts.CHECKPOINT_LETTER])
L1_TO_L2: Final = b"i"

BLOCK_BY_HASH: Final = bytes([layouts.BY_HASH_LETTER])
BLOCK_BY_ARCHIVE: Final = bytes([layouts.BY_ARCHIVE_LETTER])
TRANSACTION: Final = bytes([layouts.TX_LETTER])
CHECKPOINT_BY_SLOT: Final = b"s"
MESSAGE: Final = b"x"

#: First bytes of keys whose values are packed; the last three are pages of tags and public logs (log_index/layout.py).
TEXTS: Final = BLOCK + CHECKPOINT + EFFECT + TRANSACTION + b"\x82\x83\x84"
#: First bytes of keys whose values have had another form: class logs too.
RENEWED: Final = TEXTS + b"\x88"


def _name_release(database: SharedDatabase) -> Iterator[Batch]:
    """Version 2: the release of a chain is named.  All chains before were verified by the rules of 4.x."""
    if database.get(KEY_CHAIN) is not None:
        yield [(KEY_RELEASE, FOUR.name.encode())]


def _begin_packing(database: SharedDatabase) -> Iterator[Batch]:
    """Version 3: texts may be packed.  Those that are there stay as they are until the node packs them."""
    if database.get(KEY_CHAIN) is not None:
        yield [(KEY_NOT_PACKED, TEXTS[:1])]


def _begin_placing(database: SharedDatabase) -> Iterator[Batch]:
    """Version 4: the index of logs says where they are.  The logs in it stay until the node rewrites them."""
    if database.get(KEY_CHAIN) is not None:
        first = TEXTS[-3:-2]
        yield [(KEY_NOT_PACKED, min(database.get(KEY_NOT_PACKED) or first, first))]


def _begin_placing_class_logs(database: SharedDatabase) -> Iterator[Batch]:
    """Version 5: of class logs too.  The logs beside the effects that have them stay until the node removes them."""
    if database.get(KEY_CHAIN) is not None:
        first = RENEWED[-1:]
        yield [(KEY_NOT_PACKED, min(database.get(KEY_NOT_PACKED) or first, first))]


#: From each version of the layout to the next.
MIGRATIONS: Final[tuple[Migration, ...]] = (_name_release, _begin_packing, _begin_placing, _begin_placing_class_logs)
SCHEMA_VERSION: Final = version_after(MIGRATIONS)

_NUMBER = struct.Struct(">I")
_INDEX = struct.Struct(">Q")
_NUMBERED = placed((0, "cI"), size=layouts.NUMBER_KEY_BYTES)
_EFFECT_KEY = placed((0, "cII"), size=layouts.EFFECT_KEY_BYTES)


def block_key(number: int) -> bytes:
    return _NUMBERED.pack(BLOCK, number)


def tx_hashes_key(number: int) -> bytes:
    return _NUMBERED.pack(TX_HASHES, number)


def l2_to_l1_key(number: int) -> bytes:
    return _NUMBERED.pack(L2_TO_L1, number)


def checkpoint_key(number: int) -> bytes:
    return _NUMBERED.pack(CHECKPOINT, number)


def l1_to_l2_key(checkpoint_number: int) -> bytes:
    return _NUMBERED.pack(L1_TO_L2, checkpoint_number)


def slot_key(slot: int) -> bytes:
    return _NUMBERED.pack(CHECKPOINT_BY_SLOT, slot)


def effect_key(block_number: int, index: int) -> bytes:
    return _EFFECT_KEY.pack(EFFECT, block_number, index)


def encode_number(number: int) -> bytes:
    return _NUMBER.pack(number)


def encode_index(index: int) -> bytes:
    """A leaf index, u64."""
    return _INDEX.pack(index)


def decode_number(value: bytes) -> int:
    """A u32 or u64."""
    return int.from_bytes(value, "big")
