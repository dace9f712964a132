"""The contract registry: which classes and instances the chain has published.  Keys are drawn in ``layout.py``.

Nothing is believed: a class is kept if its id follows from its content, an instance if its address
does; what does not hold is said in the log and left out.  The contracts of the protocol come with the
genesis and always answer first.
"""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.archiver.database import Transaction
from fastnode.errors import DatabaseError
from fastnode.kernels import encode
from fastnode.logs import layout
from fastnode.logs.head import IndexHead
from fastnode.protocol.block import L2Block
from fastnode.protocol.contracts import (
    ContractClassPublic,
    ContractEvents,
    ContractInstance,
    ContractInstanceUpdate,
    contract_events,
)
from fastnode.protocol.effects import TxEffect
from fastnode.protocol.fields import hex_text

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView

__all__ = ["ContractIndexWriter", "contract_class_id_at", "contract_class_json", "contract_instance_json"]

log = logging.getLogger(__name__)

_UPDATE: Final = struct.Struct(">32s32sQ")


# ---- writing ----------------------------------------------------------------------------------


class ContractIndexWriter:
    """The index writer of contract classes, instances and updates of instances."""

    prefixes: Final = layout.CONTRACT_PREFIXES

    def __init__(self) -> None:
        self.head: Final = IndexHead("contracts", layout.CONTRACT_HEAD)

    def write(self, transaction: Transaction, block: L2Block) -> None:
        self.head.advance(transaction, block)
        for tx_index, effect in enumerate(block.body.tx_effects):
            events = contract_events(effect)
            _warn_of_rejected(events, block, effect)
            for published in events.classes:
                _put_class(transaction, block.number, published)
            for instance in events.instances:
                _put_instance(transaction, block.number, instance)
            for index, update in enumerate(events.updates):
                key = _update_key(update.address, (block.number, tx_index, index))
                value = _UPDATE.pack(update.previous_class_id, update.new_class_id, update.timestamp_of_change)
                transaction.put(key, value)

    def undo(self, transaction: Transaction, block: L2Block) -> None:
        self.head.retreat(transaction, block)
        for tx_index, effect in enumerate(block.body.tx_effects):
            events = contract_events(effect)
            for published in events.classes:
                _delete_if_of_block(transaction, layout.CONTRACT_CLASS + published.id, block.number)
            for instance in events.instances:
                _delete_if_of_block(transaction, layout.CONTRACT_INSTANCE + instance.address, block.number)
            for index, update in enumerate(events.updates):
                transaction.delete(_update_key(update.address, (block.number, tx_index, index)))


def _warn_of_rejected(events: ContractEvents, block: L2Block, effect: TxEffect) -> None:
    for reason in events.rejected:
        log.warning("block %d, transaction %s: %s; left out", block.number, hex_text(effect.tx_hash), reason)


def _put_class(transaction: Transaction, block_number: int, published: ContractClassPublic) -> None:
    """Keep a class from the first block that published it."""
    key = layout.CONTRACT_CLASS + published.id
    if transaction.get(key) is None:
        record = {"l2BlockNumber": block_number, **published.to_json()}
        transaction.put(key, layout.encode_number(block_number) + orjson.dumps(record))


def _put_instance(transaction: Transaction, block_number: int, instance: ContractInstance) -> None:
    key = layout.CONTRACT_INSTANCE + instance.address
    if transaction.get(key) is None:
        transaction.put(key, layout.encode_number(block_number) + orjson.dumps(instance.to_json()))


def _delete_if_of_block(transaction: Transaction, key: bytes, block_number: int) -> None:
    value = transaction.get(key)
    if value is not None and layout.decode_number(value[: layout.BLOCK_BYTES]) == block_number:
        transaction.delete(key)


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


def contract_instance_json(chain: ChainView, address: bytes) -> bytes | None:
    """ContractInstanceWithAddress; its current class is the one at the newest block's timestamp."""
    stored = _stored_instance(chain, address)
    update = None if stored is None else _newest_update(chain, address)
    if stored is None or update is None:
        return stored
    instance: dict[str, Any] = orjson.loads(stored)
    original = encode.from_hex(instance["originalContractClassId"])
    instance["currentContractClassId"] = hex_text(update.class_id_at(_now(chain), original))
    return orjson.dumps(instance)


def contract_class_id_at(chain: ChainView, address: bytes, timestamp: int) -> bytes | None:
    """Class of the contract at ``address`` at a time not before the newest block; None: no such contract."""
    stored = _stored_instance(chain, address)
    if stored is None:
        return None
    original = encode.from_hex(orjson.loads(stored)["originalContractClassId"])
    update = _newest_update(chain, address)
    return original if update is None else update.class_id_at(timestamp, original)


def _stored_instance(chain: ChainView, address: bytes) -> bytes | None:
    genesis = chain.contract_instance_json(address)
    if genesis is not None:
        return genesis
    value = chain.get(layout.CONTRACT_INSTANCE + address)
    return None if value is None else value[layout.BLOCK_BYTES :]


def _newest_update(chain: ChainView, address: bytes) -> ContractInstanceUpdate | None:
    start = layout.INSTANCE_UPDATE + address
    for _, value in chain.scan(start, start + b"\xff" * layout.POSITION_BYTES + b"\0"):
        return ContractInstanceUpdate(address, *_UPDATE.unpack(value))
    return None


def _now(chain: ChainView) -> int:
    block = chain.block_info(chain.tip_number)
    if block is None:
        raise DatabaseError(f"block {chain.tip_number} is missing from the chain database")
    return block.timestamp
