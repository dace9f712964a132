"""Keys of the log and contract indexes, in the chain database (see ``archiver/layout.py``).

Numbers are big-endian so that they sort.  A *position* is (block u32, tx index u16, log index u16):
where a log is; the last two of it are a *place* in a block.  An *entry* is a position and the timestamp u64 of its
block: all else that is said of a log is in its transaction's effect, and rendered from there (``kernels.effect_logs``).

    key                                        value
    ------------------------------------------------------------------------------------------------
    tags
    0x80  tag 32                               logs of this private tag so far, u32; if some are pruned,
                                               their number u32
    0x81  contract 32  tag 32                  logs of this public tag so far, the same
    0x82  tag 32  page u32                     at most ten logs: 0x01 and their entries; if they are of several
                                               transactions, a JSON array of TxScopedL2Log; if the first of the page
                                               are pruned, a zero byte before the others
    0x83  contract 32  tag 32  page u32        the same for public logs

    public logs by position
    0x84  block                                places of all, 4 bytes each, in order
    0x85  contract 32  block                   places of those of a contract
    0x86  tag 32  block                        places
    0x87  contract 32  tag 32  block           places

    contract class logs by position
    0x88  block                                places of all
    0x89  contract 32  block                   places of those of a contract

    0x8f                                       index head (below)

    contracts
    0x90  class id 32                          block u32 | JSON of ContractClassPublic
    0x91  address 32                           block u32 | JSON of ContractInstanceWithAddress
    0x92  address 32  inverted position        previous class 32 | new class 32 | timestamp of change u64
    0x9f                                       index head

    index head: layout version u32 | block u32 | archive root 32 of that block, the newest one indexed

A database of before version 4 has JSON in all pages, and for each public log the key 0x84 with its position and the
JSON {"id":LogId,"log":{contractAddress, fields}}.  Both are read (pages.py) until they are rewritten while the node
serves; a page that changes is rewritten at once.  One of before version 5 has for each class log the key 0x88 with its
position, of whose value, the log, nothing is read.

An inverted position has all its bits flipped, so that the newest one sorts first.

Logs of blocks whose bodies are pruned are not there, in none of the rows above 0x81: those of a tag are its first.
Classes, instances and updates stay.

Only the last page of a tag ever changes, but for what is pruned.  The counts are small and lie together, so reading
all of them gives all known tags without touching a page.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from fastnode.kernels import effect_logs, tag_log

__all__ = [
    "CONTRACT_PREFIXES",
    "INDEX_MAX",
    "LOGS_PER_PAGE",
    "LOG_PREFIXES",
    "PAGE_MAX",
    "Place",
    "Position",
    "TagCount",
]

#: (tx index in the block, log index in the tx)
Place: TypeAlias = tuple[int, int]
#: (block number, tx index in the block, log index in the tx)
Position: TypeAlias = tuple[int, int, int]

PRIVATE_COUNT: Final = b"\x80"
PUBLIC_COUNT: Final = b"\x81"
PRIVATE_PAGE: Final = b"\x82"
PUBLIC_PAGE: Final = b"\x83"

PUBLIC_LOG: Final = b"\x84"
PUBLIC_BY_CONTRACT: Final = b"\x85"
PUBLIC_BY_TAG: Final = b"\x86"
PUBLIC_BY_CONTRACT_AND_TAG: Final = b"\x87"

CLASS_LOG: Final = b"\x88"
CLASS_BY_CONTRACT: Final = b"\x89"

LOG_HEAD: Final = b"\x8f"

CONTRACT_CLASS: Final = b"\x90"
CONTRACT_INSTANCE: Final = b"\x91"
INSTANCE_UPDATE: Final = b"\x92"
CONTRACT_HEAD: Final = b"\x9f"

LOG_PREFIXES: Final = (
    PRIVATE_COUNT,
    PUBLIC_COUNT,
    PRIVATE_PAGE,
    PUBLIC_PAGE,
    PUBLIC_LOG,
    PUBLIC_BY_CONTRACT,
    PUBLIC_BY_TAG,
    PUBLIC_BY_CONTRACT_AND_TAG,
    CLASS_LOG,
    CLASS_BY_CONTRACT,
    LOG_HEAD,
)
CONTRACT_PREFIXES: Final = (CONTRACT_CLASS, CONTRACT_INSTANCE, INSTANCE_UPDATE, CONTRACT_HEAD)

#: Changes when anything drawn above does; an index of another version is built anew from the blocks.
LAYOUT_VERSION: Final = 1

#: Logs of one tag in one answer; part of the wire format (behaviour of release 4.x).
LOGS_PER_PAGE: Final = effect_logs.PAGE_LOGS
PAGE_MAX: Final = 0xFFFFFFFF
#: The largest index of a transaction in its block, and of a log in its transaction.
INDEX_MAX: Final = 0xFFFF
#: Before a page whose first logs are pruned; neither JSON nor entries begin with it.
CUT_PAGE: Final = b"\0"
#: Before the entries of a page.
ENTRIES: Final = tag_log.ENTRIES

TAG_BYTES: Final = 32
BLOCK_BYTES: Final = 4
PLACE_BYTES: Final = 4
POSITION_BYTES: Final = BLOCK_BYTES + PLACE_BYTES
ENTRY_BYTES: Final = effect_logs.ENTRY_BYTES
#: The part of an entry that names the transaction.
ENTRY_TX_BYTES: Final = BLOCK_BYTES + 2
#: Length of a key with the places of all public logs, or all class logs, of a block.
ROW_BYTES: Final = 1 + BLOCK_BYTES

_NUMBER: Final = struct.Struct(">I")
_PLACE: Final = struct.Struct(">HH")
_POSITION: Final = struct.Struct(">IHH")
_ENTRY: Final = struct.Struct(">IHHQ")

_PREFIX_BYTES: Final = 1


def after_prefix(prefix: bytes) -> bytes:
    """The first key behind all that begin with a prefix of one byte."""
    return bytes((prefix[0] + 1,))


# ---- tags -----------------------------------------------------------------------------------
# A *tag key* is the tag alone (private) or contract address and tag (public), as in the tag_log kernel.


def count_key(tag_key: bytes) -> bytes:
    return (PRIVATE_COUNT if len(tag_key) == TAG_BYTES else PUBLIC_COUNT) + tag_key


def is_count_key(key: bytes) -> bool:
    """True if the key is that of a tag's count: each tag that has logs has one."""
    return key[:_PREFIX_BYTES] in (PRIVATE_COUNT, PUBLIC_COUNT)


def tag_key_of_count(key: bytes) -> bytes:
    """The inverse of :func:`count_key`."""
    return key[_PREFIX_BYTES:]


def page_key(tag_key: bytes, page: int) -> bytes:
    return (PRIVATE_PAGE if len(tag_key) == TAG_BYTES else PUBLIC_PAGE) + tag_key + _NUMBER.pack(page)


def tag_key_of_page(key: bytes) -> tuple[bytes, int]:
    """The inverse of :func:`page_key`."""
    return key[_PREFIX_BYTES:-BLOCK_BYTES], decode_number(key[-BLOCK_BYTES:])


class TagCount(NamedTuple):
    """Logs of a tag so far, and how many of them, the first ones, are pruned."""

    logs: int
    pruned: int = 0

    def encode(self) -> bytes:
        return _NUMBER.pack(self.logs) + (_NUMBER.pack(self.pruned) if self.pruned else b"")

    @classmethod
    def decode(cls, value: bytes) -> TagCount:
        """ValueError for what is none."""
        if len(value) not in (_NUMBER.size, 2 * _NUMBER.size):
            raise ValueError(f"a count of logs of {len(value)} bytes")
        return cls(decode_number(value[: _NUMBER.size]), decode_number(value[_NUMBER.size :]))

    def pruned_of_page(self, page: int) -> int:
        """Number of logs that the page lacks."""
        return max(0, min(LOGS_PER_PAGE, self.pruned - page * LOGS_PER_PAGE))


# ---- positions --------------------------------------------------------------------------------


def inverted_position_key(prefix: bytes, position: Position) -> bytes:
    return prefix + bytes(byte ^ 0xFF for byte in _POSITION.pack(*position))


def block_of_inverted(key: bytes) -> int:
    """Block of the position in an :func:`inverted_position_key`."""
    return decode_number(key[-POSITION_BYTES:-PLACE_BYTES]) ^ 0xFFFFFFFF


def log_key(prefix: bytes, position: Position) -> bytes:
    return prefix + _POSITION.pack(*position)


def block_key(prefix: bytes, block: int) -> bytes:
    """First key of a block in an index; ``prefix`` includes the contract or the tag."""
    return prefix + _NUMBER.pack(block)


def encode_places(places: list[Place]) -> bytes:
    return b"".join([_PLACE.pack(*place) for place in places])


def encode_entry(position: Position, timestamp: int) -> bytes:
    return _ENTRY.pack(*position, timestamp)


def decode_position(data: bytes) -> Position:
    """Position at the start of an entry, or of itself."""
    block, tx_index, log_index = _POSITION.unpack_from(data)
    return block, tx_index, log_index


def encode_number(number: int) -> bytes:
    return _NUMBER.pack(number)


def decode_number(value: bytes) -> int:
    return int.from_bytes(value, "big")
