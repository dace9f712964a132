"""What a publisher knows to be on the bus: it grows without gaps, and goes back before it grows otherwise.  What it has
said of its chain in the end is true and whole, whatever the network keeps for later."""

from __future__ import annotations

import hashlib
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
    """As much of a stored chain as a publisher asks for; of each block there are two, so forks come back."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.hashes = [b"\0" * 32]
        #: Last block of each checkpoint.
        self.ends = [0]
        #: Blocks of L1 that have the checkpoints.
        self.places = [0]
        self.final = 0
        #: All blocks up to each that there was, by its hash.
        self.paths = {self.hashes[0]: tuple(self.hashes)}

    def change(self) -> None:
        """Another fork or other places on L1, blocks, checkpoints of some, finality."""
        if self.dice.random() < 0.3:
            kept = self.dice.randint(self.final, len(self.ends) - 1) + 1
            del self.ends[kept:], self.places[kept:]
            del self.hashes[self.dice.randint(self.ends[-1], self.tip_number) + 1 :]
        if self.dice.random() < 0.2:
            kept = self.dice.randint(self.final, len(self.ends) - 1) + 1
            self.places[kept:] = [self.dice.getrandbits(32) for _ in self.places[kept:]]
        for _ in range(self.dice.randint(0, 2)):
            is_first = self.ends[-1] == self.tip_number or self.dice.random() < 0.5
            digest = hashlib.sha256(self.hashes[-1] + bytes([is_first])).digest()
            self.hashes.append(bytes([0, is_first]) + digest[2:])
            self.paths[self.hashes[-1]] = tuple(self.hashes)
        if self.dice.random() < 0.5:
            self._end_checkpoints()
        if self.dice.random() < 0.2:
            self.final = self.dice.randint(self.final, len(self.ends) - 1)

    def _end_checkpoints(self) -> None:
        """Each block says whether it begins a checkpoint."""
        blocks = range(self.ends[-1] + 1, self.tip_number + 1)
        ends = [number for number in blocks if number == self.tip_number or self.hashes[number + 1][1]]
        self.ends += ends
        self.places += [self.dice.getrandbits(32) for _ in ends]

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
        return TipId(self.block_id(self.ends[number]), CheckpointId(number, self.header_hash(number)))

    def header_hash(self, number: int) -> bytes:
        blocks = self.hashes[self.ends[max(0, number - 1)] + 1 : self.ends[number] + 1]
        return b"\0" + hashlib.sha256(b"".join(blocks)).digest()[1:]

    def newest_complete_checkpoint(self, last_block: int) -> int:
        return max(number for number, end in enumerate(self.ends) if end <= last_block)

    def checkpoint(self, number: int) -> Any:
        if not 1 <= number < len(self.ends):
            return None
        start, last = self.ends[number - 1] + 1, self.ends[number]
        header_hash, l1_json = self.header_hash(number), b"%d" % self.places[number]
        return SimpleNamespace(
            number=number, start_block=start, last_block=last, header_hash=header_hash, l1_json=l1_json
        )

    def get(self, _: bytes) -> bytes:
        return b"{}"

    def genesis_json(self) -> bytes:
        return b"{}"


class LinePublisher(Publisher):
    """Contents are made of hashes."""

    def _line_of_checkpoint(self, chain: Any, checkpoint: Any) -> bytes:
        blocks = self.line(chain, range(checkpoint.start_block, checkpoint.last_block + 1))
        return b"%b in %b" % (blocks, checkpoint.l1_json)

    def _line_of_block(self, chain: Any, number: int) -> bytes:
        return b"block " + self.line(chain, range(number, number + 1))

    @staticmethod
    def line(chain: Chain, numbers: range) -> bytes:
        return b" ".join(chain.hashes[number].hex().encode() for number in numbers)


class LateBus:
    """Requests without an answer, most where a connection is lost; what was on its way is stored later, or never."""

    def __init__(self, dice: random.Random, chain: Chain) -> None:
        self.dice, self.clock, self.chain = dice, Clock(), chain
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
        self.connection_number += self.dice.random() < 0.8
        self.late.append(deque(messages[: self.dice.randint(0, len(messages))]))
        raise UpstreamUnavailable("the bus has not answered")

    def _request(self) -> None:
        self.deliver(0.3)
        if self.dice.random() < self.losing:
            self._lose([])

    def _store(self, message: Outgoing) -> int | None:
        headers = {} if message.expected is None else {"nats-expected-last-subject-sequence": str(message.expected)}
        try:
            place, _ = self.stream.store(message.subject, headers, b"", message.data, 0.0)
        except ApiError:
            return None
        self._look(message.subject)
        return place

    def _look(self, subject: str) -> None:
        """None is told of what cannot be had: all blocks and checkpoints that are said to be there are."""
        at = self.stream.newest(SUBJECTS.at("one"))
        if at is None:
            return
        tips = L2Tips.from_json(orjson.loads(at.data)["tips"], "tips")
        path, checkpoints = self.chain.paths[tips.proposed.hash], tips.checkpointed.checkpoint
        for number, block_hash in enumerate(path):
            if number and subject in (at.subject, SUBJECTS.block("one", number)):
                assert self.hash_on(SUBJECTS.block("one", number)) == block_hash
        for number in range(1, checkpoints.number + 1):
            if subject in (at.subject, SUBJECTS.checkpoint("one", number)):
                told = self.hash_on(SUBJECTS.checkpoint("one", number))
                assert told if number < checkpoints.number else told == checkpoints.hash

    def hash_on(self, subject: str) -> bytes | None:
        """Hash of the block or checkpoint that is referred to there."""
        message = self.stream.newest(subject)
        return None if message is None else bytes.fromhex(orjson.loads(message.data)["hash"][2:])

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


def wrong(bus: LateBus, chain: Any) -> list[str]:
    """Subjects on which the bus has something else than the chain, or what refers to nothing."""
    found = []
    for number in range(1, chain.tip_number + 1):
        subject = SUBJECTS.block("one", number)
        if not _is_right(bus, subject, chain.hashes[number], LinePublisher.line(chain, range(number, number + 1))):
            found.append(subject)
    for number in range(1, len(chain.ends)):
        subject, stored = SUBJECTS.checkpoint("one", number), chain.checkpoint(number)
        line = LinePublisher.line(chain, range(stored.start_block, stored.last_block + 1))
        line = b"%b in %b" % (line, stored.l1_json)
        if not _is_right(bus, subject, stored.header_hash, line):
            found.append(subject)
    at = bus.stream.newest(SUBJECTS.at("one"))
    if at is None or orjson.loads(at.data)["tips"] != chain.tips.to_json():
        found.append(SUBJECTS.at("one"))
    return found


def _is_right(bus: LateBus, subject: str, value: bytes, line: bytes) -> bool:
    """True for a reference to this block or checkpoint whose content is there, and has it."""
    message = bus.stream.newest(subject)
    if message is None:
        return False
    reference = Reference.of(orjson.loads(message.data))
    content = bus.stream.newest(SUBJECTS.content(reference.digest, 0))
    return reference.hash == f"0x{value.hex()}" and content is not None and line in content.data


@pytest.mark.parametrize("seed", range(100))
def test_what_comes_late_replaces_nothing_that_was_published_since(seed: int) -> None:
    dice = random.Random(seed)
    chain = Chain(dice)
    bus = LateBus(dice, chain)
    view: Any = SimpleNamespace(chain=chain)
    any_bus: Any = bus
    publisher = LinePublisher(any_bus, SUBJECTS, lambda: view)
    done = 0
    try:
        for _ in range(100):
            bus.losing = dice.choice([0.0, 0.1, 0.4])
            for _ in range(dice.choice([1, 1, 1, 1, 20])):  # the bus was away, or the publisher was busy
                chain.change()
            publisher._turn()
            bus.deliver(dice.choice([0.0, 0.5, 0.9]))
            if publisher.trouble is None:
                done += 1
                assert publisher.describe()["publishedBlock"] == chain.tip_number
                assert wrong(bus, chain) == []
            bus.clock.now += dice.choice([0.0, HEARTBEAT_S])
    finally:
        publisher.close()
    assert done > 0
    assert bus.late_count > 0
