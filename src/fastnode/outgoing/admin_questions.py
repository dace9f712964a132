"""Questions to the admin port of another node, for which this node has the key."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from fastnode.errors import Refused, SettingError, UpstreamError, UpstreamRejection
from fastnode.log import log_facts
from fastnode.outgoing.client import ClientLimits, RpcClient
from fastnode.outgoing.network import Network
from fastnode.values.urls import check_url

__all__ = ["AdminQuestions", "check_key"]

logger = logging.getLogger(__name__)

_LIMITS: Final = ClientLimits(request_time_s=10.0, response_bytes_max=16 << 20)
_KEY_HEADER: Final = "x-api-key"


def check_key(key: str) -> None:
    """SettingError for a key that cannot be sent in a header; it is not repeated."""
    if not (key.isascii() and key.isprintable()):
        raise SettingError("--upstream-admin-api-key is no key")


class AdminQuestions:
    """Usable from worker threads."""

    def __init__(self, url: str, key: str | None) -> None:
        """SettingError for an invalid URL, and for a key that cannot be sent in a header."""
        check_url(url, "--upstream-admin-url")
        if key is not None:
            check_key(key)
        self._network = Network()
        self._client = RpcClient(url, self._network, _LIMITS, {} if key is None else {_KEY_HEADER: key})

    def close(self) -> None:
        """May be called more than once."""
        self._network.close()

    def ask(self, method: str, parameters: Sequence[Any]) -> Any:
        """The result; Refused with the other node's reason, or because it does not answer."""
        try:
            return self._client.ask([(method, parameters)]).results()[0]
        except UpstreamRejection as rejection:
            raise Refused(rejection.message, data={"code": "UPSTREAM_REJECTED"}) from rejection
        except UpstreamError as error:
            logger.info("the other admin port does not answer", extra=log_facts(method=method, reason=str(error)))
            raise Refused(
                "The other node's admin port does not answer; try again later", data={"code": "NO_UPSTREAM"}
            ) from error
