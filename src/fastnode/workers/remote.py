"""Stand-ins in a worker for the parts that only the primary has: each question is a call over the link."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fastnode.errors import UpstreamUnavailable
from fastnode.log_index.function_names import FunctionNames
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.pool import Added
from fastnode.workers.link import Link

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.protocol.tx import Tx

__all__ = [
    "RemoteNames",
    "RemotePool",
    "RemoteQuestions",
    "RemoteSentinel",
    "RemoteSimulator",
    "ask_fleet_over",
    "message_index_over",
    "outbox_roots_over",
]

#: Seconds that another node's answer is kept here, against floods; in the primary it is as old as it may be.
_KEPT_S: Final = 0.2
_ANSWERS_KEPT: Final = 256


class RemotePool:
    """The pool that decides; set ``link`` before it is asked."""

    link: Link

    def insert(self, entry: PoolEntry, tx_json: bytes) -> Added:
        return Added(self.link.ask("insert", entry.hash, entry.encode(), tx_json))

    def consider(self, entry: PoolEntry) -> Added:
        return Added(self.link.ask("consider", entry.hash, entry.encode()))

    def ask(self, tx_json: bytes) -> None:
        self.link.ask("hand on", tx_json)


class RemoteQuestions:
    """Hands questions on; the primary keeps what was answered."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._kept: dict[tuple[str, str], tuple[float, Any]] = {}

    def ask_cached(self, method: str, parameters: Sequence[Any], max_age_s: float) -> Any:
        key, now = (method, repr(parameters)), time.monotonic()
        kept = self._kept.get(key)
        if kept is not None and now - kept[0] < min(_KEPT_S, max_age_s):
            return kept[1]
        answer = self._link.ask("question", method, list(parameters), max_age_s)
        if len(self._kept) >= _ANSWERS_KEPT:
            self._kept.clear()
        self._kept[key] = now, answer
        return answer


class RemoteSentinel:
    """The statistics of validators, as of the primary's newest block."""

    def __init__(self, link: Link, history_epochs: int) -> None:
        self._link = link
        self.history_epochs = history_epochs

    def validators_stats(self, _chain: ChainView) -> Any:
        return self._link.ask("validators stats")

    def validator_stats(self, _chain: ChainView, address: bytes, from_slot: int | None, to_slot: int | None) -> Any:
        return self.stats_of_validators(_chain, [address], from_slot, to_slot)[0]

    def stats_of_validators(
        self, _chain: ChainView, addresses: Sequence[bytes], from_slot: int | None, to_slot: int | None
    ) -> Any:
        return self._link.ask("stats of validators", list(addresses), from_slot, to_slot)


class RemoteSimulator:
    """Simulator over the link, where simulations are another node's work."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def simulate(self, tx: Tx, *, skip_fee_enforcement: bool) -> bytes:
        found: bytes = self._link.ask("simulate", tx.to_json_bytes(), skip_fee_enforcement)
        return found


class RemoteNames(FunctionNames):
    """Names that a client registers here are told to the primary, which tells all workers."""

    def __init__(self) -> None:
        super().__init__()
        self.link: Link | None = None

    def register(self, signature: str) -> None:
        super().register(signature)
        if self.link is not None:
            self.link.tell("register", signature)

    def learn(self, signature: str) -> None:
        """The primary has told it."""
        super().register(signature)


class RemoteStanding(NamedTuple):
    """Standing of a transaction in the fleet, as the primary tells it."""

    is_pending: bool
    reason: str


def ask_fleet_over(link: Link) -> Callable[[bytes], RemoteStanding | None]:
    def ask(tx_hash: bytes) -> RemoteStanding | None:
        is_answered, standing = link.ask("standing in the fleet", tx_hash)
        if not is_answered:
            raise UpstreamUnavailable("the bus does not answer")
        return None if standing is None else RemoteStanding(*standing)

    return ask


def message_index_over(link: Link) -> Callable[[bytes], int | None]:
    """MessageIndex (api/chain.py)."""

    def message_index(message: bytes) -> int | None:
        index: int | None = link.ask("message index", message)
        return index

    return message_index


def outbox_roots_over(link: Link) -> Any:
    """OutboxRoots (api/outbox_witness.py)."""

    def outbox_roots(epoch: int) -> list[bytes]:
        is_there, content = link.ask("outbox roots", epoch)
        if not is_there:
            raise UpstreamUnavailable(content)
        return [bytes(root) for root in content]

    return outbox_roots
