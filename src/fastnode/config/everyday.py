"""Names of the settings that people use: the help of a command shows these, and the others on request."""

from __future__ import annotations

from typing import Final

__all__ = ["EVERYDAY", "EVERYDAY_OF_LOCAL_NETWORK"]

EVERYDAY: Final[frozenset[str]] = frozenset(
    (
        "port",
        "host",
        "admin-port",
        "workers",
        "admin-api-key-hash",
        "data-directory",
        "world-state-history-from",
        "network",
        "upstream-url",
        "l1-rpc-urls",
        "l1-consensus-host-urls",
        "snapshots-urls",
        "keep-txs",
        "rpc-limits",
        "p2p-enabled",
        "p2p-port",
        "bootstrap-nodes",
        "sequencer",
        "key-store-directory",
        "local-network",
        "block-time-s",
        "fork-from",
        "metrics-port",
        "log-level",
        "log-json",
    )
)

#: The same of ``fastnode local-network``.
EVERYDAY_OF_LOCAL_NETWORK: Final[frozenset[str]] = frozenset(
    (
        "port",
        "host",
        "admin-port",
        "data-directory",
        "release",
        "mining",
        "block-time-s",
        "slot-duration-s",
        "prefund",
        "seed",
        "state",
        "load-state",
        "dump-state",
        "fork-from",
        "fork-block-number",
        "l1-clock-port",
        "explorer-port",
        "l1-chain-id",
        "silent",
        "log-level",
        "log-json",
    )
)
