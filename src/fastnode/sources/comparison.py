"""Comparison of upstreams: two of them must have the same block at the checkpointed tip; the one that is not followed
goes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Executor
from typing import Final

from fastnode.errors import DecodeError, UpstreamError, UpstreamUnavailable
from fastnode.protocol.fields import hex_text
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.tips import BlockId
from fastnode.sources.upstreams import Upstream, Upstreams

__all__ = ["Comparison"]

#: Disagreements in a row after which an upstream is put aside.
DISAGREEMENTS_MAX: Final = 3


class Comparison:
    """One at a time, in a thread of ``executor``: the chain must not wait for a node that it does not follow."""

    def __init__(self, upstreams: Upstreams, executor: Executor, interval_s: float) -> None:
        self._upstreams = upstreams
        self._executor = executor
        self.interval_s = interval_s
        self._next_at = 0.0
        self._disagreements = dict.fromkeys(upstreams.all, 0)
        self._is_under_way = threading.Lock()

    def invariant(self) -> None:
        """AssertionError unless who disagrees so often is put aside."""
        assert all(0 <= count < DISAGREEMENTS_MAX for count in list(self._disagreements.values()))

    def begin_when_due(self, followed: Upstream, block: BlockId) -> None:
        """Ask the others for this block, which is verified, if none is under way and the last one is long ago."""
        now = time.monotonic()
        if len(self._upstreams.all) < 2 or now < self._next_at or not self._is_under_way.acquire(blocking=False):
            return
        self._next_at = now + self.interval_s
        try:
            self._executor.submit(self._compare_all, followed, block)
        except RuntimeError:  # the node is stopping
            self._is_under_way.release()

    def _compare_all(self, followed: Upstream, block: BlockId) -> None:
        try:
            for upstream in self._upstreams.healthy():
                if upstream is not followed and block.number > 0:
                    self._compare(upstream, followed, block.number, block.hash)
        finally:
            self._is_under_way.release()

    def _compare(self, upstream: Upstream, followed: Upstream, number: int, expected: bytes) -> None:
        try:
            answer = upstream.call("node_getBlockHeader", number)
            found = None if answer is None else BlockHeader.from_json(answer, "header").hash()
        except UpstreamUnavailable:
            return
        except (UpstreamError, DecodeError) as error:
            self._note(upstream, str(error))
            return
        except Exception as error:  # noqa: BLE001 - counted, and logged once
            self._note(upstream, str(upstream.on_nonsense(error)))
            return
        if found is None or found == expected:
            self._disagreements[upstream] = 0
            return
        self._note(
            upstream,
            f"it disagrees with {followed.name}: block {number} is {hex_text(found)} here and {hex_text(expected)} "
            f"there, which is verified",
        )

    def _note(self, upstream: Upstream, reason: str) -> None:
        count = self._disagreements[upstream] + 1
        if count < DISAGREEMENTS_MAX:
            self._disagreements[upstream] = count
        else:
            self._disagreements[upstream] = 0
            upstream.put_aside(reason)
