"""What a setting's value may be: how it is read from text and from TOML, and what is allowed.

A flag and an environment variable bring text; a settings file brings TOML values, which are
checked for their type and then go the same way.  Every kind can say in a few words what it
allows, so that the error for a bad value is complete.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from fastnode.records import dataclass

__all__ = [
    "Amount",
    "Boolean",
    "Choice",
    "FileOrUrl",
    "FilePath",
    "HexText",
    "HexTextList",
    "Integer",
    "Kind",
    "Number",
    "Seconds",
    "Size",
    "Text",
    "TextList",
    "UrlPath",
]


class Kind(Protocol):
    """``read`` raises ValueError without a message; the caller names the setting and ``allowed``."""

    @property
    def metavar(self) -> str:
        """The placeholder in --help."""

    @property
    def allowed(self) -> str:
        """What is allowed, to follow "allowed: "."""

    def read(self, text: str) -> Any:
        """The value that the text stands for."""

    def read_toml(self, value: object) -> Any:
        """The value that a TOML value stands for."""

    def show(self, value: Any) -> str:
        """The value as it would be written on the command line."""


@dataclass(frozen=True, slots=True)
class Boolean:
    metavar: str = ""
    allowed: str = "1, true, 0 or false"

    def read(self, text: str) -> bool:
        try:
            return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
        except KeyError:
            raise ValueError from None

    def read_toml(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        raise ValueError

    def show(self, value: Any) -> str:
        return "true" if value else "false"


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number from ``minimum`` to ``maximum``, both included."""

    minimum: int
    maximum: int
    metavar: str = "N"

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.minimum} to {self.maximum}"

    def read(self, text: str) -> int:
        if re.fullmatch(r"[+-]?[0-9]{1,20}", text) is None:
            raise ValueError
        return self._checked(int(text))

    def read_toml(self, value: object) -> int:
        if type(value) is not int:  # bool is an int in Python, not in TOML
            raise ValueError
        return self._checked(value)

    def show(self, value: Any) -> str:
        return str(value)

    def _checked(self, value: int) -> int:
        if not self.minimum <= value <= self.maximum:
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Amount:
    """A whole number of the smallest unit of a token, up to 256 bits; in TOML and JSON also as a string of digits."""

    metavar: str = "N"
    allowed: str = "a whole number from 0 to 2^256 - 1"

    def read(self, text: str) -> int:
        if re.fullmatch(r"[0-9]{1,78}", text) is None:
            raise ValueError
        return self._checked(int(text))

    def read_toml(self, value: object) -> int:
        if isinstance(value, str):
            return self.read(value)
        if type(value) is not int:
            raise ValueError
        return self._checked(value)

    def show(self, value: Any) -> str:
        return str(value)

    def _checked(self, value: int) -> int:
        if not 0 <= value < 1 << 256:
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Number:
    """A number, fractions included, from ``minimum`` (or above it, if ``above_minimum``) to ``maximum``.

    A whole number is read as an int, so that it is shown as it was written.
    """

    minimum: float
    maximum: float
    above_minimum: bool = False
    metavar: str = "X"

    @property
    def allowed(self) -> str:
        return f"a number {'above' if self.above_minimum else 'from'} {self.minimum:g} to {self.maximum:g}"

    def read(self, text: str) -> float:
        if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text) is None:
            raise ValueError
        return self._checked(float(text))

    def read_toml(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        return self._checked(value)

    def show(self, value: Any) -> str:
        return str(value)

    def _checked(self, value: float) -> float:
        if not self.minimum <= value <= self.maximum or (self.above_minimum and value == self.minimum):
            raise ValueError
        return int(value) if int(value) == value else value


@dataclass(frozen=True, slots=True)
class Seconds:
    """A number of seconds, fractions included."""

    minimum: float
    maximum: float
    metavar: str = "SECONDS"

    @property
    def allowed(self) -> str:
        return f"seconds from {self.minimum:g} to {self.maximum:g}"

    def read(self, text: str) -> float:
        if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", text) is None:
            raise ValueError
        return self._checked(float(text))

    def read_toml(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        return self._checked(float(value))

    def show(self, value: Any) -> str:
        return f"{value:g}"

    def _checked(self, value: float) -> float:
        if not self.minimum <= value <= self.maximum:
            raise ValueError
        return value


#: Multiples of a size's unit; 1mb is 1,048,576 bytes, as the network's other nodes read it.
_UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


@dataclass(frozen=True, slots=True)
class Size:
    """A number of bytes, written as digits with an optional unit: ``65536``, ``512kb``, ``1mb``."""

    minimum: int
    maximum: int
    metavar: str = "SIZE"

    @property
    def allowed(self) -> str:
        return f"{self.show(self.minimum)} to {self.show(self.maximum)}, in bytes or with b, kb, mb or gb"

    def read(self, text: str) -> int:
        match = re.fullmatch(r"([0-9]{1,15}) ?(|b|kb|mb|gb)", text.lower())
        if match is None:
            raise ValueError
        return self._checked(int(match[1]) * _UNITS[match[2]])

    def read_toml(self, value: object) -> int:
        if isinstance(value, str):
            return self.read(value)
        if type(value) is not int:
            raise ValueError
        return self._checked(value)

    def show(self, value: Any) -> str:
        for unit in ("gb", "mb", "kb"):
            if value and value % _UNITS[unit] == 0:
                return f"{value // _UNITS[unit]}{unit}"
        return str(value)

    def _checked(self, value: int) -> int:
        if not self.minimum <= value <= self.maximum:
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words; ``synonyms`` are read as the word they point to."""

    choices: tuple[str, ...]
    synonyms: tuple[tuple[str, str], ...] = ()

    @property
    def metavar(self) -> str:
        return "|".join(self.choices)

    @property
    def allowed(self) -> str:
        return " or ".join((", ".join(self.choices[:-1]), self.choices[-1]))

    def read(self, text: str) -> str:
        word = dict(self.synonyms).get(text.lower(), text.lower())
        if word not in self.choices:
            raise ValueError
        return word

    def read_toml(self, value: object) -> str:
        # `rpc-error-status = 400` is what one writes, so a number may stand for its word.
        if isinstance(value, str) or type(value) is int:
            return self.read(str(value))
        raise ValueError

    def show(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Text:
    metavar: str = "TEXT"
    allowed: str = "text that is not empty"

    def read(self, text: str) -> str:
        if not text or "\0" in text:
            raise ValueError
        return text

    def read_toml(self, value: object) -> str:
        if isinstance(value, str):
            return self.read(value)
        raise ValueError

    def show(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class TextList:
    """Several texts: a flag that may be repeated, a list in TOML, and commas everywhere."""

    metavar: str = "TEXT"
    allowed: str = "one or more texts, separated by commas"

    def read(self, text: str) -> tuple[str, ...]:
        parts = tuple(part.strip() for part in text.split(","))
        if not all(parts) or "\0" in text:
            raise ValueError
        return parts

    def read_toml(self, value: object) -> tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return self.read(",".join(value))
        if isinstance(value, str):
            return self.read(value)
        raise ValueError

    def show(self, value: Any) -> str:
        return ",".join(value)


@dataclass(frozen=True, slots=True)
class HexText:
    """``byte_count`` bytes as ``0x`` and lower-case hex digits."""

    byte_count: int
    metavar: str = "ADDRESS"

    @property
    def allowed(self) -> str:
        return f"0x and {2 * self.byte_count} hex digits"

    def read(self, text: str) -> str:
        if re.fullmatch(rf"0x[0-9a-fA-F]{{{2 * self.byte_count}}}", text, re.ASCII) is None:
            raise ValueError
        return text.lower()

    def read_toml(self, value: object) -> str:
        if isinstance(value, str):
            return self.read(value)
        raise ValueError

    def show(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class HexTextList:
    """Several :class:`HexText`: a flag that may be repeated, a list in TOML, and commas everywhere."""

    byte_count: int
    metavar: str = "ADDRESS"

    @property
    def allowed(self) -> str:
        return f"0x and {2 * self.byte_count} hex digits each, separated by commas"

    def read(self, text: str) -> tuple[str, ...]:
        return tuple(HexText(self.byte_count).read(part.strip()) for part in text.split(",")) if text else ()

    def read_toml(self, value: object) -> tuple[str, ...]:
        if isinstance(value, list):
            return tuple(HexText(self.byte_count).read_toml(item) for item in value)
        if isinstance(value, str):
            return self.read(value)
        raise ValueError

    def show(self, value: Any) -> str:
        return ",".join(value)


@dataclass(frozen=True, slots=True)
class FilePath:
    """A path; ``~`` is expanded, nothing is looked up yet."""

    metavar: str = "PATH"
    allowed: str = "a path"

    def read(self, text: str) -> Path:
        if not text or "\0" in text:
            raise ValueError
        try:
            return Path(text).expanduser()
        except RuntimeError:  # "~name" of a user who does not exist
            raise ValueError from None

    def read_toml(self, value: object) -> Path:
        if isinstance(value, str):
            return self.read(value)
        raise ValueError

    def show(self, value: Any) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class FileOrUrl:
    """A path, as :class:`FilePath`, or an http:// or https:// URL; what people see of a URL has no secrets."""

    metavar: str = "FILE|URL"
    allowed: str = "a path, or an http:// or https:// URL"

    def read(self, text: str) -> str:
        if not self.is_url(text):
            return str(FilePath().read(text))
        if not urlsplit(text).hostname:
            raise ValueError
        return text

    def read_toml(self, value: object) -> str:
        if isinstance(value, str):
            return self.read(value)
        raise ValueError

    def show(self, value: Any) -> str:
        text = str(value)
        if not self.is_url(text):
            return text
        parts = urlsplit(text)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @staticmethod
    def is_url(text: str) -> bool:
        return text.startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True)
class UrlPath:
    """The path of a URL, as ``/a/b``: one slash in front, none at the end.  ``/`` alone is the empty path."""

    metavar: str = "PATH"
    allowed: str = "the path of a URL: letters, digits, -, ., _ and ~ between slashes"

    def read(self, text: str) -> str:
        if re.fullmatch(r"/?[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*/?|/?", text, re.ASCII) is None:
            raise ValueError
        path = text.strip("/")
        return f"/{path}" if path else ""

    def read_toml(self, value: object) -> str:
        if isinstance(value, str):
            return self.read(value)
        raise ValueError

    def show(self, value: Any) -> str:
        return str(value)
