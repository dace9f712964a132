"""Random sequences of everything that can be done to a local network, beside a model of a few lists."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.local_network.local_chain import OPTIONS, LocalChain, Wall

from fastnode.archiver.check import check_database
from fastnode.protocol.tx import Tx

LONG = os.environ.get("FASTNODE_LONG") == "1"

#: A block of the model: its transactions.  What else is in it is not the model's business.
Block = tuple[bytes, ...]


class LocalNetworkMachine(RuleBasedStateMachine):
    """``blocks`` are those after the set-up; ``saved`` what there was at each snapshot."""

    @initialize(automine=st.booleans())
    def start(self, automine: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="fastnode-model-"))
        self.wall = Wall()
        self.automine = automine
        self.blocks: list[Block] = [()] * 5
        self.hashes: list[bytes] = []
        self.pending: list[bytes] = []
        self.saved: dict[int, tuple[int, list[bytes], list[bytes]]] = {}
        self.finalized = 0
        self.txs: dict[bytes, Tx] = {}
        #: The block that each transaction was proven against: without it there is no including it any more.
        self.anchors: dict[bytes, int] = {}
        self.made = 0
        self._open()
        self.hashes = self.chain.hashes()

    def _open(self) -> None:
        chain = LocalChain(self.directory, OPTIONS, wall=self.wall)
        self.chain = chain.__enter__()
        # Transactions of before must not come again.
        for _ in range(self.made):
            next(chain._numbers)
        chain.changes.set_automine(self.automine)

    def _mined(self, blocks: list[Block]) -> None:
        self.blocks += blocks
        mined = {tx_hash for block in blocks for tx_hash in block}
        self.pending = [tx_hash for tx_hash in self.pending if tx_hash not in mined]
        self.hashes = self.chain.hashes()

    def _in_order(self, tx_hashes: list[bytes]) -> Block:
        """All offer the same: the higher hash goes first."""
        return tuple(sorted(tx_hashes, reverse=True))

    def _still_valid(self, tx_hashes: Iterable[bytes], length: int) -> Block:
        """Those that a chain of this length can still include."""
        return tuple(tx_hash for tx_hash in tx_hashes if self.anchors.get(tx_hash, length + 1) <= length)

    # ---- what may happen -------------------------------------------------------------------------

    @rule()
    def send(self) -> None:
        tx = self.chain.tx()
        self.made += 1
        self.chain.send(tx)
        self.txs[tx.hash] = tx
        self.anchors[tx.hash] = len(self.blocks)
        if self.automine:
            self._mined([self._in_order([*self.pending, tx.hash])])
        else:
            self.pending.append(tx.hash)

    @rule(count=st.integers(1, 3))
    def mine(self, count: int) -> None:
        first = self._in_order(self.pending)
        self.chain.changes.mine(count)
        self._mined([first] + [()] * (count - 1))

    @rule(seconds=st.integers(1, 5_000))
    def warp(self, seconds: int) -> None:
        self.chain.changes.warp_by(seconds)
        self._mined([self._in_order(self.pending)])

    @rule(seconds=st.integers(0, 300))
    def time_passes(self, seconds: int) -> None:
        self.wall.now += seconds

    @rule()
    def set_balance(self) -> None:
        number = self.chain.changes.set_fee_juice_balance(bytes(31) + b"\x07", self.made)
        self._mined([tuple(self.chain.ingestor.view.tx_hashes(number) or ())])

    @rule()
    def snapshot(self) -> None:
        number = self.chain.changes.snapshot()
        self.saved[number] = (len(self.blocks), list(self.hashes), list(self.pending))

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def revert(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.saved)))
        length, hashes, pending = self.saved[number]
        assert self.chain.changes.revert(number)
        self.saved = {key: item for key, item in self.saved.items() if key < number}
        self.blocks = self.blocks[:length]
        assert self.chain.hashes() == hashes
        self.hashes, self.pending = hashes, pending

    @precondition(lambda self: len(self.blocks) > self.finalized)
    @rule(data=st.data(), keep_txs=st.booleans())
    def reorg(self, data: st.DataObject, keep_txs: bool) -> None:
        depth = data.draw(st.integers(1, len(self.blocks) - self.finalized))
        length = len(self.blocks) - depth
        known = [self._still_valid(block, length) for block in self.blocks[-depth:]]
        before = list(self.hashes)
        self.chain.changes.reorg(depth, keep_txs=keep_txs)
        self.pending = list(self._still_valid(self.pending, length))
        self.saved = {key: item for key, item in self.saved.items() if item[0] <= length}
        self.blocks = self.blocks[:length]
        self._mined(known if keep_txs else [()] * depth)
        assert self.hashes[: length + 1] == before[: length + 1]
        assert set(self.hashes[length + 1 :]).isdisjoint(before[length + 1 :])

    @rule()
    def restart(self) -> None:
        self.chain.__exit__()
        self._open()
        assert self.chain.hashes() == self.hashes

    # ---- what always holds -----------------------------------------------------------------------

    @invariant()
    def the_chain_is_that_of_the_model(self) -> None:
        view = self.chain.ingestor.view
        assert [tuple(view.tx_hashes(number) or ()) for number in range(6, self.chain.tip + 1)] == self.blocks[5:]
        assert sorted(self.chain.pending) == sorted(self.pending)
        places = {tx_hash: number for number, block in enumerate(self.blocks, 1) for tx_hash in block}
        for tx_hash, tx in self.txs.items():
            assert self.chain.block_of(tx) == places.get(tx_hash)

    @invariant()
    def tips_and_times_are_in_order(self) -> None:
        proposed, checkpointed, proven, finalized = self.chain.tip_numbers()
        assert proposed == checkpointed == proven == len(self.blocks) >= finalized
        self.finalized = finalized
        oldest = min((item[0] for item in self.saved.values()), default=proposed)
        assert finalized <= max(oldest, 3)
        times = [self.chain.timestamp(number) for number in range(1, proposed + 1)]
        assert times == sorted(set(times))

    def teardown(self) -> None:
        if hasattr(self, "chain"):
            assert check_database(self.chain.data.store).problems == []
            assert self.chain.data.state is not None
            assert self.chain.data.state.check() == []
            self.chain.__exit__()
            shutil.rmtree(self.directory)


TestModel = LocalNetworkMachine.TestCase
TestModel.settings = settings(
    max_examples=100 if LONG else 6, stateful_step_count=40 if LONG else 12, deadline=None, derandomize=not LONG
)
