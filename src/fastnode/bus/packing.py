"""Form of a transaction on the bus: its JSON, compressed where that is large."""

from __future__ import annotations

import zlib
from typing import Final

import orjson

from fastnode.errors import UpstreamFault
from fastnode.protocol.releases import Release
from fastnode.protocol.tx import Tx

__all__ = ["packed_tx", "read_tx", "unpacked_tx"]

#: Larger ones are compressed; a message may have a megabyte where servers are not told otherwise.
PLAIN_BYTES_MAX: Final = 256 << 10
JSON_BYTES_MAX: Final = 16 << 20


def packed_tx(tx_json: bytes) -> bytes:
    return tx_json if len(tx_json) <= PLAIN_BYTES_MAX else zlib.compress(tx_json, 1)


def unpacked_tx(data: bytes) -> bytes:
    """The JSON.  UpstreamFault, zlib.error."""
    if data[:1] == b"{":
        return data
    inflater = zlib.decompressobj()
    text = inflater.decompress(data, JSON_BYTES_MAX)
    if not inflater.eof:
        raise UpstreamFault(f"a transaction takes more than {JSON_BYTES_MAX} bytes")
    return text


def read_tx(tx_hash: bytes, data: bytes, release: Release) -> Tx:
    """The transaction of a message; its subject says the hash.  UpstreamFault, DecodeError, ValueError, zlib.error."""
    tx = Tx.from_json(orjson.loads(unpacked_tx(data)), release, "tx")
    if tx.hash != tx_hash:
        raise UpstreamFault("a transaction has another hash than its subject says")
    return tx
