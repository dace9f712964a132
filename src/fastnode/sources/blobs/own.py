"""Blobs that this node has published itself: kept where it finds them, whatever becomes of their blocks.

    <directory>/<versioned hash>.blob      zeros at the end left out

Other nodes do not see them.  Only the newest are kept: older ones are where those of everybody are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from fastnode.files import make_folder, put_file, sync_path
from fastnode.protocol.fields import hex_text
from fastnode.protocol.kzg import BLOB_BYTES, versioned_hash
from fastnode.sources.blobs.base import BlobRequest, BlobSourceError, GivenBlob

__all__ = ["OWN_BLOBS", "OwnBlobs"]

#: Their directory in the data directory.
OWN_BLOBS: Final = Path("publishing", "blobs")
#: 64 MiB, if all of them are full.
KEPT_MAX: Final = 512
_SUFFIX: Final = ".blob"


class OwnBlobs:
    """Usable from any thread; one at a time keeps."""

    name = "own blobs"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def check(self) -> None:
        """Always there."""

    def keep(self, blobs: Sequence[bytes], commitments: Sequence[bytes]) -> None:
        """Durable when it returns; the oldest ones go.  OSError."""
        make_folder(self._directory)
        for blob, commitment in zip(blobs, commitments, strict=True):
            put_file(self._file(versioned_hash(commitment)), blob.rstrip(b"\0"))
        sync_path(self._directory)
        kept = sorted(self._directory.glob("*" + _SUFFIX), key=lambda file: file.stat().st_mtime_ns)
        for file in kept[:-KEPT_MAX]:
            file.unlink(missing_ok=True)

    def fetch(self, request: BlobRequest) -> Iterator[GivenBlob]:
        for item in request.versioned_hashes:
            try:
                with self._file(item).open("rb") as stream:
                    yield GivenBlob(stream.read(BLOB_BYTES), item)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise BlobSourceError(error.strerror or str(error)) from error

    def _file(self, item: bytes) -> Path:
        return self._directory / (hex_text(item) + _SUFFIX)
