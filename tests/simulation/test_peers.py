"""The simulation of peers: a committee over several nodes, told again from a number, and what its parts promise."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.simulation.peer_wire import PathFaults, PeerWire
from tests.simulation.scheduler import Loop, Scheduler
from tests.simulation.test_simulation import PATIENCE_S, PROJECT, is_long, on_tried_python, simulate

SHORT = ("--network", "peers", "--nodes", "3", "--minutes", "0.5", "--no-shrink")


@on_tried_python
def test_a_committee_of_peers_holds_and_a_number_tells_the_same_story_elsewhere(tmp_path: Path) -> None:
    first = simulate("--seed", "1", *SHORT, hash_seed=1)
    assert first.returncode == 0, first.stdout[-3000:] + first.stderr[-3000:]
    again = simulate("--seed", "1", *SHORT, hash_seed=2, elsewhere=tmp_path)
    assert again.stdout == first.stdout
    for line in ("node-1     serves", "L1         has checkpoint", "1 slots of calm are on L1, and all nodes agree"):
        assert line in first.stdout


@on_tried_python
@pytest.mark.skipif(not is_long, reason="FASTNODE_LONG=1 plays more seeds")
def test_more_seeds_of_peers_hold() -> None:
    played = simulate("--network", "peers", "--seed", "100", "--count", "20", "--quiet", hash_seed=0)
    assert played.returncode == 0, played.stdout[-5000:]


#: A validator that gives a checkpoint up when it cannot judge it yet.
BROKEN = """
import sys
from tests.simulation import run
from fastnode.sequencing import validator

def await_right(self, facts, proposal):
    try:
        blocks, chain = self._blocks(proposal)
        self._check(facts, proposal, blocks, chain)
    except validator._NotYetError as missing:
        raise validator.SlotLost(str(missing)) from None

validator.Validator._await_right = await_right
sys.argv = ["simulate", "--network", "peers", "--count", "10", "--minutes", "2", "--quiet", "--no-shrink"]
run.simulate()
"""


@on_tried_python
@pytest.mark.skipif(not is_long, reason="FASTNODE_LONG=1 looks for a bug that is put in")
def test_a_validator_that_does_not_wait_for_blocks_is_found() -> None:
    command = [sys.executable, "-c", BROKEN]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    played = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert played.returncode == 1
    assert "does not attest to a checkpoint with which nothing is wrong" in played.stdout
    assert "it does not hold: scripts/simulate --seed" in played.stdout


# ---- the ways between peers ----------------------------------------------------------------------


class Hears(asyncio.Protocol):
    def __init__(self) -> None:
        self.heard = b""
        self.is_over = False

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, error: Exception | None) -> None:
        self.is_over = True


def carried(seed: int, faults: PathFaults, *, is_parted: bool = False) -> tuple[bytes, bool, float]:
    """Forty words from one loop to another; what came, whether the end did, and when all was over."""
    world = Scheduler(seed)
    wire = PeerWire(random.Random(seed), lambda: "here", faults, {"10.0.0.2": "there"})
    hears, found, errors = Hears(), list[bytes](), list[BaseException]()
    world.on_error = lambda _task, error: errors.append(error)

    async def listen() -> None:
        await asyncio.get_running_loop().create_server(lambda: hears, "10.0.0.2", 1)
        while not hears.is_over:
            await asyncio.sleep(0.1)

    async def speak() -> None:
        await asyncio.sleep(1)
        transport, _ = await asyncio.get_running_loop().create_connection(Hears, "10.0.0.2", 1)
        if is_parted:
            wire.part("here", "there")
        for number in range(40):
            transport.write(b"%d " % number)
        transport.close()
        await asyncio.sleep(30)
        found.append(hears.heard)
        wire.part("here", "there", is_parted=False)

    def run(work: Any) -> None:
        loop = Loop()
        loop.run_until_complete(work())
        loop.close()

    def begin() -> None:
        Loop.peers = wire
        world.spawn("carrier", wire.carry)
        for work in (listen, speak):
            world.spawn(work.__name__, lambda work=work: run(work))  # type: ignore[misc]
        world.sleep(100)

    try:
        world.run(begin)
    finally:
        Loop.peers = None
    assert errors == []
    assert found == [b"" if is_parted else hears.heard]
    return hears.heard, hears.is_over, world.now


WORDS = b"".join(b"%d " % number for number in range(40))


def test_bytes_of_a_connection_come_in_order_however_late_they_are() -> None:
    faults = PathFaults(delay_s=0.5, slow=0.3, lost=0.3)
    assert carried(1, faults)[:2] == (WORDS, True)
    assert carried(1, faults) == carried(1, faults)


def test_what_is_sent_between_parted_hosts_comes_when_they_are_joined_again() -> None:
    assert carried(2, PathFaults(), is_parted=True)[:2] == (WORDS, True)


def test_a_line_that_breaks_ends_both_sides() -> None:
    heard, is_over, _ = carried(3, PathFaults(broken=0.1))
    assert is_over
    assert WORDS.startswith(heard)
    assert heard != WORDS


def reset_at(*, comes_again_at: float | None) -> float | None:
    """Time at which a connection ends whose other host loses power at 2, says nothing, and listens again then; a word
    goes out at 1, and one at 3."""
    world = Scheduler(4)
    wire = PeerWire(random.Random(4), lambda: host, names={"10.0.0.2": "there"})
    wire.chance.random = lambda: 0.9  # type: ignore[method-assign]  # nobody is told
    host, ended, errors = "there", list[float](), list[BaseException]()
    world.on_error = lambda _task, error: errors.append(error)

    class Ends(asyncio.Protocol):
        def connection_lost(self, error: Exception | None) -> None:
            ended.append(world.now - begun)

    async def live() -> None:
        nonlocal host
        loop = asyncio.get_running_loop()
        await loop.create_server(asyncio.Protocol, "10.0.0.2", 1)
        host = "here"
        transport, _ = await loop.create_connection(Ends, "10.0.0.2", 1)
        await asyncio.sleep(1 - (world.now - begun))
        transport.write(b"heard")
        await asyncio.sleep(1)
        wire.forget("there")
        await asyncio.sleep(1)
        transport.write(b"lost")
        if comes_again_at is not None:
            await asyncio.sleep(comes_again_at - 3)
            host = "there"
            await loop.create_server(asyncio.Protocol, "10.0.0.2", 1)
        await asyncio.sleep(60)

    def run() -> None:
        loop = Loop()
        loop.run_until_complete(live())
        loop.close()

    def begin() -> None:
        Loop.peers = wire
        world.spawn("carrier", wire.carry)
        world.spawn("live", run)
        world.sleep(100)

    begun = world.now
    try:
        world.run(begin)
    finally:
        Loop.peers = None
    assert errors == []
    assert len(ended) <= 1
    return ended[0] if ended else None


def test_a_host_that_is_there_again_resets_connections_of_its_last_life_at_what_comes() -> None:
    for comes_again_at in (3.0, 7.0, 20.0):
        ended = reset_at(comes_again_at=comes_again_at)
        assert ended is not None
        # Sent again until then, after twice as long each time.
        assert comes_again_at <= ended <= 3.5 + 2 * max(0.5, comes_again_at - 3)


def test_a_host_that_stays_away_says_nothing_of_its_connections() -> None:
    assert reset_at(comes_again_at=None) is None
