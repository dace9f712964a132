"""A NATS server with JetStream in memory: as much of its protocol as the shipped client speaks to it.

    Bus (src/fastnode/bus) ── nats-py ── PeerWire ── Session, one a connection ──┬── subscriptions, requests
                                                                                  └── JetStream: streams, on a disk

The seam is the protocol on the wire, so the client library is the one that ships.  Streams keep the newest message of
a subject, as those of a fleet do; what a power cut takes is the end of what has not been synced, for messages lie in
files in the order of their sequence, and what they had replaced may be there again.  test_bus_server.py holds each
answer against that of a real server.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from tests.simulation.peer_wire import Listener, PeerWire
from tests.simulation.scheduler import the_world

__all__ = ["BUS_PORT", "BusFaults", "BusServer", "JetStream", "Stream"]

Json = dict[str, Any]
BUS_PORT: Final = 4222
_PAYLOAD_MAX: Final = 1 << 20
_DIRECT: Final = "$JS.API.DIRECT.GET."
_API: Final = "$JS.API."
_EXPECTED: Final = "nats-expected-last-subject-sequence"
_MESSAGE_ID: Final = "nats-msg-id"
#: Seconds after which a server syncs what it has written, unless it is told otherwise.
SYNC_S: Final = 120.0
#: Bytes that a message takes beside its subject and content.
_OVERHEAD: Final = 30
_OVERHEAD_OF_HEADERS: Final = 4
#: Of requests, what an answer has that says what is wrong.
_BESIDE_ERRORS: Final[Mapping[str, Json]] = {"INFO": {"total": 0, "offset": 0}, "PURGE": {"purged": 0}}


@dataclass
class BusFaults:
    """Chances of each message."""

    #: What was stored is not pushed to a listener, as by a route between servers that breaks.
    unpushed: float = 0.0
    #: It is stored, and the acknowledgement is lost.
    unacknowledged: float = 0.0
    #: A direct request is answered by a server that has not heard of the newest messages, which has so many less.
    behind: float = 0.0


@dataclass(frozen=True)
class Stored:
    subject: str
    sequence: int
    time: float
    headers: bytes
    data: bytes

    @property
    def size(self) -> int:
        headers = _OVERHEAD_OF_HEADERS + len(self.headers) if self.headers else 0
        return len(self.subject) + headers + len(self.data) + _OVERHEAD


def matches(pattern: str, subject: str) -> bool:
    """NATS's wildcards: ``*`` for a word, ``>`` for all that follow."""
    words, given = pattern.split("."), subject.split(".")
    for place, word in enumerate(words):
        if word == ">":
            return len(given) > place
        if place >= len(given) or word not in ("*", given[place]):
            return False
    return len(words) == len(given)


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class ApiError(Exception):
    def __init__(self, code: int, number: int, description: str) -> None:
        super().__init__(description)
        self.record = {"code": code, "err_code": number, "description": description}


class Stream:
    """One, with a message for each subject."""

    def __init__(self, config: Json, now: float) -> None:
        self.config = config
        self.created = _when(now)
        self.messages: dict[int, Stored] = {}
        self._by_subject: dict[str, int] = {}
        self.first = self.last = 0
        self._synced, self._synced_at = 0, now
        #: What was removed since the last sync, and the message that it made room for; 0: it was told to.
        self._removed: list[tuple[int, Stored]] = []
        self._ids: dict[str, tuple[int, float]] = {}

    @property
    def name(self) -> str:
        return str(self.config["name"])

    def takes(self, subject: str) -> bool:
        return any(matches(pattern, subject) for pattern in self.config["subjects"])

    def tidy(self, now: float) -> None:
        """Let go what is too old, and sync what is due."""
        age = self.config.get("max_age", 0) / 1e9
        if age:
            for old in [each.sequence for each in self.messages.values() if now - each.time >= age]:
                self._remove(old, 0)
        if now - self._synced_at >= SYNC_S:
            self.sync(now)

    def sync(self, now: float) -> None:
        self._synced, self._synced_at = self.last, now
        self._removed.clear()

    def newest(self, subject: str) -> Stored | None:
        sequence = self._by_subject.get(subject)
        return None if sequence is None else self.messages[sequence]

    def store(self, subject: str, headers: Mapping[str, str], raw: bytes, data: bytes, now: float) -> tuple[int, bool]:
        """Place, and true if it was there already.  ApiError when another message was expected before it."""
        expected, message_id = headers.get(_EXPECTED), headers.get(_MESSAGE_ID)
        before = self._by_subject.get(subject, 0)
        if expected is not None and int(expected) != before:
            raise ApiError(400, 10071, f"wrong last sequence: {before}")
        window = self.config.get("duplicate_window", 0) / 1e9
        known = None if message_id is None else self._ids.get(message_id)
        if known is not None and now - known[1] < window:
            return known[0], True
        self.last += 1
        self.messages[self.last] = stored = Stored(subject, self.last, now, raw, data)
        if message_id is not None:
            self._ids[message_id] = self.last, now
        if before:
            self._remove(before, self.last)
        self._by_subject[subject] = self.last
        if not self.first:
            self.first = self.last
        most = self.config.get("max_bytes", -1)
        while most > 0 and sum(each.size for each in self.messages.values()) > most:
            self._remove(next(iter(self.messages)), self.last)
        return stored.sequence, False

    def _remove(self, sequence: int, because: int) -> None:
        gone = self.messages.pop(sequence)
        self._removed.append((because, gone))
        if self._by_subject.get(gone.subject) == sequence:
            del self._by_subject[gone.subject]
        self.first = next(iter(self.messages), self.last + 1)

    def purge(self, *, pattern: str | None = None, before: int | None = None) -> int:
        gone = [
            each.sequence
            for each in self.messages.values()
            if (pattern is None or matches(pattern, each.subject)) and (before is None or each.sequence < before)
        ]
        for sequence in gone:
            self._remove(sequence, 0)
        if pattern is None and before is not None and before > self.last:
            self.last = before - 1
            self.first = before
        return len(gone)

    def cut(self, chance: random.Random) -> int:
        """Lose power: a part of what was not synced is gone.  How many messages that are."""
        kept = chance.randint(self._synced, self.last)
        lost = self.last - kept
        again = [gone for because, gone in self._removed if because > kept and gone.sequence <= kept]
        there = [each for each in self.messages.values() if each.sequence <= kept]
        self.messages, self._by_subject, self._ids = {}, {}, {}
        for each in sorted([*there, *again], key=lambda each: each.sequence):
            older = self._by_subject.get(each.subject)
            if older is not None:
                del self.messages[older]
            self.messages[each.sequence], self._by_subject[each.subject] = each, each.sequence
        self.last = kept
        self.first = next(iter(self.messages), kept + 1 if kept else 0)
        self._synced = kept
        self._removed.clear()
        return lost

    # ---- as it was ---------------------------------------------------------------------------------

    def before(self, sequence: int) -> list[Stored]:
        """The messages when this one was the newest, as far as that is still known."""
        found = {each.subject: each for because, each in self._removed if because > sequence >= each.sequence}
        found |= {each.subject: each for each in self.messages.values() if each.sequence <= sequence}
        return sorted(found.values(), key=lambda each: each.sequence)


class JetStream:
    """Streams of the servers of one cluster; ``now`` in seconds since 1970."""

    def __init__(self, chance: random.Random, now: Callable[[], float]) -> None:
        self._chance, self._now = chance, now
        self.streams: dict[str, Stream] = {}
        self.faults = BusFaults()
        #: No leader: what is asked or published meanwhile has no answer, and is not stored.
        self.has_no_leader = False

    def find(self, subject: str) -> Stream | None:
        return next((stream for stream in self.streams.values() if stream.takes(subject)), None)

    def tidy(self) -> None:
        for stream in self.streams.values():
            stream.tidy(self._now())

    def publish(self, subject: str, headers: Mapping[str, str], raw: bytes, data: bytes) -> tuple[Json, Stored | None]:
        """Acknowledgement, and what was stored."""
        stream = self.find(subject)
        assert stream is not None
        try:
            sequence, is_known = stream.store(subject, headers, raw, data, self._now())
        except ApiError as error:
            return {"error": error.record, "stream": stream.name, "seq": 0}, None
        if is_known:
            return {"stream": stream.name, "seq": sequence, "duplicate": True}, None
        return {"stream": stream.name, "seq": sequence}, stream.messages.get(sequence)

    # ---- direct requests ---------------------------------------------------------------------------

    def direct(self, rest: str, data: bytes) -> list[tuple[bytes, bytes]] | None:
        """Headers and contents of the answers; None: nobody has the stream."""
        name, _, subject = rest.partition(".")
        stream = self.streams.get(name)
        if stream is None:
            return None
        there = list(stream.messages.values())
        if self.faults.behind and self._chance.random() < self.faults.behind:
            there = stream.before(max(0, stream.last - self._chance.randrange(1, 20)))
        if subject:
            found = [each for each in there if each.subject == subject]
            return [_told(stream, found[-1])] if found else [(b"NATS/1.0 404 Message Not Found\r\n\r\n", b"")]
        request = json.loads(data)
        if "multi_last" in request:
            chosen = [each for each in there if any(matches(word, each.subject) for word in request["multi_last"])]
            missing = b"NATS/1.0 404 No Results\r\n\r\n"
            return list(_batch(stream, chosen, len(chosen), 0)) if chosen else [(missing, b"")]
        pattern, first = request.get("next_by_subj", ">"), request.get("seq", 1)
        chosen = [each for each in there if each.sequence >= first and matches(pattern, each.subject)]
        if not chosen:
            return [(b"NATS/1.0 404 Message Not Found\r\n\r\n", b"")]
        return list(_batch(stream, chosen, request.get("batch", 1), request.get("max_bytes", 0)))

    # ---- the interface of streams ------------------------------------------------------------------

    def ask(self, name: str, data: bytes) -> Json:
        request: Json = json.loads(data) if data.strip() else {}
        verb, _, stream_name = name.removeprefix("STREAM.").partition(".")
        try:
            return self._asked(verb, stream_name, request)
        except ApiError as error:
            return {"error": error.record} | _BESIDE_ERRORS.get(verb, {})

    def _asked(self, verb: str, name: str, request: Json) -> Json:
        if verb == "NAMES":
            names = sorted(self.streams)
            page = names[request.get("offset", 0) :]
            return {"total": len(names), "offset": request.get("offset", 0), "limit": 1024, "streams": page or None}
        if verb == "CREATE":
            return self._create(name, request)
        stream = self.streams.get(name)
        if stream is None:
            raise ApiError(404, 10059, "stream not found")
        if verb == "INFO":
            return _info(stream, request)
        if verb == "PURGE":
            return {"success": True, "purged": stream.purge(pattern=request.get("filter"), before=request.get("seq"))}
        if verb == "DELETE":
            del self.streams[name]
            return {"success": True}
        raise AssertionError(f"nobody asks a server for {verb}")

    def _create(self, name: str, config: Json) -> Json:
        there = self.streams.get(name)
        if there is not None:
            if there.config != config:
                raise ApiError(400, 10058, "stream name already in use with a different configuration")
            return _made(there)
        if any(stream.takes(subject) for stream in self.streams.values() for subject in config["subjects"]):
            raise ApiError(400, 10065, "subjects overlap with an existing stream")
        self.streams[name] = stream = Stream(config, self._now())
        return _made(stream)


def _made(stream: Stream) -> Json:
    answer = _info(stream, {})
    return {name: answer[name] for name in ("config", "created", "state")}


def _info(stream: Stream, request: Json) -> Json:
    state: Json = {
        "messages": len(stream.messages),
        "bytes": sum(each.size for each in stream.messages.values()),
        "first_seq": stream.first,
        "last_seq": stream.last,
        "num_subjects": len(stream.messages),
    }
    answer: Json = {"total": 0, "offset": 0, "config": stream.config, "created": stream.created, "state": state}
    if "subjects_filter" in request:
        pattern = request["subjects_filter"]
        found = sorted(each.subject for each in stream.messages.values() if matches(pattern, each.subject))
        page = found[request.get("offset", 0) :]
        if page:
            state["subjects"] = dict.fromkeys(page, 1)
        answer |= {"total": len(found), "offset": request.get("offset", 0)}
    return answer


def _told(stream: Stream, message: Stored, *more: tuple[str, object]) -> tuple[bytes, bytes]:
    return _headed(
        message.headers,
        ("Nats-Stream", stream.name),
        ("Nats-Subject", message.subject),
        ("Nats-Sequence", message.sequence),
        ("Nats-Time-Stamp", _when(message.time)),
        *more,
    ), message.data


def _headed(own: bytes, *more: tuple[str, object]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in more)
    return (own[:-2] if own else b"NATS/1.0\r\n") + lines.encode() + b"\r\n"


def _batch(stream: Stream, chosen: list[Stored], count: int, bytes_max: int) -> Iterator[tuple[bytes, bytes]]:
    """Up to ``count``, the last of which goes beyond ``bytes_max`` unless that is 0."""
    size, last, given = 0, 0, 0
    for each in chosen[:count]:
        left = len(chosen) - given - 1
        yield _told(stream, each, ("Nats-Num-Pending", left), ("Nats-Last-Sequence", last))
        last, given, size = each.sequence, given + 1, size + each.size
        if bytes_max and size >= bytes_max:
            break
    end = f"NATS/1.0 204 EOB\r\nNats-Num-Pending: {len(chosen) - given}\r\nNats-Last-Sequence: {last}\r\n\r\n"
    yield end.encode(), b""


# ---- a server ----------------------------------------------------------------------------------------


class _Desk:
    """In the place of a loop: a server does its work in the thread that carries what is on the wire."""

    def __init__(self, wire: PeerWire) -> None:
        self._wire = wire

    def is_closed(self) -> bool:
        return False

    def call_soon(self, action: Callable[..., object], *arguments: Any) -> None:
        self._wire.at(the_world().now, partial(action, *arguments))

    call_soon_threadsafe = call_soon


class BusServer:
    """One of the servers that have the streams between them."""

    def __init__(self, name: str, wire: PeerWire, store: JetStream, chance: random.Random) -> None:
        self.name, self.wire, self.store, self.chance = name, wire, store, chance
        self.sessions: dict[Session, None] = {}
        #: All servers of the cluster, this one too.
        self.cluster: list[BusServer] = [self]
        self.is_up = False

    def start(self) -> None:
        self.is_up = True
        address = self.name, BUS_PORT
        desk: Any = _Desk(self.wire)
        self.wire.listening[address] = Listener(self.name, address, desk, lambda: Session(self), self.wire)

    def kill(self) -> None:
        """Its connections end, or are as silent as a machine without power."""
        self.is_up = False
        self.wire.forget(self.name)
        self.sessions.clear()

    def deliver(self, subject: str, headers: bytes, data: bytes, *, is_push: bool = False) -> bool:
        """To all who listen, on all servers; true if anybody does."""
        is_heard = False
        for server in self.cluster:
            for session in list(server.sessions):
                for number in session.listening_to(subject):
                    is_heard = True
                    if not (is_push and self.wire.is_hit(self.store.faults.unpushed, "bus unpushed")):
                        session.give(subject, number, None, headers, data)
        return is_heard

    def publish(self, sender: Session, subject: str, reply: str, raw: bytes, data: bytes) -> None:
        store = self.store
        store.tidy()
        if subject.startswith(_API):
            self._asked(sender, subject, reply, data)
        elif store.find(subject) is not None:
            self._store(subject, reply, raw, data)
        elif not self.deliver(subject, raw, data) and reply:
            sender.answer(reply, b"NATS/1.0 503\r\n\r\n", b"")

    def _asked(self, sender: Session, subject: str, reply: str, data: bytes) -> None:
        if self.store.has_no_leader and not subject.startswith(_DIRECT):
            return
        if subject.startswith(_DIRECT):
            answers = self.store.direct(subject[len(_DIRECT) :], data)
            for headers, content in [(b"NATS/1.0 503\r\n\r\n", b"")] if answers is None else answers:
                sender.answer(reply, headers, content)
        else:
            sender.answer(reply, b"", json.dumps(self.store.ask(subject[len(_API) :], data)).encode())

    def _store(self, subject: str, reply: str, raw: bytes, data: bytes) -> None:
        store = self.store
        if store.has_no_leader:
            return
        before = store.find(subject).newest(subject)  # type: ignore[union-attr]
        acknowledgement, stored = store.publish(subject, _headers_of(raw), raw, data)
        if stored is not None:
            self._push(stored, 0 if before is None else before.sequence)
        if reply and not self.wire.is_hit(store.faults.unacknowledged, "bus unacknowledged"):
            self.deliver(reply, b"", json.dumps(acknowledgement).encode())

    def _push(self, stored: Stored, before: int) -> None:
        stream = self.store.find(stored.subject)
        assert stream is not None
        republished = stream.config.get("republish")
        if republished is None:
            return
        target = republished["dest"].removesuffix(">") + stored.subject.removeprefix(republished["src"][:-1])
        headers, data = _told(stream, stored, ("Nats-Last-Sequence", before))
        if republished.get("headers_only"):
            headers, data = _headed(headers, ("Nats-Msg-Size", len(data))), b""
        self.deliver(target, headers, data, is_push=True)


def _headers_of(raw: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in raw.decode("latin-1").split("\r\n")[1:] if line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


@dataclass(eq=False)
class Session(asyncio.Protocol):
    """A client's connection, as the server has it."""

    server: BusServer
    _end: Any = None
    _received: bytearray = field(default_factory=bytearray)
    #: Patterns by the client's numbers, and how many messages it wants yet; None: no end.
    _patterns: dict[str, str] = field(default_factory=dict)
    _left: dict[str, int] = field(default_factory=dict)

    # ---- asyncio.Protocol --------------------------------------------------------------------------

    def connection_made(self, end: Any) -> None:
        self._end = end
        self.server.sessions[self] = None
        facts = {
            "server_id": self.server.name,
            "server_name": self.server.name,
            "version": "2.11.0",
            "proto": 1,
            "headers": True,
            "max_payload": _PAYLOAD_MAX,
            "jetstream": True,
        }
        self._write(b"INFO " + json.dumps(facts).encode() + b"\r\n")

    def connection_lost(self, _: Exception | None) -> None:
        self.server.sessions.pop(self, None)

    def pause_writing(self) -> None:
        """A client that reads too slowly would be cut off; here it has room."""

    resume_writing = pause_writing

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (found := self._received.find(b"\r\n")) >= 0:
            words = bytes(self._received[:found]).decode().split()
            verb = words[0].upper()
            size = int(words[-1]) + 2 if verb in ("PUB", "HPUB") else 0
            if len(self._received) < found + 2 + size:
                return
            content = bytes(self._received[found + 2 : found + size]) if size else b""
            del self._received[: found + 2 + size]
            self._obey(verb, words, content)

    def _obey(self, verb: str, words: list[str], content: bytes) -> None:
        if verb == "PING":
            self._write(b"PONG\r\n")
        elif verb == "SUB":
            self._patterns[words[-1]] = words[1]
        elif verb == "UNSUB":
            if len(words) > 2:
                self._left[words[1]] = int(words[2])
            else:
                self._forget(words[1])
        elif verb == "PUB":
            self.server.publish(self, words[1], words[2] if len(words) > 3 else "", b"", content)
        elif verb == "HPUB":
            size = int(words[-2])
            reply = words[2] if len(words) > 4 else ""
            self.server.publish(self, words[1], reply, content[:size], content[size:])

    # ---- what it hears -----------------------------------------------------------------------------

    def listening_to(self, subject: str) -> list[str]:
        return [number for number, pattern in self._patterns.items() if matches(pattern, subject)]

    def answer(self, subject: str, headers: bytes, data: bytes) -> None:
        for number in self.listening_to(subject):
            self.give(subject, number, None, headers, data)

    def give(self, subject: str, number: str, reply: str | None, headers: bytes, data: bytes) -> None:
        ways = f"{subject} {number} {reply} " if reply else f"{subject} {number} "
        sizes = f"{len(headers)} {len(headers) + len(data)}" if headers else len(data)
        head = f"{'HMSG' if headers else 'MSG'} {ways}{sizes}\r\n"
        self._write(head.encode() + headers + data + b"\r\n")
        if number in self._left:
            self._left[number] -= 1
            if self._left[number] <= 0:
                self._forget(number)

    def _forget(self, number: str) -> None:
        self._patterns.pop(number, None)
        self._left.pop(number, None)

    def _write(self, data: bytes) -> None:
        assert self._end is not None
        self._end.write(data)
