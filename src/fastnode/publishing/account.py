"""State of an account that pays on L1, and limits of watching its transactions."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.config.settings import Settings

__all__ = ["BUSY", "AccountState", "WatchLimits"]


class AccountState(enum.Enum):
    """In the order in which accounts are preferred."""

    IDLE = "idle"
    MINED = "mined"
    SPEED_UP = "speed_up"
    SENT = "sent"
    CANCELLED = "cancelled"
    NOT_MINED = "not_mined"


#: An account in one of these is not chosen while there is another one.
BUSY: Final = frozenset({AccountState.SPEED_UP, AccountState.SENT, AccountState.CANCELLED, AccountState.NOT_MINED})


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLimits:
    """Seconds: ``check_interval_s`` of the clock, all others of L1."""

    attempts_max: int = 3
    check_interval_s: float = 1.0
    stall_s: float = 12.0
    timeout_s: float = 120.0
    cancels: bool = True
    cancellation_timeout_s: float = 288.0
    unseen_s: float = 72.0

    @classmethod
    def of(cls, settings: Settings) -> WatchLimits:
        return cls(
            attempts_max=settings.l1_tx_monitor_max_attempts,
            check_interval_s=settings.l1_tx_monitor_check_interval_ms / 1000,
            stall_s=settings.l1_tx_monitor_stall_time_ms / 1000,
            timeout_s=settings.l1_tx_monitor_tx_timeout_ms / 1000,
            cancels=settings.l1_tx_monitor_cancel_tx_on_timeout,
            cancellation_timeout_s=settings.l1_tx_monitor_tx_cancellation_timeout_ms / 1000,
            unseen_s=settings.l1_tx_monitor_tx_unseen_considered_dropped_ms / 1000,
        )
