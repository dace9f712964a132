"""Streams and subjects of the bus.

Three streams for each rollup, and one bucket of values, named by the chain id of L1 and the rollup's version:

    fastnode-31337-1                        blocks; each subject keeps its newest message
      <stream>.at.<publisher>               where a publisher's chain is: tips, fees, genesis; again every two seconds
      <stream>.chain.<publisher>.c<number>  which content is its checkpoint of this number
      <stream>.chain.<publisher>.b<number>  which content has its block of this number
      <stream>.content.<digest>.<part>      a record in the form of a chain file, in parts that the bus takes; the
                                            digest is its id, so what two publishers give alike is stored once
    fastnode-31337-1-txs                    transactions
      <stream>.tx.<hash>                    one that a node has taken
      <stream>.hand.<hash>                  who hands it on, and what came of it
    LEAVES_fastnode-31337-1                 snapshots of leaves: bus/folder.py
    KV_fastnode-31337-1                     who holds the lease of handing on, and the nodes' own words of themselves

A digest binds a content to what refers to it.  What it says about the chain is checked like everything that comes from
outside.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import orjson

from fastnode.errors import UpstreamFault
from fastnode.records import dataclass

__all__ = ["BUS_VERSION", "PREFIX", "Reference", "Subjects", "digest_of", "read_versioned"]

#: Version of everything that is written here.  A node that meets another one says so and takes nothing from there.
BUS_VERSION: Final = 1
PREFIX: Final = "fastnode-"
_DIGEST_HEX: Final = 32
_LIVE: Final = "fastnode-live"


@dataclass(frozen=True, slots=True)
class Subjects:
    """Subjects of one rollup.  ``stream`` is the name of its stream of blocks."""

    stream: str

    @classmethod
    def of(cls, node_info: dict[str, Any]) -> Subjects:
        return cls(f"{PREFIX}{int(node_info['l1ChainId'])}-{int(node_info['rollupVersion'])}")

    # ---- blocks ----------------------------------------------------------------------------------

    @property
    def all_blocks(self) -> str:
        return f"{self.stream}.>"

    @property
    def live_blocks(self) -> str:
        """Subject under which stored messages are told, with what follows the stream's name behind it."""
        return f"{_LIVE}.{self.stream}"

    @property
    def all_at(self) -> str:
        return f"{self.stream}.at.*"

    def at(self, publisher: str) -> str:
        return f"{self.stream}.at.{publisher}"

    def checkpoint(self, publisher: str, number: int) -> str:
        return f"{self.stream}.chain.{publisher}.c{number}"

    def block(self, publisher: str, number: int) -> str:
        return f"{self.stream}.chain.{publisher}.b{number}"

    def all_of(self, publisher: str) -> str:
        """Its checkpoints and blocks."""
        return f"{self.stream}.chain.{publisher}.*"

    def content(self, digest: str, part: int) -> str:
        return f"{self.stream}.content.{digest}.{part}"

    # ---- transactions ----------------------------------------------------------------------------

    @property
    def tx_stream(self) -> str:
        return f"{self.stream}-txs"

    @property
    def live_txs(self) -> str:
        return f"{_LIVE}.{self.tx_stream}"

    @property
    def all_txs(self) -> str:
        return f"{self.tx_stream}.>"

    def tx(self, tx_hash: bytes) -> str:
        return f"{self.tx_stream}.tx.{tx_hash.hex()}"

    def hand(self, tx_hash: bytes) -> str:
        return f"{self.tx_stream}.hand.{tx_hash.hex()}"

    # ---- leaves ----------------------------------------------------------------------------------

    @property
    def leaf_stream(self) -> str:
        """Without the prefix: a replica that knows no such stream must not take it for that of a rollup."""
        return f"LEAVES_{self.stream}"

    @property
    def all_leaves(self) -> str:
        return f"{self.leaf_stream}.>"

    def leaves(self, publisher: str) -> str:
        """Beginning of the subjects of its files."""
        return f"{self.leaf_stream}.leaves.{publisher}"

    # ---- values ----------------------------------------------------------------------------------

    @property
    def bucket(self) -> str:
        """Name of the key-value store's stream."""
        return f"KV_{self.stream}"

    @property
    def all_values(self) -> str:
        return f"$KV.{self.stream}.>"

    def value(self, key: str) -> str:
        return f"$KV.{self.stream}.{key}"


@dataclass(frozen=True, slots=True)
class Reference:
    """A content: its digest, in how many parts it lies there, and how large it is.

    ``index``: which of the blocks of that checkpoint is meant; None: all of it.  ``hash`` of the block that is meant,
    or of the header of the checkpoint.
    """

    digest: str
    parts: int
    size: int
    hash: str
    index: int | None = None

    def encode(self) -> bytes:
        value = {"digest": self.digest, "parts": self.parts, "size": self.size, "hash": self.hash}
        if self.index is not None:
            value["index"] = self.index
        return orjson.dumps({"version": BUS_VERSION} | value)

    @classmethod
    def of(cls, value: object) -> Reference:
        """UpstreamFault for what is none."""
        record = value if isinstance(value, dict) else {}
        index, digest = record.get("index"), record.get("digest")
        numbers = [record.get("parts"), record.get("size"), 0 if index is None else index]
        if (
            not isinstance(digest, str)
            or len(digest) != _DIGEST_HEX
            or not digest.isalnum()
            or not isinstance(record.get("hash"), str)
            or any(type(number) is not int or number < 0 for number in numbers)
        ):
            raise UpstreamFault("a reference on the bus makes no sense")
        return cls(digest, record["parts"], record["size"], record["hash"], index)


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:_DIGEST_HEX]


def read_versioned(data: bytes, what: str) -> dict[str, Any]:
    """A JSON object of the version that this release knows; UpstreamFault."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise UpstreamFault(f"{what} on the bus is not JSON") from None
    if not isinstance(value, dict):
        raise UpstreamFault(f"{what} on the bus is no record")
    if value.get("version") != BUS_VERSION:
        raise UpstreamFault(f"{what} on the bus has version {value.get('version')!r}, this release knows {BUS_VERSION}")
    return value
