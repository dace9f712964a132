"""Checkpoints that were stored as other nodes say while L1 did not answer, held against L1 once it does.

    L1 does not answer a question about a checkpoint     it is unconfirmed, and all behind it; so are those of before
                                                         the start that are not final
    L1 has it, with the same attestations                it is confirmed
    L1 has it, with others                               its record is written again, as L1 has it
    L1 has another checkpoint of that number             it is undone, and what comes behind it
    L1 has none of that number, or none near its block   nothing: the nodes that are followed may be a moment ahead

Statistics and offenses wait until all are confirmed: whoever lies while L1 is silent would else have honest proposers
accused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Final

import orjson

from fastnode.archiver.queries import ChainView
from fastnode.archiver.records import StoredCheckpoint
from fastnode.archiver.source import (
    CheckpointAuthority,
    MovedRecord,
    Publication,
    PublicationClaim,
    PublicationOnL1,
    Record,
    UndoRecord,
)
from fastnode.errors import FastnodeError, UpstreamFault
from fastnode.log import log_facts
from fastnode.protocol.fields import ZERO_FIELD, hex_text

__all__ = ["LOOK_S", "Confirmation"]

logger = logging.getLogger(__name__)

#: Seconds between looks at what L1 has: one of its slots.
LOOK_S: Final = 12.0
#: Checkpoints of one question, and questions of one look.
TOGETHER_MAX: Final = 32
QUESTIONS_MAX: Final = 4
_FIRST: Final = 1


class Confirmation:
    """The authority as sources ask it, from any thread; ``look`` from the thread that ingests, between passes."""

    def __init__(self, authority: CheckpointAuthority, clock: Callable[[], float] = time.monotonic) -> None:
        self._authority = authority
        self._clock = clock
        self._next_look_at = 0.0
        #: Guards the next one, which the threads that fetch lower.
        self._lock = threading.Lock()
        self._lowest: int | None = _FIRST
        self._is_new = True

    @property
    def lowest(self) -> int | None:
        """The lowest checkpoint that may be unconfirmed; None: all that are stored are confirmed, or final."""
        return self._lowest

    # ---- questions of sources ------------------------------------------------------------------

    def archive_roots(self, numbers: Sequence[int]) -> Sequence[bytes] | None:
        roots = self._authority.archive_roots(numbers)
        if roots is None:
            self._doubt(min(numbers))
        return roots

    def differences(self, claims: Sequence[PublicationClaim]) -> Sequence[FastnodeError | None] | None:
        found = self._authority.differences(claims)
        if found is None:
            self._doubt(min(claim.number for claim in claims))
        return found

    def publications(self, claims: Sequence[PublicationClaim]) -> Sequence[PublicationOnL1 | None] | None:
        return self._authority.publications(claims)

    def _doubt(self, number: int) -> None:
        with self._lock:
            self._lowest = number if self._lowest is None else min(self._lowest, number)

    # ---- what L1 says to it --------------------------------------------------------------------

    def records(self, view: ChainView) -> Generator[Record, None, None]:
        """Changes to what is stored; at most once in a slot of L1.  UpstreamError, DecodeError."""
        now = self._clock()
        if self._is_new:
            self._is_new = False
            self._settle(_FIRST, view.tips.finalized.checkpoint.number + 1)
        lowest = self._lowest
        if lowest is None or now < self._next_look_at:
            return
        self._next_look_at = now + LOOK_S
        newest = view.tips.checkpointed.checkpoint.number
        for first in range(lowest, newest + 1, TOGETHER_MAX)[:QUESTIONS_MAX]:
            numbers = range(first, min(newest, first + TOGETHER_MAX - 1) + 1)
            checkpoints = [each for each in map(view.checkpoint, numbers) if each is not None]
            roots = self._authority.archive_roots([each.number for each in checkpoints]) if checkpoints else ()
            if roots is None:
                return
            standing = _same(checkpoints, roots)
            unsettled = yield from self._attested(checkpoints[:standing])
            if unsettled is None and standing < len(checkpoints):
                unsettled = checkpoints[standing].number
                if roots[standing] != ZERO_FIELD:
                    yield self._undone(checkpoints[standing], roots[standing])
            self._settle(lowest, numbers[-1] + 1 if unsettled is None else unsettled)
            if unsettled is not None:
                return
            lowest = numbers[-1] + 1
        if lowest > newest:
            self._settle(lowest, None)

    def _attested(self, checkpoints: Sequence[StoredCheckpoint]) -> Generator[Record, None, int | None]:
        """Write attestations again that are not those of L1; the first checkpoint that L1 does not settle, or None."""
        claims = [_claim(each) for each in checkpoints]
        found = self._authority.differences(claims) if claims else ()
        if found is None:
            return claims[0].number
        false = [claim for claim, error in zip(claims, found, strict=True) if isinstance(error, UpstreamFault)]
        true = self._authority.publications(false) if false else ()
        given = {claim.number: each for claim, each in zip(false, true or (), strict=False) if each is not None}
        if given:
            shown = log_facts(first=min(given), last=max(given))
            logger.warning("attestations that came while L1 did not answer are not those of L1", extra=shown)
            hashes = {each.number: each.header_hash for each in checkpoints}
            yield MovedRecord(tuple(Publication(number, hashes[number], *each) for number, each in given.items()))
        open_ones = (
            claim.number
            for claim, error in zip(claims, found, strict=True)
            if error is not None and claim.number not in given
        )
        return next(open_ones, None)

    def _undone(self, checkpoint: StoredCheckpoint, root: bytes) -> UndoRecord:
        shown = log_facts(checkpoint=checkpoint.number, archive=checkpoint.archive_root, on_l1=hex_text(root))
        logger.warning("a checkpoint that came while L1 did not answer is not the one of L1", extra=shown)
        return UndoRecord(checkpoint.start_block - 1)

    def _settle(self, before: int, lowest: int | None) -> None:
        with self._lock:
            if self._lowest == before:  # else a source has asked in vain meanwhile
                self._lowest = lowest


def _same(checkpoints: Sequence[StoredCheckpoint], roots: Sequence[bytes]) -> int:
    """Number of checkpoints at the beginning that have these roots."""
    pairs = enumerate(zip(checkpoints, roots, strict=True))
    return next((place for place, (each, root) in pairs if each.archive_root != root), len(checkpoints))


def _claim(stored: StoredCheckpoint) -> PublicationClaim:
    place = orjson.loads(stored.l1_json)
    return PublicationClaim(stored.number, stored.archive_root, int(place["blockNumber"]), stored.attestations)
