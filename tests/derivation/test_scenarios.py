"""A handful of the scenarios of ``scripts/compare-derivation``, without the published node: against what is right."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from tests.derivation.compare_derivation import PORTS, Session
from tests.derivation.scenario import kinds, scenario
from tests.ports import free_ports
from tests.publishing.live_l1 import needs_anvil

#: With every kind of action among them.
SEEDS = (2, 5, 8, 17)


@needs_anvil
def test_a_node_derives_what_the_network_does_from_a_hostile_l1() -> None:
    with ExitStack() as stack:
        session = Session(stack, free_ports(PORTS), "test", with_published=False)
        for seed in SEEDS:
            session.run(scenario(seed))
        session.start_late()


def test_a_seed_is_a_scenario() -> None:
    assert scenario(5) == scenario(5) != scenario(6)


@pytest.mark.parametrize("kind", ["propose", "reorg", "messages", "prove", "expire", "late", "restart", "invalidate"])
def test_scenarios_have_all_kinds_of_actions(kind: str) -> None:
    assert any(kinds(scenario(seed))[kind] for seed in range(1, 60))
