"""What happens among peers: nights in which they propose, gossip and are disturbed, each followed by a calm.

L1          a block every 12 s, with what the nodes send; a slot is missed now and then
nodes       propose, attest and follow, with the keys of one committee, three of its four in honest hands
hostile     one node whose messages are bent on their way out, in nights (peer_hostile.py)
wallets     send transactions to one node or another, and remember what was acknowledged
trouble     parted peers, bad lines, restarts, kills, reorgs, providers that fail, lag or lie, blobs that are hidden or
            false, an operator who pauses or rolls back
"""

from __future__ import annotations

import base64
import random
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tests.local_network.local_chain import DAY, for_chain
from tests.mempool.made import hash_of, made_txs
from tests.simulation.disk_story import DISK_KINDS
from tests.simulation.l1 import L1_SLOT_S
from tests.simulation.network import Faults
from tests.simulation.peer_checks import PeerChecks
from tests.simulation.peer_hostile import Hostile
from tests.simulation.peer_wire import PathFaults
from tests.simulation.peer_world import VALIDATORS, PeerNode, PeerWorld
from tests.simulation.scheduler import EPOCH, the_world
from tests.simulation.story import CALM_S, LOOK_S, Story
from tests.simulation.world import PORT, Violation

from fastnode.errors import UpstreamError
from fastnode.outgoing.client import ClientLimits, RpcClient
from fastnode.outgoing.network import Network
from fastnode.protocol.tx_layout import USUAL

__all__ = ["PEER_KINDS", "PEER_NODES_MAX", "PeerStory"]

PEER_KINDS: Final = (
    "hostile",
    "lines",
    "parted",
    "restart",
    "reorg",
    "provider",
    "liar",
    "blobs",
    "network",
    "operator",
    "strangers",
    "crowd",
    *DISK_KINDS,
)
PEER_NODES_MAX: Final = 4
NIGHT_S: Final = (100.0, 400.0)
SLOT_S: Final = 36
#: Slots of a calm in which every honest proposer must have its checkpoint on L1; one is enough for less than a minute.
QUIET_SLOTS: Final = 3
#: Seconds before its slot at which a proposer begins, and by which its transactions must be known.
BUILD_S: Final = 12
KNOWN_S: Final = 6
#: Longest time of a node's write to its disk, in seconds: what it waits for may come before a block is stored.
WRITE_S: Final = (0.0, 0.0, 0.02, 0.2)
_FEES: Final = 10**9


class PeerStory(Story):
    world: PeerWorld
    checks: PeerChecks

    def __init__(
        self, world: PeerWorld, minutes: float, nodes: int | None = None, kinds: Sequence[str] = PEER_KINDS
    ) -> None:
        super().__init__(world, minutes, nodes, kinds)
        self.checks = PeerChecks(world)
        self._quiet_slots = QUIET_SLOTS if minutes >= 1 else 1
        self._wallet_dice = world.chance("wallets")
        self._numbers = made_txs(1_000_000)
        #: Node that has acknowledged a transaction, and when, by its hash.
        self._acknowledged: dict[str, tuple[str, float]] = {}
        self._hostile: Hostile | None = None

    # ---- the whole -----------------------------------------------------------------------------

    def run(self) -> None:
        """Raises the first Violation."""
        world = self.world
        world.open()
        self.checks.watch()
        self._open_nodes()
        world.l1.on_proposal = self._on_proposal
        for actor in (world.peers.carry, self._live_l1, self._send, self._prove):
            threading.Thread(target=self._guarded(actor), name=actor.__name__).start()
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

    def _open_nodes(self) -> None:
        """Three or four nodes, or as many as are asked for, with all keys of the committee between them."""
        world, plot = self.world, self.world.plot
        count = self._count or plot.choice([3, 4, 4])
        keys: list[range] = {1: [range(4)], 2: [range(2), range(2, 4)], 3: [range(1), range(1, 2), range(2, 4)]}.get(
            count, [range(place, place + 1) for place in range(4)]
        )
        finding = plot.choice(["named", "discovery", "both"])
        paces = world.chance("paces")
        for place in range(count):
            settings: dict[str, Any] = {}
            if finding != "discovery":
                others = [other for other in range(count) if other < place]
                settings["p2p_peer"] = tuple(f"{world.ip_of(other)}:40400" for other in others)
            if finding == "named":
                settings["p2p_discovery_disabled"] = True
            elif place:
                settings["bootstrap_nodes"] = (world.record_of(0),)
            node = world.add_peer(place, keys[place], **settings)
            node.disk.write_s = paces.choice(WRITE_S)
        if count == PEER_NODES_MAX and self._has("hostile"):
            self._hostile = Hostile(world, world.nodes[3])  # type: ignore[arg-type]

    def _on_proposal(self, block: Any, item: Any, proposal: Any, is_good: bool) -> None:
        self.checks.note(block.hash, is_good)
        what = "" if is_good else ", a bad one"
        self.world.say("L1", f"has checkpoint {item.number} of slot {proposal.header.slot_number}{what}")
        self.world.count("checkpoints" if is_good else "bad checkpoints")

    def _first_bad(self) -> int | None:
        return self.world.l1.first_bad()

    # ---- wallets -------------------------------------------------------------------------------

    def _send(self) -> None:
        dice = self._wallet_dice
        while not self._is_over:
            the_world().sleep(dice.uniform(3, 20))
            self._send_one(dice)

    def _send_one(self, dice: random.Random, *, calm_from: int | None = None) -> None:
        """``calm_from``: the slot from which on every block comes to be on L1."""
        node = dice.choice(self.world.nodes)
        if node.node is None or node.node.view is None:
            return
        with Network() as network:
            client = RpcClient(f"http://{node.name}:{PORT}", network, ClientLimits(request_time_s=10))
            try:
                header = client.ask([("node_getBlockHeader", ["latest"])]).results()[0]
                if calm_from is not None and not self._stays(header, calm_from):
                    [tips] = client.ask([("node_getL2Tips", [])]).results()
                    number = tips["checkpointed"]["block"]["number"]
                    header = client.ask([("node_getBlockHeader", [number])]).results()[0]
                tx = self._transaction(header)
                client.ask([("node_sendTx", [tx])]).results()
            except UpstreamError as error:
                self.world.say("wallet", f"{node.name} does not take a transaction: {self.world.plain(str(error))}")
                self.world.count("refused transactions")
                return
        self.world.count("transactions")
        self._acknowledged[tx["txHash"]] = node.name, self.world.now

    def _stays(self, header: dict[str, Any], calm_from: int) -> bool:
        """False for a block whose proposer may never have published it: what is built on it goes with it."""
        slot = int(header["globalVariables"]["slotNumber"], 16)
        return slot >= calm_from or slot in self._slots_on_l1()

    def _transaction(self, anchor: dict[str, Any]) -> dict[str, Any]:
        """A valid one, another each time.  Its anchor does not tell the time: that of the genesis is 0."""
        made = for_chain(next(self._numbers), anchor, self.world.rollup_version, max_fee=_FEES)
        data = bytearray(base64.b64decode(made["data"]))
        struct.pack_into(">Q", data, USUAL.expiration, int(EPOCH + self.world.now) + DAY)
        tx = made | {"data": base64.b64encode(data).decode("ascii")}
        return tx | {"txHash": hash_of(tx)}

    # ---- trouble -------------------------------------------------------------------------------

    def _troubles(self) -> Iterator[tuple[str, Callable[[random.Random], None]]]:
        kinds: dict[str, tuple[Callable[[random.Random], None], ...]] = {
            "reorg": (self._reorg,),
            "provider": (self._fail_provider, self._lag_provider),
            "liar": self._liars(),
            "blobs": (self._spoil_blobs, self._hide_blobs),
            "parted": (self._part,),
            "network": (self._cut,),
            "restart": (self._restart, self._kill, self._kill_proposer),
            "operator": (self._pause, self._roll_back, self._stop_paused, self._change_mind),
            "strangers": (self._strangers,),
            "crowd": (self._crowd,),
            **self.disks.troubles(),
        }
        for kind, actions in kinds.items():
            if self._has(kind):
                for action in actions:
                    yield action.__name__.strip("_"), action
        if self._hostile is not None:
            yield "mischief", self._mischief
        yield "nothing", lambda dice: None

    def _night(self) -> None:
        world, dice = self.world, self._dice
        if self._has("lines"):
            world.peers.faults = self._path_faults(dice)
        if self._has("network"):
            world.wire.faults = self._faults(dice)
        world.l1.crowded = dice.choice([0.0, 0.0, 0.2])
        self._is_calm = False
        self._mischief(dice)
        troubles = list(self._troubles())
        end = min(world.now + dice.uniform(*NIGHT_S), max(self.end_s, world.now + 60))
        while world.now < end:
            self._rest(dice.expovariate(1 / 25))
            name, trouble = dice.choice(troubles)
            world.count(name)
            trouble(dice)

    def _path_faults(self, dice: random.Random) -> PathFaults:
        def some(most: float) -> float:
            return dice.choice([0.0, most / 5, most])

        return PathFaults(
            delay_s=dice.choice([0.01, 0.1, 0.4]),
            slow=some(0.05),
            lost=some(0.1),
            twice=some(0.1),
            damaged=some(0.002),
            broken=some(0.002),
        )

    def _faults(self, dice: random.Random) -> Faults:
        return Faults(delay_s=dice.choice([0.01, 0.1]), slow=dice.choice([0.0, 0.01]), broken=dice.choice([0.0, 0.01]))

    def _part(self, dice: random.Random) -> None:
        world = self.world
        names = [node.name for node in world.nodes]
        if len(names) < 2:
            return
        group = dice.sample(names, dice.randrange(1, len(names)))
        pairs = [(one, other) for one in group for other in names if other not in group]
        pairs = pairs if dice.random() < 0.6 else pairs[:1]
        for pair in pairs:
            world.peers.part(*pair)
        seconds = dice.choice([5.0, 30.0, 90.0])
        world.say("network", f"parts {', '.join('-'.join(pair) for pair in pairs)} for {seconds:g} s")

        def undo() -> None:
            for pair in pairs:
                world.peers.part(*pair, is_parted=False)

        self._later(seconds, undo)

    def _kill_proposer(self, dice: random.Random) -> None:
        """Whoever has the slot that is being built in; its supervisor starts it again at once."""
        slot = int(self.world.now + BUILD_S) // SLOT_S
        key = "0x" + self.world.keys[slot % VALIDATORS].secret.hex()
        node = next(node for node in self.world.nodes if key in node._settings["validator_private_keys"])
        if node.is_up:
            node.kill()
            self._later(dice.uniform(0.5, 8), self._start_again(node))

    def _crowd(self, dice: random.Random) -> None:
        """Blocks of L1 without room for what the nodes send: it is sent for more, and given up when it is too late."""
        l1, before = self.world.l1, self.world.l1.crowded
        l1.crowded = dice.choice([0.7, 1.0])
        self.world.say("L1", "has no room for what the nodes send")
        self._later(dice.uniform(20, 100), lambda: setattr(l1, "crowded", before))

    def _hide_blobs(self, dice: random.Random) -> None:
        """Those of the newest checkpoint."""
        beacon, known = self.world.beacon, [pair for pairs in self.world.l1.beacon.blobs.values() for pair in pairs]
        if not known:
            return
        hidden = known[-1][0]
        beacon.hidden.add(hidden)
        self.world.say("beacon", "hides the blobs of the newest checkpoint")
        self._later(dice.uniform(5, 200), lambda: beacon.hidden.discard(hidden))

    def _mischief(self, dice: random.Random) -> None:
        if self._hostile is not None:
            self._hostile.choose(dice)

    def _reorg(self, dice: random.Random) -> None:
        l1 = self.world.l1
        depth = min(dice.choice([1, 1, 2, 3, 5]), l1.depth_max)
        if depth <= 0:
            return
        before = l1.head.pending
        self.world.say("L1", f"takes back {depth} blocks")
        l1.reorg(depth)
        # Blocks in place of those that are gone; the last one comes with the next slot.
        for _ in range(depth - 1):
            l1.tick(l1.slot)
        self.world.say("L1", f"had checkpoint {before}, has {l1.head.pending}")

    def _prove(self) -> None:
        world, dice = self.world, self._prover_dice
        while not self._is_over:
            the_world().sleep(dice.uniform(60, 200))
            bad = self._first_bad()
            top = world.l1.head.pending if bad is None else bad - 1
            if top > world.l1.head.proven and not self._is_calm:
                proven = dice.randrange(world.l1.head.proven, top) + 1
                world.l1.deeds.append(lambda proven=proven: self._prove_to(proven))

    def _prove_to(self, proven: int) -> None:
        l1 = self.world.l1
        bad = self._first_bad()
        if l1.head.proven < proven <= l1.head.pending and (bad is None or proven < bad):
            l1.mine(proven=proven)
            self.world.say("prover", f"proves up to checkpoint {proven}")

    # ---- the calm ------------------------------------------------------------------------------

    def _calm(self) -> None:
        world = self.world
        world.say("story", "calm")
        self._is_calm = True
        if self._hostile is not None:
            self._hostile.rest()
        world.wire.faults, world.wire.cut = Faults(), set()
        world.peers.faults = PathFaults()
        world.peers.join()
        world.l1.crowded = 0.0
        for provider in world.providers.values():
            provider.fails = provider.lies = 0.0
            provider.lag, provider.stands = 0, False
        world.beacon.fails = 0.0
        world.beacon.spoil(False)
        world.beacon.hidden.clear()
        self._undoing.clear()
        self.disks.rest()
        for node in world.nodes:
            if node.node is not None and node.node.core.condition.is_paused:
                self._ask(node, "nodeAdmin_resumeSync")
            self._start_again(node)()
        begin, end = world.now, world.now + CALM_S
        while self._first_bad() is not None or not self.checks.all_is_well():
            if world.now > end:
                raise Violation(self.checks.what_is_missing(CALM_S) + f"; bad on L1: {self._first_bad()}")
            self._rest(LOOK_S)
        world.say("story", f"all is well at checkpoint {world.l1.standing} after {world.now - begin:.0f} s")
        self._quiet()
        self._require_transactions()

    def _quiet(self) -> None:
        """Some slots without any fault: none of an honest proposer is missed, and all nodes answer the same.

        What a proposer had sent before may fail still, and it says so until its next slot: then there are more.
        """
        world, l1 = self.world, self.world.l1
        first = int(world.now + BUILD_S) // SLOT_S + 1
        for slot in range(first, first + self._quiet_slots + VALIDATORS):
            if slot >= first + self._quiet_slots and self.checks.all_is_well():
                break
            self._rest(slot * SLOT_S - BUILD_S - KNOWN_S - world.now)
            while not self._send_in_calm(first):
                self._rest(1)
            before, repairs = self.checks.refusals(), self.disks.repairs
            self._rest((slot + 1) * SLOT_S - L1_SLOT_S - 2 - world.now)
            # Damage that is found now is of before, and its node may have been away.
            if self._is_hostile_in(slot) or self.disks.repairs != repairs:
                continue
            for name, (count, reason) in self.checks.refusals().items():
                if count == before.get(name, (0, ""))[0]:
                    continue
                refused = int(reason.split()[1][:-1])
                if refused >= first and not self._is_hostile_in(refused):
                    raise Violation(f"{name} does not attest to a checkpoint with which nothing is wrong: {reason}")
            if slot not in self._slots_on_l1():
                raise Violation(f"slot {slot} has no checkpoint on L1, and nothing was wrong: {self._states()}")
        self._rest(1)
        if not self.checks.are_equal():
            tips = [node.node.view.chain.tips.proposed.number for node in world.nodes if node.node and node.node.view]
            raise Violation(f"nodes differ while nothing is in the making: they are at blocks {tips}")
        trouble = self.checks.compare_answers()
        if trouble is not None:
            raise Violation(trouble)
        world.say(
            "story", f"{self._quiet_slots} slots of calm are on L1, and all nodes agree on checkpoint {l1.head.pending}"
        )

    def _is_hostile_in(self, slot: int) -> bool:
        """True if others may have left the slot's proposer."""
        return self._hostile is not None and slot % VALIDATORS == self._hostile.node.place

    def _slots_on_l1(self) -> set[int]:
        l1 = self.world.l1
        return {l1.slots[root] for root in l1.head.archives[1:]}

    def _send_in_calm(self, first: int) -> bool:
        before = len(self._acknowledged)
        self._send_one(self._wallet_dice, calm_from=first)
        return len(self._acknowledged) > before

    def _states(self) -> str:
        found = []
        for node in self.world.nodes:
            if node.node is not None:
                told = node.node.equipment.parts.describe().get("sequencer", {})
                found.append(f"{node.name}: {told.get('state')}, {told.get('newest')}, {told.get('attestations')}")
        return "; ".join(found)

    def _require_transactions(self) -> None:
        """What was acknowledged is in a block, or its node says why it is not; what came late may wait, and so may what
        no proposer of the calm has to know."""
        world = self.world
        for tx_hash, (name, since) in list(self._acknowledged.items()):
            if since > world.now - 2 * SLOT_S:
                continue
            node = world.node(name)
            view = node.node.view if node.node is not None else None
            if view is None:
                continue
            if view.chain.tx_location(bytes.fromhex(tx_hash[2:])) is not None:
                if view.chain.tips.finalized.block.number:
                    location = view.chain.tx_location(bytes.fromhex(tx_hash[2:]))
                    if location.block_number <= view.chain.tips.finalized.block.number:
                        del self._acknowledged[tx_hash]
                continue
            receipt = self._receipt(node, tx_hash)
            if receipt.get("status") == "pending" and self._quiet_slots < len(world.nodes):
                continue  # the proposer may have been away, or without room for it, when it came
            if receipt.get("status") != "dropped" or not receipt.get("error"):
                raise Violation(f"{name} has acknowledged {tx_hash}, which is in no block: {receipt}")
            world.say(name, f"has dropped a transaction: {receipt.get('error')}")
            world.count("dropped transactions")
            del self._acknowledged[tx_hash]

    def _receipt(self, node: PeerNode | Any, tx_hash: str) -> dict[str, Any]:
        with Network() as network:
            client = RpcClient(f"http://{node.name}:{PORT}", network, ClientLimits(request_time_s=20))
            found: dict[str, Any] = client.ask([("node_getTxReceipt", [tx_hash])]).results()[0]
            return found
