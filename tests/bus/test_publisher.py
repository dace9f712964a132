"""What a publisher knows to be on the bus: it grows without gaps, and goes back before it grows otherwise.  What it has
said of its chain in the end is true and whole, whatever the network keeps for later."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

import orjson
import pytest
from tests.clock import Clock
from tests.simulation.bus_server import ApiError, Stream

from fastnode.bus.connection import Message, Outgoing
from fastnode.bus.publisher import HEARTBEAT_S, PLACES_MAX, Published, Publisher
from fastnode.bus.subjects import Reference, Subjects
from fastnode.errors import UpstreamUnavailable
from fastnode.protocol.tips import BlockId, CheckpointId, L2Tips, TipId

SUBJECTS: Final = Subjects("fastnode-1-1")


def checkpoint(number: int) -> Any:
    return SimpleNamespace(number=number, header_hash=bytes([number]), l1_json=b"{}")


@pytest.fixture
def published() -> Published:
    """Blocks 10 to 13, and checkpoints 5 and 6."""
    published = Published(9, 4)
    for number in range(10, 14):
        published.add_block(number, bytes([number]))
    for number in (5, 6):
        published.add_checkpoint(checkpoint(number))
    return published


def test_what_is_taken_back_is_sent_again_from_there_on(published: Published) -> None:
    published.go_back(11)
    published.go_back_to_checkpoint(5)
    assert (published.tip, sorted(published.hashes), published.checkpoint) == (11, [10, 11], 5)
    published.add_block(12, b"another one")
    published.add_checkpoint(checkpoint(6))
    published.forget_final(11, 6)
    assert (published.tip, sorted(published.hashes), sorted(published.checkpoints)) == (12, [11, 12], [6])


def test_nothing_is_left_out_and_nothing_goes_back_to_the_future(published: Published) -> None:
    for impossible in (
        lambda: published.add_block(15, b""),
        lambda: published.add_checkpoint(checkpoint(8)),
        lambda: published.add_checkpoint(checkpoint(6)),
        lambda: published.go_back(14),
        lambda: published.go_back_to_checkpoint(7),
    ):
        with pytest.raises(AssertionError):
            impossible()
    assert (published.tip, published.checkpoint) == (13, 6)


def test_places_are_remembered_up_to_a_limit(published: Published) -> None:
    for place in range(1, PLACES_MAX + 3):
        published.note_place(f"subject {place}", place)
        published.invariant()
    assert published.places == {f"subject {place}": place for place in (PLACES_MAX + 1, PLACES_MAX + 2)}


# ---- what comes late -------------------------------------------------------------------------------


class Chain:
    """As much of a stored chain as a publisher asks for."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.hashes = [b"\0" * 32]
        #: Last block of each checkpoint.
        self.ends = [0]
        self.final = 0

    def grow(self) -> None:
        """Blocks, a checkpoint of some, or another fork."""
        if self.dice.random() < 0.3:
            del self.ends[self.dice.randint(self.final, len(self.ends) - 1) + 1 :]
            del self.hashes[self.ends[-1] + 1 :]
        self.hashes += [b"\0" + self.dice.randbytes(31) for _ in range(self.dice.randint(0, 2))]
        if self.ends[-1] < self.tip_number and self.dice.random() < 0.5:
            self.ends.append(self.dice.randint(self.ends[-1] + 1, self.tip_number))

    def finalize(self) -> None:
        self.final = self.dice.randint(self.final, len(self.ends) - 1)

    @property
    def tip_number(self) -> int:
        return len(self.hashes) - 1

    @property
    def tips(self) -> L2Tips:
        newest, final = self.tip_of_checkpoint(len(self.ends) - 1), self.tip_of_checkpoint(self.final)
        return L2Tips(self.block_id(self.tip_number), newest, final, final)

    def block_id(self, number: int) -> BlockId:
        return BlockId(number, self.hashes[number])

    def block_number_by_hash(self, block_hash: bytes) -> int | None:
        return self.hashes.index(block_hash) if block_hash in self.hashes else None

    def tip_of_checkpoint(self, number: int) -> TipId:
        last = self.block_id(self.ends[number])
        return TipId(last, CheckpointId(number, last.hash))

    def newest_complete_checkpoint(self, last_block: int) -> int:
        return max(number for number, end in enumerate(self.ends) if end <= last_block)

    def checkpoint(self, number: int) -> Any:
        if not 1 <= number < len(self.ends):
            return None
        start, last = self.ends[number - 1] + 1, self.ends[number]
        return SimpleNamespace(
            number=number, start_block=start, last_block=last, header_hash=self.hashes[last], l1_json=b"{}"
        )

    def get(self, _: bytes) -> bytes:
        return b"{}"

    def genesis_json(self) -> bytes:
        return b"{}"


class LinePublisher(Publisher):
    """Contents are made of hashes."""

    def _line_of_checkpoint(self, chain: Any, checkpoint: Any) -> bytes:
        return self.line(chain, range(checkpoint.start_block, checkpoint.last_block + 1))

    def _line_of_block(self, chain: Any, number: int) -> bytes:
        return b"block " + self.line(chain, range(number, number + 1))

    @staticmethod
    def line(chain: Chain, numbers: range) -> bytes:
        return b" ".join(chain.hashes[number].hex().encode() for number in numbers)


class LateBus:
    """Connections that are lost; what was on its way on one is stored later, in its order, or never."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.clock = dice, Clock()
        self.options = SimpleNamespace(name="one", keeps_all=True, bytes_max=0)
        #: Messages that came late, stored or refused.
        self.late_count = 0
        self.connection_number = 0
        self.losing = 0.0
        self.late: list[deque[Outgoing]] = []
        self._stream: Stream | None = None

    @property
    def stream(self) -> Stream:
        assert self._stream is not None
        return self._stream

    def deliver(self, chance: float) -> None:
        for waiting in self.late:
            while waiting and self.dice.random() < chance:
                self._store(waiting.popleft())
                self.late_count += 1

    def _lose(self, messages: Sequence[Outgoing]) -> None:
        self.connection_number += 1
        self.late.append(deque(messages[: self.dice.randint(0, len(messages))]))
        raise UpstreamUnavailable("the connection to the bus is lost")

    def _request(self) -> None:
        self.deliver(0.3)
        if self.dice.random() < self.losing:
            self._lose([])

    def _store(self, message: Outgoing) -> int | None:
        headers = {} if message.expected is None else {"nats-expected-last-subject-sequence": str(message.expected)}
        try:
            return self.stream.store(message.subject, headers, b"", message.data, 0.0)[0]
        except ApiError:
            return None

    def publish_all(self, messages: Sequence[Outgoing]) -> list[int | None]:
        self.deliver(0.3)
        lost_at = self.dice.randint(0, len(messages)) if self.dice.random() < self.losing else None
        places = [self._store(message) for message in messages[:lost_at]]
        if lost_at is not None:
            self._lose(messages[lost_at:])
        return places

    def publish(self, message: Outgoing) -> int | None:
        return self.publish_all([message])[0]

    def lasts(self, _: str, subjects: Sequence[str]) -> list[Message | None]:
        self._request()
        found = [self.stream.newest(subject) for subject in subjects]
        return [None if each is None else Message(each.subject, each.sequence, each.data) for each in found]

    def last(self, stream: str, subject: str) -> Message | None:
        return self.lasts(stream, [subject])[0]

    def state(self, _: str) -> dict[str, Any] | None:
        self._request()
        return None if self._stream is None else {"created": self.stream.created, "first_seq": self.stream.first}

    def set_up(self, _: object) -> None:
        self._stream = Stream({"name": SUBJECTS.stream, "subjects": [SUBJECTS.all_blocks]}, 0.0)

    def purge(self, _: str, *, subject: str) -> None:
        self._request()
        self.stream.purge(pattern=subject)


def wrong(bus: LateBus, chain: Chain) -> list[str]:
    """Subjects on which the bus has something else than the chain, or what refers to nothing."""
    lines = {SUBJECTS.block("one", number): chain.hashes[number] for number in range(1, chain.tip_number + 1)}
    lines |= {
        SUBJECTS.checkpoint("one", number): chain.hashes[chain.ends[number]] for number in range(1, len(chain.ends))
    }
    found = [subject for subject, value in lines.items() if not _is_right(bus, subject, value)]
    at = bus.stream.newest(SUBJECTS.at("one"))
    if at is None or orjson.loads(at.data)["tips"] != chain.tips.to_json():
        found.append(SUBJECTS.at("one"))
    return found


def _is_right(bus: LateBus, subject: str, value: bytes) -> bool:
    """True for a reference to this block or checkpoint whose content is there, and has it."""
    message = bus.stream.newest(subject)
    reference = Reference.of({} if message is None else orjson.loads(message.data))
    content = bus.stream.newest(SUBJECTS.content(reference.digest, 0))
    return reference.hash == f"0x{value.hex()}" and content is not None and value.hex().encode() in content.data


@pytest.mark.parametrize("seed", range(100))
def test_what_comes_late_replaces_nothing_that_was_published_since(seed: int) -> None:
    dice = random.Random(seed)
    chain, bus = Chain(dice), LateBus(dice)
    view: Any = SimpleNamespace(chain=chain)
    any_bus: Any = bus
    publisher = LinePublisher(any_bus, SUBJECTS, lambda: view)
    done = 0
    try:
        for _ in range(100):
            bus.losing = dice.choice([0.0, 0.1, 0.4])
            chain.grow()
            publisher._turn()
            bus.deliver(dice.choice([0.0, 0.5, 0.9]))
            if publisher.trouble is None:
                done += 1
                assert publisher.describe()["publishedBlock"] == chain.tip_number
                assert wrong(bus, chain) == []
                if dice.random() < 0.5:
                    chain.finalize()
            bus.clock.now += dice.choice([0.0, HEARTBEAT_S])
    finally:
        publisher.close()
    assert done > 0
    assert bus.late_count > 0
