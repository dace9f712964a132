"""L1's name for a blob, from its data alone.

A commitment takes 7 to 80 ms.  Where it is known already, from the call data of a proposal, many blobs are verified
together in little more time than one of them takes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from fastnode.protocol.kzg import are_commitments, blob_commitment, versioned_hash

__all__ = ["BlobNaming"]


class BlobNaming:
    """Usable from any thread; ``at_once`` bounds the sums that are computed, each of which takes a whole core."""

    def __init__(self, at_once: int) -> None:
        self._turns = threading.BoundedSemaphore(at_once)
        #: Blobs that were verified with others, of all.
        self.together_count = 0

    def versioned_hash_of(self, blob: bytes) -> bytes:
        """ValueError when it is no blob."""
        with self._turns:
            return versioned_hash(blob_commitment(blob))

    def are_commitments(self, claims: Sequence[tuple[bytes, bytes]]) -> bool:
        """True if in each (commitment, blob) the blob is that of the commitment."""
        with self._turns:
            holds = are_commitments(claims)
        self.together_count += len(claims) if holds else 0
        return holds
