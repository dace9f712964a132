"""The command behind ``scripts/simulate``: a network in one process, replayed from a number.

Each seed has a process of its own (farm.py), forked from one that has read all modules.
"""

from __future__ import annotations

from tests.simulation.scheduler import StandstillError, install

install()  # before anything of fastnode is read

import gc  # noqa: E402
import importlib  # noqa: E402
import inspect  # noqa: E402
import os  # noqa: E402
import pkgutil  # noqa: E402
import shutil  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
from collections import Counter  # noqa: E402
from collections.abc import Callable, Iterable, Iterator, Sequence  # noqa: E402
from dataclasses import dataclass, replace  # noqa: E402
from itertools import count  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Final, NoReturn  # noqa: E402

import click  # noqa: E402
from tests.mempool.recorded import recordings  # noqa: E402
from tests.simulation import coverage  # noqa: E402
from tests.simulation.bugs import BUGS  # noqa: E402
from tests.simulation.farm import Outcome, new_directory, outcomes  # noqa: E402
from tests.simulation.peer_story import PEER_KINDS, PEER_NODES_MAX, PeerStory  # noqa: E402
from tests.simulation.peer_world import PeerWorld, put_peers_in_place  # noqa: E402
from tests.simulation.provider_story import (  # noqa: E402
    PROVIDER_KINDS,
    ProviderStory,
    ProviderWorld,
    grow_recorded,
)
from tests.simulation.remembered import remember  # noqa: E402
from tests.simulation.story import KINDS, NODES_MAX, Story  # noqa: E402
from tests.simulation.world import World, put_in_place  # noqa: E402
from tests.sources.l1 import publishing  # noqa: E402

import fastnode  # noqa: E402
from fastnode import records  # noqa: E402
from fastnode.protocol.releases import FIVE, FOUR, SIX, Release  # noqa: E402

#: Rooms that no simulated node uses.
UNUSED: Final = frozenset({"development", "cli", "testing", "pytest_plugin", "__main__", "local_network", "parquet"})
#: What others import when they need it first.
IMPORTED_LATE: Final = (
    "cramjam",
    "cryptography.hazmat.primitives.asymmetric.rsa",
    "py_arkworks_bls12381",
    "encodings.ascii",
    "nats.aio.client",
    "nats.js",
)

#: Kinds of trouble of each network, and how many nodes it has at most.
NETWORKS: Final = {
    "followers": (KINDS, NODES_MAX),
    "peers": (PEER_KINDS, PEER_NODES_MAX),
    "providers": (PROVIDER_KINDS, 1),
}
#: A peer without another one says that it is in trouble.
NODES_MIN: Final = {"followers": 1, "peers": 2, "providers": 1}
ALL_KINDS: Final = tuple(dict.fromkeys(KINDS + PEER_KINDS))
RELEASES: Final = {release.name: release for release in (FOUR, FIVE, SIX)}
#: Where both networks are played, one of so many seeds is of peers, which cost four times as much.
PEERS_EACH: Final = 5
#: Minutes and nodes of a short seed: of two peers alone, one that has lost points has nobody else.
SHORT: Final = {"followers": (1.0, None), "peers": (0.5, 3), "providers": (1.0, None)}
#: Seeds of a farm after which it says how far it is.
PROGRESS_EACH: Final = 500


@dataclass(frozen=True)
class Plan:
    """``kinds`` of trouble."""

    seed: int
    minutes: float
    nodes: int | None = None
    kinds: tuple[str, ...] = KINDS
    network: str = "followers"
    release: Release = FOUR
    #: A bug of bugs.py that is put back.
    bug: str | None = None

    @classmethod
    def of(
        cls, seed: int, minutes: float, nodes: int | None, network: str, without: Sequence[str], *, is_short: bool
    ) -> Plan:
        """What a seed plays; ``network`` may be "both"."""
        if network == "both":
            network = "followers" if seed % PEERS_EACH else "peers"
        if is_short:
            minutes, usual = SHORT[network]
            nodes = nodes or usual
        kinds = tuple(kind for kind in NETWORKS[network][0] if kind not in without)
        return cls(seed, minutes, nodes, kinds, network)

    def command(self) -> str:
        parts = [f"scripts/simulate --seed {self.seed} --minutes {self.minutes:g}"]
        if self.network != "followers":
            parts.append(f"--network {self.network}")
        if self.release is not FOUR:
            parts.append(f"--release {self.release.name}")
        if self.bug is not None:
            parts.append(f"--bug {self.bug}")
        if self.nodes is not None:
            parts.append(f"--nodes {self.nodes}")
        parts += [f"--without {kind}" for kind in NETWORKS[self.network][0] if kind not in self.kinds]
        return " ".join(parts)

    def smaller(self) -> Iterator[Plan]:
        """Plans with less in them."""
        for nodes in range(NODES_MIN[self.network], self.nodes or NETWORKS[self.network][1]):
            yield replace(self, nodes=nodes)
        for kind in self.kinds:
            yield replace(self, kinds=tuple(each for each in self.kinds if each != kind))
        if self.minutes > 2:
            yield replace(self, minutes=self.minutes / 2)


def prepare() -> None:
    """Do once, before all forks, what each seed would do again.

    A thread of the world that waits for one that imports would wait outside of it.  No database is opened here: a
    fork has none of its threads.
    """
    for module in pkgutil.walk_packages(fastnode.__path__, "fastnode."):
        if module.name.split(".")[1] not in UNUSED:
            try:
                importlib.import_module(module.name)
            except ImportError:  # what it needs is not installed here
                continue
    for name in IMPORTED_LATE:
        importlib.import_module(name)
    _compile_classes()
    recordings()
    publishing.known_slots()
    remember(tuple(RELEASES.values()))
    gc.collect()
    gc.freeze()


def _compile_classes() -> None:
    """Make the methods that ``fastnode.records`` makes when a class is used first."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("fastnode.")]
    for cls in {each for module in modules for each in vars(module).values() if isinstance(each, type)}:
        made_in_time = vars(cls).get("__init__")
        if getattr(made_in_time, "__module__", None) == records.__name__:
            known = inspect.getclosurevars(made_in_time).nonlocals
            if known.get("cls") is cls:
                cls.__init__ = records._true_init(cls, known["fields"], frozen=known["frozen"])  # type: ignore[misc]


def play(plan: Plan, directory: Path, tell: Callable[[str], None]) -> bool:
    """One seed, in this process, which is of no use afterwards; False when something does not hold."""
    # What others have left in the machine's temporary directory is none of the world.
    (directory / "temporary").mkdir()
    tempfile.tempdir = str(directory / "temporary")
    if plan.bug is not None:
        BUGS[plan.bug].put_back()
    world, story = _opened(plan, directory, tell)
    try:
        world.scheduler.run(story.run)
    except (AssertionError, StandstillError) as error:
        tell("".join(traceback.format_exception(error)))
        tell(f"seed {plan.seed} FAILED after {world.now / 60:.1f} minutes: {error}")
        return False
    done = " ".join(f"{name}={number}" for name, number in sorted((world.counts | world.wire.counts).items()))
    tell(f"seed {plan.seed} held for {world.now / 60:.1f} minutes: {done}")
    tell(f"digest {world.digest} of {world.lines} lines and {world.scheduler.steps} steps")
    return True


def _opened(
    plan: Plan, directory: Path, tell: Callable[[str], None]
) -> tuple[World, Story] | tuple[ProviderWorld, ProviderStory]:
    if plan.network == "providers":
        of_providers = ProviderWorld(plan.seed, directory, tell)
        put_in_place(of_providers)
        return of_providers, ProviderStory(of_providers, plan.minutes, plan.nodes, plan.kinds)
    if plan.network == "peers":
        among_peers = PeerWorld(plan.seed, directory, tell)
        put_in_place(among_peers)
        put_peers_in_place(among_peers)
        return among_peers, PeerStory(among_peers, plan.minutes, plan.nodes, plan.kinds)
    world = World(plan.seed, directory, tell, plan.release)
    put_in_place(world)
    return world, Story(world, plan.minutes, plan.nodes, plan.kinds)


def shrunk(plan: Plan) -> Plan:
    """A plan with fewer nodes, kinds of trouble and minutes that does not hold either."""
    while True:
        for smaller in plan.smaller():
            if not next(outcomes([smaller], play)).has_held:
                plan = smaller
                break
        else:
            return plan


def _say(line: str) -> None:
    print(line, flush=True)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=int, default=1, show_default=True, help="The number that the whole story comes from.")
@click.option("--count", "seeds", type=int, default=1, show_default=True, help="So many seeds, from --seed on.")
@click.option("--forever", is_flag=True, help="All seeds from --seed on, until one does not hold.")
@click.option("--minutes", type=float, default=30.0, show_default=True, help="Simulated minutes of each.")
@click.option(
    "--network",
    type=click.Choice((*NETWORKS, "both")),
    default="followers",
    show_default=True,
    help="Nodes that follow L1 and each other, or a committee of peers; of both, one seed of five is of peers. With "
    "providers: one node, whose providers of L1 and blobs have limits and forms of their own.",
)
@click.option(
    "--release",
    type=click.Choice(tuple(RELEASES)),
    default=FOUR.name,
    show_default=True,
    help="Rules of the chain; peers and wallets have those of 4.x alone.",
)
@click.option("--short", is_flag=True, help="As little of each seed as tests play: a minute of trouble, and the calm.")
@click.option("--nodes", type=click.IntRange(1, NODES_MAX), help="Number of nodes; as the seed says by default.")
@click.option(
    "--without",
    type=click.Choice(ALL_KINDS),
    multiple=True,
    help="A kind of trouble that there is not.",
)
@click.option("--coverage", "covers", is_flag=True, help="Count the states and transitions that the seeds reach.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="So many seeds beside each other.")
@click.option("--keep-going", is_flag=True, help="Go on after a seed that does not hold, and tell of all in the end.")
@click.option("--here", is_flag=True, help="Play one seed in this process itself, for a debugger or a profiler.")
@click.option(
    "--bug", type=click.Choice(tuple(BUGS)), help="A bug that was real, put back: the simulation must find it."
)
@click.option("--quiet", is_flag=True, help="Tell of each seed only whether it held.")
@click.option("--shrink/--no-shrink", default=True, help="Look for less that does not hold either.")
def simulate(
    seed: int,
    seeds: int,
    forever: bool,
    minutes: float,
    network: str,
    release: str,
    short: bool,
    nodes: int | None,
    without: Sequence[str],
    covers: bool,
    jobs: int,
    keep_going: bool,
    here: bool,
    bug: str | None,
    quiet: bool,
    shrink: bool,
) -> None:
    """Let a network of fastnodes live in one process, on one clock and one source of chance.

    The trace tells what happened, when and to whom; the same seed tells the same again.
    """
    if network == "providers":
        grow_recorded()
    if network != "followers" and release != FOUR.name:
        raise click.UsageError("peers have the rules of 4.x alone")
    if network != "followers" and os.environ.get("PYTHONHASHSEED") != "0":
        # Peers are members of sets by their ids, which are texts: their order is that of the hashes.
        arguments = [sys.executable, "-m", "tests.simulation.run", *sys.argv[1:]]
        os.execve(sys.executable, arguments, os.environ | {"PYTHONHASHSEED": "0"})
    prepare()
    numbers = count(seed) if forever else range(seed, seed + seeds)
    plans = (
        replace(Plan.of(number, minutes, nodes, network, without, is_short=short), release=RELEASES[release], bug=bug)
        for number in numbers
    )
    if here:
        _play_here(next(plans), _say_outcome if quiet else _say)
    found = Counter[str]()
    if jobs > 1 or keep_going:
        failed = _farm(plans, jobs, found, covers=covers, keeps_going=keep_going)
        shrinking = outcomes([each.plan for each in failed] if shrink else [], _shrink, jobs)
        smallest = {outcome.place: outcome.lines[-1] for outcome in shrinking}
        for place, outcome in enumerate(failed):
            _say(f"it does not hold: {outcome.plan.command()}: {_last(outcome)}")
            if shrink:
                _say(f"nor does less: {smallest[place]}")
    else:
        failed = []
        for outcome in outcomes(plans, play, tell=_say_outcome if quiet else _say, covers=covers):
            print(f"{outcome.cpu_s:.1f} s of CPU", file=sys.stderr, flush=True)
            found.update(outcome.reached)
            if not outcome.has_held:
                failed = [outcome]
                _say(f"it does not hold: {outcome.plan.command()}")
                if shrink:
                    _say(f"nor does less: {shrunk(outcome.plan).command()}")
                break
    if failed:
        sys.exit(1)
    if covers:
        for line in coverage.table(found, seeds):
            _say(line)


def _play_here(plan: Plan, tell: Callable[[str], None]) -> NoReturn:
    directory = new_directory()
    has_held = play(plan, directory, tell)
    shutil.rmtree(directory, ignore_errors=True)
    sys.stdout.flush()
    os._exit(0 if has_held else 1)  # threads of the world wait for ever


def _farm(plans: Iterable[Plan], jobs: int, found: Counter[str], *, covers: bool, keeps_going: bool) -> list[Outcome]:
    """Those that do not hold: all, or the first.  Tells a line of each, and now and then how far it is."""
    failed: list[Outcome] = []
    begun, cpu_s = time.monotonic(), 0.0

    def progress() -> None:
        held = number - len(failed)
        _say(
            f"{number} seeds: {held} held, {len(failed)} did not; {cpu_s / number:.2f} s of CPU each, "
            f"{time.monotonic() - begun:.0f} s in all"
        )

    number = 0
    farm = outcomes(plans, play, jobs, covers=covers)
    for number, outcome in enumerate(farm, 1):
        cpu_s += outcome.cpu_s
        found.update(outcome.reached)
        if not outcome.has_held:
            failed.append(outcome)
            if not keeps_going:
                for line in outcome.lines:
                    _say(line)
                break
            _say(f"{outcome.plan.command()}: {_last(outcome)}")
        if number % PROGRESS_EACH == 0:
            progress()
    farm.close()
    if number % PROGRESS_EACH:
        progress()
    return failed


def _last(outcome: Outcome) -> str:
    """Line of a seed that did not hold."""
    return outcome.lines[-1] if outcome.lines else "it told nothing"


def _shrink(plan: Plan, _: Path, tell: Callable[[str], None]) -> bool:
    tell(shrunk(plan).command())
    return True


def _say_outcome(line: str) -> None:
    if line.startswith(("seed", "digest", "Traceback")):
        _say(line)


if __name__ == "__main__":
    simulate()
