"""Checkpoints that a reorg of L1 has brought into other blocks of it, as another node says.

    newest ─┐  differs   ▲ all of them go into one record
            │  differs   │
            │  the same, and those below were read at one time: so are they ── stop
    final ──┘

Nothing in the tips of a node tells of this.  So the newest stored checkpoint is read again when the tips of
checkpoints have moved, and once in a slot of L1 while it is not final.  Blocks of L1 are a chain: where one is the
same, those before it are.  That holds for checkpoints that were read at one time; those that came since the last look
are looked at one by one, once.

A node that was asked in the middle of such a reorg may have named the newest block anew and older ones not yet.  So
with each look some of the others that are not final are read again, in turn.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from fastnode.archiver.entries import publication_json
from fastnode.archiver.queries import ChainView
from fastnode.archiver.source import CheckpointAuthority, MovedRecord, Publication, PublicationClaim
from fastnode.errors import UpstreamRejection
from fastnode.log import log_facts
from fastnode.outgoing.client import METHOD_NOT_FOUND
from fastnode.protocol.checkpoint import CheckpointHeader, CommitteeAttestation, L1PublishedData
from fastnode.protocol.constants import COMMITTEE_MEMBERS_MAX
from fastnode.protocol.fields import as_record, element_path, read_list, read_number, read_record
from fastnode.protocol.tips import L2Tips
from fastnode.sources.common_chain import RemoteNode, as_list

__all__ = ["LOOK_S", "MOVED_MAX", "MovedCheckpoints"]

logger = logging.getLogger(__name__)

#: Seconds after which the newest checkpoint is read again: a slot of L1.
LOOK_S: Final = 12.0
#: Checkpoints that are read again at most; those that are not final are fewer on a network that is well.
MOVED_MAX: Final = 128
#: Others that are read again with each look, without their blocks, and with them.
AGAIN_MAX: Final = 8
WHOLE_AGAIN_MAX: Final = 1
#: Checkpoints in one answer: without their blocks, and with them.
ITEMS_MAX: Final = 32
WHOLE_ITEMS_MAX: Final = 4


class _Sure(NamedTuple):
    """Checkpoint up to which all are in the blocks of L1 of one moment, and its own; another one there ends that."""

    number: int
    header_hash: bytes
    l1_json: bytes


class MovedCheckpoints:
    """Belongs to the one node that it asks; one pass at a time.  ``authority``: L1, where it is read."""

    def __init__(self, remote: RemoteNode, authority: CheckpointAuthority | None = None) -> None:
        self._remote = remote
        self._authority = authority
        self._sure = _Sure(0, b"", b"")
        self._seen: object = None
        self._next_look_at = 0.0
        #: The lowest checkpoint that was read again in this turn.
        self._again_from = 0
        #: True once it has turned out not to give checkpoints without their blocks.
        self._lacks_data = False

    def records(self, view: ChainView, newest: int, tips: L2Tips) -> Iterator[MovedRecord]:
        """Stored checkpoints up to ``newest`` that are in other blocks of L1 now; one record or none.

        Nothing while it is not time to look, or when the node has other checkpoints meanwhile.  UpstreamError,
        DecodeError, or NotOnL1.
        """
        seen, now = (tips.checkpointed, tips.proven, tips.finalized), time.monotonic()
        if seen == self._seen and now < self._next_look_at:
            return
        self._seen, self._next_look_at = seen, now + LOOK_S
        newest = min(newest, tips.checkpointed.checkpoint.number)
        lowest = max(view.tips.finalized.checkpoint.number, newest - MOVED_MAX) + 1
        if newest < lowest:
            return
        moved = self._moved(view, lowest, newest)
        others = None if moved is None else self._moved_of_others(view, lowest, newest)
        if moved is None or others is None:
            self._seen = None
            return
        moved = [each for _, each in sorted({each.number: each for each in others + moved}.items())]
        self._require_on_l1(view, moved)
        if moved:
            shown = log_facts(source=self._remote.name, first=moved[0].number, last=moved[-1].number)
            logger.info("checkpoints are in other blocks of L1 now", extra=shown)
            yield MovedRecord(tuple(moved))
        stored = view.checkpoint(newest)
        assert stored is not None
        l1_json = publication_json(moved[-1].l1, ())[0] if moved and moved[-1].number == newest else stored.l1_json
        self._sure = _Sure(newest, stored.header_hash, l1_json)

    def _require_on_l1(self, view: ChainView, moved: Sequence[Publication]) -> None:
        if self._authority is None or not moved:
            return
        stored = [(each, view.checkpoint(each.number)) for each in moved]
        claims = [
            PublicationClaim(each.number, checkpoint.archive_root, each.l1.block_number, each.attestations)
            for each, checkpoint in stored
            if checkpoint is not None
        ]
        wrong = next((error for error in self._authority.differences(claims) or () if error is not None), None)
        if wrong is not None:
            self._seen = None
            raise wrong

    def _moved(self, view: ChainView, lowest: int, newest: int) -> list[Publication] | None:
        """None where the node does not have what is stored."""
        moved: list[Publication] = []
        sure = self._sure_number(view)
        last, wanted = newest, max(1, newest - sure + 1)
        while last >= lowest:
            first = max(lowest, last - min(wanted, self._items_max) + 1)
            given = self._ask(first, last - first + 1)
            for number in range(last, first - 1, -1):
                publication = given.get(number)
                has_moved = _has_moved(view, number, publication)
                if publication is None or has_moved is None:
                    return None
                if has_moved:
                    moved.insert(0, publication)
                elif number <= sure:
                    return moved
            last, wanted = first - 1, ITEMS_MAX
        return moved

    def _moved_of_others(self, view: ChainView, lowest: int, newest: int) -> list[Publication] | None:
        """Look at some below ``newest``, those below the last ones; None as for :meth:`_moved`."""
        end = self._again_from if lowest < self._again_from <= newest else newest
        first = max(lowest, end - (AGAIN_MAX if self._gives_data else WHOLE_AGAIN_MAX))
        if first >= end:
            return []
        self._again_from = first
        given = self._ask(first, end - first)
        looks = [(given.get(number), _has_moved(view, number, given.get(number))) for number in range(first, end)]
        if any(has_moved is None for _, has_moved in looks):
            return None
        return [publication for publication, has_moved in looks if publication is not None and has_moved]

    def _sure_number(self, view: ChainView) -> int:
        stored = view.checkpoint(self._sure.number)
        known = None if stored is None else _Sure(stored.number, stored.header_hash, stored.l1_json)
        return self._sure.number if known == self._sure else 0

    # ---- questions -------------------------------------------------------------------------------

    @property
    def _gives_data(self) -> bool:
        return self._remote.is_fastnode and not self._lacks_data

    @property
    def _items_max(self) -> int:
        return ITEMS_MAX if self._gives_data else WHOLE_ITEMS_MAX

    def _ask(self, first: int, count: int) -> dict[int, Publication]:
        if self._gives_data:
            [answer] = self._answers("node_getCheckpointsData", [{"from": first, "limit": count}])
            if not (isinstance(answer, UpstreamRejection) and answer.code == METHOD_NOT_FOUND):
                return _publications(as_list(answer, "node_getCheckpointsData"))
            self._lacks_data = True
        [answer] = self._answers("node_getCheckpoints", [first, count])
        return _publications(as_list(answer, "node_getCheckpoints"))

    def _answers(self, method: str, parameters: Sequence[Any]) -> Sequence[Any]:
        return self._remote.ask([(method, parameters)]).answers


def _has_moved(view: ChainView, number: int, publication: Publication | None) -> bool | None:
    """None where the other node has no such checkpoint."""
    stored = view.checkpoint(number)
    if stored is None or publication is None or publication.header_hash != stored.header_hash:
        return None
    return publication_json(publication.l1, publication.attestations) != (stored.l1_json, stored.attestations_json)


def _publications(items: Sequence[Any]) -> dict[int, Publication]:
    found = (_publication(item, element_path("", "checkpoints", place)) for place, item in enumerate(items))
    return {publication.number: publication for publication in found}


def _publication(item: Any, path: str) -> Publication:
    """From a PublishedCheckpoint, or a CheckpointData."""
    record = as_record(item, path)
    inner, key = (record["checkpoint"], "number") if "checkpoint" in record else (record, "checkpointNumber")
    inner = as_record(inner, path)
    header = CheckpointHeader.from_json(read_record(inner, "header", path), f"{path}.header")
    attestations = read_list(record, "attestations", path, maximum=COMMITTEE_MEMBERS_MAX)
    return Publication(
        read_number(inner, key, path),
        header.hash(),
        L1PublishedData.from_json(read_record(record, "l1", path), f"{path}.l1"),
        tuple(
            CommitteeAttestation.from_json(attestation, element_path(path, "attestations", place))
            for place, attestation in enumerate(attestations)
        ),
    )
