"""Changes of a local network on request: each is made between two blocks, by the thread that builds them.

Methods may be called from any thread and return when the change is part of the chain.  Refused says what is wrong
with a request; nothing has changed then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import orjson

from fastnode.archiver.messages import first_index_after, has_compact_messages
from fastnode.errors import Refused, ValueRefused
from fastnode.local_network.kept_state import OpenMessage, SnapshotRecord
from fastnode.local_network.messages import fee_juice_deposit, message_hash, messages_max, secret_hash_of
from fastnode.local_network.synthetic import random_field, writes_effect
from fastnode.mempool.ledger import balance_slot
from fastnode.protocol.fees import FEE_MAX, L1Fees
from fastnode.protocol.fields import FIELD_BYTES
from fastnode.protocol.messages import first_message_index
from fastnode.protocol.siloing import public_leaf_slot
from fastnode.protocol.tx import Tx

if TYPE_CHECKING:
    from fastnode.local_network.network import LocalNetwork

__all__ = ["BLOCKS_MAX", "DEPOSIT", "BridgedFeeJuice", "Changes", "SentMessage"]

_T = TypeVar("_T")

#: Blocks that one call may build.
BLOCKS_MAX: Final = 10_000
#: The default amount of a deposit.
DEPOSIT: Final = 10**21
SNAPSHOTS_MAX: Final = 1_000
AMOUNT_MAX: Final = (1 << 128) - 1
#: Epochs and ids of leaves of the out hash tree.
EPOCH_MAX: Final = (1 << 32) - 1
LEAF_ID_MAX: Final = (1 << 256) - 1


class SentMessage(NamedTuple):
    """A message from L1, and the checkpoint that has it."""

    hash: bytes
    leaf_index: int
    checkpoint_number: int


class BridgedFeeJuice(NamedTuple):
    """A deposit that can be claimed.  ``secret`` None: only its hash was given."""

    amount: int
    secret: bytes | None
    secret_hash: bytes
    message: SentMessage


class Changes:
    """See above."""

    def __init__(self, network: LocalNetwork) -> None:
        self._network = network

    def _do(self, change: Callable[[], _T]) -> _T:
        """Make a change in the thread that builds blocks; the clock is restored if it fails."""
        return self._network.do(lambda: self._restoring_clock(change))

    def _restoring_clock(self, change: Callable[[], _T]) -> _T:
        clock = self._network.clock
        before = replace(clock.time)
        try:
            return change()
        except BaseException:
            clock.time = before
            raise

    # ---- blocks ----------------------------------------------------------------------------------

    def mine(self, blocks: int = 1, interval_s: int | None = None) -> int:
        """Build blocks, the first with what waits, so many seconds apart; returns the number of the newest."""
        _require_range("blocks", blocks, 0, BLOCKS_MAX)
        if interval_s is not None:
            _require_range("interval", interval_s, 0, 1 << 32)
        for _ in range(blocks):
            self._do(lambda: self._mine_one(interval_s))
        return self._do(lambda: self._network.view.chain.tip_number)

    def _mine_one(self, interval_s: int | None) -> None:
        network = self._network
        if interval_s:
            network.clock.set_next(network.view_timestamp() + interval_s)
        network.mine_one(may_be_empty=True)

    def set_automine(self, wanted: bool) -> None:
        def change() -> None:
            self._network.kept.automine = wanted
            self._network.keep()

        self._do(change)

    def set_interval(self, seconds: float) -> None:
        """Build a block every so many seconds instead of for each transaction; 0: no more."""

        def change() -> None:
            self._network.kept.interval_s = seconds
            self._network.kept.automine = False if seconds else None
            self._network.keep()
            self._network.restart_interval()

        self._do(change)

    # ---- time --------------------------------------------------------------------------------------

    def advance_time(self, seconds: int) -> int:
        """Move the clock; the next block shows it.  Returns how many seconds it is ahead of the wall."""

        def change() -> int:
            ahead = self._network.clock.advance(seconds)
            self._network.keep()
            return ahead

        return self._do(change)

    def set_time(self, timestamp: int) -> int:
        """Let it be this time; returns by how many seconds the clock was moved."""

        def change() -> int:
            before = self._network.clock.time.offset
            self._network.clock.set(timestamp)
            self._network.keep()
            return self._network.clock.time.offset - before

        return self._do(change)

    def set_next_timestamp(self, timestamp: int) -> None:
        def change() -> None:
            self._network.clock.set_next(timestamp)
            self._network.keep()

        self._do(change)

    def set_block_interval(self, seconds: int | None) -> None:
        """Let each block be so many seconds of chain time after the one before; None: let the clock decide."""

        def change() -> None:
            self._network.clock.set_interval(seconds)
            self._network.keep()

        self._do(change)

    def warp(self, timestamp: int, *, only_forward: bool = False) -> int:
        """Build a block at this time, or at the start of the next slot after it; returns its timestamp.

        Blocks older than a day become final.  ``only_forward``: a time in the past changes nothing.
        """

        def change() -> int:
            network = self._network
            if only_forward and timestamp <= network.view_timestamp():
                return network.view_timestamp()
            network.clock.set_next(timestamp)
            network.mine_one(may_be_empty=True)
            return network.view_timestamp()

        return self._do(change)

    def warp_by(self, seconds: int) -> int:
        """As :meth:`warp`, by a number of seconds from now."""
        _require_range("seconds", seconds, 1, 1 << 40)

        def change() -> int:
            network = self._network
            network.clock.set_next(network.clock.now() + seconds)
            network.mine_one(may_be_empty=True)
            return network.view_timestamp()

        return self._do(change)

    # ---- back ----------------------------------------------------------------------------------------

    def snapshot(self) -> int:
        """A place to return to.  Nothing after it becomes final while it is there."""

        def change() -> int:
            network = self._network
            kept, pool = network.kept, network.mempool.pool
            if len(kept.snapshots) >= SNAPSHOTS_MAX:
                raise Refused(f"There are {SNAPSHOTS_MAX} snapshots already; revert to an older one")
            tip = network.view.chain.tip_number
            info = network.view.chain.block_info(tip)
            assert info is not None
            texts = [pool.tx_json(tx_hash) for tx_hash in pool.pending_hashes()]
            kept.snapshot_count += 1
            record = SnapshotRecord(
                number=kept.snapshot_count,
                block=tip,
                block_hash=info.hash,
                time=replace(network.clock.time),
                pending=tuple(text for text in texts if text is not None),
                messages=tuple(kept.messages),
                consumed=tuple(sorted(kept.consumed)),
                l1=None if network.l1 is None else network.l1.snapshot(),
            )
            kept.snapshots.append(record)
            network.keep()
            return record.number

        return self._do(change)

    def revert(self, number: int, *, force: bool = False) -> bool:
        """Return to a snapshot; it and all later ones are gone.  False when there is none of this number."""

        def change() -> bool:
            network = self._network
            found = next((item for item in network.kept.snapshots if item.number == number), None)
            if found is None:
                return False
            network.undo_above(found.block, keep_txs=False, force=force)
            if network.l1 is not None:
                network.l1.revert(found.l1)
            kept = network.kept
            kept.snapshots = [item for item in kept.snapshots if item.number < number]
            kept.messages, kept.consumed = list(found.messages), set(found.consumed)
            network.clock.time = replace(found.time)
            network.write_l1()
            self._restore_pending(found)
            network.keep()
            return True

        return self._do(change)

    def _restore_pending(self, snapshot: SnapshotRecord) -> None:
        network = self._network
        pool = network.mempool.pool
        wanted = [Tx.from_json(orjson.loads(text), pool.release) for text in snapshot.pending]
        hashes = {tx.hash for tx in wanted}
        for tx_hash in pool.pending_hashes():
            if tx_hash not in hashes:
                pool.drop(tx_hash, "not there at the snapshot")
        for tx in wanted:
            try:
                pool.add(tx, tx.to_json_bytes())
            except Refused as error:
                network.notes.on_dropped(tx.hash, error.message)

    def reorg(self, depth: int, *, keep_txs: bool = False, force: bool = False) -> int:
        """Replace the newest blocks by as many others, with their transactions or empty; the newest one's number."""

        def change() -> int:
            network = self._network
            tip = network.view.chain.tip_number
            _require_range("depth", depth, 1, min(BLOCKS_MAX, tip))
            slot = network.tip_slot()
            txs = [network.txs_of_block(number) for number in range(tip - depth + 1, tip + 1)]
            network.undo_above(tip - depth, keep_txs=keep_txs, force=force)
            # Later than what was there: otherwise an empty block would come out the same.
            network.clock.set_next(network.clock.slots.start_of(slot + 1))
            for of_block in txs:
                network.mine_one(may_be_empty=True, txs=of_block if keep_txs else ())
            return network.view.chain.tip_number

        return self._do(change)

    def roll_back(self, depth: int, *, force: bool = False) -> int:
        """Remove the newest blocks; their transactions wait again.  Returns the newest block's number."""

        def change() -> int:
            network = self._network
            tip = network.view.chain.tip_number
            _require_range("depth", depth, 1, tip)
            network.undo_above(tip - depth, keep_txs=True, force=force)
            return network.view.chain.tip_number

        return self._do(change)

    # ---- the pool ------------------------------------------------------------------------------------

    def drop(self, tx_hash: bytes) -> bool:
        """False when it does not wait."""

        def change() -> bool:
            pool = self._network.mempool.pool
            if tx_hash not in pool.pending_hashes():
                return False
            self._network.notes.on_dropped(tx_hash, "dropped on request")
            pool.drop(tx_hash, "dropped on request")
            return True

        return self._do(change)

    def drop_all(self) -> int:
        """Drop all pending transactions; returns their number."""

        def change() -> int:
            pool = self._network.mempool.pool
            hashes = pool.pending_hashes()
            for tx_hash in hashes:
                self._network.notes.on_dropped(tx_hash, "dropped on request")
                pool.drop(tx_hash, "dropped on request")
            return len(hashes)

        return self._do(change)

    # ---- state ---------------------------------------------------------------------------------------

    def set_fee_juice_balance(self, address: bytes, amount: int) -> int:
        """Returns the number of the block that has it."""
        _require_range("amount", amount, 0, AMOUNT_MAX)
        return self._write(balance_slot(address, self._fee_juice), amount.to_bytes(FIELD_BYTES, "big"))

    def set_public_storage(self, contract: bytes, slot: bytes, value: bytes) -> int:
        """Returns the number of the block that has it."""
        return self._write(public_leaf_slot(contract, slot), value)

    @property
    def _fee_juice(self) -> bytes:
        return self._network.view.chain.chain.release.addresses.fee_juice

    def _write(self, leaf_slot: bytes, value: bytes) -> int:
        return self._do(lambda: self._network.store_effect(writes_effect({leaf_slot: value})))

    # ---- L1 ------------------------------------------------------------------------------------------

    def send_message(self, message: OpenMessage, *, mine: bool = True) -> SentMessage:
        """A message from L1, which the next checkpoint takes; with ``mine`` that is built at once."""

        def change() -> SentMessage:
            network = self._network
            chain = network.view.chain
            if network.l1 is not None:
                sent = SentMessage(*network.l1.send(message, chain.chain.rollup_version))
                while mine and network.view.chain.tips.checkpointed.checkpoint.number < sent.checkpoint_number:
                    network.mine_one(may_be_empty=True)
                return sent
            place = len(network.kept.messages)
            next_checkpoint = chain.tips.checkpointed.checkpoint.number + 1
            checkpoint = next_checkpoint + place // messages_max(chain)
            if has_compact_messages(chain):
                index = first_index_after(chain, chain.tip_number, next_checkpoint) + place
            else:
                index = first_message_index(checkpoint) + place % messages_max(chain)
            sent = SentMessage(message_hash(chain.chain, message, index), index, checkpoint)
            network.kept.messages.append(message)
            network.keep()
            while mine and network.kept.messages:
                network.mine_one(may_be_empty=True)
            return sent

        return self._do(change)

    def bridge_fee_juice(
        self,
        to: bytes,
        amount: int = DEPOSIT,
        *,
        secret: bytes | None = None,
        secret_hash: bytes | None = None,
        mine: bool = True,
    ) -> BridgedFeeJuice:
        """A deposit of fee juice on L1 for an account, ready to be claimed."""
        _require_range("amount", amount, 1, AMOUNT_MAX)
        if secret is None and secret_hash is None:
            secret = random_field()
        known_hash = secret_hash_of(secret) if secret is not None else secret_hash
        assert known_hash is not None
        sent = self.send_message(fee_juice_deposit(self._fee_juice, to, amount, known_hash), mine=mine)
        return BridgedFeeJuice(amount, secret, known_hash, sent)

    def consume_message(self, epoch: int, leaf_id: int) -> bool:
        """Mark a message to L1 as consumed there; False when it was before."""
        _require_range("epoch", epoch, 0, EPOCH_MAX)
        _require_range("leaf id", leaf_id, 0, LEAF_ID_MAX)

        def change() -> bool:
            consumed = self._network.kept.consumed
            if (epoch, leaf_id) in consumed:
                return False
            consumed.add((epoch, leaf_id))
            self._network.keep()
            return True

        return self._do(change)

    # ---- tips ----------------------------------------------------------------------------------------

    def prove(self, checkpoint: int | None = None) -> int:
        """Let checkpoints up to this one, or all, be proven; returns the newest that is."""

        def change() -> int:
            network = self._network
            newest = network.view.chain.tips.checkpointed.checkpoint.number
            network.move_tips(proven=newest if checkpoint is None else min(checkpoint, newest))
            return network.view.chain.tips.proven.checkpoint.number

        return self._do(change)

    def finalize(self, block: int | None = None) -> int:
        """Let the blocks up to this one, or all that are proven, be final; returns the newest that is."""

        def change() -> int:
            network = self._network
            chain = network.view.chain
            proven = chain.tips.proven.checkpoint.number
            final = proven
            if block is not None:
                _require_range("block", block, 0, chain.tip_number)
                final = min(proven, chain.newest_complete_checkpoint(block))
            network.move_tips(proven=proven, final=final)
            return network.view.chain.tips.finalized.block.number

        return self._do(change)

    # ---- prices --------------------------------------------------------------------------------------

    def set_min_fee(self, fee: int | None) -> None:
        """Price of L2 gas from the next block on; None: as the fee model has it."""
        if fee is not None:
            _require_range("fee", fee, 0, FEE_MAX)

        def change() -> None:
            self._network.kept.fixed_fee = fee
            self._network.keep()

        self._do(change)

    def set_l1_fees(self, base_fee: int, blob_fee: int) -> None:
        """Set what L1 charges in the fee model, in wei; a fixed fee ends."""
        _require_range("base", base_fee, 0, FEE_MAX)
        _require_range("blob", blob_fee, 0, FEE_MAX)

        def change() -> None:
            self._network.kept.l1_fees = L1Fees(base_fee, blob_fee)
            self._network.kept.fixed_fee = None
            self._network.keep()

        self._do(change)

    def set_coinbase(self, address: bytes) -> None:
        def change() -> None:
            self._network.kept.coinbase = address
            self._network.keep()

        self._do(change)


def _require_range(name: str, value: int, minimum: int, maximum: int) -> None:
    if not minimum <= value <= maximum:
        raise ValueRefused(f"Invalid params: {name} must be from {minimum} to {maximum}, got {value}")
