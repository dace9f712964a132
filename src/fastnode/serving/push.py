"""GET /events over WebSocket: clients subscribe to feeds (feeds.py), and go on where they were.

    commit ─► follow: for each block the feeds that it has something for ─► one frame each ─► all who listen, in slices
    request ─► PushClient ─► its task: subscribe ─► behind: blocks from the chain, as fast as the client takes them
                                                 ─► live: in the group of those who listen to the same feeds

Messages are JSON-RPC: ``subscribe``, ``resume`` (several at once) and ``unsubscribe`` are calls, ``event`` and
``position`` are notifications.  All who are told of a block have been told of the one before, or are behind: a lock is
held from the first of them to the last, and whoever becomes live, or ends a subscription, does so between.  So each is
told of everything once, in order.

What was missed is read from the chain when the client takes it: no queue is kept for anybody.  A client that is live
and leaves too much untaken is told where it was and cut off.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from fastnode import interpreter
from fastnode.artifacts.naming import Naming
from fastnode.errors import (
    BlockPruned,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    NodeBusy,
    ParseError,
    RateLimited,
    RpcError,
    ServerError,
)
from fastnode.kernels import encode
from fastnode.serving.feeds import (
    TOPICS,
    Feed,
    begin_message,
    feed_of,
    message,
    messages_of_block,
    pruned_message,
)
from fastnode.serving.listeners import Group, KeptFrames, Listeners
from fastnode.serving.recipients import RECIPIENTS_PER_TURN, write_to_each
from fastnode.serving.seen_blocks import Cursor, SeenBlocks, block_id
from fastnode.serving.websocket import CloseReason, WebSocket, frame_of, handshake, ping_frame
from fastnode.values.refusal import describe

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.artifacts.store import ArtifactStore
    from fastnode.http.allowance import Allowance, MemoryBudget
    from fastnode.http.messages import Request, Response
    from fastnode.http.meters import Traffic
    from fastnode.jsonrpc.rate_limits import Client
    from fastnode.view import Committed, View

__all__ = ["Push", "PushClient"]

logger = logging.getLogger("fastnode.rpc")

#: About what a connection takes, and a subscription, and each hash or tag of it.
CLIENT_BYTES: Final = 24 * 1024
SUBSCRIPTION_BYTES: Final = 1024
VALUE_BYTES: Final = 256
#: Subscriptions of one client.
SUBSCRIPTIONS_MAX: Final = 100
#: Calls of one client that wait for those before them.
CALLS_MAX: Final = 200
#: Cursors that a client may say it was at, the newest first.
CURSORS_MAX: Final = 128
#: Length of an id, in its JSON.
ID_BYTES_MAX: Final = 128
#: Pings, and positions, are sent this often; a client that has answered none of two is gone.
HEARTBEAT_S: Final = 15.0
UNANSWERED_MAX: Final = 2
#: Time of collecting pending transactions, and their number at most: more of them at once are not told.
COLLECT_S: Final = 0.1
COLLECTED_MAX: Final = 1024
#: Time after which others have their turn on the loop.
SLICE_NS: Final = 1_000_000
#: A client that is behind has this much to take before more is read for it.
BEHIND_BYTES_MAX: Final = 32 * 1024
#: Bytes of messages that are kept for others who come behind.
KEPT_BYTES_MAX: Final = 4 << 20
#: Blocks that are remembered from before the first client.
_FIRST_REMEMBERED: Final = 64


class Subscription:
    """One client's; ``cursors`` is where it is while it is behind, the newest first, and None once it is live."""

    __slots__ = ("cursors", "feed")

    def __init__(self, feed: Feed, cursors: list[Cursor] | None) -> None:
        self.feed = feed
        self.cursors = cursors


class PushClient(WebSocket):
    """One client of a :class:`Push`."""

    __slots__ = ("_push", "calls", "charged", "group", "subscriptions", "taken_bytes", "task", "unanswered", "wake")

    def __init__(
        self,
        push: Push,
        transport: asyncio.Transport,
        before: asyncio.BaseProtocol,
        allowance: Allowance,
        charged: Client | None,
    ) -> None:
        self._push = push
        #: The budget that pays for its calls; None: they are free.
        self.charged = charged
        #: By name, in the order in which they came.
        self.subscriptions: dict[str, Subscription] = {}
        self.group: Group[PushClient] | None = None
        self.calls: deque[str] = deque()
        self.task: asyncio.Task[None] | None = None
        self.wake = asyncio.Event()
        self.unanswered = 0
        #: From the memory budget.
        self.taken_bytes = 0
        party = allowance.party
        super().__init__(transport, before, push.traffic, party.turns, party.share)
        transport.set_write_buffer_limits(high=BEHIND_BYTES_MAX, low=BEHIND_BYTES_MAX // 4)

    @property
    def behind(self) -> list[Subscription]:
        return [each for each in self.subscriptions.values() if each.cursors is not None]

    def on_message(self, text: str) -> None:
        if len(self.calls) >= CALLS_MAX:
            self.close(CloseReason.POLICY_VIOLATION, f"more than {CALLS_MAX} calls wait for those before them")
            return
        self.calls.append(text)
        self._push.work_for(self)

    def resume_writing(self) -> None:
        self.wake.set()

    def say(self, text: bytes) -> None:
        """A message."""
        self.write(frame_of(text))

    def has_room(self) -> bool:
        """True if it has taken so much that more may be read for it."""
        return self.transport.get_write_buffer_size() < BEHIND_BYTES_MAX

    async def turn(self) -> None:
        """Let others go first."""
        await self._turns.next(self._share)

    def drop(self, reason: str) -> None:
        self._push.dropped[reason] += 1
        at = self._push.told
        where = f"; go on from {Cursor.at(at)}" if at is not None and reason == "slow" and not self.behind else ""
        self.close(CloseReason.TRY_AGAIN_LATER, f"{reason}: too little was taken{where}")

    def beat(self, position: bytes) -> None:
        """A heartbeat; who takes nothing, or says nothing to it, is dropped."""
        if not self.is_open:
            return
        self.unanswered = 0 if self.has_answered else self.unanswered + 1
        self.has_answered = False
        if self.is_stuck():
            self.drop("stuck")
        elif self.unanswered >= UNANSWERED_MAX:
            self._push.dropped["silent"] += 1
            self.close(CloseReason.GOING_AWAY, "silent: no ping was answered")
        else:
            self.write(ping_frame if self.behind else ping_frame + position)

    def connection_lost(self, exc: Exception | None) -> None:
        self._push.leave(self)
        super().connection_lost(exc)


class Told(NamedTuple):
    """Point of the chain that all live clients have been told of; replaced as a whole."""

    blocks: SeenBlocks
    tips_json: bytes


class Push:
    """The WebSockets of one server.

        NEW ── the first client ──► FOLLOWING, until the server stops
        a client: behind ── it has been told of the newest block ──► live, in the group of its feeds

    It is NEW without a :class:`Told`, follows from the first client on, and has a heartbeat while there are clients.
    Belongs to the loop; ``on_committed`` and ``on_pending`` any thread may call.

    ``view``: the newest one; ``has_room``: for one more client; ``subscriptions_max``: of all clients together;
    ``artifacts``: names for the subscriptions that want them.
    """

    def __init__(
        self,
        view: Callable[[], View | None],
        *,
        has_room: Callable[[], bool],
        subscriptions_max: int,
        budget: MemoryBudget,
        traffic: Traffic,
        artifacts: ArtifactStore | None = None,
    ) -> None:
        self._artifacts = artifacts
        self.subscriptions_max = subscriptions_max
        self.budget = budget
        self.traffic = traffic
        #: Messages with events that were sent, by topic; each once for every client.
        self.sent: Counter[str] = Counter()
        #: Clients that were cut off, by reason.
        self.dropped: Counter[str] = Counter()
        self._view = view
        self._has_room = has_room
        self._loop = asyncio.get_running_loop()
        self._clients: dict[PushClient, None] = {}
        self._listeners: Listeners[PushClient] = Listeners()
        #: None before the first client.
        self._told: Told | None = None
        self._lock = asyncio.Lock()
        self._news = asyncio.Event()
        #: Clients that wait for newer blocks: a node that is ahead has told them of the blocks here.
        self._waiting: dict[PushClient, None] = {}
        self._following: asyncio.Task[None] | None = None
        self._beating: asyncio.TimerHandle | None = None
        self._is_beat_due = False
        self._pending: deque[bytes] = deque(maxlen=COLLECTED_MAX)
        self._is_collecting = False
        self._kept = KeptFrames(KEPT_BYTES_MAX)

    def invariant(self) -> None:
        """AssertionError unless all subscriptions are counted, and what clients take is theirs."""
        assert (self._told is None) == (self._following is None)
        assert self._beating is not None or not self._clients
        assert self._waiting.keys() <= self._clients.keys()
        count = sum(len(client.subscriptions) for client in self._clients)
        assert self.subscription_count == count
        for client in self._clients:
            group = client.group
            assert group is None or client in group.clients
            assert client.taken_bytes >= CLIENT_BYTES
        assert self._listeners.client_count == sum(client.group is not None for client in self._clients)

    # ---- who listens -------------------------------------------------------------------------

    @property
    def _seen(self) -> SeenBlocks:
        """Blocks that all live clients have been told of."""
        assert self._told is not None  # there has been a client
        return self._told.blocks

    @property
    def subscription_count(self) -> int:
        """Subscriptions of all clients."""
        return self._listeners.subscription_count

    @property
    def client_count(self) -> int:
        return len(self._clients)

    @property
    def told(self) -> Any:
        """The newest block that live clients have been told of; None before the first client."""
        return None if self._told is None else self._told.blocks.tip

    def open(self, request: Request, allowance: Allowance, common: bytes, charged: Client | None) -> Response | None:
        """The answer to a request for a WebSocket; None: there is no room.  NodeBusy."""
        view = self._view()
        if view is None or not self._has_room():
            return None
        allowance.take(CLIENT_BYTES)

        def begin(transport: asyncio.Transport, before: asyncio.BaseProtocol, early: bytes) -> Callable[[], None]:
            client = PushClient(self, transport, before, allowance, charged)
            self._enter(client)
            if early:
                client.receive(early)
            return lambda: client.close(CloseReason.GOING_AWAY, "the server stops; go on with another one")

        return handshake(request, common, begin)

    def _enter(self, client: PushClient) -> None:
        view = self._view()
        if self._told is None and view is not None:
            blocks = SeenBlocks(view.chain, view.chain.tip_number - _FIRST_REMEMBERED)
            self._told = Told(blocks, view.chain.tips_json)
            self._following = self._loop.create_task(self._follow())
        self._clients[client] = None
        self._take(client, CLIENT_BYTES)
        if self._beating is None:
            self._beating = self._loop.call_later(HEARTBEAT_S, self._on_beat)

    def _take(self, client: PushClient, count: int) -> None:
        client.taken_bytes += count
        if count > 0:
            self.budget.take_unasked(count)
        else:
            self.budget.give_back(-count)

    def leave(self, client: PushClient) -> None:
        """Its connection has gone."""
        del self._clients[client]
        self._join(client, ())
        for subscription in client.subscriptions.values():
            self._listeners.forget(subscription.feed)
        client.subscriptions.clear()
        self._waiting.pop(client, None)
        self._take(client, -client.taken_bytes)
        client.calls.clear()
        client.wake.set()
        if not self._clients and self._beating is not None:
            self._beating.cancel()
            self._beating = None

    def close(self) -> None:
        """The server has stopped."""
        if self._following is not None:
            self._following.cancel()
        if self._beating is not None:
            self._beating.cancel()

    def _join(self, client: PushClient, feeds: Iterable[Feed]) -> None:
        """Put a client among those who listen to these feeds."""
        client.group = self._listeners.move(client, client.group, feeds)

    def _join_live(self, client: PushClient) -> None:
        self._join(client, [each.feed for each in client.subscriptions.values() if each.cursors is None])

    # ---- calls -------------------------------------------------------------------------------

    def work_for(self, client: PushClient) -> None:
        """Let the client's task look what there is to do."""
        if client.task is None:
            client.task = self._loop.create_task(self._work(client))
            client.task.add_done_callback(lambda task: self._on_worked(client, task))
        else:
            client.wake.set()

    def _on_worked(self, client: PushClient, task: asyncio.Task[None]) -> None:
        client.task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a client of events could not be served", exc_info=error)
            client.close(CloseReason.INTERNAL_ERROR, "the events could not be read")
        elif client.is_open and (client.calls or client.behind):
            self.work_for(client)

    async def _work(self, client: PushClient) -> None:
        """Answer calls in their order, and between them bring the client forward."""
        while client.is_open and (client.calls or client.behind):
            if client.calls:
                await self._answer(client, client.calls.popleft())
            else:
                await self._bring_forward(client)

    async def _answer(self, client: PushClient, text: str) -> None:
        """Do what is asked for, and say so before anything that follows from it."""
        first: list[bytes] = []
        is_call, call_id = True, None
        answer: dict[str, Any]
        async with self._lock:
            try:
                call = _read_call(text)
                is_call, call_id = call.is_call, call.id
                refusal = None if client.charged is None else client.charged.refusal_of(None)
                if refusal is not None:
                    raise refusal
                chain = await self._advance()
                if not client.is_open:
                    return
                answer = {"result": self._do(client, chain, call, first)}
            except RpcError as error:
                answer = {"error": {"code": error.code, "message": error.message}}
                if error.data is not None:
                    answer["error"]["data"] = error.data
            if is_call:
                client.say(orjson.dumps({"jsonrpc": "2.0", "id": call_id, **answer}))
            for each in first:
                client.say(each)

    def _do(self, client: PushClient, chain: ChainView, call: _Call, first: list[bytes]) -> Any:
        """The result of a call; ``first`` gets what is said behind the answer.  RpcError."""
        params = call.params
        if call.method == "subscribe":
            [result] = self._subscribe(client, chain, [_params_of(params)], first)
            return result
        if call.method == "resume":
            wanted = _member_of(params, "subscriptions") if isinstance(params, dict) else params
            if not isinstance(wanted, list) or not all(isinstance(each, dict) for each in wanted):
                raise InvalidParams("Invalid params: subscriptions must be an array of what subscribe takes")
            return self._subscribe(client, chain, wanted, first)
        if call.method == "unsubscribe":
            name = _member_of(params, "subscription") if isinstance(params, dict) else _only_of(params)
            if not isinstance(name, str):
                raise InvalidParams("Invalid params: subscription must be the name that subscribe has answered")
            return self._unsubscribe(client, name)
        raise MethodNotFound(f"Method not found: there are {', '.join(_METHODS)}")

    def _subscribe(
        self, client: PushClient, chain: ChainView, wanted: Sequence[dict[str, Any]], first: list[bytes]
    ) -> list[dict[str, str]]:
        """All of them, or none.  RpcError."""
        made: list[Subscription] = []
        answers: list[dict[str, str]] = []
        told = Cursor.at(block_id(chain, chain.tip_number))
        try:
            for each in wanted:
                subscription = self._add(client, chain, each)
                made.append(subscription)
                cursors = subscription.cursors
                answers.append({"subscription": subscription.feed.name, "cursor": str(cursors[0] if cursors else told)})
        except RpcError:
            for subscription in made:
                self._remove(client, subscription)
            raise
        for subscription in made:
            if subscription.cursors is None:
                begin = begin_message(chain, subscription.feed, told)
                if begin is not None:
                    self.sent[subscription.feed.topic] += 1
                    first.append(begin)
        self._join_live(client)
        return answers

    def _add(self, client: PushClient, chain: ChainView, wanted: dict[str, Any]) -> Subscription:
        feed = feed_of(wanted)
        if feed.name in client.subscriptions:
            raise InvalidParams(f"Invalid params: {feed.name} is subscribed to on this connection")
        if len(client.subscriptions) >= SUBSCRIPTIONS_MAX:
            raise ServerError(f"too many subscriptions; the limit is {SUBSCRIPTIONS_MAX} on a connection")
        if self.subscription_count >= self.subscriptions_max:
            self.traffic.rejected["event_subscriptions"] += 1
            reason = f"too many subscriptions of all clients; the limit is {self.subscriptions_max}"
            raise ServerError(f"{reason} (--rpc-max-event-subscriptions)")
        cursors = _cursors_of(wanted.get("from"), chain)
        if cursors is not None:
            try:
                place = self._seen.place_of(chain, cursors)
                if place is not None:
                    feed.require_kept(chain, place.number + 1)
            except ValueError as error:
                raise InvalidParams(f"Invalid params: from: {error}") from None
            except BlockPruned as error:
                raise ServerError(error.message, data=error.data) from None
        try:
            self.budget.take(_cost_of(feed))
        except NodeBusy:
            self.traffic.rejected["memory"] += 1
            raise
        client.taken_bytes += _cost_of(feed)
        subscription = Subscription(self._listeners.feed(feed), cursors if feed.has_history else None)
        client.subscriptions[feed.name] = subscription
        return subscription

    def _remove(self, client: PushClient, subscription: Subscription) -> None:
        feed = subscription.feed
        del client.subscriptions[feed.name]
        self._listeners.forget(feed)
        self._take(client, -_cost_of(feed))

    def _unsubscribe(self, client: PushClient, name: str) -> bool:
        subscription = client.subscriptions.get(name)
        if subscription is None:
            return False
        self._remove(client, subscription)
        self._join_live(client)
        return True

    # ---- what was missed ---------------------------------------------------------------------

    async def _bring_forward(self, client: PushClient) -> None:
        """Tell what a client has missed, for a slice or as far as it takes it; then wait for what has to come first."""
        waits = True
        async with self._lock:
            chain = await self._advance()
            until_ns = time.monotonic_ns() + SLICE_NS
            for subscription in client.behind:
                while client.is_open and time.monotonic_ns() < until_ns and client.has_room():
                    if not await self._step(client, chain, subscription):
                        break
                cursors = subscription.cursors
                waits = waits and (cursors is None or cursors[0].number > chain.tip_number)
        if not client.is_open or not client.behind or client.calls:
            return
        client.wake.clear()
        if waits:
            self._waiting[client] = None
            await client.wake.wait()
            self._waiting.pop(client, None)
        elif not client.has_room():
            await client.wake.wait()
        else:
            refusal = None if client.charged is None else client.charged.refusal_of(None)
            if isinstance(refusal, RateLimited):
                await asyncio.sleep(refusal.wait_s)
            await client.turn()

    async def _step(self, client: PushClient, chain: ChainView, subscription: Subscription) -> bool:
        """Tell the next thing; False: nothing is left to tell now."""
        feed, cursors, seen = subscription.feed, subscription.cursors, self._seen
        assert cursors is not None
        try:
            place = seen.place_of(chain, cursors)
        except ValueError as error:  # it was told by a node that was ahead, of another chain
            client.close(CloseReason.POLICY_VIOLATION, str(error))
            return False
        if place is None:
            return False
        if place.pruned:
            cursor, text = pruned_message(feed, chain, place.pruned)
            self._say(client, subscription, (cursor, frame_of(text)))
            return True
        if place.number >= chain.tip_number:
            subscription.cursors = None
            self._join_live(client)
            return False
        try:
            number = feed.next_block(chain, place.number + 1, chain.tip_number)
        except BlockPruned as error:  # it is slower than blocks are pruned
            client.close(CloseReason.POLICY_VIOLATION, f"block {error.number} is pruned")
            return False
        if number is None:
            subscription.cursors = [Cursor.at(seen.tip)]
            return True
        part = place.part if number == place.number + 1 else 0
        for told in await self._messages(chain, feed, number, part):
            self._say(client, subscription, told)
            if not client.has_room():
                return True
        subscription.cursors = [Cursor.at(block_id(chain, number))]
        return True

    def _say(self, client: PushClient, subscription: Subscription, told: tuple[Cursor, bytes]) -> None:
        """Write a frame, behind which the client is at a cursor."""
        cursor, frame = told
        client.write(frame)
        self.sent[subscription.feed.topic] += 1
        subscription.cursors = [cursor]

    async def _messages(self, chain: ChainView, feed: Feed, number: int, part: int = 0) -> list[tuple[Cursor, bytes]]:
        """Frames with what a block has for a feed behind the first ``part``, and the cursor behind each."""
        key = feed.name, block_id(chain, number).hash, chain.block_status(number), part  # receipts have the status
        kept = self._kept.get(key)
        if kept is None:
            if feed.with_names and self._artifacts is not None:
                kept = await asyncio.to_thread(_named_frames, chain, feed, number, part, self._artifacts)
            else:
                kept = [(cursor, frame_of(text)) for cursor, text in messages_of_block(chain, feed, number, part)]
            self._kept.put(key, kept)
        return kept

    # ---- what happens ------------------------------------------------------------------------

    def on_committed(self, _committed: Committed) -> None:
        """There is a new view."""
        if self._told is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._news.set)

    def on_pending(self, tx_hash: bytes) -> None:
        """A transaction waits in the pool."""
        if self._listeners.has("txs"):
            self._pending.append(tx_hash)
            if not self._is_collecting:
                self._is_collecting = True
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._loop.call_later, COLLECT_S, self._news.set)

    def _on_beat(self) -> None:
        self._beating = self._loop.call_later(HEARTBEAT_S, self._on_beat)
        self._is_beat_due = True
        self._news.set()

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                async with self._lock:
                    await self._advance()
                    await self._tell_pending()
                    if self._is_beat_due:
                        self._is_beat_due = False
                        await self._beat()
            except Exception:
                logger.exception("clients of events cannot be told")
                for client in tuple(self._clients):
                    client.close(CloseReason.INTERNAL_ERROR, "the events could not be read")
            for client in tuple(self._waiting):
                client.wake.set()

    async def _advance(self) -> ChainView:
        """Tell live clients of everything until the newest view, whose chain is returned.  The lock is held."""
        view, told = self._view(), self._told
        assert view is not None
        assert told is not None
        chain, seen = view.chain, told.blocks
        if chain.tips.proposed != seen.tip:
            undone = seen.take_back(chain)
            if undone:
                await self._tell_undone(chain, undone)
            for number in range(seen.tip.number + 1, chain.tip_number + 1):
                await self._tell_block(chain, number)
                seen.go_on(chain, number, number)
        if chain.tips_json != told.tips_json:
            self._told = told._replace(tips_json=chain.tips_json)
            tips = self._listeners.named("tips")
            if tips is not None:
                text = frame_of(message(tips, "tips", Cursor.at(seen.tip), chain.tips_json))
                await self._tell(self._listeners.of(tips), lambda feed: text if feed is tips else None)
        return chain

    async def _tell_undone(self, chain: ChainView, undone: range) -> None:
        made: dict[Feed, bytes] = {}

        def frame(feed: Feed) -> bytes | None:
            if feed.has_history and feed not in made:
                made[feed] = frame_of(pruned_message(feed, chain, undone)[1])
            return made.get(feed)

        await self._tell(self._listeners.groups(), frame)

    async def _tell_block(self, chain: ChainView, number: int) -> None:
        frames: dict[Feed, list[bytes]] = {}
        slice_ = _Slice()
        for feeds in self._listeners.interest.hits(chain, number):
            for feed in feeds:
                if feed not in frames:
                    frames[feed] = [text for _, text in await self._messages(chain, feed, number)]
                    await slice_.pause()
            await slice_.pause()
        place = 0
        # A piece of each at a time: a client that does not keep up is noticed between two.
        while frames := {feed: texts for feed, texts in frames.items() if len(texts) > place}:
            groups: dict[Group[PushClient], None] = {}
            for feed in frames:
                groups |= dict.fromkeys(self._listeners.of(feed))
                await slice_.pause()
            now = {feed: texts[place] for feed, texts in frames.items()}
            await self._tell([*groups], now.get)
            place += 1

    async def _tell_pending(self) -> None:
        self._is_collecting = False
        hashes = []
        while self._pending:
            hashes.append(self._pending.popleft())
        txs = self._listeners.named("txs")
        if not hashes or txs is None:
            return
        told = [b'{"txHash":"%b","status":"pending"}' % encode.to_hex(tx_hash) for tx_hash in hashes]
        text = frame_of(message(txs, "txs", Cursor.at(self._seen.tip), b"[" + b",".join(told) + b"]"))
        await self._tell(self._listeners.of(txs), lambda feed: text if feed is txs else None)

    async def _tell(self, groups: Sequence[Group[PushClient]], frame: Callable[[Feed], bytes | None]) -> None:
        """Write to all clients of these groups the frames of their feeds, some clients at a time."""
        slice_ = _Slice()
        for group in groups:
            clients = tuple(group.clients)
            for texts in _joined(group.feeds, frame):
                for start in range(0, len(clients), RECIPIENTS_PER_TURN):
                    write_to_each(clients[start : start + RECIPIENTS_PER_TURN], texts, self.traffic)
                    await slice_.pause()
            for feed in group.feeds:
                if frame(feed) is not None:
                    self.sent[feed.topic] += len(clients)
            await slice_.pause()

    async def _beat(self) -> None:
        params = b'{"cursor":"%b"}' % bytes(Cursor.at(self._seen.tip))
        position = frame_of(b'{"jsonrpc":"2.0","method":"position","params":%b}' % params)
        slice_ = _Slice()
        for client in tuple(self._clients):
            client.beat(position)
            await slice_.pause()


def _named_frames(
    chain: ChainView, feed: Feed, number: int, part: int, artifacts: ArtifactStore
) -> list[tuple[Cursor, bytes]]:
    with interpreter.BUSY:
        told = messages_of_block(chain, feed, number, part, Naming(artifacts, chain))
        return [(cursor, frame_of(text)) for cursor, text in told]


class _Slice:
    """A slice of the loop's time."""

    __slots__ = ("_end_ns",)

    def __init__(self) -> None:
        self._end_ns = time.monotonic_ns() + SLICE_NS

    async def pause(self) -> None:
        """Let others have their turn if the slice is over."""
        if time.monotonic_ns() > self._end_ns:
            await asyncio.sleep(0)
            self._end_ns = time.monotonic_ns() + SLICE_NS


def _joined(feeds: Sequence[Feed], frame: Callable[[Feed], bytes | None]) -> Iterator[bytes]:
    """The frames of some feeds in texts that are not too long."""
    some: list[bytes] = []
    size = 0
    for feed in feeds:
        text = frame(feed)
        if text is not None:
            some.append(text)
            size += len(text)
            if size >= BEHIND_BYTES_MAX:
                yield b"".join(some)
                some, size = [], 0
    if some:
        yield some[0] if len(some) == 1 else b"".join(some)


def _cost_of(feed: Feed) -> int:
    return SUBSCRIPTION_BYTES + VALUE_BYTES * len(feed.values)


# ---- calls -------------------------------------------------------------------------------------

_METHODS: Final = ("subscribe", "resume", "unsubscribe")


class _Call(NamedTuple):
    method: str
    params: Any
    id: Any
    is_call: bool


def _read_call(text: str) -> _Call:
    """RpcError for what is no call."""
    try:
        record = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ParseError(f"Parse error: {error}") from None
    if not isinstance(record, dict):
        raise InvalidRequest("Invalid request: a message is one call, an object; to subscribe to several feeds: resume")
    method, call_id = record.get("method"), record.get("id")
    if not isinstance(method, str):
        raise InvalidRequest("Invalid request: method must be a string")
    if isinstance(call_id, dict | list | bool) or len(orjson.dumps(call_id)) > ID_BYTES_MAX:
        raise InvalidRequest(f"Invalid request: id must be a string or a number, at most {ID_BYTES_MAX} bytes long")
    return _Call(method, record.get("params"), call_id, "id" in record)


def _params_of(params: Any) -> dict[str, Any]:
    """``{"topic": ...}``, or the same as ``[topic]`` or ``[topic, {...}]``.  InvalidParams."""
    if isinstance(params, list) and params and isinstance(params[0], str) and len(params) <= 2:
        rest = params[1] if len(params) == 2 else {}
        if isinstance(rest, dict):
            return {**rest, "topic": params[0]}
    if isinstance(params, list) and len(params) == 1:
        [params] = params
    if not isinstance(params, dict):
        raise InvalidParams(f"Invalid params: must be an object with a topic, one of {', '.join(TOPICS)}")
    return params


def _member_of(params: dict[str, Any], name: str) -> Any:
    """The only member that there may be.  InvalidParams."""
    for other in params:
        if other != name:
            raise InvalidParams(f"Invalid params: there is no {describe(other)}, only {name}")
    return params.get(name)


def _only_of(params: Any) -> Any:
    return params[0] if isinstance(params, list) and len(params) == 1 else None


def _cursors_of(wanted: Any, chain: ChainView) -> list[Cursor] | None:
    """``from``: a block number, a cursor, or several, the newest first.  None: from now on.  InvalidParams."""
    if wanted is None:
        return None
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        if not 0 <= wanted <= chain.tip_number + 1:
            raise InvalidParams(f"Invalid params: from: must be a block from 0 to {chain.tip_number + 1}, got {wanted}")
        return [Cursor.at(block_id(chain, max(0, wanted - 1)))]
    texts = wanted if isinstance(wanted, list) else [wanted]
    cursors = [Cursor.read(text) if isinstance(text, str) else None for text in texts[:CURSORS_MAX]]
    read = [cursor for cursor in cursors if cursor is not None]
    if len(read) != len(texts) or not read:
        raise InvalidParams(f"Invalid params: from: must be a block number, a cursor, or 1 to {CURSORS_MAX} cursors")
    return read
