"""Names of the settings that people use: the help of ``fastnode start`` shows these, and the others on request."""

from __future__ import annotations

from typing import Final

__all__ = ["EVERYDAY"]

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
