"""Discovery: finding peers from a few node records, and being found (discv5 over UDP).

    bootstrap nodes, peers of earlier runs ─► pinged ─► table ─► lookups ─► records ─► pinged ─► table ─► dialled
    handshakes from outside                ───────────► table

A node that answers is entered in the table if its record is of this network, is told to others, and is offered to the
dialler.  Where this node is, others say in their pongs.  One loop, one socket; everything is bounded.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import Final

from fastnode.errors import PeerUnavailable
from fastnode.log import log_facts
from fastnode.loop import Setbacks
from fastnode.p2p.discovery.enr import NodeRecord
from fastnode.p2p.discovery.messages import (
    DISTANCE_MAX,
    RECORDS_MAX,
    FindNode,
    Message,
    Nodes,
    Ping,
    Pong,
    TalkAnswer,
    TalkRequest,
    nodes_messages,
    read_message,
    write_message,
)
from fastnode.p2p.discovery.options import DiscoveryOptions
from fastnode.p2p.discovery.own_record import OwnRecord
from fastnode.p2p.discovery.packet_limits import AddressVotes, PacketGate, is_relayed_well
from fastnode.p2p.discovery.sessions import Address, Contact, Sessions
from fastnode.p2p.discovery.table import BUCKET_MAX, Table, distance
from fastnode.p2p.discovery.wire import CHALLENGE, HANDSHAKE, PACKET_BYTES_MAX, Packet, read_packet
from fastnode.p2p.transport.identity import Identity

__all__ = ["Discovery"]

logger = logging.getLogger(__name__)

_ANSWER_S: Final = 2.0
#: Requests that wait for answers, in all.
_PENDING_MAX: Final = 256
#: Packets that are read before others have a turn.
_READ_AT_ONCE: Final = 64
#: Nodes that a lookup asks at a time, and in all.
_ASKED_AT_ONCE: Final = 3
_ASKED_MAX: Final = 48
#: Records that came in answers and are not in the table.
_HEARD_OF_MAX: Final = 500
#: Nodes that are to be pinged, and how long one waits for the next.
_TO_CHECK_MAX: Final = 128
_CHECK_S: Final = 0.1
#: Time that a node of the table may be unheard of before it is pinged, in seconds.
_QUIET_S: Final = 60.0
#: While the table is empty, bootstrap nodes are asked again after so long.
_EMPTY_S: Final = 5.0


class Reading(Enum):
    """State of the socket of discovery."""

    NEW = "there is no socket yet"
    READING = "packets are read as they come"
    RESTING = "packets wait in the kernel: there were too many"
    CLOSED = "there is no socket any more"


class _Pending:
    """A request that waits for its answer."""

    def __init__(self, contact: Contact, message: bytes, answer: asyncio.Future[list[Message]]) -> None:
        self.contact = contact
        self.message = message
        self.answer = answer
        self.parts: list[Message] = []
        self.was_challenged = False


class _Questions:
    """Requests that wait for answers: by their ids, and by the nonces of their packets until these are challenged."""

    def __init__(self) -> None:
        self._open: dict[bytes, _Pending] = {}
        self._sent: dict[bytes, _Pending] = {}
        #: Held by who asks a node, and how many ask it or wait for that.
        self._turns: dict[bytes, tuple[asyncio.Lock, int]] = {}
        self._asking = 0

    def invariant(self) -> None:
        """AssertionError unless each packet is of an open request, and each of these in its turn."""
        assert {id(each) for each in self._sent.values()} <= {id(each) for each in self._open.values()}
        asked = [each.contact.node_id for each in self._open.values()]
        assert len(asked) == len(set(asked)), "two questions to one node at a time"
        assert self._turns.keys() >= set(asked)
        assert self._asking == sum(count for _, count in self._turns.values()) <= _PENDING_MAX

    def __len__(self) -> int:
        """Askers, with those that wait for their turn."""
        return self._asking

    @asynccontextmanager
    async def turn(self, node_id: bytes) -> AsyncIterator[None]:
        """Wait until nobody else asks this node."""
        lock, count = self._turns.get(node_id) or (asyncio.Lock(), 0)
        self._turns[node_id] = lock, count + 1
        self._asking += 1
        try:
            async with lock:
                yield
        finally:
            # Not "unless it is locked": between two holders it is not, and the next one has it for its own.
            lock, count = self._turns.pop(node_id)
            self._asking -= 1
            if count > 1:
                self._turns[node_id] = lock, count - 1

    def enter(self, request: bytes, nonce: bytes, pending: _Pending) -> None:
        self._open[request] = self._sent[nonce] = pending

    def end(self, request: bytes, nonce: bytes) -> None:
        del self._open[request]
        self._sent.pop(nonce, None)

    def answered(self, request: bytes) -> _Pending | None:
        """The request that an answer names."""
        return self._open.get(request)

    def challenged(self, nonce: bytes) -> _Pending | None:
        """The request of a packet that is challenged; once."""
        return self._sent.pop(nonce, None)


class Discovery:
    """Discovery for one node, in the loop of the network.

        NEW ── start ──► READING ◄── packets may come again, too many came ──► RESTING
                            │                                                     │
                            └── stop ────────────► CLOSED ◄──────── stop ─────────┘

    ``found`` is told of nodes that may be dialled; ``is_looking`` says whether more are wanted; ``counts`` takes what
    happens.  Nodes of the private list are never told to others.
    """

    def __init__(
        self,
        identity: Identity,
        version: str,
        own: OwnRecord,
        options: DiscoveryOptions,
        counts: Counter[str],
        *,
        limits_addresses: bool,
        fixes_address: bool,
        found: Callable[[NodeRecord], None],
        is_looking: Callable[[], bool],
    ) -> None:
        """``fixes_address``: what others see does not change this node's record."""
        self._version = version
        self._own = own
        self._options = options
        self._found = found
        self._is_looking = is_looking
        self._counts = counts
        self._fixes_address = fixes_address
        self._sessions = Sessions(identity)
        self.table = Table(self._sessions.own_id, limits_addresses=limits_addresses)
        self._gate = PacketGate(limits_addresses=limits_addresses)
        self._votes = AddressVotes(limits_addresses=limits_addresses)
        self._bootnodes = {record.node_id: record for record in options.bootnodes}
        self._private = frozenset(record.node_id for record in options.private)
        self._heard_of: OrderedDict[bytes, Contact] = OrderedDict()
        self._to_check: OrderedDict[bytes, Contact] = OrderedDict()
        self._questions = _Questions()
        self._loop = asyncio.get_running_loop()
        self._reading = Reading.NEW
        self._socket: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def invariant(self) -> None:
        """AssertionError unless there is a socket while packets can come, and what is kept is bounded."""
        assert (self._socket is not None) == (self._reading in (Reading.READING, Reading.RESTING))
        assert len(self._heard_of) <= _HEARD_OF_MAX
        assert len(self._to_check) <= _TO_CHECK_MAX
        assert all(contact.node_id == node_id for node_id, contact in self._heard_of.items())
        assert self._sessions.own_id not in self._heard_of

    # ---- start and stop ----------------------------------------------------------------------

    def start(self, bound: socket.socket, known: Iterable[NodeRecord]) -> None:
        """``bound``: a UDP socket, from now on closed by :meth:`stop`.  ``known``: of earlier runs."""
        bound.setblocking(False)
        self._socket, self._reading = bound, Reading.READING
        self._loop.add_reader(bound.fileno(), self._readable)
        for record in (*self._bootnodes.values(), *self._options.seeds, *known):
            self._heard(record, None)
        for work in (self._check_all(), self._look_around()):
            task = self._loop.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._counts["internal errors"] += 1
            logger.error("discovery has failed", exc_info=task.exception())

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
        self._socket, self._reading = None, Reading.CLOSED

    # ---- packets -----------------------------------------------------------------------------

    def _readable(self) -> None:
        bound = self._socket
        if bound is None:
            return
        now = self._loop.time()
        wait_s = self._gate.wait_s(now)
        if wait_s:
            # Packets that come meanwhile wait in the kernel, or are lost there: that costs this process nothing.
            self._reading = Reading.RESTING
            self._loop.remove_reader(bound.fileno())
            self._loop.call_later(wait_s, self._read_again)
            return
        for _ in range(_READ_AT_ONCE):
            try:
                data, address = bound.recvfrom(PACKET_BYTES_MAX + 1)
            except OSError:  # nothing more, or an error of what was sent before
                return
            if self._gate.take(address[0], now):
                self._receive(data, (address[0], address[1]), now)
            else:
                self._counts["discovery packets dropped"] += 1

    def _read_again(self) -> None:
        if self._socket is not None:
            self._reading = Reading.READING
            self._loop.add_reader(self._socket.fileno(), self._readable)

    def _send(self, packet: bytes, address: Address) -> None:
        if self._socket is not None:
            with suppress(OSError):  # a full buffer, or an address that cannot be reached: as if it were lost
                self._socket.sendto(packet, address)

    def _receive(self, data: bytes, address: Address, now: float) -> None:
        try:
            packet = read_packet(data, self._sessions.own_id)
            if packet.flag == CHALLENGE:
                self._be_challenged(packet, address, now)
            elif packet.flag == HANDSHAKE:
                if self._gate.take_handshake():
                    self._accept(packet, address, now)
            else:
                message = self._sessions.open(packet, address, now)
                if message is None:
                    known = self._contact_of(packet.source)
                    record = None if known is None else known.record
                    self._send(self._sessions.challenge(packet, address, record, now), address)
                else:
                    self._take(packet.source, address, message)
        except ValueError:
            self._counts["discovery packets refused"] += 1

    def _be_challenged(self, packet: Packet, address: Address, now: float) -> None:
        pending = self._questions.challenged(packet.nonce)
        if pending is None or pending.contact.address != address or pending.was_challenged:
            raise ValueError("a challenge of nothing that was sent")
        pending.was_challenged = True
        own = self._own.record
        self._send(self._sessions.answer_challenge(pending.contact, packet, pending.message, own, now), address)

    def _accept(self, packet: Packet, address: Address, now: float) -> None:
        record, message = self._sessions.accept(packet, address, now)
        self._counts["discovery handshakes"] += 1
        contact = Contact.of(record)
        if contact is not None:
            self._heard(record, address[0])
            if contact.address == address:
                self._is_there(contact)
        self._take(packet.source, address, message)

    # ---- messages ----------------------------------------------------------------------------

    def _take(self, source: bytes, address: Address, plain: bytes) -> None:
        message = read_message(plain)
        match message:
            case Ping():
                host, port = address
                self._answer(source, address, Pong(message.request, self._own.record.sequence, _packed(host), port))
                known = self._sessions.contact(source, address)
                if known is not None and message.sequence > known.record.sequence:
                    self._want(known)
            case FindNode():
                for part in nodes_messages(message.request, self._told(message.distances, address[0])):
                    self._answer(source, address, part)
            case TalkRequest():
                self._answer(source, address, TalkAnswer(message.request, b""))
            case Pong() | Nodes() | TalkAnswer():
                self._be_answered(source, address, message)

    def _answer(self, node_id: bytes, address: Address, message: Message) -> None:
        now = self._loop.time()
        if self._sessions.has_session(node_id, address, now):
            self._send(self._sessions.seal(node_id, address, write_message(message), now)[0], address)

    def _told(self, distances: tuple[int, ...], host: str) -> list[bytes]:
        """Records for who asks; of the network that the asker is in."""
        found = [self._own.record.raw] if 0 in distances else []
        others = self.table.at_distances([each for each in distances if 0 < each <= DISTANCE_MAX], 2 * RECORDS_MAX)
        found += [
            other.record.raw
            for other in others
            if other.node_id not in self._private and is_relayed_well(other.address[0], host)
        ]
        return found[:RECORDS_MAX]

    def _be_answered(self, source: bytes, address: Address, message: Pong | Nodes | TalkAnswer) -> None:
        pending = self._questions.answered(message.request)
        if pending is None or pending.contact.node_id != source or pending.contact.address != address:
            raise ValueError("an answer to nothing that was asked")
        is_of_ping = pending.message[0] == 1
        if is_of_ping != isinstance(message, Pong) or isinstance(message, TalkAnswer):
            raise ValueError("an answer to another question")
        pending.parts.append(message)
        total = message.total if isinstance(message, Nodes) else 1
        if len(pending.parts) >= total and not pending.answer.done():
            pending.answer.set_result(pending.parts)

    async def _ask(self, contact: Contact, make: Callable[[bytes], Message]) -> list[Message]:
        """The parts of the answer; PeerUnavailable if there is none.  One question to a node at a time."""
        if len(self._questions) >= _PENDING_MAX:
            raise PeerUnavailable("too many questions of discovery are open")
        try:
            async with self._questions.turn(contact.node_id):
                parts = await self._ask_now(contact, make)
        except PeerUnavailable:
            self.table.unheard(contact.node_id)
            waiting = self.table.take_waiting(contact.node_id)
            if waiting is not None:
                self._want(waiting)
            raise
        self._is_there(contact)
        return parts

    async def _ask_now(self, contact: Contact, make: Callable[[bytes], Message]) -> list[Message]:
        request = os.urandom(8)
        message = write_message(make(request))
        pending = _Pending(contact, message, self._loop.create_future())
        packet, nonce = self._sessions.seal(contact.node_id, contact.address, message, self._loop.time())
        self._questions.enter(request, nonce, pending)
        try:
            self._send(packet, contact.address)
            async with asyncio.timeout(_ANSWER_S):
                return await pending.answer
        except TimeoutError:
            if pending.parts:  # some packets of an answer are better than none
                return pending.parts
            raise PeerUnavailable("a node of discovery does not answer") from None
        finally:
            self._questions.end(request, nonce)

    # ---- nodes -------------------------------------------------------------------------------

    def _contact_of(self, node_id: bytes) -> Contact | None:
        return self.table.find(node_id) or self._heard_of.get(node_id) or self._to_check.get(node_id)

    def _is_wanted(self, record: NodeRecord) -> bool:
        """True if the record is of this network, or of a bootstrap node whose network is not checked."""
        if record.version == self._version:
            return True
        return record.node_id in self._bootnodes and not self._options.checks_bootnode_version

    def _heard(self, record: NodeRecord, sender: str | None) -> Contact | None:
        """Somebody (None: the settings) has named a node; it is pinged if there is a place for it."""
        contact = Contact.of(record)
        if contact is None or contact.node_id == self._sessions.own_id or not self._is_wanted(record):
            return None
        if sender is not None and not is_relayed_well(contact.address[0], sender):
            return None
        known = self._contact_of(contact.node_id)
        if known is not None and known.record.sequence >= record.sequence:
            return known
        self._heard_of[contact.node_id] = contact
        self._heard_of.move_to_end(contact.node_id)
        if len(self._heard_of) > _HEARD_OF_MAX:
            self._heard_of.popitem(last=False)
        if self.table.has_place(contact.node_id):
            self._want(contact)
        return contact

    def _want(self, contact: Contact) -> None:
        if len(self._to_check) < _TO_CHECK_MAX:
            self._to_check[contact.node_id] = contact

    def _is_there(self, contact: Contact) -> None:
        """A node has answered; it counts if that was from where its record says it is."""
        said = Contact.of(contact.record)
        if said is None or said.address != contact.address or not self._is_wanted(contact.record):
            return
        self._heard_of.pop(contact.node_id, None)
        known = self.table.find(contact.node_id)
        if known is not None and known.record.sequence > contact.record.sequence:
            contact = known
        if self.table.heard(contact, self._loop.time()) and known is None:
            logger.debug("a node is discovered", extra=log_facts(peer=contact.record.peer_id))
            self._counts["discovered"] += 1
        is_bootnode = contact.node_id in self._bootnodes
        if not is_bootnode or self._options.dials_bootnodes:
            self._found(contact.record)

    async def ping(self, contact: Contact) -> None:
        """PeerUnavailable if it does not answer.  A newer record that it has is fetched."""
        parts = await self._ask(contact, lambda request: Ping(request, self._own.record.sequence))
        pong = parts[0]
        assert isinstance(pong, Pong)
        if not self._fixes_address:
            voted = self._votes.vote(contact.node_id, contact.address[0], pong.address, self._loop.time())
            if voted is not None and self._own.moved(voted):
                for other in self.table:  # so that they ask for the new record
                    self._want(other)
        if pong.sequence > contact.record.sequence:
            for part in await self._ask(contact, lambda request: FindNode(request, (0,))):
                assert isinstance(part, Nodes)
                self._renew(contact, part)

    def _renew(self, contact: Contact, answer: Nodes) -> None:
        for raw in answer.records:
            record = NodeRecord.from_bytes(raw)
            if record.node_id == contact.node_id and record.sequence > contact.record.sequence:
                self._sessions.renew(record, contact.address)
                self._heard(record, contact.address[0])

    # ---- looking -----------------------------------------------------------------------------

    async def lookup(self, target: bytes) -> list[Contact]:
        """The nodes closest to ``target`` (32 bytes) of those that can be found; at most 16."""
        known = self.table.closest(target, BUCKET_MAX) or list(filter(None, map(Contact.of, self._bootnodes.values())))
        candidates = {contact.node_id: contact for contact in known}
        asked: set[bytes] = set()
        wanted = int.from_bytes(target, "big")

        def closest() -> list[Contact]:
            return sorted(candidates.values(), key=lambda each: int.from_bytes(each.node_id, "big") ^ wanted)[:16]

        while len(asked) < _ASKED_MAX:
            batch = [contact for contact in closest() if contact.node_id not in asked][:_ASKED_AT_ONCE]
            if not batch:
                break
            asked.update(contact.node_id for contact in batch)
            answers = await asyncio.gather(*(self._find(contact, target) for contact in batch))
            for contact, found in zip(batch, answers, strict=True):
                if found is None:
                    del candidates[contact.node_id]
                else:
                    candidates.update((other.node_id, other) for other in found)
        return closest()

    async def _find(self, contact: Contact, target: bytes) -> list[Contact] | None:
        """Contacts that a node names near the target; None if it does not answer."""
        away = distance(contact.node_id, target)
        # Behind the nearest ones those that half of all nodes are at, and a quarter: in a small network there are no
        # others.
        near = (away, away + 1, away - 1, DISTANCE_MAX, DISTANCE_MAX - 1)
        distances = tuple(dict.fromkeys(each for each in near if 0 < each <= DISTANCE_MAX))
        try:
            parts = await self._ask(contact, lambda request: FindNode(request, distances))
        except PeerUnavailable:
            return None
        found: list[Contact] = []
        for raw in [raw for part in parts if isinstance(part, Nodes) for raw in part.records][:RECORDS_MAX]:
            with suppress(ValueError):
                record = NodeRecord.from_bytes(raw)
                if distance(contact.node_id, record.node_id) in distances:
                    found += filter(None, [self._heard(record, contact.address[0])])
        return found

    async def _look_around(self) -> None:
        target = self._sessions.own_id
        setbacks = Setbacks("peers are not looked for")
        while True:
            try:
                await self._look(target)
                setbacks.end()
            except Exception as error:  # noqa: BLE001 - counted, and logged once
                self._counts["internal errors"] += 1
                setbacks.note(error)
            await asyncio.sleep(self._options.look_s if len(self.table) else min(_EMPTY_S, self._options.look_s))
            # First the own neighbourhood, until there is one; then anywhere.
            target = os.urandom(32) if len(self.table) else self._sessions.own_id

    async def _look(self, target: bytes) -> None:
        if not len(self.table):
            for record in (*self._bootnodes.values(), *self._options.seeds):
                contact = Contact.of(record)
                if contact is not None:
                    self._want(contact)
        if self._is_looking():
            self._counts["discovery lookups"] += 1
            await self.lookup(target)

    async def _check_all(self) -> None:
        """Ping who is to be pinged, one after the other, and who has not been heard of for long."""
        setbacks = Setbacks("contacts are not checked")
        while True:
            await asyncio.sleep(_CHECK_S)
            try:
                self._check_next()
                setbacks.end()
            except Exception as error:  # noqa: BLE001 - counted, and logged once
                self._counts["internal errors"] += 1
                setbacks.note(error)

    def _check_next(self) -> None:
        if self._to_check:
            contact = self._to_check.popitem(last=False)[1]
        else:
            entry = self.table.stalest()
            if entry is None or self._loop.time() - entry.heard_at < _QUIET_S:
                return
            contact = entry.contact
        if len(self._tasks) < _ASKED_MAX:
            task = self._loop.create_task(self._check(contact))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def _check(self, contact: Contact) -> None:
        with suppress(PeerUnavailable, ValueError):
            await self.ping(contact)


def _packed(host: str) -> bytes:
    return socket.inet_aton(host)
