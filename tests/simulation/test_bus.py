"""The simulation of fleets: nodes that publish on a bus and others that follow it, told again from a number."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Final

import pytest
from tests.simulation.bus_server import JetStream, matches
from tests.simulation.bus_story import SHARE
from tests.simulation.test_simulation import is_long, on_tried_python, simulate

#: A seed with a bus whose publisher is killed.
SEED: Final = "25"
STATES: Final = ("DEAF -> STALE", "STALE -> FRESH", "FRESH -> STALE")


@on_tried_python
def test_a_fleet_holds_reaches_all_states_and_a_number_tells_the_same_story_elsewhere(tmp_path: Path) -> None:
    arguments = ("--seed", SEED, "--short", "--coverage", "--no-shrink")
    first = simulate(*arguments, hash_seed=1)
    assert first.returncode == 0, first.stdout[-3000:] + first.stderr[-3000:]
    again = simulate(*arguments, hash_seed=2, elsewhere=tmp_path)
    assert again.stdout == first.stdout
    for state in STATES:
        assert re.search(rf"^BusUpstream {state} +1$", first.stdout, re.MULTILINE)
    assert re.search(r"^\S+  bus-1 +is killed$", first.stdout, re.MULTILINE)


def test_one_world_of_five_has_a_bus() -> None:
    """As it costs what three others do."""
    found = sum(random.Random(f"{seed} bus").random() < SHARE for seed in range(1, 1001))
    assert 150 < found < 250


@on_tried_python
@pytest.mark.skipif(not is_long, reason="FASTNODE_LONG=1 plays more seeds")
@pytest.mark.parametrize("seed", [seed for seed in range(1, 200) if random.Random(f"{seed} bus").random() < SHARE])
def test_more_fleets_hold(seed: int) -> None:
    played = simulate("--seed", str(seed), "--minutes", "5", "--quiet", "--no-shrink", hash_seed=0)
    assert played.returncode == 0, played.stdout[-5000:]


# ---- what the bus promises ---------------------------------------------------------------------------


def test_a_copy_that_is_behind_answers_as_the_stream_was() -> None:
    for seed in range(100):
        dice = random.Random(seed)
        store = JetStream(dice, lambda: 1.0)
        store.ask("STREAM.CREATE.made", b'{"name": "made", "subjects": ["made.>"]}')
        stream, told = store.streams["made"], list[tuple[str, bytes]]()
        for _ in range(dice.randrange(1, 30)):
            told.append((f"made.{dice.randrange(5)}", dice.randbytes(3)))
            store.publish(told[-1][0], {}, b"", told[-1][1])
        at = dice.randrange(len(told) + 1)
        assert {each.subject: each.data for each in stream.before(at)} == dict(told[:at])


@pytest.mark.parametrize(
    ("pattern", "subject", "is_match"),
    [
        ("a.>", "a.b", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.*.c", "a.b.c", True),
        ("a", "a.b", False),
        ("a.b", "a.b", True),
    ],
)
def test_wildcards_of_a_subject_are_those_of_the_server(pattern: str, subject: str, *, is_match: bool) -> None:
    assert matches(pattern, subject) is is_match
