"""Feeds: what a subscription is told of the chain, block by block, as messages with cursors.

    topic         event    data, in JSON
    blocks        block    a block: as the event of that name of GET /events
    tips          tips     the four tips, when one of them has moved; they have no history
    txs           txs      transactions: pending ones, and the receipts of those in a block
    receipts      txs      receipts of the transactions with the hashes that were named
    publicLogs    logs     public logs, of a contract or with a tag or both: as node_getPublicLogs has them
    privateLogs   logs     private logs with one of some siloed tags: as node_getPrivateLogsByTags has them
    reorgs        pruned   blocks that were taken back; all feeds but tips have this event too

A feed is the same for all who want the same: its name follows from what it is, and its messages are made once.  What a
feed has of one block is told in messages of about PIECE_BYTES, each with a cursor behind it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.archiver.layout import effect_key
from fastnode.errors import DatabaseError, InvalidParams
from fastnode.kernels import effect_logs, encode
from fastnode.log_index import layout
from fastnode.log_index.pages import blocks_in_page, entries_of_page
from fastnode.log_index.range_queries import AnswerLimits, find_public_logs, require_logs, span_of_blocks
from fastnode.serving.events import block_told
from fastnode.serving.seen_blocks import Cursor, block_id
from fastnode.values.field_elements import ADDRESS, FIELD, TX_HASH
from fastnode.values.refusal import Reject, describe, nearest

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.artifacts.naming import Naming
    from fastnode.values.value_type import ValueType

__all__ = ["PIECE_BYTES", "TOPICS", "VALUES_MAX", "Feed", "Interest", "feed_of", "message", "messages_of_block"]

#: Hashes or tags of one subscription.
VALUES_MAX: Final = 100
#: A message with several things in it ends behind the one that makes it this long.
PIECE_BYTES: Final = 32 * 1024
_NO_LIMITS: Final = AnswerLimits(logs=1 << 31, size=1 << 40)
_NAME_BYTES: Final = 8

#: Something in a block that a feed may want: a kind, and a hash, a contract or a tag.
Key = tuple[str, bytes]


class Feed:
    """One feed.  ``name`` is that of the subscription."""

    __slots__ = ("name", "values")

    topic: str
    event: str
    #: True if cursors say anything: there is something to go on with.
    has_history = True
    #: Names of contracts, events and values are told, where artifacts have them.
    with_names = False

    def __init__(self, values: Sequence[bytes] = ()) -> None:
        self.values = tuple(values)
        self.name = self.topic
        if values:
            # With lengths: a contract alone and a tag alone are not the same.
            told = b"".join(bytes((len(value),)) + value for value in values)
            self.name += "-" + blake2b(told, digest_size=_NAME_BYTES).hexdigest()

    def wants(self) -> Iterable[Key]:
        """Something of this must be in a block that has something for this feed."""
        return ((self.topic, b""),)

    def require_kept(self, _chain: ChainView, first: int) -> None:
        """BlockPruned if there may have been something from block ``first`` on that is pruned."""

    def next_block(self, _chain: ChainView, first: int, _last: int) -> int | None:
        """The first block from ``first`` to ``last`` that may have something; None: there is none.  BlockPruned as
        :meth:`require_kept`."""
        return first

    def items(self, chain: ChainView, number: int) -> list[bytes]:
        """JSON of what there is in a block, in order."""
        return []

    def at_begin(self, _chain: ChainView) -> list[bytes]:
        """JSON of what is told to who begins without a cursor."""
        return []


class Blocks(Feed):
    topic, event = "blocks", "block"

    def items(self, chain: ChainView, number: int) -> list[bytes]:
        info = chain.block_info(number)
        return [] if info is None else [block_told(info, chain.tx_hashes(number) or [])]


class Tips(Feed):
    topic, event = "tips", "tips"
    has_history = False

    def at_begin(self, chain: ChainView) -> list[bytes]:
        return [chain.tips_json]


class Txs(Feed):
    topic, event = "txs", "txs"

    def items(self, chain: ChainView, number: int) -> list[bytes]:
        return [*filter(None, map(chain.tx_receipt_json, chain.tx_hashes(number) or []))]


class Receipts(Feed):
    topic, event = "receipts", "txs"

    def wants(self) -> Iterable[Key]:
        return (("tx", tx_hash) for tx_hash in self.values)

    def next_block(self, chain: ChainView, first: int, last: int) -> int | None:
        places = map(chain.tx_location, self.values)
        return min(
            (place.block_number for place in places if place and first <= place.block_number <= last), default=None
        )

    def items(self, chain: ChainView, number: int) -> list[bytes]:
        wanted = frozenset(self.values)
        hashes = [tx_hash for tx_hash in chain.tx_hashes(number) or [] if tx_hash in wanted]
        return [*filter(None, map(chain.tx_receipt_json, hashes))]

    def at_begin(self, chain: ChainView) -> list[bytes]:
        return [*filter(None, map(chain.tx_receipt_json, self.values))]


class _Logs(Feed):
    event = "logs"

    def require_kept(self, chain: ChainView, first: int) -> None:
        require_logs(chain, span_of_blocks(first, first + 1))


class PublicLogs(_Logs):
    """``values``: a contract and a tag, each empty for any."""

    topic = "publicLogs"

    def __init__(self, values: Sequence[bytes] = (), *, with_names: bool = False) -> None:
        super().__init__(values)
        if with_names:
            self.with_names = True
            self.name += "-names"

    @property
    def _row(self) -> bytes | None:
        contract, tag = self.values or (b"", b"")
        if contract and tag:
            return layout.PUBLIC_BY_CONTRACT_AND_TAG + contract + tag
        if contract:
            return layout.PUBLIC_BY_CONTRACT + contract
        return layout.PUBLIC_BY_TAG + tag if tag else None

    def wants(self) -> Iterable[Key]:
        contract, tag = self.values or (b"", b"")
        return (("log", contract + tag) if contract or tag else ("log", b""),)

    def next_block(self, chain: ChainView, first: int, last: int) -> int | None:
        self.require_kept(chain, first)
        row = self._row
        prefix = layout.PUBLIC_LOG if row is None else row
        for key, _ in chain.scan(layout.block_key(prefix, first), layout.block_key(prefix, last + 1)):
            return layout.decode_number(key[len(prefix) : len(prefix) + layout.BLOCK_BYTES])
        return None

    def items(self, chain: ChainView, number: int) -> list[bytes]:
        contract, tag = self.values or (b"", b"")
        span = span_of_blocks(number, number + 1)
        return find_public_logs(chain, span, _NO_LIMITS, contract=contract or None, tag=tag or None).logs


class PrivateLogs(_Logs):
    topic = "privateLogs"

    def wants(self) -> Iterable[Key]:
        return (("private", tag) for tag in self.values)

    def next_block(self, chain: ChainView, first: int, last: int) -> int | None:
        self.require_kept(chain, first)
        found: int | None = None
        for tag in self.values:
            number = next((number for number, _ in _tagged_from(chain, tag, first)), None)
            if number is not None and number <= last and (found is None or number < found):
                found = number
        return found

    def items(self, chain: ChainView, number: int) -> list[bytes]:
        found: list[bytes] = []
        for tag in self.values:
            for block, log in _tagged_from(chain, tag, number):
                if block != number:
                    break
                found.append(effect_logs.page_json(chain.get, False, log)[1:-1])
        return found


def _tagged_from(chain: ChainView, tag: bytes, first: int) -> Iterator[tuple[int, bytes]]:
    """Entries of private logs with a tag, and their blocks, in order, from a block on."""
    stored = chain.get(layout.count_key(tag))
    count = layout.TagCount(0) if stored is None else layout.TagCount.decode(stored)
    # Pages with logs: what is pruned is before ``first``, which :meth:`Feed.require_kept` holds.
    pages = range(0)
    if count.pruned < count.logs:
        pages = range(count.pruned // layout.LOGS_PER_PAGE, -(-count.logs // layout.LOGS_PER_PAGE))

    # The last page that begins before the block, or the first one.
    begin = bisect_left(pages, first, key=lambda page: blocks_in_page(_page(chain, tag, page))[0])
    for number in range(pages.start + max(0, begin - 1), pages.stop):
        entries = entries_of_page(chain.get, tag, number, _page(chain, tag, number))
        for at in range(0, len(entries), layout.ENTRY_BYTES):
            block = layout.decode_position(entries[at:])[0]
            if block >= first:
                yield block, entries[at : at + layout.ENTRY_BYTES]


def _page(chain: ChainView, tag: bytes, number: int) -> bytes:
    page = chain.get(layout.page_key(tag, number))
    if page is None:
        raise DatabaseError(f"the chain database lacks a page of the tag {tag.hex()}; run `fastnode db check`")
    return page


class Reorgs(Feed):
    topic, event = "reorgs", "pruned"

    def wants(self) -> Iterable[Key]:
        return ()

    def next_block(self, _chain: ChainView, _first: int, _last: int) -> int | None:
        return None


TOPICS: Final[dict[str, type[Feed]]] = {
    kind.topic: kind for kind in (Blocks, Tips, Txs, Receipts, PublicLogs, PrivateLogs, Reorgs)
}
#: Parameters of each topic beside its name.
_TAKES: Final = {
    "receipts": ("txHashes",),
    "publicLogs": ("contractAddress", "tag", "names"),
    "privateLogs": ("tags",),
}


def feed_of(wanted: dict[str, Any]) -> Feed:
    """The feed that a subscription names.  InvalidParams."""
    topic = wanted.get("topic")
    if not isinstance(topic, str) or topic not in TOPICS:
        raise InvalidParams(f"Invalid params: topic must be one of {', '.join(TOPICS)}, got {describe(topic)}")
    takes = _TAKES.get(topic, ())
    for name in wanted:
        if name not in ("topic", "from", *takes):
            raise InvalidParams(
                f"Invalid params: {topic} has no {describe(name)}; it takes {', '.join((*takes, 'from'))}"
                f"{nearest(name, (*takes, 'from'))}"
            )
    if topic == "receipts":
        return Receipts(_values_of(wanted, "txHashes", TX_HASH))
    if topic == "privateLogs":
        return PrivateLogs(_values_of(wanted, "tags", FIELD))
    if topic == "publicLogs":
        contract, tag = wanted.get("contractAddress"), wanted.get("tag")
        values = (
            b"" if contract is None else _value_of("contractAddress", contract, ADDRESS),
            b"" if tag is None else _value_of("tag", tag, FIELD),
        )
        names = wanted.get("names")
        if not (names is None or isinstance(names, bool)):
            raise InvalidParams(f"Invalid params: names must be true or false, got {describe(names)}")
        return PublicLogs(values if any(values) else (), with_names=bool(names))
    return TOPICS[topic]()


def _values_of(wanted: dict[str, Any], name: str, kind: ValueType) -> list[bytes]:
    """In one order whatever the client's, so that equal feeds are one."""
    values = wanted.get(name)
    if not isinstance(values, list) or not 1 <= len(values) <= VALUES_MAX:
        raise InvalidParams(f"Invalid params: {name} must be an array of 1 to {VALUES_MAX}")
    return sorted({_value_of(name, value, kind) for value in values})


def _value_of(name: str, value: Any, kind: ValueType) -> bytes:
    try:
        read: bytes = kind.from_json(value)
    except Reject as error:
        raise InvalidParams(f"Invalid params: {name} {error}") from None
    return read


# ---- what is in a block ----------------------------------------------------------------------


class Interest:
    """Finds the feeds that a block has something for, by what is in it and not feed by feed."""

    def __init__(self) -> None:
        self._feeds: dict[Key, dict[Feed, None]] = {}
        #: Feeds that want what is inside of transactions.
        self._inside = 0

    def add(self, feed: Feed) -> None:
        for key in feed.wants():
            self._feeds.setdefault(key, {})[feed] = None
        self._inside += feed.event == "logs"

    def remove(self, feed: Feed) -> None:
        for key in feed.wants():
            feeds = self._feeds[key]
            del feeds[feed]
            if not feeds:
                del self._feeds[key]
        self._inside -= feed.event == "logs"

    def hits(self, chain: ChainView, number: int) -> Iterator[list[Feed]]:
        """Feeds that ``number`` has something for, a transaction at a time; each may come several times."""
        found: dict[Feed, None] = {}
        for topic in ("blocks", "txs"):
            found |= self._feeds.get((topic, b""), {})
        yield [*found]
        tx_hashes = chain.tx_hashes(number) or []
        for index, tx_hash in enumerate(tx_hashes):
            feeds = {**self._feeds.get(("tx", tx_hash), {})}
            if self._inside:
                effect = orjson.loads(chain.get(effect_key(number, index)) or b"{}")
                for key in _keys_inside(effect):
                    feeds |= self._feeds.get(key, {})
            yield [*feeds]


def _keys_inside(effect: dict[str, Any]) -> Iterator[Key]:
    for log in effect.get("privateLogs", ()):
        if log["fields"]:
            yield "private", encode.from_hex(log["fields"][0])
    for log in effect.get("publicLogs", ()):
        yield "log", b""
        contract = encode.from_hex(log["contractAddress"])
        yield "log", contract
        if log["fields"]:
            tag = encode.from_hex(log["fields"][0])
            yield "log", tag
            yield "log", contract + tag


# ---- messages --------------------------------------------------------------------------------


_BEFORE: Final = b'{"jsonrpc":"2.0","method":"event","params":'


def message(feed: Feed, event: str, cursor: Cursor, data: bytes) -> bytes:
    """A notification of JSON-RPC."""
    told = (feed.name.encode(), event.encode(), bytes(cursor), data)
    return _BEFORE + b'{"subscription":"%b","event":"%b","cursor":"%b","data":%b}}' % told


def event_of(text: bytes) -> bytes:
    """The event alone of a :func:`message`."""
    return text[len(_BEFORE) : -1]


def pruned_message(feed: Feed, chain: ChainView, pruned: range) -> tuple[Cursor, bytes]:
    """Blocks have been taken back; the cursor is the one below them."""
    cursor = Cursor.at(block_id(chain, pruned.start - 1))
    return cursor, message(feed, "pruned", cursor, b'{"fromBlock":%d,"toBlock":%d}' % (pruned.start, pruned.stop - 1))


def gap_message(feed: Feed, chain: ChainView, missing: range) -> tuple[Cursor, bytes]:
    """Blocks are pruned that were not told; the cursor is the last of them."""
    cursor = Cursor.at(block_id(chain, missing.stop - 1))
    return cursor, message(feed, "gap", cursor, b'{"fromBlock":%d,"toBlock":%d}' % (missing.start, missing.stop - 1))


def messages_of_block(
    chain: ChainView, feed: Feed, number: int, part: int = 0, naming: Naming | None = None
) -> Iterator[tuple[Cursor, bytes]]:
    """The messages of a block for a feed, behind the first ``part`` of it, and the cursor behind each.

    With ``naming``, which reads files, this is for threads beside the event loop.
    """
    block = block_id(chain, number)
    items = feed.items(chain, number)
    if feed.with_names and naming is not None:
        items[part:] = [orjson.dumps(naming.log_record(orjson.loads(item))) for item in items[part:]]
    if feed.event == "block":
        yield from ((Cursor.at(block), message(feed, feed.event, Cursor.at(block), item)) for item in items)
        return
    while part < len(items):
        end, size = part, 0
        while end < len(items) and size < PIECE_BYTES:
            size += len(items[end]) + 1
            end += 1
        cursor = Cursor.at(block, end if end < len(items) else 0)
        yield cursor, message(feed, feed.event, cursor, b"[" + b",".join(items[part:end]) + b"]")
        part = end


def begin_message(chain: ChainView, feed: Feed, cursor: Cursor) -> bytes | None:
    """The message for a client that begins without a cursor; None for nothing."""
    items = feed.at_begin(chain)
    if not items:
        return None
    data = items[0] if feed.event == "tips" else b"[" + b",".join(items) + b"]"
    return message(feed, feed.event, cursor, data)
