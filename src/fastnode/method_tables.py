"""Which methods each port serves, and what they need of the node."""

from __future__ import annotations

from fastnode.config.settings import Settings
from fastnode.logs.known_tags import KnownTags
from fastnode.rpc import state_methods
from fastnode.rpc.chain_methods import methods as chain_methods
from fastnode.rpc.log_methods import methods as log_methods
from fastnode.rpc.methods import Method

__all__ = ["admin_methods", "public_methods"]


def public_methods(settings: Settings, *, known_tags: KnownTags) -> list[Method]:
    """Every method of the public port, of both method sets."""
    return [
        *chain_methods(),
        *state_methods.METHODS,
        *log_methods(known_tags, tags_max=settings.rpc_max_tags, logs_max=settings.archiver_max_logs),
    ]


def admin_methods() -> list[Method]:
    """Every method of the admin port."""
    return []
