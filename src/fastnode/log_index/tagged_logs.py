"""Logs by tag as release 5.x asks for them: from a place on, of some blocks or a transaction, with where each one is.

Private logs are found by the pages of their tag, which are in order: the first one by halving.  Public logs have an
index by position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from fastnode.archiver.queries import stored_info
from fastnode.errors import BlockPruned, DatabaseError
from fastnode.kernels import effect_logs, encode
from fastnode.log_index import layout
from fastnode.log_index.known_tags import KnownTags
from fastnode.log_index.layout import LOGS_PER_PAGE, Position, TagCount
from fastnode.log_index.pages import blocks_in_page, positions_in_page
from fastnode.log_index.range_queries import Span, public_positions, span_of_blocks, span_of_tx

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.archiver.records import BlockInfo

__all__ = ["TagQuery", "TaggedLogs"]


class TagQuery(NamedTuple):
    """Logs that are wanted of each tag: of blocks from ``first`` to before ``end``, or of one transaction of them; at
    most ``limit``.  ``contract`` is empty for private logs; ``with_effects`` adds note hashes and nullifiers."""

    contract: bytes
    first: int
    end: int
    tx: tuple[int, int] | None
    limit: int
    with_effects: bool


class TaggedLogs:
    """Reader for one call: what several logs need of a block or a transaction is read once."""

    def __init__(self, chain: ChainView, known_tags: KnownTags, query: TagQuery) -> None:
        self._chain = chain
        self._known = known_tags
        self._query = query
        #: The transaction that was asked for last, its effect and the logs in it.
        self._newest: tuple[tuple[int, int], bytes, effect_logs.LoggedEffect] | None = None
        self._blocks: dict[int, BlockInfo] = {}

    def answer(
        self, tags: Sequence[bytes], after: Sequence[Position | None], require_bytes: Callable[[int], None]
    ) -> bytes:
        """``LogResult[][]``: an array for each tag, of logs behind the place that is given with it.  ``require_bytes``
        is asked for room as the answer grows."""
        parts: list[bytes] = []
        size = 2
        for tag, place in zip(tags, after, strict=True):
            found = b"[" + b",".join(self._of_tag(tag, place, size, require_bytes)) + b"]"
            size += len(found) + 1
            parts.append(found)
        return b"[" + b",".join(parts) + b"]"

    def _of_tag(
        self, tag: bytes, after: Position | None, size: int, require_bytes: Callable[[int], None]
    ) -> Iterator[bytes]:
        query = self._query
        is_empty = after is None and query.tx is None and query.first >= query.end
        if is_empty or self._known.is_unknown(query.contract + tag):
            return
        start = query.first if after is None else after[0]
        self._require_kept(tag, start if query.tx is None else query.tx[0])
        logs = self._public(tag, after) if query.contract else self._private(tag, after)
        for count, log in enumerate(logs, 1):
            size += len(log) + 1
            require_bytes(size)
            yield log
            if count >= query.limit:
                return

    def _require_kept(self, tag: bytes, first: int) -> None:
        """BlockPruned if logs of the tag are pruned, and blocks from ``first`` on may have had some of them."""
        chain = self._chain
        key = layout.count_key(self._query.contract + tag)
        stored = chain.get(key) if first < chain.oldest_body else None
        if stored is not None and TagCount.decode(stored).pruned:
            raise BlockPruned(None, chain.oldest_body, f"Logs with tag {encode.to_hex(tag).decode()} are")

    # ---- private logs ------------------------------------------------------------------------

    def _private(self, tag: bytes, after: Position | None) -> Iterator[bytes]:
        query = self._query
        # A place stands in for the start of the range.
        first = 0 if query.tx is None else query.tx[0]
        first = max(first, query.first if after is None else after[0])
        for position in self._positions_from(tag, first):
            block, tx, index = position
            if block >= query.end or (query.tx is not None and block > query.tx[0]):
                return
            if block < first or (query.tx is not None and (block, tx) != query.tx):
                continue
            if after is None or position > after:
                yield self._result(position, self._logs_of(block, tx).fields(False, index))

    def _positions_from(self, tag: bytes, first: int) -> Iterator[Position]:
        """Positions of the tag's logs, from the page on that has the first one of block ``first`` or later."""
        stored = self._chain.get(layout.count_key(tag))
        count = TagCount(0) if stored is None else TagCount.decode(stored)
        pages = 0 if count.pruned >= count.logs else -(-count.logs // LOGS_PER_PAGE)
        low, high = count.pruned // LOGS_PER_PAGE, pages
        while low < high:
            middle = (low + high) // 2
            if blocks_in_page(self._page(tag, middle))[-1] < first:
                low = middle + 1
            else:
                high = middle
        for number in range(low, pages):
            yield from positions_in_page(self._chain.get, tag, number, self._page(tag, number))
            time.sleep(0)

    def _page(self, tag: bytes, number: int) -> bytes:
        page = self._chain.get(layout.page_key(tag, number))
        if page is None:
            raise DatabaseError(f"the chain database lacks a page of the tag {tag.hex()}; run `fastnode db check`")
        return page

    # ---- public logs -------------------------------------------------------------------------

    def _public(self, tag: bytes, after: Position | None) -> Iterator[bytes]:
        query = self._query
        whole = Span(span_of_blocks(0, 1).start, span_of_blocks(0, query.end).stop)
        span = whole if after is not None else span_of_blocks(query.first, query.end)
        if query.tx is not None:
            of_tx = span_of_tx(*query.tx)
            span = Span(max(whole.start, of_tx.start), min(whole.stop, of_tx.stop))
        if after is not None:
            span = span.from_after(after)
        # No log of this tag was pruned in the blocks before.
        span = span._replace(start=max(span.start, span_of_blocks(self._chain.oldest_body, query.end).start))
        if span.start >= span.stop:
            return
        for position in islice(public_positions(self._chain, span, contract=query.contract, tag=tag), query.limit):
            yield self._result(position, self._logs_of(*position[:2]).fields(True, position[2]))

    # ---- records -----------------------------------------------------------------------------

    def _result(self, position: Position, data: bytes) -> bytes:
        """LogResult."""
        block, tx, index = position
        info = self._block(block)
        effect = b""
        if self._query.with_effects:
            effect = self._effect(block, tx)
            notes = _between(effect, b'"noteHashes":', b',"nullifiers":')
            nullifiers = _between(effect, b'"nullifiers":', b',"l2ToL1Msgs":')
            effect = b',"noteHashes":%b,"nullifiers":%b' % (notes, nullifiers)
        return (
            b'{"logData":%b,"blockNumber":%d,"blockHash":"%b","blockTimestamp":"%d","txHash":"%b",'
            b'"txIndexWithinBlock":%d,"logIndexWithinTx":%d%b}'
        ) % (
            data, block, encode.to_hex(info.hash), info.timestamp, encode.to_hex(self._tx_hash(block, tx)), tx, index,
            effect,
        )  # fmt: skip

    def _tx_hash(self, block: int, tx: int) -> bytes:
        hashes = self._chain.tx_hashes(block)
        if hashes is None:
            raise DatabaseError(f"block {block} is missing from the chain database; run `fastnode db check`")
        return hashes[tx]

    def _effect(self, block: int, tx: int) -> bytes:
        """JSON of the transaction's TxEffect."""
        key = (block, tx)
        # The logs of a tag come in order, so that one transaction is asked for over and over.
        if self._newest is None or self._newest[0] != key:
            effect = self._chain.effect_json(block, tx)
            self._newest = key, effect, effect_logs.LoggedEffect(effect)
        return self._newest[1]

    def _logs_of(self, block: int, tx: int) -> effect_logs.LoggedEffect:
        self._effect(block, tx)
        assert self._newest is not None
        return self._newest[2]

    def _block(self, number: int) -> BlockInfo:
        info = self._blocks.get(number)
        if info is None:
            info = self._blocks[number] = stored_info(self._chain, number)
        return info


def _between(text: bytes, start: bytes, end: bytes) -> bytes:
    """Text between two that stand in it once."""
    begin = text.index(start) + len(start)
    return text[begin : text.index(end, begin)]
