"""A world of peers: nodes that gossip, propose and attest, each with keys of one committee, on an L1 that takes what
they send.

The genesis is that of a synthetic chain with one more leaf: what the wallets' account pays with.  All blocks are made
by the nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import orjson
from coincurve import PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.simulation.funded import FundedChain
from tests.simulation.l1 import L1_SLOT_S, Beacon
from tests.simulation.peer_l1 import ProposingL1, TakingProvider
from tests.simulation.peer_wire import PeerWire, UdpSocket
from tests.simulation.scheduler import Loop, _numbered, the_world
from tests.simulation.world import NodeOfWorld, World
from tests.sources.l1.derivation.attesting import address_of
from tests.sources.made_chain import SHAPE

from fastnode.p2p.discovery.own_record import OwnRecord
from fastnode.p2p.gossip.topics import network_version
from fastnode.p2p.node import swarm
from fastnode.p2p.transport.identity import Identity
from fastnode.p2p.transport.link import Link
from fastnode.protocol.kzg import COMMITMENT_BYTES
from fastnode.protocol.releases import FOUR
from fastnode.publishing import envelope
from fastnode.sequencing import l1_publication

__all__ = ["VALIDATORS", "PeerNode", "PeerWorld", "put_peers_in_place"]

P2P_PORT: Final = 40_400
VALIDATORS: Final = 4
EPOCHS: Final = 400
_CLIENT: Final = FOUR.usual_version


class PeerNode(NodeOfWorld):
    """``keys``: its places in the committee; ``is_hostile``: what it says is bent before it goes out."""

    def __init__(self, world: PeerWorld, name: str, place: int, **settings: Any) -> None:
        super().__init__(world, name, **settings)
        self.place = place
        self.peers = world.peers
        self.is_hostile = False

    def kill(self, *, is_power: bool = False, where: str = "") -> None:
        super().kill(is_power=is_power, where=where)
        self.peers.forget(self.name)


class PeerWorld(World):
    """``open`` it, then ``add_peer`` its nodes."""

    l1: ProposingL1

    def __init__(self, seed: int, directory: Path, tell: Callable[[str], None]) -> None:
        super().__init__(seed, directory, tell)
        self.peers = PeerWire(self.chance("peers"), self.wire.host_of)
        dice = self.chance("keys")
        self.keys = [PrivateKey(dice.randbytes(32)) for _ in range(VALIDATORS)]
        self.members = [address_of(key) for key in self.keys]
        self._identities = [Identity(dice.randbytes(32)) for _ in range(VALIDATORS)]
        #: Hosts by the ids of peers.
        self.hosts: dict[str, str] = {}

    def open(self) -> None:
        chain = FundedChain(SHAPE, FOUR)
        record = chain._chain_record()
        info, constants = record["nodeInfo"], record["l1Constants"]
        self.rollup_version = chain.rollup_version
        self.l1 = ProposingL1(info, constants, self.chance("blocks of l1"))
        names = ("l1-one", "l1-two")
        self.providers = {name: TakingProvider(self.l1, info, constants, self.chance(name)) for name in names}
        self.beacon = Beacon(self.l1, self.chance("beacon"))
        self.wire.models |= {name: provider.answer for name, provider in self.providers.items()}
        self.wire.models["beacon"] = self.beacon.answer
        self.genesis = self.directory / "genesis.jsonl"
        lines = ({"kind": "chain", "version": 1, **record}, {"kind": "genesis", **chain.genesis.to_json()})
        self.genesis.write_text("".join(orjson.dumps(line).decode() + "\n" for line in lines))
        self.version = network_version(
            int(info["l1ChainId"]),
            info["l1ContractAddresses"]["rollupAddress"],
            chain.rollup_version,
            FOUR.contracts_hash,
            FOUR.vk_tree_root,
        )
        self.l1.committee_size = len(self.members)
        members = tuple(self.members)
        self.l1.mine(committees=tuple((epoch, members) for epoch in range(EPOCHS)))

    @staticmethod
    def ip_of(place: int) -> str:
        return f"10.0.{place}.{place + 1}"

    def record_of(self, place: int) -> str:
        made = OwnRecord(
            self._identities[place],
            self.version,
            ip=self.ip_of(place),
            port=P2P_PORT,
            client=_CLIENT,
            folder=None,
        )
        return made.record.to_text()

    def add_peer(self, place: int, keys: range, **settings: Any) -> PeerNode:
        """A node with some keys of the committee."""
        name, identity = f"node-{place + 1}", self._identities[place]
        self.peers.names[self.ip_of(place)] = name
        self.hosts[identity.peer_id] = name
        providers = ("http://l1-one:8545", "http://l1-two:8545")
        usual: dict[str, Any] = {
            "l1_rpc_urls": providers if place % 2 == 0 else providers[::-1],
            "l1_consensus_host_urls": ("http://beacon:5052",),
            "registry_address": self.l1.addresses.registry,
            "genesis": self.genesis,
            "ethereum_slot_duration": L1_SLOT_S,
            "max_allowed_eth_client_drift_seconds": 300,
            "ethereum_allow_no_debug_hosts": True,
            "archiver_polling_interval_ms": 2_000,
            "shutdown_delay_s": 0,
            "prover_real_proofs": False,
            "p2p_enabled": True,
            "p2p_listen_addr": self.ip_of(place),
            "p2p_ip": self.ip_of(place),
            "p2p_port": P2P_PORT,
            "peer_id_private_key": identity.to_text(),
            "p2p_peer_check_interval_ms": 10_000,
        }
        if keys:
            usual |= {
                "sequencer": True,
                "validator_private_keys": tuple("0x" + self.keys[key].secret.hex() for key in keys),
                "l1_publishing_time": L1_SLOT_S,
                "block_duration_ms": 6_000,
            }
        node = PeerNode(self, name, place, **(usual | settings))
        self.nodes.append(node)
        return node


class _Policy(asyncio.DefaultEventLoopPolicy):
    """Loops that the shipped code makes are those of the world."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return Loop()


def put_peers_in_place(world: PeerWorld) -> None:
    """Give the shipped code the ways between peers of the world, and chance of its own from the seed.

    Proofs of blobs, which nobody in a world looks at, are left out: their setup takes seconds.
    """
    Loop.peers = world.peers
    asyncio.set_event_loop_policy(_Policy())
    swarm.socket = SimpleNamespace(  # type: ignore[assignment]
        socket=lambda *_: UdpSocket(world.peers), AF_INET=2, SOCK_DGRAM=2
    )
    Link.__hash__ = _numbered  # type: ignore[method-assign,assignment]
    X25519PrivateKey.generate = lambda: X25519PrivateKey.from_private_bytes(  # type: ignore[method-assign]
        the_world().entropy.randbytes(32)
    )
    envelope.blob_proof = lambda blob, commitment: bytes(COMMITMENT_BYTES)  # type: ignore[assignment]
    l1_publication.load_setup = lambda: None  # type: ignore[assignment]
