"""The settings of the peer-to-peer network."""

from __future__ import annotations

from pathlib import Path

from fastnode.config import needs
from fastnode.config.table import setting
from fastnode.records import dataclass
from fastnode.values.arrays import texts
from fastnode.values.choices import Boolean
from fastnode.values.numbers import Integer
from fastnode.values.texts import FilePath, Host, Text

__all__ = ["PEERS", "PeerSettings"]

PEERS = "Peer-to-peer network"

_PORT_MAX = 65_535
_DAY_MS = 86_400_000
_RECORDS = "node records (enr:..), separated by commas"


@dataclass(frozen=True, kw_only=True)
class PeerSettings:
    p2p_enabled: bool = setting(
        False,
        Boolean(),
        PEERS,
        "Take part in the peer-to-peer network: gossip transactions and proposals. Takes the extra [p2p].",
        environment=("P2P_ENABLED",),
        flags=("--p2p.p2pEnabled",),
        packages=("cryptography", "cramjam"),
        whole_release=True,
        untried="untried_peers",
    )
    untried_peers: bool = setting(
        False,
        Boolean(),
        PEERS,
        "Take part in the peer-to-peer network of release 5.x too: by its public source, as no published node of it "
        "was tried. The start and the status warn of it.",
        needs=needs.PEERS,
    )
    p2p_peer: tuple[str, ...] | None = setting(
        None,
        texts("HOST:PORT", "HOST:PORT of one or more peers, separated by commas"),
        PEERS,
        "Peer to dial, again and again, of any identity; may be given several times.",
        needs=needs.PEERS,
    )
    p2p_port: int = setting(
        40_400,
        Integer(0, _PORT_MAX),
        PEERS,
        "Port for peers, TCP and UDP; 0: any free one.",
        needs=needs.PEERS,
        environment=("P2P_PORT",),
        flags=("--p2p.p2pPort",),
    )
    p2p_broadcast_port: int | None = setting(
        None,
        Integer(1, _PORT_MAX),
        PEERS,
        "Port that others are told; not set: the one that is listened on.",
        needs=needs.PEERS,
        environment=("P2P_BROADCAST_PORT",),
        flags=("--p2p.p2pBroadcastPort",),
    )
    p2p_ip: str | None = setting(
        None,
        Text(metavar="ADDRESS"),
        PEERS,
        "IPv4 address that others are told; not set: what peers agree that they see.",
        needs=needs.PEERS,
        environment=("P2P_IP",),
        flags=("--p2p.p2pIp",),
    )
    p2p_listen_addr: str = setting(
        "0.0.0.0",
        Host(),
        PEERS,
        "Address to listen on for peers.",
        needs=needs.PEERS,
        environment=("P2P_LISTEN_ADDR",),
        flags=("--p2p.listenAddress",),
    )
    peer_id_private_key: str | None = setting(
        None,
        Text(metavar="HEX"),
        PEERS,
        "Key of this node on the network, 08021220 and 32 bytes in hex; not set: that of the file below.",
        needs=needs.PEERS,
        environment=("PEER_ID_PRIVATE_KEY",),
        flags=("--p2p.peerIdPrivateKey",),
        secret=True,
    )
    peer_id_private_key_path: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        PEERS,
        "File with that key; default: p2p-private-key in the data directory.",
        needs=needs.PEERS,
        environment=("PEER_ID_PRIVATE_KEY_PATH",),
        flags=("--p2p.peerIdPrivateKeyPath",),
    )
    p2p_trusted_peers: tuple[str, ...] | None = setting(
        None,
        texts("ENR", _RECORDS),
        PEERS,
        "Peers that are dialled and never dropped for their score or for want of room.",
        needs=needs.PEERS,
        environment=("P2P_TRUSTED_PEERS",),
        flags=("--p2p.trustedPeers",),
    )
    p2p_private_peers: tuple[str, ...] | None = setting(
        None,
        texts("ENR", _RECORDS),
        PEERS,
        "As --p2p-trusted-peers, and others are not told of them.",
        needs=needs.PEERS,
        environment=("P2P_PRIVATE_PEERS",),
        flags=("--p2p.privatePeers",),
    )
    p2p_preferred_peers: tuple[str, ...] | None = setting(
        None,
        texts("ENR", _RECORDS),
        PEERS,
        "Peers that are dialled, never dropped, and sent every message whatever their score.",
        needs=needs.PEERS,
        environment=("P2P_PREFERRED_PEERS",),
        flags=("--p2p.preferredPeers",),
    )
    bootstrap_nodes: tuple[str, ...] | None = setting(
        None,
        texts("ENR", _RECORDS),
        PEERS,
        "Nodes that are asked for others; they are not dialled themselves.",
        needs=needs.DISCOVERY,
        environment=("BOOTSTRAP_NODES",),
        flags=("--p2p.bootstrapNodes",),
    )
    p2p_bootstrap_node_enr_version_check: bool = setting(
        False,
        Boolean(),
        PEERS,
        "Leave out bootstrap nodes whose record is of another network.",
        needs=needs.DISCOVERY,
        environment=("P2P_BOOTSTRAP_NODE_ENR_VERSION_CHECK",),
        flags=("--p2p.bootstrapNodeEnrVersionCheck",),
    )
    p2p_bootstrap_nodes_as_full_peers: bool = setting(
        False,
        Boolean(),
        PEERS,
        "Dial bootstrap nodes as other nodes are.",
        needs=needs.DISCOVERY,
        environment=("P2P_BOOTSTRAP_NODES_AS_FULL_PEERS",),
        flags=("--p2p.bootstrapNodesAsFullPeers",),
    )
    p2p_discovery_disabled: bool = setting(
        False,
        Boolean(),
        PEERS,
        "Find no peers over UDP: only those that are named, or known from before, are dialled.",
        needs=needs.PEERS,
        environment=("P2P_DISCOVERY_DISABLED",),
        flags=("--p2p.p2pDiscoveryDisabled",),
    )
    p2p_max_peers: int = setting(
        100,
        Integer(1, 10_000),
        PEERS,
        "Most peers beside trusted, private and preferred ones; those with the lowest scores leave.",
        needs=needs.PEERS,
        environment=("P2P_MAX_PEERS", "P2P_MAX_PEER_COUNT"),
        flags=("--p2p.maxPeerCount",),
    )
    p2p_peer_check_interval_ms: int = setting(
        30_000,
        Integer(100, _DAY_MS),
        PEERS,
        "How often it is looked at who has to leave.",
        needs=needs.PEERS,
        environment=("P2P_PEER_CHECK_INTERVAL_MS",),
        flags=("--p2p.peerCheckIntervalMS",),
    )
    p2p_peer_penalty_values: str = setting(
        "2,10,50",
        Text(metavar="NUMBERS"),
        PEERS,
        "Points that a peer loses for a small, a middle and a grave offence; below -50 it is left, below -100 at once.",
        needs=needs.PEERS,
        environment=("P2P_PEER_PENALTY_VALUES",),
        flags=("--p2p.peerPenaltyValues",),
    )
    p2p_double_spend_severe_peer_penalty_window: int = setting(
        30,
        Integer(0, 1_000_000),
        PEERS,
        "A transaction whose nullifier was there so many blocks ago is a grave offence.",
        needs=needs.PEERS,
        environment=("P2P_DOUBLE_SPEND_SEVERE_PEER_PENALTY_WINDOW",),
        flags=("--p2p.doubleSpendSeverePeerPenaltyWindow",),
    )
    p2p_gossipsub_interval_ms: int = setting(
        700,
        Integer(50, 60_000),
        PEERS,
        "Time between two heartbeats of gossip.",
        needs=needs.PEERS,
        environment=("P2P_GOSSIPSUB_INTERVAL_MS",),
        flags=("--p2p.gossipsubInterval",),
    )
    p2p_gossipsub_d: int = setting(
        8,
        Integer(1, 1000),
        PEERS,
        "Peers of a topic's mesh that are aimed at.",
        needs=needs.PEERS,
        environment=("P2P_GOSSIPSUB_D",),
        flags=("--p2p.gossipsubD",),
    )
    p2p_gossipsub_dlo: int = setting(
        4,
        Integer(0, 1000),
        PEERS,
        "Below so many peers a mesh takes more.",
        needs=needs.PEERS,
        environment=("P2P_GOSSIPSUB_DLO",),
        flags=("--p2p.gossipsubDlo",),
    )
    p2p_gossipsub_dhi: int = setting(
        12,
        Integer(1, 1000),
        PEERS,
        "Above so many peers a mesh drops some.",
        needs=needs.PEERS,
        environment=("P2P_GOSSIPSUB_DHI",),
        flags=("--p2p.gossipsubDhi",),
    )
    p2p_gossipsub_dlazy: int = setting(
        8,
        Integer(0, 1000),
        PEERS,
        "Peers outside the mesh that are told of messages at each heartbeat.",
        needs=needs.PEERS,
        environment=("P2P_GOSSIPSUB_DLAZY",),
        flags=("--p2p.gossipsubDLazy",),
    )
    p2p_gossipsub_mcache_length: int = setting(
        6,
        Integer(1, 100),
        PEERS,
        "Heartbeats for which messages are kept for peers that ask for them.",
        needs=needs.PEERS,
        environment=("P2P_GOSSIPSUB_MCACHE_LENGTH",),
        flags=("--p2p.gossipsubMcacheLength",),
    )
    p2p_gossipsub_mcache_gossip: int = setting(
        3,
        Integer(0, 100),
        PEERS,
        "Heartbeats whose messages others are told of.",
        needs=needs.PEERS,
        environment=("P2P_GOSSIPSUB_MCACHE_GOSSIP",),
        flags=("--p2p.gossipsubMcacheGossip",),
    )
    p2p_gossipsub_seen_ttl: int = setting(
        1_200_000,
        Integer(1000, _DAY_MS),
        PEERS,
        "How long a message is remembered as seen, in milliseconds.",
        needs=needs.PEERS,
        environment=("P2P_GOSSIPSUB_SEEN_TTL",),
        flags=("--p2p.gossipsubSeenTTL",),
    )
    p2p_gossipsub_flood_publish: bool = setting(
        False,
        Boolean(),
        PEERS,
        "Send own messages to all peers of a topic instead of to its mesh.",
        needs=needs.PEERS,
        environment=("P2P_GOSSIPSUB_FLOOD_PUBLISH",),
        flags=("--p2p.gossipsubFloodPublish",),
    )
    p2p_seen_msg_cache_size: int = setting(
        100_000,
        Integer(100, 10_000_000),
        PEERS,
        "Most messages of a topic that are remembered as seen.",
        needs=needs.PEERS,
        environment=("P2P_SEEN_MSG_CACHE_SIZE",),
        flags=("--p2p.seenMessageCacheSize",),
    )
    p2p_reqresp_individual_request_timeout_ms: int = setting(
        10_000,
        Integer(100, 600_000),
        PEERS,
        "How long a request to a peer may take.",
        needs=needs.PEERS,
        environment=("P2P_REQRESP_INDIVIDUAL_REQUEST_TIMEOUT_MS",),
        flags=("--p2p.individualRequestTimeoutMs",),
    )
    p2p_reqresp_dial_timeout_ms: int = setting(
        5_000,
        Integer(100, 600_000),
        PEERS,
        "How long connecting to a peer may take.",
        needs=needs.PEERS,
        environment=("P2P_REQRESP_DIAL_TIMEOUT_MS",),
        flags=("--p2p.dialTimeoutMs",),
    )
    p2p_disable_status_handshake: bool = setting(
        False,
        Boolean(),
        PEERS,
        "Keep peers that do not say that they are of this network.",
        needs=needs.PEERS,
        environment=("P2P_DISABLE_STATUS_HANDSHAKE",),
        flags=("--p2p.p2pDisableStatusHandshake",),
    )
    debug_p2p_disable_colocation_penalty: bool = setting(
        False,
        Boolean(),
        PEERS,
        "Let any number of peers come from one address: for networks on one machine.",
        needs=needs.PEERS,
        environment=("DEBUG_P2P_DISABLE_COLOCATION_PENALTY",),
        flags=("--p2p.debugDisableColocationPenalty",),
    )
