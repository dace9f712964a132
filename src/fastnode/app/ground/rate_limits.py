"""Limits of clients: read at the start, and again when a signal asks for it."""

from __future__ import annotations

import logging
from pathlib import Path

from fastnode.api.discovery import DISCOVER
from fastnode.errors import SettingError
from fastnode.jsonrpc.rate_limit_rules import read_rate_limit_rules
from fastnode.jsonrpc.rate_limits import MakeBucket, RateLimits
from fastnode.log import log_facts
from fastnode.serving.server import RpcServer

__all__ = ["limit_clients", "reload_limits"]

logger = logging.getLogger("fastnode.app")


def limit_clients(
    public: RpcServer, file: Path, make_bucket: MakeBucket | None = None, *, are_shared: bool = False
) -> None:
    """Take over the rate limits in ``file``; SettingError, and nothing changed, when they make no sense.

    ``make_bucket``: where the budgets are, if not in this process.  ``are_shared``: whether they count over a fleet.
    """
    names = frozenset(method.name for method in public.engine.table) | {DISCOVER}
    rules = read_rate_limit_rules(file, names)
    if make_bucket is None:
        limits = RateLimits(rules, are_shared=are_shared)
    else:
        limits = RateLimits(rules, make_bucket=make_bucket)
    public.set_rate_limits(limits)
    logger.info("limits of clients", extra=log_facts(file=file, keys=len(rules.keys)))


def reload_limits(
    public: RpcServer, file: Path | None, make_bucket: MakeBucket | None = None, *, are_shared: bool = False
) -> None:
    """Read the limits of clients again; if anything is wrong with them, those from before stay."""
    if file is None:
        return
    try:
        limit_clients(public, file, make_bucket, are_shared=are_shared)
    except SettingError as error:
        logger.error("the limits of clients stay as they were", extra=log_facts(reason=error))
