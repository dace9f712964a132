"""All peers of a node: connections in and out, what is said at the beginning, who has to go.

On a new connection both sides ask who the other is (identify) and where its chain is (status), and open the stream on
which they gossip.  A peer of another network is left at once.  At each check those with low scores leave, then the
lowest of those above the maximum; what is missing is dialled.  Everything runs in one loop.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
import random
import socket
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from fastnode.errors import (
    DatabaseFull,
    DatabaseUnreadable,
    DatabaseUnwritable,
    DecodeError,
    PeerFault,
    PeerUnavailable,
)
from fastnode.log import log_facts
from fastnode.loop import Setbacks
from fastnode.p2p.discovery.enr import NodeRecord
from fastnode.p2p.discovery.own_record import OwnRecord
from fastnode.p2p.discovery.service import Discovery
from fastnode.p2p.judging.goodbye import Goodbye
from fastnode.p2p.judging.standing import Penalty, Standing
from fastnode.p2p.messages.request_forms import StatusMessage
from fastnode.p2p.node.crowding import Crowd
from fastnode.p2p.node.dialling import Candidate, DialPlan, Pace
from fastnode.p2p.node.identify import IDENTIFY, IDENTIFY_PUSH, identify_message, read_identify
from fastnode.p2p.node.known_peers import KnownPeers
from fastnode.p2p.node.options import PeerOptions, StaticPeer
from fastnode.p2p.node.peer import Peer
from fastnode.p2p.node.request_limits import Request
from fastnode.p2p.node.requests import Requests
from fastnode.p2p.transport.identity import Identity
from fastnode.p2p.transport.limits import Budget
from fastnode.p2p.transport.link import Link, LinkEvents, Stream

__all__ = ["MESH", "Swarm"]

logger = logging.getLogger(__name__)

MESH: Final = "/meshsub/1.1.0"

#: Connections that are not known yet, in all; the reference has 5 of them from anywhere.
_PENDING_MAX: Final = 32
#: The same from one address.
_PENDING_PER_ADDRESS_MAX: Final = 8
#: Part of all places that is kept for peers that this node has dialled: who connects to it chooses who it is.
_DIALLED_SHARE: Final = 4
#: New connections from one address in a second (reference).
_ACCEPTED_PER_S: Final = 5
#: Time within which both sides may have dialled before one knew of the other's connection, in seconds.
_BOTH_DIAL_S: Final = 15.0
#: Connections of one peer: both sides may have dialled at once.
_LINKS_MAX: Final = 2
_IDENTIFY_BYTES_MAX: Final = 64 * 1024
_BACKLOG: Final = 128
_TICK_S: Final = 1.0
#: Turns of the loop from when asyncio takes a connection until, if refused, its socket is closed: it takes four.
_TURNS_OF_AN_ACCEPT: Final = 6
#: Below this score a peer is not heard in gossip (gossipsub's graylist, as the reference has it).
_OUTCAST: Final = -2000.0
#: Interval at which known peers are written down, in seconds.
_REMEMBER_S: Final = 60.0
#: Ports that are tried until one is free for TCP and UDP, if any will do.
_PORTS_TRIED: Final = 20


class SwarmState(enum.Enum):
    """State of all connections together."""

    NEW = "nothing listens yet"
    LISTENING = "peers come and are dialled"
    STOPPING = "nobody is admitted any more"


class Chores:
    """Work beside everything else in one loop, until the end of the network at most; a bug in it ends nothing."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # For what is cancelled before it has begun.
        task.add_done_callback(lambda _: work.close())

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (PeerUnavailable, PeerFault, TimeoutError) as error:
            logger.debug("a peer has failed", extra=log_facts(reason=str(error)))
        except (DatabaseFull, DatabaseUnreadable, DatabaseUnwritable) as error:  # the database itself tells of it, once
            logger.debug("work for a peer needs the database", extra=log_facts(reason=str(error)))
        except Exception:  # a bug must not end the network
            self._counts["internal errors"] += 1
            logger.exception("an error in the peer-to-peer network")

    def repeat(self, interval_s: float, chore: Callable[[], None]) -> None:
        """Do it every so many seconds from now on, whatever it raises."""
        self.spawn(self._repeat(interval_s, chore))

    async def _repeat(self, interval_s: float, chore: Callable[[], None]) -> None:
        setbacks = Setbacks("a chore of the peer-to-peer network is not done")
        while True:
            await asyncio.sleep(interval_s)
            try:
                chore()
                setbacks.end()
            except Exception as error:  # noqa: BLE001 - counted, and logged once
                self._counts["internal errors"] += 1
                setbacks.note(error)

    async def stop(self) -> None:
        """End all of it."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def own_record(identity: Identity, version: str, options: PeerOptions, port: int) -> OwnRecord:
    """The record of a node that listens on ``port``."""
    return OwnRecord(
        identity,
        version,
        ip=options.announced_ip,
        port=options.announced_port or port,
        client=options.client or options.release.usual_version,
        folder=options.folder,
    )


class Swarm:
    """``on_peer`` is told of peers that can gossip, ``on_gone`` of those that left; ``on_gossip`` serves streams.

    NEW ── start ──► LISTENING ── stop ──► STOPPING
    a link: pending ── ready, and not banned ──► of a peer, which has one or two ── lost ──► gone
    """

    def __init__(
        self,
        identity: Identity,
        version: str,
        options: PeerOptions,
        budget: Budget,
        requests: Requests,
        *,
        on_peer: Callable[[Peer, Stream], None],
        on_gone: Callable[[Peer], None],
        on_gossip: Callable[[Peer, Stream], Coroutine[Any, Any, None]],
    ) -> None:
        self.identity = identity
        self.options = options
        self.peers: dict[str, Peer] = {}
        self.standing = Standing(options.penalty_points)
        self.plan = DialPlan(options.static_peers)
        #: Gossip score of a peer, beside which the standing is looked at; set by the network.
        self.score: Callable[[str], float] = self.standing.score
        self.counts: Counter[str] = Counter()
        self._version = version
        self._budget = budget
        self._requests = requests
        self._on_peer, self._on_gone, self._on_gossip = on_peer, on_gone, on_gossip
        self._events = LinkEvents(ready=self._ready, stream=self._stream, lost=self._lost, given_up=self._given_up)
        self._loop = asyncio.get_running_loop()
        self._pace = Pace(_ACCEPTED_PER_S)
        self._links: set[Link] = set()
        self._chores = Chores(self.counts)
        self._server: asyncio.Server | None = None
        self._state = SwarmState.NEW
        self._dice = random.SystemRandom()
        self._static = {(peer.host, peer.port): peer for peer in options.static_peers}
        self._protocols = [IDENTIFY, IDENTIFY_PUSH, MESH, *requests.protocols]
        self._known = KnownPeers(options.folder)
        #: Records of peers, from discovery and from the last run, by their ids.
        self._records: dict[str, NodeRecord] = {}
        #: Bootstrap nodes that discovery does not hear, by their ids, and since when.
        self._silent_since: dict[str, float] = {}
        #: None before the start, and where nothing is discovered.
        self.discovery: Discovery | None = None
        #: None before the start.
        self.own: OwnRecord | None = None

    def invariant(self) -> None:
        """AssertionError unless each peer has links that are here, and what there is fits the state."""
        if self._state is SwarmState.LISTENING:
            assert self._server is not None
            assert self.own is not None
        for peer_id, peer in self.peers.items():
            assert peer.id == peer_id
            assert 1 <= len(peer.links) <= _LINKS_MAX
            assert all(link.peer_id == peer_id for link in peer.links)
            assert all(link in self._links for link in peer.links)

    # ---- start and stop ----------------------------------------------------------------------

    async def start(self) -> int:
        """The port on which it listens.  OSError if that cannot be had."""
        options = self.options
        bound = await self._listen()
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        self.own = own_record(self.identity, self._version, options, port)
        records, dialled = self._known.load()
        for record in records:
            self._offer(record)
        for peer in dialled:
            self.found(peer, is_trusted=True)
        if bound is not None and options.discovery is not None:
            self.discovery = Discovery(
                self.identity,
                self._version,
                self.own,
                options.discovery,
                self.counts,
                limits_addresses=options.counts_colocation,
                fixes_address=options.announced_ip is not None,
                found=self._offer,
                is_looking=self._wants_more,
            )
            self.discovery.start(bound, records)
        for interval_s, chore in (
            (_TICK_S, self._tick),
            (options.check_interval_s, self.check),
            (_REMEMBER_S, self._remember),
        ):
            chore()
            self.repeat(interval_s, chore)
        self._state = SwarmState.LISTENING
        return port

    async def _listen(self) -> socket.socket | None:
        """Take the port, for TCP and for discovery; the socket of the latter."""
        options = self.options
        for attempt in range(_PORTS_TRIED):
            server = await self._loop.create_server(
                self._accept, options.listen_host, options.listen_port, backlog=_BACKLOG
            )
            self._server = server
            if options.discovery is None:
                return None
            bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                bound.bind((options.listen_host, server.sockets[0].getsockname()[1]))
                return bound
            except OSError:
                bound.close()
                server.close()
                if options.listen_port or attempt == _PORTS_TRIED - 1:
                    raise
        raise AssertionError

    async def stop(self) -> None:
        """Close, without a goodbye: a node of release 4.x leaves a peer that has said it at its next check,
        half a minute later at most, and by then that is the one that has been started again."""
        self._state = SwarmState.STOPPING
        if self.own is not None:
            self._remember()
        if self._server is not None:
            # Python 3.11 forgets sockets that it has accepted and not opened yet when a server is closed.
            for listening in self._server.sockets:
                self._loop.remove_reader(listening)
            await self._settle()
            self._server.close()
        if self.discovery is not None:
            await self.discovery.stop()
        for link in list(self._links):
            link.close("this node stops", at_once=True)
        await self._chores.stop()
        await self._settle()

    async def _settle(self) -> None:
        """Let the loop go on with connections that it has just accepted, and with those that were closed."""
        for _ in range(_TURNS_OF_AN_ACCEPT):
            await asyncio.sleep(0)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it beside everything else, until the end of the network at most."""
        self._chores.spawn(work)

    def repeat(self, interval_s: float, chore: Callable[[], None]) -> None:
        """Do it every so many seconds from now on, whatever it raises."""
        self._chores.repeat(interval_s, chore)

    # ---- connections -------------------------------------------------------------------------

    def _accept(self) -> asyncio.Protocol:
        link = Link(self.identity, self.options.limits, self._budget, self._events, is_dialer=False)
        return _Gate(link, self._admit)

    def _admit(self, link: Link) -> bool:
        """True if a connection from outside is looked at."""
        self.counts["accepted"] += 1
        is_taken = (
            self._state is not SwarmState.STOPPING
            and (not self.options.counts_colocation or self._pace.take(link.address[0], self._loop.time()))
            and self._has_place(link)
        )
        if is_taken:
            self._links.add(link)
        else:
            self.counts["refused"] += 1
        return is_taken

    def _has_place(self, link: Link) -> bool:
        """True if a connection from outside finds a place; one of a crowded address may have to give up its own."""
        inbound = [other for other in self._links if not other.is_dialer and not self._is_protected(other)]
        pending = [other for other in inbound if not other.is_ready]
        if self.options.counts_colocation:
            same = sum(other.address[0] == link.address[0] for other in pending)
            if same >= _PENDING_PER_ADDRESS_MAX:
                return False
        return (len(pending) < _PENDING_MAX or self._make_room(link, pending)) and (
            len(self._links) < 2 * self.options.max_peers or self._make_room(link, inbound)
        )

    def _is_protected(self, link: Link) -> bool:
        peer = self.peers.get(link.peer_id or "")
        return peer is not None and peer.is_protected

    def _make_room(self, link: Link, others: list[Link]) -> bool:
        """Close one of ``others`` if its network has more of their places than that of ``link`` would have: of the most
        crowded address, the newest."""
        if not self.options.counts_colocation:
            return False
        crowd = Crowd(other.address[0] for other in others)
        if not crowd.makes_room_for(link.address[0]):
            return False
        worst = max(others, key=lambda other: (crowd.size(other.address[0]), other.opened_at))
        self.counts["displaced"] += 1
        worst.close("its place goes to another address", at_once=True)
        return True

    async def dial(self, candidate: Candidate) -> None:
        """Connect to it, and say how that went."""
        peer, expected, limits = candidate.peer, candidate.expected, self.options.limits
        link = Link(self.identity, limits, self._budget, self._events, is_dialer=True, expected=expected)
        self._links.add(link)
        self.counts["dialled"] += 1
        try:
            async with asyncio.timeout(self.options.dial_timeout_s):
                await self._loop.create_connection(lambda: link, peer.host, peer.port)
                while not link.is_ready:
                    if link not in self._links:
                        raise PeerUnavailable("the handshake failed")
                    await asyncio.sleep(0.01)
        except (OSError, TimeoutError, PeerUnavailable) as error:
            link.close("it cannot be dialled")
            self._links.discard(link)
            if expected is None or link.peer_id in (None, expected):
                self.plan.failed(candidate, self._loop.time())
            else:
                self.plan.mistaken(candidate, self._loop.time())
            logger.debug("a peer cannot be dialled", extra=log_facts(host=peer.host, port=peer.port, reason=str(error)))
            return
        assert link.peer_id is not None
        self.plan.connected(candidate, link.peer_id)

    def _ready(self, link: Link) -> None:
        assert link.peer_id is not None
        if link.peer_id == self.identity.peer_id:
            raise PeerFault("it is this node itself")
        peer = self.peers.get(link.peer_id)
        if peer is not None:
            self._add(peer, link)
            return
        peer = Peer(link.peer_id, link, self._loop.time())
        static = self._static.get(link.address) if link.is_dialer else None
        if static is not None and static.peer_id not in (None, link.peer_id):
            static = None  # another node than the operator has named
        direct = {other.peer_id for other in self.options.static_peers if other.is_direct}
        peer.is_direct = link.peer_id in direct or (static is not None and static.is_direct)
        peer.is_protected = peer.is_direct or link.peer_id in self.options.protected
        if self.is_banned(peer):
            raise PeerFault("it is banned")
        self.peers[peer.id] = peer
        self.counts["connected"] += 1
        logger.info("peer connected", extra=log_facts(**_facts(peer)))
        self.spawn(self._introduce(peer, link))

    def _add(self, peer: Peer, link: Link) -> None:
        """Another connection of a peer.  Who dials though it is connected here does not know of that any more: it was
        killed, or its way here has changed.  Unless both have dialled at the same time, its old ones are dead; both
        have not, where the peer had dialled before."""
        has_dialled = not all(old.is_dialer for old in peer.links)
        limit = math.inf if has_dialled else self._loop.time() - _BOTH_DIAL_S
        dead = [] if link.is_dialer else [old for old in peer.links if old.opened_at < limit]
        if len(peer.links) - len(dead) >= _LINKS_MAX:
            raise PeerFault("the peer is connected twice already")
        peer.links.append(link)
        for old in dead:
            old.close("the peer has connected anew", at_once=True)

    def _lost(self, link: Link, reason: str) -> None:
        self._links.discard(link)
        peer = None if link.peer_id is None else self.peers.get(link.peer_id)
        if peer is None or link not in peer.links:
            return
        was_used = peer.links[0] is link
        peer.links.remove(link)
        if peer.links:
            if was_used:
                self._on_gone(peer)
                peer.is_known_to_gossip.clear()  # a stream over the other connection may wait for it
                self.spawn(self._introduce(peer, peer.link))
            return
        del self.peers[peer.id]
        self._requests.forget(peer.id)
        self.counts["lost"] += 1
        logger.info("peer disconnected", extra=log_facts(peer=peer.id, reason=reason))
        self._on_gone(peer)
        if peer.is_outbound and not peer.is_leaving:
            self.found(StaticPeer(*peer.address, peer.id), is_trusted=True)

    # ---- the beginning -----------------------------------------------------------------------

    async def _introduce(self, peer: Peer, link: Link) -> None:
        """Over one connection.  When that is lost, what it did not bring is no reason to leave a peer that is connected
        by another: it is introduced anew over that."""
        if not peer.uses(link):
            return
        _, has_answered = await asyncio.gather(self._tried(self._identify(peer)), self._tried(self._ask_status(peer)))
        if not peer.uses(link):
            return
        if self.options.checks_status and (peer.status is None or peer.status.version != self._version):
            if not has_answered:  # its line may be bad: that says nothing of its network
                link.close("the peer gives no status", at_once=True)
                return
            other = "it gives no status" if peer.status is None else f"its network is {peer.status.version}"
            await self.leave(peer, Goodbye.WRONG_NETWORK, other)
            return
        stream = peer.link.open_stream()
        try:
            async with asyncio.timeout(self.options.request_timeout_s):
                await stream.select([MESH], is_dialer=True)
        except TimeoutError:  # it is dead: nobody would try again, and no message reach the peer
            link.close("the peer does not answer", at_once=True)
            return
        if peer.uses(link):
            self._on_peer(peer, stream)
            peer.is_known_to_gossip.set()

    async def _tried(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run ``work``; False when no answer came.  What is then known of the peer shows what the answer was worth."""
        with suppress(PeerFault, DecodeError):
            try:
                async with asyncio.timeout(self.options.request_timeout_s):
                    await work
            except (PeerUnavailable, TimeoutError):
                return False
        return True

    async def _identify(self, peer: Peer) -> None:
        stream = peer.link.open_stream()
        try:
            await stream.select([IDENTIFY], is_dialer=True)
            stream.finish()
            peer.protocols, peer.agent = read_identify(await stream.read_all(_IDENTIFY_BYTES_MAX))
        finally:
            stream.release()

    async def _ask_status(self, peer: Peer) -> None:
        answer = await self._requests.ask(peer, Request.STATUS, self._requests.status().to_buffer())
        peer.status = StatusMessage.from_buffer(answer)

    # ---- the end -----------------------------------------------------------------------------

    async def leave(self, peer: Peer, goodbye: Goodbye, reason: str) -> None:
        """Say why, and close; no-op for a peer that is being left."""
        if peer.is_leaving:
            return
        peer.is_leaving = True
        self.counts[f"left {goodbye.name.lower()}"] += 1
        with suppress(PeerUnavailable, PeerFault, TimeoutError):
            async with asyncio.timeout(1):
                await self._say_goodbye(peer, goodbye)
        for link in list(peer.links):
            link.close(reason)

    async def _say_goodbye(self, peer: Peer, goodbye: Goodbye) -> None:
        with suppress(PeerUnavailable, PeerFault):
            await self._requests.tell(peer, Request.GOODBYE, bytes([goodbye]))

    def penalize(self, peer_id: str, penalty: Penalty, reason: str) -> None:
        """Count it against the peer; what follows is decided at the next check."""
        self.counts[f"penalty {penalty.name.lower()}"] += 1
        score = self.standing.penalize(peer_id, penalty, self._loop.time())
        peer = self.peers.get(peer_id)
        is_left = peer is not None and self.is_banned(peer) and not peer.is_leaving
        # A peer could write a line for each of its fifty faults, and identities cost nothing.
        level = logging.DEBUG if penalty is Penalty.HIGH_TOLERANCE and not is_left else logging.INFO
        logger.log(level, "peer penalised", extra=log_facts(peer=peer_id, reason=reason, score=round(score, 1)))
        if peer is not None and is_left:
            # At once: until the next check it could do it again a thousand times.
            self.spawn(self.leave(peer, Goodbye.BANNED, "it is banned"))

    def is_banned(self, peer: Peer) -> bool:
        """True if the peer is left for what it did; also once it is gone."""
        return not peer.is_protected and self.standing.verdict(peer.id) is Goodbye.BANNED

    # ---- what is looked at again and again -----------------------------------------------------

    def _tick(self) -> None:
        now = self._loop.time()
        for link in list(self._links):
            link.tick(now)
        for candidate in self.plan.due(self.peers.keys(), now, has_room=self._wants_more()):
            self.spawn(self.dial(candidate))

    def _room(self) -> int:
        """Number of peers that there is room for yet."""
        return self.options.max_peers - sum(not peer.is_protected for peer in self.peers.values())

    @property
    def _dialled_min(self) -> int:
        """Places that are kept for peers that this node has dialled."""
        return max(1, self.options.max_peers // _DIALLED_SHARE)

    def _wants_more(self) -> bool:
        """True while others are dialled: also if those who came by themselves have all places."""
        dialled = sum(peer.is_outbound and not peer.is_protected for peer in self.peers.values())
        return self._room() > 0 or dialled < self._dialled_min

    def check(self) -> None:
        """Leave peers with low scores, and those above the maximum; seek bootstrap nodes."""
        now = self._loop.time()
        self.standing.decay(now)
        for peer in list(self.peers.values()):
            goodbye = None if peer.is_protected else self.standing.verdict(peer.id)
            if goodbye is not None:
                self.spawn(self.leave(peer, goodbye, "its score is too low"))
        others = [peer for peer in self.peers.values() if not peer.is_protected]
        surplus = len(others) - self.options.max_peers
        for peer in self._most_dispensable(others, surplus):
            self.spawn(self.leave(peer, Goodbye.MAX_PEERS, "there are too many peers"))
        self._seek_bootnodes(now)

    def _most_dispensable(self, peers: list[Peer], count: int) -> list[Peer]:
        """Peers that give up their places: one after the other of the most crowded address, with the lowest score, the
        newest.  As many as are kept for them stay of those that this node has dialled."""
        left = list(peers)
        self._dice.shuffle(left)

        def place(peer: Peer) -> str:
            return peer.address[0] if self.options.counts_colocation else peer.id

        crowd = Crowd(map(place, left))
        dialled = sum(peer.is_outbound for peer in left)
        leaving: list[Peer] = []
        for _ in range(count):
            found = [peer for peer in left if not peer.is_outbound or dialled > self._dialled_min] or left
            peer = max(found, key=lambda peer: (crowd.size(place(peer)), -self.standing.score(peer.id), peer.since))
            left.remove(peer)
            crowd.leave(place(peer))
            dialled -= peer.is_outbound
            leaving.append(peer)
        return leaving

    def leave_outcast(self, peer: Peer) -> None:
        """Leave a peer whose score is so low that it is not heard in gossip: all that it does is to cost."""
        if not peer.is_protected and not peer.is_leaving and self.score(peer.id) < _OUTCAST:
            self.spawn(self.leave(peer, Goodbye.LOW_SCORE, "it is not heard any more"))

    def found(self, peer: StaticPeer, *, is_trusted: bool = False) -> None:
        """Discovery knows of it, or it was a peer (``is_trusted``)."""
        if peer.peer_id != self.identity.peer_id and self.standing.verdict(peer.peer_id or "") is None:
            self.plan.discovered(peer, self._loop.time(), is_trusted=is_trusted)

    def _seek_bootnodes(self, now: float) -> None:
        """While peers are few, dial bootstrap nodes that discovery has not heard of for long: they may be there under
        another identity, which discovery cannot find out."""
        discovery, known = self.discovery, self.options.discovery
        if discovery is None or known is None:
            return
        for record in known.bootnodes:
            if record.peer_id in self.peers or discovery.table.find(record.node_id) is not None:
                self._silent_since.pop(record.peer_id, None)
                continue
            since = self._silent_since.setdefault(record.peer_id, now)
            host, port = record.ip, record.port("tcp")
            is_needed = len(self.peers) < self.options.gossip.degree
            if host is not None and port is not None and is_needed and now - since >= self.options.check_interval_s:
                self.found(StaticPeer(host, port, record.peer_id), is_trusted=True)

    def _offer(self, record: NodeRecord) -> None:
        """A record of this network whose node may be dialled."""
        host, port = record.ip, record.port("tcp")
        if record.version == self._version and host is not None and port is not None:
            self._records[record.peer_id] = record
            self.found(StaticPeer(host, port, record.peer_id))

    def _remember(self) -> None:
        """Write down who is connected, then who else answers, for the next start."""
        live = [] if self.discovery is None else [contact.record for contact in self.discovery.table]
        answering = {record.peer_id: record for record in live}
        self._records = {
            peer_id: record
            for peer_id, record in self._records.items()
            if peer_id in self.peers or peer_id in answering or len(self._records) <= self.options.max_peers
        }
        connected = [self._records[peer_id] for peer_id in self.peers if peer_id in self._records]
        others = [record for peer_id, record in answering.items() if peer_id not in self.peers]
        if not self.peers and not others:
            return  # those of the last time are better than none
        dialled = [
            StaticPeer(*peer.address, peer.id)
            for peer in self.peers.values()
            if peer.is_outbound and peer.id not in self._records
        ]
        self._known.save([*connected, *others], dialled)

    # ---- streams -------------------------------------------------------------------------------

    def _given_up(self, link: Link) -> None:
        """A stream of the peer came to nothing: that may happen, but each costs this node something."""
        peer = self.peers.get(link.peer_id or "")
        if peer is None or peer.is_protected or peer.may_give_up(self._loop.time()):
            return
        self.penalize(peer.id, Penalty.HIGH_TOLERANCE, "it opens streams and gives them up")
        if self.is_banned(peer):
            link.close("it is banned")

    def _stream(self, link: Link, stream: Stream) -> None:
        assert link.peer_id is not None
        self.spawn(self._serve(link, stream))

    async def _serve(self, link: Link, stream: Stream) -> None:
        try:
            async with asyncio.timeout(self.options.limits.request_time_s):
                protocol = await stream.select(self._protocols, is_dialer=False)
            peer = self.peers.get(link.peer_id or "")
            if peer is not None:
                await self._serve_protocol(peer, protocol, stream)
        except TimeoutError:
            stream.reset()
            self._given_up(link)
        except PeerUnavailable:
            if stream.has_ended:
                self._given_up(link)
            raise
        except PeerFault as error:
            link.close(str(error))
        finally:
            stream.release()

    async def _serve_protocol(self, peer: Peer, protocol: str, stream: Stream) -> None:
        if protocol == MESH:
            # Longer than all that may come before.
            async with asyncio.timeout(3 * self.options.request_timeout_s):
                await peer.is_known_to_gossip.wait()
            await self._on_gossip(peer, stream)
        elif protocol == IDENTIFY:
            async with asyncio.timeout(self.options.limits.request_time_s):
                await stream.write(identify_message(self.identity, peer.address, self._protocols))
            stream.finish()
        elif protocol == IDENTIFY_PUSH:
            async with asyncio.timeout(self.options.limits.request_time_s):
                peer.protocols, peer.agent = read_identify(await stream.read_all(_IDENTIFY_BYTES_MAX))
            stream.finish()
        else:
            await self._requests.serve(peer, protocol, stream)


class _Gate(asyncio.Protocol):
    """A connection from outside: admitted, or closed before anything is read."""

    def __init__(self, link: Link, admit: Callable[[Link], bool]) -> None:
        self._link = link
        self._admit = admit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        peername = transport.get_extra_info("peername") or ("", 0)
        self._link.address = (str(peername[0]), int(peername[1]))
        if not self._admit(self._link):
            transport.abort()
            return
        transport.set_protocol(self._link)
        self._link.connection_made(transport)


def _facts(peer: Peer) -> dict[str, Any]:
    host, port = peer.address
    return {"peer": peer.id, "host": host, "port": port, "direction": "out" if peer.is_outbound else "in"}
