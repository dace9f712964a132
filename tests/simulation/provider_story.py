"""A node whose chain comes from providers that differ in all that providers of L1 and of blobs differ in.

Each seed draws up to three endpoints of L1 and three consensus clients (tests/sources/l1/providers.py): what they grant
of calls, batches and logs, the forms of their answers and refusals, how far they lag, which states they lack, how they
give blobs, and which of them are dead.  One of each is alive.  In the end the chain has arrived with checkpoints of one
to six blobs, the node has not been restarted, and few calls have been refused since the first minute.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.simulation.l1 import L1, L1_SLOT_S
from tests.simulation.network import Model
from tests.simulation.scheduler import the_world
from tests.simulation.world import PATIENCE_S, NodeOfWorld, Violation, World
from tests.sources.l1.providers import BeaconProvider, BeaconRules, Provider, Response, Rules
from tests.sources.l1.publishing import PublishingL1, Sheet
from tests.sources.made_chain import LARGE_SHAPE, SHAPE, MadeChain

from fastnode.development.synthetic_content import ContentGenerator
from fastnode.protocol.effects import TxEffect

__all__ = ["PROVIDER_KINDS", "ProviderStory", "ProviderWorld", "grow_recorded"]

PROVIDER_KINDS: Final[tuple[str, ...]] = ()
#: Large transactions of each checkpoint: 0 is a small one, of one blob; 1, 2 and 4 take two, three and six.
LARGE_TXS: Final = (0, 1, 0, 2, 4, 0, 1, 0)
BLOBS: Final = (1, 2, 1, 3, 6, 1, 2, 1)
#: Blocks of L1 before the first checkpoint, so that logs have to be read in pieces.
BLOCKS_BEFORE: Final = 60
#: Checkpoints that L1 has when the node starts.
PUBLISHED_BEFORE: Final = 4
#: Seconds: for learning what providers grant, after which the chain must be there, and that a seed takes.
LEARNING_S: Final = 60.0
ARRIVAL_S: Final = 1_200.0
WHOLE_S: Final = 600.0


@dataclass(frozen=True)
class Recorded:
    """A chain without its databases.  ``published``: what L1 gets of it, each with the messages of its checkpoint."""

    record: Any
    genesis: Any
    published: Sequence[tuple[Sheet, Sequence[str]]]


_recorded: list[Recorded] = []


def grow_recorded() -> None:
    """Make the chain once, in a process of its own: who forks later must not have opened a database."""
    if _recorded:
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "chain")
        child = os.fork()
        if child == 0:
            try:
                file.write_bytes(pickle.dumps(_grown(Path(folder, "made"))))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        record, genesis, published = pickle.loads(file.read_bytes())
    l1 = PublishingL1(record["nodeInfo"], record["l1Constants"])
    recorded = Recorded(record, genesis, [(l1.sheet(checkpoint), messages) for checkpoint, messages in published])
    assert tuple(len(sheet.blobs) for sheet, _ in recorded.published) == BLOBS
    _recorded.append(recorded)


def _grown(directory: Path) -> tuple[Any, Any, list[tuple[Any, Sequence[str]]]]:
    """Record and genesis of the chain; checkpoints and their messages."""
    large = ContentGenerator(LARGE_SHAPE)
    chain = MadeChain(directory, SHAPE)
    published = []
    for count in LARGE_TXS:
        effects: list[TxEffect] = [effect for _ in range(count) for effect in large.body().tx_effects]
        if effects:
            chain.propose(1, *effects)
        else:
            chain.propose(1)
        chain.publish()
        published.append((chain.units[-1].published, chain.units[-1].messages))
    chain.close()
    return chain.chain_record, chain.genesis, published


class ProviderWorld(World):
    def open(self) -> None:
        grow_recorded()
        self.recorded = recorded = _recorded[0]
        info, constants = recorded.record["nodeInfo"], recorded.record["l1Constants"]
        self.l1 = L1(info, constants)
        genesis = self.directory / "genesis.jsonl"
        MadeChain.write_genesis(_Genesis(recorded.record, recorded.genesis), genesis)  # type: ignore[arg-type]
        self.genesis = genesis
        dice = self.chance("providers")
        self.of_l1, self.beacons = [], []
        for makes, name in ((self._open_l1, "l1"), (self._open_beacon, "beacon")):
            count = dice.randrange(1, 4)
            alive = dice.randrange(count)
            for place in range(count):
                makes(f"{name}-{place + 1}", may_be_dead=place != alive)

    def _open_l1(self, name: str, *, may_be_dead: bool) -> None:
        rules = Rules.drawn(self.chance(name), may_be_dead=may_be_dead)
        provider = Provider(self.l1, self.recorded.record["nodeInfo"], rules, lambda: self.now)
        self.of_l1.append(provider)
        self.wire.models[name] = _model(lambda _path, body: provider.answer(body))
        self.say(name, f"is {rules}")

    def _open_beacon(self, name: str, *, may_be_dead: bool) -> None:
        rules = BeaconRules.drawn(self.chance(name), may_be_dead=may_be_dead)
        provider = BeaconProvider(self.l1, rules, lambda: self.now)
        self.beacons.append(provider)
        self.wire.models[name] = _model(lambda path, _body: provider.answer(path))
        self.say(name, f"is {rules}")


@dataclass
class _Genesis:
    chain_record: Any
    genesis: Any


def _model(answer: Callable[[str, bytes], Response | None]) -> Model:
    def ask(_method: str, path: str, body: bytes) -> tuple[int, bytes, dict[str, str]] | None:
        response = answer(path, body)
        return None if response is None else (response.status, response.body, dict(response.headers))

    return ask


class ProviderStory:
    """``minutes``, ``nodes`` and ``kinds`` have no effect: each seed is one node, until the chain has arrived."""

    def __init__(self, world: ProviderWorld, minutes: float, nodes: int | None, kinds: Sequence[str]) -> None:
        self.world = world
        self._is_over = False
        self._failures: list[BaseException] = []

    def run(self) -> None:
        world = self.world
        world.open()
        waiting = list(world.recorded.published)
        for _ in range(BLOCKS_BEFORE):
            self._tick()
        for sheet, messages in waiting[:PUBLISHED_BEFORE]:
            self._publish(sheet, messages)
        node = world.add("node", **self._settings())
        threading.Thread(target=self._live_l1, args=(waiting[PUBLISHED_BEFORE:],), name="l1").start()
        try:
            node.start()
            process = node.process
            the_world().sleep(LEARNING_S)
            for provider in (*world.of_l1, *world.beacons):
                provider.count_anew()
            while not self._has_arrived(node) or world.now < WHOLE_S:
                self._require_all_well(node, process)
                if world.now > ARRIVAL_S:
                    raise Violation(f"the chain did not arrive: {self._state(node)}")
                the_world().sleep(5.0)
            self._require_all_well(node, process)
            self._require_few_refusals()
        finally:
            self._is_over = True
        node.stop()
        self._require_all_well(None, None)

    def _settings(self) -> dict[str, Any]:
        world = self.world
        return {
            "l1_rpc_urls": tuple(f"http://l1-{number}:8545" for number, _ in enumerate(world.of_l1, 1)),
            "l1_consensus_host_urls": tuple(
                f"http://beacon-{number}:5052" for number, _ in enumerate(world.beacons, 1)
            ),
            "registry_address": world.l1.addresses.registry,
            "genesis": world.genesis,
            "ethereum_slot_duration": L1_SLOT_S,
            "max_allowed_eth_client_drift_seconds": 0,
            "ethereum_allow_no_debug_hosts": True,
            "shutdown_delay_s": 0,
            "untried_upstreams": True,
            "method_set": "both",
        }

    # ---- L1 ------------------------------------------------------------------------------------

    def _live_l1(self, waiting: list[tuple[Sheet, Sequence[str]]]) -> None:
        try:
            while not self._is_over:
                the_world().sleep(L1_SLOT_S)
                if waiting and self.world.l1.slot % 3 == 0:
                    self._publish(*waiting.pop(0))
                else:
                    self._tick()
        except BaseException as error:  # noqa: BLE001 - the story raises it
            self._failures.append(error)

    def _tick(self) -> None:
        self.world.l1.tick(self.world.l1.slot + 1)

    def _publish(self, sheet: Sheet, messages: Sequence[str]) -> None:
        l1 = self.world.l1
        number = sheet.published.checkpoint.number
        if messages and not any(item.checkpoint == number for item in l1.head.sent):
            hashes = [bytes.fromhex(text[2:]) for text in messages]
            l1.deeds.append(lambda: l1.send(*hashes, checkpoint=number))
            self._tick()
        l1.deeds.append(lambda: l1.publish(sheet, proven=max(l1.head.proven, number - 3)))
        self._tick()

    # ---- what must hold ------------------------------------------------------------------------

    def _has_arrived(self, node: NodeOfWorld) -> bool:
        """True if all is stored; Violation for something that L1 never had."""
        if node.node is None or node.node.view is None:
            return False
        chain = node.node.view.chain
        number = chain.tips.checkpointed.checkpoint.number
        stored = chain.checkpoint(number)
        if stored is not None and stored.archive_root not in self.world.l1.ever.get(number, set()):
            raise Violation(f"checkpoint {number} is stored with an archive root that L1 never had")
        return number == len(BLOBS)

    def _require_all_well(self, node: NodeOfWorld | None, process: object) -> None:
        for violation in (*self.world.seen, *self._failures):
            raise violation
        if node is not None and (node.error is not None or node.process is not process or not node.is_up):
            raise Violation(f"the node has ended: {node.error!r}")

    def _require_few_refusals(self) -> None:
        providers = [one for one in (*self.world.of_l1, *self.world.beacons) if not one.rules.dead]
        calls = sum(provider.calls for provider in providers)
        refused = sum(provider.refused for provider in providers)
        self.world.counts |= {"calls": calls, "refused": refused}
        if refused > calls / 10:
            raise Violation(f"{refused} of {calls} calls were refused after the first minute")

    def _state(self, node: NodeOfWorld) -> str:
        if node.node is None:
            return f"the node does not serve after {PATIENCE_S:g} s"
        health = node.node.health()
        return str({name: reason for name, reason in health.components.items() if reason})
