"""Logs of transactions, read from the JSON of their effects.

The readable form of everything here is ``fastnode/_twins/effect_logs.py``.
"""

from collections.abc import Callable

#: Logs in a page of a tag at most.
PAGE_LOGS: int
#: Bytes of an entry of a page: block u32, tx index u16, log index u16, timestamp of the block u64.
ENTRY_BYTES: int

class LoggedEffect:
    """The logs in an effect; DatabaseError for what is none.  Quickest when they are asked for in order."""

    def __init__(self, text: bytes) -> None: ...
    def places_of(self, tag_key: bytes) -> list[int]:
        """Indexes of the private logs with a tag, or of the public ones with a contract and tag (64 bytes), in order.
        ValueError for a key of another length."""

    def fields(self, is_public: bool, index: int) -> bytes:
        """JSON of the fields that a log has emitted.  DatabaseError if there is no such log."""

    def public_log(self, index: int, block_hash: bytes, block: int, tx_index: int) -> bytes:
        """``{"id":LogId,"log":{contractAddress, fields}}``.  DatabaseError if there is no such log."""

def page_json(get: Callable[[bytes], bytes | None], is_public: bool, entries: bytes) -> bytes:
    """JSON array of TxScopedL2Log for entries of a page; ``get`` reads the effects from the chain database.

    DatabaseError when an effect or a log in it is not there; ValueError for entries that no page has.
    """
