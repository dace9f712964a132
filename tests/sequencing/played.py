"""Slots that a test begins and mines, and what proposers make of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.conftest import NodeProcess
from tests.sequencing.network import L1_SLOT_S, PATIENCE_S, ProposingNetwork, checkpointed, components

from fastnode.sources.l1.proposals import PROPOSE_SELECTOR

WORD = 32
#: After so many seconds L1 has another block.
STILL_S = 15.0
#: Slots that a busy machine may miss before it has a checkpoint.
TRIES = 4


@dataclass
class Mined:
    """The call of a proposal."""

    slot: int
    archive: bytes
    signatures: bytes


def proposal_of(transaction: dict[str, Any]) -> Mined | None:
    data = bytes.fromhex(transaction["input"][2:])
    at = data.find(PROPOSE_SELECTOR)
    if at < 0:
        return None
    words = data[at + len(PROPOSE_SELECTOR) :]

    def number(offset: int) -> int:
        return int.from_bytes(words[offset : offset + WORD], "big")

    attestations = number(14 * WORD)
    begin = attestations + number(attestations + WORD)
    return Mined(number(7 * WORD), words[:WORD], words[begin + WORD : begin + WORD + number(begin)])


def published(network: ProposingNetwork) -> list[Mined]:
    """Every proposal that L1 has mined, whether the rollup took it or not."""
    found = []
    for height in range(network.anvil.number + 1):
        block = network.anvil.call("eth_getBlockByNumber", hex(height), True) or {}
        found += [item for item in map(proposal_of, block.get("transactions", ())) if item is not None]
    return found


@dataclass(kw_only=True)
class Played:
    """Proposers of one network."""

    network: ProposingNetwork
    nodes: list[NodeProcess] = field(default_factory=list)
    #: How many slots ended how.
    outcomes: dict[str, int] = field(default_factory=dict)

    def outcome(self, node: NodeProcess, slot: int) -> str | None:
        for entry in reversed(node.entries()):
            if entry["message"] == "slot" and entry.get("slot") == slot:
                return str(entry["outcome"])
        quiet = re.search(rf"slot {slot}: (empty|others)", components(node))
        return quiet and quiet[1]

    def is_proposed(self, slot: int) -> bool:
        """Whether a proposal for this slot waits to be mined."""
        return any(item.slot == slot for item in map(proposal_of, self.network.anvil.pool()) if item is not None)

    def play(self, kill: Callable[[int], None] | None = None) -> bool:
        """One slot; whether it has a checkpoint."""
        network, before = self.network, self.network.pending
        slot = network.begin_slot()
        if kill is not None:
            kill(slot)
        alive = [node for node in self.nodes if node.process.poll() is None]
        self.wait(
            lambda: self.is_proposed(slot) or all(self.outcome(node, slot) for node in alive) or network.slot > slot
        )
        # What is sent in this slot is mined in it; then L1 goes on until all have seen what became of it.
        network.anvil.mine(max(network.start_of(slot), network.anvil.timestamp + L1_SLOT_S))
        network.store_blobs()

        def is_over(node: NodeProcess) -> bool:
            # Who sees the other one's checkpoint before it has looked at the slot has nothing to do there.
            return bool(self.outcome(node, slot)) or checkpointed(node) == network.pending > before

        while not all(map(is_over, alive)):
            time.sleep(1.0)
            network.anvil.mine()
            if network.anvil.timestamp > network.start_of(slot + 2):
                break  # who was too busy to look at the slot at all
        for node in alive:
            outcome = self.outcome(node, slot) or "not looked at"
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        return network.pending > before

    def wait(self, is_so: Callable[[], bool]) -> None:
        """L1 goes on meanwhile, slower than its clock: what waits for its time must not wait for ever."""
        deadline, mined = time.monotonic() + PATIENCE_S, time.monotonic()
        while not is_so():
            assert time.monotonic() < deadline, self.network.log()
            time.sleep(0.2)
            if time.monotonic() - mined > STILL_S:
                mined = time.monotonic()
                self.network.anvil.mine()

    def play_until_there_is_one(self) -> int:
        """Slots until one has its checkpoint."""
        for count in range(1, TRIES + 1):
            if self.play():
                return count
        raise AssertionError(self.network.log())
