"""Admission to a port: asked when a request's headers are complete, before anything else looks at it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fastnode.http.messages import Response

__all__ = ["RequestGuard"]


class RequestGuard(Protocol):
    """Must not raise.  What it does not admit gets ``refusal``; the body is not read and the connection ends."""

    @property
    def refusal(self) -> Response: ...

    def admits(self, method: bytes, target: bytes, headers: Mapping[bytes, bytes]) -> bool:
        """``headers`` has lower-case names; equal names are joined by ``, ``."""
