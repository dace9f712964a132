"""Logs by tag: pages of ten, spliced into one array per requested tag."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fastnode.kernels import tag_log
from fastnode.log_index import layout
from fastnode.log_index.known_tags import KnownTags

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["ANY_NUMBER", "known_tags_among", "private_logs_by_tags", "public_logs_by_tags"]

ANY_NUMBER: Final = 0x7FFFFFFF


def private_logs_by_tags(
    chain: ChainView,
    known_tags: KnownTags,
    tags: bytes,
    page: int,
    *,
    found_max: int = ANY_NUMBER,
    require_bytes: Callable[[int], None] | None = None,
) -> bytes:
    """``TxScopedL2Log[][]`` for siloed tags of 32 bytes each, joined; ``page`` counts from 0.

    Order within a tag: block, transaction, log.  A tag without logs on that page has an empty array.  OverflowError
    when more than ``found_max`` tags have logs on it; ``require_bytes`` is asked while the answer grows.
    """
    # No tag reaches the last page that a key can name, so a larger page is as empty as that one.
    page = min(page, layout.PAGE_MAX)
    return tag_log.answer(
        known_tags.reader_filter, layout.PRIVATE_PAGE, b"", tags, page, chain.get, found_max, require_bytes
    )


def public_logs_by_tags(
    chain: ChainView,
    known_tags: KnownTags,
    contract: bytes,
    tags: bytes,
    page: int,
    *,
    found_max: int = ANY_NUMBER,
    require_bytes: Callable[[int], None] | None = None,
) -> bytes:
    """The same for the public logs of one contract; the tags are not siloed."""
    page = min(page, layout.PAGE_MAX)
    return tag_log.answer(
        known_tags.reader_filter, layout.PUBLIC_PAGE, contract, tags, page, chain.get, found_max, require_bytes
    )


def known_tags_among(known_tags: KnownTags, contract: bytes, tags: bytes) -> int:
    """Number of the tags that may have logs, of the contract or if that is empty private ones: the answer's cost."""
    return tag_log.count_known(known_tags.reader_filter, contract, tags)
