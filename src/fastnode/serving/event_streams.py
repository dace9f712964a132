"""GET /events: clients that are told what happens (events.py), without asking.

    commit, pending transaction ─► EventStreams: one text for each set of types ─► all clients, some at a time
    request ─► head, what was missed ─► EventClient, which has the connection from then on

A client holds at most UNSENT_BYTES_MAX (serving/recipients.py) and one text.  One that holds more when the next text
comes, or that takes nothing from one heartbeat to the next, is dropped; it comes again and says where it was.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from fastnode.http.allowance import Allowance
from fastnode.http.messages import Response, header_fields
from fastnode.serving.events import BLOCKS_BYTES_MAX, TX, TYPES, ChainEvents, Event, joined, pending_events
from fastnode.serving.recipients import RECIPIENTS_PER_TURN, Recipient, write_to_each

if TYPE_CHECKING:
    from fastnode.http.allowance import MemoryBudget
    from fastnode.http.meters import Traffic
    from fastnode.view import Committed, View

__all__ = ["DROP_REASONS", "EVENTS_PATH", "EventClient", "EventStreams"]

EVENTS_PATH: Final = b"/events"
#: About what a connection takes that is told of events, without what it has not taken.
CLIENT_BYTES: Final = 16 * 1024
#: Said between events, so that proxies know that the connection is used.
HEARTBEAT_S: Final = 15.0
#: Time of collecting pending transactions, and their number at most: more of them at once are not told.
COLLECT_S: Final = 0.1
COLLECTED_MAX: Final = 1024
#: Parameters are taken apart on the loop: 16 kB of them, which a head may have, would hold it for milliseconds.
QUERY_BYTES_MAX: Final = 512
#: When a client that was cut off comes again.
RETRY_MS: Final = 2000

_FIELDS: Final = header_fields(
    ("Content-Type", "text/event-stream; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("X-Accel-Buffering", "no"),  # a gateway of nginx would collect events
)


#: Reasons to cut clients off: they take less than comes, or nothing at all.
DROP_REASONS: Final = ("slow", "stuck")


class EventStreams:
    """The clients of one server.  Belongs to the event loop; ``on_committed`` and ``on_pending`` any thread may call.

    ``view``: the newest one; ``clients_max``: 0 for none.
    """

    def __init__(
        self, view: Callable[[], View | None], *, clients_max: int, budget: MemoryBudget, traffic: Traffic
    ) -> None:
        self.clients_max = clients_max
        #: Clients that are told of events in another way, which share the limit.
        self.other_count: Callable[[], int] = lambda: 0
        self.budget = budget
        self.traffic = traffic
        #: Events that were sent, by name; each once for every client that it was for.
        self.sent: Counter[str] = Counter()
        #: Clients that were cut off, by reason.
        self.dropped: Counter[str] = Counter()
        self._view = view
        self._loop = asyncio.get_running_loop()
        self._chain: ChainEvents | None = None
        self._clients: dict[EventClient, None] = {}
        self._by_types: Counter[int] = Counter()
        self._pending: deque[bytes] = deque(maxlen=COLLECTED_MAX)
        self._is_collecting = False
        #: The text being handed out: to whom, and what to do with each.
        self._rounds: deque[tuple[Iterator[EventClient], Callable[[list[EventClient]], None]]] = deque()
        self._heartbeat: asyncio.TimerHandle | None = None

    @property
    def client_count(self) -> int:
        return len(self._clients)

    # ---- who listens -------------------------------------------------------------------------

    def open(self, target: bytes, headers: Mapping[bytes, bytes], allowance: Allowance, common: bytes) -> Response:
        """The answer to GET; ``common`` are the header lines of every answer.  NodeBusy."""
        text_fields = common + header_fields(("Content-Type", "text/plain; charset=utf-8"))
        types = _types_of(target)
        if types is None:
            reason = f"types: must be some of {','.join(TYPES)}, with commas between them"
            reason += f"; there may be {QUERY_BYTES_MAX} bytes of parameters"
            return Response(HTTPStatus.BAD_REQUEST, text_fields, reason.encode())
        if self._view() is None or not self.has_room():
            return self.refuse(common)
        last_event_id = headers.get(b"last-event-id", b"").strip()
        allowance.take(CLIENT_BYTES + (BLOCKS_BYTES_MAX if last_event_id else 0))

        def begin(transport: asyncio.Transport, before: asyncio.BaseProtocol, _early: bytes) -> None:
            self._enter(EventClient(self, transport, before, types), last_event_id)

        return Response(HTTPStatus.OK, common + _FIELDS, None, begin)

    def has_room(self) -> bool:
        """True if there may be one more client."""
        return len(self._clients) + self.other_count() < self.clients_max

    def refuse(self, common: bytes) -> Response:
        """The answer to a client for which there is no room."""
        self.traffic.rejected["event_clients"] += 1
        fields = common + header_fields(("Content-Type", "text/plain; charset=utf-8"), ("Retry-After", "10"))
        reason = f"too many clients that are told of events; the limit is {self.clients_max}"
        return Response(HTTPStatus.SERVICE_UNAVAILABLE, fields, reason.encode())

    def _enter(self, client: EventClient, last_event_id: bytes) -> None:
        """From here on it is told of everything; first what it has missed, and where the chain is."""
        view = self._view()
        if view is not None:
            if self._chain is None:
                self._chain = ChainEvents(view)
            chain = self._chain
            self._tell(chain.advance(view))
            events = [*chain.since(view, last_event_id), chain.tips]
            begin = b"retry: %d\n%b\n" % (RETRY_MS, chain.position)
            client.write(begin + joined(events, client.types, chain.position))
        self._clients[client] = None
        self._by_types[client.types] += 1
        self.budget.take_unasked(CLIENT_BYTES)
        if self._heartbeat is None:
            self._heartbeat = self._loop.call_later(HEARTBEAT_S, self._beat)

    def leave(self, client: EventClient) -> None:
        """Its connection has gone."""
        del self._clients[client]
        self._by_types[client.types] -= 1
        self.budget.give_back(CLIENT_BYTES)
        if not self._clients:
            self._chain = None  # the next client begins where the chain is then
            if self._heartbeat is not None:
                self._heartbeat.cancel()
                self._heartbeat = None

    # ---- what happens ------------------------------------------------------------------------

    def on_committed(self, _committed: Committed) -> None:
        """There is a new view."""
        if self._clients:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._look)

    def on_pending(self, tx_hash: bytes) -> None:
        """A transaction waits in the pool."""
        if any(types & TX and count for types, count in self._by_types.copy().items()):
            self._pending.append(tx_hash)
            if not self._is_collecting:
                self._is_collecting = True
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._loop.call_later, COLLECT_S, self._tell_pending)

    def _tell_pending(self) -> None:
        self._is_collecting = False
        hashes = []
        while self._pending:
            hashes.append(self._pending.popleft())
        self._tell(pending_events(hashes), with_id=False)

    def _look(self) -> None:
        view = self._view()
        if view is not None and self._chain is not None:
            self._tell(self._chain.advance(view))

    def _tell(self, events: list[Event], *, with_id: bool = True) -> None:
        if not events or self._chain is None:
            return
        position = self._chain.position if with_id else b""
        texts = {}
        for types, count in self._by_types.items():
            if count:
                texts[types] = joined(events, types, position)
                for event in events:
                    self.sent[event.name] += count if event.types & types else 0
        if any(texts.values()):
            self._hand_out(lambda clients: self._write_each(clients, texts))

    def _beat(self) -> None:
        self._heartbeat = self._loop.call_later(HEARTBEAT_S, self._beat)
        # Without data nothing is told, and where the client is gets known.
        text = b":\n%b\n" % (b"" if self._chain is None else self._chain.position)

        def beat(clients: list[EventClient]) -> None:
            for client in clients:
                client.beat(text)

        self._hand_out(beat)

    def _write_each(self, clients: list[EventClient], texts: dict[int, bytes]) -> None:
        """An event to some clients, by their types."""
        for types, text in texts.items():
            if text:
                write_to_each([client for client in clients if client.types == types], text, self.traffic)

    def _hand_out(self, tell: Callable[[list[EventClient]], None]) -> None:
        self._rounds.append((iter(tuple(self._clients)), tell))
        if len(self._rounds) == 1:
            self._go_on()

    def _go_on(self) -> None:
        """Tell some clients, in the order in which things have happened."""
        clients, tell = self._rounds[0]
        some = list(islice(clients, RECIPIENTS_PER_TURN))
        tell(some)
        if len(some) < RECIPIENTS_PER_TURN:
            self._rounds.popleft()
        if self._rounds:
            self._loop.call_soon(self._go_on)


class EventClient(Recipient):
    """One connection from its answer on.  ``before`` is the protocol that it had, which is told of the end."""

    __slots__ = ("_streams", "types")

    #: Data from clients is not read.
    _DROPPED: Final = bytearray(1024)

    def __init__(
        self, streams: EventStreams, transport: asyncio.Transport, before: asyncio.BaseProtocol, types: int
    ) -> None:
        super().__init__(transport, before, streams.traffic)
        self.types = types
        self._streams = streams

    def beat(self, text: bytes) -> None:
        """A heartbeat: clients that have taken nothing since the last one, and had something to take, are dropped."""
        if not self.is_open:
            return
        if self.is_stuck():
            self.drop("stuck")
        else:
            self.write(text)

    def drop(self, reason: str) -> None:
        self._streams.dropped[reason] += 1
        super().drop(reason)

    # ---- the transport's side ------------------------------------------------------------------

    def get_buffer(self, _sizehint: int) -> bytearray:
        return self._DROPPED

    def buffer_updated(self, nbytes: int) -> None:
        self.traffic.received_bytes += nbytes

    def eof_received(self) -> bool:
        """A client that sends no more does not listen either."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._streams.leave(self)
        super().connection_lost(exc)


def _types_of(target: bytes) -> int | None:
    """The bits of ``types=``, all of them without it; None for what there is not, and for too many parameters."""
    query = target.partition(b"?")[2].decode("latin-1")
    if len(query) > QUERY_BYTES_MAX:
        return None
    wanted = [value for name, value in parse_qsl(query, keep_blank_values=True) if name == "types"]
    if not wanted:
        return sum(TYPES.values())
    bits = 0
    for name in ",".join(wanted).split(","):
        bit = TYPES.get(name.strip())
        if bit is None:
            return None
        bits |= bit
    return bits
