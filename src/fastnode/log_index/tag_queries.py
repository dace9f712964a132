"""Logs by tag: pages of ten, one array per requested tag."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fastnode.errors import BlockPruned
from fastnode.kernels import encode, tag_log
from fastnode.log_index import layout
from fastnode.log_index.known_tags import KnownTags
from fastnode.log_index.layout import LOGS_PER_PAGE, TagCount

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
    when more than ``found_max`` tags have logs on it; ``require_bytes`` is asked while the answer grows.  BlockPruned
    when a log that belongs on it was pruned: an answer without it would look like all that there is.
    """
    # No tag reaches the last page that a key can name, so a larger page is as empty as that one.
    page = min(page, layout.PAGE_MAX)
    return tag_log.answer(
        known_tags.reader_filter,
        layout.PRIVATE_PAGE,
        b"",
        tags,
        page,
        _pages_of(chain),
        chain.get,
        found_max,
        require_bytes,
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
        known_tags.reader_filter,
        layout.PUBLIC_PAGE,
        contract,
        tags,
        page,
        _pages_of(chain),
        chain.get,
        found_max,
        require_bytes,
    )


def known_tags_among(known_tags: KnownTags, contract: bytes, tags: bytes) -> int:
    """Number of the tags that may have logs, of the contract or if that is empty private ones: the answer's cost."""
    return tag_log.count_known(known_tags.reader_filter, contract, tags)


def _pages_of(chain: ChainView) -> Callable[[bytes], bytes | None]:
    """Read pages that are whole."""
    if chain.oldest_body == 1:
        return chain.get

    def get(key: bytes) -> bytes | None:
        page = chain.get(key)
        if page is None:
            tag_key, number = layout.tag_key_of_page(key)
            stored = chain.get(layout.count_key(tag_key))
            if stored is None or TagCount.decode(stored).pruned <= number * LOGS_PER_PAGE:
                return None
        elif not page.startswith(layout.CUT_PAGE):
            return page
        else:
            tag_key, _ = layout.tag_key_of_page(key)
        tag = encode.to_hex(tag_key[-layout.TAG_BYTES :]).decode()
        raise BlockPruned(None, chain.oldest_body, f"Logs with tag {tag} on this page are")

    return get
