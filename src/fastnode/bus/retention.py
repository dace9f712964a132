"""Removal from a stream that keeps only what follows the newest snapshot.

Several publishers share one stream, and a content lies where the first of them stored it.  So nothing is removed that
one of them stored behind its own checkpoint of that number.  After a chain that went back and forth a content may lie
before that, too: so it is looked whether everything that is referred to is still there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import orjson

from fastnode.bus.connection import Bus, Message
from fastnode.bus.publishers import At
from fastnode.bus.subjects import Reference, Subjects, read_versioned
from fastnode.errors import UpstreamFault

__all__ = ["drop_before", "is_whole"]


def drop_before(bus: Bus, subjects: Subjects, number: int, last_block: int) -> bool:
    """Remove what lies before the checkpoint ``number``, which ends with ``last_block``; that one may stay.

    False, with everything still there, while a publisher is farther than that and has no such checkpoint on the bus:
    where what it needs begins is not known.
    """
    at = bus.matching(subjects.stream, subjects.all_at)
    names = [message.subject.rpartition(".")[2] for message in at if _tip_of(message) >= last_block]
    places = bus.lasts(subjects.stream, [subjects.checkpoint(name, number) for name in names])
    found = [message.sequence for message in places if message is not None]
    if not found or len(found) < len(names):
        return False
    bus.purge(subjects.stream, before=min(found))
    return True


def is_whole(bus: Bus, subjects: Subjects, publisher: str, checkpoints: range, blocks: range) -> bool:
    """True if these checkpoints and blocks, as the publisher refers to them, and their contents are all on the bus."""
    there = bus.subjects(subjects.stream, subjects.all_blocks)
    wanted = {subjects.checkpoint(publisher, number) for number in checkpoints}
    wanted |= {subjects.block(publisher, number) for number in blocks}
    if not wanted <= there:
        return False
    for message in _all_since(bus, subjects.stream, subjects.all_of(publisher)):
        if message.subject in wanted:
            reference = Reference.of(orjson.loads(message.data))
            if any(subjects.content(reference.digest, part) not in there for part in range(reference.parts)):
                return False
    return True


def _tip_of(message: Message) -> int:
    """-1 for what is not understood: other publishers are not trusted."""
    with contextlib.suppress(UpstreamFault):
        return At.of(read_versioned(message.data, "at")).tips.proposed.number
    return -1


def _all_since(bus: Bus, stream: str, pattern: str) -> Iterator[Message]:
    sequence = 1
    while messages := bus.since(stream, sequence, pattern):
        yield from messages
        sequence = messages[-1].sequence + 1
