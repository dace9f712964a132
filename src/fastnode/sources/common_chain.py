"""The newest block that the stored chain and another node's have in common.

A node that restarts or is behind has only a part of the stored chain.  So a chain that merely got shorter counts only
after its node has reported it several times.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final, Protocol

from fastnode.archiver.queries import ChainView
from fastnode.archiver.source import CheckpointRecord
from fastnode.errors import UpstreamFault, UpstreamRejection
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.tips import L2Tips
from fastnode.records import dataclass

__all__ = ["GENESIS", "HEADERS_PER_QUESTION", "CommonChain", "RemoteNode", "as_list", "is_stored"]

#: Headers in one question when the chains part.
HEADERS_PER_QUESTION: Final = 32
#: Reports that are needed before a shorter chain counts, however long that takes.
POLLS_BEFORE_SHORTENING: Final = 3

GENESIS: Final = 0


class _Reply(Protocol):
    @property
    def byte_count(self) -> int: ...

    @property
    def answers(self) -> Sequence[Any]:
        """A result or an UpstreamRejection for each call."""
        ...

    def results(self) -> list[Any]: ...


class RemoteNode(Protocol):
    """The node on the other side."""

    @property
    def name(self) -> str: ...

    @property
    def is_fastnode(self) -> bool:
        """True if it answers the methods of the namespace ``fastnode``."""
        ...

    def ask(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> _Reply:
        """Several calls in one request; blocks.  UpstreamError when there is no answer."""
        ...


@dataclass(slots=True)
class _Shorter:
    """Tips of a chain that is a part of ours, and how often and since when they were reported."""

    tips: L2Tips
    polls: int = 0
    since: float = field(default_factory=time.monotonic)


class CommonChain:
    """Common part of another node's chain and the stored one.  ``shortening_s``: for how long the node must have
    nothing but a part of what is stored before the rest is given up."""

    def __init__(self, remote: RemoteNode, shortening_s: float) -> None:
        self._remote = remote
        self._shortening_s = shortening_s
        self._shorter: _Shorter | None = None

    @property
    def is_behind(self) -> bool:
        """True if the node had nothing but a part of what is stored when it was compared last."""
        return self._shorter is not None

    def note_behind(self, tips: L2Tips) -> None:
        self._shorter = _Shorter(tips)

    def note_not_behind(self) -> None:
        self._shorter = None

    def trust_nothing_shorter(self) -> None:
        """Another node still has the longer chain: start counting again before this one shortens it."""
        if self._shorter is not None:
            self._shorter = _Shorter(self._shorter.tips)

    def block_to_return_to(self, view: ChainView, tips: L2Tips, header: BlockHeader | None) -> int:
        """The newest block to keep: ours, if nothing contradicts it."""
        newest = view.tip_number
        if newest == GENESIS:
            self._shorter = None
            return newest
        if header is not None and is_stored(view, newest, header.hash()):
            return self._without_lost_checkpoints(view, tips)
        if tips.proposed.number < newest and is_stored(view, tips.proposed.number, tips.proposed.hash):
            return self._shorten(view, tips, tips.proposed.number)
        self._shorter = None
        common = self._newest_common_block(view, min(newest, tips.proposed.number))
        return self._without_other_checkpoint(view, common)

    def _without_lost_checkpoints(self, view: ChainView, tips: L2Tips) -> int:
        """Same blocks; a checkpoint that L1 no longer has, or has in another form, goes back to single blocks."""
        ours, theirs = view.tips.checkpointed.checkpoint, tips.checkpointed.checkpoint
        if theirs.number < ours.number:
            return self._shorten(view, tips, tips.checkpointed.block.number)
        self._shorter = None
        if theirs.number == ours.number and theirs.hash == ours.hash:
            return view.tip_number
        return self._without_other_checkpoint(view, view.tip_number)

    def _without_other_checkpoint(self, view: ChainView, block_number: int) -> int:
        """Blocks up to ``block_number`` are the same; the checkpoint that the last of them are in may end elsewhere."""
        number = view.newest_complete_checkpoint(block_number)
        stored = view.checkpoint(number)
        if stored is None or number <= view.tips.finalized.checkpoint.number:
            return block_number
        answer = as_list(self._remote.ask([("node_getCheckpoints", [number, 1])]).results()[0], "node_getCheckpoints")
        if answer:
            record = CheckpointRecord({"published": answer[0], "l1ToL2Messages": []})
            if record.number == number and record.header.hash() == stored.header_hash:
                return block_number
        return stored.start_block - 1

    def _shorten(self, view: ChainView, tips: L2Tips, target: int) -> int:
        if self._shorter is None or self._shorter.tips != tips:
            self._shorter = _Shorter(tips)
        shorter = self._shorter
        shorter.polls += 1
        is_believed = (
            shorter.polls >= POLLS_BEFORE_SHORTENING and time.monotonic() >= shorter.since + self._shortening_s
        )
        if not is_believed or target < view.tips.finalized.block.number:
            return view.tip_number
        self._shorter = None
        return target

    def _newest_common_block(self, view: ChainView, top: int) -> int:
        """Block ``top`` differs, or may; the genesis is the same.  Most reorgs are short, so the newest blocks are
        compared at once, then ever larger steps back are made."""
        high = max(1, top + 1 - HEADERS_PER_QUESTION)
        common = self.newest_match(view, range(high, top + 1))
        if common is not None:
            return common
        step = HEADERS_PER_QUESTION
        while high > 1:
            low = max(GENESIS, high - step)
            if low == GENESIS or self.newest_match(view, range(low, low + 1)) is not None:
                return self._search_between(view, low, high)
            high, step = low, step * 2
        return GENESIS

    def _search_between(self, view: ChainView, low: int, high: int) -> int:
        """``low`` is common, ``high`` is not."""
        while high - low > HEADERS_PER_QUESTION:
            middle = (low + high) // 2
            if self.newest_match(view, range(middle, middle + 1)) is None:
                high = middle
            else:
                low = middle
        return self.newest_match(view, range(low + 1, high)) or low

    def newest_match(self, view: ChainView, numbers: range) -> int | None:
        if not numbers:
            return None
        headers = self._remote.ask([("node_getBlockHeader", [number]) for number in numbers]).results()
        newest: int | None = None
        for number, header in zip(numbers, headers, strict=True):
            if header is not None and is_stored(view, number, BlockHeader.from_json(header, "header").hash()):
                newest = number
        return newest


def is_stored(view: ChainView, number: int, block_hash: bytes) -> bool:
    """Block 0 is always the same: its tips carry a constant in place of its hash."""
    return number == GENESIS or view.block_number_by_hash(block_hash) == number


def as_list(value: Any, what: str) -> list[Any]:
    if isinstance(value, UpstreamRejection):
        raise value
    if not isinstance(value, list):
        raise UpstreamFault(f"{what} gave no list")
    return value
