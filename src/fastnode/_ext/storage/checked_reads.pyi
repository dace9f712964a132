"""Reads of a LevelDB snapshot that verify checksums and say in one place what went wrong.

LevelDB maps its tables, so a block is checked each time it is looked at: there is no instant at which it was "read from
disk".  What plyvel raises goes to ``error_of``, which returns what is raised instead.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, final

@final
class CheckedSnapshot:
    """A snapshot of plyvel.  Usable from any thread; close it once, when nothing reads from it.

    ``is_text`` has a byte for each first byte of a key: 1 if values are texts, which may be packed (``stored_text``).
    """

    def __init__(
        self, snapshot: Any, error_of: Callable[[Exception], Exception], is_text: bytes = bytes(256)
    ) -> None: ...
    def get(self, key: bytes) -> bytes | None:
        """A value, unpacked."""

    def iterator(self, **bounds: Any) -> CheckedIterator:
        """Keys and values, as they are stored, within plyvel's ``start``, ``stop``, ``prefix``, ...; close it, or use
        it in ``with``."""

    def raw_iterator(self) -> CheckedSeeks:
        """For seeks; once one of them has failed, throw it away."""

    def close(self) -> None: ...

@final
class CheckedIterator:
    """An iterator of plyvel."""

    def __init__(self, entries: Any, error_of: Callable[[Exception], Exception]) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def close(self) -> None: ...

@final
class CheckedSeeks:
    """A raw iterator of plyvel."""

    def __init__(self, raw: Any, error_of: Callable[[Exception], Exception]) -> None: ...
    def first(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Key and value of the first entry at or after ``key``; None if there is none."""

    @property
    def close(self) -> Callable[[], None]: ...
