"""Advice for words of the command line that other programs understand and this one does not.

Each text ends a message: what to type here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import click

__all__ = ["advice_for_command", "advice_for_extra_word", "advice_for_option", "similar_options"]

_START: Final = "fastnode start --node follows a chain, fastnode local-network makes one"
_NO_KEYS: Final = "a node has no private keys of accounts: wallets do that with its URL"

#: Commands of other nodes and of service managers.
_COMMANDS: Final = {
    "run": _START,
    "node": _START,
    "sync": _START,
    "sandbox": "use fastnode local-network",
    "anvil": "use fastnode local-network",
    "localnet": "use fastnode local-network",
    "stop": "a node stops with Ctrl-C in its terminal, or with SIGTERM (kill PID); the service manager stops a service",
    "restart": "stop the node (Ctrl-C or SIGTERM) and run fastnode start again",
    "init": "nothing needs to be set up: fastnode start --node --data-directory DIRECTORY makes the directory",
    "logs": "the log is written to standard error of fastnode start; with systemd: journalctl -u fastnode",
    "log": "the log is written to standard error of fastnode start; with systemd: journalctl -u fastnode",
    "attach": "call a running node with fastnode rpc METHOD",
    "console": "call a running node with fastnode rpc METHOD",
    "block": "use fastnode rpc getBlock NUMBER",
    "tx": "use fastnode rpc getTxReceipt HASH, or fastnode trace HASH",
    "account": _NO_KEYS,
    "accounts": _NO_KEYS,
    "deploy": _NO_KEYS,
    "send": _NO_KEYS,
    "restore": "use fastnode snapshot restore LOCATION --data-directory DIRECTORY",
    "backup": "use fastnode snapshot create LOCATION --data-directory DIRECTORY",
    "help": "use fastnode --help",
    "version": "use fastnode --version",
}

_URL_OF_NODE: Final = "a running node is named by its URL: --url http://HOST:PORT"
#: Options of other programs, for commands that call a running node.
_OPTIONS_OF_CALLS: Final = dict.fromkeys(
    ("--host", "--port", "--admin-port", "--rpc-url", "--node-url", "--endpoint", "--node", "-u", "-r", "-p"),
    _URL_OF_NODE,
)
_FUNDS: Final = "a local network has three deployed accounts; give others fee juice with --prefund ADDRESS[:AMOUNT]"
#: Options of other nodes, for commands that run one.
_OPTIONS_OF_NODES: Final = {
    "--accounts": _FUNDS,
    "--balance": _FUNDS,
    "--mnemonic": _FUNDS,
    "--datadir": "use --data-directory DIRECTORY",
    "--data-dir": "use --data-directory DIRECTORY",
    "--rpc-port": "use --port PORT",
    "--http-port": "use --port PORT",
    "--http.port": "use --port PORT",
    "--http.addr": "use --host ADDRESS",
    "--ws-port": "WebSockets are served at /events of --port",
    "--http": "JSON-RPC over HTTP is always served, at --host and --port",
    "--verbosity": "use --log-level debug, info, warning or error",
    "--verbose": "use --log-level debug",
    "-v": "use --log-level debug",
    "--quiet": "use --log-level error",
    "--rpc-url": "use --upstream-url URL for a node to follow, --l1-rpc-urls URL for L1",
    "--bootnodes": "use --bootstrap-nodes RECORD",
}
#: How alike, as difflib counts it, an option has to be that is suggested.
_LIKENESS_MIN: Final = 0.75

_URL_LIKE: Final = re.compile(r"https?://\S+|[\w.-]+:[0-9]{2,5}(/\S*)?", re.ASCII)


def advice_for_command(name: str) -> str | None:
    """Advice for a command that fastnode does not have."""
    return _COMMANDS.get(name.lower())


def advice_for_option(name: str, context: click.Context | None) -> str | None:
    """Advice for an option that the command of ``context`` does not have."""
    known = _options(context)
    if "--upstream-url" in known:
        return _OPTIONS_OF_NODES.get(name)
    return _OPTIONS_OF_CALLS.get(name) if "--url" in known else None


def similar_options(name: str, possible: Sequence[str]) -> list[str]:
    """Those of the ``possible`` names that ``name`` may stand for: it begins alike, is a part, or nearly the same."""
    import difflib

    bare = name.lstrip("-")
    alike = set(difflib.get_close_matches(name, possible, cutoff=_LIKENESS_MIN))
    return sorted(each for each in possible if each in alike or bare in each)


def advice_for_extra_word(word: str, context: click.Context | None) -> str:
    """Advice for an argument too many; empty if there is none."""
    known = _options(context)
    if "--url" in known and _URL_LIKE.fullmatch(word):
        return f"; {_URL_OF_NODE}"
    if "--data-directory" in known:
        return "; a data directory is named with --data-directory DIRECTORY"
    return ""


def _options(context: click.Context | None) -> set[str]:
    if context is None:
        return set()
    return {name for option in context.command.params if isinstance(option, click.Option) for name in option.opts}
