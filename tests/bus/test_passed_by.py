"""Transactions of the fleet that a node reads after the block that has them, or before the one they are built on."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from tests.bus.test_handing_on import SENT, SUBJECTS, TXS, CutBus, Pool, Servers

from fastnode.bus.passed_by import LATER_S
from fastnode.bus.transactions import SharedTxs
from fastnode.errors import Refused
from fastnode.mempool.pool import Added
from fastnode.mempool.validation import EXISTING_NULLIFIER, UNKNOWN_ANCHOR
from fastnode.protocol.releases import FOUR
from fastnode.protocol.tips import BlockId
from fastnode.protocol.tx import Tx

#: Block that all are built on.
ANCHOR = TXS[0].data.anchor_block_hash


class Chain:
    """Blocks are a hash, and hashes of transactions; the first is the genesis."""

    def __init__(self, genesis: bytes) -> None:
        self.chain = SimpleNamespace(release=FOUR)
        self.blocks: list[tuple[bytes, set[bytes]]] = [(genesis, set())]
        self.final = 0

    @property
    def tips(self) -> Any:
        return SimpleNamespace(finalized=SimpleNamespace(block=BlockId(self.final, self.blocks[self.final][0])))

    def tx_location(self, tx_hash: bytes) -> Any:
        for number, (_, txs) in enumerate(self.blocks):
            if tx_hash in txs:
                return SimpleNamespace(block_number=number)
        return None

    def block_id(self, number: int) -> BlockId:
        return BlockId(number, self.blocks[number][0])

    def block_number_by_hash(self, block_hash: bytes) -> int | None:
        return next((number for number, (each, _) in enumerate(self.blocks) if each == block_hash), None)

    @property
    def unmined(self) -> list[bytes]:
        return [tx.hash for tx in TXS if self.tx_location(tx.hash) is None]


class JudgingPool(Pool):
    """Takes nothing of which a block has the nullifiers, or before its anchor; ``behind``: chance that it has not heard
    of the newest block yet."""

    def __init__(self, chain: Chain, dice: random.Random) -> None:
        super().__init__()
        self._chain, self._dice = chain, dice
        self.behind = 0.0
        self._ignored: set[bytes] = set()

    def departure_of(self, tx_hash: bytes) -> str | None:
        return UNKNOWN_ANCHOR if tx_hash in self._ignored else None

    def receive(self, tx: Tx, view: Any, *, forwarded: bool) -> Added:
        if self._chain.tx_location(tx.hash) is not None:
            raise Refused(EXISTING_NULLIFIER)
        if self._chain.block_number_by_hash(tx.data.anchor_block_hash) is None:
            raise Refused(f"Invalid tx: {UNKNOWN_ANCHOR}")
        if self._dice.random() < self.behind:
            self._ignored.add(tx.hash)
            return Added.IGNORED
        self._ignored.discard(tx.hash)
        return super().receive(tx, view, forwarded=forwarded)


@pytest.mark.parametrize("seed", range(30))
def test_what_a_block_had_when_it_was_read_waits_once_that_is_taken_back(seed: int) -> None:
    dice = random.Random(seed)
    servers, chain = Servers(dice), Chain(ANCHOR)
    bus: Any = CutBus(servers, "one")
    pool: Any = JudgingPool(chain, dice)
    txs = SharedTxs(bus, SUBJECTS, pool, lambda: SimpleNamespace(chain=chain), None, session="s")  # type: ignore[arg-type,return-value]
    txs._read_on()
    sent: set[bytes] = set()
    taken_back: list[tuple[bytes, set[bytes]]] = []
    for _ in range(100):
        deed = dice.choice(["send", "read", "block", "undo", "again", "trouble"] * 3 + ["final"])
        if deed == "send" and len(sent) < len(TXS):
            tx_hash = dice.choice([tx.hash for tx in TXS if tx.hash not in sent])
            servers.streams[SUBJECTS.tx_stream].store(SUBJECTS.tx(tx_hash), {}, b"", SENT[tx_hash], servers.clock.now)
            sent.add(tx_hash)
        elif deed == "read":
            txs._read_on()
            servers.clock.now += 1.0
        elif deed == "block":
            taken = {tx_hash for tx_hash in chain.unmined if dice.random() < 0.5}
            chain.blocks.append((dice.randbytes(32), taken))
            taken_back = []
        elif deed == "undo" and chain.final < len(chain.blocks) - 1:
            kept = dice.randrange(chain.final + 1, len(chain.blocks))
            taken_back, chain.blocks = chain.blocks[kept:], chain.blocks[:kept]
        elif deed == "again":
            chain.blocks += taken_back
            taken_back = []
        elif deed == "final":
            chain.final += chain.final < len(chain.blocks) - 1
        elif deed == "trouble":
            servers.failing = dice.choice([0.0, 0.0, 0.1])
            pool.is_full = dice.random() < 0.2
    servers.failing, pool.is_full = 0.0, False
    if dice.random() < 0.5:
        del chain.blocks[chain.final + 1 :]
    for _ in range(3):
        servers.clock.now += 1.0
        txs._read_on()
    assert sent & set(chain.unmined) <= set(pool.waiting)
    assert len(txs._passed_by) <= sum(len(mined) for _, mined in chain.blocks[chain.final + 1 :])


@pytest.mark.parametrize("seed", range(30))
def test_what_is_built_on_a_block_that_comes_late_waits_once_that_is_here(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastnode.bus.passed_by.LATER_MAX", 3)
    dice = random.Random(seed)
    servers, chain = Servers(dice), Chain(bytes(32))
    bus: Any = CutBus(servers, "one")
    pool: Any = JudgingPool(chain, dice)
    txs = SharedTxs(bus, SUBJECTS, pool, lambda: SimpleNamespace(chain=chain), None, session="s")  # type: ignore[arg-type,return-value]
    txs._read_on()
    unsent = list(TXS)
    for _ in range(60):
        deed = dice.choice(["send", "read", "read", "anchor", "trouble"])
        if deed == "send" and unsent:
            tx_hash = unsent.pop().hash
            servers.streams[SUBJECTS.tx_stream].store(SUBJECTS.tx(tx_hash), {}, b"", SENT[tx_hash], servers.clock.now)
        elif deed == "read":
            txs._read_on()
            servers.clock.now += dice.choice([1.0, 1.0, LATER_S])
        elif deed == "anchor" and dice.random() < 0.3:
            chain.blocks = chain.blocks[:1] if len(chain.blocks) > 1 else [*chain.blocks, (ANCHOR, set())]
        elif deed == "trouble":
            servers.failing = dice.choice([0.0, 0.0, 0.1])
            pool.behind = dice.choice([0.0, 0.5])
    servers.failing, pool.behind = 0.0, 0.0
    chain.blocks = [(bytes(32), set()), (ANCHOR, set())]
    for _ in range(3):
        servers.clock.now += 1.0
        txs._read_on()
    assert set(pool.waiting) == {tx.hash for tx in TXS if tx not in unsent}
    assert len(txs._passed_by) == 0
