"""Optional packages, which keep a small installation small, and the advice when one of them is missing.

Modules that need one of these packages are imported where they are used, never by a plain start.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

__all__ = ["ALSO_IN", "DISTRIBUTIONS", "EXTRAS", "LazyModule", "advice_for", "advice_if_missing"]

#: The extra that installs a package, and the feature that needs it.
EXTRAS: Final[Mapping[str, tuple[str, str]]] = {
    "aiohttp": ("async", "AsyncClient"),
    "cramjam": ("snapshots", "reading and writing stores of blobs"),
    "cryptography": ("p2p", "the peer-to-peer network"),
    "nats": ("bus", "the bus between the nodes of a fleet"),
    "numpy": ("check", "checking the state trees"),
    "obstore": ("snapshots", "reading and writing snapshots and stores of blobs"),
    "opentelemetry": ("otlp", "sending traces and metrics to a collector"),
    "pyarrow": ("parquet", "the export of Parquet files"),
    "psycopg": ("ha", "the database of redundant signers"),
    "rich": ("tty", "colours and progress bars"),
    "zstandard": ("zstd", "answering in zstd"),
}

#: Name under which a package is installed, where that is not the name it is imported by.
DISTRIBUTIONS: Final[Mapping[str, str]] = {"nats": "nats-py", "opentelemetry": "opentelemetry-exporter-otlp-proto-http"}
#: Other extras that bring a package too.
ALSO_IN: Final[Mapping[str, frozenset[str]]] = {"cramjam": frozenset({"p2p"}), "numpy": frozenset({"parquet"})}

#: Part that the extra brings of a package that several distributions share.
_PROBES: Final[Mapping[str, str]] = {"opentelemetry": "opentelemetry.exporter.otlp"}

_DISTRIBUTION: Final = "aztec-fastnode"


def advice_for(error: BaseException) -> str | None:
    """One line for a package of an extra that is not installed; None for every other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    package = error.name.partition(".")[0]
    return _advice(package) if package in EXTRAS else None


def advice_if_missing(package: str) -> str | None:
    """The same before it is imported; None if it is there."""
    try:
        is_there = find_spec(_PROBES.get(package, package)) is not None
    except ModuleNotFoundError:
        is_there = False
    return None if is_there else _advice(package)


def _advice(package: str) -> str:
    extra, purpose = EXTRAS[package]
    name = DISTRIBUTIONS.get(package, package)
    return f"{purpose} takes the package {name}, which is not installed: {_command(extra, name)}"


def _command(extra: str, name: str) -> str:
    """Command that installs an extra beside this copy: its packages themselves, as fastnode may be on no index."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        wanted = [text.partition(";")[0].strip() for text in requires(_DISTRIBUTION) or () if _is_of(text, extra)]
    except PackageNotFoundError:  # a source folder on the path
        wanted = []
    packages = " ".join(f"'{text}'" for text in wanted or [name])
    if find_spec("pip") is None:
        return f"uv pip install --python {sys.executable} {packages}"
    return f"{sys.executable} -P -m pip install {packages}"


def _is_of(requirement: str, extra: str) -> bool:
    _, _, marker = requirement.partition(";")
    return marker.replace(" ", "").replace("'", '"') == f'extra=="{extra}"'


class LazyModule:
    """A module that is imported when something in it is needed first; ModuleNotFoundError then, if it is missing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
