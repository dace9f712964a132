"""Tells the fleet what this node's chain is.

In a thread of its own, woken by each commit: contents go out first, then what refers to them, and where the chain is
(``at``) when all of that is durable; so none is told of what cannot be had.  When blocks are taken back, ``at`` goes
back to the block that stays before anything in their place is written.

What was published is known from the acknowledgements.  After a start, when the stream was purged or made anew, and
after each failure, it is found out from the publisher's own ``at`` on the bus: what this says and the chain has too, up
to the newest checkpoint that is in the same block of L1, is not sent again.  Servers that lose power lose the end of
what they took; so ``at`` is only said on the connection on which all that it says was acknowledged, or found: where it
is there, all before it is.

What was on its way when a connection was lost may be stored at any time, for the network sends it again: also after
what was published since, of another fork.  So each message says which one it replaces, and is refused when that is not
the newest; the place of that is looked up then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import orjson

from fastnode.archiver import layout
from fastnode.archiver.queries import ChainView, StoredCheckpoint
from fastnode.bus.connection import Bus, Message, Outgoing, StreamSetup
from fastnode.bus.retention import drop_before, is_whole
from fastnode.bus.subjects import BUS_VERSION, Reference, Subjects, digest_of, read_versioned
from fastnode.errors import DecodeError, UpstreamError, UpstreamUnavailable
from fastnode.log import log_facts
from fastnode.loop import Loop
from fastnode.protocol.fields import hex_text
from fastnode.protocol.tips import L2Tips, TipId
from fastnode.sources.chain_export import block_line, checkpoint_line, tips_up_to
from fastnode.view import Committed, View

__all__ = ["HEARTBEAT_S", "Publisher"]

logger = logging.getLogger("fastnode.bus")

#: Time after which ``at`` is said again and the stream looked at, in seconds.
HEARTBEAT_S: Final = 2.0
RETRY_S: Final = 0.5
#: Bytes of one message: below what servers take unless they are told otherwise.
PART_BYTES: Final = 768 << 10
#: Far behind, ``at`` moves this often, in checkpoints; and so many bytes are under way at a time.
CHECKPOINTS_PER_AT: Final = 32
BYTES_PER_AT: Final = 16 << 20
#: Places in the stream that are remembered; those of others are looked up when they are needed.
PLACES_MAX: Final = 4096
#: Times that a message is sent with what it replaces, before a round ends with an error.
TRIES: Final = 4
#: Checkpoints of the newest snapshot that stay where older ones are not kept: a node that begins with the snapshot
#: compares its newest checkpoint with the publisher's, and older ones after a reorg.
CHECKPOINTS_KEPT: Final = 4


class _Sent(NamedTuple):
    """A checkpoint as it was published: its header's hash, and the block of L1 that has it."""

    header_hash: bytes
    l1_json: bytes

    @classmethod
    def of(cls, stored: StoredCheckpoint) -> _Sent:
        return cls(stored.header_hash, stored.l1_json)


class Published:
    """Blocks and checkpoints that the bus has, by its acknowledgements; it belongs to the thread that publishes.

    The hashes of blocks are known from the newest final one on, those from before the start apart.
    """

    def __init__(self, tip: int, checkpoint: int, *, final: tuple[int, int] = (0, 0)) -> None:
        self.tip = tip
        self.hashes: dict[int, bytes] = {}
        self.checkpoint = checkpoint
        self.checkpoints: dict[int, _Sent] = {}
        #: Block and checkpoint that were final when they were published or found: they stay.
        self.final_block, self.final_checkpoint = final
        #: Contents of single blocks that are still there.
        self.proposed: dict[int, str] = {}
        #: Places of the newest messages, by subject, as far as they are known.
        self.places: dict[str, int] = {}

    def invariant(self) -> None:
        """AssertionError unless the tips are the newest of what is known, and no checkpoint is left out below them."""
        assert self.tip >= 0
        assert not self.hashes or max(self.hashes) == self.tip
        assert self.checkpoint >= 0
        assert len(self.places) <= PLACES_MAX
        assert sorted(self.checkpoints) == list(range(self.checkpoint - len(self.checkpoints) + 1, self.checkpoint + 1))

    def add_block(self, number: int, block_hash: bytes) -> None:
        """It may have been there by itself before it was in a checkpoint."""
        assert number <= self.tip + 1 or not self.hashes
        self.hashes[number] = block_hash
        self.tip = max(self.tip, number)

    def add_checkpoint(self, stored: StoredCheckpoint) -> None:
        assert stored.number == self.checkpoint + 1 or not self.checkpoints
        self.checkpoints[stored.number] = _Sent.of(stored)
        self.checkpoint = stored.number

    def note_place(self, subject: str, place: int) -> None:
        if len(self.places) >= PLACES_MAX:
            self.places.clear()
        self.places[subject] = place

    def go_back(self, tip: int) -> None:
        assert tip <= self.tip
        self.tip = tip
        self.hashes = {number: value for number, value in self.hashes.items() if number <= tip}

    def go_back_to_checkpoint(self, checkpoint: int) -> None:
        assert checkpoint <= self.checkpoint
        self.checkpoint = checkpoint
        self.checkpoints = {number: value for number, value in self.checkpoints.items() if number <= checkpoint}

    def forget_final(self, block: int, checkpoint: int) -> None:
        """They cannot be undone any more."""
        self.final_block, self.final_checkpoint = block, checkpoint
        self.hashes = {number: value for number, value in self.hashes.items() if number >= block}
        self.checkpoints = {number: value for number, value in self.checkpoints.items() if number >= checkpoint}


class Publisher:
    """``start`` it once the chain is known; ``close`` it before the bus.

    ``view`` is the newest one; ``terms`` is what else there is to say, as JSON: fees and what the network is.
    ``snapshots`` gives where snapshots of this chain are, and the newest block of the newest; None for none.

        UNKNOWN ── found out from its own words on the bus ──► KNOWN ── a round ──► KNOWN
           ▲                                                     │
           └── the stream was purged or made anew, an error ─────┘

    It is KNOWN what is :class:`Published`, or what was so before is shown.
    """

    def __init__(
        self,
        bus: Bus,
        subjects: Subjects,
        view: Callable[[], View | None],
        *,
        terms: Callable[[View], dict[str, Any]] = lambda view: {},
        snapshots: Callable[[], dict[str, Any] | None] = lambda: None,
    ) -> None:
        self._bus = bus
        self._subjects = subjects
        self._view = view
        self._terms = terms
        self._snapshots = snapshots
        self._name = bus.options.name
        self._loop = Loop(
            "fastnode-publish",
            self._turn,
            what="the chain is not published",
            clock=bus.clock,
            on_error=self._forget_published,
        )
        self._genesis: Reference | None = None
        self._genesis_place: int | None = None
        self._is_empty = False  # whatever this publisher says there
        self._created: str | None = None  # of the stream; None: it must be looked at
        self._at_sequence = 0
        self._published, self._is_known = Published(0, 0), False
        #: The one on which it was found out what the bus has.
        self._connection: int | None = None
        self._dropped = 0  # up to this checkpoint nothing is kept
        self._next_look_at = 0.0
        self._next_drop_at = 0.0
        self._said: tuple[int, Any] | None = None
        #: Tips in the newest ``at`` on the bus; None while nothing of this chain is said there.
        self._told: L2Tips | None = None
        #: Reason why the bus does not take the chain; None while it does.
        self._reason: str | None = None
        self.committed_at = 0.0

    def invariant(self) -> None:
        """AssertionError unless who says where it is has said what the chain begins with."""
        assert self._said is None or self._genesis is not None

    def on_committed(self, _committed: Committed) -> None:
        """From the thread that ingests."""
        self.committed_at = self._bus.clock.time()
        self._loop.wake()

    def start(self) -> None:
        self._bus.on_connected(self._look_again)
        self._loop.start()

    def close(self) -> None:
        self._loop.close()

    @property
    def _is_stopping(self) -> bool:
        return self._loop.is_stopping

    @property
    def trouble(self) -> str | None:
        """Reason why nothing is published; None while all is."""
        return self._loop.trouble or self._reason

    def describe(self) -> dict[str, Any]:
        """For status reports."""
        return {"publishedBlock": self._published.tip, "reason": self.trouble}

    def troubles(self) -> dict[str, str | None]:
        return {"bus": self.trouble}

    def _look_again(self) -> None:
        self._next_look_at = 0.0
        self._loop.wake()

    # ---- the loop --------------------------------------------------------------------------------

    def _turn(self) -> float:
        try:
            self._round()
        except UpstreamError as error:
            self._set_trouble(str(error))
            self._forget_published()
            return RETRY_S
        self._set_trouble(None)
        return HEARTBEAT_S

    def _forget_published(self) -> None:
        """Let the next round find out anew what was published."""
        self._is_known, self._next_look_at = False, 0.0

    def _set_trouble(self, reason: str | None) -> None:
        if reason != self._reason and not self._is_stopping:
            if reason is not None:
                logger.warning("the chain is not published", extra=log_facts(reason=reason))
            else:
                logger.info("the chain is published again", extra=log_facts(tip=self._published.tip))
        self._reason = reason

    def _round(self) -> None:
        view = self._view()
        if view is None:
            return
        connection = self._bus.connection_number
        if connection != self._connection:
            self._forget_published()
            self._connection = connection
        now = self._bus.clock.monotonic()
        if now >= self._next_look_at:
            self._look_at_stream(view.chain)
            self._next_look_at = now + HEARTBEAT_S
            self._said = None
        if not self._is_known:
            self._published, self._is_known = self._recovered(view.chain), True
        self._advance(view, self._published)

    # ---- the stream ------------------------------------------------------------------------------

    def _look_at_stream(self, chain: ChainView) -> None:
        subjects = self._subjects
        state = self._bus.state(subjects.stream)
        if state is None:
            self._set_up()
            state = self._bus.state(subjects.stream) or {}
        created, first = state.get("created"), int(state.get("first_seq") or 0)
        is_lost = created != self._created or first > self._at_sequence
        place = self._place_of_genesis(chain)
        if place is None:
            self._send_genesis(chain)
        if place is None or place != (self._genesis_place or place):
            # It is the first that is stored, so where all is kept the rest was purged with it.  Another publisher may
            # have stored it again before this one looked.
            is_lost = is_lost or self._keeps_all
            self._is_empty = self._keeps_all
        self._genesis_place = place or self._place_of_genesis(chain)
        if is_lost:
            if self._created is not None:
                logger.warning("the stream was purged or made anew: publishing again")
            self._created, self._is_known = created, False

    @property
    def _keeps_all(self) -> bool:
        return self._bus.options.keeps_all and not self._bus.options.bytes_max

    def _place_of_genesis(self, chain: ChainView) -> int | None:
        """Place of the last part of the genesis in the stream, which stays; None: it is not there."""
        if self._genesis is None:
            line = _genesis_line(chain)
            parts = -(-len(line) // PART_BYTES)
            self._genesis = Reference(digest_of(line), parts, len(line), hex_text(chain.block_id(0).hash))
        last = self._subjects.content(self._genesis.digest, self._genesis.parts - 1)
        message = self._bus.last(self._subjects.stream, last)
        return None if message is None else message.sequence

    def _send_genesis(self, chain: ChainView) -> None:
        line = _genesis_line(chain)
        self._bus.publish_all(list(self._content(line, digest_of(line))))

    def _set_up(self) -> None:
        subjects, options = self._subjects, self._bus.options
        self._bus.set_up(
            StreamSetup(
                name=subjects.stream,
                subjects=(subjects.all_blocks,),
                live=(subjects.all_blocks, f"{subjects.live_blocks}.>"),
                bytes_max=options.bytes_max,
            )
        )

    def _recovered(self, chain: ChainView) -> Published:
        """Find out what the bus has of this chain already."""
        base, self._told = 0, None
        message = self._bus.last(self._subjects.stream, self._subjects.at(self._name))
        if message is not None and not self._is_empty:
            message = self._said_again(message)
            self._at_sequence = message.sequence
            try:
                tips = L2Tips.from_json(read_versioned(message.data, "at").get("tips"), "tips")
            except (DecodeError, UpstreamError) as error:
                logger.warning("what this node published is not understood", extra=log_facts(reason=str(error)))
            else:
                self._told = tips
                base = self._found(chain, tips)
        base = self._lowest_wanted(chain, base)
        self._is_empty = False
        checkpoint, final = chain.newest_complete_checkpoint(base), chain.tips.finalized
        final_block, final_checkpoint = min(base, final.block.number), min(checkpoint, final.checkpoint.number)
        published = Published(base, checkpoint, final=(final_block, final_checkpoint))
        published.proposed = self._published.proposed
        if message is not None:
            published.note_place(message.subject, message.sequence)
        newest = chain.checkpoint(published.checkpoint)
        if base > 0 and newest is not None:
            published.add_block(base, chain.block_id(base).hash)
            if self._is_there(chain, newest):
                published.add_checkpoint(newest)
        return published

    def _said_again(self, message: Message) -> Message:
        """Store the newest ``at`` once more: nothing that is late takes its place then, and it was the newest."""
        place = self._bus.publish(Outgoing(message.subject, message.data, expected=message.sequence))
        if place is None:
            raise UpstreamUnavailable(
                "something came late, or a server is behind: what this node said is looked up again"
            )
        return replace(message, sequence=place)

    def _found(self, chain: ChainView, tips: L2Tips) -> int:
        """The newest block up to which the bus has all as it is stored, where it says so: the last one of a checkpoint
        that has stayed, in its block of L1, or of what was final then."""
        newest, final = tips.checkpointed.checkpoint.number, tips.finalized.checkpoint.number
        while newest > final:
            numbers = range(newest, max(final, newest - CHECKPOINTS_PER_AT), -1)
            subjects = [self._subjects.checkpoint(self._name, number) for number in numbers]
            for number, message in zip(numbers, self._bus.lasts(self._subjects.stream, subjects), strict=True):
                stored = chain.checkpoint(number)
                if stored is not None and self._is_reference(message, chain, stored):
                    return stored.last_block
            newest = numbers[-1] - 1
        return tips.finalized.block.number if _is_stored(chain, tips.finalized) else 0

    def _is_there(self, chain: ChainView, checkpoint: StoredCheckpoint) -> bool:
        subject = self._subjects.checkpoint(self._name, checkpoint.number)
        return self._is_reference(self._bus.last(self._subjects.stream, subject), chain, checkpoint)

    def _is_reference(self, message: Message | None, chain: ChainView, checkpoint: StoredCheckpoint) -> bool:
        """True if it refers to this checkpoint as it is stored, in the block of L1 that has it now."""
        try:
            told = None if message is None else Reference.of(read_versioned(message.data, "a reference"))
        except UpstreamError:
            return False
        if told is None or told.hash != hex_text(checkpoint.header_hash):
            return False
        return told.digest == digest_of(self._line_of_checkpoint(chain, checkpoint))

    def _lowest_wanted(self, chain: ChainView, base: int) -> int:
        """Behind the newest snapshot, where what is before that is not kept."""
        if self._bus.options.keeps_all:
            return base
        newest = (self._snapshots() or {}).get("block") or 0
        if not base < newest <= chain.tip_number:
            return base
        checkpoint = chain.checkpoint(chain.newest_complete_checkpoint(newest))
        return base if checkpoint is None else max(base, checkpoint.last_block)

    # ---- the chain -------------------------------------------------------------------------------

    def _advance(self, view: View, published: Published) -> None:
        chain, newest = view.chain, view.chain.tips.checkpointed.checkpoint.number
        published.go_back(_common(chain, published))
        published.go_back_to_checkpoint(_common_checkpoint(chain, published))
        if self._told is not None and not _has(chain, self._told):
            self._say(view, published.tip)
        while published.checkpoint < newest and not self._is_stopping:
            self._send_checkpoints(chain, published)
            if self._last_told < published.checkpoint < newest:
                self._say(view, published.tip)
        if self._is_stopping:
            return
        last = chain.checkpoint(published.checkpoint)
        first = max(published.tip, 0 if last is None else last.last_block) + 1
        if first <= chain.tip_number:
            self._send_blocks(chain, published, range(first, chain.tip_number + 1))
        self._say(view, chain.tip_number)
        self._tidy(chain, published)

    @property
    def _last_told(self) -> int:
        """The newest checkpoint in ``at``."""
        return 0 if self._told is None else self._told.checkpointed.checkpoint.number

    def _send_checkpoints(self, chain: ChainView, published: Published) -> None:
        """Some of those that are missing; one alone where it takes the place of what ``at`` tells of.

        So it is there before the next one is, and where the newest is as it should be, all before it are.
        """
        messages: list[Outgoing] = []
        sent: list[StoredCheckpoint] = []
        size, newest = 0, chain.tips.checkpointed.checkpoint.number
        for number in range(published.checkpoint + 1, newest + 1):
            checkpoint = chain.checkpoint(number)
            assert checkpoint is not None
            made = list(self._checkpoint_messages(chain, checkpoint))
            messages += made
            size += sum(len(message.data) for message in made)
            sent.append(checkpoint)
            if len(sent) >= CHECKPOINTS_PER_AT or size >= BYTES_PER_AT or number <= self._last_told:
                break
        self._publish(messages)
        for checkpoint in sent:
            published.add_checkpoint(checkpoint)
            for number in range(checkpoint.start_block, checkpoint.last_block + 1):
                published.add_block(number, chain.block_id(number).hash)

    def _checkpoint_messages(self, chain: ChainView, checkpoint: StoredCheckpoint) -> Iterator[Outgoing]:
        line = self._line_of_checkpoint(chain, checkpoint)
        digest = digest_of(line)
        parts = yield from self._content(line, digest)
        for number in range(checkpoint.start_block, checkpoint.last_block + 1):
            index = number - checkpoint.start_block
            block = Reference(digest, parts, len(line), hex_text(chain.block_id(number).hash), index)
            yield Outgoing(self._subjects.block(self._name, number), block.encode())
        whole = Reference(digest, parts, len(line), hex_text(checkpoint.header_hash))
        yield Outgoing(self._subjects.checkpoint(self._name, checkpoint.number), whole.encode())

    def _send_blocks(self, chain: ChainView, published: Published, numbers: range) -> None:
        messages: list[Outgoing] = []
        for number in numbers:
            line = self._line_of_block(chain, number)
            digest = digest_of(line)
            parts = _collect(messages, self._content(line, digest))
            reference = Reference(digest, parts, len(line), hex_text(chain.block_id(number).hash))
            messages.append(Outgoing(self._subjects.block(self._name, number), reference.encode()))
            published.proposed[number] = digest
        self._publish(messages)
        for number in numbers:
            published.add_block(number, chain.block_id(number).hash)

    def _line_of_checkpoint(self, chain: ChainView, checkpoint: StoredCheckpoint) -> bytes:
        return checkpoint_line(chain, checkpoint)

    def _line_of_block(self, chain: ChainView, number: int) -> bytes:
        return block_line(chain, number)

    def _content(self, content: bytes, digest: str) -> Generator[Outgoing, None, int]:
        """Its parts; what the bus has already it does not store again.  Returns how many there are."""
        parts = 0
        for start in range(0, len(content), PART_BYTES):
            part = content[start : start + PART_BYTES]
            yield Outgoing(self._subjects.content(digest, parts), part, expected=0)
            parts += 1
        return parts

    def _publish(self, messages: list[Outgoing]) -> None:
        """Store contents unless they are there, and all else in the place of what there is.

        What is there already is stored again all the same: something that is late may want to replace it.
        """
        published, waiting = self._published, messages
        for _ in range(TRIES):
            if self._bus.connection_number != self._connection:
                raise UpstreamUnavailable("the bus was away: it may have lost what it took")
            places = self._bus.publish_all([_replacing(message, published.places) for message in waiting])
            refused: list[Outgoing] = []
            for message, place in zip(waiting, places, strict=True):
                if message.expected is not None:
                    continue
                if place is None:
                    refused.append(message)
                else:
                    published.note_place(message.subject, place)
            if not refused:
                return
            found = self._bus.lasts(self._subjects.stream, [message.subject for message in refused])
            for message, there in zip(refused, found, strict=True):
                published.note_place(message.subject, 0 if there is None else there.sequence)
            waiting = refused
        raise UpstreamUnavailable("the bus does not take what this node says: others stand in its place there")

    # ---- where it is -----------------------------------------------------------------------------

    def _say(self, view: View, last: int) -> None:
        chain = view.chain
        tips = tips_up_to(chain, last, self._published.checkpoint)
        if self._said == (last, tips):
            return
        assert self._genesis is not None
        value = {
            "version": BUS_VERSION,
            "publisher": self._name,
            "tips": tips.to_json(),
            "chain": orjson.Fragment(chain.get(layout.KEY_CHAIN) or b"{}"),
            "genesis": orjson.Fragment(self._genesis.encode()),
            "committedAt": int(self.committed_at * 1000),
            "snapshots": self._snapshots(),
        } | self._terms(view)
        at = self._subjects.at(self._name)
        self._publish([Outgoing(at, orjson.dumps(value))])
        self._at_sequence = self._published.places[at]
        self._said, self._told = (last, tips), tips

    def _tidy(self, chain: ChainView, published: Published) -> None:
        """Forget what cannot be undone any more; take single blocks that are in a final checkpoint off the bus."""
        finalized = chain.tips.finalized.block.number
        for number in [number for number in published.proposed if number <= finalized]:
            digest = published.proposed.pop(number)
            self._bus.purge(self._subjects.stream, subject=f"{self._subjects.stream}.content.{digest}.>")
        published.forget_final(finalized, chain.tips.finalized.checkpoint.number)
        if not self._bus.options.keeps_all:
            self._drop_before_snapshot(chain, published)

    def _drop_before_snapshot(self, chain: ChainView, published: Published) -> None:
        block = (self._snapshots() or {}).get("block") or 0
        number = chain.newest_complete_checkpoint(min(block, chain.tip_number)) - CHECKPOINTS_KEPT if block else 0
        now = self._bus.clock.monotonic()
        if number <= self._dropped or now < self._next_drop_at:
            return
        self._next_drop_at = now + HEARTBEAT_S
        checkpoint = chain.checkpoint(number)
        assert checkpoint is not None
        last_block = checkpoint.last_block
        if not drop_before(self._bus, self._subjects, number, last_block):
            return
        self._dropped = number
        logger.info("the bus keeps what follows the snapshot", extra=log_facts(checkpoint=number))
        self._send_genesis(chain)
        checkpoints = range(number + 1, published.checkpoint + 1)
        if not is_whole(self._bus, self._subjects, self._name, checkpoints, range(last_block + 1, published.tip + 1)):
            self._send_from(chain, published, number)

    def _send_from(self, chain: ChainView, published: Published, number: int) -> None:
        """Send once more what follows a checkpoint; what is there is not stored twice."""
        newest = published.checkpoint
        published.go_back_to_checkpoint(number)
        while published.checkpoint < newest and not self._is_stopping:
            self._send_checkpoints(chain, published)
        last = chain.checkpoint(newest)
        first = (0 if last is None else last.last_block) + 1
        if first <= published.tip and not self._is_stopping:
            self._send_blocks(chain, published, range(first, published.tip + 1))


def _common(chain: ChainView, published: Published) -> int:
    """The newest block that is published and still stored."""
    number = min(published.tip, chain.tip_number)
    while number in published.hashes and chain.block_number_by_hash(published.hashes[number]) != number:
        number -= 1
    # Undone below what is known from before: what was final then stays.
    return number if number in published.hashes else min(number, published.final_block)


def _common_checkpoint(chain: ChainView, published: Published) -> int:
    """The newest one that is published and stored as it was: a reorg of L1 may have moved it."""
    number = min(published.checkpoint, chain.newest_complete_checkpoint(published.tip))
    while number in published.checkpoints:
        stored = chain.checkpoint(number)
        if stored is not None and _Sent.of(stored) == published.checkpoints[number]:
            return number
        number -= 1
    return min(number, published.final_checkpoint)


def _has(chain: ChainView, tips: L2Tips) -> bool:
    """True if these blocks are stored, and in these checkpoints."""
    return chain.block_number_by_hash(tips.proposed.hash) == tips.proposed.number and (
        tips.checkpointed.checkpoint.number == 0 or _is_stored(chain, tips.checkpointed)
    )


def _is_stored(chain: ChainView, tip: TipId) -> bool:
    stored = chain.checkpoint(tip.checkpoint.number)
    return (
        stored is not None
        and stored.header_hash == tip.checkpoint.hash
        and chain.block_number_by_hash(tip.block.hash) == tip.block.number
    )


def _genesis_line(chain: ChainView) -> bytes:
    return b'{"kind":"genesis",%b' % chain.genesis_json()[1:]


def _collect(messages: list[Outgoing], content: Iterator[Outgoing]) -> int:
    """Append what a generator of parts gives; how many parts there are."""
    before = len(messages)
    messages.extend(content)
    return len(messages) - before


def _replacing(message: Outgoing, places: Mapping[str, int]) -> Outgoing:
    """It as it is sent: only in the place of what is known to be there, unless that was said."""
    return message if message.expected is not None else replace(message, expected=places.get(message.subject, 0))
