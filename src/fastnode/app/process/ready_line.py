"""One line of JSON that says where a local network is, for the program that started it."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import orjson

from fastnode.protocol.fields import hex_text

if TYPE_CHECKING:
    from fastnode.app.process.node import Node

__all__ = ["announce", "ready_line"]

logger = logging.getLogger("fastnode.app")


def ready_line(node: Node) -> dict[str, Any]:
    """URLs of a node that serves, its process id, and accounts and contracts that exist from the beginning."""
    settings = node.settings
    line: dict[str, Any] = {
        "url": node.public.client_url + settings.api_prefix,
        "adminUrl": node.admin.client_url,
        "pid": os.getpid(),
    }
    if node.explorer is not None:
        line["explorerUrl"] = node.explorer.url
    if node.l1_clock is not None:
        line["l1ClockUrl"] = node.l1_clock.url
    if settings.local_network and settings.test_accounts and _has_accounts(node):
        from fastnode.local_network.accounts import BANANA_COIN, BANANA_FPC, TEST_ACCOUNTS
        from fastnode.sources.genesis_funds import usual_accounts

        usual = usual_accounts(settings.release)
        line["accounts"] = [
            {"address": hex_text(address), "secret": hex_text(account.secret)}
            for address, account in zip(usual.test_accounts, TEST_ACCOUNTS, strict=True)
        ]
        line["contracts"] = {
            "bananaCoin": hex_text(BANANA_COIN),
            "bananaFPC": hex_text(BANANA_FPC),
            "sponsoredFPC": hex_text(usual.sponsored_fpc),
        }
    return line


def _has_accounts(node: Node) -> bool:
    from fastnode.local_network.accounts import has_accounts

    view = node.core.views.newest
    return view is not None and has_accounts(view.chain.chain.release)


def _has_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def announce(node: Node) -> None:
    """Write the line to where the settings ask for it, and a banner to a terminal; a closed reader is not an error."""
    settings = node.settings
    if settings.local_network and not (settings.print_json or settings.silent) and _has_terminal():
        from fastnode.app.process.banner import banner_lines

        print("\n".join(banner_lines(node)), flush=True)
    if not settings.print_json and settings.ready_fd is None:
        return
    text = orjson.dumps(ready_line(node)) + b"\n"
    if settings.print_json:
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
    if settings.ready_fd is not None:
        try:
            with os.fdopen(settings.ready_fd, "wb") as file:
                file.write(text)
        except OSError as error:
            logger.warning("--ready-fd %d: %s", settings.ready_fd, error.strerror)
