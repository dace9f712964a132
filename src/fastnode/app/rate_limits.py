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


def limit_clients(public: RpcServer, file: Path, make_bucket: MakeBucket | None = None) -> None:
    """Take over the rate limits in ``file``; SettingError, and nothing changed, when they make no sense.

    ``make_bucket``: where the budgets are, if not in this process.
    """
    names = frozenset(method.name for method in public.engine.table) | {DISCOVER}
    rules = read_rate_limit_rules(file, names)
    limits = RateLimits(rules) if make_bucket is None else RateLimits(rules, make_bucket=make_bucket)
    public.set_rate_limits(limits)
    logger.info("limits of clients", extra=log_facts(file=file, keys=len(rules.keys)))


def reload_limits(public: RpcServer, file: Path | None, make_bucket: MakeBucket | None = None) -> None:
    """Read the limits of clients again; if anything is wrong with them, those from before stay."""
    if file is None:
        return
    try:
        limit_clients(public, file, make_bucket)
    except SettingError as error:
        logger.error("the limits of clients stay as they were", extra=log_facts(reason=error))
