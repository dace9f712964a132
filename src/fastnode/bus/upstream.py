"""The bus as a node that is followed: it answers what a follower asks, from what publishers have stored there.

    node_getL2Tips                  what the followed publisher says
    node_getBlockHeader             its reference of that number, the content behind it
    node_getCheckpoints, getBlocks  the same, many at a time
    fastnode_getGenesis             the genesis that it names

What is new is pushed by the server and lies here when it is asked for; what is not here (a gap, a start, a long way to
go) is fetched by its subject.  So there is nothing to keep in order: a message that is lost, comes twice or comes late
costs one request, at most.  Whatever is given is checked by the ingestor, as from any other node; a publisher whose
blocks are refused is named and left alone, and another one is followed.
"""

from __future__ import annotations

import enum
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from fastnode.archiver.queries import ChainInfo
from fastnode.bus.connection import Bus
from fastnode.bus.heard import ContentCache, Lags
from fastnode.bus.publishers import At, KnownPublisher, Publishers
from fastnode.bus.subjects import PREFIX, Reference, Subjects, digest_of, read_versioned
from fastnode.errors import UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.log import log_facts
from fastnode.outgoing.client import METHOD_NOT_FOUND, ClientLimits, Reply, RpcCall, decoded
from fastnode.outgoing.health import EndpointState, Patience
from fastnode.outgoing.network import Network
from fastnode.sources.upstreams import Upstream, check_identity
from fastnode.view import Committed

__all__ = ["BusUpstream"]

logger = logging.getLogger("fastnode.bus")

#: Contents that lie ready, in bytes; most are asked for once, soon after they came.
CACHE_BYTES_MAX: Final = 32 << 20
PARTS_MAX: Final = 1 << 12
#: References that are kept of each publisher.
REFERENCES_MAX: Final = 20_000
HEADERS_MAX: Final = 256
#: Messages of checkpoints whose first block was given.
MESSAGES_MAX: Final = 64
#: A publisher that has not been heard for so long is looked up, this often.
QUIET_S: Final = 3.0
LOOK_S: Final = 1.0
_BLOCK: Final = "block"
#: Digits of a place in a stream.
_DIGITS_MAX: Final = 20


class Hearing(enum.Enum):
    """State of what is known of publishers."""

    DEAF = "nobody listens to the stream yet"
    STALE = "what publishers say has to be looked up"
    FRESH = "what is pushed is all there is"


class BusUpstream(Upstream):
    """``on_news`` is called, in the loop of the bus, when the followed publisher has something new.

        DEAF ── the stream is found, and listened to ──► STALE ── looked up ──► FRESH
                                                           ▲                      │
                                                           └── connected again, ──┘
                                                               a gap, silence, nonsense

    ``stream`` names the rollup's stream where the settings do; else it is that of the stored chain, or the only one.
    """

    kind: ClassVar[str] = "bus"

    def __init__(
        self,
        bus: Bus,
        network: Network,
        *,
        expected: Callable[[], ChainInfo | None] = lambda: None,
        stream: str | None = None,
        limits: ClientLimits | None = None,
        patience: Patience | None = None,
    ) -> None:
        super().__init__(bus.options.urls[0], network, "bus", expected=expected, limits=limits, patience=patience)
        self._bus = bus
        self._expected_chain = expected
        self._limits = limits or ClientLimits()
        self._stream = stream
        self._subjects: Subjects | None = None
        self.publishers = Publishers(patience or Patience())
        self._hearing = Hearing.DEAF
        self._sequence = 0
        self._next_look_at = 0.0
        self._opened_at = time.time()
        self._contents = ContentCache(CACHE_BYTES_MAX)
        self._messages: OrderedDict[int, Any] = OrderedDict()
        self._headers: OrderedDict[tuple[str, int | None], Any] = OrderedDict()
        self.on_news: Callable[[], None] = lambda: None
        #: Messages that were missed, and contents that had to be fetched.
        self.gap_count = 0
        self.fetched_count = 0
        self._lags = Lags()
        bus.on_connected(self._on_connected)

    def invariant(self) -> None:
        """AssertionError unless a stream is known where one is listened to, and what is kept is bounded.

        One more is there while it takes the place of the oldest.
        """
        assert self._subjects is not None or self._hearing is Hearing.DEAF
        assert len(self._headers) <= HEADERS_MAX + 1
        assert len(self._messages) <= MESSAGES_MAX + 1
        assert self._sequence >= 0
        followed = self.publishers.followed
        assert followed is None or len(followed.references) <= REFERENCES_MAX

    def _look_up_again(self) -> None:
        if self._hearing is not Hearing.DEAF:
            self._hearing = Hearing.STALE

    @property
    def subjects(self) -> Subjects | None:
        """None before the bus has answered."""
        return self._subjects

    # ---- what comes ------------------------------------------------------------------------------

    def _on_connected(self) -> None:
        self._look_up_again()
        if self.health.state is EndpointState.UNAVAILABLE:
            self.health.end_pause()  # there is no more to wait for
        self.on_news()

    def _on_live(self, subject: str, headers: Mapping[str, str], data: bytes) -> None:
        assert self._subjects is not None
        sequence = _sequence_of(headers)
        if self._sequence and sequence != self._sequence + 1:
            self.gap_count += 1
            self._look_up_again()
        self._sequence = sequence
        ending = subject[len(self._subjects.live_blocks) + 1 :]
        stored = f"{self._subjects.stream}.{ending}"
        kind, _, rest = ending.partition(".")
        if kind == "content":
            self._contents.keep(stored, data)
        elif kind == "chain":
            publisher = self.publishers.heard(rest.partition(".")[0])
            if publisher is not None and publisher.is_pushed_trusted:
                self._hear_reference(publisher, stored, data)
        elif kind == "at":
            publisher = self.publishers.heard(rest)
            if publisher is not None:
                self._hear_pushed_at(publisher, data, sequence)
                self.on_news()

    def _hear_reference(self, publisher: KnownPublisher, subject: str, data: bytes) -> None:
        references = publisher.references
        if len(references) >= REFERENCES_MAX:
            references.clear()
        references[subject] = Reference.of(read_versioned(data, "a reference"))

    def _hear_pushed_at(self, publisher: KnownPublisher, data: bytes, sequence: int) -> None:
        if publisher.is_pushed_trusted:
            self._hear_at(publisher, data, sequence)
            if publisher.fault is None:
                return
            self._distrust_pushed(publisher, publisher.fault)
            publisher.fault = None
        self._look_up_again()

    def _distrust_pushed(self, publisher: KnownPublisher, reason: str) -> None:
        """Read its words from the stream: who may publish there in its name is for the server to know, while anybody
        who reaches the bus may be able to push."""
        extra = log_facts(publisher=publisher.name, reason=reason)
        logger.warning("words that were pushed for a publisher are wrong, stored ones count", extra=extra)
        publisher.distrust_pushed()
        self._contents.clear()
        self._headers.clear()
        self._messages.clear()
        self._look_up_again()

    def _hear_at(self, publisher: KnownPublisher, data: bytes, sequence: int) -> None:
        if sequence == publisher.sequence:
            return  # it has said nothing new
        publisher.sequence, publisher.heard_at = sequence, time.monotonic()
        try:
            publisher.at = At.of(read_versioned(data, "what it says"))
            publisher.fault = None
        except UpstreamFault as error:
            publisher.fault = str(error)
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            publisher.fault = str(self.on_nonsense(error))

    # ---- as an endpoint --------------------------------------------------------------------------

    def identify(self) -> None:
        """UpstreamUnavailable while no publisher is heard; UpstreamFault when they are of another network."""
        self._require_bus()
        if self._subjects is None:
            self._subjects = self._find_stream()
        self.is_fastnode = True
        at = self._current().at
        assert at is not None
        chain = at.raw.get("chain")
        info = chain.get("nodeInfo") if isinstance(chain, dict) else None
        if not isinstance(info, dict):
            raise UpstreamFault("it does not say which network it is on")
        self.node_info = info
        self._read_headers(at)
        check_identity(info, self._expected_chain())

    def _read_headers(self, at: At) -> None:
        """A publisher may learn of its network later, and one that says something wrong may be put right."""
        headers = at.raw.get("headers")
        self.version_headers = headers if isinstance(headers, dict) else {}

    def _find_stream(self) -> Subjects:
        expected = self._expected_chain()
        if expected is not None:
            return Subjects.of(expected.node_info)
        if self._stream is not None:
            return Subjects(self._stream)
        names = [name for name in self._bus.names(PREFIX) if not name.endswith("-txs")]
        if not names:
            raise UpstreamUnavailable("no publisher has set up a stream on the bus yet")
        if len(names) > 1:
            raise UpstreamFault(
                f"the bus has the streams {', '.join(names)}: say which with --l1-chain-id and --rollup-version"
            )
        return Subjects(names[0])

    def put_aside(self, reason: str) -> None:
        """The publisher that is followed goes; another one stands in, if there is one."""
        publisher = self.publishers.followed
        if publisher is None:
            super().put_aside(reason)
            return
        if publisher.is_pushed_trusted:  # it may not be its own fault
            self._distrust_pushed(publisher, reason)
            return
        seconds = publisher.health.put_aside(reason)
        extra = log_facts(publisher=publisher.name, reason=reason, seconds=round(seconds, 1))
        logger.error("publisher ignored", extra=extra)
        self.publishers.followed = None
        try:
            self.publishers.choose()
        except UpstreamUnavailable as error:
            self.on_error(error)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"reason": self.health.reason or self._bus.trouble, **self.describe_bus()}

    def describe_bus(self) -> dict[str, Any]:
        counts = self._bus.counts
        return {
            "publishers": self.publishers.describe(),
            "received": counts["received"],
            "gaps": self.gap_count,
            "fetched": self.fetched_count,
            "reconnections": counts["reconnections"],
        } | self._lags.describe()

    def _log_facts(self) -> dict[str, Any]:
        followed = self.publishers.followed
        return {"upstream": self.name} | ({} if followed is None else {"publisher": followed.name})

    def snapshot_locations(self) -> tuple[str, ...]:
        """Locations of snapshots, as the followed publisher says."""
        followed = self.publishers.followed
        told = None if followed is None or followed.at is None else followed.at.raw.get("snapshots")
        location = told.get("location") if isinstance(told, dict) else None
        return (location,) if isinstance(location, str) else ()

    def on_committed(self, committed: Committed) -> None:
        """Called by ingestion once a view is published: how long its newest block was on its way."""
        followed = self.publishers.followed
        at = None if followed is None else followed.at
        if at is not None and committed.blocks and at.committed_at > self._opened_at:
            tip = committed.view.chain.tips.proposed
            if tip == at.tips.proposed:
                self._lags.note(max(0.0, time.time() - at.committed_at))

    # ---- questions -------------------------------------------------------------------------------

    def ask(self, calls: Sequence[RpcCall]) -> Reply:
        try:
            self._require_bus()
            publisher = self._current()
            assert publisher.at is not None
            self._read_headers(publisher.at)
            question = _Question(self, publisher)
            answers = self._answers(question, calls)
        except UpstreamUnavailable as error:
            self.on_error(error)
            raise
        return Reply(answers, question.byte_count, self.version_headers)

    def _answers(self, question: _Question, calls: Sequence[RpcCall]) -> list[Any]:
        try:
            return [question.answer(method, parameters) for method, parameters in calls]
        except Exception:
            # Pushed messages may be damaged, or lost: stored ones are asked for next time.
            question.forget()
            self._look_up_again()
            raise

    def _require_bus(self) -> None:
        if self._bus.trouble is not None:
            raise UpstreamUnavailable(self._bus.trouble)

    def _current(self) -> KnownPublisher:
        subjects = self._subjects
        assert subjects is not None
        if self._hearing is Hearing.DEAF:
            self._bus.listen(f"{subjects.live_blocks}.>", self._on_live)
            self._hearing = Hearing.STALE
        followed, now = self.publishers.followed, time.monotonic()
        if followed is not None and now - followed.heard_at > QUIET_S and now >= self._next_look_at:
            self._look_up_again()  # what is pushed may be lost on its way
        if self._hearing is Hearing.STALE:
            self._hearing = Hearing.FRESH
            self._next_look_at = now + LOOK_S
            try:
                found = self._bus.matching(subjects.stream, subjects.all_at)
            except UpstreamUnavailable:
                self._look_up_again()
                raise
            self.publishers.forget_references()
            for message in found:
                publisher = self.publishers.heard(message.subject.rpartition(".")[2])
                if publisher is not None:
                    self._hear_at(publisher, message.data, message.sequence)
        return self.publishers.choose()

    # ---- what questions need ---------------------------------------------------------------------

    def references(self, publisher: KnownPublisher, subjects: Sequence[str]) -> list[Reference | None]:
        """References of the publisher on these subjects; None where there is none."""
        assert self._subjects is not None
        found: list[Reference | None] = [publisher.references.get(subject) for subject in subjects]
        missing = [place for place, reference in enumerate(found) if reference is None]
        if missing:
            messages = self._bus.lasts(self._subjects.stream, [subjects[place] for place in missing])
            for place, message in zip(missing, messages, strict=True):
                if message is not None:
                    found[place] = Reference.of(read_versioned(message.data, "a reference"))
        return found

    def contents(self, references: Sequence[Reference]) -> list[bytes]:
        """Complete, and what their digests say; UpstreamUnavailable when one is not there (any more)."""
        assert self._subjects is not None
        for reference in references:
            if reference.size > self._limits.response_bytes_max or not 1 <= reference.parts <= PARTS_MAX:
                raise UpstreamFault(f"it refers to a content of {reference.size} bytes in {reference.parts} parts")
        wanted = dict.fromkeys(
            self._subjects.content(reference.digest, part)
            for reference in references
            for part in range(reference.parts)
        )
        parts = self._contents.found(wanted)
        missing = [subject for subject in wanted if subject not in parts]
        if missing:
            self.fetched_count += len(missing)
            for subject, message in zip(missing, self._bus.lasts(self._subjects.stream, missing), strict=True):
                if message is None:
                    raise UpstreamUnavailable("a content that a publisher refers to is not on the bus")
                parts[subject] = message.data
        return [self._joined(reference, parts) for reference in references]

    def _stored_parts(self, subjects: Sequence[str]) -> dict[str, bytes]:
        """Parts as the stream has them, whatever was pushed."""
        assert self._subjects is not None
        messages = self._bus.lasts(self._subjects.stream, subjects)
        return {
            subject: b"" if message is None else message.data
            for subject, message in zip(subjects, messages, strict=True)
        }

    def _joined(self, reference: Reference, parts: Mapping[str, bytes]) -> bytes:
        assert self._subjects is not None
        own = [self._subjects.content(reference.digest, part) for part in range(reference.parts)]
        content = b"".join([parts[subject] for subject in own])
        if not _is_content_of(reference, content):
            self._contents.forget(own)
            stored = self._stored_parts(own)
            content = b"".join([stored[subject] for subject in own])
        if not _is_content_of(reference, content):
            raise UpstreamFault("a content on the bus is not what its digest says")
        return content

    def decode(self, content: bytes) -> dict[str, Any]:
        value = decoded(content, self._limits.memory_bytes_max)
        if not isinstance(value, dict):
            raise UpstreamFault("a content on the bus is no record")
        return value

    def header_of(self, reference: Reference) -> Any:
        """Header of a block that was asked for before, else None: the newest one is asked for at each look."""
        return self._headers.get((reference.digest, reference.index))

    def remember_header(self, reference: Reference, header: Any) -> None:
        self._headers[reference.digest, reference.index] = header
        while len(self._headers) > HEADERS_MAX:
            self._headers.popitem(last=False)

    def remember_messages(self, checkpoint_number: int, texts: Any) -> None:
        self._messages[checkpoint_number] = texts
        while len(self._messages) > MESSAGES_MAX:
            self._messages.popitem(last=False)

    def remembered_messages(self, checkpoint_number: int) -> Any:
        return self._messages.get(checkpoint_number)


def _sequence_of(headers: Mapping[str, str]) -> int:
    """Place of a pushed message in its stream; UpstreamFault for one that has none."""
    text = headers.get("Nats-Sequence", "")
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS_MAX:
        raise UpstreamFault("a message that was pushed says no place in its stream")
    return int(text)


def _is_content_of(reference: Reference, content: bytes) -> bool:
    return len(content) == reference.size and digest_of(content) == reference.digest


class _Question:
    """Several calls that one publisher's words answer."""

    def __init__(self, upstream: BusUpstream, publisher: KnownPublisher) -> None:
        assert publisher.at is not None
        assert upstream.subjects is not None
        self._upstream = upstream
        self._publisher = publisher
        self._at = publisher.at
        self._subjects = upstream.subjects
        self._records: dict[str, dict[str, Any]] = {}  # by digest
        self.byte_count = 0

    def answer(self, method: str, parameters: Sequence[Any]) -> Any:
        answering = _ANSWERS.get(method)
        if answering is None:
            return UpstreamRejection(METHOD_NOT_FOUND, f"Method not found: {method}")
        return answering(self, *parameters)

    def forget(self) -> None:
        """Forget what the publisher was heard to say of its blocks."""
        self._publisher.references.clear()
        self._publisher.sequence = 0

    # ---- answers ---------------------------------------------------------------------------------

    def l2_tips(self) -> Any:
        return self._at.raw["tips"]

    def node_info(self) -> Any:
        chain = self._at.raw.get("chain")
        return chain.get("nodeInfo") if isinstance(chain, dict) else None

    def sync_status(self) -> Any:
        return {}

    def min_fees(self) -> Any:
        return self._fees().get("current")

    def predicted_min_fees(self, usage: Any = None) -> Any:
        predicted = self._fees().get("predicted")
        return predicted.get(str(usage)) if isinstance(predicted, dict) else None

    def allowed_public_setup(self) -> Any:
        allowed = self._at.raw.get("allowedPublicSetup")
        return UpstreamRejection(METHOD_NOT_FOUND, "the publisher does not say") if allowed is None else allowed

    def _fees(self) -> dict[str, Any]:
        fees = self._at.raw.get("fees")
        return fees if isinstance(fees, dict) else {}

    def genesis(self) -> Any:
        record = self._record(Reference.of(self._at.raw.get("genesis")))
        return {"chain": self._at.raw.get("chain"), "genesis": record}

    def block_header(self, number: int) -> Any:
        if number > self._at.tips.proposed.number:
            return None
        if number == 0:
            return self._record(Reference.of(self._at.raw.get("genesis"))).get("header")
        [reference] = self._upstream.references(self._publisher, [self._subjects.block(self._publisher.name, number)])
        if reference is None:
            return None
        header = self._upstream.header_of(reference)
        if header is None:
            found = self._blocks(number, 1)
            if not found:  # it was purged a moment ago
                return None
            header = found[0].get("header")
            self._upstream.remember_header(reference, header)
        return header

    def blocks(self, first: int, count: int) -> list[Any]:
        self._publisher.heard_at = time.monotonic()  # it has said all of this; nothing more is needed of it
        return self._blocks(first, min(count, self._at.tips.proposed.number - first + 1))

    def checkpoints(self, first: int, count: int) -> list[Any]:
        self._publisher.heard_at = time.monotonic()
        count = min(count, self._at.tips.checkpointed.checkpoint.number - first + 1)
        return [record.get("published") for record in self._checkpoint_records(first, count)]

    def l1_to_l2_messages(self, number: int) -> Any:
        if number > self._at.tips.checkpointed.checkpoint.number:
            # Messages of a checkpoint in the making: as its first block, which was asked for just now, has them.
            return self._upstream.remembered_messages(number)
        records = self._checkpoint_records(number, 1)
        return records[0].get("l1ToL2Messages") if records else None

    # ---- contents --------------------------------------------------------------------------------

    def _checkpoint_records(self, first: int, count: int) -> list[dict[str, Any]]:
        name, subjects = self._publisher.name, self._subjects
        return self._found([subjects.checkpoint(name, number) for number in range(first, first + count)])[0]

    def _blocks(self, first: int, count: int) -> list[Any]:
        name, subjects = self._publisher.name, self._subjects
        records, references = self._found([subjects.block(name, number) for number in range(first, first + count)])
        return [self._block_of(record, reference) for record, reference in zip(records, references, strict=True)]

    def _block_of(self, record: dict[str, Any], reference: Reference) -> Any:
        block = record.get(_BLOCK)
        if reference.index is not None:
            try:
                block = record["published"]["checkpoint"]["blocks"][reference.index]
            except (KeyError, IndexError, TypeError):
                raise UpstreamFault("a reference on the bus names a block that its checkpoint does not have") from None
        if not isinstance(block, dict):
            raise UpstreamFault("a reference on the bus names a block that is not there")
        number = block.get("checkpointNumber")
        if block.get("indexWithinCheckpoint") == 0 and type(number) is int:
            self._upstream.remember_messages(number, record.get("l1ToL2Messages") or [])
        return block

    def _found(self, subjects: Sequence[str]) -> tuple[list[dict[str, Any]], list[Reference]]:
        """Records up to the first that it does not refer to, and the references."""
        found = self._upstream.references(self._publisher, subjects)
        references: list[Reference] = []
        for reference in found:
            if reference is None:
                break
            references.append(reference)
        new = [reference for reference in references if reference.digest not in self._records]
        for reference, content in zip(new, self._upstream.contents(new), strict=True):
            self.byte_count += len(content)
            if reference.digest not in self._records:
                self._records[reference.digest] = self._upstream.decode(content)
        return [self._records[reference.digest] for reference in references], references

    def _record(self, reference: Reference) -> dict[str, Any]:
        [content] = self._upstream.contents([reference])
        return self._upstream.decode(content)


_ANSWERS: Final[Mapping[str, Callable[..., Any]]] = {
    "node_getL2Tips": _Question.l2_tips,
    "node_getNodeInfo": _Question.node_info,
    "node_getAllowedPublicSetup": _Question.allowed_public_setup,
    "node_getBlockHeader": _Question.block_header,
    "node_getBlocks": _Question.blocks,
    "node_getCheckpoints": _Question.checkpoints,
    "node_getCurrentMinFees": _Question.min_fees,
    "node_getPredictedMinFees": _Question.predicted_min_fees,
    "fastnode_getGenesis": _Question.genesis,
    "fastnode_getL1ToL2Messages": _Question.l1_to_l2_messages,
    "fastnode_getSyncStatus": _Question.sync_status,
}
