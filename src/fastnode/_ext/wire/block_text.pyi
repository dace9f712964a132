"""Blocks as JSON, straight from a block record and the effects of its transactions as they are stored.

The readable form of everything here is ``fastnode/_twins/block_text.py``; records are drawn in archiver/records.py, the
forms in api/chain_records.py.
"""

from collections.abc import Callable
from typing import Any, final

#: Forms of a block: L2Block; L2Block with the keys ``hash`` and ``number`` of BlockResponse; BlockResponse without
#: anything that an option asks for; BlockData.
RELEASE: int
JOINT: int
DEVELOPMENT: int
DATA: int

#: The header alone, of a question.
HEADER: int

#: What the release set has as the archive of block 0.
EMPTY_ARCHIVE: bytes

def header(record: bytes) -> bytes:
    """BlockHeader.  ValueError for what is no record."""

def block(form: int, number: int, get: Callable[[bytes], bytes | None]) -> bytes:
    """A block in one of the forms; ``get`` reads the chain database.

    ValueError for what is no record or form; LookupError if the record or an effect is not there.
    """

@final
class Blocks:
    """The blocks of one view up to ``tip``; ``get`` reads its snapshot.

    Up to 1 MB of what was read last is kept: one block is asked for in several forms, by its number and by its hash.
    """

    def __init__(self, get: Callable[[bytes], bytes | None], tip: int) -> None: ...
    @property
    def tip(self) -> int: ...

@final
class BlockQuestion:
    """A method's ``read(view, block, options)``: the block of ``view.chain.blocks`` with this number in a form, None if
    there is none; ``otherwise`` is asked the same when ``block`` is no number, or when there are options.

    ValueError for what is no form or record; LookupError if the record or an effect is not there.
    """

    def __init__(self, form: int, otherwise: Callable[..., bytes | None]) -> None: ...
    def __call__(self, view: Any, block: Any = None, options: Any = None) -> bytes | None: ...
