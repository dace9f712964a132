"""Ids of the nodes that a node follows, told in each answer, so that none follows itself or goes round in a ring.

    x-fastnode-lineage: 5f0c1d2e3a4b5c6d 0123456789abcdef ...       its own id, then those of all that it follows

Ids are made anew at each start.  A node that finds its own in what another one says does not follow that one.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["LINEAGE_HEADER", "Lineage", "new_id"]

LINEAGE_HEADER: Final = "x-fastnode-lineage"
#: Ids that are told and read of another node.
IDS_MAX: Final = 32
_TEXT: Final = re.compile(r"[0-9a-f]{16}( [0-9a-f]{16})*", re.ASCII)


def new_id() -> str:
    """Id of a node from now on."""
    return secrets.token_hex(8)


class Lineage:
    """``own``: the id, where another process of the node has made it.  Usable from any thread."""

    def __init__(self, own: str | None = None) -> None:
        self.own: Final = own or new_id()
        self._lock = threading.Lock()
        self._followed: dict[str, tuple[str, ...]] = {}
        self._watchers: list[Callable[[], None]] = []
        self.text = self.own

    @property
    def header(self) -> tuple[str, str]:
        return LINEAGE_HEADER, self.text

    def watch(self, on_changed: Callable[[], None]) -> None:
        """Tell of each change from now on, in the thread that made it."""
        self._watchers.append(on_changed)

    def hear(self, name: str, headers: Mapping[str, str]) -> str | None:
        """Note what the followed node ``name`` says in its headers, by names in lower case; why it must not be
        followed, None if it may be.
        """
        text = headers.get(LINEAGE_HEADER, "")
        ids = tuple(text.split(" ")[:IDS_MAX]) if _TEXT.fullmatch(text) else ()
        if self.own not in ids:
            self._set(name, ids)
            return None
        return "it is this node itself" if ids[0] == self.own else "it follows this node, so it must not be followed"

    def forget(self, name: str) -> None:
        """The node of this name is not followed any more."""
        self._set(name, ())

    def _set(self, name: str, ids: tuple[str, ...]) -> None:
        if self._followed.get(name, ()) == ids:
            return
        with self._lock:
            self._followed[name] = ids
            known = dict.fromkeys((self.own, *(each for ids in self._followed.values() for each in ids)))
            self.text = " ".join(list(known)[:IDS_MAX])
        for on_changed in self._watchers:
            on_changed()
