"""Configurations of nodes all of whose parts read their keys."""

from __future__ import annotations

from typing import Any

from fastnode.config.config_keys import KEYS
from fastnode.config.configuration import NodeConfiguration
from fastnode.config.settings import Settings

#: With these every part runs that reads keys.
EVERY_PART: dict[str, Any] = {
    "sequencer": True,
    "prover_node": True,
    "p2p_enabled": True,
    "sentinel_enabled": True,
    "l1_rpc_urls": ("http://127.0.0.1:1",),
    "blob_file_store_urls": ("file:///nowhere",),
}


def attach_all(configuration: NodeConfiguration) -> NodeConfiguration:
    """Attach every reader, as the parts of a node do."""
    for reader in dict.fromkeys(reader for key in KEYS for reader in key.readers):
        configuration.attach(reader)
    return configuration


def configured(**settings: Any) -> NodeConfiguration:
    """The configuration of a node with every part, and these settings."""
    return attach_all(NodeConfiguration(Settings(**EVERY_PART | settings)))
