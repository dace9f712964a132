"""What happens in a world: nights full of trouble, each followed by a calm in which everything must come right.

    L1          a block every 12 s; a slot is missed now and then
    proposer    a checkpoint in most slots of 36 s, on what L1 has; the hostile one has some of the slots
    wallets     send transactions to the nodes, which hand them on to published ones, from whose pool blocks are made
    prover      proves what is on L1, or stays away until what is not proven may be pruned
    trouble     reorgs, providers and networks that fail, hidden blobs, restarts, kills, an operator

What must hold at every moment is looked at every few seconds (checks.py), what must hold in the end in each calm.
"""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from coincurve import PrivateKey
from tests.simulation.bus_story import Fleet
from tests.simulation.checks import Checks
from tests.simulation.disk_story import DISK_KINDS, DiskTroubles
from tests.simulation.l1 import L1_SLOT_S
from tests.simulation.network import Faults
from tests.simulation.scheduler import the_world
from tests.simulation.strangers import Strangers, put_listeners_in_place
from tests.simulation.wallets import Wallets
from tests.simulation.workers import NodeWithWorkers, put_workers_in_place
from tests.simulation.world import ADMIN_PORT, NodeOfWorld, Violation, World
from tests.sources.l1.derivation.attesting import address_of, sign
from tests.sources.l1.publishing import Sheet
from tests.sources.made_chain import Unit

from fastnode.errors import FastnodeError, UpstreamError
from fastnode.outgoing.client import ClientLimits, RpcClient
from fastnode.outgoing.network import Network
from fastnode.protocol.constants import L1_TO_L2_MESSAGES_PER_BLOCK_MAX
from fastnode.protocol.inbox_hash import EMPTY_INBOX
from fastnode.protocol.releases import FOUR

__all__ = ["KINDS", "NODES_MAX", "Story"]

NODES_MAX: Final = 4
#: Kinds of trouble.
KINDS: Final = (
    "hostile",
    "blobs",
    "prover",
    "reorg",
    "provider",
    "liar",
    "network",
    "restart",
    "operator",
    "wallets",
    "takers",
    "workers",
    "strangers",
    "bus",
    *DISK_KINDS,
)
SLOT_BLOCKS: Final = 3
#: Seconds that L1 has been there for when the nodes begin: what they follow is short without trouble of its own.
BEGIN_S: Final = (0.0, 60.0, 150.0, 400.0)
#: Seconds of a night, and the longest time until all nodes must be where L1 is once nothing disturbs them.
NIGHT_S: Final = (120.0, 600.0)
CALM_S: Final = 400.0
LOOK_S: Final = 4.0
#: Without any source for so long a node must say so.
ALONE_S: Final = 120.0
EPOCHS: Final = 400
#: Seconds without a new checkpoint, for which no trouble is long enough: nobody follows anything any more.
STANDING_S: Final = 7_200.0
#: Milliseconds between looks of nodes at others; and in stories of so many minutes, which would else be mostly of
#: looks that find nothing: a slot.
PACE: Final = {"archiver_polling_interval_ms": 4_000, "upstream_polling_min_ms": 1_000}
LONG_PACE: Final = dict.fromkeys(
    ("archiver_polling_interval_ms", "upstream_polling_min_ms", "l1_polling_interval_ms"), 36_000
)
LONG_MINUTES: Final = 120.0
#: Seconds between two troubles of a night.
TROUBLE_S: Final = 25.0
LONG_TROUBLE_S: Final = 300.0
#: Seconds between looks at what must hold, in long stories.
LONG_LOOK_S: Final = 12.0
#: Calms of a long story after which memory of what has stopped is collected, which takes part of a second.
LONG_COLLECT_CALMS: Final = 6
#: Shortest and longest time between two deeds of a wallet.
WALLET_S: Final = (2.0, 20.0)
LONG_WALLET_S: Final = (24.0, 240.0)


def _message_count(unit: Unit) -> int:
    """Size of the message tree after a checkpoint."""
    return unit.blocks[-1].header.state.l1_to_l2_message_tree.next_available_leaf_index


def _with_plain_id(signature: bytes) -> bytes:
    """As libraries give it, which no contract takes."""
    return signature[:64] + bytes([signature[64] - 27])


@dataclass(eq=False)
class Proposal:
    """``is_good``: the network stands behind it.  ``parent``: archive root that L1 must have before it."""

    unit: Unit
    sheet: Sheet
    parent: bytes
    is_good: bool


class Story:
    """``actors``: kinds of trouble that there are; all of them by default."""

    def __init__(self, world: World, minutes: float, nodes: int | None = None, kinds: Sequence[str] = KINDS) -> None:
        self.world, self.end_s = world, minutes * 60
        self._count = nodes
        self.is_long = minutes >= LONG_MINUTES
        self._pace, self._trouble_s, self._look_s, self._wallet_s = PACE, TROUBLE_S, LOOK_S, WALLET_S
        if self.is_long:
            self._pace, self._trouble_s, self._look_s = LONG_PACE, LONG_TROUBLE_S, LONG_LOOK_S
            self._wallet_s = LONG_WALLET_S
        if {"wallets", "damage"} <= set(kinds):
            # Nobody gives wallets back what a node has lost with a database that was removed.
            left_out = world.chance("story").choice(["wallets", "damage"])
            kinds = tuple(kind for kind in kinds if kind != left_out)
        self._kinds = kinds
        self.checks = Checks(world)
        self._wallets = Wallets(world) if "wallets" in kinds and world.release is FOUR else None
        self._divided: list[NodeWithWorkers] = []
        self._is_calm = False
        self._calms = 0
        self._is_over = False
        self._proposals: dict[str, Proposal] = {}
        self._published_at = 0.0
        #: The newest block of L1 that was looked at, and the checkpoints that it has.
        self._seen_on_l1: tuple[bytes, list[Proposal]] = (b"", [])
        self._committee = [PrivateKey(bytes([place + 1]) * 32) for place in range(4)]
        self._l1_dice, self._proposer_dice = world.chance("l1"), world.chance("proposer")
        self._prover_dice, self._dice = world.chance("prover"), world.chance("trouble")
        self._is_prover_away = False
        self._undoing: list[tuple[float, Callable[[], None]]] = []
        self._failures: list[BaseException] = []
        self.disks = DiskTroubles(self)
        self.fleet = Fleet(self)
        put_listeners_in_place()

    # ---- the whole -----------------------------------------------------------------------------

    def run(self) -> None:
        """Raises the first Violation."""
        world = self.world
        world.open()
        world.l1.committee_size = len(self._committee)
        members = tuple(map(address_of, self._committee))
        world.l1.mine(committees=tuple((epoch, members) for epoch in range(EPOCHS)))
        if self._wallets is not None:
            self._wallets.open(self._standing)
        self._open_nodes()
        carriers = [self.fleet.wire.carry] if self.fleet.is_there else []
        senders = [] if self._wallets is None else [partial(self._send, self._wallets, name) for name in "ab"]
        for actor in (self._live_l1, self._propose, self._prove, *senders, *carriers):
            threading.Thread(target=self._guarded(actor), name=getattr(actor, "__name__", "wallet")).start()
        before_s = world.chance("begin").choice(BEGIN_S)
        the_world().sleep(before_s)
        self.end_s += before_s
        for node in world.nodes:
            node.start()
        try:
            while not self._is_over:
                self._night()
                self._calm()
                self._is_over = world.now >= self.end_s
        finally:
            self._is_over = True
        for node in world.nodes:
            node.stop()
        self._require_nothing_seen()

    def _guarded(self, actor: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                actor()
            except BaseException as error:  # noqa: BLE001 - the story raises it
                self._failures.append(error)

        return run

    def _open_nodes(self) -> None:
        world = self.world
        count = self._count or world.plot.randrange(2, NODES_MAX + 1)
        one, two = ("http://l1-one:8545", "http://l1-two:8545")
        followed = [("http://node-1:8080",), ("http://node-1:8080", "http://node-2:8080"), ("http://node-3:8080",)]
        derives = {"l1_consensus_host_urls": ("http://beacon:5052",), "registry_address": world.l1.addresses.registry}
        derives["genesis"] = world.genesis  # type: ignore[assignment]
        kinds: list[dict[str, Any]] = [
            {"l1_rpc_urls": (one, two)} | derives,
            {"l1_rpc_urls": (two, one), "upstream_url": followed[0]} | derives,
            {"upstream_url": followed[1]},
            {"upstream_url": followed[2], "l1_rpc_urls": (one,)},
        ]
        if self._wallets is not None:
            plot = world.chance("upstreams")
            for kind in kinds:
                kind["upstream_url"] = self._wallets.upstreams(kind.get("upstream_url", ()), plot)
                kind["genesis"] = world.genesis  # published nodes do not say all that a node must know of its network
                kind["prover_real_proofs"] = plot.random() < 0.3
        kinds = kinds[:count]
        self.fleet.join(kinds)
        plot = world.chance("workers")
        divided, workers = plot.choice([0, 1, 2]), plot.choice([1, 2])
        for number, kind in enumerate(kinds, 1):
            settings = kind | {
                "ethereum_slot_duration": L1_SLOT_S,
                "max_allowed_eth_client_drift_seconds": 0,
                "ethereum_allow_no_debug_hosts": True,
                **self._pace,
                "shutdown_delay_s": 0,
                "untried_upstreams": True,
                "method_set": "both",
            }
            if number == divided and self._has("workers"):
                node = NodeWithWorkers(world, f"node-{number}", workers, **settings)
                world.nodes.append(node)
                self._divided.append(node)
            else:
                world.add(f"node-{number}", **settings)
        put_workers_in_place(self._divided, is_long=self.is_long)
        if self.fleet.is_there:
            self.fleet.open()

    def _look(self) -> None:
        self.checks.look()
        if self._wallets is not None:
            self._wallets.look()
        for divided in self._divided:
            divided.look()
        self.disks.look()
        self.fleet.look()
        self._require_nothing_seen()
        for node in self.world.nodes:
            if node.process is not None and not node.is_up:
                if not isinstance(node.error, FastnodeError):
                    raise Violation(f"{node.name} has ended: {node.error!r}") from node.error
                node.process = None
                self._later(self._dice.uniform(2, 20), self._start_again(node))

    def _require_nothing_seen(self) -> None:
        for found in (*self._failures, *self.world.seen):
            raise found

    def _start_again(self, node: NodeOfWorld) -> Callable[[], None]:
        def start() -> None:
            if not node.is_up:
                self.disks.repair(node)
                node.start()

        return start

    # ---- L1 ------------------------------------------------------------------------------------

    def _live_l1(self) -> None:
        world, slot = self.world, 0
        while not self._is_over:
            slot += 1
            the_world().sleep(slot * L1_SLOT_S - world.now)
            if self._is_calm or self._l1_dice.random() > 0.05:
                world.l1.tick(slot)

    def _publish(self, proposal: Proposal) -> None:
        """A block that has it; nothing where L1 would revert it."""
        l1, number = self.world.l1, proposal.unit.number
        archives = l1.head.archives
        first_bad = self._first_bad()
        top = len(archives) - 1 if first_bad is None else first_bad - 1
        if l1.is_prunable():
            top = min(top, l1.head.proven)
        if top != number - 1 or archives[top] != proposal.parent:
            return
        if not self._are_due(proposal.unit):
            return
        transaction = proposal.sheet.transaction()
        self._proposals[transaction.tx_hash] = proposal
        pruned = {"prunable_from": None} if l1.is_prunable() else {}
        block = l1.publish(proposal.sheet, transaction, **pruned)
        self._published_at = self.world.now
        self.checks.note(block.hash, proposal.is_good)
        self.world.say(
            "L1", f"has checkpoint {number} in block {l1.head.number}{'' if proposal.is_good else ', a bad one'}"
        )

    def _on_l1(self) -> list[Proposal]:
        """The checkpoints that L1 has, from the first one on."""
        l1 = self.world.l1
        seen, known = self._seen_on_l1
        if seen != l1.head.hash:
            found: dict[int, Proposal] = {}
            for block in l1.blocks:
                for item in block.proposals:
                    found[item.number] = self._proposals[item.tx_hash]
            known = [found[number] for number in range(1, l1.head.pending + 1)]
            self._seen_on_l1 = l1.head.hash, known
        return known

    def _first_bad(self) -> int | None:
        return next((item.unit.number for item in self._on_l1() if not item.is_good), None)

    def _standing(self) -> list[tuple[Unit, Sheet]]:
        """What a node that reads L1 has: checkpoints that are good, and that nobody may take back."""
        bad, standing = self._first_bad(), self.world.l1.standing
        top = standing if bad is None else min(standing, bad - 1)
        return [(item.unit, item.sheet) for item in self._on_l1()[:top]]

    # ---- the proposers -------------------------------------------------------------------------

    def _propose(self) -> None:
        world, dice, slot = self.world, self._proposer_dice, 0
        while not self._is_over:
            slot += 1
            the_world().sleep(slot * SLOT_BLOCKS * L1_SLOT_S + 2.0 - world.now)
            if world.now - self._published_at > STANDING_S:
                raise Violation(f"L1 has had no new checkpoint for {STANDING_S / 3600:g} hours")
            if self._is_calm or dice.random() < 0.15:
                continue
            if world.l1.head.in_progress and dice.random() < 0.4:
                messages = [dice.randbytes(31).rjust(32, b"\0") for _ in range(dice.randrange(1, 4))]
                world.l1.deeds.append(lambda messages=messages: world.l1.send(*messages))
                continue
            self._build(slot, dice)

    def _build(self, slot: int, dice: random.Random) -> None:
        world, chain, l1 = self.world, self.world.chain, self.world.l1
        on_l1, bad = self._on_l1(), self._first_bad()
        top = l1.head.pending if bad is None else bad - 1
        if l1.is_prunable():
            top = min(top, l1.head.proven)
        common = 0
        while common < min(top, len(chain.units)) and chain.units[common] is on_l1[common].unit:
            common += 1
        if common < top:  # what the proposer has is on another fork: two were in the making, and L1 has the other one
            chain.undo_to(chain.units[common - 1].blocks[-1].number if common else 0)
            for proposal in on_l1[common:top]:
                chain.take_up(proposal.unit)
        chain.undo_to(chain.units[top - 1].blocks[-1].number if top else 0)
        chain._chain._slot = max(slot - 1, chain.units[-1].making._variables.slot_number if chain.units else 0)
        number = top + 1
        messages = self._due(number, chain.units[top - 1] if top else None)
        chain._chain._content.messages = lambda: messages  # type: ignore[method-assign]
        parent = l1.head.archives[top]
        chain.checkpoint(dice.choice([1, 1, 2, 3]))
        unit = chain.units[-1]
        self.checks.know(unit)
        if self._wallets is not None:
            self._wallets.know(unit)
        sheet = l1.sheet(unit.published)  # type: ignore[arg-type]
        kind = dice.choice(["few", "bent", "header"]) if dice.random() < 0.12 and self._has("hostile") else ""
        if kind == "header":
            published = sheet.published
            header = replace(published.checkpoint.header, coinbase=dice.randbytes(20))
            sheet.published = replace(published, checkpoint=replace(published.checkpoint, header=header))
        signers = (0, 2) if kind == "few" else (0, 1, 2)
        sign(sheet, self._committee, signers, _with_plain_id if kind == "bent" else None)
        if kind:
            world.say("proposer", f"makes checkpoint {number} bad: {kind}")
            world.count(f"bad {kind}")
        if dice.random() < 0.12 and self._has("blobs"):
            self._hide(sheet, dice)
        proposals = [Proposal(unit, sheet, parent, not kind)]
        if kind in ("few", "bent") and dice.random() < 0.5:  # its proposer sees that, and has the slot still
            again = l1.sheet(unit.published)  # type: ignore[arg-type]
            sign(again, self._committee, (0, 1, 2))
            proposals.append(Proposal(unit, again, parent, True))
        l1.deeds.extend([partial(self._publish, proposal) for proposal in proposals])

    def _due(self, number: int, parent: Unit | None) -> tuple[bytes, ...]:
        """Messages that a checkpoint behind ``parent`` takes: those that L1 has for it, or all that are left."""
        l1 = self.world.l1
        if l1.inbox_form is None:
            return tuple(item.hash for item in l1.head.sent if item.checkpoint == number)
        first = 0 if parent is None else _message_count(parent)
        return tuple(item.hash for item in l1.head.sent[first : first + L1_TO_L2_MESSAGES_PER_BLOCK_MAX])

    def _are_due(self, unit: Unit) -> bool:
        """True if L1 takes the messages of a checkpoint: all of its own, or from release 6.x on the next ones."""
        l1 = self.world.l1
        if l1.inbox_form is None:
            return bool(unit.making.messages == self._due(unit.number, None))
        end = _message_count(unit)
        return end <= len(l1.head.sent) and unit.in_hash == (l1.head.sent[end - 1].rolling_hash if end else EMPTY_INBOX)

    def _hide(self, sheet: Sheet, dice: random.Random) -> None:
        hidden = set(sheet.hashes)
        self.world.beacon.hidden.update(hidden)
        self.world.say("beacon", f"hides the blobs of checkpoint {sheet.published.checkpoint.number}")
        self._later(dice.uniform(5, 200), lambda: self.world.beacon.hidden.difference_update(hidden))

    # ---- the prover ----------------------------------------------------------------------------

    def _prove(self) -> None:
        world, dice = self.world, self._prover_dice
        while not self._is_over:
            the_world().sleep(dice.uniform(60, 200))
            if self._is_calm or self._is_over:
                continue
            if self._is_prover_away or (dice.random() < 0.2 and self._has("prover")):
                self._stay_away(dice)
            else:
                world.l1.deeds.append(lambda: self._prove_some(dice))

    def _prove_some(self, dice: random.Random) -> None:
        l1, bad = self.world.l1, self._first_bad()
        top = l1.head.pending if bad is None else bad - 1
        if l1.is_prunable() or top <= l1.head.proven:
            return
        proven = dice.randrange(l1.head.proven, top) + 1
        l1.mine(proven=proven, prunable_from=None)
        self.world.say("prover", f"proves up to checkpoint {proven}")

    def _stay_away(self, dice: random.Random) -> None:
        l1 = self.world.l1
        if not self._is_prover_away:
            self._is_prover_away = True
            start = int(l1.clock() + dice.uniform(60, 300))
            l1.deeds.append(lambda: l1.mine(prunable_from=start))
            self.world.count("prover away")
            self.world.say("prover", "stays away: what is not proven will be pruned")
        elif l1.is_prunable() or dice.random() < 0.3:
            self._is_prover_away = False

    # ---- wallets -------------------------------------------------------------------------------

    def _send(self, wallets: Wallets, name: str) -> None:
        dice = self.world.chance(f"wallet {name}")
        while not self._is_over:
            the_world().sleep(dice.uniform(*self._wallet_s))
            wallets.live(dice)

    # ---- trouble -------------------------------------------------------------------------------

    def _has(self, kind: str) -> bool:
        return kind in self._kinds

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._undoing.append((self.world.now + seconds, action))

    def _rest(self, seconds: float) -> None:
        """Let time go on, looking, and undoing what is due."""
        end = self.world.now + seconds
        while self.world.now < end:
            the_world().sleep(min(self._look_s, end - self.world.now))
            due = [item for item in self._undoing if item[0] <= self.world.now]
            self._undoing = [item for item in self._undoing if item[0] > self.world.now]
            for _, action in due:
                action()
            self._look()

    def _night(self) -> None:
        world, dice = self.world, self._dice
        self._is_calm = False
        if self._has("network"):
            world.wire.faults = self._faults(dice)
        self.fleet.night(dice)
        troubles = list(self._troubles())
        end = min(world.now + dice.uniform(*NIGHT_S), max(self.end_s, world.now + 60))
        while world.now < end:
            self._rest(dice.expovariate(1 / self._trouble_s))
            name, trouble = dice.choice(troubles)
            world.count(name)
            trouble(dice)

    def _faults(self, dice: random.Random) -> Faults:
        def some(most: float) -> float:
            return dice.choice([0.0, most / 5, most])

        return Faults(
            delay_s=dice.choice([0.01, 0.2, 1.0]),
            slow=some(0.05),
            broken=some(0.03),
            silent=some(0.01),
            damaged=some(0.02),
            twice=some(0.02),
        )

    def _troubles(self) -> Iterator[tuple[str, Callable[[random.Random], None]]]:
        kinds: dict[str, tuple[Callable[[random.Random], None], ...]] = {
            "reorg": (self._reorg, self._reorg),
            "provider": (self._fail_provider, self._lag_provider),
            "liar": self._liars(),
            "blobs": (self._spoil_blobs,),
            "network": (self._cut,),
            "restart": (self._restart, self._kill),
            "operator": (self._pause, self._roll_back, self._stop_paused, self._change_mind),
            "strangers": (self._strangers,),
            **self.disks.troubles(),
            **self.fleet.troubles(),
        }
        for kind, actions in kinds.items():
            if self._has(kind):
                for action in actions:
                    yield action.__name__.strip("_"), action
        if self._divided:
            yield "worker", self._kill_worker
        if self._wallets is not None and self._has("takers"):
            wallets = self._wallets
            yield "trouble of takers", lambda dice: wallets.trouble(dice, self._later)
        yield "nothing", lambda dice: None

    def _reorg(self, dice: random.Random) -> None:
        l1 = self.world.l1
        depth = min(dice.choice([1, 1, 2, 3, 5, 8, 12]), l1.depth_max)
        if depth <= 0:
            return
        lost = [self._proposals[item.tx_hash] for block in l1.blocks[-depth:] for item in block.proposals]
        self.world.say("L1", f"takes back {depth} blocks and {len(lost)} checkpoints")
        l1.reorg(depth)
        again = lost if dice.random() < 0.6 else []
        for _ in range(depth - dice.choice([0, 0, 1])):
            before = l1.head.number
            if again and dice.random() < 0.7:
                self._publish(again.pop(0))
            if l1.head.number == before:
                l1.mine()
        l1.deeds.extendleft([lambda item=item: self._publish(item) for item in reversed(again)])
        l1.note()

    def _fail_provider(self, dice: random.Random) -> None:
        name, provider = dice.choice(list(self.world.providers.items()))
        provider.fails = dice.choice([0.2, 1.0])
        self.world.say(name, "fails")
        self._later(dice.uniform(5, 120), lambda: setattr(provider, "fails", 0.0))

    def _lag_provider(self, dice: random.Random) -> None:
        name, provider = dice.choice(list(self.world.providers.items()))
        if dice.random() < 0.5:
            provider.stands = True
            self.world.say(name, "hears of nothing new")
        else:
            provider.lag = dice.randrange(1, 6)
            self.world.say(name, f"is {provider.lag} blocks behind")

        def undo() -> None:
            provider.stands, provider.lag = False, 0

        self._later(dice.uniform(10, 180), undo)

    def _liars(self) -> tuple[Callable[[random.Random], None], ...]:
        return (self._lie,)

    def _lie(self, dice: random.Random) -> None:
        provider = self.world.providers["l1-two"]
        provider.lies = dice.choice([0.02, 0.3])
        self.world.say("l1-two", "lies")
        self._later(dice.uniform(5, 90), lambda: setattr(provider, "lies", 0.0))

    def _spoil_blobs(self, dice: random.Random) -> None:
        beacon = self.world.beacon
        if dice.random() < 0.5:
            beacon.fails = dice.choice([0.3, 1.0])
            self.world.say("beacon", "fails")
        else:
            beacon.spoil(True)
            self.world.say("beacon", "gives false blobs")

        def undo() -> None:
            beacon.fails = 0.0
            beacon.spoil(False)

        self._later(dice.uniform(5, 120), undo)

    def _cut(self, dice: random.Random) -> None:
        world = self.world
        node = dice.choice(world.nodes)
        hosts = [*world.wire.models, *self.fleet.hosts, *(other.name for other in world.nodes if other is not node)]
        cut = hosts if dice.random() < 0.4 else [host for host in hosts if dice.random() < 0.5]
        pairs = {(node.name, host) for host in cut}
        world.wire.cut |= pairs
        seconds = dice.choice([10.0, 60.0, 200.0])
        world.say("network", f"{node.name} does not reach {', '.join(cut) or 'nobody'} for {seconds:g} s")
        since = world.now
        life = node.process

        def undo() -> None:
            is_alone = cut == hosts and world.now - since >= ALONE_S and pairs <= world.wire.cut
            if is_alone and node.node is not None and node.process is life:
                self.checks.require_trouble(node)
            world.wire.cut -= pairs

        self._later(seconds, undo)

    def _restart(self, dice: random.Random) -> None:
        node = dice.choice(self.world.nodes)
        if node.is_up:
            node.stop()
            self._later(dice.uniform(0, 60), self._start_again(node))

    def _kill(self, dice: random.Random) -> None:
        node = dice.choice(self.world.nodes)
        if node.is_up:
            node.kill()
            self._later(dice.uniform(0, 60), self._start_again(node))

    def _kill_worker(self, dice: random.Random) -> None:
        dice.choice(dice.choice(self._divided).workers).kill(dice.uniform(0, 20))

    # ---- the operator --------------------------------------------------------------------------

    def _ask(self, node: NodeOfWorld, method: str, *parameters: Any) -> None:
        with Network() as network:
            client = RpcClient(f"http://{node.name}:{ADMIN_PORT}", network, ClientLimits(request_time_s=70))
            try:
                client.ask([(method, parameters)]).results()
                self.world.say("operator", f"{method} {list(parameters)} of {node.name}")
            except UpstreamError as error:
                self.world.say("operator", f"{method} of {node.name}: {error}")

    def _pause(self, dice: random.Random) -> None:
        node = dice.choice(self.world.nodes)
        if node.node is None:
            return
        self._ask(node, "nodeAdmin_pauseSync")
        life = node.process
        self._later(
            dice.uniform(1, 60), lambda: self._ask(node, "nodeAdmin_resumeSync") if node.process is life else None
        )

    def _stop_paused(self, dice: random.Random) -> None:
        """A node that rests, and goes on after its next start."""
        node = dice.choice(self.world.nodes)
        if node.node is None:
            return
        self._ask(node, "nodeAdmin_pauseSync")
        self._rest(dice.choice([0.0, 5.0]))
        if node.is_up and node.node is not None:
            node.stop()
            self._later(dice.uniform(0, 60), self._start_again(node))

    def _change_mind(self, dice: random.Random) -> None:
        """Resume what is about to pause."""
        node = dice.choice(self.world.nodes)
        if node.node is None:
            return
        pausing = threading.Thread(
            target=self._guarded(lambda: self._ask(node, "nodeAdmin_pauseSync")), name="operator"
        )
        pausing.start()
        the_world().sleep(dice.choice([0.0, 0.01, 0.2]))
        self._ask(node, "nodeAdmin_resumeSync")
        pausing.join()
        life = node.process
        self._later(
            dice.uniform(1, 20), lambda: self._ask(node, "nodeAdmin_resumeSync") if node.process is life else None
        )

    def _strangers(self, dice: random.Random) -> None:
        for _ in range(dice.randrange(1, 5)):
            Strangers(self.world).come(self.world.nodes, dice, self._later)

    def _roll_back(self, dice: random.Random) -> None:
        node = dice.choice(self.world.nodes)
        view = None if node.node is None else node.node.view
        if view is None:
            return
        tips = view.chain.tips
        first, last = tips.finalized.checkpoint.number, tips.checkpointed.checkpoint.number
        if first < last:
            target = view.chain.tip_of_checkpoint(dice.randrange(first, last)).block.number
            self._ask(node, "nodeAdmin_rollbackTo", target)

    # ---- the calm ------------------------------------------------------------------------------

    def _calm(self) -> None:
        """Nothing disturbs anybody any more, and L1 has nothing that is not good."""
        world = self.world
        world.say("story", "calm")
        self._is_calm = True
        world.wire.faults = Faults()
        world.wire.cut.clear()
        for provider in world.providers.values():
            provider.fails = provider.lies = 0.0
            provider.lag, provider.stands = 0, False
        world.beacon.fails = 0.0
        world.beacon.spoil(False)
        world.beacon.hidden.clear()
        if self._wallets is not None:
            self._wallets.rest()
        self._undoing.clear()
        self.disks.rest()
        self.fleet.rest()
        for node in world.nodes:
            if node.node is not None and node.node.core.condition.is_paused:
                self._ask(node, "nodeAdmin_resumeSync")
            self._start_again(node)()
        self._heal_l1()
        self._rest(LOOK_S)  # all notice what happened in the last moment
        end = world.now + CALM_S
        self._await_well(end)
        self._calms += 1
        if self.is_long and self._calms % LONG_COLLECT_CALMS == 0:
            gc.collect()  # nodes that have stopped; it is switched off otherwise
        while (trouble := self.checks.compare_answers()) is not None:
            # Trouble of before the calm, a line that was cut say, may be noticed only now, and is over soon.
            if world.now > end:
                raise Violation(trouble)
            self._rest(LOOK_S)
            self._await_well(end)

    def _await_well(self, end: float) -> None:
        world = self.world
        while not self.checks.all_is_well():
            if world.now > end:
                raise Violation(self.checks.what_is_missing(CALM_S))
            self._rest(LOOK_S)
        while (missing := self._what_is_missing()) is not None:
            if world.now > end:
                raise Violation(f"after {CALM_S:g} s of calm: {missing}")
            self._rest(LOOK_S)
        world.say("story", f"all is well at checkpoint {world.l1.standing}")

    def _what_is_missing(self) -> str | None:
        """Beside the chains of the nodes."""
        found = [node.what_is_missing() for node in self._divided]
        found += [] if self._wallets is None else [self._wallets.what_is_missing()]
        found += self.fleet.missing()
        return next((text for text in found if text), None)

    def _heal_l1(self) -> None:
        l1 = self.world.l1
        while l1.deeds:
            self._rest(LOOK_S)
        bad = self._first_bad()
        top = l1.head.pending if bad is None else bad - 1
        if top < l1.head.pending:
            self.world.say("L1", f"takes back what is above checkpoint {top}")
            l1.deeds.append(lambda: l1.prune_to(top))
        if l1.head.prunable_from is not None:
            is_late = self._dice.random() < 0.6  # what is not proven may be pruned, and nobody does it
            if is_late:
                self.world.say("prover", f"is too late for what is above checkpoint {l1.head.proven}")
                self.world.count("unproven in a calm")
            l1.deeds.append(lambda: l1.mine(prunable_from=int(l1.clock()) if is_late else None))
        while l1.deeds:
            self._rest(LOOK_S)
