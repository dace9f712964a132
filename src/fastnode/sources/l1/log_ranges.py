"""Logs of a contract over a range of L1 blocks, in pieces that the provider grants.

Providers limit the blocks of a question, the logs of an answer, or its bytes, each with its own error.  So a
question that is refused is asked again for half as many blocks, and one that is granted lets the pieces grow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fastnode.errors import DecodeError, UpstreamFault, UpstreamRejection, UpstreamUnavailable
from fastnode.sources.l1.abi import from_quantity, hex_data, quantity
from fastnode.sources.l1.endpoints import L1Endpoint

__all__ = ["LogRanges"]

BLOCKS_FIRST: Final = 2_000
BLOCKS_MAX: Final = 100_000
#: An answer with more logs than this does not let the pieces grow.
LOGS_WANTED: Final = 1_000


class LogRanges:
    """Reads the logs of one event (its first topic) of one contract; remembers how many blocks a question may span."""

    def __init__(self, contract: bytes, topic: str, blocks_first: int = BLOCKS_FIRST) -> None:
        self._contract = hex_data(contract)
        self._topic = topic
        self._blocks = min(blocks_first, BLOCKS_MAX)

    def read(self, endpoint: L1Endpoint, first: int, last: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """(last block of a piece, its logs in chain order), until ``last``.  UpstreamError, DecodeError."""
        while first <= last:
            end = min(last, first + self._blocks - 1)
            try:
                logs = self._ask(endpoint, first, end)
            except (UpstreamRejection, UpstreamFault):
                if end == first:
                    raise
                self._blocks = (end - first + 1) // 2
                continue
            except UpstreamUnavailable:
                # It may have been too much for it.
                self._blocks = max(1, self._blocks // 2)
                raise
            yield end, logs
            first = end + 1
            if len(logs) < LOGS_WANTED:
                self._blocks = min(self._blocks * 2, BLOCKS_MAX)

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
