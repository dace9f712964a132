"""A node that lies to its peers and to L1: it builds as an honest one, and what it says is bent on its way out.

twins        two blocks, and two checkpoints, for one place of a slot
false root   a block, and its checkpoint, with a root that its transactions do not give
withheld     a checkpoint is told of, its blocks are not
half         what it says of a slot goes to some of its peers only
late         its checkpoint is of the slot before, its blocks and attestations do not come
unsigned     another signature than its own, or none
other        its attestations are of another checkpoint
on L1        its checkpoint has too few signatures, or false ones
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

from tests.simulation.peer_l1 import Sent, without_signatures
from tests.simulation.peer_world import PeerNode, PeerWorld
from tests.sources.l1.derivation.attesting import address_of

from fastnode.app.roles.peers import Peers
from fastnode.p2p.gossip.router import Gossip
from fastnode.p2p.gossip.topics import Topic
from fastnode.p2p.messages.proposals import BlockProposal, CheckpointAttestation, CheckpointProposal, wire_signature
from fastnode.protocol.ethereum import keccak_256, signed_digest
from fastnode.protocol.releases import FOUR

__all__ = ["Hostile"]

MISCHIEF: Final = ("twins", "false root", "withheld", "half", "late", "unsigned", "other", "few on L1")
SLOT_S: Final = 36


class Hostile:
    """Bends what ``node`` says, in whichever of its lives, while there is some mischief chosen."""

    def __init__(self, world: PeerWorld, node: PeerNode) -> None:
        self._world, self.node = world, node
        node.is_hostile = True
        self.key = world.keys[node.place]
        self._chance = world.chance("hostile")
        self._mischief = ""
        plain, send = Peers.publish, Gossip._send
        world.l1.bend = self._bend_on_l1

        def publish(peers: Peers, topic: Topic, payload: bytes, slot: int) -> None:
            if world.wire.host_of() != node.name or not self._mischief:
                plain(peers, topic, payload, slot)
                return
            for bent in self._bent(topic, payload):
                plain(peers, topic, bent, slot)

        def to_some(gossip: Gossip, peer: str, rpc: bytes) -> None:
            is_left_out = self._mischief == "half" and len(rpc) > 200 and world.wire.host_of() == node.name
            if not (is_left_out and sum(peer.encode()) % 2):
                send(gossip, peer, rpc)

        Peers.publish = publish  # type: ignore[method-assign]
        Gossip._send = to_some  # type: ignore[method-assign]

    def choose(self, dice: random.Random) -> None:
        self._mischief = dice.choice(MISCHIEF)
        self._world.say(self.node.name, f"is up to no good: {self._mischief}")
        self._world.count(f"hostile {self._mischief}")

    def rest(self) -> None:
        self._mischief = ""

    # ---- what it says to peers -------------------------------------------------------------------

    def _bent(self, topic: Topic, payload: bytes) -> list[bytes]:
        if topic is Topic.TX:
            return [payload]
        if topic is Topic.CHECKPOINT_ATTESTATION:
            return self._bent_attestation(payload)
        is_block = topic is Topic.BLOCK_PROPOSAL
        proposal: Any = (BlockProposal if is_block else CheckpointProposal).from_buffer(payload, FOUR)
        match self._mischief:
            case "withheld":
                return [] if is_block else [payload]
            case "false root":
                return [self._with_root(proposal).to_buffer()]
            case "twins":
                return [payload, self._with_root(proposal).to_buffer()]
            case "unsigned":
                bad = self._chance.choice([bytes(68), self._chance.randbytes(68), wire_signature(bytes(64) + b"\x1b")])
                return [replace(proposal, signature=bad).to_buffer()]
            case "late" if is_block:
                return []
            case "late":
                header = replace(proposal.header, slot_number=max(0, proposal.slot - 1))
                return [self._signed(replace(proposal, header=header)).to_buffer()]
        return [payload]

    def _with_root(self, proposal: Any) -> Any:
        return self._signed(replace(proposal, archive_root=b"\0" + self._chance.randbytes(31)))

    def _signed(self, proposal: Any) -> Any:
        """As changed, with a signature of the node's own key."""
        again = (
            BlockProposal.of(
                proposal.header,
                proposal.index,
                proposal.in_hash,
                proposal.archive_root,
                proposal.tx_hashes,
                bytes(65),
            )
            if isinstance(proposal, BlockProposal)
            else CheckpointProposal.of(
                proposal.header, proposal.archive_root, proposal.fee_asset_price_modifier, bytes(65)
            )
        )
        return replace(again, signature=wire_signature(self._sign(keccak_256(again.signed))))

    def _sign(self, message: bytes) -> bytes:
        made = self.key.sign_recoverable(signed_digest(message), hasher=None)
        return bytes(made[:64]) + bytes([27 + made[64]])

    def _bent_attestation(self, payload: bytes) -> list[bytes]:
        attestation = CheckpointAttestation.from_buffer(payload, FOUR)
        if self._mischief in ("withheld", "late"):
            return []
        if self._mischief == "unsigned":
            return [replace(attestation, signature=self._chance.randbytes(64) + bytes([0, 0, 0, 27])).to_buffer()]
        if self._mischief in ("other", "twins"):
            other = replace(attestation, archive_root=b"\0" + self._chance.randbytes(31))
            other = replace(other, signature=wire_signature(self._sign(other.digest)))
            return [payload, other.to_buffer()] if self._mischief == "twins" else [other.to_buffer()]
        return [payload]

    # ---- what it says to L1 ----------------------------------------------------------------------

    def _bend_on_l1(self, sent: Sent, call: bytes) -> bytes:
        if sent.sender != address_of(self.key) or self._mischief != "few on L1":
            return call
        self._world.say(self.node.name, "gives L1 a checkpoint with too few signatures")
        return without_signatures(call, self._world.members, kept=2)
