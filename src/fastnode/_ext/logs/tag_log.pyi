"""Log tags: a filter over all known ones, and answers made of the pages of tags.

A *key* is a tag of 32 bytes (private logs), or a contract address of 32 bytes followed by a tag
(public logs).  The readable form of everything here is ``fastnode/_twins/tag_log.py``.
"""

from collections.abc import Callable
from typing import Any

#: First byte of a page that has entries (``effect_logs``) and no JSON.
ENTRIES: bytes

class TagFilter:
    """Says of a key that it is *unknown*, or that it *may be known*; never wrong about the first.

    ``size`` is in bytes, at least 1, and rounded up to whole blocks of 64.
    """

    def __init__(self, size: int) -> None: ...
    @classmethod
    def load(cls, data: bytes) -> TagFilter:
        """The filter that :meth:`dump` wrote; ValueError for a length that is no whole number of blocks."""

    @property
    def blocks(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes."""

    #: Tags that :func:`answer` was asked for: answered by the filter alone; found in the database; let through though
    #: the database has no such page.
    @property
    def unknown_count(self) -> int: ...
    @property
    def found_count(self) -> int: ...
    @property
    def missed_count(self) -> int: ...
    def merge(self, data: bytes) -> None:
        """Add every key of a dumped filter; ValueError when it is of another size."""

    def add(self, key: bytes) -> bool:
        """Add a key of 32 or 64 bytes (ValueError otherwise).  True when it was certainly unknown before."""

    def may_contain(self, key: bytes) -> bool: ...
    def dump(self) -> bytes:
        """A copy of the bits."""

def read_fields(values: list[Any], strict: Callable[[Any, int], bytes]) -> bytes:
    """The 32-byte values of texts that are ``0x`` and 64 hex digits below the modulus, joined.

    Everything else goes to ``strict(value, index)``, which returns its 32 bytes or raises.
    """

def count_known(tag_filter: TagFilter | None, owner: bytes, tags: bytes) -> int:
    """Number of the tags that may be known: all of them without a filter.  ValueError as for :func:`answer`."""

def answer(
    tag_filter: TagFilter | None,
    prefix: bytes,
    owner: bytes,
    tags: bytes,
    page: int,
    get: Callable[[bytes], bytes | None],
    get_effect: Callable[[bytes], bytes | None] | None = None,
    found_max: int = ...,
    require_bytes: Callable[[int], None] | None = None,
) -> bytes:
    """A JSON array with the page of each of the ``tags`` (32 bytes each), ``[]`` where there is none.

    Asks ``get(prefix + owner + tag + page as u32)`` for the tags that ``tag_filter`` may know; without
    a filter, for all.  Logs of a page that has entries are rendered from what ``get_effect`` reads.
    OverflowError when more than ``found_max`` of them have logs (default: any number).
    ``require_bytes`` is called with the size of the answer as it grows, and may raise.  ValueError when ``owner`` is
    neither empty nor 32 bytes, ``tags`` is no multiple of 32 bytes, or ``page`` is not in u32.
    """
