"""The peer-to-peer network of a node with ``--p2p-enabled``: identity, options, the node behind it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

# The first of what the extra brings, so that what is missing is said in terms of it.
import cryptography  # noqa: F401

from fastnode.app.ground.part import Part
from fastnode.config.config_keys import EXECUTION
from fastnode.errors import PeerUnavailable, SettingError, StartError
from fastnode.log import log_facts
from fastnode.p2p.discovery.enr import NodeRecord
from fastnode.p2p.discovery.options import DiscoveryOptions
from fastnode.p2p.gossip.topics import Topic, network_version
from fastnode.p2p.gossip.wire import GossipOptions
from fastnode.p2p.judging.heard import HeardMessages
from fastnode.p2p.judging.network_time import NetworkTime, Pulse
from fastnode.p2p.judging.node_host import NodeHost
from fastnode.p2p.judging.proposal_judge import ProposalJudge
from fastnode.p2p.judging.proposed_blocks import ExecutionParts
from fastnode.p2p.judging.pruned_epochs import PrunedEpochs, PrunedParts
from fastnode.p2p.node.known_peers import PEERS_FILE
from fastnode.p2p.node.network import PeerNetwork
from fastnode.p2p.node.options import PeerOptions, StaticPeer
from fastnode.p2p.node.snapshot import NetworkSnapshot
from fastnode.p2p.transport.identity import load_identity
from fastnode.records import dataclass
from fastnode.sentinel.offenses import OffenseType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric

    from fastnode.app.roles.l1_writer import L1Writer
    from fastnode.app.stages.core import Core
    from fastnode.app.stages.gossip import Gossip
    from fastnode.archiver.queries import ChainInfo
    from fastnode.config.configuration import NodeConfiguration
    from fastnode.config.settings import Settings
    from fastnode.http.allowance import MemoryBudget
    from fastnode.mempool.service import Mempool
    from fastnode.p2p.messages.proposals import BlockProposal, CheckpointAttestation, CheckpointProposal
    from fastnode.serving.server import RpcServer
    from fastnode.view import Committed, View
    from fastnode.world_state.state import WorldState

__all__ = ["PeerParts", "Peers", "execution_rule", "isolation_of", "open_peers", "peer_options"]

logger = logging.getLogger("fastnode.app")

_T = TypeVar("_T")

#: Time to wait for the transactions of a proposal, in seconds.
_FETCH_S = 5.0
#: No peer for so long is worth a word.
_LONELY_S = 60.0

#: A kind of offense, who has done it, the slot or epoch.
Accuse = Callable[[OffenseType, bytes, int], None]


class CommitteeReader(Protocol):
    """Reader of committees and proposers, as L1 has them."""

    def committee_of(self, epoch: int) -> Sequence[bytes] | None: ...

    def proposer_of(self, slot: int) -> bytes | None: ...


class L1Rules(Protocol):
    """Rules of L1 that proposals are judged and executed by."""

    @property
    def committees(self) -> CommitteeReader: ...

    #: Told of the last block that stays when what was not proven in time is given up.
    on_pruned: Callable[[int], None]

    def messages_of(self, checkpoint_number: int) -> Sequence[bytes] | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerParts:
    """Parts of the node that its peers deal with."""

    settings: Settings
    directory: Path
    gossip: Gossip
    mempool: Mempool
    chain: ChainInfo
    view: Callable[[], View | None]
    #: True if the chain is new enough to judge others by it.
    is_ready: Callable[[], bool]
    budget: MemoryBudget
    #: The trees, as the thread that ingests has them.
    state: Callable[[], WorldState]
    #: True if blocks of a slot are executed, of: slot, whether a validator whose key is here is in its committee.
    executes: Callable[[int, Callable[[int], bool]], bool] = lambda _slot, _has_member: True
    #: L1 says who may propose and attest: proposals are judged, forwarded and executed.  None: they are not.
    l1: L1Rules | None = None
    #: The validators whose keys are here.
    members: Callable[[], Collection[bytes]] = lambda: ()
    #: Signs a message with a validator's key, by preference one of which the function says so; None: there is none.
    sign: Callable[[bytes, Callable[[bytes], bool]], bytes | None] | None = None
    #: Told of offenses.
    accuse: Accuse = lambda _kind, _validator, _at: None


def open_peers(core: Core, gossip: Gossip, writer: L1Writer | None) -> Peers:
    """StartError when it is not known which network this is; SettingError for peers that are none.  ``writer`` None:
    no validator works here.
    """
    foundation, condition, keystore = core.foundation, core.condition, core.validators.keystore
    rule = execution_rule(foundation.settings, core.configuration)
    sign = None
    if keystore.validators:
        from fastnode.app.roles.validator_messages import ValidatorMessages

        sign = ValidatorMessages(core.validators, (lambda: ()) if writer is None else writer.keys.disabled).sign
    peers = Peers(
        PeerParts(
            settings=foundation.settings,
            directory=foundation.data.directory.path,
            gossip=gossip,
            mempool=core.mempool,
            chain=foundation.data.store.chain,
            view=lambda: core.views.newest,
            is_ready=lambda: condition.is_ready() and not condition.is_importing,
            budget=foundation.budget,
            state=lambda: foundation.data.state,
            executes=rule,
            l1=core.source.l1,
            members=(lambda: ()) if writer is None else writer.keys.attesters,
            sign=sign,
            accuse=core.validator_watch.accuse,
        )
    )
    peers.watch_attestations(core.validator_watch.hear)
    return peers


def execution_rule(
    settings: Settings, configuration: NodeConfiguration
) -> Callable[[int, Callable[[int], bool]], bool]:
    """Rule by which blocks of proposals are executed; what is not executed, nothing here attests to."""

    view = configuration.attach(EXECUTION)

    def executes(slot: int, has_member: Callable[[int], bool]) -> bool:
        if view["alwaysReexecuteBlockProposals"] or not settings.sequencer:
            return bool(view["alwaysReexecuteBlockProposals"])
        if view["fishermanMode"] or settings.blob_file_store_upload_url is not None:
            return True
        is_judged = view["slashBroadcastedInvalidBlockPenalty"] > 0
        return bool(view["validatorReexecute"]) and (is_judged or has_member(slot))

    return executes


class Peers(Part):
    """StartError when it is not known which network this is; SettingError for peers that are none."""

    def __init__(self, parts: PeerParts) -> None:
        self._parts = parts
        settings, mempool, chain = parts.settings, parts.mempool, parts.chain
        identity = load_identity(
            parts.directory, key=settings.peer_id_private_key, path=settings.peer_id_private_key_path
        )
        options = peer_options(settings)
        #: Reason that this node cannot find a peer; None if it can.
        self._isolation = None if (parts.directory / PEERS_FILE).exists() else isolation_of(settings, options)
        version = _version_of(mempool, chain)
        #: Slots by the time on the network.
        self._clock = replace(mempool.clock, now=NetworkTime(mempool.clock.now).now)
        self._lonely_since = time.monotonic()
        self._pulse = Pulse()
        self._on_checkpoint: list[Callable[[CheckpointProposal], None]] = []
        self._on_attestation: list[Callable[[CheckpointAttestation], None]] = []
        self._pruned: PrunedEpochs | None = None
        #: Proposals and attestations by their slots; None: nobody asks for those of this release, or none is judged.
        self._heard: HeardMessages | None = None
        if chain.release.messages.are_for_rollup and parts.l1 is not None:
            self._heard = HeardMessages(parts.budget)
        self.proposed = parts.gossip.proposed
        self._host = NodeHost(
            version,
            mempool,
            parts.view,
            is_ready=parts.is_ready,
            old_spend_blocks=settings.p2p_double_spend_severe_peer_penalty_window,
            budget=parts.budget,
        )
        self._network = PeerNetwork(
            identity,
            version,
            self._host,
            replace(options, folder=parts.directory, release=chain.release, client=chain.node_version or None),
            parts.budget,
            slot_s=chain.slot_duration,
            committee_size=int(chain.l1_constants.get("targetCommitteeSize", 0)),
            on_snapshot=self._on_snapshot,
        )
        if parts.sign is not None:
            sign = parts.sign
            self._host.sign = lambda message: sign(message, self._is_in_committee)
        if parts.l1 is not None:
            self._judge_proposals(parts.l1)

    # ---- proposals -----------------------------------------------------------------------------

    def watch_checkpoints(self, on_checkpoint: Callable[[CheckpointProposal], None]) -> None:
        """Tell of each proposal of a checkpoint that holds, from now on."""
        self._on_checkpoint.append(on_checkpoint)

    def watch_attestations(self, on_attestation: Callable[[CheckpointAttestation], None]) -> None:
        """Tell of each attestation that holds, from now on."""
        self._on_attestation.append(on_attestation)

    def _committee(self, slot: int) -> Sequence[bytes]:
        l1, epoch = self._parts.l1, slot // self._parts.chain.epoch_duration
        return () if l1 is None else l1.committees.committee_of(epoch) or ()

    def _is_in_committee(self, address: bytes) -> bool:
        return address in self._committee(self._parts.mempool.clock.next_slot())

    def _has_member(self, slot: int) -> bool:
        """True if a validator whose key is here is in the committee of a slot."""
        return not set(self._parts.members()).isdisjoint(self._committee(slot))

    def _judge_proposals(self, l1: L1Rules) -> None:
        """Judge, forward and execute proposals from now on, by what L1 says."""
        parts, host = self._parts, self._host
        committees = l1.committees
        host.judge_proposal = ProposalJudge(
            self._clock,
            parts.chain.epoch_duration,
            committees.committee_of,
            committees.proposer_of,
            host.has_txs,
            release=parts.chain.release,
            domain=parts.chain.signing_domain,
            accuse=parts.accuse,
            on_block=self.proposed.offer,
            on_checkpoint=lambda checkpoint: _tell(self._on_checkpoint, checkpoint),
            on_attestation=lambda attestation: _tell(self._on_attestation, attestation),
            has_paused=lambda: self._pulse.has_paused,
            keep=(lambda _message, _signer: None) if self._heard is None else self._heard.keep,
        )

        def on_fault(proposal: BlockProposal) -> None:
            proposer = committees.proposer_of(proposal.slot)
            if proposer is not None:
                parts.accuse(OffenseType.BROADCASTED_INVALID_BLOCK_PROPOSAL, proposer, proposal.slot)

        self.proposed.executes = lambda slot: parts.executes(slot, self._has_member)
        self.proposed.parts = ExecutionParts(
            state=parts.state,
            validator=parts.mempool.validator,
            clock=self._clock,
            txs_of=host.txs.of,
            messages_of=l1.messages_of,
            on_fault=on_fault,
        )
        pruned = self._pruned = PrunedEpochs(
            PrunedParts(
                is_ready=host.is_ready,
                has_peers=lambda: bool(self._network.snapshot.peers),
                find=host.find_txs,
                txs_of=host.txs.of,
                committee_of=committees.committee_of,
                accuse=parts.accuse,
            )
        )

        def on_pruned(last_kept: int) -> None:
            if (newest := host.view()) is not None:
                pruned.pruned(newest, last_kept)

        l1.on_pruned = on_pruned

    # ---- transactions and messages --------------------------------------------------------------

    def _fetch(self, root: bytes, hashes: Sequence[bytes], missing: set[bytes], peer: str) -> Sequence[bytes]:
        try:
            return self._network.fetch_txs(root, hashes, missing, peer, _FETCH_S)
        except PeerUnavailable:
            return ()

    def find_tx(self, tx_hash: bytes) -> Sequence[bytes]:
        """Transactions of peers under this hash, in binary form, not checked; empty while the network does not run."""
        return self._fetch(bytes(32), [tx_hash], {tx_hash}, "")

    def publish(self, topic: Topic, payload: bytes, slot: int) -> None:
        """To the peers that are here, and to those that come while the slot lasts.  PeerUnavailable when the network
        does not run."""
        clock = self._clock
        # By the time of L1's newest block it would come into the next slot, and cost this node points at who gets it.
        keep_s = clock.genesis_time + (slot + 1) * clock.slot_duration - clock.now()
        # One slot ahead at most: a clock that is wrong keeps nothing for long.
        self._network.publish(topic, payload, keep_s=min(max(0.0, keep_s), 2 * clock.slot_duration))

    # ---- life ----------------------------------------------------------------------------------

    def start(self, public: RpcServer) -> None:
        """StartError when the port cannot be had."""
        self._network.start()
        if self._isolation is not None:
            logger.warning("peers: none can be found", extra=log_facts(reason=self._isolation))
        sink, limitation = self._parts.gossip.sink, self._parts.mempool.judge.limitation
        sink.network = self._network
        self._host.fetch = self._fetch
        sink.settling_s = self._host.settling_s
        if limitation is not None:
            logger.warning(
                "transactions of others are taken from peers, and not forwarded, and proposed blocks are not executed: "
                "%s",
                limitation,
            )

    def stop(self) -> None:
        self._parts.gossip.sink.network = None
        if self._pruned is not None:
            self._pruned.close()
        self._network.stop()
        self._host.txs.close()
        if self._heard is not None:
            self._heard.close()

    def on_committed(self, committed: Committed) -> None:
        self._host.on_committed(committed)

    # ---- reports -------------------------------------------------------------------------------

    def connected(self) -> list[tuple[str, float]]:
        """Id and score of each peer, as of the last second."""
        return [(peer.peer_id, peer.score) for peer in self._network.snapshot.peers]

    def heard(self, slot: int, payload_hash: bytes | None) -> Sequence[bytes]:
        """Attestations and proposals of a slot as JSON (HeardMessages.of); empty where none are kept."""
        return () if self._heard is None else self._heard.of(slot, payload_hash)

    def record(self) -> str | None:
        """This node's record as text, as of the last second; None before it listens."""
        return self._network.snapshot.enr

    def _snapshot(self) -> NetworkSnapshot:
        return replace(self._network.snapshot, proposed_blocks=dict(self.proposed.counts))

    def troubles(self) -> Mapping[str, str | None]:
        if self._network.trouble is not None:
            return {"peers": self._network.trouble}
        snapshot = self._network.snapshot
        if snapshot.peers:
            empty = sorted(topic for topic, size in snapshot.mesh.items() if not size)
            return {"peers": f"in no mesh of {', '.join(empty)}" if len(empty) == len(snapshot.mesh) else None}
        is_lonely = time.monotonic() - self._lonely_since > _LONELY_S
        # The first node of a private network waits for others; one of a named network finds them, or is set up wrongly.
        is_wrong = self._isolation is not None and self._parts.settings.network is not None
        return {"peers": (self._isolation or "no peer is connected") if is_lonely or is_wrong else None}

    def states(self) -> Mapping[str, str]:
        snapshot = self._network.snapshot
        mesh = ", ".join(f"{topic} {size}" for topic, size in snapshot.mesh.items())
        return {"peers": f"{len(snapshot.peers)} connected; mesh: {mesh or 'none'}"}

    def describe(self) -> Mapping[str, Any]:
        return {"peers": self._snapshot().to_json()}

    def metrics(self) -> Iterable[Metric]:
        from fastnode.metrics.peers import peer_metrics

        return peer_metrics(self._snapshot())

    def _on_snapshot(self, snapshot: NetworkSnapshot) -> None:
        """Each second: what waits for a peer goes out when there is one."""
        mempool = self._parts.mempool
        self._pulse.beat()
        mempool.pool.release_before(mempool.clock.slot())
        if not snapshot.peers:
            return
        self._lonely_since = time.monotonic()
        handover = mempool.handover
        if handover is not None and handover.has_waiting and any(snapshot.mesh.values()):
            handover.flush()


def _tell(hearers: Sequence[Callable[[_T], None]], what: _T) -> None:
    for hear in tuple(hearers):
        hear(what)


def _version_of(mempool: Mempool, chain: ChainInfo) -> str:
    network = mempool.network
    rollup = chain.node_info.get("l1ContractAddresses", {}).get("rollupAddress")
    if network.vk_tree_root is None or network.protocol_contracts_hash is None or not isinstance(rollup, str):
        raise StartError(
            "--p2p-enabled: it is not known which network this is: name its verification keys (--vk-tree-root), or "
            "follow L1 or a node that does (--l1-rpc-urls, --upstream-url)"
        )
    return network_version(
        network.l1_chain_id, rollup, network.rollup_version, network.protocol_contracts_hash, network.vk_tree_root
    )


# ---- options -----------------------------------------------------------------------------------


def peer_options(settings: Settings) -> PeerOptions:
    """SettingError for a peer that is none, and for an address that records and discovery do not have."""
    _require_ipv4("p2p-ip", settings.p2p_ip, "records of the network have IPv4 addresses only")
    if not settings.p2p_discovery_disabled:
        told = "discovery is over IPv4; for peers that are named alone: --p2p-discovery-disabled"
        _require_ipv4("p2p-listen-addr", settings.p2p_listen_addr, told)
    trusted = _records("p2p-trusted-peers", settings.p2p_trusted_peers)
    private = _records("p2p-private-peers", settings.p2p_private_peers)
    preferred = _records("p2p-preferred-peers", settings.p2p_preferred_peers)
    static = [_address(text) for text in settings.p2p_peer or ()]
    static += [_static(record, is_direct=False) for record in (*trusted, *private)]
    static += [_static(record, is_direct=True) for record in preferred]
    points = settings.p2p_peer_penalty_values.split(",")
    if len(points) != 3 or not all(point.strip().isdigit() for point in points):
        raise SettingError(f"p2p-peer-penalty-values: {settings.p2p_peer_penalty_values!r} is not three numbers")
    return PeerOptions(
        listen_host=settings.p2p_listen_addr,
        listen_port=settings.p2p_port,
        announced_ip=settings.p2p_ip,
        announced_port=settings.p2p_broadcast_port,
        static_peers=tuple(static),
        discovery=None if settings.p2p_discovery_disabled else _discovery(settings, (*trusted, *preferred), private),
        protected=frozenset(record.peer_id for record in (*trusted, *private, *preferred)),
        max_peers=settings.p2p_max_peers,
        check_interval_s=settings.p2p_peer_check_interval_ms / 1000,
        penalty_points=(int(points[0]), int(points[1]), int(points[2])),
        request_timeout_s=settings.p2p_reqresp_individual_request_timeout_ms / 1000,
        dial_timeout_s=settings.p2p_reqresp_dial_timeout_ms / 1000,
        checks_status=not settings.p2p_disable_status_handshake,
        takes_transactions=not settings.transactions_disabled,
        counts_colocation=not settings.debug_p2p_disable_colocation_penalty,
        block_proposals_per_slot=settings.expected_block_proposals_per_slot or 0,
        gossip=GossipOptions(
            degree=settings.p2p_gossipsub_d,
            degree_low=settings.p2p_gossipsub_dlo,
            degree_high=settings.p2p_gossipsub_dhi,
            degree_lazy=settings.p2p_gossipsub_dlazy,
            heartbeat_s=settings.p2p_gossipsub_interval_ms / 1000,
            cache_windows=settings.p2p_gossipsub_mcache_length,
            gossiped_windows=settings.p2p_gossipsub_mcache_gossip,
            seen_ttl_s=settings.p2p_gossipsub_seen_ttl / 1000,
            seen_count_max=settings.p2p_seen_msg_cache_size,
            flood_publish=settings.p2p_gossipsub_flood_publish,
        ),
    )


def isolation_of(settings: Settings, options: PeerOptions) -> str | None:
    """Reason that a node which remembers no peers cannot find any; None if its settings name some."""
    discovery = options.discovery
    finds = discovery is not None and (discovery.bootnodes or discovery.seeds or discovery.private)
    if finds or options.static_peers:
        return None
    network = "" if settings.network is None else f" of {settings.network}"
    seeks = (
        "discovery is off"
        if discovery is None
        else f"no bootstrap node{network} is given (BOOTSTRAP_NODES, --bootstrap-nodes, or a --network-config that has "
        f"them)"
    )
    return (
        f"no peer can be found: {seeks}, and no peer is named (--p2p-peer, --p2p-trusted-peers); this node only waits "
        f"to be dialled"
    )


def _discovery(settings: Settings, seeds: Sequence[NodeRecord], private: Sequence[NodeRecord]) -> DiscoveryOptions:
    return DiscoveryOptions(
        bootnodes=tuple(_records("bootstrap-nodes", settings.bootstrap_nodes)),
        seeds=tuple(seeds),
        private=tuple(private),
        checks_bootnode_version=settings.p2p_bootstrap_node_enr_version_check,
        dials_bootnodes=settings.p2p_bootstrap_nodes_as_full_peers,
        look_s=settings.p2p_peer_check_interval_ms / 1000,
    )


def _records(name: str, texts: tuple[str, ...] | None) -> list[NodeRecord]:
    found = []
    for text in texts or ():
        try:
            found.append(NodeRecord.from_text(text))
        except ValueError as error:
            raise SettingError(f"{name}: {text!r}: {error}") from None
    return found


def _static(record: NodeRecord, *, is_direct: bool) -> StaticPeer:
    host, port = record.ip, record.port("tcp")
    if host is None or port is None:
        raise SettingError(f"the node record of {record.peer_id} does not say where it is: ip and tcp are missing")
    return StaticPeer(host, port, record.peer_id, is_direct)


def _require_ipv4(name: str, host: str | None, reason: str) -> None:
    if host is not None and ":" in host:
        raise SettingError(f"{name}: {host} is an IPv6 address: {reason}")
    if host is not None and name == "p2p-ip" and not _is_ipv4(host):
        raise SettingError(f"{name}: {host!r} is no IPv4 address")


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def _address(text: str) -> StaticPeer:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65_536:
        raise SettingError(f"p2p-peer: {text!r} is not HOST:PORT")
    return StaticPeer(host.strip("[]"), int(port))
