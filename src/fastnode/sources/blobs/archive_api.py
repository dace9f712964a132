"""A blob archive with the interface of Blobscan: blobs of any age, by the hash of the L1 block.

GET <base>/blocks/<hash>?type=canonical&expand=blob,blob_data
    transactions: [{blobs: [{versionedHash, data}, ..]}, ..]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastnode.errors import DecodeError
from fastnode.protocol.fields import hex_text
from fastnode.sources.blobs.base import BlobRequest, BlobSourceError, GivenBlob, blob_from_hex
from fastnode.sources.blobs.http_get import HttpGet

__all__ = ["BlobArchive"]


class BlobArchive:
    """``url`` is the base of its API."""

    def __init__(self, url: str, http: HttpGet, name: str) -> None:
        self.name = name
        self._base = url.rstrip("/")
        self._http = http

    def check(self) -> None:
        newest = (("sort", "desc"), ("type", "canonical"), ("p", "1"), ("ps", "1"))
        if self._http.json(f"{self._base}/blocks", {}, newest) is None:
            raise BlobSourceError("it has no blocks")

    def fetch(self, request: BlobRequest) -> Iterator[GivenBlob]:
        wanted = {hex_text(item): item for item in request.versioned_hashes}
        url = f"{self._base}/blocks/{hex_text(request.block_hash)}"
        answer = self._http.json(url, {}, (("type", "canonical"), ("expand", "blob,blob_data")))
        for transaction in _records(answer, "transactions"):
            for item in _records(transaction, "blobs"):
                said_to_be = item.get("versionedHash")
                if isinstance(said_to_be, str) and said_to_be in wanted:
                    yield GivenBlob(_blob(item.get("data")), wanted[said_to_be])


def _records(value: Any, key: str) -> list[dict[str, Any]]:
    items = value.get(key) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _blob(value: Any) -> bytes:
    try:
        return blob_from_hex(value)
    except DecodeError as error:
        raise BlobSourceError(f"it gives {error}") from error
