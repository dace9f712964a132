"""What another server says when it refuses, quoted for the operator: without the address and without keys."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["FORBIDDEN", "described", "is_same_reason", "message_in", "quoted", "without_secrets_of"]

#: Bytes of an answer that are shown when it cannot be read.
QUOTED_BYTES: Final = 200
_MESSAGE_MAX: Final = 2000
#: Parts of a path this long may be keys.
_KEY_LENGTH_MIN: Final = 8
#: Statuses of a server that does not accept who asks.
FORBIDDEN: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN})

#: What differs between two refusals for the same reason: numbers, hashes, ids of requests.
_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F-]{16,}|\d+")


def is_same_reason(one: str | None, other: str | None) -> bool:
    """True for two reasons that differ in their numbers at most."""
    if one is None or other is None:
        return one is other
    return _NUMBER.sub("#", one) == _NUMBER.sub("#", other)


def described(status: int, document: Any, body: bytes, url: str, secrets: Iterable[str] = ()) -> str:
    """``HTTP status 401: invalid API key``: with the server's own message, or the beginning of its answer."""
    message = message_in(document)
    text = without_secrets_of(url, message[:_MESSAGE_MAX], secrets) if message else quoted(body, url, secrets)
    return f"HTTP status {int(status)}" + (f": {text}" if text else "")


def message_in(document: Any) -> str | None:
    """The message of an error as JSON-RPC servers, consensus clients and gateways give it; None if there is none."""
    if not isinstance(document, dict):
        return None
    error = document.get("error")
    for message in (error.get("message") if isinstance(error, dict) else error, document.get("message")):
        if isinstance(message, str) and message:
            return message
    return None


def quoted(body: bytes, url: str, secrets: Iterable[str] = ()) -> str:
    """The beginning of an answer, as a Python literal; empty for an empty one."""
    longest = max(map(len, (url, *secrets)))
    text = without_secrets_of(url, repr(body[: QUOTED_BYTES + longest]), secrets) if body else ""
    return text[: QUOTED_BYTES + 3]


def without_secrets_of(url: str, text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` without the host of a URL and without what may be a key in it: clients may see the text."""
    try:
        parts = urlsplit(url)
        host, pairs = parts.hostname or "", parse_qsl(parts.query)
        names = [parts.username or "", parts.password or ""]
    except ValueError:
        return text
    if host:
        text = re.sub(re.escape(host) + r"(:[0-9]+)?", "(its address)", text, flags=re.IGNORECASE)
    segments = [segment for segment in parts.path.split("/") if len(segment) >= _KEY_LENGTH_MIN]
    values = [value for _, value in pairs if len(value) >= _KEY_LENGTH_MIN // 2]
    for secret in (*segments, *values, *filter(None, names), *filter(None, secrets)):
        for form in {secret, unquote(secret)}:
            text = text.replace(form, "(secret)")
    return text
