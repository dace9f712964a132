"""L1's name for a blob, from its data: by the commitment to it, or by a proof that a commitment is its own.

A commitment takes 7 to 80 ms, a look at a proof 3 ms, and the first one 2 s for the library's setup.  So proofs count
while a long chain is derived, from the blob on that pays for the setup; near the tip, and where a source gives none,
the commitment is computed.  A proof is only a short way: where it does not hold, the commitment is computed too.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Final

from fastnode.protocol.kzg import blob_commitment, versioned_hash
from fastnode.protocol.kzg_proofs import is_proof_of
from fastnode.sources.blobs.base import GivenBlob

__all__ = ["BlobNaming"]

#: Bytes of blobs with proofs whose commitments are computed first, in about the time that the setup takes.
_BYTES_FIRST: Final = 16 * 131_072


class BlobNaming:
    """Usable from any thread; ``at_once`` bounds the blobs that are looked at, each of which takes a whole core."""

    def __init__(self, at_once: int) -> None:
        self._turns = threading.BoundedSemaphore(at_once)
        self._bytes_first = _BYTES_FIRST
        #: Blobs that were named by a proof, of all.
        self.proof_count = 0

    def versioned_hash_of(self, blob: GivenBlob, wanted: Collection[bytes], *, near_tip: bool) -> bytes:
        """ValueError when the data are no blob; ``wanted``: names that are asked for."""
        with self._turns:
            named = None if near_tip else self._by_proof(blob, wanted)
            return versioned_hash(blob_commitment(blob.data)) if named is None else named

    def _by_proof(self, blob: GivenBlob, wanted: Collection[bytes]) -> bytes | None:
        if blob.commitment is None or blob.proof is None:
            return None
        name = versioned_hash(blob.commitment)
        if name not in wanted:
            return None
        if self._bytes_first > 0:
            self._bytes_first -= len(blob.data)
            return None
        try:
            holds = is_proof_of(blob.data, blob.commitment, blob.proof)
        except ValueError:
            return None
        self.proof_count += holds
        return name if holds else None
