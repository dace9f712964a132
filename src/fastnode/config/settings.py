"""Every setting of the node, once.

A field of :class:`Settings`, or of a table that it takes over, is the one place where a setting is
written down.  Its name gives the flag (``--rpc-max-batch-size``), the key in the settings file
(``rpc-max-batch-size``) and the environment name (``SVC_RPC_MAX_BATCH_SIZE``); the options of the
command line, ``fastnode config show``, the errors and docs/settings.md are made from the rest.
``environment`` and ``flags`` list the names that the network's other nodes use for the same thing.

Adding a setting: add a field here, use it, run ``python -m fastnode.config.documentation``.
"""

from __future__ import annotations

from pathlib import Path

from fastnode.config import needs
from fastnode.config.allow_list import ALLOW_LIST, AllowedElement
from fastnode.config.building_settings import BuildingSettings
from fastnode.config.bus_settings import BusSettings
from fastnode.config.l1_settings import L1Settings
from fastnode.config.local_network_settings import LocalNetworkSettings
from fastnode.config.observability_settings import ObservabilitySettings
from fastnode.config.operator_settings import OperatorSettings
from fastnode.config.peer_settings import PeerSettings
from fastnode.config.proof_settings import ProofSettings
from fastnode.config.publishing_settings import PublishingSettings
from fastnode.config.table import (
    CHECK,
    ENVIRONMENT_PREFIX,
    EXPORT,
    IMPORT,
    PROOFS,
    START,
    STORE_COMMANDS,
    Setting,
    rows,
    setting,
)
from fastnode.config.validator_settings import ValidatorSettings
from fastnode.records import dataclass
from fastnode.values.arrays import texts
from fastnode.values.choices import Boolean, Choice, Levels
from fastnode.values.counts import CountOrAuto, CountOrSize, Quantity
from fastnode.values.numbers import Integer, Seconds, Size
from fastnode.values.texts import FilePath, Host, Text, UrlPath

__all__ = ["CHECK", "ENVIRONMENT_PREFIX", "EXPORT", "IMPORT", "START", "Setting", "Settings", "rows", "setting"]

NETWORK = "Network"
CHAIN = "Chain data"
FOLLOWING = "Following"
TRANSACTIONS = "Transactions"
RPC = "JSON-RPC"
LOGS = "Logs"

_PORT_MAX = 65_535
_WORKERS_MAX = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(
    PeerSettings,
    LocalNetworkSettings,
    ProofSettings,
    ValidatorSettings,
    BuildingSettings,
    PublishingSettings,
    L1Settings,
    OperatorSettings,
    ObservabilitySettings,
    BusSettings,
):
    """The effective values, typed; made by :func:`fastnode.config.resolve.resolve`."""

    # ---- network --------------------------------------------------------------------------

    port: int = setting(
        8080,
        Integer(0, _PORT_MAX),
        NETWORK,
        "Port of the public JSON-RPC interface; 0: any free one.",
    )
    admin_port: int = setting(
        8880,
        Integer(0, _PORT_MAX),
        NETWORK,
        "Port of the admin JSON-RPC interface; 0: any free one.",
    )
    host: str = setting(
        "127.0.0.1",
        Host(),
        NETWORK,
        "Address of the public interface; 0.0.0.0 for every network.",
    )
    admin_host: str = setting(
        "127.0.0.1",
        Host(),
        NETWORK,
        "Address of the admin interface.",
    )
    workers: int | str = setting(
        0,
        CountOrAuto(_WORKERS_MAX),
        NETWORK,
        "Processes that answer on the public interface; auto: one for each processor, 0: one process for everything.",
    )
    worker_copy_growth_percent: int = setting(
        50,
        Integer(1, 1000),
        NETWORK,
        "Share of a worker's copy of the databases that may be files of its own before it gets a new one; 256 MiB at "
        "least.",
        needs=needs.WORKERS,
    )
    take_over_port: bool = setting(
        False,
        Boolean(),
        NETWORK,
        "Listen also where another node with workers does, which can then be stopped without an outage.",
        needs=needs.WORKERS,
    )
    shutdown_grace_s: float = setting(
        10.0,
        Seconds(0, 3600),
        NETWORK,
        "How long a stop waits for requests that are being answered.",
    )
    shutdown_timeout_s: float = setting(
        30.0,
        Seconds(1, 3600),
        NETWORK,
        "How long a stop may take, after --shutdown-delay-s; then the stacks of threads and tasks are logged, and the "
        "process exits with code 70. At least 1 s more than --shutdown-grace-s.",
    )
    shutdown_delay_s: float = setting(
        0.0,
        Seconds(0, 3600),
        NETWORK,
        "How long a stopping node goes on serving, with /readyz saying 503.",
    )

    # ---- chain data -----------------------------------------------------------------------

    data_directory: Path | None = setting(
        None,
        FilePath(metavar="DIRECTORY"),
        CHAIN,
        "Where the chain is kept; without it in a temporary directory, removed at exit.",
        commands=(*STORE_COMMANDS, PROOFS),
        environment=("DATA_DIRECTORY",),
    )
    chain_file: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        CHAIN,
        "Chain file to load first. With nothing stored and no source of a chain the sample chain is served.",
    )
    accept_sample_chain: bool = setting(
        False,
        Boolean(),
        CHAIN,
        "Count a node as ready (/readyz) while it serves the sample chain. For demonstrations: without it, no load "
        "balancer sends requests to a node that was started without a source of a chain.",
    )
    release: str | None = setting(
        None,
        Text(metavar="VERSION"),
        CHAIN,
        "Node version that this node goes by (4.3.0), one of the chain's release. Default: the followed node's, else "
        "the stored one.",
    )
    release_record: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        CHAIN,
        "JSON record of a release that is not known here and differs from a known one in values only.",
        commands=STORE_COMMANDS,
    )
    verify: bool = setting(
        True,
        Boolean(),
        CHAIN,
        "Recompute every hash of what is ingested; --no-verify believes the source, but for the state roots.",
        commands=(START, IMPORT),
    )
    world_state_cache_mb: int | None = setting(
        None,
        Integer(1, 1 << 20),
        CHAIN,
        "Memory for the upper levels of the state trees; not set: 256, for a local network 32.",
        commands=(START, IMPORT),
    )
    world_state_checkpoint_history: int = setting(
        0,
        Integer(-1, 1_000_000_000),
        CHAIN,
        "How many checkpoints back the state can be asked for; 0 or less: all. What is not final is kept.",
        commands=(START, IMPORT),
        environment=("WS_NUM_HISTORIC_CHECKPOINTS", "WS_NUM_HISTORIC_BLOCKS"),
    )
    world_state_history_from: str = setting(
        "genesis",
        Choice(("genesis", "sync")),
        CHAIN,
        "Oldest block that the state can be asked for: any, or with `sync` the one to which the first catch-up led: "
        "less time and disk.",
        commands=(START, IMPORT),
    )
    keep_blocks: int = setting(
        0,
        Integer(0, 1_000_000_000),
        CHAIN,
        "Keep bodies and logs of the newest blocks up to the finalized one, so many; 0: all. Older ones are dropped "
        "for good; headers, receipts, messages, contracts and the state stay.",
    )
    tag_filter_mb: int = setting(
        16,
        Integer(1, 1 << 14),
        CHAIN,
        "Memory for the filter of log tags; 1 MB holds half a million tags.",
    )

    # ---- following ------------------------------------------------------------------------

    upstream_url: tuple[str, ...] | None = setting(
        None,
        texts("URL", "http:// or https:// URLs, separated by commas"),
        FOLLOWING,
        "Node to follow: its blocks are verified and served. Of several the first that is healthy is followed; all "
        "must have the same blocks.",
        secret=True,
        whole_release=True,
        untried="untried_upstreams",
    )
    untried_upstreams: bool = setting(
        False,
        Boolean(),
        FOLLOWING,
        "Follow nodes of release 5.x too, and hand transactions to them, though no published node of it was tried.",
        needs=needs.FOLLOWED_NODE,
    )
    genesis: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        FOLLOWING,
        "Chain file whose first two lines are the genesis of an unknown network; only read while nothing is stored.",
        needs=needs.FOLLOWING,
    )
    archiver_polling_interval_ms: int = setting(
        500,
        Integer(1, 3_600_000),
        FOLLOWING,
        "The longest rest between two looks at the followed node.",
        needs=needs.FOLLOWING,
        environment=("ARCHIVER_POLLING_INTERVAL_MS",),
        flags=("--archiver.archiverPollingIntervalMS",),
    )
    upstream_polling_min_ms: int = setting(
        50,
        Integer(1, 3_600_000),
        FOLLOWING,
        "The shortest rest, while blocks come, and as fast as the followed node answers.",
        needs=needs.FOLLOWING,
    )
    allow_list_source: str = setting(
        "upstream",
        Choice(("own", "upstream")),
        FOLLOWING,
        "Whether the followed node's setup allow list is joined with the own one.",
        needs=needs.FOLLOWED_NODE,
    )
    upstream_timeout_s: float = setting(
        15.0,
        Seconds(0.1, 600),
        FOLLOWING,
        "How long a followed node may take for one complete answer.",
        needs=needs.FOLLOWED_NODE,
    )
    upstream_max_response_size: int = setting(
        64 << 20,
        Size(1 << 20, 1 << 30),
        FOLLOWING,
        "Largest answer of a followed node that is read.",
        needs=needs.FOLLOWED_NODE,
    )
    mirror_pending_txs: bool = setting(
        False,
        Boolean(),
        FOLLOWING,
        "Copy the followed node's pending transactions into the own pool.",
        needs=needs.UPSTREAM,
    )
    ready_max_lag_blocks: int = setting(
        16,
        Integer(0, 1_000_000_000),
        FOLLOWING,
        "How many blocks behind the followed node still counts as ready.",
        needs=needs.FOLLOWING,
    )
    rpc_block_wait_ms: int = setting(
        3000,
        Integer(0, 60_000),
        FOLLOWING,
        "How long a question about an unknown block hash waits for that block; 0: not at all.",
        needs=needs.FOLLOWING,
    )

    # ---- transactions ---------------------------------------------------------------------

    tx_public_setup_allow_list_extend: tuple[AllowedElement, ...] | None = setting(
        None,
        ALLOW_LIST,
        TRANSACTIONS,
        "More public calls that a transaction may make before its fee is secured; flags are os, rn, cl=N joined by +.",
        environment=("TX_PUBLIC_SETUP_ALLOWLIST",),
        flags=("--txPublicSetupAllowListExtend",),
    )
    p2p_max_pending_tx_count: int = setting(
        1000,
        Integer(0, 1_000_000),
        TRANSACTIONS,
        "Most pending transactions; when full, a better one replaces the worst. 0: no limit.",
        environment=("P2P_MAX_PENDING_TX_COUNT",),
        flags=("--p2p.maxPendingTxCount",),
    )
    keep_txs: Quantity | None = setting(
        None,
        CountOrSize(),
        TRANSACTIONS,
        "Keep the newest transactions after they are final, to trace them: so many, or so many bytes (20gb); one "
        "takes some 200 KB. Default: none, on a local network 1,000.",
        environment=("P2P_ARCHIVED_TX_LIMIT",),
        flags=("--p2p.archivedTxLimit",),
    )
    p2p_rpc_price_bump_percentage: int = setting(
        10,
        Integer(0, 10_000),
        TRANSACTIONS,
        "How much more priority fee, replaces another transaction; 0: at least 1 unit.",
        environment=("P2P_RPC_PRICE_BUMP_PERCENTAGE",),
        flags=("--p2p.rpcPriceBumpPercentage",),
    )
    p2p_tx_pool_delete_txs_after_reorg: bool = setting(
        False,
        Boolean(),
        TRANSACTIONS,
        "Delete the transactions of undone blocks instead of making them pending again.",
        environment=("P2P_TX_POOL_DELETE_TXS_AFTER_REORG",),
        flags=("--p2p.txPoolDeleteTxsAfterReorg",),
    )
    transactions_disabled: bool = setting(
        False,
        Boolean(),
        TRANSACTIONS,
        "Refuse every transaction.",
        environment=("TRANSACTIONS_DISABLED",),
    )
    vk_tree_root: str | None = setting(
        None,
        Text(metavar="HASH"),
        TRANSACTIONS,
        "Root of the network's verification keys, where the node does not know its release.",
    )
    public_simulator_url: str | None = setting(
        None,
        Text(metavar="URL"),
        TRANSACTIONS,
        "Node that runs node_simulatePublicCalls for this one, with --simulate-public-calls upstream.",
        needs=needs.OTHER_SIMULATOR,
    )
    rpc_simulate_public_max_gas_limit: int = setting(
        130_800_000,
        Integer(1, 1 << 62),
        TRANSACTIONS,
        "Most L2 gas, teardown included, that a simulated transaction may ask for.",
        environment=("RPC_SIMULATE_PUBLIC_MAX_GAS_LIMIT",),
    )
    simulate_public_calls: str = setting(
        "local",
        Choice(("local", "upstream")),
        TRANSACTIONS,
        "Who runs node_simulatePublicCalls: this node, or --public-simulator-url or else the followed node.",
        needs=needs.SIMULATOR,
    )
    rpc_simulate_public_max_debug_log_memory_reads: int = setting(
        125_000,
        Integer(0, 1 << 32),
        TRANSACTIONS,
        "Most memory words that the debug logs of a simulated transaction may read.",
        needs=needs.LOCAL_SIMULATION,
        environment=("RPC_SIMULATE_PUBLIC_MAX_DEBUG_LOG_MEMORY_READS",),
    )
    rpc_simulate_timeout_ms: int = setting(
        5_000,
        Integer(1, 3_600_000),
        TRANSACTIONS,
        "How long one simulation may take, and wait for its turn.",
        needs=needs.LOCAL_SIMULATION,
    )

    # ---- JSON-RPC -------------------------------------------------------------------------

    method_set: str = setting(
        "auto",
        Choice(("auto", "both", "release", "development", "5.x", "6.x")),
        RPC,
        "Generation of methods that is served; auto: that of the chain's release, both sets of 4.x.",
    )
    namespaces: str = setting(
        "both",
        Choice(("both", "node", "aztec")),
        RPC,
        "Names of methods: node_ and nodeAdmin_, or aztec_ and aztecAdmin_ as newer clients call them.",
    )
    api_prefix: str = setting(
        "",
        UrlPath(),
        RPC,
        "Path under which both ports answer beside the root: /api gives POST /api and GET /api/status.",
        environment=("API_PREFIX",),
    )
    rpc_max_batch_size: int = setting(
        100,
        Integer(1, 1_000_000),
        RPC,
        "Most calls in one batch.",
        environment=("RPC_MAX_BATCH_SIZE",),
        flags=("--rpcMaxBatchSize",),
    )
    rpc_max_body_size: int = setting(
        1 << 20,
        Size(1 << 10, 1 << 30),
        RPC,
        "Largest request body, counted after decompression.",
        environment=("RPC_MAX_BODY_SIZE",),
        flags=("--rpcMaxBodySize",),
    )
    rpc_max_response_size: int = setting(
        64 << 20,
        Size(1 << 20, 4 << 30),
        RPC,
        "Largest answer to one HTTP request, all calls of a batch together.",
    )
    rpc_max_tags: int = setting(
        100,
        Integer(1, 100_000),
        RPC,
        "Most tags in one question for logs.",
    )
    archiver_max_logs: int = setting(
        1000,
        Integer(1, 1_000_000),
        RPC,
        "Most logs in the answer to a question for a range of logs.",
        environment=("ARCHIVER_MAX_LOGS",),
        flags=("--archiver.maxLogs",),
    )
    rpc_error_status: str = setting(
        "200",
        Choice(("200", "400")),
        RPC,
        "HTTP status of a JSON-RPC error answer to a single call.",
    )
    absent_results: str = setting(
        "null",
        Choice(("null", "omit")),
        RPC,
        "Member result of an answer that finds or returns nothing: null, as JSON-RPC 2.0 requires, or omit it, as "
        "the published node does.",
    )
    rpc_limits: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        RPC,
        "TOML or JSON file with API keys, budgets, methods, origins and trusted proxies of the public interface, read "
        "again on SIGHUP; preset:public is a budget for each address.",
    )
    public_traces: bool = setting(
        False,
        Boolean(),
        RPC,
        "Answer fastnode_traceTransaction, fastnode_traceCall and fastnode_traceBlock on the public port too, not on "
        "the admin port alone; a local network always does.",
    )
    rpc_max_connections: int = setting(
        16_384,
        Integer(1, 1_000_000),
        RPC,
        "Most connections at a time, on each port.",
    )
    rpc_max_connections_per_address: int = setting(
        256,
        Integer(0, 1_000_000),
        RPC,
        "Most connections at a time of one address or IPv6 /64; 0: no limit. Raise it behind a proxy.",
    )
    rpc_max_event_clients: int = setting(
        10_000,
        Integer(0, 1_000_000),
        RPC,
        "Most connections to GET /events at a time, of those above; 0: none.",
    )
    rpc_max_event_subscriptions: int = setting(
        100_000,
        Integer(1, 10_000_000),
        RPC,
        "Most subscriptions at a time over WebSocket, of all clients; each has 100 at most.",
    )
    webhook_url: tuple[str, ...] | None = setting(
        None,
        texts("URL", "http:// or https:// URLs, separated by commas"),
        RPC,
        "URL that events are sent to by POST; its fragment is the subscription: #blocks, "
        "#publicLogs&contractAddress=0x...",
        secret=True,
    )
    webhook_secret_file: Path | None = setting(
        None,
        FilePath(metavar="FILE"),
        RPC,
        "File with the secret that signs what is sent to --webhook-url (HMAC-SHA256), 16 bytes or more.",
    )
    rpc_max_unsent_size: int = setting(
        512 << 20,
        Size(1 << 20, 1 << 40),
        RPC,
        "Most answers kept for clients that do not read them; those behind longest are cut off.",
    )
    rpc_memory_budget: int | None = setting(
        None,
        Size(32 << 20, 1 << 40),
        RPC,
        "Memory for all requests and answers that are not taken yet; above it 503. Default: a quarter of the "
        "machine's, at most 1 GB.",
    )
    rpc_memory_budget_per_address: int | None = setting(
        None,
        Size(0, 1 << 40),
        RPC,
        "Memory for the requests and unread answers of one address or IPv6 /64; a single one may take more. 0: no "
        "limit. Default: 32 MB more than --rpc-max-response-size. Raise it behind a proxy.",
    )
    rpc_keep_alive_s: float = setting(
        65.0,
        Seconds(1, 86_400),
        RPC,
        "How long an idle connection is kept; longer than a load balancer in front keeps it.",
    )
    rpc_header_timeout_s: float = setting(
        10.0,
        Seconds(0.1, 3600),
        RPC,
        "How long a client may take to send the head of a request.",
    )
    rpc_body_timeout_s: float = setting(
        30.0,
        Seconds(0.1, 3600),
        RPC,
        "How long a client may take to send the body of a request.",
    )
    rpc_write_timeout_s: float = setting(
        60.0,
        Seconds(0.1, 3600),
        RPC,
        "How long a client may leave an answer untouched before it is cut off.",
    )

    # ---- logs -----------------------------------------------------------------------------

    log_level: str = setting(
        "info",
        Levels(
            ("debug", "info", "warning", "error"),
            synonyms=(
                *(("trace", "debug"), ("verbose", "debug"), ("warn", "warning")),
                *(("fatal", "error"), ("silent", "error")),
            ),
        ),
        LOGS,
        "Least important line that is logged. Of levels by module (`info; debug: p2p`) that of all modules counts.",
        commands=STORE_COMMANDS,
        environment=("LOG_LEVEL",),
    )
    log_json: bool = setting(
        False,
        Boolean(),
        LOGS,
        "Log one JSON object per line.",
        commands=STORE_COMMANDS,
        environment=("LOG_JSON",),
    )
    silent: bool = setting(
        False,
        Boolean(),
        LOGS,
        "Log errors only, whatever --log-level is, and print no banner of a local network.",
    )

    @property
    def follows(self) -> bool:
        """True if others say what the chain is: nodes, the bus or L1."""
        return self.upstream_url is not None or self.derives_from_l1 or self.follows_bus

    @property
    def detects_offenses(self) -> bool:
        """True if offenses of validators are looked for: with the sentinel, or from L1 unless keys are switched off."""
        return self.sentinel_enabled or (self.reads_l1 and not self.validator_disabled)

    @property
    def reads_l1(self) -> bool:
        """True if the network's L1 is read; a local network has one of its own."""
        return self.l1_rpc_urls is not None and not self.local_network
