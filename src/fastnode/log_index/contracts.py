"""The contract registry: which classes and instances the chain has published.  Keys are drawn in ``layout.py``.

Nothing is believed: a class is kept if its id follows from its content, an instance if its address
does; what does not hold is said in the log and left out.  The contracts of the protocol come with the
genesis and always answer first.
"""

from __future__ import annotations

import logging
import struct
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.archiver.queries import stored_info
from fastnode.kernels import encode
from fastnode.log_index import layout
from fastnode.log_index.head import IndexHead
from fastnode.protocol.block import L2Block
from fastnode.protocol.contracts import ContractInstanceUpdate, contract_events
from fastnode.protocol.fields import hex_text
from fastnode.protocol.releases import Release
from fastnode.records import dataclass
from fastnode.storage.database import WriteBatch

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = [
    "ContractEntries",
    "ContractIndexWriter",
    "contract_class_id_at",
    "contract_class_json",
    "contract_entries",
    "contract_instance_json",
]

log = logging.getLogger(__name__)

_UPDATE: Final = struct.Struct(">32s32sQ")


# ---- writing ----------------------------------------------------------------------------------


class ContractIndexWriter:
    """The index writer of contract classes, instances and updates of instances."""

    prefixes: Final = layout.CONTRACT_PREFIXES

    def __init__(self) -> None:
        self.head: Final = IndexHead("contracts", layout.CONTRACT_HEAD)
        self._release: Release | None = None

    @property
    def release(self) -> Release:
        """Release of the chain, whose layouts its logs have; set before the first block comes."""
        assert self._release is not None
        return self._release

    @release.setter
    def release(self, release: Release) -> None:
        self._release = release

    def write(self, batch: WriteBatch, block: L2Block) -> None:
        self.head.advance(batch, block)
        entries = contract_entries(block, self.release)
        for reason in entries.rejected:
            log.warning("block %d, %s; left out", block.number, reason)
        for key, value in entries.published:
            # A contract that is published again keeps the block that published it first.
            if batch.get(key) is None:
                batch.put(key, value)
        for key, value in entries.updates:
            batch.put(key, value)

    def undo(self, batch: WriteBatch, block: L2Block) -> None:
        self.head.retreat(batch, block)
        entries = contract_entries(block, self.release)
        for key, value in entries.published:
            if batch.get(key) == value:
                batch.delete(key)
        for key, _ in entries.updates:
            batch.delete(key)

    def prune(self, _batch: WriteBatch, _block: L2Block) -> int:
        """Keep everything: contracts are asked for long after their publication."""
        return 0

    def renew(self, _batch: WriteBatch, _key: bytes, _stored: bytes) -> int:
        """Nothing: none of its entries has had another form."""
        return 0


@dataclass(slots=True)
class ContractEntries:
    """Additions of a block: keys and values of classes and instances, of updates, and which events did not hold."""

    published: list[tuple[bytes, bytes]] = field(default_factory=list)
    updates: list[tuple[bytes, bytes]] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)


def contract_entries(block: L2Block, release: Release) -> ContractEntries:
    """Everything that the contract events of a block of the release add to the registry, also what is there already."""
    entries = ContractEntries()
    number = layout.encode_number(block.number)
    for tx_index, effect in enumerate(block.body.tx_effects):
        events = contract_events(effect, release)
        for published in events.classes:
            record = {"l2BlockNumber": block.number, **published.to_json()}
            entries.published.append((layout.CONTRACT_CLASS + published.id, number + orjson.dumps(record)))
        for instance in events.instances:
            key = layout.CONTRACT_INSTANCE + instance.address
            entries.published.append((key, number + orjson.dumps(instance.to_json())))
        for index, update in enumerate(events.updates):
            key = _update_key(update.address, (block.number, tx_index, index))
            entries.updates.append((key, _encode_update(update)))
        entries.rejected += [f"transaction {hex_text(effect.tx_hash)}: {reason}" for reason in events.rejected]
    return entries


def _encode_update(update: ContractInstanceUpdate) -> bytes:
    return _UPDATE.pack(update.previous_class_id, update.new_class_id, update.timestamp_of_change)


def _update_key(address: bytes, position: layout.Position) -> bytes:
    return layout.inverted_position_key(layout.INSTANCE_UPDATE + address, position)


# ---- reading ----------------------------------------------------------------------------------


def contract_class_json(chain: ChainView, class_id: bytes) -> bytes | None:
    """ContractClassPublic, with the number of the block that published it (0: genesis)."""
    genesis = chain.contract_class_json(class_id)
    if genesis is not None:
        return genesis
    value = chain.get(layout.CONTRACT_CLASS + class_id)
    return None if value is None else value[layout.BLOCK_BYTES :]


def contract_instance_json(chain: ChainView, address: bytes, block: int | None = None) -> bytes | None:
    """ContractInstanceWithAddress; its current class is the one at the timestamp of a block that is there; None: of
    the newest."""
    stored = _stored_instance(chain, address)
    block = chain.tip_number if block is None else block
    update = None if stored is None else _newest_update(chain, address, block)
    if stored is None or update is None:
        return stored
    instance: dict[str, Any] = orjson.loads(stored)
    original = encode.from_hex(instance["originalContractClassId"])
    instance["currentContractClassId"] = hex_text(update.class_id_at(stored_info(chain, block).timestamp, original))
    return orjson.dumps(instance)


def contract_class_id_at(chain: ChainView, address: bytes, timestamp: int) -> bytes | None:
    """Class of the contract at ``address`` at a time not before the newest block; None: no such contract."""
    stored = _stored_instance(chain, address)
    if stored is None:
        return None
    original = encode.from_hex(orjson.loads(stored)["originalContractClassId"])
    update = _newest_update(chain, address, chain.tip_number)
    return original if update is None else update.class_id_at(timestamp, original)


def _stored_instance(chain: ChainView, address: bytes) -> bytes | None:
    genesis = chain.contract_instance_json(address)
    if genesis is not None:
        return genesis
    value = chain.get(layout.CONTRACT_INSTANCE + address)
    return None if value is None else value[layout.BLOCK_BYTES :]


def _newest_update(chain: ChainView, address: bytes, block: int) -> ContractInstanceUpdate | None:
    """The newest update up to and with a block."""
    key = layout.INSTANCE_UPDATE + address
    start = layout.inverted_position_key(key, (block, layout.INDEX_MAX, layout.INDEX_MAX))
    for _, value in chain.scan(start, key + b"\xff" * layout.POSITION_BYTES + b"\0"):
        return ContractInstanceUpdate(address, *_UPDATE.unpack(value))
    return None
