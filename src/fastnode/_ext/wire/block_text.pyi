"""Blocks as JSON, straight from a block record and the effects of its transactions as they are stored.

The readable form of everything here is ``fastnode/_twins/block_text.py``; records are drawn in archiver/records.py, the
forms in api/chain_records.py.
"""

from collections.abc import Callable

#: Forms of a block: L2Block; L2Block with the keys ``hash`` and ``number`` of BlockResponse; BlockResponse without
#: anything that an option asks for; BlockData.
RELEASE: int
JOINT: int
DEVELOPMENT: int
DATA: int

#: What the release set has as the archive of block 0.
EMPTY_ARCHIVE: bytes

def header(record: bytes) -> bytes:
    """BlockHeader.  ValueError for what is no record."""

def block(form: int, number: int, get: Callable[[bytes], bytes | None]) -> bytes:
    """A block in one of the forms; ``get`` reads the chain database.

    ValueError for what is no record or form; LookupError if the record or an effect is not there.
    """
