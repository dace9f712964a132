"""The command behind ``scripts/compare-derivation``: do fastnode and the published node derive the same from L1?"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import click
from tests.conftest import NodeProcess
from tests.derivation.followers import (
    LOGS,
    PATIENCE_S,
    DerivationError,
    PublishedNodeLost,
    compare_content,
    fastnode,
    published,
    require_healthy,
    settle,
)
from tests.derivation.l1 import ScenarioL1
from tests.derivation.proposer import Proposer
from tests.derivation.scenario import act, heal, kinds, mixture, scenario, without_followers_in_this_process
from tests.derivation.sequences import run_sequences
from tests.sequencing.published_node import BLOBS_HERE, BLOBS_THERE, IS_THERE

from fastnode.protocol.releases import FIVE, FOUR, Release

#: Of L1, two fastnodes and the published node.
PORTS = 7
#: Scenarios on one L1; then all begin again.
GROUP = 12
#: The published node may store what it read of an L1 that is gone meanwhile.
TRIES = 3
#: L1 is ahead of the clock on the wall.
AHEAD_S = 86_400


#: What a scenario can end with.
SCENARIO_FAULTS = (AssertionError, OSError, LookupError, TypeError, ValueError)
Say: TypeAlias = Callable[[str], None]


def _say_nothing(_: str) -> None:
    """For those who want no more than the outcome."""


class Session:
    """One L1 with its followers, for some scenarios."""

    def __init__(
        self,
        stack: ExitStack,
        ports: Sequence[int],
        name: str,
        with_published: bool,
        patience_s: float = PATIENCE_S,
        release: Release = FOUR,
    ) -> None:
        """``ports``: PORTS of them that are free."""
        self._patience_s = patience_s
        self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="derivation-")))
        l1_port, *self.always, late, late_admin, port, admin = ports
        self.late = [late, late_admin]
        self.l1 = ScenarioL1(l1_port, release)
        stack.callback(self.l1.kill)
        self.l1.open(int(time.time()) + AHEAD_S)
        self.blobs = Path(BLOBS_HERE or self.directory / "blobs") / name
        self.blobs.mkdir(parents=True)
        stack.callback(shutil.rmtree, self.blobs, ignore_errors=True)
        self.proposer = Proposer(self.l1, self.directory, self.blobs)
        stack.callback(self.proposer.close)
        self._nodes: list[NodeProcess] = []
        stack.callback(self._kill)
        self.node = self._start("always", self.always)
        self.reference: int | None = None
        self.published_port = port
        if with_published:
            context = published(l1_port, (port, admin), f"{BLOBS_THERE}/{name}")
            self.reference = stack.enter_context(context)
        self.questions = self.quiets = 0
        self.seconds: Counter[str] = Counter()
        #: What became of checkpoints whose content is not right.
        self.false: Counter[str] = Counter()

    def _start(self, name: str, ports: Sequence[int]) -> NodeProcess:
        node = fastnode(self.directory, name, self.l1, self.blobs, ports)
        self._nodes.append(node)
        return node.wait_until_serving()

    def _kill(self) -> None:
        for node in self._nodes:
            node.process.kill()
            node.process.wait()

    def quiet(self) -> None:
        self._compare(self.node, [self.always[0]])

    def _compare(self, node: NodeProcess, ports: Sequence[int]) -> None:
        """``ports``: of ``node`` first.  What differs is looked at again behind another block of L1."""
        self.quiets += 1
        for tries_left in reversed(range(TRIES)):
            with self.taking("settle"):
                false = settle(self.proposer, ports, self.reference, self._patience_s)
            self.false += false
            if self.reference is None or false:
                break
            try:
                with self.taking("compare"):
                    self.questions += compare_content(self.proposer, ports[0], self.reference)
                break
            except DerivationError:
                if not tries_left:
                    raise
                self.l1.skip(1)
        with self.taking("health"):
            require_healthy(self.proposer, node, ports[0], self._patience_s)

    @contextmanager
    def taking(self, what: str) -> Iterator[None]:
        """Count the seconds that a part takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[what] += time.monotonic() - began

    def start_late(self) -> None:
        """One that reads everything from the beginning, as it is now."""
        shutil.rmtree(self.directory / "data-late", ignore_errors=True)
        node = self._start("late", self.late)
        try:
            self._compare(node, [self.late[0], self.always[0]])
        finally:
            node.process.kill()
            node.process.wait()

    def restart(self) -> None:
        self.node.process.kill()
        self.node.process.wait()
        self.node = self._start("always", self.always)

    def run(self, actions: Sequence[dict[str, Any]], say: Say = _say_nothing) -> None:
        for action in actions:
            say(f"    {self.l1.number} {json.dumps(action)}")
            if action["do"] == "quiet":
                self.quiet()
            elif action["do"] == "late":
                self.start_late()
            elif action["do"] == "restart":
                self.restart()
            else:
                with self.taking("act"):
                    act(self.proposer, action)
        self.quiet()
        say("    heal")
        with self.taking("act"):
            heal(self.proposer)
        self.quiet()


@dataclass(frozen=True)
class Terms:
    """``port``: the first of PORTS; ``patience_s``: until followers that have not seen the same have failed."""

    port: int
    with_published: bool
    patience_s: float
    say: Say
    release: Release = FOUR
    #: With what only the model has time for otherwise.
    is_mixed: bool = False

    def actions(self, seed: int) -> list[dict[str, Any]]:
        return list(without_followers_in_this_process(mixture(seed))) if self.is_mixed else scenario(seed)

    def session(self, stack: ExitStack, name: str) -> Session:
        """A session of one L1; what does not start on a busy machine is tried again."""
        for tries_left in reversed(range(TRIES)):
            with ExitStack() as started:
                ports = range(self.port, self.port + PORTS)
                try:
                    found = Session(
                        started, ports, f"{name}-{tries_left}", self.with_published, self.patience_s, self.release
                    )
                except (AssertionError, OSError) as error:
                    if not tries_left:
                        raise
                    click.echo(f"  not started: {str(error)[-300:]}")
                    continue
                stack.push(started.pop_all())
                return found
        raise AssertionError


def minimise(actions: list[dict[str, Any]], terms: Terms) -> list[dict[str, Any]]:
    """Leave out what the difference does not need; each try has an L1 of its own."""
    at = 0
    while at < len(actions):
        fewer = actions[:at] + actions[at + 1 :]
        if fails(fewer, replace(terms, say=_say_nothing)):
            actions = fewer
        else:
            at += 1
    return actions


def fails(actions: list[dict[str, Any]], terms: Terms) -> bool:
    with ExitStack() as stack:
        session = terms.session(stack, f"alone-{terms.port}-{time.monotonic_ns()}")
        try:
            session.run(actions, terms.say)
        except DerivationError as error:
            click.echo(f"  {len(actions)} actions: {str(error)[:300]}")
            return True
        except (PublishedNodeLost, *SCENARIO_FAULTS) as error:
            click.echo(f"  {len(actions)} actions: {error!r:.200}")
    return False


@dataclass
class Results:
    """Of all scenarios so far."""

    kinds: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    failed: list[int] = field(default_factory=list)
    #: How often the published node stood still, by the row that says why.
    lost: Counter[str] = field(default_factory=Counter)
    scenarios: int = 0
    quiets: int = 0
    questions: int = 0

    def show(self) -> None:
        found = f"{self.quiets} quiet moments, {self.questions} questions"
        click.echo(f"{self.scenarios} scenarios, {found}, failed {self.failed}")
        click.echo(", ".join(f"{name} {count}" for name, count in sorted(self.kinds.items())))
        click.echo("checkpoints that were attested to and whose content is not right:")
        for line, count in sorted(self.false.items()):
            click.echo(f"  {count:4} {line}")
        for line, count in sorted(self.lost.items()):
            click.echo(f"the published node stood still {count} times: {line}")


def run_group(seeds: Sequence[int], terms: Terms, results: Results) -> int:
    """Scenarios one after the other on one L1, up to the first that fails; how many were run."""
    with ExitStack() as stack:
        session = terms.session(stack, f"{terms.port}-{seeds[0]}-{os.getpid()}")
        for place, seed in enumerate(seeds):
            actions, began = terms.actions(seed), time.monotonic()
            click.echo(f"scenario {seed} ({len(actions)} actions)")
            results.scenarios += 1
            results.kinds += kinds(actions)
            try:
                session.run(actions, terms.say)
                if place == len(seeds) - 1:
                    session.start_late()
            except PublishedNodeLost as error:
                results.lost[str(error)] += 1
                click.echo(f"  the published node is lost: {error}")
                break
            except SCENARIO_FAULTS as error:
                results.failed.append(seed)
                what = error if isinstance(error, DerivationError) else traceback.format_exc()
                click.echo(f"FAILED seed {seed}, behind {list(seeds[:place])}: {what}")
                _keep(session, seed)
                break
            parts = ", ".join(f"{name} {value:.1f}" for name, value in session.seconds.items())
            session.seconds.clear()
            click.echo(f"  {time.monotonic() - began:.1f} s: {parts}")
        results.quiets += session.quiets
        results.questions += session.questions
        results.false += session.false
    return place + 1


def _seeds(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


@click.command("compare-derivation", context_settings={"show_default": True, "max_content_width": 120})
@click.option("--seeds", default="1-30", metavar="A-B,C", help="Which scenarios.")
@click.option("--group", default=GROUP, metavar="N", help="Scenarios that follow one another on one L1.")
@click.option("--port", default=22000, metavar="P", help=f"First of {PORTS} ports.")
@click.option("--minimise", "is_minimised", is_flag=True, help="Leave out of a failing scenario what it does not need.")
@click.option(
    "--patience",
    default=PATIENCE_S,
    metavar="S",
    help="Seconds until followers that have not seen the same have failed: more where the machine has others to serve.",
)
@click.option(
    "--release",
    type=click.Choice([FOUR.name, FIVE.name]),
    default=FOUR.name,
    help="Whose contracts and rules; the published node is of 4.x.",
)
@click.option("--alone", is_flag=True, help="Without the published node: only against what is right.")
@click.option("--mixtures", is_flag=True, help="Scenarios with more kinds of trouble, as the model plays them.")
@click.option(
    "--model",
    "is_on_model",
    is_flag=True,
    help="Thousands of sequences on a model of the contracts of 5.x, with followers in this process.",
)
@click.option("--actions", metavar="FILE", help="A scenario from a file in place of seeds.")
@click.option("--verbose", is_flag=True, help="Every action.")
def main(
    seeds: str,
    group: int,
    port: int,
    is_minimised: bool,
    patience: float,
    release: str,
    alone: bool,
    mixtures: bool,
    is_on_model: bool,
    actions: str | None,
    verbose: bool,
) -> None:
    """Let fastnode and the published node follow the same hostile L1, and compare all that they say of it.

    FASTNODE_ANVIL, FASTNODE_TEST_REFERENCE and FASTNODE_TEST_BLOBS name what is not part of this project, as
    tests/sequencing/published_node.py says.  Exits with 1 if anything differs.
    """
    if is_on_model:
        sys.exit(_run_on_model(_seeds(seeds), group, is_verbose=verbose))
    if not alone and not IS_THERE:
        raise click.UsageError("FASTNODE_TEST_REFERENCE and FASTNODE_TEST_BLOBS name the published node, or --alone")
    chosen = next(item for item in (FOUR, FIVE) if item.name == release)
    if chosen is not FOUR and not alone:
        raise click.UsageError("the published node is of 4.x: --alone")
    terms = Terms(port, not alone, patience, click.echo if verbose else _say_nothing, chosen, mixtures)
    if actions is not None:
        sys.exit(_run_alone(json.loads(Path(actions).read_text()), terms, is_minimised))
    waiting, results = _seeds(seeds), Results()
    while waiting:
        count = len(results.failed)
        done = run_group(waiting[:group], terms, results)
        waiting = waiting[done:]
        if is_minimised and len(results.failed) > count:
            _run_alone(terms.actions(results.failed[-1]), terms, is_minimised)
    results.show()
    sys.exit(1 if results.failed else 0)


def _run_on_model(seeds: Sequence[int], group: int, *, is_verbose: bool) -> int:
    if not is_verbose:
        logging.disable(logging.CRITICAL)
    failed, counts = run_sequences(seeds, group, click.echo)
    click.echo(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return int(bool(failed))


def _run_alone(found: list[dict[str, Any]], terms: Terms, is_minimised: bool) -> int:
    has_failed = fails(found, terms)
    if has_failed and is_minimised:
        click.echo(json.dumps(minimise(found, terms)))
    return int(has_failed)


def _keep(session: Session, seed: int) -> None:
    """Logs of a scenario that failed, beside where the command was given."""
    kept = Path(os.environ.get("FASTNODE_DERIVATION_LOGS", tempfile.gettempdir())) / f"derivation-{seed}"
    kept.mkdir(parents=True, exist_ok=True)
    for log in session.directory.glob("*.log"):
        shutil.copy(log, kept)
    if LOGS:
        for log in Path(LOGS).glob(f"*{session.published_port}.log"):
            shutil.copy(log, kept / "published.log")
    click.echo(f"  logs in {kept}")


if __name__ == "__main__":
    main(prog_name="scripts/compare-derivation")
