"""A ledger made from the records of a chain, without databases: what the pool's rules ask, in plain dictionaries."""

from __future__ import annotations

import functools
import lzma
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from fastnode.mempool.ledger import balance_slot
from fastnode.protocol.block import L2Block
from fastnode.protocol.contracts import contract_events
from fastnode.protocol.header import BlockHeader
from fastnode.protocol.releases import FOUR

SAMPLE_CHAIN = Path(__file__).parents[2] / "src" / "fastnode" / "data" / "sample_chain.jsonl.xz"

#: A moment at which the recorded answers hold: shortly after block 106.
RECORDED_NOW = 1795313233
MIN_L2_FEE = 10_300_000


@dataclass(frozen=True)
class AllowedCall:
    """A setup allow list entry."""

    selector: bytes
    address: bytes | None = None
    class_id: bytes | None = None
    calldata_length: int | None = None
    only_self: bool = False
    reject_null_msg_sender: bool = False


#: Class of the token contract on the recorded network, whose operator allowed two of its functions.
TOKEN_CLASS = bytes.fromhex("01efe16b55107894e6b6fb63cebc1a3233e23bbcd648fd9cdf6c0351749ce7ee")


def recorded_allow_list() -> list[AllowedCall]:
    """Calls that the recorded network allows in setup: release 4.1.2's three entries and the operator's two."""
    registry, fee_juice = (1).to_bytes(32, "big"), (5).to_bytes(32, "big")
    return [
        AllowedCall(bytes.fromhex("61966b7c"), registry, None, 4, only_self=True, reject_null_msg_sender=True),
        AllowedCall(bytes.fromhex("b839de91"), registry, None, 3, reject_null_msg_sender=True),
        AllowedCall(bytes.fromhex("e7f045ff"), fee_juice, None, 3, only_self=True),
        AllowedCall(bytes.fromhex("e7f045ff"), None, TOKEN_CLASS, 3, only_self=True),
        AllowedCall(bytes.fromhex("8c9e5472"), None, TOKEN_CLASS, 5),
    ]


@dataclass
class BookLedger:
    """The ledger's answers, kept in sets and dictionaries."""

    head: int = 0
    blocks: set[bytes] = field(default_factory=set)
    nullifiers: set[bytes] = field(default_factory=set)
    public_data: dict[bytes, int] = field(default_factory=dict)
    txs: dict[bytes, int] = field(default_factory=dict)
    classes: dict[bytes, bytes] = field(default_factory=dict)

    def knows_block(self, block_hash: bytes) -> bool:
        return block_hash in self.blocks

    def any_nullifier_exists(self, nullifiers: Sequence[bytes]) -> bool:
        return not self.nullifiers.isdisjoint(nullifiers)

    def fee_juice_balance(self, address: bytes) -> int:
        return self.public_data.get(balance_slot(address, FOUR.addresses.fee_juice), 0)

    def block_of_tx(self, tx_hash: bytes) -> int | None:
        return self.txs.get(tx_hash)

    def contract_class_id(self, address: bytes, timestamp: int) -> bytes | None:
        return self.classes.get(address)

    # ---- writing -----------------------------------------------------------------------------

    def set_balance(self, address: bytes, amount: int) -> None:
        self.public_data[balance_slot(address, FOUR.addresses.fee_juice)] = amount

    def apply(self, block: L2Block) -> None:
        self.head = block.number
        self.blocks.add(block.hash())
        for effect in block.body.tx_effects:
            self.txs[effect.tx_hash] = block.number
            self.nullifiers.update(effect.nullifiers)
            for write in effect.public_data_writes:
                self.public_data[write.leaf_slot] = int.from_bytes(write.value, "big")
            for instance in contract_events(effect, FOUR).instances:
                self.classes[instance.address] = instance.original_contract_class_id

    def copy(self) -> BookLedger:
        return BookLedger(
            self.head,
            set(self.blocks),
            set(self.nullifiers),
            dict(self.public_data),
            dict(self.txs),
            dict(self.classes),
        )


@functools.cache
def chain_records() -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in lzma.decompress(SAMPLE_CHAIN.read_bytes()).splitlines()]


@functools.cache
def chain_blocks() -> list[L2Block]:
    return [L2Block.from_json(block) for block in _blocks(chain_records())]


def _blocks(records: Iterable[dict[str, Any]]) -> Iterable[Any]:
    for record in records:
        if record["kind"] == "checkpoint":
            yield from record["published"]["checkpoint"]["blocks"]
        elif record["kind"] == "block":
            yield record["block"]


def genesis_ledger() -> BookLedger:
    genesis = chain_records()[1]
    ledger = BookLedger()
    ledger.blocks.add(BlockHeader.from_json(genesis["header"]).hash())
    for pair in genesis["prefilledPublicData"]:
        ledger.public_data[bytes.fromhex(pair["slot"][2:])] = int(pair["value"], 16)
    for instance in genesis["contractInstances"]:
        class_id = bytes.fromhex(instance["currentContractClassId"][2:])
        ledger.classes[bytes.fromhex(instance["address"][2:])] = class_id
    return ledger


@functools.cache
def bundled_chain(height: int = 106) -> BookLedger:
    """The ledger after ``height`` blocks.  Shared: copy it before writing."""
    ledger = genesis_ledger()
    for block in chain_blocks()[:height]:
        ledger.apply(block)
    return ledger
