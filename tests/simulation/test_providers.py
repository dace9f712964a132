"""Seeds of providers with limits and forms of their own: the chain arrives from all of them."""

from __future__ import annotations

import pytest
from tests.simulation.test_simulation import on_tried_python, simulate


def play(first: int, count: int) -> None:
    arguments = ("--network", "providers", "--seed", str(first), "--count", str(count), "--jobs", "2")
    played = simulate(*arguments, "--keep-going", "--no-shrink", hash_seed=0)
    assert played.returncode == 0, played.stdout[-5000:]
    assert f"{count} seeds: {count} held, 0 did not" in played.stdout


@on_tried_python
def test_a_chain_arrives_from_whatever_providers_a_seed_draws() -> None:
    play(1, 10)


@on_tried_python
@pytest.mark.long
@pytest.mark.parametrize("first", range(11, 511, 50))
def test_a_chain_arrives_from_the_providers_of_many_seeds(first: int) -> None:
    play(first, 50)
