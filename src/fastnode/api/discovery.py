"""The method that answers the OpenRPC document of the other methods.

The document is made when it is asked for the first time, in a thread: a start need not wait for the schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

import orjson

from fastnode.jsonrpc.methods import Context, Method, MethodSet, common
from fastnode.jsonrpc.rate_limits import Client

__all__ = ["DISCOVER", "DOCUMENT_PATH", "PUBLIC_URL", "discovery"]

DISCOVER: Final = "rpc.discover"
#: Address of a node with default settings.
PUBLIC_URL: Final = "http://127.0.0.1:8080"
#: Path under which GET finds the same document.
DOCUMENT_PATH: Final = b"/openrpc.json"
#: Documents that are kept; clients that may call the same methods share one.
DOCUMENTS_MAX: Final = 16


def discovery(
    methods: Iterable[Method], url: Callable[[], str] = lambda: PUBLIC_URL, *, omits_absent: bool = False
) -> Method:
    """The method that answers the document of ``methods``, without those that the client may not call; ``url`` says
    where they are asked for, once that is known.  ``omits_absent``: as in ``openrpc.document``."""
    described = list(methods)

    @lru_cache(DOCUMENTS_MAX)
    def rendered(method_set: MethodSet, hidden: frozenset[str]) -> bytes:
        from fastnode.api.openrpc import document

        offered = [method for method in described if method.name not in hidden]
        return orjson.dumps(document(offered, method_set, url=url(), omits_absent=omits_absent))

    def discover(context: Context) -> bytes:
        return rendered(context.method_set, _hidden_from(context.client, described))

    return Method(
        name=DISCOVER,
        summary="This interface as an OpenRPC document.",
        handler=discover,
        in_thread=True,
        **common("any"),
    )


def _hidden_from(client: Client | None, methods: Iterable[Method]) -> frozenset[str]:
    """Names of methods that a client may not call."""
    if client is None:
        return frozenset()
    return frozenset(method.name for method in methods if not client.may_call(method.name))
