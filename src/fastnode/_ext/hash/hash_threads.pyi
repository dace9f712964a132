"""Hashes of long runs of field elements, computed by threads that never need the interpreter.

The hash of a transaction's 2,785 fields is one chain of permutations and takes milliseconds.  It goes on while the
transaction is looked at and executed; runs of the same length that wait for a thread are hashed together where
the kernel has lanes.
"""

from typing import Final

#: As many as there are processors, 8 at most.  They start with the first hash and stay.
THREADS: Final[int]

class PendingHash:
    """A hash that is being computed.  Usable from any thread; one that is forgotten is not computed any more."""

    @property
    def is_done(self) -> bool:
        """True if :meth:`result` comes at once."""

    def result(self) -> bytes:
        """The hash, 32 bytes, waited for without the interpreter; ValueError for an element not below the modulus.

        A thread of a higher priority than theirs hashes itself when they have finished nothing for 20 ms.
        """

def start_hash(fields: bytes) -> PendingHash:
    """Begin the hash of n elements (32 * n bytes, n from 1); the bytes are copied.

    ValueError for another length, MemoryError when there is no room for the copy or no thread can be started.
    """

def limit_threads(count: int) -> None:
    """Have so many threads, and no more than :data:`THREADS`: for a process beside others that hash too.

    Before the first hash; threads that have started stay.  ValueError below 1.
    """

def counts() -> tuple[int, int]:
    """Hashes computed since the process began, and batches they were computed in."""
