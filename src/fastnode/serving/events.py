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

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from fastnode.kernels import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fastnode.archiver.queries import BlockInfo, ChainView
    from fastnode.protocol.tips import BlockId
    from fastnode.view import View

__all__ = ["BLOCK", "EVENT_NAMES", "TIPS", "TX", "TYPES", "ChainEvents", "Event", "joined", "pending_events"]

#: Kinds that a client can ask for, as bits.
BLOCK, TIPS, TX = 1, 2, 4
TYPES: Final = {"block": BLOCK, "tips": TIPS, "tx": TX}
#: Events that clients may be told of, beside what they have asked for.
EVENT_NAMES: Final = (*TYPES, "pruned", "gap")

#: More blocks, or more text of them, are not told one by one.
BLOCKS_MAX: Final = 64
BLOCKS_BYTES_MAX: Final = 256 * 1024
#: Blocks whose hashes are remembered, to find what a reorg has left.
_REMEMBERED: Final = 1024
_HASH_BYTES: Final = 8
_ID: Final = re.compile(rb"([0-9]{1,10})-([0-9a-f]{16})")


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
        #: Blocks that were there, by number; without a gap below the tip.
        self._hashes: dict[int, bytes] = {}
        #: By number and start of the hash: the newest block below that is still there, of blocks taken back.
        self._undone: dict[tuple[int, bytes], int] = {}
        #: Events of the newest blocks, by number, and what they depend on.
        self._made: dict[int, tuple[bytes, bytes, list[Event]]] = {}
        self._remember(chain, max(0, chain.tip_number - BLOCKS_MAX))

    @property
    def position(self) -> bytes:
        """The line with the id."""
        return b"id: %d-%b\n" % (self._tip.number, self._tip.hash[:_HASH_BYTES].hex().encode())

    @property
    def tips(self) -> Event:
        """Event with the tips."""
        return Event.of(TIPS, "tips", self._tips_json)

    def advance(self, view: View) -> list[Event]:
        """Events until ``view``."""
        chain = view.chain
        events: list[Event] = []
        if chain.tips.proposed != self._tip:
            kept = self._newest_kept(chain)
            if kept < self._tip.number:
                events.append(_range_event("pruned", kept + 1, self._tip.number))
                self._forget_above(kept)
            events += self._blocks(chain, kept + 1)
            self._remember(chain, kept + 1)
        if chain.tips_json != self._tips_json:
            self._tips_json = chain.tips_json
            events.append(self.tips)
        return events

    def since(self, view: View, last_event_id: bytes) -> list[Event]:
        """Events that a client has missed that was told up to ``last_event_id``; ``view`` is the one advanced to."""
        parts = _ID.fullmatch(last_event_id)
        if parts is None:
            return []
        chain, number, start = view.chain, int(parts[1]), bytes.fromhex(parts[2].decode())
        is_known = number <= chain.tip_number and chain.block_id(number).hash.startswith(start)
        kept = number if is_known else self._undone.get((number, start))
        finalized = chain.tips.finalized.block.number
        if kept is None:
            if number > chain.tip_number or number <= finalized:
                return []  # told by a node that is ahead of this one, or of another chain
            kept = finalized
        before = [] if is_known else [_range_event("pruned", kept + 1, number)]
        return before + self._blocks(chain, kept + 1)

    # ---- reorgs ------------------------------------------------------------------------------

    def _newest_kept(self, chain: ChainView) -> int:
        """The newest block that was told of and is still in the chain, as far as that is known."""
        number = min(self._tip.number, chain.tip_number)
        while number in self._hashes:
            if chain.block_id(number).hash == self._hashes[number]:
                return number
            number -= 1
        return min(number, chain.tips.finalized.block.number) if number >= 0 else 0

    def _forget_above(self, kept: int) -> None:
        for key, number in self._undone.items():
            self._undone[key] = min(number, kept)
        for number in range(kept + 1, self._tip.number + 1):
            block_hash = self._hashes.pop(number, None)
            if block_hash is not None:
                self._undone[number, block_hash[:_HASH_BYTES]] = kept
        _shorten(self._undone, _REMEMBERED)

    def _remember(self, chain: ChainView, first: int) -> None:
        self._tip = chain.tips.proposed
        for number in range(max(first, self._tip.number - _REMEMBERED + 1), self._tip.number + 1):
            self._hashes[number] = _block_id(chain, number).hash
        _shorten(self._hashes, _REMEMBERED)

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
        _shorten(self._made, BLOCKS_MAX)
        return events


def _events_of(chain: ChainView, info: BlockInfo) -> list[Event]:
    tx_hashes = chain.tx_hashes(info.number) or []
    told = {
        "number": info.number,
        "hash": encode.to_hex(info.hash).decode(),
        "checkpointNumber": info.checkpoint_number,
        "indexWithinCheckpoint": info.index_within_checkpoint,
        "slotNumber": info.slot_number,
        "timestamp": info.timestamp,
        "txHashes": [encode.to_hex(tx_hash).decode() for tx_hash in tx_hashes],
    }
    receipts = filter(None, map(chain.tx_receipt_json, tx_hashes))
    return [
        Event.of(BLOCK, "block", orjson.dumps(told)),
        *(Event.of(TX, "tx", receipt) for receipt in receipts),
    ]


def _block_id(chain: ChainView, number: int) -> BlockId:
    return chain.tips.proposed if number == chain.tip_number else chain.block_id(number)


def _shorten(kept: dict, count_max: int) -> None:  # type: ignore[type-arg]
    """Forget what came first."""
    while len(kept) > count_max:
        del kept[next(iter(kept))]
