"""Reads of the chain: one immutable view per committed block.

A :class:`ChainView` is a LevelDB snapshot and the four tips that belong to it, so that every
answer given from one view belongs to one moment of the chain.  Ingestion publishes a new view
after each commit; an older one stays usable, from any thread.  The view
keeps the database open until it is closed or collected, and everything in it comes from the
database: another process that opens a copy of the files builds the same view.

Numbers are ``int``, hashes 32-byte ``bytes``, and everything named ``*_json`` is ``bytes`` that
can be spliced into a response as it is.  ``None`` means that the chain has no such thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol

import orjson

from fastnode.archiver import forms, layout
from fastnode.archiver.records import (
    BlockInfo,
    StoredBlock,
    StoredCheckpoint,
    StoredTips,
    StoredTransaction,
    decode_block_info,
)
from fastnode.archiver.rendering import DETAILED_EXECUTION_RESULTS, EXECUTION_RESULTS
from fastnode.errors import BlockPruned, DatabaseError
from fastnode.kernels import block_text, encode, stored_text
from fastnode.protocol.block import L2Block
from fastnode.protocol.ethereum import SigningDomain
from fastnode.protocol.genesis import genesis_tips
from fastnode.protocol.releases import Release
from fastnode.protocol.tips import BlockId, CheckpointId, L2Tips, TipId
from fastnode.records import dataclass

__all__ = [
    "BlockInfo",
    "ChainInfo",
    "ChainView",
    "StoredCheckpoint",
    "TxLocation",
    "stored_block",
    "stored_info",
]

#: The checkpoint of an empty chain's tips is a constant of the protocol; its block is this chain's genesis.
GENESIS_TIP: Final = genesis_tips().checkpointed

_MAX_U32: Final = 2**32 - 1


class TxLocation(NamedTuple):
    """Place of a mined transaction: block number and 0-based index in the block."""

    block_number: int
    index_in_block: int


@dataclass(frozen=True, slots=True)
class ChainInfo:
    """Facts that never change from block to block, as the chain's source gave it.

    ``release`` is whose rules it is verified by; ``node_info`` and ``l1_constants`` are the records of the chain file;
    ``min_fees`` is the source's last known answer to ``node_getCurrentMinFees`` or ``None``.
    """

    release: Release
    node_info: dict[str, Any]
    l1_constants: dict[str, Any]
    min_fees: dict[str, Any] | None
    genesis_block_hash: bytes
    genesis_archive_root: bytes
    epoch_duration: int = field(init=False)  # slots per epoch
    slot_duration: int = field(init=False)  # seconds per slot
    l1_genesis_time: int = field(init=False)  # timestamp of slot 0, seconds
    l1_chain_id: int = field(init=False)
    rollup_version: int = field(init=False)
    node_version: str = field(init=False)
    #: True when receipts name which part of a transaction reverted, as those of some node versions do.
    detailed_execution_results: bool = field(init=False)

    def __post_init__(self) -> None:
        derived = {
            "epoch_duration": int(self.l1_constants["epochDuration"]),
            "slot_duration": int(self.l1_constants["slotDuration"]),
            "l1_genesis_time": int(self.l1_constants["l1GenesisTime"]),
            "l1_chain_id": int(self.node_info["l1ChainId"]),
            "rollup_version": int(self.node_info["rollupVersion"]),
            "node_version": str(self.node_info.get("nodeVersion", "")),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "detailed_execution_results", self.release.has_phased_receipts(self.node_version))

    @property
    def signing_domain(self) -> SigningDomain | None:
        """Name the chain and rollup of the committee's signatures; None where the rollup contract is not told."""
        rollup = self.node_info.get("l1ContractAddresses", {}).get("rollupAddress")
        return None if rollup is None else SigningDomain(self.l1_chain_id, encode.from_hex(rollup))


class ViewedDatabase(Protocol):
    """Source of a view: a database, or one with changes to come."""

    def acquire(self) -> ViewedDatabase: ...

    def release(self) -> None: ...

    def snapshot(self) -> Any: ...


class ChainView:
    """The chain at one moment.  Made by ``ArchiverStore.open_view()``.

    ``tips`` and ``chain`` are plain attributes.  The genesis block is block 0 of every view.
    Closing is optional (the last reference does it) and may be done more than once; a closed
    view raises :class:`DatabaseError`.
    """

    __slots__ = ("_database", "_snapshot", "_tip", "blocks", "chain", "get", "oldest_body", "tips", "tips_json")

    tips: L2Tips
    tips_json: bytes
    chain: ChainInfo
    #: The oldest block whose transactions' effects and logs are there, but for the genesis; 1: those of all are.
    oldest_body: int
    #: The value of a raw key at this view's moment; the kernel's own, so that nothing stands between it and a reader.
    get: Callable[[bytes], bytes | None]

    def __init__(self, database: ViewedDatabase, chain: ChainInfo) -> None:
        self._snapshot: Any = None
        self._database = database.acquire()
        self._snapshot = database.snapshot()
        self.get = self._snapshot.get
        self.chain = chain
        stored = self.stored_tips()
        self._tip = stored.proposed_block
        oldest = self.get(layout.KEY_OLDEST_BODY)
        self.oldest_body = 1 if oldest is None else layout.decode_number(oldest)
        self.tips = self._resolve_tips(stored)
        self.tips_json = orjson.dumps(self.tips.to_json())
        #: Source from which kernels read blocks and transactions.
        self.blocks = block_text.Blocks(
            self.get,
            self._tip,
            checkpointed=self.tips.checkpointed.block.number,
            proven=self.tips.proven.block.number,
            finalized=self.tips.finalized.block.number,
            oldest_body=self.oldest_body,
            results=DETAILED_EXECUTION_RESULTS if chain.detailed_execution_results else EXECUTION_RESULTS,
        )

    # ---- life ----------------------------------------------------------------------------

    def close(self) -> None:
        """Release the snapshot; the database closes when its last view has gone."""
        if self._snapshot is None:
            return
        snapshot, self._snapshot, self.get = self._snapshot, None, _closed
        self.blocks = _CLOSED_BLOCKS
        snapshot.close()
        self._database.release()

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> ChainView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- tips ----------------------------------------------------------------------------

    @property
    def tip_number(self) -> int:
        """Number of the newest block, checkpointed or not; 0 on an empty chain."""
        return self._tip

    def stored_tips(self) -> StoredTips:
        """The tips as numbers, as the database has them."""
        return StoredTips.decode(self._required(layout.KEY_TIPS))

    def _resolve_tips(self, stored: StoredTips) -> L2Tips:
        return L2Tips(
            proposed=self.block_id(stored.proposed_block),
            checkpointed=self.tip_of_checkpoint(stored.checkpointed),
            proven=self.tip_of_checkpoint(stored.proven),
            finalized=self.tip_of_checkpoint(stored.finalized),
        )

    def block_id(self, number: int) -> BlockId:
        """A stored block as tips name it.  DatabaseError when unknown."""
        return BlockId(number, decode_block_info(number, self._required(layout.block_key(number))).hash)

    def tip_of_checkpoint(self, number: int) -> TipId:
        """The tip at this complete checkpoint; 0 is the genesis.  DatabaseError when unknown."""
        if number == 0:
            return replace(GENESIS_TIP, block=self.block_id(0))
        checkpoint = StoredCheckpoint.decode(number, self._required(layout.checkpoint_key(number)))
        return TipId(
            block=self.block_id(checkpoint.last_block),
            checkpoint=CheckpointId(number, checkpoint.header_hash),
        )

    def newest_complete_checkpoint(self, block_number: int) -> int:
        """Number of the newest complete checkpoint that ends at or before a stored block; 0 when none does."""
        checkpointed = self.tips.checkpointed.checkpoint.number
        info = decode_block_info(block_number, self._required(layout.block_key(block_number)))
        if info.checkpoint_number > checkpointed:
            return checkpointed
        checkpoint = self.checkpoint(info.checkpoint_number)
        ends_later = checkpoint is not None and checkpoint.last_block > block_number
        return info.checkpoint_number - 1 if ends_later else info.checkpoint_number

    # ---- blocks --------------------------------------------------------------------------

    def block_number_by_hash(self, block_hash: bytes) -> int | None:
        """Number of the block with this header hash; the chain's genesis hash gives 0."""
        return self.blocks.number_by_hash(block_hash)

    def block_number_by_archive(self, archive_root: bytes) -> int | None:
        """Number of the block after which the archive tree has this root; the genesis root gives 0."""
        return self.blocks.number_by_archive(archive_root)

    def block(self, number: int) -> StoredBlock | None:
        """Numbers, header and archive of a block in one read."""
        if not 0 <= number <= self._tip:
            return None
        return StoredBlock.decode(number, self._required(layout.block_key(number)))

    def block_info(self, number: int) -> BlockInfo | None:
        if not 0 <= number <= self._tip:
            return None
        return decode_block_info(number, self._required(layout.block_key(number)))

    def header_json(self, number: int) -> bytes | None:
        """BlockHeader."""
        if not 0 <= number <= self._tip:
            return None
        return block_text.header(self._required(layout.block_key(number)))

    def archive_json(self, number: int) -> bytes | None:
        """AppendOnlyTreeSnapshot of the archive after this block; block 0: the genesis root and size 1."""
        block = self.block(number)
        return None if block is None else block.archive_json

    def require_body(self, number: int) -> None:
        """BlockPruned for a block whose body is not kept."""
        if 0 < number < self.oldest_body:
            raise BlockPruned(number, self.oldest_body)

    def body_json(self, number: int) -> bytes | None:
        """Body: ``{"txEffects":[...]}``.  BlockPruned when it is not kept."""
        info = self.block_info(number)
        if info is None:
            return None
        self.require_body(number)
        effects = [self._required(layout.effect_key(number, index)) for index in range(info.tx_count)]
        return b'{"txEffects":[' + b",".join(effects) + b"]}"

    def tx_hashes(self, number: int) -> list[bytes] | None:
        """Hashes of a block's transactions, in order."""
        if not 0 <= number <= self._tip:
            return None
        return _split32(self._required(layout.tx_hashes_key(number)))

    def load_block(self, number: int) -> L2Block | None:
        """A block of number >= 1 as a protocol object, decoded from its stored JSON.  Slow path:
        for catching up, undoing and checking, not for answers.  BlockPruned when its body is not kept."""
        block = self.block(number)
        if block is None or number == 0:
            return None
        return L2Block.from_json(
            {
                "archive": orjson.loads(block.archive_json),
                "header": orjson.loads(block.header_json),
                "body": orjson.loads(self.body_json(number) or b""),
                "checkpointNumber": block.info.checkpoint_number,
                "indexWithinCheckpoint": block.info.index_within_checkpoint,
            },
            f"block {number}",
        )

    # ---- checkpoints ---------------------------------------------------------------------

    def checkpoint(self, number: int) -> StoredCheckpoint | None:
        """A complete checkpoint of number >= 1."""
        if not 1 <= number <= _MAX_U32:
            return None
        value = self.get(layout.checkpoint_key(number))
        return None if value is None else StoredCheckpoint.decode(number, value)

    def checkpoint_number_by_slot(self, slot: int) -> int | None:
        if not 0 <= slot <= _MAX_U32:
            return None
        value = self.get(layout.slot_key(slot))
        return None if value is None else layout.decode_number(value)

    def checkpoint_before_slot(self, slot: int) -> int:
        """Number of the newest complete checkpoint of a slot before this one; 0 if there is none."""
        with self._snapshot_or_raise().iterator(
            start=layout.slot_key(0), stop=layout.slot_key(min(slot, _MAX_U32)), include_key=False, reverse=True
        ) as values:
            return next((layout.decode_number(value) for value in values), 0)

    def checkpoint_numbers_of_epoch(self, epoch: int) -> range:
        """Numbers of the complete checkpoints whose slot lies in the epoch (at most one per slot)."""
        first_slot = epoch * self.chain.epoch_duration
        end_slot = first_slot + self.chain.epoch_duration
        if epoch < 0 or end_slot > _MAX_U32:
            return range(0)
        with self._snapshot_or_raise().iterator(
            start=layout.slot_key(first_slot), stop=layout.slot_key(end_slot), include_key=False
        ) as values:
            numbers = [layout.decode_number(value) for value in values]
        return range(numbers[0], numbers[-1] + 1) if numbers else range(0)

    # ---- transactions --------------------------------------------------------------------

    def transaction(self, tx_hash: bytes) -> StoredTransaction | None:
        """A mined transaction's place, and the end of its receipt."""
        value = self.get(layout.TRANSACTION + tx_hash)
        return None if value is None else StoredTransaction.decode(value)

    def tx_location(self, tx_hash: bytes) -> TxLocation | None:
        transaction = self.transaction(tx_hash)
        return None if transaction is None else TxLocation(transaction.block_number, transaction.index_in_block)

    def effect_json(self, block_number: int, tx_index: int) -> bytes:
        """TxEffect of a transaction that is there.  BlockPruned when the body of its block is not kept."""
        self.require_body(block_number)
        return self._required(layout.effect_key(block_number, tx_index))

    def tx_receipt_json(self, tx_hash: bytes) -> bytes | None:
        """TxReceipt of a mined transaction; the status follows from this view's tips."""
        return block_text.mined(forms.MINED_RECEIPT, tx_hash, self.blocks)

    def block_status(self, number: int) -> bytes:
        """``proposed``, ``checkpointed``, ``proven`` or ``finalized``."""
        if number <= self.tips.finalized.block.number:
            return b"finalized"
        if number <= self.tips.proven.block.number:
            return b"proven"
        if number <= self.tips.checkpointed.block.number:
            return b"checkpointed"
        return b"proposed"

    # ---- messages ------------------------------------------------------------------------

    def l1_to_l2_message_index(self, message: bytes) -> int | None:
        """Leaf index in the L1->L2 message tree: (checkpoint - 1) * 1024 + position."""
        value = self.get(layout.MESSAGE + message)
        return None if value is None else int.from_bytes(value, "big")

    def l1_to_l2_messages(self, checkpoint_number: int) -> list[bytes]:
        """L1->L2 messages that the checkpoint inserts, without the padding to 1,024."""
        if not 1 <= checkpoint_number <= _MAX_U32:
            return []
        return _split32(self.get(layout.l1_to_l2_key(checkpoint_number)) or b"")

    def l2_to_l1_messages_json(self, epoch: int) -> bytes:
        """``[checkpoint][block][tx][message]`` of the epoch's complete checkpoints; ``[]`` when there is none."""
        checkpoints = (self.checkpoint(number) for number in self.checkpoint_numbers_of_epoch(epoch))
        return b"[" + b",".join(self._l2_to_l1_of_checkpoint(c) for c in checkpoints if c is not None) + b"]"

    def _l2_to_l1_of_checkpoint(self, checkpoint: StoredCheckpoint) -> bytes:
        blocks = range(checkpoint.start_block, checkpoint.last_block + 1)
        return b"[" + b",".join(self._required(layout.l2_to_l1_key(number)) for number in blocks) + b"]"

    def l2_to_l1_messages_of_block(self, number: int) -> list[list[bytes]] | None:
        """``[tx][message]`` as 32-byte values."""
        if not 0 <= number <= self._tip:
            return None
        transactions = orjson.loads(self._required(layout.l2_to_l1_key(number)))
        return [[encode.from_hex(message) for message in messages] for messages in transactions]

    # ---- genesis -------------------------------------------------------------------------

    def genesis_json(self) -> bytes:
        """The genesis record of the chain file, as it was imported."""
        return bytes(self._required(layout.KEY_GENESIS))

    def prefilled_public_data(self) -> list[tuple[bytes, bytes]]:
        """(leaf slot, value) pairs of the genesis, in the order of the record."""
        pairs = orjson.loads(self.genesis_json())["prefilledPublicData"]
        return [(encode.from_hex(pair["slot"]), encode.from_hex(pair["value"])) for pair in pairs]

    def contract_class_json(self, class_id: bytes) -> bytes | None:
        """ContractClassPublic of a class that exists from genesis."""
        return self.get(layout.CLASS + class_id)

    def contract_instance_json(self, address: bytes) -> bytes | None:
        """ContractInstanceWithAddress of an instance that exists from genesis."""
        return self.get(layout.INSTANCE + address)

    # ---- raw access, for the index writers' own readers and for the check -------------------

    def scan(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values from ``start`` to ``stop`` (exclusive; None: to the end), in order."""
        for key, stored in self.scan_stored(start, stop):
            yield key, stored_text.unpack(stored) if key[0] in layout.TEXTS else stored

    def scan_stored(self, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """The same with texts as they are stored."""
        with self._snapshot_or_raise().iterator(start=start, stop=stop) as pairs:
            yield from pairs

    def keys(self, start: bytes = b"", stop: bytes | None = None) -> Iterator[bytes]:
        """Keys likewise."""
        with self._snapshot_or_raise().iterator(start=start, stop=stop, include_value=False) as keys:
            yield from keys

    def values(self, start: bytes, stop: bytes) -> list[bytes]:
        """Values from the key ``start`` to ``stop`` (exclusive) of the same kind, in order."""
        with self._snapshot_or_raise().iterator(start=start, stop=stop, include_key=False) as values:
            return [stored_text.unpack(value) for value in values] if start[0] in layout.TEXTS else list(values)

    def _required(self, key: bytes) -> bytes:
        value = self.get(key)
        if value is None:
            raise DatabaseError(f"the chain database lacks the key {key!r}; run `fastnode db check`")
        return value

    def _snapshot_or_raise(self) -> Any:
        if self._snapshot is None:
            _closed(b"")
        return self._snapshot


def _closed(_key: bytes) -> bytes | None:
    raise DatabaseError("this view of the chain is closed")


_CLOSED_BLOCKS: Final = block_text.Blocks(_closed, _MAX_U32)


def _split32(data: bytes) -> list[bytes]:
    return [data[start : start + 32] for start in range(0, len(data), 32)]


def stored_info(view: ChainView, number: int) -> BlockInfo:
    """The numbers of a block that must be there; DatabaseError when it is not."""
    info = view.block_info(number)
    if info is None:
        raise DatabaseError(f"block {number} is missing from the chain database; run `fastnode db check`")
    return info


def stored_block(view: ChainView, number: int) -> L2Block:
    """A block that must be there; DatabaseError when it is not, BlockPruned when its body is not kept."""
    block = view.load_block(number)
    if block is None:
        raise DatabaseError(f"block {number} is missing from the chain database; run `fastnode db check`")
    return block
