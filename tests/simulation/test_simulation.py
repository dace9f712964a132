"""The simulation: a few short seeds, the same trace from the same number, and what the scheduler promises."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from tests.simulation.farm import Core, outcomes
from tests.simulation.scheduler import Lock, Loop, ReentrantLock, Scheduler, StandstillError

PROJECT: Final = Path(__file__).parents[2]
#: Seconds for a seed on a machine that does much else.
PATIENCE_S: Final = 600
MINUTES: Final = "1"
is_long = os.environ.get("FASTNODE_LONG") == "1"
#: What is replaced is the inside of the standard library.
TRIED_PYTHONS: Final = ((3, 11), (3, 12))
on_tried_python = pytest.mark.skipif(sys.version_info[:2] not in TRIED_PYTHONS, reason="not tried on this Python")


def simulate(*arguments: str, hash_seed: int, elsewhere: Path | None = None) -> subprocess.CompletedProcess[str]:
    """``elsewhere``: a directory of somebody who has one core and lets nobody else read files."""
    moved = {} if elsewhere is None else {"TMPDIR": str(elsewhere), "HOME": str(elsewhere)}
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation.run", *arguments],
        cwd=PROJECT,
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)} | moved,
        umask=-1 if elsewhere is None else 0o077,
        preexec_fn=None if elsewhere is None else lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@on_tried_python
def test_the_network_holds_and_a_number_tells_the_same_story_elsewhere(tmp_path: Path) -> None:
    first = simulate("--seed", "3", "--count", "2", "--minutes", MINUTES, "--no-shrink", hash_seed=1)
    assert first.returncode == 0, first.stdout[-3000:] + first.stderr[-3000:]
    again = simulate("--seed", "3", "--minutes", MINUTES, hash_seed=2, elsewhere=tmp_path)
    assert again.returncode == 0
    assert again.stdout
    assert first.stdout.startswith(again.stdout)
    other = first.stdout[len(again.stdout) :]
    assert "seed 4 held" in other
    for line in ("node-1     serves", "L1         has checkpoint", "story      all is well"):
        assert line in again.stdout


#: Short seeds in all, and in each part, which prepares for one to three seconds and plays on two cores.
SEEDS: Final = 200
SEEDS_IN_PART: Final = 25


@on_tried_python
@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_IN_PART))
def test_short_seeds_of_both_networks_hold(first: int) -> None:
    arguments = ("--network", "both", "--short", "--seed", str(first), "--count", str(SEEDS_IN_PART), "--jobs", "2")
    played = simulate(*arguments, "--keep-going", "--no-shrink", hash_seed=0)
    assert played.returncode == 0, played.stdout[-5000:]
    assert f"{SEEDS_IN_PART} seeds: {SEEDS_IN_PART} held, 0 did not" in played.stdout


@on_tried_python
@pytest.mark.long
@pytest.mark.parametrize("seed", ["2", "5"])
def test_a_seed_tells_the_same_story_without_a_process_of_its_own(seed: str) -> None:
    """Number 2 is of followers, 5 of peers."""
    arguments = ("--network", "both", "--short", "--seed", seed)
    assert simulate(*arguments, "--here", hash_seed=0).stdout == simulate(*arguments, hash_seed=0).stdout != ""


@on_tried_python
def test_states_that_seeds_reach_are_counted_and_those_that_none_does_are_named() -> None:
    played = simulate("--short", "--seed", "4", "--quiet", "--coverage", hash_seed=0)
    reached, _, missing = played.stdout.partition("reached by no seed")
    for line in ("Follower CATCHING_UP -> CAUGHT_UP", "HttpStream OPEN", "SyncControl RUNNING -> STOPPING"):
        assert re.search(rf"^{line} +1$", reached, re.MULTILINE)
        assert f"\n{line}\n" not in missing
    assert "\nBusUpstream FRESH\n" in missing


@on_tried_python
@pytest.mark.skipif(not is_long, reason="FASTNODE_LONG=1 plays more seeds")
def test_more_seeds_hold() -> None:
    played = simulate("--seed", "100", "--count", "40", "--minutes", "20", "--quiet", hash_seed=0)
    assert played.returncode == 0, played.stdout[-5000:]


#: A node that does not count how many members of the committee have attested.
BROKEN: Final = """
import sys
from tests.simulation import run
from fastnode.sources.l1 import attestation_check
attestation_check.quorum = lambda size: 0
sys.argv = ["simulate", "--seed", "1", "--count", "20", "--minutes", "10", "--quiet"]
run.simulate()
"""


@on_tried_python
@pytest.mark.skipif(not is_long, reason="FASTNODE_LONG=1 looks for a bug that is put in")
def test_a_seed_that_does_not_hold_tells_its_number_and_a_smaller_story() -> None:
    command = [sys.executable, "-c", BROKEN]
    played = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert played.returncode == 1
    assert "has too few attestations" in played.stdout
    assert "it does not hold: scripts/simulate --seed" in played.stdout
    assert "nor does less: scripts/simulate --seed" in played.stdout


@dataclass(frozen=True)
class Ending:
    """A plan that ends in its own way."""

    how: str
    minutes: float = 1.0


def end(plan: Ending, directory: Path, tell: Callable[[str], None]) -> bool:
    (directory / "database").touch()
    tell(f"{plan.how}\nin {directory}")
    if plan.how == "raises":
        raise ValueError(plan.how)
    if plan.how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return plan.how == "holds"


def test_seeds_are_played_beside_each_other_and_each_outcome_is_told() -> None:
    hows = ["holds", "fails", "raises", "dies"] * 5
    found = sorted(outcomes(map(Ending, hows), end, jobs=3), key=lambda outcome: outcome.place)
    assert [outcome.plan.how for outcome in found] == [outcome.lines[0] for outcome in found] == hows
    assert [outcome.plan.how for outcome in found if outcome.has_held] == ["holds"] * 5
    assert {outcome.lines[-1] for outcome in found if outcome.plan.how == "raises"} == {"ValueError: raises"}
    assert {outcome.lines[-1] for outcome in found if outcome.plan.how == "dies"} == {"the process ends by SIGKILL"}
    assert not any(Path(outcome.lines[1].removeprefix("in ")).exists() for outcome in found)


def test_who_has_heard_enough_ends_the_seeds_that_are_played() -> None:
    told, telling = os.pipe()

    def play(plan: Ending, _: Path, tell: Callable[[str], None]) -> bool:
        if plan.how == "waits":
            os.write(telling, b"%d" % os.getpid())
            signal.pause()
        return True

    farm = outcomes(map(Ending, ["waits", "holds"]), play, jobs=2)
    assert next(farm).plan.how == "holds"
    process = int(os.read(told, 20))
    farm.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    os.close(told)
    os.close(telling)


@pytest.mark.skipif(sys.platform != "linux", reason="seeds keep to a core on Linux only")
def test_a_seed_has_a_core_that_no_other_one_has_or_none() -> None:
    """Others may play meanwhile: then some are taken."""
    count = len(os.sched_getaffinity(0))
    cores = [Core() for _ in range(count + 1)]
    numbers = [core.number for core in cores if core.number is not None]
    assert len(numbers) == len(set(numbers)) <= count
    assert cores[-1].number is None
    for core in cores:
        core.leave()

    def play(_: Ending, __: Path, tell: Callable[[str], None]) -> bool:
        tell(f"{len(os.sched_getaffinity(0))} {os.sched_getscheduler(0) == os.SCHED_BATCH}")
        return True

    assert {outcome.lines[0] for outcome in outcomes([Ending("holds")] * 3, play)} <= {"1 True", f"{count} True"}


def story(seed: int, chance: float) -> list[str]:
    """Two threads that take turns at one lock and sleep now and then."""
    told: list[str] = []
    world = Scheduler(seed, chance)
    lock = Lock()

    def work(name: str) -> None:
        for number in range(8):
            with lock:
                told.append(f"{name}{number} {world.now:.3f}")
            world.sleep(world.entropy.random())

    def begin() -> None:
        for name in "ab":
            world.spawn(name, lambda name=name: work(name))  # type: ignore[misc]
        world.sleep(100)

    world.run(begin)
    return told


def test_an_order_of_threads_comes_from_the_seed() -> None:
    assert story(1, 0.5) == story(1, 0.5)
    assert len({tuple(story(seed, 0.5)) for seed in range(5)}) == 5


def test_a_world_in_which_everybody_waits_for_ever_says_so() -> None:
    world = Scheduler(1)

    def wait() -> None:
        lock = Lock()
        lock.acquire()
        lock.acquire()

    with pytest.raises(StandstillError):
        world.run(wait)


def test_a_killed_process_goes_on_nowhere_and_its_clock_costs_nothing() -> None:
    world = Scheduler(1)
    told: list[float] = []
    process = object()

    def live() -> None:
        while True:
            world.sleep(3600)
            told.append(world.now)

    def begin() -> None:
        world.spawn("node", live, process)
        world.sleep(24 * 3600 + 1)
        world.kill(process)
        world.sleep(24 * 3600)

    world.run(begin)
    assert len(told) == 24


def test_an_event_loop_that_is_never_at_rest_is_told_of() -> None:
    """Its memory may grow meanwhile, and the story would never go on."""
    world, told = Scheduler(1), list[str]()
    world.on_error = lambda _, error: told.append(str(error))

    def spin() -> None:
        loop = Loop()

        def again() -> None:
            loop.call_soon(again)

        again()
        try:
            loop.run_forever()
        finally:
            loop.close()

    def begin() -> None:
        world.spawn("node", spin, object())
        world.sleep(1.0)

    world.run(begin)
    assert len(told) == 1
    assert "never at rest" in told[0]


class PlainLoop(Loop):
    """With the rounds of asyncio's own loop."""

    _run_once = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined]
    call_soon = asyncio.BaseEventLoop.call_soon


def told_by(kind: type[Loop], seed: int) -> list[str]:
    """Calls now, later and from another thread, half of which are cancelled, some at the same time."""
    dice, told, world = random.Random(seed), list[str](), Scheduler(seed, 0.3)

    def live() -> None:
        loop = kind()
        handles: list[asyncio.Handle] = []

        def act(name: str) -> None:
            told.append(f"{name} {world.now:.9f} {world._looks}")
            for number in range(dice.choice([0, 0, 1, 2])):
                begin = dice.choice([loop.call_soon, lambda *call: loop.call_later(dice.randrange(4) / 8, *call)])
                handles.append(begin(act, f"{name}.{number}"))  # type: ignore[operator]
            for _ in range(dice.randrange(3)):
                dice.choice(handles).cancel()
            if len(told) > 2_000 or dice.random() < 0.01:
                loop.stop()

        for number in range(dice.choice([5, 300])):
            handles.append(loop.call_later(dice.randrange(20) / 8, act, str(number)))
            if dice.random() < 0.6:
                handles[-1].cancel()
        loop.call_later(9.0, loop.stop)
        world.spawn("other", lambda: loop.call_soon_threadsafe(act, "from another thread") and None)
        loop.run_forever()
        told.append(f"{len(loop._scheduled)} {loop._timer_cancelled_count} {len(loop._ready)}")  # type: ignore[attr-defined]
        loop.close()

    world.run(live)
    return told


@pytest.mark.parametrize("seed", range(40))
def test_a_loop_of_the_world_calls_what_that_of_asyncio_would_at_the_same_time(seed: int) -> None:
    assert told_by(Loop, seed) == told_by(PlainLoop, seed)


def test_a_reentrant_lock_is_held_until_it_is_released_as_often() -> None:
    world, told = Scheduler(1), list[str]()
    lock = ReentrantLock()

    def other() -> None:
        told.append(f"free at once: {lock.acquire(blocking=False)}, soon: {lock.acquire(timeout=1)}")
        with pytest.raises(RuntimeError):
            lock.release()
        with lock:
            told.append("held by the other")

    def begin() -> None:
        with lock, lock:
            world.spawn("other", other)
            world.sleep(5)
            lock.acquire()
            lock.release()
            told.append("waits")
            held = lock._release_save()  # as a condition does
            world.sleep(1)
            lock._acquire_restore(held)
            told.append("goes on")
        with pytest.raises(RuntimeError):
            lock.release()

    world.run(begin)
    assert told == ["free at once: False, soon: False", "waits", "held by the other", "goes on"]
