"""Optional packages, which keep a small installation small, and the advice when one of them is missing.

Modules that need one of these packages are imported where they are used, never by a plain start.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

__all__ = ["ALSO_IN", "DISTRIBUTIONS", "EXTRAS", "LazyModule", "advice_for"]

#: The extra that installs a package, and the feature that needs it.
EXTRAS: Final[Mapping[str, tuple[str, str]]] = {
    "aiohttp": ("async", "AsyncClient"),
    "cramjam": ("snapshots", "reading and writing stores of blobs"),
    "cryptography": ("p2p", "the peer-to-peer network"),
    "nats": ("bus", "the bus between the nodes of a fleet"),
    "numpy": ("check", "checking the state trees"),
    "obstore": ("snapshots", "reading and writing snapshots and stores of blobs"),
    "opentelemetry": ("otlp", "sending traces and metrics to a collector"),
    "psycopg": ("ha", "the database of redundant signers"),
    "rich": ("tty", "colours and progress bars"),
    "zstandard": ("zstd", "answering in zstd"),
}

#: What a package is installed as, where that is not what it is imported as.
DISTRIBUTIONS: Final[Mapping[str, str]] = {"nats": "nats-py", "opentelemetry": "opentelemetry-exporter-otlp-proto-http"}
#: Other extras that bring a package too.
ALSO_IN: Final[Mapping[str, frozenset[str]]] = {"cramjam": frozenset({"p2p"})}

_DISTRIBUTION: Final = "aztec-fastnode"


def advice_for(error: BaseException) -> str | None:
    """One line for a package of an extra that is not installed; None for every other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    if package not in EXTRAS:
        return None
    extra, purpose = EXTRAS[package]
    name = DISTRIBUTIONS.get(package, package)
    return f"{purpose} takes the package {name}, which is not installed: pip install '{_DISTRIBUTION}[{extra}]'"


class LazyModule:
    """A module that is imported when something in it is needed first; ModuleNotFoundError then, if it is missing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
