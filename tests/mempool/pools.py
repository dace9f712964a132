"""Pools over a ledger of one's own, and transactions reduced to what the pool looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mempool.chain import BookLedger

from fastnode.mempool.clock import SlotClock
from fastnode.mempool.entries import PoolEntry
from fastnode.mempool.ledger import balance_slot
from fastnode.mempool.pool import PoolOptions, TxPool
from fastnode.mempool.store import PoolStore
from fastnode.protocol.block import L2Block
from fastnode.protocol.effects import PublicDataWrite
from fastnode.protocol.header import GasFees
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tx_data import Gas

GENESIS = b"\x09" * 32
ANCHOR = b"\x0a" * 32
SLOT_S = 36
NOW = 36_000


def word(value: int) -> bytes:
    return value.to_bytes(32, "big")


PAYER = word(0xFEE)


def entry(number: int, *, fee: int = 0, nullifiers: Sequence[int] | None = None, **changes: Any) -> PoolEntry:
    """A private transaction whose hash is ``number``; it costs at most 100 and expires late."""
    values: dict[str, Any] = {
        "hash": word(number),
        "priority_fee": fee,
        "max_priority_fees": GasFees(fee + 1, fee),
        "fee_limit": 100,
        "claim": 0,
        "fee_payer": PAYER,
        "expiration": NOW + 86_400,
        "anchor_block_hash": ANCHOR,
        "nullifiers": tuple(map(word, nullifiers if nullifiers is not None else (10_000 + number,))),
        "gas_limits": Gas(1_000, 1_000_000),
        "is_public": False,
    }
    return PoolEntry(**(values | changes))


def tx_json(item: PoolEntry) -> bytes:
    return b'{"txHash":"0x%b"}' % item.hash.hex().encode()


def ledger(balance: int = 1_000_000) -> BookLedger:
    book = BookLedger(head=1, blocks={ANCHOR})
    book.set_balance(PAYER, balance)
    return book


# A block, reduced to what the pool reads of it.


@dataclass
class _Effect:
    tx_hash: bytes
    nullifiers: tuple[bytes, ...] = ()
    public_data_writes: tuple[PublicDataWrite, ...] = ()


@dataclass
class _Block:
    number: int
    timestamp: int
    effects: list[_Effect] = field(default_factory=list)

    @property
    def header(self) -> _Block:
        return self

    @property
    def body(self) -> _Block:
        return self

    @property
    def global_variables(self) -> _Block:
        return self

    @property
    def tx_effects(self) -> list[_Effect]:
        return self.effects


class Harness:
    """A pool in a directory, its ledger and its time."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.path = path
        self.ledger = ledger()
        self.now = NOW
        self.clock = SlotClock(0, SLOT_S, 0, lambda: self.now)
        self.options = PoolOptions(**options)
        self.pool = self._open()

    def _open(self) -> TxPool:
        return TxPool.open(self.path, self.ledger, self.clock, genesis_hash=GENESIS, options=self.options, release=FOUR)

    def restart(self) -> None:
        self.pool.close()
        self.pool = self._open()

    def restart_after_a_crash(self) -> None:
        """Without the old pool's goodbye: only what it acknowledged is there."""
        self.pool._store._database.release()
        self.pool = self._open()

    def add(self, item: PoolEntry, **options: Any) -> Any:
        return self.pool.insert(item, tx_json(item), **options)

    def pending(self) -> list[int]:
        """Numbers of the pending transactions, the best first."""
        return [int.from_bytes(tx_hash, "big") for tx_hash in self.pool.pending_hashes()]

    def mine(
        self,
        *items: PoolEntry,
        nullifiers: Sequence[int] = (),
        balances: dict[bytes, int] | None = None,
        block_hash: bytes | None = None,
    ) -> None:
        """A block with these transactions, foreign nullifiers and new balances."""
        effects = [_Effect(item.hash, item.nullifiers) for item in items]
        writes = tuple(
            PublicDataWrite(balance_slot(payer, FOUR.addresses.fee_juice), word(left))
            for payer, left in (balances or {}).items()
        )
        effects.append(_Effect(word(0xB10C << 200 | self.ledger.head), tuple(map(word, nullifiers)), writes))
        book = self.ledger.copy()
        book.head += 1
        if block_hash is not None:
            book.blocks.add(block_hash)
        for effect in effects:
            book.txs[effect.tx_hash] = book.head
            book.nullifiers.update(effect.nullifiers)
        for payer, left in (balances or {}).items():
            book.set_balance(payer, left)
        self.ledger = book
        block: Any = _Block(book.head, self.now, effects)
        typed: L2Block = block
        self.pool.on_block(book, typed)

    def undo_to(self, book: BookLedger) -> None:
        self.ledger = book
        self.pool.on_undo(book)

    def close(self) -> None:
        self.pool.close()


__all__ = ["ANCHOR", "GENESIS", "NOW", "PAYER", "Harness", "PoolStore", "entry", "ledger", "tx_json", "word"]
