"""What must hold among peers, whatever happens between them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from tests.simulation.checks import Checks
from tests.simulation.peer_wire import PathFaults
from tests.simulation.peer_world import PeerNode, PeerWorld
from tests.simulation.scheduler import EPOCH, the_world
from tests.simulation.world import NodeOfWorld, Violation

from fastnode.ha.duty import Duty
from fastnode.mempool.validation import UNKNOWN_ANCHOR
from fastnode.p2p.gossip.cache import Verdict
from fastnode.p2p.judging.goodbye import Goodbye
from fastnode.p2p.judging.host import Judgement
from fastnode.p2p.judging.node_host import NodeHost
from fastnode.p2p.judging.standing import Penalty
from fastnode.p2p.node.peer import Peer
from fastnode.p2p.node.swarm import Swarm
from fastnode.protocol.block import L2Block
from fastnode.protocol.checkpoint import Checkpoint
from fastnode.protocol.tx import Tx
from fastnode.publishing.signing import SigningDoor
from fastnode.sequencing.chain import ProposedChain
from fastnode.sequencing.gossip import ValidatorGossip
from fastnode.view import Committed

__all__ = ["PeerChecks"]

#: Seconds for a node to read what L1 has.
_READ_S: Final = 12.0
#: Seconds after which nobody is silent any more because of who was parted or has died.
_SILENT_S: Final = 20.0
#: Below this score a peer does not get what is published.
_SCORE_MIN: Final = -500.0


class PeerChecks(Checks):
    """``watch`` puts its ears into the shipped code, once in a process."""

    _world: PeerWorld

    def __init__(self, world: PeerWorld) -> None:
        super().__init__(world)
        self._signed: dict[tuple[object, ...], tuple[bytes, str]] = {}
        self.attested: dict[int, set[bytes]] = {}
        #: Hashes of the blocks that each life of a node has stored.
        self._stored: WeakKeyDictionary[NodeHost, set[bytes]] = WeakKeyDictionary()
        #: Transactions that a node has rejected for a block that it was never told of in time, by node and sender.
        self._untold = Counter[tuple[str, str]]()
        #: Pairs of a node and a peer against which it has held what was late.
        self._held_late: set[tuple[str, str]] = set()

    def watch(self) -> None:
        _before(ProposedChain, "seal", after=lambda _, block, *rest: self._know_block(block))
        _before(NodeHost, "on_committed", self._note_stored)
        _before(NodeHost, "_judge_tx", after=self._note_judged)
        _before(ValidatorGossip, "tell_checkpoint", lambda _, checkpoint, *rest: self._know_checkpoint(checkpoint))
        _before(SigningDoor, "_sign_duty", lambda _, duty, digest, *rest: self._note_signature(duty, digest))
        _before(Swarm, "penalize", lambda _, peer, penalty, reason: self._note_penalty(peer, penalty, reason))
        _before(Swarm, "leave", lambda _, peer, goodbye, reason: self._note_goodbye(peer, goodbye, reason))

    # ---- what is told of by the code itself ------------------------------------------------------

    def _know_block(self, block: L2Block) -> None:
        self._blocks.setdefault(block.number, set()).add(block.hash())

    def _know_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._headers.setdefault(checkpoint.number, set()).add(checkpoint.header.hash())

    def _note_signature(self, duty: Duty, digest: bytes) -> None:
        """Two signatures for one duty are what a validator is slashed for, whichever of its lives has made them."""
        here = self._host()
        before, who = self._signed.setdefault(duty.key, (digest, here))
        if before != digest:
            self._see(f"{here} signs {duty} again, for something else than {who} did")

    def _note_stored(self, host: NodeHost, committed: Committed) -> None:
        self._stored.setdefault(host, set()).update(block.hash() for block in committed.blocks)

    def _note_judged(self, host: NodeHost, judgement: Judgement, tx: Tx, sender: str) -> None:
        """Count a transaction whose anchor was proposed while its place in the chain went to another block here.

        A block that this life of the node has had, or that may still come, must be excused: neither counts.
        """
        view = host.view()
        if judgement.verdict is not Verdict.REJECT or judgement.reason != UNKNOWN_ANCHOR or view is None:
            return
        number, anchor = tx.data.anchor_block_header.global_variables.block_number, tx.data.anchor_block_hash
        was_here = anchor in self._stored.get(host, ())
        if anchor in self._blocks.get(number, ()) and number <= view.chain.tip_number and not was_here:
            self._untold[self._host(), sender] += 1

    def _host(self) -> str:
        return self._world.wire.host_of()

    def _is_honest(self, name: str | None) -> bool:
        return any(
            node.name == name and not node.is_hostile for node in self._world.nodes if isinstance(node, PeerNode)
        )

    def _see(self, what: str) -> None:
        self._world.say(self._host(), f"! {what}")
        self._world.seen.append(Violation(what))

    def _note_penalty(self, peer_id: str, penalty: Penalty, reason: str) -> None:
        here, other = self._host(), self._world.hosts.get(peer_id)
        self._world.say(here, f"penalises {other}: {penalty.name.lower()}, {reason}")
        self._world.count(f"penalty {penalty.name.lower()}")
        is_late = penalty is Penalty.HIGH_TOLERANCE and self._may_be_late(reason, here, peer_id)
        if is_late and other is not None:
            self._held_late.add((here, other))
        elif self._is_honest(here) and self._is_honest(other):
            self._see(f"{here} punishes {other}, which is honest: {reason}")

    def _may_be_late(self, reason: str, here: str, peer_id: str) -> bool:
        """True for what was long on its way, which is held against who hands it on, as published nodes do: it costs the
        fewest points, and how many, `look` bounds.

        A transaction that is anchored at a block of a slot that has passed comes before or long after that block's
        proposal only where lines are bad or were parted a moment ago: who sent it had the block, and who gets it cannot
        know that anybody had.
        """
        if "it is for slot" in reason:
            return True
        if reason != f"tx: {UNKNOWN_ANCHOR}" or not self._untold[here, peer_id]:
            return False
        self._untold[here, peer_id] -= 1
        peers = self._world.peers
        return bool(peers.cut) or peers.faults != PathFaults() or the_world().now - peers.changed_at <= _SILENT_S

    def _note_goodbye(self, peer: Peer, goodbye: Goodbye, reason: str) -> None:
        if peer.is_leaving:
            return
        here, other = self._host(), self._world.hosts.get(peer.id)
        self._world.say(here, f"leaves {other}: {goodbye.name.lower()}, {reason}")
        is_reached = the_world().now - self._world.peers.changed_at > _SILENT_S
        is_punished = goodbye in (Goodbye.BANNED, Goodbye.LOW_SCORE) or (
            goodbye is Goodbye.WRONG_NETWORK and is_reached
        )
        if is_punished and self._is_honest(here) and self._is_honest(other):
            self._see(f"{here} leaves {other}, which is honest: {reason}")

    # ---- at every moment -------------------------------------------------------------------------

    def look(self) -> None:
        super().look()
        for node in self._world.nodes:
            for other, score in self.scores_of(node):
                if score < _SCORE_MIN and self._is_honest(node.name) and self._is_honest(other):
                    raise Violation(f"{node.name} does not talk to {other}, which is honest: its score is {score}")

    def scores_of(self, node: NodeOfWorld) -> list[tuple[str, float]]:
        peers = self._peers_of(node)
        return (
            [] if peers is None else [(self._world.hosts.get(peer, peer), score) for peer, score in peers.connected()]
        )

    def _peers_of(self, node: NodeOfWorld) -> Any:
        if node.node is None:
            return None
        return next((part for part in node.node.equipment.parts if type(part).__name__ == "Peers"), None)

    # ---- in a calm -------------------------------------------------------------------------------

    def _wrong_with(self, node: NodeOfWorld) -> str | None:
        view = None if node.node is None else node.node.view
        if view is None:
            return "is not there"
        l1, tips = self._world.l1, view.chain.tips
        at, wanted = tips.checkpointed.checkpoint.number, l1.standing
        is_new = the_world().now - (l1.head.timestamp - EPOCH) < _READ_S and bool(l1.head.proposals)
        if at != wanted and not is_new:
            return f"is at checkpoint {at}, L1 at {wanted}: {self._health(node).failing}"
        if at == wanted and at:
            root = json.loads(view.chain.checkpoint(at).archive_json)["root"]
            if root != "0x" + l1.head.archives[at].hex():
                return f"has another checkpoint {at} than L1"
        if not self._is_honest(node.name):
            return None  # others may have left it
        health = self._health(node)
        if health.failing or health.not_ready:
            return f"is where L1 is, and says {health.failing} {health.not_ready}"
        if len(self._world.nodes) > 1 and not self.scores_of(node):
            return "has no peer"
        return None

    def refusals(self) -> dict[str, tuple[int, str]]:
        """Checkpoints that each honest node has not attested to, and why it did not attest to the newest of them."""
        found = {}
        for node in self._world.nodes:
            if node.node is not None and self._is_honest(node.name):
                told = node.node.equipment.parts.describe().get("sequencer", {}).get("attestations", {})
                found[node.name] = told.get("refused", 0), str(told.get("refusal"))
        return found

    def compare_answers(self) -> str | None:
        """Of honest nodes: others may have left the hostile one, and it says so."""
        nodes = self._world.nodes
        self._world.nodes = [node for node in nodes if self._is_honest(node.name)]
        try:
            return super().compare_answers()
        finally:
            self._world.nodes = nodes

    def _is_told_rightly(self, node: NodeOfWorld, trouble: str) -> bool:
        """Where lines were parted for a slot, what comes late costs so many points that peers keep each other out of
        their meshes for a quarter of an hour, as published nodes do.  It is told of, and true, where that goes for
        every peer that a node has; what is published reaches them all the same.
        """
        if not trouble.startswith("in no mesh of "):
            return False
        books = {each.name: dict(self.scores_of(each)) for each in self._world.nodes}

        def holds(one: str, other: str) -> bool:
            return (one, other) in self._held_late and books.get(one, {}).get(other, 0.0) < 0

        return all(holds(node.name, other) or holds(other, node.name) for other in books[node.name])

    def are_equal(self) -> bool:
        """True when all nodes have the same tips, and nothing is in the making."""
        tips = [node.node.view.chain.tips for node in self._world.nodes if node.node and node.node.view]
        return len(tips) == len(self._world.nodes) and all(
            each == tips[0] and each.proposed == each.checkpointed.block for each in tips
        )


def _before(
    owner: type, name: str, hear: Callable[..., None] | None = None, *, after: Callable[..., None] | None = None
) -> None:
    """Tell ``hear`` of each call of a method, or ``after`` of its object, what it gave, and its arguments."""
    plain = getattr(owner, name)

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        if hear is not None:
            hear(self, *arguments, **named)
        given = plain(self, *arguments, **named)
        if after is not None:
            after(self, given, *arguments)
        return given

    setattr(owner, name, method)
