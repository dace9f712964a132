"""Empty blocks wait while a wallet prepares a transaction.

A wallet begins a transaction at the newest block and asks for the index of a message from L1 in the newest block.  If a
block is built in between, it gives up with ``Message not in state``.  A block with a transaction cannot wait.  Empty
blocks, which bring messages in, wait until no wallet has read the state for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["READS_OF_WALLETS", "WalletReads"]

#: Methods that wallets call between starting a transaction and sending it.  Clients that only wait do not call them.
READS_OF_WALLETS: Final = (
    "node_findLeavesIndexes",
    "node_getL1ToL2MessageMembershipWitness",
    "node_getNoteHashMembershipWitness",
    "node_getNullifierMembershipWitness",
    "node_getPrivateLogsByTags",
    "node_getPublicDataWitness",
    "node_getPublicStorageAt",
    "node_simulatePublicCalls",
)
#: A wallet that has read nothing for so long has sent its transaction, or given up.
QUIET_S: Final = 1.0
#: Empty blocks wait no longer than this for reads to end.
LONGEST_S: Final = 10.0


class WalletReads:
    """Used by the thread that builds blocks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        #: Reads so far; None: they are not counted, and nothing waits for them.
        self.count: Callable[[], int] | None = None
        self._clock = clock
        self._counted = 0
        self._read_at = 0.0
        self._wanted_at: float | None = None

    def allow(self, *, is_wanted: bool) -> bool:
        """True if an empty block may be built now, if one ``is_wanted``.  Called repeatedly."""
        now = self._clock()
        counted = 0 if self.count is None else self.count()
        if counted != self._counted:
            self._counted, self._read_at = counted, now
        if not is_wanted:
            self._wanted_at = None
            return False
        if self._wanted_at is None:
            self._wanted_at = now
        is_quiet = now - max(self._read_at, self._wanted_at) >= QUIET_S
        return self.count is None or is_quiet or now - self._wanted_at >= LONGEST_S
