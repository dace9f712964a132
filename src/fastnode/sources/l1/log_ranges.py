"""Logs of a contract over a range of L1 blocks, in pieces that the provider grants.

Providers limit the blocks of a query, the logs of an answer, or its bytes, each with its own error.  A query that is
refused is repeated for fewer blocks: for as many as the refusal names, or half.  How many blocks the provider grants is
remembered with its other limits (:mod:`fastnode.outgoing.provider_limits`); that some blocks have many logs is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from fastnode.errors import (
    DecodeError,
    UpstreamFault,
    UpstreamForbidden,
    UpstreamRateLimited,
    UpstreamRejection,
    UpstreamUnavailable,
)
from fastnode.outgoing.provider_limits import LOG_BLOCKS_MAX, named_in
from fastnode.sources.l1.abi import from_quantity, hex_data, quantity
from fastnode.sources.l1.endpoints import L1Endpoint

__all__ = ["LogRanges"]

BLOCKS_FIRST: Final = 2_000
#: An answer with more logs than this does not let the pieces grow.
LOGS_WANTED: Final = 1_000
#: A smaller number in the text of a refusal is not taken for its limit.
_NAMED_BLOCKS_MIN: Final = 10
#: Words of a refusal because of the answer and not of the blocks.
_LARGE_ANSWER: Final = re.compile(r"results|response size|too many logs|returned more", re.IGNORECASE)


class LogRanges:
    """Reads the logs of one event (its first topic) of one contract; learns for how many blocks one answer suffices."""

    def __init__(self, contract: bytes, topic: str, blocks_first: int = BLOCKS_FIRST) -> None:
        self._contract = hex_data(contract)
        self._topic = topic
        self._blocks = min(blocks_first, LOG_BLOCKS_MAX)

    def read(self, endpoint: L1Endpoint, first: int, last: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """(last block of a piece, its logs in chain order), until ``last``.  UpstreamError, DecodeError."""
        span_max, refused = LOG_BLOCKS_MAX, 0  # blocks of the smallest query that was refused for its span
        while first <= last:
            end = min(last, first + min(self._blocks, endpoint.provider_limits.log_blocks, span_max) - 1)
            blocks = end - first + 1
            try:
                logs = self._ask(endpoint, first, end)
            except (UpstreamForbidden, UpstreamRateLimited):
                raise
            except (UpstreamRejection, UpstreamFault) as error:
                if end == first:
                    raise
                endpoint.provider_limits.note_refused(1)
                if _LARGE_ANSWER.search(str(error)):
                    self._blocks = blocks // 2  # these blocks have many logs; others may not
                else:
                    named = named_in(error, blocks) or 0
                    span_max, refused = named if named >= _NAMED_BLOCKS_MIN else blocks // 2, blocks
                continue
            except UpstreamUnavailable:
                # It may have been too much for it.
                self._blocks = max(1, self._blocks // 2)
                raise
            if refused:
                endpoint.provider_limits.refuse_log_blocks(refused, blocks)
                span_max, refused = LOG_BLOCKS_MAX, 0
            else:
                endpoint.provider_limits.grant_log_blocks(blocks)
            if len(logs) < LOGS_WANTED and blocks >= self._blocks:
                self._blocks = min(self._blocks * 2, LOG_BLOCKS_MAX)
            yield end, logs
            first = end + 1

    def _ask(self, endpoint: L1Endpoint, first: int, last: int) -> list[dict[str, Any]]:
        query = {
            "address": self._contract,
            "topics": [self._topic],
            "fromBlock": quantity(first),
            "toBlock": quantity(last),
        }
        answer = endpoint.results([("eth_getLogs", [query])])[0]
        if not isinstance(answer, list):
            raise UpstreamFault("eth_getLogs gave no list")
        # Some providers give logs from outside the range, or of other contracts.
        ours = [log for log in answer if isinstance(log, dict) and not log.get("removed") and self._is_ours(log)]
        placed = [(place, log) for log in ours for place in _places(log) if first <= place[0] <= last]
        placed.sort(key=lambda item: item[0])
        return [log for _, log in placed]

    def _is_ours(self, log: dict[str, Any]) -> bool:
        topics = log.get("topics")
        is_of_topic = isinstance(topics, list) and topics[:1] == [self._topic]
        return is_of_topic and str(log.get("address")).lower() == self._contract


def _places(log: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    """Block and index within it; empty for a log that does not say: it is left out like one that did not come."""
    try:
        number = from_quantity(log.get("blockNumber"), "log.blockNumber")
        return ((number, from_quantity(log.get("logIndex"), "log.logIndex")),)
    except DecodeError:
        return ()
