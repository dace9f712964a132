"""Options of this node in a fleet, from its settings."""

from __future__ import annotations

import hashlib
import re
import secrets
import socket
from pathlib import Path
from typing import Final, Self

from fastnode.config.settings import Settings
from fastnode.errors import SettingError
from fastnode.records import dataclass

__all__ = ["BusOptions"]

_SCHEMES: Final = ("nats://", "tls://")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_HOST_MAX: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class BusOptions:
    """``name`` is different for each node of the fleet, and stays with a data directory."""

    urls: tuple[str, ...]
    name: str
    credentials: Path | None = None
    nkey: Path | None = None
    tls_ca: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    replicas: int = 1
    keeps_all: bool = True
    bytes_max: int = 0
    tx_s: float = 6 * 3600.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """SettingError for what makes no sense."""
        urls = settings.bus_url or ()
        for url in urls:
            if not url.startswith(_SCHEMES):
                raise SettingError("--bus-url: expected nats://HOST:PORT or tls://HOST:PORT")
        if settings.bus_name is not None and _NAME.fullmatch(settings.bus_name) is None:
            raise SettingError(f"--bus-name {settings.bus_name!r}: up to 64 letters, digits, _ and - make a name")
        if (settings.bus_tls_certificate is None) != (settings.bus_tls_key is None):
            raise SettingError("--bus-tls-certificate and --bus-tls-key go together")
        for path in (settings.bus_credentials, settings.bus_nkey, settings.bus_tls_ca, settings.bus_tls_certificate):
            if path is not None and not path.is_file():
                raise SettingError(f"{path}: there is no such file for the bus")
        return cls(
            urls=urls,
            name=settings.bus_name or _usual_name(settings.data_directory),
            credentials=settings.bus_credentials,
            nkey=settings.bus_nkey,
            tls_ca=settings.bus_tls_ca,
            tls_certificate=settings.bus_tls_certificate,
            tls_key=settings.bus_tls_key,
            replicas=settings.bus_replicas,
            keeps_all=settings.bus_retention == "chain",
            bytes_max=settings.bus_max_mb << 20,
            tx_s=settings.bus_tx_hours * 3600.0,
        )


def _usual_name(directory: Path | None) -> str:
    host = _NO_NAME.sub("-", socket.gethostname())[:_HOST_MAX]
    if directory is None:
        return f"{host}-{secrets.token_hex(4)}"
    return f"{host}-{hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:8]}"
