"""Events of the chain, as server-sent events (HTML standard, section 9.2): each text is made once for everybody.

    type    event     data
    block   block     a block has come
    block   pruned    blocks have been taken back; tx has it too
    block   gap       blocks that are not told one by one, because they are too many; tx has it too
    tips    tips      what node_getL2Tips answers, after one of them has moved
    tx      tx        a pending transaction; for each transaction of a block, its receipt

An id is a block, ``<number>-<start of its hash>``: all up to it has been told.  So any process, and any node of the
same chain, can go on where another one has ended.  What happens at once has one id, at its end: of a part that was cut
off everything is told again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from fastnode.kernels import encode
from fastnode.serving.seen_blocks import Cursor, SeenBlocks, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastnode.archiver.queries import BlockInfo, ChainView
    from fastnode.view import View

__all__ = [
    "BLOCK",
    "EVENT_NAMES",
    "TIPS",
    "TX",
    "TYPES",
    "ChainEvents",
    "Event",
    "block_told",
    "joined",
    "pending_events",
]

#: Kinds that a client can ask for, as bits.
BLOCK, TIPS, TX = 1, 2, 4
TYPES: Final = {"block": BLOCK, "tips": TIPS, "tx": TX}
#: Events that clients may be told of, beside what they have asked for.
EVENT_NAMES: Final = (*TYPES, "pruned", "gap")

#: More blocks, or more text of them, are not told one by one.
BLOCKS_MAX: Final = 64
BLOCKS_BYTES_MAX: Final = 256 * 1024


class Event(NamedTuple):
    """For clients that have asked for one of ``types``.  ``text`` has no id yet."""

    types: int
    name: str
    text: bytes

    @classmethod
    def of(cls, types: int, name: str, data: bytes) -> Event:
        """``data`` is JSON in one line."""
        return cls(types, name, b"event: %b\ndata: %b\n\n" % (name.encode(), data))


def joined(events: Iterable[Event], types: int, position: bytes) -> bytes:
    """The text for those who have asked for ``types``: empty if nothing is for them."""
    texts = [event.text for event in events if event.types & types]
    if texts:
        texts[-1] = position + texts[-1]
    return b"".join(texts)


def pending_events(tx_hashes: Iterable[bytes]) -> list[Event]:
    """Transactions that wait in the pool."""
    return [Event.of(TX, "tx", b'{"txHash":"%b","status":"pending"}' % encode.to_hex(tx_hash)) for tx_hash in tx_hashes]


def _range_event(name: str, first: int, last: int) -> Event:
    return Event.of(BLOCK | TX, name, b'{"fromBlock":%d,"toBlock":%d}' % (first, last))


class ChainEvents:
    """The last state of the chain, and events since.  Belongs to one thread; no view is held between calls."""

    def __init__(self, view: View) -> None:
        chain = view.chain
        self._tips_json = chain.tips_json
        self._seen = SeenBlocks(chain, chain.tip_number - BLOCKS_MAX)
        #: Events of the newest blocks, by number, and what they depend on.
        self._made: dict[int, tuple[bytes, bytes, list[Event]]] = {}

    @property
    def position(self) -> bytes:
        """The line with the id."""
        return b"id: %b\n" % bytes(Cursor.at(self._seen.tip))

    @property
    def tips(self) -> Event:
        """Event with the tips."""
        return Event.of(TIPS, "tips", self._tips_json)

    def advance(self, view: View) -> list[Event]:
        """Events until ``view``."""
        chain, seen = view.chain, self._seen
        events: list[Event] = []
        if chain.tips.proposed != seen.tip:
            undone = seen.take_back(chain)
            if undone:
                events.append(_range_event("pruned", undone.start, undone.stop - 1))
            first = seen.tip.number + 1
            events += self._blocks(chain, first)
            seen.go_on(chain, first, chain.tip_number)
        if chain.tips_json != self._tips_json:
            self._tips_json = chain.tips_json
            events.append(self.tips)
        return events

    def since(self, view: View, last_event_id: bytes) -> list[Event]:
        """Events that a client has missed that was told up to ``last_event_id``; ``view`` is the one advanced to."""
        cursor = Cursor.read(last_event_id.decode("latin-1"))
        if cursor is None or cursor.part:
            return []
        chain = view.chain
        try:
            place = self._seen.place_of(chain, [cursor])
        except ValueError:  # of another chain
            return []
        if place is None:
            return []  # told by a node that is ahead of this one
        pruned = place.pruned
        before = [_range_event("pruned", pruned.start, pruned.stop - 1)] if pruned else []
        return before + self._blocks(chain, place.number + 1)

    # ---- blocks ------------------------------------------------------------------------------

    def _blocks(self, chain: ChainView, first: int) -> list[Event]:
        """From the newest one back, as far as may be told; in their order."""
        number, size = chain.tip_number, 0
        told: list[Sequence[Event]] = []
        while number >= first and len(told) < BLOCKS_MAX and size <= BLOCKS_BYTES_MAX:
            events = self._block(chain, number)
            told.append(events)
            size += sum(len(event.text) for event in events)
            number -= 1
        before = [] if number < first else [_range_event("gap", first, number)]
        return before + [event for events in reversed(told) for event in events]

    def _block(self, chain: ChainView, number: int) -> list[Event]:
        info = chain.block_info(number)
        assert info is not None
        status = chain.block_status(number)  # the receipts have it
        made = self._made.get(number)
        if made is not None and made[:2] == (info.hash, status):
            return made[2]
        events = _events_of(chain, info)
        self._made.pop(number, None)
        self._made[number] = info.hash, status, events
        shorten(self._made, BLOCKS_MAX)
        return events


def block_told(info: BlockInfo, tx_hashes: Sequence[bytes]) -> bytes:
    """A block as clients are told of it."""
    told = {
        "number": info.number,
        "hash": encode.to_hex(info.hash).decode(),
        "checkpointNumber": info.checkpoint_number,
        "indexWithinCheckpoint": info.index_within_checkpoint,
        "slotNumber": info.slot_number,
        "timestamp": info.timestamp,
        "txHashes": [encode.to_hex(tx_hash).decode() for tx_hash in tx_hashes],
    }
    return orjson.dumps(told)


def _events_of(chain: ChainView, info: BlockInfo) -> list[Event]:
    tx_hashes = chain.tx_hashes(info.number) or []
    receipts = filter(None, map(chain.tx_receipt_json, tx_hashes))
    return [
        Event.of(BLOCK, "block", block_told(info, tx_hashes)),
        *(Event.of(TX, "tx", receipt) for receipt in receipts),
    ]
