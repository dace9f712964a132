"""When nothing is built under a wallet's hands.

A wallet begins a transaction at the newest block and asks for the place of a message from L1 in the newest block: in
between nobody may build one, or it gives up with ``Message not in state``.  A block that has a transaction cannot wait.
The empty ones that bring messages in can: until no wallet has read the state for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

__all__ = ["READS_OF_WALLETS", "WalletReads"]

#: What wallets call from the begin of a transaction to its sending, and those who only wait for something do not.
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
#: Empty blocks wait no longer than this, whoever reads.
LONGEST_S: Final = 10.0


class WalletReads:
    """Used by the thread that builds blocks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        #: How many reads there have been; None: nobody counts them, and nothing is waited for.
        self.count: Callable[[], int] | None = None
        self._clock = clock
        self._counted = 0
        self._read_at = 0.0
        self._wanted_at: float | None = None

    def allow(self, *, is_wanted: bool) -> bool:
        """Whether an empty block may be built now, if one ``is_wanted``.  To be asked every now and then."""
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
