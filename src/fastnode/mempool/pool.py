"""The transaction pool: which transactions wait for a block, in which order, and which are evicted.

The truth is in memory, one small entry per transaction; every change is staged for the disk under the
same lock that made it, and :meth:`TxPool.add` returns only after it is durable.  Contents stay on disk.

    newcomer ── in-pool checks ── rules (rules.py) ──► pending ──► mined ──► (finalized) gone
       │             │ ignored        │ TxRejected      │   ▲  ▲      │ undone
       │                                                ▼   │  └──────┤
       └── named by a proposal ────────────────────► protected ◄───────┘ while its slot is not over

    pending ──► deleted

A final transaction can be kept (final_txs.py): its record goes, its content stays.  So does the content of a deleted
one whose anchor was taken back, until the block before which it was deleted is final: it is back with its anchor.

Reads take no lock: they look at one dictionary entry or at a copy of the order made in one step.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from fastnode.errors import DatabaseError, DatabaseFull, DatabaseUnwritable, FastnodeError, Refused
from fastnode.log import log_facts
from fastnode.mempool.admission import Evictions, PoolOptions, evictions_for
from fastnode.mempool.clock import SlotClock
from fastnode.mempool.departures import DepartedTxs
from fastnode.mempool.entries import PoolEntry, TxState
from fastnode.mempool.final_txs import KeptTxs
from fastnode.mempool.ledger import Ledger, balance_slot
from fastnode.mempool.pending import PendingIndex
from fastnode.mempool.rules import Added, Origin, TxRejected, cover
from fastnode.mempool.store import Change, PoolStore, entry_key, json_key
from fastnode.mempool.validation import (
    EXPIRED,
    UNKNOWN_ANCHOR,
    double_spend_reason,
    gas_limit_reason,
    is_expired,
)
from fastnode.protocol.block import L2Block
from fastnode.protocol.releases import Release
from fastnode.protocol.tx import Tx
from fastnode.storage.database import SharedDatabase

__all__ = ["NOT_READY", "Added", "Origin", "PoolOptions", "TxPool"]

logger = logging.getLogger("fastnode.mempool")

NOT_READY: Final = "P2P client not ready"

#: Number of deleted transactions that are remembered.
DELETED_KEPT_MAX: Final = 10_000
#: Number of hashes that proposals have named before their transactions came.
AWAITED_MAX: Final = 10_000
_UNDONE: Final = "block undone"


class TxPool:
    """Usable from any thread.

    The ledger is the pool's own view of the chain.  ``on_block``, ``on_undo`` and ``on_finalized`` come from
    the thread that ingests, after the view is published; the previous ledger must stay readable until they
    return.
    """

    def __init__(
        self,
        store: PoolStore,
        ledger: Ledger | None,
        clock: SlotClock,
        release: Release,
        options: PoolOptions | None = None,
    ) -> None:
        self.release = release
        self.options = options or PoolOptions()
        #: Counts of what happened: ``accepted``, ``known``, ``ignored``, ``rejected <rule>``, ``evicted <cause>``.
        self.events: Counter[str] = Counter()
        self._store = store
        self._current_ledger = ledger
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[bytes, PoolEntry] = {}
        self._pending = PendingIndex(self._entries)
        self._touched_payers: set[bytes] = set()  # something about what they pay for has changed
        self._deleted: dict[bytes, None] = {}  # oldest first
        #: Deleted ones whose anchor was taken back, with their contents.
        self._stranded: dict[bytes, None] = {}
        self._arrivals = 0
        #: No transaction is protected for an earlier slot; None: none is protected.
        self._protected_from: int | None = None
        #: Slots before this one are over.
        self._released_before = 0
        #: Slots of the proposals that name transactions which are not here yet, by hash, oldest first.
        self._awaited: dict[bytes, int] = {}
        self._changes: list[Change] = []
        self._is_closed = False
        self._kept = KeptTxs(self.options.keep, store.kept_rows())
        self._departed = DepartedTxs(store.departed_rows())
        self._load()

    @classmethod
    def open(
        cls,
        path: Path,
        ledger: Ledger | None,
        clock: SlotClock,
        *,
        genesis_hash: bytes,
        release: Release,
        options: PoolOptions | None = None,
    ) -> Self:
        """The pool in the LevelDB at ``path``, brought in line with the chain.  Raises DataDirectoryError.

        Without a ledger it waits for the first :meth:`on_undo` and takes nothing until then.
        """
        store = PoolStore.open(path, genesis_hash, None if options is None else options.database_memory)
        try:
            return cls(store, ledger, clock, release, options)
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Write everything and close; what comes later is refused."""
        with self._lock:
            self._is_closed = True
            self._store.close()

    # ---- reading -----------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True if a block could not change anything here."""
        return not self._entries

    @property
    def database(self) -> SharedDatabase:
        """For those who watch its writes."""
        return self._store.database

    @property
    def lost_count(self) -> int:
        """Transactions that were deleted since the start because blocks were taken back that they stood on."""
        return self.events[f"evicted {UNKNOWN_ANCHOR}"] + self.events[f"evicted {_UNDONE}"]

    @property
    def fault(self) -> str | None:
        """The fault of the pool's database, None for nothing."""
        return self._store.fault

    def watch_pending(self, on_pending: Callable[[bytes], None]) -> None:
        """``on_pending`` is told of the hash of each transaction that is pending from now on; at once, and any thread's
        turn may be held up by it."""
        self._pending.on_added = on_pending

    @property
    def pending_count(self) -> int:
        return self._pending.count

    def state_of(self, tx_hash: bytes) -> TxState | None:
        entry = self._entries.get(tx_hash)
        return None if entry is None else entry.state

    def is_waiting(self, tx_hash: bytes) -> bool:
        """True if a receipt that finds no block must say ``pending``."""
        return self.state_of(tx_hash) in (TxState.PENDING, TxState.PROTECTED, TxState.MINED)

    def waits_for_block(self, tx_hash: bytes) -> bool:
        """True if no block has it yet, and one can: then other nodes need it."""
        return self.state_of(tx_hash) in (TxState.PENDING, TxState.PROTECTED)

    def departure_of(self, tx_hash: bytes) -> str | None:
        """Reason why a transaction seen here is in no block and does not wait; empty if that is not remembered.
        None for a hash that was never seen, or so long ago that nothing is remembered of it."""
        reason = self._departed.reason(tx_hash)
        return "" if reason is None and tx_hash in self._entries else reason

    def obstacle_to(self, entry: PoolEntry) -> str | None:
        """Reason why no further block can include a transaction, in the pool or not; None while one can."""
        with self._lock:
            self._require_open()
            return self._ineligible_reason(entry)

    def entry(self, tx_hash: bytes) -> PoolEntry | None:
        return self._entries.get(tx_hash)

    def tx_json(self, tx_hash: bytes) -> bytes | None:
        """The transaction as it is sent, until it is final or deleted."""
        return self._store.tx_json(tx_hash) if self.is_waiting(tx_hash) else None

    def known_tx_json(self, tx_hash: bytes) -> bytes | None:
        """The transaction as it is sent, also after it is final, if it is kept."""
        if self.state_of(tx_hash) is TxState.DELETED:
            return None
        return self._store.tx_json(tx_hash)

    @property
    def kept_count(self) -> int:
        """Final transactions that are kept."""
        return len(self._kept)

    @property
    def kept_bytes(self) -> int:
        return self._kept.size

    def pending_hashes(self, *, limit: int | None = None, after: bytes | None = None) -> list[bytes]:
        """Pending transactions by falling priority; ``after`` that is not pending gives none."""
        if after is None:
            return self._pending.hashes(limit=limit)
        entry = self._entries.get(after)
        return [] if entry is None else self._pending.hashes(limit=limit, after=entry)

    @property
    def has_unforwarded(self) -> bool:
        return self._pending.has_unforwarded

    def unforwarded_hashes(self) -> list[bytes]:
        """Pending transactions that no other node has taken yet, in the order in which they came."""
        return self._pending.unforwarded_hashes()

    def unforwarded_since(self, tx_hash: bytes) -> float | None:
        """Since when no other node has taken it, on the clock of time.monotonic; None if one has, or none waits."""
        return self._pending.unforwarded_since(tx_hash)

    def best(self) -> PoolEntry | None:
        """The pending transaction of the highest priority."""
        return next(map(self._entries.get, self.pending_hashes(limit=1)), None)

    # ---- newcomers -----------------------------------------------------------------------------

    def add(
        self,
        tx: Tx,
        tx_json: bytes,
        *,
        origin: Origin = Origin.CLIENT,
        forwarded: bool = False,
        proof_checked: bool = False,
    ) -> Added:
        """Put a validated transaction in, with the JSON that answers will carry.

        TxRejected when a rule of the pool refuses it.  Otherwise the answer is durable.  ``forwarded``: another
        node has it already.  ``proof_checked``: a verifier here has found its proof valid.
        """
        entry = replace(PoolEntry.of(tx, self.release), forwarded=forwarded, proof_checked=proof_checked)
        return self.insert(entry, tx_json, origin=origin)

    def consider(self, tx: Tx, *, origin: Origin = Origin.CLIENT) -> Added:
        """Answer that :meth:`add` would give now, without adding it: TxRejected, known, ignored or accepted."""
        return self.consider_entry(PoolEntry.of(tx, self.release), origin=origin)

    def consider_entry(self, entry: PoolEntry, *, origin: Origin = Origin.CLIENT) -> Added:
        """:meth:`consider` for a transaction that is already taken apart."""
        with self._lock:
            self._require_open()
            if self.is_waiting(entry.hash):
                return Added.KNOWN
            if self._ineligible_reason(entry) is not None:
                return Added.IGNORED
            if not self._protecting_slot(entry):
                self._evictions_for(entry, origin)
            return Added.ACCEPTED

    def insert(self, entry: PoolEntry, tx_json: bytes, *, origin: Origin = Origin.CLIENT) -> Added:
        """:meth:`add` for a transaction that is already taken apart."""
        [outcome] = self.insert_all([(entry, tx_json)], origin=origin)
        if isinstance(outcome, FastnodeError):
            raise outcome
        return outcome

    def insert_all(
        self, newcomers: Sequence[tuple[PoolEntry, bytes]], *, origin: Origin = Origin.CLIENT
    ) -> list[Added | FastnodeError]:
        """One after the other, with one write for all; what :meth:`insert` would raise for one is in its place.

        What the answers rest on is durable then, also what another thread put there.
        """
        self._store.require_room(sum(len(tx_json) for _, tx_json in newcomers))
        outcomes: list[Added | FastnodeError] = []
        with self._lock:
            self._require_open()
            for entry, tx_json in newcomers:
                try:
                    outcomes.append(self._insert(entry, tx_json, origin))
                except TxRejected as rejection:
                    self.events[f"rejected {rejection.rule}"] += 1
                    outcomes.append(rejection)
            self.events.update(outcome.value for outcome in outcomes if isinstance(outcome, Added))
            ticket = self._stage()
        try:
            self._store.commit(ticket)
        except DatabaseError as error:
            return [outcome if isinstance(outcome, TxRejected) else error for outcome in outcomes]
        return outcomes

    def _insert(self, entry: PoolEntry, tx_json: bytes, origin: Origin) -> Added:
        if self.is_waiting(entry.hash):
            return Added.KNOWN
        reason = self._ineligible_reason(entry)
        if reason is not None and (block := self._ledger.block_of_tx(entry.hash)) is not None:
            self._join_block(entry, tx_json, block)
            return Added.KNOWN
        if reason is not None:
            logger.info("tx 0x%s is ignored: %s", entry.hash.hex(), reason)
            self._changes += self._departed.note(entry.hash, reason)
            return Added.IGNORED
        slot = self._protecting_slot(entry)
        if not slot:
            for old, cause in self._evictions_for(entry, origin):
                self._delete(old, cause)
        self._arrivals += 1
        entry = replace(entry, arrival=self._arrivals)
        if slot:
            self._protect(entry, slot)
        else:
            self._make_pending(entry.moved(TxState.PENDING))
        self._changes.append((json_key(entry.hash), tx_json))
        self._tidy()
        return Added.ACCEPTED

    def _join_block(self, entry: PoolEntry, tx_json: bytes, block: int) -> None:
        """Take one that came after the block that has it: should that be taken back, it waits for another."""
        self._arrivals += 1
        self._note_back(entry.hash)
        slot = self._protecting_slot(entry)
        self._awaited.pop(entry.hash, None)
        self._put(replace(entry, arrival=self._arrivals).moved(TxState.MINED, block=block, slot=slot))
        self._changes.append((json_key(entry.hash), tx_json))

    def _evictions_for(self, entry: PoolEntry, origin: Origin) -> Evictions:
        return evictions_for(entry, origin, self._pending, self._ledger.fee_juice_balance, self.options)

    def _ineligible_reason(self, entry: PoolEntry) -> str | None:
        """Reason why no block can include the transaction any more, by what may change after validation."""
        reason = gas_limit_reason(entry.gas_limits, is_public=entry.is_public, caps=self.options.gas_caps)
        if reason is not None:
            return reason
        if is_expired(entry.expiration, self._clock.next_slot_timestamp(), self._ledger):
            return EXPIRED
        if not self._ledger.knows_block(entry.anchor_block_hash):
            return UNKNOWN_ANCHOR
        return double_spend_reason(entry.nullifiers, self._ledger)

    # ---- proposals ---------------------------------------------------------------------------

    def protect(self, tx_hashes: Iterable[bytes], slot: int) -> None:
        """Take transactions into a proposal of this slot: none of them is evicted before it is over.

        One that is not here yet is protected when it comes, without a look at its rivals and the room that is left; a
        mined one when its block is undone.
        """
        with self._changing():
            self._note_protected(slot)
            for tx_hash in tx_hashes:
                entry = self._entries.get(tx_hash)
                if entry is None or entry.state is TxState.DELETED:
                    self._await(tx_hash, slot)
                elif entry.state is TxState.MINED:
                    self._put(replace(entry, slot=slot))
                else:
                    self._leave_pending(entry)
                    self._protect(entry, slot)

    def release_before(self, slot: int) -> None:
        """Give back what was protected for earlier slots and was not mined; cheap where there is none."""
        self._released_before = max(self._released_before, slot)
        if self._protected_from is None or self._protected_from >= slot:
            return
        with self._changing():
            self._protected_from = None
            protected = self._in_state(TxState.PROTECTED)
            self._awaited = {tx_hash: named for tx_hash, named in self._awaited.items() if named >= slot}
            for later in (*(entry.slot for entry in protected), *self._awaited.values()):
                if later >= slot:
                    self._note_protected(later)
            self._return_to_pending(entry for entry in protected if entry.slot < slot)

    def _await(self, tx_hash: bytes, slot: int) -> None:
        self._awaited.pop(tx_hash, None)  # to its end
        self._awaited[tx_hash] = slot
        while len(self._awaited) > AWAITED_MAX:
            del self._awaited[next(iter(self._awaited))]

    def _protect(self, entry: PoolEntry, slot: int) -> None:
        self._awaited.pop(entry.hash, None)
        self._note_back(entry.hash)
        self._note_protected(slot)
        self._put(entry.moved(TxState.PROTECTED, slot=slot))

    def _protecting_slot(self, entry: PoolEntry) -> int:
        """Slot of the proposal that a transaction which does not wait is protected for; 0: for none, or it is over."""
        slot = max(entry.slot, self._awaited.get(entry.hash, 0))
        return slot if slot >= self._released_before else 0

    def _note_protected(self, slot: int) -> None:
        before = self._protected_from
        self._protected_from = slot if before is None else min(before, slot)

    # ---- the chain moves ----------------------------------------------------------------------

    def on_block(self, ledger: Ledger, block: L2Block) -> None:
        """A block is committed; ``ledger`` has it."""
        timestamp = block.header.global_variables.timestamp
        effects = block.body.tx_effects
        with self._changing():
            self._current_ledger = ledger
            self._return_to_pending(self._found_again())
            for entry in self._existing(effect.tx_hash for effect in effects):
                self._leave_pending(entry)
                self._put(entry.moved(TxState.MINED, block=block.number, slot=entry.slot))
            for nullifier in [nullifier for effect in effects for nullifier in effect.nullifiers]:
                owner = self._pending.owner_of(nullifier)
                if owner is not None:
                    self._delete(owner, "nullifier mined")
            for entry in self._pending.entries():
                if entry.expiration <= timestamp:
                    self._delete(entry, "expired")
            written = {write.leaf_slot for effect in effects for write in effect.public_data_writes}
            fee_juice = self.release.addresses.fee_juice
            payers = self._pending.payers()
            self._touched_payers.update(payer for payer in payers if balance_slot(payer, fee_juice) in written)

    def set_ledger(self, ledger: Ledger) -> None:
        """Look at the chain through this ledger from now on; the pool is already in line with it."""
        with self._lock:
            self._current_ledger = ledger

    def on_undo(self, ledger: Ledger) -> None:
        """Blocks were taken back; ``ledger`` is the chain without them."""
        with self._changing():
            self._current_ledger = ledger
            self._reconcile()

    def on_finalized(self, block_number: int) -> None:
        """Blocks up to this one are final: what they hold, and what was deleted before them, is forgotten."""
        with self._changing():
            for entry in list(self._entries.values()):
                if entry.state in (TxState.MINED, TxState.DELETED) and entry.block <= block_number:
                    self._forget(entry)
                    if entry.state is TxState.MINED and self._kept.keeps_any:
                        self._keep(entry)

    def mark_forwarded(self, tx_hash: bytes) -> None:
        """Another node has taken it: it is not handed on again.

        Durable with the next change, or when the pool closes: should it be lost, the transaction goes out twice.
        """
        with self._lock:
            self._require_open()
            entry = self._entries.get(tx_hash)
            if entry is not None and not entry.forwarded:
                self._pending.note_forwarded(tx_hash)
                self._put(replace(entry, forwarded=True))
                self._stage()

    def drop(self, tx_hash: bytes, cause: str) -> None:
        """Delete a transaction that waits."""
        with self._changing():
            for entry in self._existing((tx_hash,)):
                if entry.state is not TxState.MINED:
                    self._delete(entry, cause)

    def clear(self, cause: str) -> None:
        """Forget every transaction, also the mined and the deleted ones."""
        with self._changing():
            for entry in list(self._entries.values()):
                if entry.state is not TxState.DELETED:
                    self._delete(entry, cause)
            for entry in list(self._entries.values()):
                self._forget(entry)

    def recheck(self) -> None:
        """Bring everything in line with the present ledger, time and options."""
        with self._changing():
            self._reconcile()

    def _reconcile(self) -> None:
        """Compare all transactions with the chain: after a restart, after an undo."""
        undone = []
        for entry in list(self._entries.values()):
            if entry.state is TxState.DELETED:
                continue
            block = self._ledger.block_of_tx(entry.hash)
            if block is not None:
                if entry.state is not TxState.MINED or entry.block != block:
                    self._leave_pending(entry)
                    self._put(entry.moved(TxState.MINED, block=block, slot=entry.slot))
            elif entry.state is TxState.MINED:
                undone.append(entry)
        for entry in self._pending.entries():
            reason = self._ineligible_reason(entry)
            if reason is not None:
                self._delete(entry, reason)
        returning = self._found_again()
        if self.options.delete_after_reorg:
            for entry in undone:
                self._delete(entry, _UNDONE)
        else:
            returning += undone
        self._return_to_pending(returning)
        self._touched_payers.update(self._pending.payers())

    def _found_again(self) -> list[PoolEntry]:
        """Transactions that left with their anchor, and may wait again as it is back; what is in a block is mined."""
        found = []
        for entry in [self._entries[tx_hash] for tx_hash in self._stranded]:
            if not self._ledger.knows_block(entry.anchor_block_hash):
                continue
            block = self._ledger.block_of_tx(entry.hash)
            if block is None:
                found.append(entry)
            else:
                self._note_back(entry.hash)
                self._put(entry.moved(TxState.MINED, block=block))
        return found

    def _return_to_pending(self, entries: Iterable[PoolEntry]) -> None:
        """Make pending again what a block could include and what outranks its rivals for nullifiers; the best first.
        What is in a proposal of a slot that is not over is protected."""
        for entry in sorted(entries, key=lambda entry: entry.rank, reverse=True):
            if slot := self._protecting_slot(entry):
                self._protect(entry, slot)
                continue
            reason = self._ineligible_reason(entry)
            rivals = list(self._pending.conflicts_of(entry))
            if reason is None and any(rival.rank > entry.rank for rival in rivals):
                reason = "nullifier conflict"
            if reason is not None:
                self._delete(entry, reason)
                continue
            for rival in rivals:
                self._delete(rival, "nullifier conflict")
            self._make_pending(entry.moved(TxState.PENDING))
            self._touched_payers.add(entry.fee_payer)

    def _tidy(self) -> None:
        """Restore what must always hold: every pending transaction is covered by its payer, and the limit is kept.

        Only payers of which something changed can have become unable to pay; a newcomer's payer was asked by
        the rules.  A newcomer cannot exceed the limit: the lowest has left for it.
        """
        while self._touched_payers:
            payers, self._touched_payers = self._touched_payers, set()
            for payer in payers:
                balance = self._ledger.fee_juice_balance(payer)
                if balance >= self._pending.fee_limits_of(payer):
                    continue
                coverage = cover(self._pending.of_payer(payer), balance)
                for entry in coverage.uncovered:
                    self._delete(entry, "insufficient fee payer balance")
            while self.options.pending_max and self.pending_count > self.options.pending_max:
                self._delete(self._pending.lowest, "low priority")

    # ---- entries; callers hold the lock ---------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock; tidy up; make durable what changed, also what changed before an exception."""
        with self._lock:
            self._require_open()
            try:
                yield
                self._tidy()
            finally:
                ticket = self._stage()
        try:
            self._store.commit(ticket)
        except (DatabaseFull, DatabaseUnwritable) as error:
            # No promise was given: it is written with what comes next, once that can be done.
            logger.warning("changes of the pool wait for the disk", extra=log_facts(reason=str(error)))

    @property
    def _ledger(self) -> Ledger:
        if self._current_ledger is None:
            raise Refused(NOT_READY)
        return self._current_ledger

    def _require_open(self) -> None:
        if self._is_closed:
            raise Refused(NOT_READY)

    def _stage(self) -> int:
        changes, self._changes = self._changes, []
        return self._store.stage(changes)

    def _existing(self, tx_hashes: Iterable[bytes]) -> list[PoolEntry]:
        """Entries of the transactions that wait or are mined."""
        return [self._entries[tx_hash] for tx_hash in tx_hashes if self.is_waiting(tx_hash)]

    def _in_state(self, state: TxState) -> list[PoolEntry]:
        return [entry for entry in self._entries.values() if entry.state is state]

    def _put(self, entry: PoolEntry) -> None:
        self._entries[entry.hash] = entry
        self._changes.append((entry_key(entry.hash), entry.encode()))

    def _make_pending(self, entry: PoolEntry) -> None:
        self._note_back(entry.hash)
        self._put(entry)
        self._pending.add(entry)

    def _note_back(self, tx_hash: bytes) -> None:
        """It is back, if it was here and left."""
        self._deleted.pop(tx_hash, None)
        self._stranded.pop(tx_hash, None)
        self._changes += self._departed.forget(tx_hash)

    def _leave_pending(self, entry: PoolEntry) -> None:
        """Take out of the indexes what is pending; no-op for the rest."""
        if entry.state is not TxState.PENDING:
            return
        self._touched_payers.add(entry.fee_payer)
        self._pending.remove(entry)

    def _delete(self, entry: PoolEntry, cause: str) -> None:
        logger.info("tx 0x%s leaves the pool: %s", entry.hash.hex(), cause)
        self.events[f"evicted {cause}"] += 1
        if self._entries[entry.hash].state is TxState.PENDING:
            self._leave_pending(entry)
        self._put(entry.moved(TxState.DELETED, block=self._ledger.head))
        if cause == UNKNOWN_ANCHOR:
            self._stranded[entry.hash] = None
        else:
            self._stranded.pop(entry.hash, None)
            self._changes.append((json_key(entry.hash), None))
        self._changes += self._departed.note(entry.hash, cause)
        self._deleted[entry.hash] = None
        while len(self._deleted) > DELETED_KEPT_MAX:
            self._forget(self._entries[next(iter(self._deleted))])

    def _forget(self, entry: PoolEntry) -> None:
        del self._entries[entry.hash]
        self._deleted.pop(entry.hash, None)
        self._stranded.pop(entry.hash, None)
        self._changes += [(entry_key(entry.hash), None), (json_key(entry.hash), None)]

    def _keep(self, entry: PoolEntry) -> None:
        """Leave the content of a transaction that was forgotten where it is."""
        tx_json = self._store.tx_json(entry.hash)
        if tx_json is not None:
            self._changes.pop()  # that which deletes it
            self._changes += self._kept.add(entry.hash, len(tx_json))

    def _load(self) -> None:
        """Fill the memory from the disk and catch up with what the chain did meanwhile."""
        with self._changing():
            for entry in sorted(self._store.entries(), key=lambda entry: entry.arrival):
                self._entries[entry.hash] = entry
                self._arrivals = max(self._arrivals, entry.arrival)
                if entry.state is TxState.PENDING:
                    self._pending.add(entry)
                elif entry.state is TxState.DELETED:
                    self._deleted[entry.hash] = None
                    if self._store.tx_json(entry.hash) is not None:
                        self._stranded[entry.hash] = None
                elif entry.state is TxState.PROTECTED:
                    self._note_protected(entry.slot)
            self._changes += self._kept.prune()
            if self._current_ledger is not None:
                self._reconcile()
            else:
                self._touched_payers.clear()
        if self._entries:
            logger.info("the pool holds %d pending transactions", self.pending_count)
