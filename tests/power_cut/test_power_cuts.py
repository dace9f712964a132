"""The power fails, or the process is killed, at random writes of all kinds of work: a start finds what was told.

Each life of a data directory is recorded with all that it does to files (recording.py), and many ends of it are tried:
the directory is made as the disk would have it, a node's databases are opened on it and judged by databases that were
never killed (truth.py).  A few are tried always, hundreds with FASTNODE_LONG=1; FASTNODE_SEED=N tries other ones.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.power_cut.life import DATA, TOLD, age, options
from tests.power_cut.recording import Event, RecordedDisk, Recording, recorder
from tests.power_cut.truth import BLOCKS, PARTING, Truth

from fastnode.chain_data import ChainData
from fastnode.data_check import check_data
from fastnode.sources.chain_import import adopt_chain_file, import_chain_file

IS_LONG: Final = os.environ.get("FASTNODE_LONG") == "1"
SEED: Final = int(os.environ.get("FASTNODE_SEED", "41"))
STORIES: Final = 12 if IS_LONG else 2
LIVES: Final = 5 if IS_LONG else 2
ENDS: Final = 9 if IS_LONG else 2
STEPS: Final = 14
LOOKS: Final = 4
#: Share of the ends that lose what was not synced; the others are kills.
POWER_CUTS: Final = 0.75


class Lives:
    """The process that lives them."""

    def __init__(self) -> None:
        environment = os.environ | {"LD_PRELOAD": str(recorder())}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.power_cut.life"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    def live(self, **job: Any) -> int:
        """The exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    lives = Lives()
    yield lives
    lives.close()


@pytest.fixture(scope="module")
def counts() -> Iterator[Counter[str]]:
    """Ends by kind of work."""
    counts: Counter[str] = Counter()
    yield counts
    width = max(map(len, counts), default=0)
    print("\n".join(["", *(f"{work:{width}} {count}" for work, count in sorted(counts.items()))]))


class Story:
    """Lives of one data directory, one after the other; each begins with an end of the one before."""

    def __init__(self, folder: Path, truth: Truth, lives: Lives, seed: str, counts: Counter[str]) -> None:
        self._folder = folder
        self._truth = truth
        self._lives = lives
        self._seed = seed
        self._dice = random.Random(seed)
        self._counts = counts
        (folder / "0").mkdir(parents=True)

    def begin_old(self, old: Path) -> None:
        shutil.copytree(old, self._folder / "0" / DATA)

    def live(self, number: int, ends: int) -> None:
        """Record a life of so many steps, and judge so many ends of it; the next one begins with one of them."""
        folder, recording = self._folder / str(number), self._folder / f"{number}.recording"
        (folder / TOLD).unlink(missing_ok=True)
        disk = RecordedDisk(folder)
        code = self._lives.live(
            folder=str(folder),
            recording=str(recording),
            chains=list(map(str, self._truth.files)),
            seed=f"{self._seed} {number}",
            steps=STEPS,
        )
        assert code == 0, f"life {number} of {self._seed}"
        events = Recording.read(recording)
        story = Told(folder / TOLD)
        chosen = story.places(events, self._dice, ends + 1)
        for place, event in enumerate(events):
            for index in [index for index, where in enumerate(chosen) if where == place]:
                end = self._folder / f"{number}.{index}"
                self._end(disk, event, end)
                if index:
                    self._judge(end, story.at(place, events), f"{self._seed}: life {number}, event {place}")
                    shutil.rmtree(end)
                else:
                    end.rename(self._folder / str(number + 1))
            disk.play(event)
        shutil.rmtree(folder)
        recording.unlink()

    def _end(self, disk: RecordedDisk, event: Event, target: Path) -> None:
        if self._dice.random() < POWER_CUTS:
            disk.after_power_cut(target, self._dice)
        else:
            disk.after_kill(target, event, self._dice)

    def _judge(self, folder: Path, expected: Expected, where: str) -> None:
        """Open the databases as a node does, and hold them against what was told and what is true."""
        self._counts[expected.work] += 1
        try:
            found = self._found(folder)
            expected.require(found)
        except Exception as error:
            kept = Path(tempfile.mkdtemp(prefix="power-cut-")) / "data"
            shutil.copytree(folder / DATA, kept)
            raise AssertionError(f"{where} ({expected.work}), now in {kept}: {error}") from error

    def _found(self, folder: Path) -> dict[str, Any] | None:
        if not (folder / DATA).exists():
            return None
        with ChainData.open(folder / DATA, options=options()) as data:
            if not data.store.has_chain:
                return None
            ingestor = data.open_ingestor(verify=False)
            ingestor.catch_up()
            chain, state = ingestor.view, data.state.view
            self._truth.judge(data, chain, self._dice, LOOKS)
            if IS_LONG or self._dice.random() < 0.5:
                assert check_data(data).problems == []
            tip = chain.block_info(chain.tip_number)
            assert tip is not None
            return {"tip": tip.number, "hash": tip.hash.hex(), "body": chain.oldest_body, "oldest": state.oldest}

    def finish(self, number: int) -> None:
        """The newest end is judged, and goes on to the end of a fork."""
        folder = self._folder / str(number)
        self._judge(folder, Expected("finish", {}, {}), f"{self._seed}: after all lives")
        with ChainData.open(folder / DATA, options=options()) as data:
            adopt_chain_file(data.store, self._truth.files[0])
            ingestor = data.open_ingestor(verify=False)
            ingestor.catch_up()
            tip = ingestor.view.block_info(ingestor.view.tip_number)
            assert tip is not None
            import_chain_file(ingestor, self._truth.files[self._truth.fork_with(tip.number, tip.hash)])
            assert ingestor.view.tip_number == BLOCKS
            self._truth.judge(data, ingestor.view, self._dice, 10 * LOOKS)
            assert check_data(data).problems == []
        shutil.rmtree(folder)


class Expected(NamedTuple):
    """``work`` that was done at the end, the newest facts that were told, and those that would have been told next."""

    work: str
    told: dict[str, Any]
    following: dict[str, Any]

    def require(self, found: dict[str, Any] | None) -> None:
        if "tip" not in self.told:
            return  # nothing but the beginning
        assert found is not None, "the chain is lost"
        following = self.following or self.told
        tips = {self.told["hash"], following.get("hash", self.told["hash"])}
        assert found["hash"] in tips, f"block {found['tip']} is neither {self.told['tip']} nor {following.get('tip')}"
        for name in ("body", "oldest"):
            bounds = sorted((self.told[name], following[name]))
            if name == "oldest" and self.work == "rebuild":
                bounds[0] = 0  # a rebuilt state has its whole history until it is pruned
            assert bounds[0] <= found[name] <= bounds[1], f"{name}: {found[name]} is not within {bounds}"


class Told:
    """The lines that a process told, each with the event that put it there."""

    def __init__(self, file: Path) -> None:
        self.lines: list[dict[str, Any]] = [json.loads(line) for line in file.read_bytes().splitlines()]
        self._inode = file.stat().st_ino

    def _events(self, events: Recording) -> list[int]:
        """Places of the events that told the lines."""
        return [place for place, event in enumerate(events) if event.kind == "W" and event.inode == self._inode]

    def places(self, events: Recording, dice: random.Random, count: int) -> list[int]:
        """Events at which to end: of random kinds of work, so that the rare ones get as many."""
        borders = [*self._events(events), len(events)]
        by_work: dict[str, list[int]] = {}
        for line, (first, last) in zip(self.lines, pairwise(borders), strict=True):
            by_work.setdefault(line["work"], []).extend(range(first + 1, last))
        kinds = [places for places in by_work.values() if places]
        return [dice.choice(dice.choice(kinds)) for _ in range(count)]

    def at(self, place: int, events: Recording) -> Expected:
        """Facts before an event, and after it."""
        count = sum(where < place for where in self._events(events))
        facts = [line for line in self.lines[:count] if "tip" in line]
        following = next((line for line in self.lines[count:] if "tip" in line), {})
        return Expected(self.lines[count - 1]["work"], facts[-1] if facts else {}, following)


@pytest.fixture(scope="module")
def old(truth: Truth, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as the oldest version that is still read has left it."""
    path = tmp_path_factory.mktemp("old") / DATA
    with ChainData.open(path) as data:
        adopt_chain_file(data.store, truth.files[0])
        ingestor = data.open_ingestor(verify=False)
        for record in truth.forks[0].checkpoints[: PARTING - 1]:
            ingestor.apply(record)
    age(path)
    return path


@pytest.mark.parametrize("number", range(STORIES))
def test_whenever_it_ends_a_start_finds_what_was_told_and_nothing_that_is_wrong(
    truth: Truth, lives: Lives, old: Path, counts: Counter[str], tmp_path: Path, number: int
) -> None:
    story = Story(tmp_path / "story", truth, lives, f"{SEED} {number}", counts)
    if number % 2:
        story.begin_old(old)
    for life in range(LIVES):
        story.live(life, ENDS)
    story.finish(LIVES)
