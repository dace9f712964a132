"""Texts: any, paths, URLs, hex digits."""

from __future__ import annotations

import re
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit, urlunsplit

from fastnode.records import dataclass
from fastnode.values.refusal import Reject
from fastnode.values.schemas import Schema
from fastnode.values.urls import without_secrets
from fastnode.values.value_type import ValueType

__all__ = ["ETH_ADDRESS", "FileOrUrl", "FilePath", "HexText", "Host", "Text", "UrlPath", "refuse_url"]


class _TextType(ValueType):
    """A type whose JSON form is a string: the same text."""

    __slots__ = ()

    def from_json(self, value: object) -> Any:
        if isinstance(value, str):
            return self.from_text(value)
        raise self.refuse(value)

    def to_json(self, value: Any) -> str:
        return str(value)

    def schema(self) -> Schema:
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True)
class Text(_TextType):
    """Text that is not empty and has no NUL, of at most ``length_max`` characters if that is given."""

    is_unset_by_empty_text: ClassVar[bool] = True

    length_max: int | None = None
    name: str = field(default="string", kw_only=True)
    metavar: str = field(default="TEXT", kw_only=True)
    #: Description of allowed values, where they are checked later.
    meaning: str = field(default="", kw_only=True)

    @property
    def expects(self) -> str:
        if self.length_max is not None:
            return f"a string of 1 to {self.length_max} characters"
        return self.meaning or "text that is not empty"

    def from_text(self, text: str) -> str:
        if self.length_max is not None and len(text) > self.length_max:
            raise Reject(f"must be {self.expects}, got {len(text)}")
        if not text or "\0" in text:
            raise self.refuse_text(text)
        return text

    def schema(self) -> Schema:
        limit = {} if self.length_max is None else {"maxLength": self.length_max}
        return {"type": "string", "minLength": 1, **limit}

    def schema_shown(self) -> Schema:
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class HexText(_TextType):
    """``byte_count`` bytes as hex digits, ``0x`` optional.  Gives ``0x`` and lower-case digits."""

    byte_count: int
    name: str = field(default="string", kw_only=True)
    metavar: str = field(default="ADDRESS", kw_only=True)
    #: Name of the digits, in front of their number.
    meaning: str = field(default="", kw_only=True)

    @property
    def expects(self) -> str:
        digits = f"0x and {2 * self.byte_count} hex digits"
        return f"{self.meaning} ({digits})" if self.meaning else digits

    def from_text(self, text: str) -> str:
        match = re.fullmatch(rf"(?:0x)?([0-9a-fA-F]{{{2 * self.byte_count}}})", text, re.ASCII)
        if match is None:
            raise self.refuse_text(text)
        return "0x" + match[1].lower()

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^(0x)?[0-9a-fA-F]{{{2 * self.byte_count}}}$"}

    def schema_shown(self) -> Schema:
        return {"type": "string", "pattern": f"^0x[0-9a-f]{{{2 * self.byte_count}}}$"}


#: An address on L1.
ETH_ADDRESS: Final = HexText(20, name="EthAddress", meaning="an L1 address")


@dataclass(frozen=True, slots=True)
class Host(_TextType):
    """A name or an address; an IPv6 address may stand in brackets, as in URLs."""

    metavar: str = "ADDRESS"
    expects: str = "a host name or an address, without http:// and without a port"

    def from_text(self, text: str) -> str:
        if text == "*":
            raise Reject("'*' is not an address: 0.0.0.0 listens on every network", is_specific=True)
        host = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        if not host or any(character.isspace() or character in "/[]@" for character in host) or host.count(":") == 1:
            raise self.refuse_text(text)
        return host


_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://", re.ASCII)


def refuse_url(text: str) -> None:
    """Reject a URL where a path of this machine is expected, which would be read as the path of a file."""
    if _URL.match(text) is None:
        return
    path = text.removeprefix("file://") if text.startswith("file:///") else None
    advice = "nothing is downloaded, give the path of a copy" if path is None else f"write the path alone: {path}"
    raise Reject(f"expected a path on this machine, got the URL {without_secrets(text)}: {advice}", is_specific=True)


@dataclass(frozen=True, slots=True)
class FilePath(_TextType):
    """A path; ``~`` is expanded, nothing is looked up yet.  Gives a ``Path``."""

    is_path: ClassVar[bool] = True
    is_unset_by_empty_text: ClassVar[bool] = True

    metavar: str = "PATH"
    expects: str = "a path"

    def from_text(self, text: str) -> Path:
        if not text or "\0" in text:
            raise self.refuse_text(text)
        refuse_url(text)
        try:
            return Path(text).expanduser()
        except RuntimeError:  # "~name" of a user who does not exist
            raise self.refuse_text(text) from None


@dataclass(frozen=True, slots=True)
class FileOrUrl(_TextType):
    """A path, as :class:`FilePath`, or an http:// or https:// URL; what people see of a URL has no secrets."""

    metavar: str = "FILE|URL"
    expects: str = "a path, or an http:// or https:// URL"

    def from_text(self, text: str) -> str:
        if not self.is_url(text):
            return str(FilePath().from_text(text))
        if not urlsplit(text).hostname:
            raise self.refuse_text(text)
        return text

    def to_text(self, value: Any) -> str:
        text = str(value)
        if not self.is_url(text):
            return text
        parts = urlsplit(text)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @staticmethod
    def is_url(text: str) -> bool:
        return text.startswith(("http://", "https://"))


_URL_PATH: Final = r"/?[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*/?|/?"


@dataclass(frozen=True, slots=True)
class UrlPath(_TextType):
    """The path of a URL, as ``/a/b``: one slash in front, none at the end.  ``/`` alone is the empty path."""

    metavar: str = "PATH"
    expects: str = "the path of a URL: letters, digits, -, ., _ and ~ between slashes"

    def from_text(self, text: str) -> str:
        if re.fullmatch(_URL_PATH, text, re.ASCII) is None:
            raise self.refuse_text(text)
        path = text.strip("/")
        return f"/{path}" if path else ""

    def schema(self) -> Schema:
        return {"type": "string", "pattern": f"^({_URL_PATH})$"}
