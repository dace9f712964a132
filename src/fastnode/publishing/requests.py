"""Requests for one transaction on L1, and their outcomes."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from fastnode.publishing.envelope import BlobBundle
from fastnode.publishing.multicall import Call, bundle
from fastnode.records import dataclass
from fastnode.sources.l1.abi import hex_data
from fastnode.sources.l1.propose_calls import MULTICALL3

__all__ = ["Outcome", "OutcomeKind", "Request", "Success"]


@dataclass(frozen=True, slots=True)
class Success:
    """The event that alone proves it: of a contract, with these topics (hex); None stands for any."""

    contract: bytes
    topics: tuple[str | None, ...]

    def is_in(self, logs: Iterable[Any]) -> bool:
        return any(isinstance(log, dict) and self._matches(log) for log in logs)

    def _matches(self, log: dict[str, Any]) -> bool:
        topics = log.get("topics")
        return (
            str(log.get("address")).lower() == hex_data(self.contract)
            and isinstance(topics, list)
            and len(topics) >= len(self.topics)
            and all(wanted in (None, topic) for wanted, topic in zip(self.topics, topics, strict=False))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """``what`` names it in the log (``checkpoint 7 of slot 12``).  Times are L1's, in seconds.

    ``slot_ends_at``: it is not sent at this time or later; ``give_up_at``: it is taken back then.  ``is_direct``: the
    one call is the transaction itself, without Multicall3; ``sent``: target and data of the transaction where these are
    others (:mod:`fastnode.publishing.forwarding`).
    """

    what: str
    calls: tuple[Call, ...]
    success: Success
    gas: int
    bundle: BlobBundle | None = None
    slot_ends_at: int | None = None
    give_up_at: int | None = None
    is_direct: bool = False
    sent: tuple[bytes, bytes] | None = None

    def __post_init__(self) -> None:
        if not self.calls or (self.is_direct and len(self.calls) != 1):
            raise ValueError(f"{len(self.calls)} calls in a transaction")

    @property
    def target(self) -> bytes:
        if self.sent is not None:
            return self.sent[0]
        return self.calls[0].target if self.is_direct else MULTICALL3

    @property
    def data(self) -> bytes:
        if self.sent is not None:
            return self.sent[1]
        return self.calls[0].data if self.is_direct else bundle(self.calls)


class OutcomeKind(enum.StrEnum):
    #: Mined, and the event is there.
    PUBLISHED = "published"
    #: Mined without the event: L1 refused it.
    FAILED = "failed"
    #: Not mined in time; it is taken back.
    GIVEN_UP = "given_up"
    #: L1 never took it.
    NOT_SENT = "not_sent"
    #: Another transaction of the account, not one of these, was mined in its place.
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``reason`` is a line for people.  ``fee_wei`` is what was paid in all, blobs included."""

    kind: OutcomeKind
    reason: str = ""
    tx_hash: str | None = None
    block_number: int | None = None
    gas_used: int = 0
    fee_wei: int = 0
    attempts: int = 0
    #: Hash of the transaction of an earlier request that was mined with its nonce.
    replaced_by: str | None = None
    logs: tuple[Any, ...] = field(default=(), repr=False)

    @property
    def is_published(self) -> bool:
        return self.kind is OutcomeKind.PUBLISHED
