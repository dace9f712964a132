"""URLs of other servers: which are accepted, and how one is shown where people can read it."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from fastnode.errors import SettingError

__all__ = ["check_url", "host_of", "is_http_url", "without_secrets"]

_SCHEMES = ("http", "https")


def is_http_url(text: str) -> bool:
    """True if ``text`` is an http:// or https:// URL with a host and, if it has one, a possible port."""
    try:
        parts = urlsplit(text)
        return parts.scheme in _SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def check_url(text: str, setting: str) -> str:
    """``text``, if it is an http:// or https:// URL; SettingError, which names the setting, otherwise."""
    meant = _meant_by(text)
    if meant is not None:
        raise SettingError(f"{setting}: a URL begins with http:// or https://; is {without_secrets(meant)} meant?")
    if _has_impossible_port(text):
        raise SettingError(f"{setting}: the port of a URL is a whole number from 1 to 65535")
    if not is_http_url(text):
        raise SettingError(f"{setting} {without_secrets(text)!r} is no http:// or https:// URL")
    return text


def _meant_by(text: str) -> str | None:
    """A URL for what has no scheme, or one slash or none behind it; None for what has a scheme, or makes no URL."""
    if "://" in text:
        return None
    scheme, _, rest = text.partition(":")
    has_scheme = scheme in _SCHEMES and not rest.isdigit()
    url = f"{scheme}://{rest.lstrip('/')}" if has_scheme else f"http://{text}"
    return url if is_http_url(url) else None


def _has_impossible_port(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    try:
        return parts.port == 0
    except ValueError:
        return True


def host_of(url: str) -> str:
    """The host of a URL, in lower case; empty if there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def without_secrets(url: str) -> str:
    """Scheme, host and port.  Providers put keys into the user part, the path and the query."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(not a URL)"
    path = parts.path if len(parts.path) <= 1 else "/..."
    return urlunsplit((parts.scheme, host + port, path.rstrip("/"), "", ""))
