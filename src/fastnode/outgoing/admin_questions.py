"""Questions to the admin port of another node, whose operator has given us the key."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from fastnode.errors import ServerError, SettingError, UpstreamError, UpstreamRejection
from fastnode.log import fields
from fastnode.outgoing.client import ClientLimits, RpcClient
from fastnode.outgoing.network import NetworkThread

__all__ = ["AdminQuestions"]

logger = logging.getLogger(__name__)

_REQUEST_TIME_S: Final = 10.0
_RESPONSE_BYTES_MAX: Final = 16 << 20
_KEY_HEADER: Final = "x-api-key"


class AdminQuestions:
    """Usable from worker threads.  SettingError for a URL that is none."""

    def __init__(self, url: str, key: str | None) -> None:
        _require_url(url)
        if key is not None and not (key.isascii() and key.isprintable()):
            raise SettingError("--upstream-admin-api-key is no key")  # it is not repeated
        self._url = url
        self._headers = {} if key is None else {_KEY_HEADER: key}
        self._network: NetworkThread | None = None
        self._client: RpcClient | None = None

    def start(self) -> None:
        """Once."""
        limits = ClientLimits(request_time_s=_REQUEST_TIME_S, response_bytes_max=_RESPONSE_BYTES_MAX)
        self._network = NetworkThread()
        self._network.start()
        self._client = RpcClient(self._url, self._network, limits, self._headers)

    def close(self) -> None:
        """May be called more than once."""
        if self._network is not None:
            self._network.close()

    def ask(self, method: str, parameters: Sequence[Any]) -> Any:
        """The result; ServerError with the other node's reason, or that it does not answer."""
        assert self._client is not None
        try:
            return self._client.ask([(method, parameters)]).results()[0]
        except UpstreamRejection as rejection:
            raise ServerError(rejection.message, data={"code": "UPSTREAM_REJECTED"}) from rejection
        except UpstreamError as error:
            logger.info("the other admin port does not answer", extra=fields(method=method, reason=str(error)))
            raise ServerError(
                "The other node's admin port does not answer; try again later", data={"code": "NO_UPSTREAM"}
            ) from error


def _require_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good:
        raise SettingError("--upstream-admin-url is no http:// or https:// URL")  # it may hold a password
