"""Asking a running node, for commands that ask once and end."""

from __future__ import annotations

import json
import os
from typing import Any, Final
from urllib.parse import urlsplit

from fastnode.errors import StartError, UpstreamFault, UpstreamUnavailable
from fastnode.values.urls import is_http_url

__all__ = [
    "ADMIN_KEY_ENVIRONMENT",
    "ADMIN_URL_ENVIRONMENT",
    "DEFAULT_ADMIN_URL",
    "DEFAULT_URL",
    "KEY_ENVIRONMENT",
    "URL_ENVIRONMENT",
    "call",
    "get_json",
    "reason_of",
    "url_of",
]

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_ADMIN_URL = "http://127.0.0.1:8880"
URL_ENVIRONMENT = "FASTNODE_URL"
ADMIN_URL_ENVIRONMENT = "FASTNODE_ADMIN_URL"

#: A key on the command line is seen by everybody who lists the processes; in the environment it is not.  Each of these
#: goes to its own port only: the key of the admin port must not reach the operator of the public one.
KEY_ENVIRONMENT = "FASTNODE_API_KEY"
ADMIN_KEY_ENVIRONMENT = "FASTNODE_ADMIN_API_KEY"

#: More than any node answers with its default limits.
_ANSWER_BYTES_MAX: Final = 1 << 30


def url_of(given: str | None, *, admin: bool = False) -> str:
    """URL of the node: --url, the environment's URL, or where a node with this environment listens.

    A scheme is added where there is none.
    """
    if admin:
        url = given or os.environ.get(ADMIN_URL_ENVIRONMENT) or _url_of_node("ADMIN_", DEFAULT_ADMIN_URL)
    else:
        url = given or os.environ.get(URL_ENVIRONMENT) or _url_of_node("", DEFAULT_URL)
    return url if "://" in url else f"http://{url}"


def _url_of_node(port_kind: str, default: str) -> str:
    """From ``SVC_HOST`` and ``SVC_PORT``: a probe in the container of a node has the node's environment."""
    host = os.environ.get(f"SVC_{port_kind}HOST", "").strip("[]")
    port = os.environ.get(f"SVC_{port_kind}PORT", "")
    usual_host, _, usual_port = default.removeprefix("http://").rpartition(":")
    host = {"": usual_host, "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    if not port.isdecimal() or port == "0":  # not set, any free one, or what Kubernetes makes for a service
        port = usual_port
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def call(url: str, method: str, parameters: list[Any], headers: dict[str, str], timeout: float) -> dict[str, Any]:
    """The answer to one call, error or result; StartError when there is none."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).encode()
    content, status = _request(url, body, {"Content-Type": "application/json", **headers}, timeout)
    answer = _parsed(content)
    if not isinstance(answer, dict) or answer.get("jsonrpc") != "2.0":
        raise StartError(f"{url} is no JSON-RPC server: it answered HTTP {status}")
    return answer


def get_json(url: str, timeout: float) -> tuple[Any, int]:
    """Answer to GET, None if it is no JSON, and its status; StartError when there is no answer."""
    content, status = _request(url, None, {"Accept": "application/json"}, timeout)
    return _parsed(content), status


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def _request(url: str, body: bytes | None, headers: dict[str, str], timeout: float) -> tuple[bytes, int]:
    """Content and status of what is answered to GET, or to POST if there is a body."""
    from fastnode.outgoing.network import ClientLimits, Network

    if not is_http_url(url):
        raise StartError(f"{url} is not an http or https address")
    limits = ClientLimits(request_time_s=timeout, connect_time_s=timeout, response_bytes_max=_ANSWER_BYTES_MAX)
    try:
        with Network() as network:
            answer = (
                network.get(url, limits, headers, redirects_max=0)
                if body is None
                else network.post(url, body, limits, headers)
            )
    except UpstreamUnavailable as error:
        port = "" if urlsplit(url).port else "; without a port that is the port of web servers, a node has another one"
        raise StartError(f"no answer from {url}: {error}; is the node running?{port}") from error
    except UpstreamFault as error:
        raise StartError(f"no answer from {url}: {error}") from error
    return answer.body, answer.status


def reason_of(error: object) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
