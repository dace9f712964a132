"""The network configuration: what the operators of a network give out to everybody who runs a node on it.

    { "registryAddress": "0x...", "l1ChainId": 1, "bootnodes": [], "snapshots": [],        required
      "blobFileStoreUrls": [], "blockDurationMs": 1, "txPublicSetupAllowListExtend": "..." ...  }

or an object of such objects by the names of networks.  It stands in for settings that are given nowhere
else: flag, environment and settings file win.  Fields that the node has no use for are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import orjson

from fastnode.config.kinds import FileOrUrl
from fastnode.errors import SettingError, UpstreamError

__all__ = ["NETWORK_CONFIG_SETTINGS", "read_network_config"]

#: All networks together are a few kilobytes.
_BYTES_MAX: Final = 1 << 20
_FETCH_TIME_S: Final = 15.0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole_number(value: object) -> bool:
    return type(value) is int


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


_TEXT: Final = (_is_text, "a string")
_WHOLE_NUMBER: Final = (_is_whole_number, "a whole number")
_LIST: Final = (_is_list_of_text, "an array of strings")

_REQUIRED: Final = ("bootnodes", "snapshots", "registryAddress", "l1ChainId")
_SHAPES: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "bootnodes": _LIST,
    "snapshots": _LIST,
    "registryAddress": _TEXT,
    "l1ChainId": _WHOLE_NUMBER,
    "feeAssetHandlerAddress": _TEXT,
    "blobFileStoreUrls": _LIST,
    "txCollectionFileStoreUrls": _LIST,
    "blockDurationMs": _WHOLE_NUMBER,
    "nodeVersion": _TEXT,
    "txPublicSetupAllowListExtend": _TEXT,
}

#: The settings that a network configuration can give, by their fields.
NETWORK_CONFIG_SETTINGS: Final[Mapping[str, str]] = {
    "snapshots": "snapshots-urls",
    "registryAddress": "registry-address",
    "l1ChainId": "l1-chain-id",
    "blobFileStoreUrls": "blob-file-store-urls",
    "blockDurationMs": "block-duration-ms",
    "txPublicSetupAllowListExtend": "tx-public-setup-allow-list-extend",
}


def read_network_config(location: str, network: str | None) -> dict[str, Any]:
    """Values by the names of settings, not yet checked for what the settings allow; SettingError says what is wrong.

    ``location`` is a path or a URL.
    """
    shown = FileOrUrl().show(location)
    text = _fetch(location, shown) if FileOrUrl.is_url(location) else _read(Path(location))
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SettingError(f"network configuration {shown} is not JSON: {error}") from None
    record = _choose(shown, document, network)
    for field in _REQUIRED:
        if field not in record:
            raise SettingError(f"network configuration {shown}: {field} is missing")
    for field, (is_good, shape) in _SHAPES.items():
        if record.get(field) is not None and not is_good(record[field]):
            raise SettingError(f"network configuration {shown}: {field} must be {shape}")
    values = {setting: record.get(field) for field, setting in NETWORK_CONFIG_SETTINGS.items()}
    return {setting: value for setting, value in values.items() if value not in (None, "", [])}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingError(f"network configuration {path} cannot be read: {error.strerror}") from None


def _fetch(url: str, shown: str) -> bytes:
    from fastnode.outgoing.network import ClientLimits, Network

    try:
        with Network() as network:
            answer = network.get(url, ClientLimits(request_time_s=_FETCH_TIME_S, response_bytes_max=_BYTES_MAX))
    except UpstreamError as error:
        raise SettingError(f"network configuration {shown} cannot be fetched: {error}") from None
    if answer.status != HTTPStatus.OK:
        raise SettingError(f"network configuration {shown} cannot be fetched: HTTP status {answer.status}")
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
