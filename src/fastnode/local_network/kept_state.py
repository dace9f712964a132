"""State of a local network beside its chain: the clock, how it mines, snapshots, open messages.

One small JSON file in the data directory, replaced as a whole, with a checksum behind it (``fastnode.files``; older
nodes left that out, as version 1).  It is written before the block that depends on it, so that after a crash the chain
may lack a block, but never the other way round.
"""

from __future__ import annotations

import errno
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import orjson

from fastnode.errors import DatabaseFull, DatabaseUnwritable, DataDirectoryError
from fastnode.files import read_checked_file, replace_checked_file, system_reason
from fastnode.kernels import encode
from fastnode.local_network.clock import ChainTime
from fastnode.local_network.fees import ETH_PER_FEE_ASSET
from fastnode.protocol.fees import L1Fees
from fastnode.records import dataclass

__all__ = ["FILE_NAME", "KeptState", "OpenMessage", "SnapshotRecord", "StateFile"]

FILE_NAME: Final = "local_network.json"
FORMAT_VERSION: Final = 2
_VERSION_UNCHECKED: Final = 1


@dataclass(frozen=True, slots=True)
class OpenMessage:
    """A message from L1 that no checkpoint has taken yet; its hash follows from the place that it gets there."""

    sender: bytes
    recipient: bytes
    content: bytes
    secret_hash: bytes

    def to_json(self) -> list[str]:
        return [item.hex() for item in (self.sender, self.recipient, self.content, self.secret_hash)]

    @classmethod
    def from_json(cls, record: list[str]) -> OpenMessage:
        return cls(*[bytes.fromhex(item) for item in record])


@dataclass(frozen=True, slots=True)
class SnapshotRecord:
    """A place to return to: the newest block then, the clock, what was pending, what messages were open."""

    number: int
    block: int
    block_hash: bytes
    time: ChainTime
    pending: tuple[bytes, ...]  # transactions as JSON
    messages: tuple[OpenMessage, ...]
    consumed: tuple[tuple[int, int], ...]
    #: Id of an attached L1's own snapshot of the same moment.
    l1: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "block": self.block,
            "blockHash": self.block_hash.hex(),
            "time": self.time.to_json(),
            "pending": [orjson.Fragment(item) for item in self.pending],
            "messages": [message.to_json() for message in self.messages],
            "consumed": [[epoch, str(leaf)] for epoch, leaf in self.consumed],
            "l1": self.l1,
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> SnapshotRecord:
        return cls(
            number=record["number"],
            block=record["block"],
            block_hash=encode.from_hex("0x" + record["blockHash"]),
            time=ChainTime.from_json(record["time"]),
            pending=tuple(orjson.dumps(item) for item in record["pending"]),
            messages=tuple(OpenMessage.from_json(item) for item in record["messages"]),
            # Older nodes wrote numbers.
            consumed=tuple((epoch, int(leaf)) for epoch, leaf in record["consumed"]),
            l1=record.get("l1"),
        )


@dataclass(slots=True)
class KeptState:
    """The values; see the names."""

    time: ChainTime = field(default_factory=ChainTime)
    automine: bool | None = None  # None: as the settings say
    interval_s: float | None = None
    coinbase: bytes | None = None
    fixed_fee: int | None = None
    l1_fees: L1Fees | None = None
    #: Price of the fee asset, in 1e-12 ETH; None: a new network's, as the settings say.
    eth_per_fee_asset: int | None = None
    snapshots: list[SnapshotRecord] = field(default_factory=list)
    snapshot_count: int = 0
    messages: list[OpenMessage] = field(default_factory=list)
    #: (epoch, leaf id) of messages to L1 that were consumed there.
    consumed: set[tuple[int, int]] = field(default_factory=set)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": FORMAT_VERSION,
            "time": self.time.to_json(),
            "automine": self.automine,
            "intervalS": self.interval_s,
            "coinbase": None if self.coinbase is None else self.coinbase.hex(),
            "fixedFee": None if self.fixed_fee is None else str(self.fixed_fee),
            "l1Fees": None if self.l1_fees is None else [str(fee) for fee in self.l1_fees],
            "ethPerFeeAsset": self.eth_per_fee_asset,
            "snapshots": [snapshot.to_json() for snapshot in self.snapshots],
            "snapshotCount": self.snapshot_count,
            "messages": [message.to_json() for message in self.messages],
            "consumed": sorted([epoch, str(leaf)] for epoch, leaf in self.consumed),
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> KeptState:
        """KeyError, TypeError or ValueError for anything that :meth:`to_json` does not produce."""
        if record["version"] not in (_VERSION_UNCHECKED, FORMAT_VERSION):
            raise ValueError(f"it is of version {record['version']}, this node reads up to {FORMAT_VERSION}")
        coinbase, fee, fees = record["coinbase"], record["fixedFee"], record["l1Fees"]
        return cls(
            time=ChainTime.from_json(record["time"]),
            automine=record["automine"],
            interval_s=record["intervalS"],
            coinbase=None if coinbase is None else bytes.fromhex(coinbase),
            fixed_fee=None if fee is None else int(fee),
            l1_fees=None if fees is None else L1Fees(*map(int, fees)),
            # Older nodes had no other price.
            eth_per_fee_asset=record.get("ethPerFeeAsset", ETH_PER_FEE_ASSET),
            snapshots=[SnapshotRecord.from_json(item) for item in record["snapshots"]],
            snapshot_count=record["snapshotCount"],
            messages=[OpenMessage.from_json(item) for item in record["messages"]],
            consumed={(epoch, int(leaf)) for epoch, leaf in record["consumed"]},
        )


class StateFile:
    """Reads and replaces the file.  DataDirectoryError says what is wrong with its content."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._written: bytes | None = None

    @property
    def exists(self) -> bool:
        return self._path.exists()

    def read(self) -> KeptState:
        """Read the kept state; the values of a new network if there is no file."""
        try:
            return KeptState.from_json(orjson.loads(self._content()))
        except FileNotFoundError:
            return KeptState()
        except OSError as error:
            raise DataDirectoryError(f"{self._path} cannot be read: {system_reason(self._path, error)}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise DataDirectoryError(
                f"{self._path} cannot be used ({error}); put it back from a backup, or begin in another data directory "
                f"with a copy of the chain (--fork-from {self._path.parent})"
            ) from error

    def _content(self) -> bytes:
        try:
            self._written = read_checked_file(self._path)
        except ValueError:
            whole = self._path.read_bytes()
            if not whole.endswith(b"}") or orjson.loads(whole)["version"] != _VERSION_UNCHECKED:
                raise
            return whole
        return self._written

    def write(self, state: KeptState) -> None:
        """Replace the file if it would differ.  DatabaseFull or DatabaseUnwritable: it is as it was."""
        text = orjson.dumps(state.to_json())
        if text == self._written:
            return
        try:
            replace_checked_file(self._path, text)
        except OSError as error:
            kind = DatabaseFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else DatabaseUnwritable
            raise kind(f"{self._path} cannot be written: {system_reason(self._path, error)}") from error
        self._written = text
