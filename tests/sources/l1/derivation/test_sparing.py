"""What providers of L1 are asked for: an hour at the tip, on a clock that is not the wall's."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tests.clock import Clock
from tests.sources.l1.publishing import PublishingL1, publish, served
from tests.sources.l1.scripted_l1 import SLOT_SECONDS
from tests.sources.made_chain import SHAPE, MadeChain, made_chain

from fastnode.archiver.source import ChainRecord, GenesisRecord
from fastnode.chain_data import ChainData
from fastnode.errors import BlobsUnavailable
from fastnode.outgoing.network import Network
from fastnode.sources.blobs.beacon import BeaconNode
from fastnode.sources.blobs.fetcher import BlobFetcher, BlobSources
from fastnode.sources.blobs.http_get import HttpGet
from fastnode.sources.l1.rollup import Wanted
from fastnode.sources.l1.service import L1Options, L1Reader
from fastnode.sources.l1.source import L1Source

CALLS_A_DAY_MAX = 12_000
HOUR_S = 3600
#: Of the rollup, in seconds: a checkpoint in each.
SLOT_S = 72
#: Slots of L1 without a block.
MISSED = 0.01


class SimulatedHour:
    """L1 makes its blocks on a clock that jumps from one question of the node to the next."""

    def __init__(self, directory: Path, chain: MadeChain, l1: PublishingL1, stack: ExitStack) -> None:
        self._chance = random.Random(1)
        self._chain, self._l1 = chain, l1
        self.clock = Clock(float(l1.head.timestamp))
        l1.clock = lambda: self._mining_at
        self._mining_at = self.clock.now
        network = Network()
        stack.callback(network.close)
        data = stack.enter_context(ChainData.open(directory))
        data.store.adopt_chain(ChainRecord.from_json(chain.chain_record), GenesisRecord.from_json(chain.genesis))
        self.ingestor = data.open_ingestor(verify=True)
        options = L1Options(slot_duration=SLOT_SECONDS, waits_for_blocks=True)
        self.reader = L1Reader([l1.url], network, options, clock=self.clock)
        stack.callback(self.reader.interrupt)
        self.reader.learn(Wanted.of(chain.chain_record["nodeInfo"]))
        self.reader.begin(lambda: self.ingestor.view, in_thread=False)
        executor = stack.enter_context(ThreadPoolExecutor(1))
        beacon = BeaconNode(l1.beacon.url, HttpGet(network), "beacon 1")
        fetcher = BlobFetcher(BlobSources(consensus=(beacon,)), executor)
        self.source = L1Source(self.reader, fetcher, executor, clock=self.clock)
        self.lags: list[float] = []
        #: Looks after which the state is that of an older block, as nothing has happened since.
        self.older_states = 0
        self._published_at: dict[int, float] = {}

    def run(self, seconds: int) -> None:
        """Until so much later.  Blocks are seen 0.4 to 3 seconds after their time, some never come."""
        slot_start = int(self.clock.now) // SLOT_SECONDS * SLOT_SECONDS + SLOT_SECONDS
        end = self.clock.now + seconds
        due: list[tuple[float, int]] = []
        for timestamp in range(slot_start, int(end), SLOT_SECONDS):
            if self._chance.random() >= MISSED:
                due.append((timestamp + self._chance.triangular(0.4, 3.0, 1.0), timestamp))
        due.sort(reverse=True)
        while self.clock.now < end:
            pause = self.reader.look_once()
            assert self.reader.describe()["reason"] is None
            assert self.reader.newest_number == self._l1.head.number
            self.older_states += self.reader.seen()[1].head.number < self._l1.head.number
            self._derive()
            self.clock.now += pause
            while due and due[-1][0] <= self.clock.now:
                self._mine(*due.pop())

    def _mine(self, seen_at: float, timestamp: int) -> None:
        """A block; the first of a slot of the rollup has a checkpoint, another one its messages."""
        chain, l1 = self._chain, self._l1
        self._mining_at = timestamp
        if timestamp // SLOT_S != l1.head.timestamp // SLOT_S and chain.units and chain.units[-1].published is None:
            chain.publish()
            unit = chain.units[-1]
            self._published_at[unit.number] = seen_at
            publish(l1, unit, proven=max(0, unit.number - 8) // 4 * 4)
            return
        if not chain.units or chain.units[-1].published is not None:
            chain.propose(1)
            messages = chain.units[-1].messages
            if messages:
                l1.send(*(bytes.fromhex(text[2:]) for text in messages), checkpoint=chain.units[-1].number)
                return
        l1.mine()

    def _derive(self) -> None:
        before = self.ingestor.view.tips.checkpointed.checkpoint.number
        for record in self.source.records(lambda: self.ingestor.view):
            self.ingestor.apply(record)
        for number in range(before + 1, self.ingestor.view.tips.checkpointed.checkpoint.number + 1):
            self.lags.append(self.clock.now - self._published_at.get(number, self.clock.now))


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[MadeChain]:
    with made_chain(tmp_path / "made", replace(SHAPE, txs=1)) as chain:
        yield chain


@pytest.fixture
def hour(tmp_path: Path, chain: MadeChain) -> Iterator[SimulatedHour]:
    with (
        served(PublishingL1(chain.chain_record["nodeInfo"], chain.chain_record["l1Constants"])) as l1,
        ExitStack() as s,
    ):
        l1.finality, l1.finality_step = 64, 32
        l1.beacon.times = (0, SLOT_SECONDS)
        yield SimulatedHour(tmp_path / "node", chain, l1, s)


def test_a_day_at_the_tip_costs_no_more_than_12_000_calls(hour: SimulatedHour, chain: MadeChain) -> None:
    l1 = hour._l1
    hour.run(10 * 60)  # until the times of its blocks are known
    l1.requests.clear()
    l1.beacon.requests.clear()
    derived = hour.source.derived_count
    hour.run(HOUR_S)
    checkpoints = hour.source.derived_count - derived
    assert hour.older_states > 0
    assert checkpoints >= HOUR_S // SLOT_S - 2
    assert hour.ingestor.view.tips.checkpointed.checkpoint.number >= chain.checkpoint_count - 1
    a_day = 24 * len(l1.requests)
    shown = {method: 24 * count for method, count in Counter(l1.requests).items()}
    print(f"\n{a_day} calls a day ({shown}), {24 * len(l1.beacon.requests)} requests to the consensus client;")
    print(f"{checkpoints} checkpoints, stored {sum(hour.lags) / len(hour.lags):.1f} s after they could be seen")
    assert a_day <= CALLS_A_DAY_MAX, shown


@pytest.mark.parametrize("step", [1, 32], ids=["each block", "an epoch"])
def test_what_is_final_is_seen_within_a_block_of_l1(
    hour: SimulatedHour, chain: MadeChain, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    l1, mine, late, latest = hour._l1, hour._mine, 0, 0
    l1.finality_step = step

    def compare(seen_at: float, timestamp: int) -> None:
        """Before the next block of L1: what is final since the one before must have been seen."""
        nonlocal late, latest
        final = l1._block("finalized")
        assert final is not None
        late = late + 1 if final.proven > (hour.reader.finalized or 0) else 0
        latest = max(latest, late)
        mine(seen_at, timestamp)

    monkeypatch.setattr(hour, "_mine", compare)
    hour.run(HOUR_S)
    assert (hour.reader.finalized or 0) > 4
    assert latest <= 1


def test_a_chain_without_multicall3_is_read_all_the_same(
    hour: SimulatedHour, chain: MadeChain, caplog: pytest.LogCaptureFixture
) -> None:
    hour._l1.has_multicall = False
    hour.run(5 * 60)
    assert hour.ingestor.view.tips.checkpointed.checkpoint.number >= chain.checkpoint_count - 1 >= 2
    assert [record.message for record in caplog.records].count("L1 is asked call by call, some fifteen a block") == 1


def test_missing_blobs_cost_no_calls(hour: SimulatedHour, chain: MadeChain) -> None:
    """Each pass would ask for the same event and transaction again."""
    hour.run(3 * 60)
    l1 = hour._l1
    l1.beacon.status = 404
    l1.requests.clear()
    with pytest.raises(BlobsUnavailable):
        hour.run(3 * 60)
    before = len(l1.requests)
    for _ in range(50):
        with pytest.raises(BlobsUnavailable):
            hour._derive()
    assert len(l1.requests) == before


def test_a_block_that_multicall3_tells_wrongly_is_read_call_by_call(hour: SimulatedHour, chain: MadeChain) -> None:
    """Some nodes run calls in a block that does not exist yet."""
    tell = hour._l1._of_block
    hour._l1._of_block = lambda block, data: tell(replace(block, parent_hash=b"\1" * 32), data)  # type: ignore[method-assign]
    hour.run(5 * 60)
    assert hour.ingestor.view.tips.checkpointed.checkpoint.number >= chain.checkpoint_count - 1 >= 2
