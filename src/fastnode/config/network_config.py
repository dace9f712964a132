"""The network configuration: what the operators of a network give out to everybody who runs a node on it.

    { "registryAddress": "0x...", "l1ChainId": 1, "bootnodes": [], "snapshots": [],        required
      "blobFileStoreUrls": [], "txCollectionFileStoreUrls": [], "blockDurationMs": 1, "nodeVersion": "...",
      "feeAssetHandlerAddress": "0x...", "txPublicSetupAllowListExtend": "..."  }

or an object of such objects by the names of networks.  It gives values to settings that no other layer has given
else: flag, environment and settings file win.  Fields that the node does not use are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import orjson

from fastnode.errors import SettingError, UpstreamError
from fastnode.files import system_reason
from fastnode.protocol.releases import known_network
from fastnode.values.arrays import ArrayOf
from fastnode.values.numbers import Integer
from fastnode.values.refusal import Reject
from fastnode.values.texts import FileOrUrl, Text
from fastnode.values.value_type import ValueType, read_member

__all__ = ["NETWORK_CONFIG_SETTINGS", "read_network_config", "recorded_network"]

#: All networks together are a few kilobytes.
_BYTES_MAX: Final = 1 << 20
_FETCH_TIME_S: Final = 15.0


_REQUIRED: Final = ("bootnodes", "snapshots", "registryAddress", "l1ChainId")
_FIELDS: Final[Mapping[str, ValueType]] = {
    "bootnodes": ArrayOf(Text()),
    "snapshots": ArrayOf(Text()),
    "registryAddress": Text(),
    "l1ChainId": Integer(),
    "feeAssetHandlerAddress": Text(),
    "blobFileStoreUrls": ArrayOf(Text()),
    "txCollectionFileStoreUrls": ArrayOf(Text()),
    "blockDurationMs": Integer(),
    "nodeVersion": Text(),
    "txPublicSetupAllowListExtend": Text(),
}
#: As good as absent.
_EMPTY: Final[tuple[object, ...]] = (None, "", [])

#: The settings that a network configuration can give, by their fields.
NETWORK_CONFIG_SETTINGS: Final[Mapping[str, str]] = {
    "bootnodes": "bootstrap-nodes",
    "snapshots": "snapshots-urls",
    "registryAddress": "registry-address",
    "l1ChainId": "l1-chain-id",
    "blobFileStoreUrls": "blob-file-store-urls",
    "blockDurationMs": "block-duration-ms",
    "feeAssetHandlerAddress": "fee-asset-handler-address",
    "nodeVersion": "network-node-version",
    "txCollectionFileStoreUrls": "tx-collection-file-store-urls",
    "txPublicSetupAllowListExtend": "tx-public-setup-allow-list-extend",
}


def read_network_config(location: str, network: str | None) -> dict[str, Any]:
    """Values by the names of settings, not yet checked for what the settings allow; SettingError says what is wrong.

    ``location`` is a path or a URL.
    """
    shown = FileOrUrl().to_text(location)
    text = _fetch(location, shown) if FileOrUrl.is_url(location) else _read(Path(location))
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SettingError(f"network configuration {shown} is not JSON: {error}") from None
    record = _choose(shown, document, network)
    for field in _REQUIRED:
        if field not in record:
            raise SettingError(f"network configuration {shown}: {field} is missing")
    given = {field: value for field, value in record.items() if field in _FIELDS and value not in _EMPTY}
    for field, value in given.items():
        try:
            read_member(_FIELDS[field], value, field)
        except Reject as error:
            raise SettingError(f"network configuration {shown}: {error.path[1:]} {error.reason}") from None
    return {setting: given[field] for field, setting in NETWORK_CONFIG_SETTINGS.items() if field in given}


def recorded_network(name: str) -> dict[str, Any]:
    """The same for a network that the records of releases know by its name; empty for another one."""
    record = known_network(name) or {}
    return {setting: record[field] for field, setting in NETWORK_CONFIG_SETTINGS.items() if field in record}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingError(f"network configuration {path} cannot be read: {system_reason(path, error)}") from None


def _fetch(url: str, shown: str) -> bytes:
    from fastnode.outgoing.client import decoded
    from fastnode.outgoing.network import ClientLimits, Network
    from fastnode.outgoing.quoting import described

    try:
        with Network() as network:
            limits = ClientLimits(request_time_s=_FETCH_TIME_S, response_bytes_max=_BYTES_MAX)
            answer = network.get(url, limits)
    except UpstreamError as error:
        raise SettingError(f"network configuration {shown} cannot be fetched: {error}") from None
    if not HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        reason = described(answer.status, decoded(answer.body, limits.memory_bytes_max), answer.body, url)
        raise SettingError(f"network configuration {shown} cannot be fetched: {reason}")
    return answer.body


def _choose(path: str, document: object, network: str | None) -> dict[str, Any]:
    """The one network, or the one of the given name."""
    if not isinstance(document, dict):
        raise SettingError(f"network configuration {path}: not an object")
    if "registryAddress" in document or not all(isinstance(value, dict) for value in document.values()):
        return document
    if not document:
        raise SettingError(f"network configuration {path} has no network in it")
    names = ", ".join(sorted(document))
    if network is None:
        raise SettingError(f"network configuration {path}: choose one with --network: {names}")
    if network not in document:
        raise SettingError(f"network configuration {path}: there is no network {network!r} in it, but {names}")
    chosen: dict[str, Any] = document[network]
    return chosen
