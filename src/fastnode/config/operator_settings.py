"""The settings of the admin port and of what an operator gives the node to work with."""

from __future__ import annotations

from dataclasses import dataclass

from fastnode.config.kinds import Boolean, Text
from fastnode.config.table import setting

__all__ = ["AdminSettings"]

ADMIN = "Admin interface"


@dataclass(frozen=True, kw_only=True)
class AdminSettings:
    admin_api_key_hash: str | None = setting(
        None,
        Text(metavar="HASH", allowed="the SHA-256 of a key as 64 lower-case hex digits"),
        ADMIN,
        "SHA-256 of the text of the key that the admin port asks for, as 64 lower-case hex digits.",
        secret=True,
    )
    disable_admin_api_key: bool = setting(
        False,
        Boolean(),
        ADMIN,
        "Let everybody who reaches the admin port use it.",
    )
    reset_admin_api_key: bool = setting(
        False,
        Boolean(),
        ADMIN,
        "Make a new key for the admin port; the old one is not good any more.",
    )
