"""Bugs that were real, put back: the simulation finds each by a known seed, which holds without it."""

from __future__ import annotations

from typing import Final

import pytest
from tests.simulation.bugs import BUGS
from tests.simulation.test_simulation import is_long, on_tried_python, simulate

#: Bugs whose seeds take the least, of three kinds of properties: those that are always looked for.
CHEAP: Final = ("plain-recovery-id", "handover-without-a-pool", "moved-unseen")
KNOWN: Final = sorted(name for name, bug in BUGS.items() if bug.seed is not None)
PLAYED: Final = KNOWN if is_long else CHEAP


def played(name: str, *more: str) -> tuple[int, str]:
    """Exit status of the seed of a bug, and all that is told."""
    bug = BUGS[name]
    plan = (
        "--network",
        bug.network,
        "--release",
        bug.release,
        "--short",
        "--seed",
        str(bug.seed),
        "--quiet",
        "--no-shrink",
    )
    done = simulate(*plan, *more, hash_seed=0)
    return done.returncode, done.stdout + done.stderr


@on_tried_python
@pytest.mark.parametrize("name", PLAYED)
def test_a_bug_that_is_put_back_is_found_by_what_holds_in_general(name: str) -> None:
    """Where a story has changed, another seed finds it: ``scripts/simulate --bug NAME --short --count 300``."""
    status, told = played(name, "--bug", name)
    assert status == 1, told[-3000:]
    assert BUGS[name].found in told


@on_tried_python
@pytest.mark.skipif(not is_long, reason="FASTNODE_LONG=1 plays the seeds of bugs without them")
@pytest.mark.parametrize("name", KNOWN)
def test_the_seed_of_a_bug_holds_without_it(name: str) -> None:
    status, told = played(name)
    assert status == 0, told[-3000:]
