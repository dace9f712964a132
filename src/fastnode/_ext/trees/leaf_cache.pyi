"""Tiles of an indexed tree and leaves of them that were asked for, as the newest block has left them.

Tiles and leaf records are drawn in world_state/layout.py.
"""

from collections.abc import Iterable
from typing import final

#: Memory that one place may take: a tile and its 32 leaves.
PLACE_BYTES: int

@final
class LeafCache:
    """At most ``bytes_max`` bytes, none below ``PLACE_BYTES``.  A tile has one place, which the next one that
    belongs there takes, with all leaves of the last.

    What is here was read from the database, where its checksum was verified, and is what the newest block left: a
    block that changes tiles drops them, and an undo drops all.  Only views of the newest state may read it and add to
    it: those that were made when :attr:`generation` was what it is now.  Whoever reads the database lets others run
    meanwhile, so what is added says at which generation its reader was made.

    A leaf says itself which keys it is the low leaf of.  A table by the upper bits of keys says where to look: it may
    be wrong at any time, and then the leaf is only not found.
    """

    def __init__(self, bytes_max: int) -> None: ...
    @property
    def generation(self) -> int:
        """Number of times that something was dropped."""

    def drop(self, tiles: Iterable[int]) -> None:
        """These tiles and their leaves have changed."""

    def clear(self) -> None:
        """Anything may have changed."""

    def has_room_for(self, size: int) -> bool:
        """True where all leaves of a tree of ``size`` can be here; a negative size is one that is not known."""

    def memory_bytes(self) -> int: ...
    def tile(self, index: int) -> bytes | None:
        """A tile, None if it is not here."""

    def keep_tile(self, index: int, tile: bytes, generation: int) -> None: ...
    def low(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Key and record of the leaf with the greatest key <= ``key``, None if it is not here.  ValueError for a key
        that is not 32 bytes."""

    def keep_leaf(self, asked: bytes, key: bytes, record: bytes, generation: int) -> None:
        """Keep the leaf that was found for the key ``asked``.  ValueError for what is no key or no leaf record."""
