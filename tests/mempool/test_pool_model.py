"""The pool against a plain model: random transactions, bumps, conflicts, payers, blocks, reorgs, restarts.

The model keeps dictionaries and recomputes everything from the rules' text at every step.  Each game is
decided by its seed; FASTNODE_MODEL_GAMES plays more of them.
"""

from __future__ import annotations

import math
import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.mempool.chain import BookLedger
from tests.mempool.pools import ANCHOR, SLOT_S, Harness, entry, tx_json, word

from fastnode.mempool.entries import PoolEntry, TxState
from fastnode.mempool.pool import Added, Origin
from fastnode.mempool.rules import TxRejected
from fastnode.mempool.validation import UNKNOWN_ANCHOR

GAMES = int(os.environ.get("FASTNODE_MODEL_GAMES", "40"))
STEPS = 400

#: Every step is flushed to the disk; one in memory makes more steps in the same time.
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None

NUMBERS = range(1, 31)
NULLIFIERS = range(500, 516)
PAYERS = [word(0xFEE0 + index) for index in range(3)]
#: The last one is a block that comes, is taken back, and comes again.
ANCHORS = [ANCHOR, word(0xA2), word(0xA3)]


def random_entry(dice: random.Random, now: int) -> PoolEntry:
    return entry(
        dice.choice(NUMBERS),
        fee=dice.choice([0, 1, 2, 3, 9, 10, 11, 12, 100, 110]),
        nullifiers=sorted(dice.sample(NULLIFIERS, dice.choice([1, 1, 1, 2, 3]))),
        fee_payer=dice.choice(PAYERS),
        fee_limit=dice.randrange(120),
        claim=dice.choice([0, 0, 0, 20, 90]),
        expiration=now + dice.randrange(-1, 12) * SLOT_S,
        anchor_block_hash=dice.choice([ANCHOR, ANCHOR, ANCHOR, *ANCHORS[1:]]),
    )


class Model:
    """The rules, slowly."""

    def __init__(self, maximum: int, percentage: int) -> None:
        self.maximum = maximum
        self.percentage = percentage
        self.waiting: dict[bytes, PoolEntry] = {}  # pending, protected, mined
        self.deleted: set[bytes] = set()
        #: Left with their anchor, and the head then.
        self.stranded: dict[bytes, tuple[PoolEntry, int]] = {}
        #: Slots of proposals that name what is not there, and the first slot that is not over.
        self.awaited: dict[bytes, int] = {}
        self.released = 0

    def slot_of(self, item: PoolEntry) -> int:
        """Of the proposal that protects what does not wait."""
        slot = max(item.slot, self.awaited.get(item.hash, 0))
        return slot if slot >= self.released else 0

    def protect(self, item: PoolEntry, slot: int) -> None:
        self.awaited.pop(item.hash, None)
        self.stranded.pop(item.hash, None)
        self.waiting[item.hash] = item.moved(TxState.PROTECTED, slot=slot)

    def in_state(self, state: TxState) -> list[PoolEntry]:
        found = [item for item in self.waiting.values() if item.state is state]
        return sorted(found, key=lambda item: (item.priority_fee, int.from_bytes(item.hash, "big")), reverse=True)

    @property
    def pending(self) -> list[PoolEntry]:
        return self.in_state(TxState.PENDING)

    def uncovered(self, items: Iterable[PoolEntry], book: BookLedger) -> list[PoolEntry]:
        left = {payer: book.fee_juice_balance(payer) for payer in PAYERS}
        missing = []
        for item in sorted(items, key=lambda item: item.rank, reverse=True):
            there = left[item.fee_payer] + item.claim
            if there < item.fee_limit:
                missing.append(item)
            else:
                left[item.fee_payer] = there - item.fee_limit
        return missing

    def is_possible(self, item: PoolEntry, book: BookLedger, now: int) -> bool:
        slot_start = now // SLOT_S * SLOT_S
        spent = any(nullifier in book.nullifiers for nullifier in item.nullifiers)
        return item.expiration >= slot_start and item.anchor_block_hash in book.blocks and not spent

    def minimum(self, item: PoolEntry) -> int:
        return item.priority_fee + max(1, math.ceil(item.priority_fee * self.percentage / 100))

    def rejection(self, item: PoolEntry, book: BookLedger, *, by_rank: bool) -> tuple[str | None, list[PoolEntry]]:
        """The first rule that refuses, or None and what has to leave."""

        def beats(other: PoolEntry) -> bool:
            return item.rank > other.rank if by_rank else item.priority_fee >= self.minimum(other)

        rivals = [other for other in self.pending if set(other.nullifiers) & set(item.nullifiers)]
        if not all(beats(other) for other in rivals):
            return "NULLIFIER_CONFLICT", []
        missing = self.uncovered([*self.pending, item], book)
        if item in missing:
            return "INSUFFICIENT_FEE_PAYER_BALANCE", []
        lowest = self.pending[-1:] if len(self.pending) >= self.maximum else []
        if lowest and not beats(lowest[0]):
            return "LOW_PRIORITY_FEE", []
        return None, [*rivals, *missing, *lowest]

    def delete(self, items: Iterable[PoolEntry]) -> None:
        for item in items:
            if self.waiting.pop(item.hash, None) is not None:
                self.deleted.add(item.hash)

    def leave(self, item: PoolEntry, book: BookLedger, now: int) -> None:
        """No block can include it, or a rival outranks it."""
        self.delete([item])
        self.stranded.pop(item.hash, None)
        if item.expiration >= now // SLOT_S * SLOT_S and item.anchor_block_hash not in book.blocks:
            self.stranded[item.hash] = item, book.head

    def found_again(self, book: BookLedger) -> list[PoolEntry]:
        found = [item for item, _ in self.stranded.values() if item.anchor_block_hash in book.blocks]
        for item in found:
            if item.hash in book.txs:
                del self.stranded[item.hash]
                self.waiting[item.hash] = item.moved(TxState.MINED, block=book.txs[item.hash])
        return [item for item in found if item.hash not in book.txs]

    def tidy(self, book: BookLedger) -> None:
        before = None
        while before != len(self.waiting):
            before = len(self.waiting)
            self.delete(self.uncovered(self.pending, book))
            self.delete(self.pending[self.maximum :])

    def put_back(self, items: list[PoolEntry], book: BookLedger, now: int) -> None:
        for item in sorted(items, key=lambda item: item.rank, reverse=True):
            if slot := self.slot_of(item):
                self.protect(item, slot)
                continue
            rivals = [other for other in self.pending if set(other.nullifiers) & set(item.nullifiers)]
            if self.is_possible(item, book, now) and all(item.rank > other.rank for other in rivals):
                self.delete(rivals)
                self.stranded.pop(item.hash, None)
                self.waiting[item.hash] = item.moved(TxState.PENDING)
            else:
                self.leave(item, book, now)


class Game:
    """One pool, one model, one seed."""

    def __init__(self, seed: int, path: Path) -> None:
        self.dice = dice = random.Random(seed)
        maximum, percentage = dice.choice([1, 3, 6, 12]), dice.choice([0, 10, 50])
        self.harness = Harness(
            path,
            pending_max=maximum,
            price_bump_percentage=percentage,
            delete_after_reorg=dice.random() < 0.2,
        )
        self.harness.ledger.blocks = set(ANCHORS[:2])
        for payer in PAYERS:
            self.harness.ledger.set_balance(payer, 200)
        self.model = Model(maximum, percentage)
        self.past: list[BookLedger] = []
        #: In blocks of others, and not in the pool then.
        self.strangers: list[PoolEntry] = []
        self.slot = 2
        self.protected_newcomers = self.protected_again = 0

    @property
    def moves(self) -> list[tuple[Callable[[], None], int]]:
        return [
            (self.add, 100),
            (self.mine, 14),
            (self.undo, 4),
            (self.harness_restarts, 3),
            (self.protect, 5),
            (self.release, 3),
            (self.finalize, 3),
        ]

    def play(self) -> None:
        moves, weights = zip(*self.moves, strict=True)
        for move in self.dice.choices(moves, weights, k=STEPS):
            move()
            self.check()

    def _some(self, items: list[PoolEntry], most: int) -> list[PoolEntry]:
        return self.dice.sample(items, min(len(items), self.dice.randrange(most + 1)))

    # ---- moves -------------------------------------------------------------------------------

    def add(self) -> None:
        model, book, now = self.model, self.harness.ledger, self.harness.now
        is_stranger = self.strangers and self.dice.random() < 0.1
        item = self.dice.choice(self.strangers) if is_stranger else random_entry(self.dice, now)
        origin = self.dice.choice([Origin.CLIENT, Origin.CLIENT, Origin.NODE])
        try:
            outcome: Any = self.harness.add(item, origin=origin)
        except TxRejected as rejection:
            outcome = rejection.rule
        if item.hash in model.waiting:
            assert outcome is Added.KNOWN
        elif not model.is_possible(item, book, now) and item.hash in book.txs:
            assert outcome is Added.KNOWN
            model.stranded.pop(item.hash, None)
            slot = model.slot_of(item)
            model.awaited.pop(item.hash, None)
            model.waiting[item.hash] = item.moved(TxState.MINED, block=book.txs[item.hash], slot=slot)
        elif not model.is_possible(item, book, now):
            assert outcome is Added.IGNORED
        elif slot := model.slot_of(item):
            assert outcome is Added.ACCEPTED
            model.protect(item, slot)
            self.protected_newcomers += 1
        else:
            rejected, leaving = model.rejection(item, book, by_rank=origin is Origin.NODE)
            assert outcome == (rejected or Added.ACCEPTED)
            if rejected is None:
                model.delete(leaving)
                model.stranded.pop(item.hash, None)
                model.waiting[item.hash] = item
                model.tidy(book)

    def mine(self) -> None:
        model, dice = self.model, self.dice
        self.harness.now += dice.choice([0, 1, 1, 2]) * SLOT_S
        taken = self._some(model.pending + model.in_state(TxState.PROTECTED), 3)
        stranger = random_entry(dice, self.harness.now)
        strangers = [] if stranger.hash in model.waiting or dice.random() < 0.6 else [stranger]
        self.strangers += strangers
        foreign = dice.sample(NULLIFIERS, dice.choice([0, 0, 0, 1]))
        balances = {payer: dice.randrange(250) for payer in dice.sample(PAYERS, dice.choice([0, 1, 2]))}
        self.past.append(self.harness.ledger)
        block_hash = dice.choice([None, ANCHORS[2]])
        self.harness.mine(*taken, *strangers, nullifiers=foreign, balances=balances, block_hash=block_hash)
        book = self.harness.ledger
        model.put_back(model.found_again(book), book, self.harness.now)
        spent = {word(number) for number in foreign} | {n for item in [*taken, *strangers] for n in item.nullifiers}
        for item in taken:
            slot = model.waiting[item.hash].slot
            model.waiting[item.hash] = item.moved(TxState.MINED, block=self.harness.ledger.head, slot=slot)
        model.delete([item for item in model.pending if spent & set(item.nullifiers)])
        model.delete([item for item in model.pending if item.expiration <= self.harness.now])
        model.tidy(self.harness.ledger)

    def undo(self) -> None:
        if not self.past:
            return
        depth = self.dice.randrange(1, len(self.past) + 1)
        book = self.past[-depth]
        del self.past[-depth:]
        self.harness.undo_to(book)
        self._reconcile()

    def _reconcile(self) -> None:
        model, book, now = self.model, self.harness.ledger, self.harness.now
        for item in list(model.waiting.values()):
            if item.hash in book.txs:
                model.waiting[item.hash] = item.moved(TxState.MINED, block=book.txs[item.hash], slot=item.slot)
        undone = [item for item in model.in_state(TxState.MINED) if item.hash not in book.txs]
        for item in model.pending:
            if not model.is_possible(item, book, now):
                model.leave(item, book, now)
        returning = model.found_again(book)
        if self.harness.options.delete_after_reorg:
            model.delete(undone)
        else:
            returning += undone
            self.protected_again += sum(model.slot_of(item) > 0 for item in undone)
        model.put_back(returning, book, now)
        model.tidy(book)

    def harness_restarts(self) -> None:
        if self.dice.random() < 0.5:
            self.harness.restart()
        else:
            self.harness.restart_after_a_crash()
        self.model.awaited, self.model.released = {}, 0
        self._reconcile()

    def protect(self) -> None:
        model, slot = self.model, self.slot + self.dice.randrange(-1, 3)
        taken = self._some(model.pending, 2) + self._some(model.in_state(TxState.MINED), 1)
        others = [tx_hash for tx_hash in self.dice.sample([*map(word, NUMBERS)], 2) if tx_hash not in model.waiting]
        self.harness.pool.protect([*(item.hash for item in taken), *others], slot)
        for item in taken:
            if item.state is TxState.MINED:
                model.waiting[item.hash] = replace(item, slot=slot)
            else:
                model.protect(item, slot)
        model.awaited |= dict.fromkeys(others, slot)
        self.model.tidy(self.harness.ledger)

    def release(self) -> None:
        self.slot += self.dice.randrange(2)
        model, slot = self.model, self.slot
        self.harness.pool.release_before(slot)
        model.released = max(model.released, slot)
        model.awaited = {tx_hash: named for tx_hash, named in model.awaited.items() if named >= slot}
        released = [item for item in model.in_state(TxState.PROTECTED) if item.slot < slot]
        model.put_back(released, self.harness.ledger, self.harness.now)
        model.tidy(self.harness.ledger)

    def finalize(self) -> None:
        # Final blocks are not undone.
        kept = self.dice.randrange(len(self.past) + 1)
        self.past = self.past[len(self.past) - kept :]
        number = self.harness.ledger.head - kept
        self.harness.pool.on_finalized(number)
        for item in self.model.in_state(TxState.MINED):
            if item.block <= number:
                del self.model.waiting[item.hash]
        self.model.stranded = {key: left for key, left in self.model.stranded.items() if left[1] > number}

    # ---- what must hold -------------------------------------------------------------------------

    def check(self) -> None:
        pool, model = self.harness.pool, self.model
        assert pool.pending_hashes() == [item.hash for item in model.pending]
        for tx_hash, item in model.waiting.items():
            held = pool.entry(tx_hash)
            assert held is not None
            assert (held.state, held.block, held.slot) == (item.state, item.block, item.slot)
            assert pool.tx_json(tx_hash) == tx_json(item)
            assert pool.departure_of(tx_hash) == ""
        assert {tx_hash for tx_hash in map(word, NUMBERS) if pool.is_waiting(tx_hash)} == set(model.waiting)
        assert {tx_hash for tx_hash in map(word, NUMBERS) if pool._store.tx_json(tx_hash)} == {
            *model.waiting,
            *model.stranded,
        }
        self._check_invariants()

    def _check_invariants(self) -> None:
        pool = self.harness.pool
        held = [item for tx_hash in pool.pending_hashes() if (item := pool.entry(tx_hash)) is not None]
        nullifiers = [nullifier for item in held for nullifier in item.nullifiers]
        assert len(nullifiers) == len(set(nullifiers)) == pool._pending.nullifier_count
        assert len(held) == pool.pending_count <= self.model.maximum
        ranks = [item.rank for item in held]
        assert ranks == sorted(ranks, reverse=True)
        assert not self.model.uncovered(held, self.harness.ledger)


@contextmanager
def playing(seed: int) -> Iterator[Game]:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        game = Game(seed, Path(directory) / "p2p")
        try:
            yield game
        finally:
            game.harness.close()


@pytest.mark.parametrize("seed", range(GAMES))
def test_pool_and_model_agree_after_every_step(seed: int) -> None:
    with playing(seed) as game:
        game.play()


def test_the_games_reach_every_rule() -> None:
    """A model test that never meets a conflict proves nothing."""
    seen: set[str] = set()
    protected_newcomers = protected_again = 0
    for seed in range(100, 104):
        with playing(seed) as game:
            events = game.harness.pool.events
            game.play()
            seen |= set(events) | set(game.harness.pool.events)
            protected_newcomers += game.protected_newcomers
            protected_again += game.protected_again
    assert protected_newcomers > 0
    assert protected_again > 0
    expected = {"accepted", "known", "ignored", "rejected NULLIFIER_CONFLICT", "rejected LOW_PRIORITY_FEE"}
    expected |= {"rejected INSUFFICIENT_FEE_PAYER_BALANCE", "evicted nullifier conflict", "evicted low priority"}
    expected |= {"evicted insufficient fee payer balance", f"evicted {UNKNOWN_ANCHOR}"}
    assert expected <= seen
