"""Committees and proposers are those of L1 in the end, though it was asked early, and though its nodes lag."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.sources.l1.scripted_l1 import ScriptedL1, scripted_l1
from tests.sources.l1.test_endpoints import CONSTANTS, NODE_INFO
from tests.sources.l1.test_rollup import facts_of
from tests.sources.scripted_upstream import Tamper

from fastnode.outgoing.client import ClientLimits
from fastnode.outgoing.health import Patience
from fastnode.outgoing.network import Network
from fastnode.sources.l1.committees import Committees
from fastnode.sources.l1.endpoints import L1Client, L1Endpoint

EPOCHS = 6
FACTS = facts_of(getGenesisTime=1_800_000_000, getSlotDuration=36, getEpochDuration=4)
EPOCH_S = FACTS.slot_duration * FACTS.epoch_duration


@pytest.fixture
def l1() -> Iterator[ScriptedL1]:
    with scripted_l1(NODE_INFO, CONSTANTS | {"l1GenesisTime": str(FACTS.genesis_time)}) as l1:
        l1.constants |= {"slotDuration": FACTS.slot_duration, "epochDuration": FACTS.epoch_duration}
        yield l1


@pytest.fixture
def endpoint(l1: ScriptedL1, network: Network) -> L1Endpoint:
    return L1Client([l1.url], network, limits=ClientLimits(request_time_s=10), patience=Patience()).all[0]


def lags_from(l1: ScriptedL1, count: int) -> Tamper:
    """Shows older blocks after so many calls."""
    calls = itertools.count(1)

    def tamper(_method: str, _parameters: list[Any], result: Any) -> Any:
        if next(calls) == count:
            l1.blocks = l1.blocks[:1]
        return result

    return tamper


@pytest.mark.parametrize("seed", range(24))
def test_each_epoch_has_the_committee_of_l1_once_its_node_has_caught_up(
    seed: int, l1: ScriptedL1, endpoint: L1Endpoint
) -> None:
    """Its node shows older blocks now and then, also in the middle of the questions; an epoch may have no committee,
    and be drawn late."""
    chance = random.Random(seed)
    committees = Committees(EPOCHS)
    facts = replace(FACTS, rollup=bytes.fromhex(l1.addresses.rollup[2:]))
    blocks = l1.blocks
    drawn: dict[int, tuple[bytes, ...]] = {}
    time = facts.genesis_time
    for _ in range(40):
        time += chance.choice([12, 12, 24, 72])
        epoch = (time - facts.genesis_time) // EPOCH_S
        for new in (epoch, epoch + 1):
            if new not in drawn and chance.random() < 0.5:
                drawn[new] = tuple(chance.randbytes(20) for _ in range(chance.randrange(4)))
        with l1.lock:
            l1.blocks = blocks
            l1.mine(timestamp=time, committees=tuple(drawn.items()))
            lag = chance.choice([0, 0, 1, 3])
            l1.blocks = blocks[: len(blocks) - lag]
            seen = max(facts.genesis_time, l1.head.timestamp)
            begins = 0 if lag else chance.choice([0, 0, 1, 2])
            l1.tamper = lags_from(l1, begins) if begins else lambda _method, _parameters, result: result
        committees.refresh(endpoint, facts, seen, has_multicall=False)
        if lag or begins:
            continue
        members = drawn.get(epoch, ())
        assert committees.committee_of(epoch) == members
        for slot in range(epoch * facts.epoch_duration, (epoch + 1) * facts.epoch_duration):
            assert committees.proposer_of(slot) == (members[slot % len(members)] if members else None)
