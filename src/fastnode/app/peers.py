"""The peer-to-peer network put together: identity, options, the node behind it.  Imported only where it is wanted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

# The first of what the extra brings, so that what is missing is said in terms of it.
import cryptography  # noqa: F401

from fastnode.errors import PeerUnavailable, SettingError, StartError
from fastnode.p2p.discovery.enr import NodeRecord
from fastnode.p2p.discovery.options import DiscoveryOptions
from fastnode.p2p.gossip.topics import Topic, network_version
from fastnode.p2p.gossip.wire import GossipOptions
from fastnode.p2p.judging.network_time import NetworkTime, Pulse
from fastnode.p2p.judging.node_host import NodeHost
from fastnode.p2p.judging.proposal_judge import ProposalJudge
from fastnode.p2p.judging.proposed_blocks import ExecutionParts, ProposedBlocks
from fastnode.p2p.judging.pruned_epochs import PrunedEpochs, PrunedParts
from fastnode.p2p.node.gossip_sink import GossipSink
from fastnode.p2p.node.network import PeerNetwork
from fastnode.p2p.node.options import PeerOptions, StaticPeer
from fastnode.p2p.node.snapshot import NetworkSnapshot
from fastnode.p2p.transport.identity import load_identity
from fastnode.sentinel.offenses import OffenseType

if TYPE_CHECKING:
    from fastnode.app.condition import Condition
    from fastnode.archiver.queries import ChainInfo
    from fastnode.config.configuration import NodeConfiguration
    from fastnode.config.settings import Settings
    from fastnode.http.allowance import MemoryBudget
    from fastnode.keystore.validators import Validators
    from fastnode.mempool.clock import SlotClock
    from fastnode.mempool.handover import TxSink
    from fastnode.mempool.service import Mempool
    from fastnode.p2p.messages.proposals import BlockProposal, CheckpointAttestation, CheckpointProposal
    from fastnode.view import Committed, View
    from fastnode.world_state.state import WorldState

__all__ = ["PeerToPeer", "peer_options"]

logger = logging.getLogger("fastnode.app")

#: Time to wait for the transactions of a proposal, in seconds.
_FETCH_S = 5.0
#: No peer for so long is worth a word.
_LONELY_S = 60.0
#: Keys of the configuration that say which proposed blocks are executed.
_ALWAYS, _EXECUTES = "alwaysReexecuteBlockProposals", "validatorReexecute"
_PENALTY = "slashBroadcastedInvalidBlockPenalty"


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


class PeerToPeer:
    """Peer-to-peer networking of a node that takes part.  SettingError for peers that are none."""

    def __init__(
        self, settings: Settings, data_directory: Path, upstreams: TxSink | None, *, wake: Callable[[], None]
    ) -> None:
        """``wake``: the thread that ingests."""
        self._settings = settings
        self._identity = load_identity(
            data_directory, key=settings.peer_id_private_key, path=settings.peer_id_private_key_path
        )
        self._options = replace(peer_options(settings), folder=data_directory)
        self._network: PeerNetwork | None = None
        self._mempool: Mempool | None = None
        #: Slots by the time on the network.
        self._clock: SlotClock | None = None
        self._host: NodeHost | None = None
        self._lonely_since = time.monotonic()
        self._committees: CommitteeReader | None = None
        self._epoch_duration = 1
        self._pulse = Pulse()
        #: Told of what is accepted of whole checkpoints; a validator sets them.
        self.on_checkpoint: Callable[[CheckpointProposal], None] = lambda checkpoint: None
        self.on_attestation: Callable[[CheckpointAttestation], None] = lambda attestation: None
        #: Told of each attestation that holds, beside the validator.
        self.hear: Callable[[CheckpointAttestation], None] = lambda attestation: None
        #: The validators whose keys are here.
        self.members: Callable[[], Collection[bytes]] = lambda: ()
        self._pruned: PrunedEpochs | None = None
        #: Blocks that peers have proposed, on their way into the chain.
        self.proposed = ProposedBlocks(wake)
        #: Sink to which the pool hands transactions on.
        self.sink = GossipSink(upstreams)

    def attach(
        self,
        mempool: Mempool,
        chain: ChainInfo,
        view: Callable[[], View | None],
        condition: Condition,
        budget: MemoryBudget,
    ) -> None:
        """StartError when it is not known which network this is."""
        version = _version_of(mempool, chain)
        self._mempool = mempool
        self._clock = replace(mempool.clock, now=NetworkTime(mempool.clock.now).now)
        options = replace(self._options, client=chain.node_version or self._options.client)
        host = NodeHost(
            version,
            mempool,
            view,
            is_ready=lambda: condition.is_ready() and not condition.is_importing,
            old_spend_blocks=self._settings.p2p_double_spend_severe_peer_penalty_window,
            budget=budget,
        )
        self._host = host
        self._network = PeerNetwork(
            self._identity,
            version,
            host,
            options,
            budget,
            slot_s=chain.slot_duration,
            committee_size=int(chain.l1_constants.get("targetCommitteeSize", 0)),
            on_snapshot=self._on_snapshot,
        )
        condition.mention(self.troubles)
        condition.tell("peers", self._summary)

    def answer_as(self, validators: Validators) -> None:
        """Let those that the operator named know whose validator this is, if it has the keys of one."""
        assert self._host is not None
        keystore = validators.keystore
        if keystore is None or not keystore.validators:
            return
        from fastnode.app.validator_messages import ValidatorMessages

        self._host.sign = ValidatorMessages(validators, self._is_in_committee).sign

    def _is_in_committee(self, address: bytes) -> bool:
        committees, mempool = self._committees, self._mempool
        if committees is None or mempool is None:
            return False
        epoch = mempool.clock.next_slot() // self._epoch_duration
        return address in (committees.committee_of(epoch) or ())

    def judge_proposals(self, chain: ChainInfo, l1: L1Rules, state: Callable[[], WorldState], accuse: Accuse) -> None:
        """L1 says who may propose and attest: from now on proposals are judged, forwarded and executed.

        ``state``: the trees, as the thread that ingests has them; ``accuse`` is told of offenses.
        """
        host, mempool, clock = self._host, self._mempool, self._clock
        assert host is not None
        assert mempool is not None
        assert clock is not None
        committees = self._committees = l1.committees
        self._epoch_duration = chain.epoch_duration
        host.judge_proposal = ProposalJudge(
            clock,
            chain.epoch_duration,
            committees.committee_of,
            committees.proposer_of,
            host.has_txs,
            accuse=accuse,
            on_block=self.proposed.offer,
            on_checkpoint=lambda checkpoint: self.on_checkpoint(checkpoint),
            on_attestation=self._attested,
            has_paused=lambda: self._pulse.has_paused,
        )

        def on_fault(proposal: BlockProposal) -> None:
            proposer = committees.proposer_of(proposal.slot)
            if proposer is not None:
                accuse(OffenseType.BROADCASTED_INVALID_BLOCK_PROPOSAL, proposer, proposal.slot)

        self.proposed.parts = ExecutionParts(
            state=state,
            validator=mempool.validator,
            clock=clock,
            txs_of=host.txs.of,
            messages_of=l1.messages_of,
            on_fault=on_fault,
        )
        pruned = self._pruned = PrunedEpochs(
            PrunedParts(
                is_ready=host.is_ready,
                has_peers=lambda: self._network is not None and bool(self._network.snapshot.peers),
                find=host.find_txs,
                txs_of=host.txs.of,
                committee_of=committees.committee_of,
                accuse=accuse,
            )
        )

        def on_pruned(last_kept: int) -> None:
            if (newest := host.view()) is not None:
                pruned.pruned(newest, last_kept)

        l1.on_pruned = on_pruned

    def execute_by(self, configuration: NodeConfiguration) -> None:
        """Blocks of proposals are executed where the configuration wants it; what is not, nothing here attests to."""
        settings = self._settings

        def executes(slot: int) -> bool:
            if configuration[_ALWAYS] or not settings.sequencer:
                return bool(configuration[_ALWAYS])
            if settings.fisherman_mode or settings.blob_file_store_upload_url is not None:
                return True
            return bool(configuration[_EXECUTES]) and (configuration[_PENALTY] > 0 or self._has_member(slot))

        self.proposed.executes = executes
        configuration.on_change((_ALWAYS, _EXECUTES, _PENALTY), lambda _new, _changed: None)

    def _has_member(self, slot: int) -> bool:
        """True if a validator whose key is here is in the committee of a slot."""
        committees = self._committees
        committee = None if committees is None else committees.committee_of(slot // self._epoch_duration)
        return not set(self.members()).isdisjoint(committee or ())

    def _attested(self, attestation: CheckpointAttestation) -> None:
        self.on_attestation(attestation)
        self.hear(attestation)

    def _fetch(self, root: bytes, hashes: Sequence[bytes], missing: set[bytes], peer: str) -> Sequence[bytes]:
        assert self._network is not None
        try:
            return self._network.fetch_txs(root, hashes, missing, peer, _FETCH_S)
        except PeerUnavailable:
            return ()

    def find_tx(self, tx_hash: bytes) -> Sequence[bytes]:
        """Transactions of peers under this hash, in binary form, not checked; empty while the network does not run."""
        return () if self._network is None else self._fetch(bytes(32), [tx_hash], {tx_hash}, "")

    def publish(self, topic: Topic, payload: bytes, slot: int) -> None:
        """To the peers that are here, and to those that come while the slot lasts.  PeerUnavailable when the network
        does not run."""
        clock = self._clock
        if self._network is None or clock is None:
            raise PeerUnavailable("the peer-to-peer network is not running")
        # By the time of L1's newest block it would come into the next slot, and cost this node points at who gets it.
        keep_s = clock.genesis_time + (slot + 1) * clock.slot_duration - clock.now()
        # One slot ahead at most: a clock that is wrong keeps nothing for long.
        self._network.publish(topic, payload, keep_s=min(max(0.0, keep_s), 2 * clock.slot_duration))

    def start(self) -> None:
        """StartError when the port cannot be had."""
        assert self._network is not None
        self._network.start()
        self.sink.network = self._network
        assert self._host is not None
        self._host.fetch = self._fetch
        self.sink.settling_s = self._host.settling_s
        assert self._mempool is not None
        if self._mempool.judge.limitation is not None:
            logger.warning(
                "transactions of others are taken from peers, and not forwarded, and proposed blocks are not executed: "
                "%s",
                self._mempool.judge.limitation,
            )

    def on_committed(self, committed: Committed) -> None:
        """The chain has changed; in the thread that ingests."""
        if self._host is not None:
            self._host.on_committed(committed)

    def stop(self) -> None:
        self.sink.network = None
        if self._pruned is not None:
            self._pruned.close()
        if self._network is not None:
            self._network.stop()
        if self._host is not None:
            self._host.txs.close()

    # ---- what others look at -------------------------------------------------------------------

    def record(self) -> str | None:
        """This node's record as text, as of the last second; None before it listens."""
        return None if self._network is None else self._network.snapshot.enr

    def describe(self) -> dict[str, Any]:
        """For the status page."""
        assert self._network is not None
        return self.snapshot().to_json()

    @property
    def has_peer(self) -> bool:
        """True if a peer is connected that can be told of a transaction."""
        return self._network is not None and bool(self._network.snapshot.peers)

    def snapshot(self) -> NetworkSnapshot:
        assert self._network is not None
        return replace(self._network.snapshot, proposed_blocks=dict(self.proposed.counts))

    def troubles(self) -> dict[str, str | None]:
        """Trouble with peers, None for nothing."""
        if self._network is not None and self._network.trouble is not None:
            return {"peers": self._network.trouble}
        snapshot = self.snapshot()
        if snapshot.peers:
            empty = sorted(topic for topic, size in snapshot.mesh.items() if not size)
            return {"peers": f"in no mesh of {', '.join(empty)}" if len(empty) == len(snapshot.mesh) else None}
        is_lonely = time.monotonic() - self._lonely_since > _LONELY_S
        return {"peers": "no peer is connected" if is_lonely else None}

    def _summary(self) -> str:
        snapshot = self.snapshot()
        mesh = ", ".join(f"{topic} {size}" for topic, size in snapshot.mesh.items())
        return f"{len(snapshot.peers)} connected; mesh: {mesh or 'none'}"

    def _on_snapshot(self, snapshot: NetworkSnapshot) -> None:
        """Each second: what waits for a peer goes out when there is one."""
        self._pulse.beat()
        if self._mempool is not None:
            self._mempool.pool.release_before(self._mempool.clock.slot())
        if not snapshot.peers:
            return
        self._lonely_since = time.monotonic()
        handover = None if self._mempool is None else self._mempool.handover
        if handover is not None and handover.has_waiting and any(snapshot.mesh.values()):
            handover.flush()


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
